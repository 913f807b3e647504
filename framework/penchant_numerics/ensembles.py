"""Ensembles: many networks of one architecture with their parameters stacked along a first axis.

Network i is one definite network however it is drawn. Drawing replays, network by network, the
in-place random operations that construction makes on each parameter, which is bit-identical to
constructing and much faster; the first network is made both ways and compared, and where they
differ (an initialisation that cannot be replayed) networks are constructed and stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

State = dict[str, Tensor]


class Drawable(Protocol):
    """What is drawn from: `context.architecture` is one."""

    def seed_of(self, index: int) -> int:
        """What the random numbers of network `index` are seeded with."""

    def build(self, seed: int) -> nn.Module:
        """The network of a seed."""


class Ensemble:
    """Networks with stacked parameters and buffers; `module` says what is done with them.

    Args:
        module: A network of the architecture; its own parameters are not used.
        state: Parameters and buffers by name, (networks, *shape).
        drawer: How they were drawn, `replayed` or `constructed`.
    """

    def __init__(self, module: nn.Module, state: State, drawer: str) -> None:
        self.module = module
        self.state = state
        self.drawer = drawer

    def __len__(self) -> int:
        return len(next(iter(self.state.values())))

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Ensemble:
        """On a device, in a precision; counters stay whole numbers."""
        state = {}
        for name, tensor in self.state.items():
            kind = dtype if tensor.is_floating_point() else tensor.dtype
            state[name] = tensor.to(device, kind)
        module = self.module.to(device, dtype)
        return Ensemble(module, state, self.drawer)

    def map(self, function: Callable[..., Any], *shared: Any) -> Any:
        """A function of all networks at once (vmap).

        Args:
            function: Takes a network, which is callable on a batch of inputs, and what is shared.
            shared: The same for all networks.
        """

        def of_state(state: State) -> Any:
            return function(self._network(state), *shared)

        return torch.vmap(of_state, randomness="error")(self.state)

    def split(self, count: int) -> Iterator[Ensemble]:
        """The same networks in ensembles of at most `count`."""
        for first in range(0, len(self), count):
            last = first + count
            part = {}
            for name, tensor in self.state.items():
                part[name] = tensor[first:last]
            yield Ensemble(self.module, part, self.drawer)

    def each(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """The networks one by one, each a callable."""
        for number in range(len(self)):
            state = {name: tensor[number] for name, tensor in self.state.items()}
            yield self._network(state)

    def _network(self, state: State) -> Callable[[Tensor], Tensor]:
        """The network with this state, a function of a batch."""

        def network(inputs: Tensor) -> Tensor:
            return torch.func.functional_call(self.module, state, (inputs,))

        return network

    def without_biases(self) -> Ensemble:
        """The bias-free networks: every parameter called bias, and every running mean, is zero."""
        # the response to an impulse has no place for what does not depend on the input
        state = {}
        for name, tensor in self.state.items():
            shifts = name.endswith(("bias", "running_mean"))
            state[name] = torch.zeros_like(tensor) if shifts else tensor
        return Ensemble(self.module, state, self.drawer)


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


def state_of(module: nn.Module) -> State:
    """Parameters and buffers of a module by name, without their graph.

    Shared ones are there once; buffers that a checkpoint leaves out are there too.
    """
    state = {}
    for name, parameter in module.named_parameters():
        state[name] = parameter.detach()
    for name, buffer in module.named_buffers():
        state[name] = buffer.detach()
    return state


def draw(
    architecture: Drawable,
    indices: Sequence[int],
    *,
    prepare: Callable[[nn.Module], nn.Module] | None = None,
) -> Ensemble:
    """Networks number `indices`, on the CPU in single precision.

    Args:
        architecture: What is drawn from.
        indices: Which networks.
        prepare: What is done with the module, such as `safety.safe`; it may change its code.

    Returns:
        The ensemble; its `drawer` says how it was drawn.
    """
    seeds = [architecture.seed_of(index) for index in indices]
    module, plan = _recorded(architecture, seeds[0])
    constants = state_of(module)

    # replayed where that gives the first network as it was built, else built one by one
    if plan is not None and _replays(plan, constants, seeds[0]):
        state = replay(plan, constants, seeds)
        drawer = "replayed"
    else:
        others = [state_of(architecture.build(seed)) for seed in seeds[1:]]
        state = _stacked([constants, *others])
        drawer = "constructed"
    module.requires_grad_(False)
    if prepare is not None:
        module = prepare(module)
    return Ensemble(module, state, drawer)


def _stacked(states: Sequence[State]) -> State:
    """One state of many, along a new first axis."""
    stacked = {}
    for name in states[0]:
        stacked[name] = torch.stack([state[name] for state in states])
    return stacked


# ---- replaying a construction


class Operation(NamedTuple):
    """An in-place operation that fills a whole parameter or buffer."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    random: bool


