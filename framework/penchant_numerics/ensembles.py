"""Ensembles: many networks of one architecture with their parameters stacked along a first axis.

Network i is one definite network however it is drawn. Drawing replays, network by network, the in-place random operations that
construction makes on each parameter, which is bit-identical to constructing and much faster; the first network is made
both ways and compared, and where they differ (an initialisation that cannot be replayed) networks are constructed and stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

State = dict[str, Tensor]


class Drawable(Protocol):
    """What is drawn from: `context.architecture` is one."""

    def seed_of(self, index: int) -> int: ...
    def build(self, seed: int) -> nn.Module: ...


class Ensemble:
    """Networks with stacked parameters and buffers; `module` says what is done with them."""

    def __init__(self, module: nn.Module, state: State, drawer: str) -> None:
        self.module, self.state, self.drawer = module, state, drawer

    def __len__(self) -> int:
        return len(next(iter(self.state.values())))

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Ensemble:
        """On a device, in a precision; counters stay whole numbers."""
        state = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in self.state.items()
        }
        return Ensemble(self.module.to(device, dtype), state, self.drawer)

    def map(self, function: Callable[..., Any], *shared: Any) -> Any:
        """`function(network, *shared)` for all networks at once (vmap); `network` is callable on a batch of inputs."""
        return torch.vmap(
            lambda state: function(self._network(state), *shared), randomness="error"
        )(self.state)

    def split(self, count: int) -> Iterator[Ensemble]:
        """The same networks in ensembles of at most `count`."""
        for first in range(0, len(self), count):
            part = {name: tensor[first : first + count] for name, tensor in self.state.items()}
            yield Ensemble(self.module, part, self.drawer)

    def each(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """The networks one by one, each a callable."""
        for number in range(len(self)):
            yield self._network({name: tensor[number] for name, tensor in self.state.items()})

    def _network(self, state: State) -> Callable[[Tensor], Tensor]:
        return lambda inputs: torch.func.functional_call(self.module, state, (inputs,))

    def without_biases(self) -> Ensemble:
        """The bias-free networks: every parameter called bias, and every running mean, is zero."""
        zeroed = {
            name: torch.zeros_like(t) if name.endswith(("bias", "running_mean")) else t
            for name, t in self.state.items()
        }
        return Ensemble(self.module, zeroed, self.drawer)


def constructed(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A network built from a seed, on the CPU, without a trace in the global random state.

    Modules initialise themselves from the global random numbers, so these are seeded in a fork.

    Args:
        make: Builds the network.
        seed: What the random numbers are seeded with.

    >>> first, again = (constructed(lambda: nn.Linear(2, 1), 7) for _ in range(2))
    >>> torch.equal(first.weight, again.weight)
    True
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        return make()


def draw(
    architecture: Drawable,
    indices: Sequence[int],
    *,
    prepare: Callable[[nn.Module], nn.Module] | None = None,
) -> Ensemble:
    """Networks number `indices`, on the CPU in single precision; `prepare` (such as `safety.safe`) may change the module's code."""
    seeds = [architecture.seed_of(index) for index in indices]
    module, plan = _recorded(architecture, seeds[0])
    constants = state_of(module)
    first = replay(plan, constants, seeds[:1]) if plan is not None else None
    if first is not None and all(
        torch.equal(first[name][0], tensor) for name, tensor in constants.items()
    ):
        state, drawer = replay(plan, constants, seeds), "replayed"
    else:
        networks = [constants, *(state_of(architecture.build(seed)) for seed in seeds[1:])]
        state = {name: torch.stack([network[name] for network in networks]) for name in constants}
        drawer = "constructed"
    module.requires_grad_(False)
    return Ensemble(prepare(module) if prepare else module, state, drawer)


def state_of(module: nn.Module) -> State:
    tensors = [
        *module.named_parameters(),
        *module.named_buffers(),
    ]  # shared ones once, non-persistent ones too
    return {name: tensor.detach() for name, tensor in tensors}


class _Recorder(TorchDispatchMode):
    """Notes the in-place operations of a construction on whole tensors, and what cannot be replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Tensor, Any, tuple[Any, ...], dict[str, Any]]] = []
        self.random_elsewhere = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        random = torch.Tag.nondeterministic_seeded in func.tags
        in_place = func._schema.name.endswith("_") and args and isinstance(args[0], Tensor)
        if in_place:
            self.operations.append((args[0], func, args[1:], kwargs))
        elif random:
            self.random_elsewhere = True
        return func(*args, **kwargs)


Plan = list[tuple[str, Any, tuple[Any, ...], bool]]


def _recorded(architecture: Drawable, seed: int) -> tuple[nn.Module, Plan | None]:
    """The constructed network and the operations that fill its tensors, or None where they are of another kind."""
    recorder = _Recorder()
    with recorder:
        module = architecture.build(seed)
    names = {
        (tensor.data_ptr(), tensor.shape): name
        for name, tensor in state_of(module).items()
        if tensor.numel()
    }
    plan: Plan = []
    for tensor, operation, arguments, keywords in recorder.operations:
        name = names.get((tensor.data_ptr(), tensor.shape))
        random = torch.Tag.nondeterministic_seeded in operation.tags
        plain = not any(isinstance(part, Tensor) for part in arguments) and set(keywords) <= {
            "generator"
        }
        if name is not None and plain and tensor.is_contiguous():
            plan.append((name, operation, arguments, random))
        elif random:
            return module, None
    return module, None if recorder.random_elsewhere else plan


def replay(plan: Plan, constants: State, seeds: Sequence[int]) -> State:
    """Fill stacked tensors network by network, tensor by tensor, in the order of construction."""
    state = {
        name: tensor.expand(len(seeds), *tensor.shape).clone() for name, tensor in constants.items()
    }
    generator = torch.Generator(device="cpu")
    for number, seed in enumerate(seeds):
        generator.manual_seed(seed)
        for name, operation, arguments, random in plan:
            operation(
                state[name][number], *arguments, **({"generator": generator} if random else {})
            )
    return state