Plan = list[Operation]


class _Recorder(TorchDispatchMode):
    """Notes the in-place operations of a construction, and what cannot be replayed."""

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
        """Note the operation, and let it go on."""
        kwargs = kwargs or {}
        in_place = func._schema.name.endswith("_")
        if in_place and args and isinstance(args[0], Tensor):
            self.operations.append((args[0], func, args[1:], kwargs))
        elif _is_random(func):
            self.random_elsewhere = True
        return func(*args, **kwargs)


def _is_random(operation: Any) -> bool:
    """Whether an operation draws random numbers."""
    return torch.Tag.nondeterministic_seeded in operation.tags


def _recorded(architecture: Drawable, seed: int) -> tuple[nn.Module, Plan | None]:
    """The constructed network, and the operations that fill its tensors.

    There is no plan where a random operation is of another kind than filling a whole tensor.
    """
    recorder = _Recorder()
    with recorder:
        module = architecture.build(seed)
    if recorder.random_elsewhere:
        return module, None

    # a tensor is known by its memory and its shape
    names = {}
    for name, tensor in state_of(module).items():
        if tensor.numel():
            names[tensor.data_ptr(), tensor.shape] = name

    # what fills another tensor, or part of one, is replayed only if it is not random
    plan: Plan = []
    for tensor, operation, arguments, keywords in recorder.operations:
        name = names.get((tensor.data_ptr(), tensor.shape))
        random = _is_random(operation)
        plain = _is_plain(arguments, keywords) and tensor.is_contiguous()
        if name is not None and plain:
            plan.append(Operation(name, operation, arguments, random))
        elif random:
            return module, None
    return module, plan


def _is_plain(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    """Whether an operation takes numbers only, besides the tensor it fills."""
    for part in arguments:
        if isinstance(part, Tensor):
            return False
    return set(keywords) <= {"generator"}


def _replays(plan: Plan, constants: State, seed: int) -> bool:
    """Whether the plan gives the first network as it was constructed."""
    again = replay(plan, constants, [seed])
    equal = []
    for name, tensor in constants.items():
        (first,) = again[name]
        equal.append(torch.equal(first, tensor))
    return all(equal)


def replay(plan: Plan, constants: State, seeds: Sequence[int]) -> State:
    """Fill stacked tensors network by network, tensor by tensor, in the order of construction.

    Args:
        plan: The operations.
        constants: Tensors of one network; what no operation fills stays as it is.
        seeds: One a network.

    Returns:
        The state of all networks, (networks, *shape).
    """
    # every network begins with what no operation fills
    state = {}
    for name, tensor in constants.items():
        state[name] = tensor.expand(len(seeds), *tensor.shape).clone()

    generator = torch.Generator(device="cpu")
    for number, seed in enumerate(seeds):
        generator.manual_seed(seed)
        for name, function, arguments, random in plan:
            drawn = {"generator": generator} if random else {}
            function(state[name][number], *arguments, **drawn)
    return state
