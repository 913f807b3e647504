"""Ensembles: many networks of one architecture with their parameters stacked along a first axis.

Network i is one definite network however it is sampled. Sampling replays, network by network, the
in-place random operations that construction makes on each parameter, which is bit-identical to
constructing and much faster; the first network and another one are made both ways and compared,
and where they differ (an initialisation that cannot be replayed) networks are constructed and
stacked.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import copy
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

M = TypeVar("M", bound=nn.Module)

State = dict[str, Tensor]


class Drawable(Protocol):
    """What is sampled from: `context.architecture` is one."""

    def seed_of(self, index: int) -> int:
        """What the random numbers of network `index` are seeded with."""

    def build(self, seed: int) -> nn.Module:
        """The network of a seed."""


class Ensemble:
    """Networks with stacked parameters and buffers; `module` says what is done with them.

    Args:
        module: A network of the architecture; its own parameters are not used.
        state: Parameters and buffers by name, (networks, *shape).
        sampler: How they were sampled, `replayed` or `constructed`.

    >>> weights = {"weight": torch.tensor([[[1.0]], [[2.0]]], device="cpu")}  # two networks
    >>> networks = Ensemble(nn.Linear(1, 1, bias=False), weights, "constructed")
    >>> networks.map(lambda network, x: network(x), torch.tensor([[3.0]], device="cpu")).flatten()
    tensor([3., 6.])
    """

    def __init__(self, module: nn.Module, state: State, sampler: str) -> None:
        self.module = module
        self.state = state
        self.sampler = sampler

    def __len__(self) -> int:
        first = next(iter(self.state.values()))
        return len(first)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Ensemble:
        """On a device, in a precision; counters stay whole numbers."""
        state = {}
        for name, tensor in self.state.items():
            kind = tensor.dtype
            if tensor.is_floating_point():
                kind = dtype
            # from pinned memory the copy goes on while networks are sampled
            state[name] = tensor.to(device, kind, non_blocking=tensor.is_pinned())
        module = self.module.to(device, dtype)
        return Ensemble(module, state, self.sampler)

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
            state = {}
            for name, tensor in self.state.items():
                state[name] = tensor[first:last]
            yield Ensemble(self.module, state, self.sampler)

    def each(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """The networks one by one, each a callable."""
        for number in range(len(self)):
            state = {}
            for name, tensor in self.state.items():
                state[name] = tensor[number]
            yield self._network(state)

    def _network(self, state: State) -> Callable[[Tensor], Tensor]:
        """The network with this state, a function of a batch."""

        def network(inputs: Tensor) -> Tensor:
            outputs: Tensor = torch.func.functional_call(self.module, state, (inputs,))
            return outputs

        return network

    def without_biases(self) -> Ensemble:
        """The bias-free networks: every parameter called bias, and every running mean, is zero."""
        # the response to an impulse leaves out what does not depend on the input
        state = {}
        for name, tensor in self.state.items():
            shifts = name.endswith(("bias", "running_mean"))
            state[name] = torch.zeros_like(tensor) if shifts else tensor
        return Ensemble(self.module, state, self.sampler)


def constructed(make: Callable[[], M], seed: int) -> M:
    """A network built from a seed, on the CPU, without a trace in the global random state.

    Modules initialise themselves from the global random numbers, so these are seeded in a fork;
    those of other devices stay as they are.

    Args:
        make: Builds the network.
        seed: What the random numbers are seeded with.

    >>> first, again = (constructed(lambda: nn.Linear(2, 1), 7) for _ in range(2))
    >>> torch.equal(first.weight, again.weight)
    True
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        return make()


def state_of(module: nn.Module) -> State:
    """Parameters and buffers of a module by name, without their graph.

    Shared ones are there once; buffers that a checkpoint leaves out are there too.

    >>> list(state_of(nn.BatchNorm1d(2)))
    ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
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

    How an architecture is initialised is recorded once. Networks are filled by as many threads as
    `drawing` says, each with a generator of its own, which changes no bit of them.

    Args:
        architecture: What is sampled from.
        indices: Which networks.
        prepare: What is done with the module, such as `safety.safe`; it may change its code.

    Returns:
        The ensemble; its `sampler` says how it was sampled.

    >>> class Lines:
    ...     def seed_of(self, index):
    ...         return index
    ...
    ...     def build(self, seed):
    ...         return constructed(lambda: nn.Linear(2, 1), seed)
    >>> ensemble = draw(Lines(), [0, 7])
    >>> torch.equal(ensemble.state["weight"][1], Lines().build(7).weight)
    True
    """
    seeds = [architecture.seed_of(index) for index in indices]
    known = _known(architecture, seeds[0])
    if known.plan is not None:
        state = replay(known.plan, known.constants, seeds)
        sampler = "replayed"
    else:
        built = [state_of(architecture.build(seed)) for seed in seeds]
        state = _stacked(built)
        sampler = "constructed"
    module = _own_module(architecture, known, seeds[0])
    if prepare is not None:
        module = prepare(module)
    return Ensemble(module, state, sampler)


def _own_module(architecture: Drawable, known: _Known, seed: int) -> nn.Module:
    """A module that callers may change while they prepare it."""
    try:
        return copy.deepcopy(known.module)
    except RuntimeError:  # tensors with a graph among its attributes cannot be copied
        return architecture.build(seed).requires_grad_(False)


def draw_ahead(
    architecture: Drawable,
    blocks: Iterable[Sequence[int]],
    *,
    prepare: Callable[[nn.Module], nn.Module] | None = None,
) -> Iterator[Ensemble]:
    """Ensembles of blocks of networks; the next is sampled meanwhile, where `drawing` says so.

    Args:
        architecture: What is sampled from.
        blocks: Numbers of the networks of each.
        prepare: What is done with each module.

    Yields:
        The ensembles, in the order of blocks.

    >>> class Lines:
    ...     def seed_of(self, index):
    ...         return index
    ...
    ...     def build(self, seed):
    ...         return constructed(lambda: nn.Linear(2, 1), seed)
    >>> [len(ensemble) for ensemble in draw_ahead(Lines(), [[0, 1], [2]])]
    [2, 1]
    """
    if not _drawing.get().ahead:
        for block in blocks:
            yield draw(architecture, block, prepare=prepare)
        return
    waiting = iter(blocks)
    first = next(waiting, None)
    if first is None:
        return
    # how to draw is found out here: a build must not meet the caller's random state
    _known(architecture, architecture.seed_of(first[0]))
    settings = contextvars.copy_context()
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as sampler:

        def begin(block: Sequence[int]) -> concurrent.futures.Future[Ensemble]:
            return sampler.submit(settings.run, draw, architecture, block, prepare=prepare)

        ahead = begin(first)
        for block in waiting:
            ensemble = ahead.result()
            # networks that must be constructed are not sampled beside the caller
            if ensemble.sampler == "constructed":
                yield ensemble
                ahead = begin(block)
            else:
                ahead = begin(block)
                yield ensemble
        yield ahead.result()


@contextlib.contextmanager
def drawing(threads: int, *, ahead: bool = False, pinned: bool = False) -> Iterator[None]:
    """Let several threads sample networks.

    Args:
        threads: How many.
        ahead: Whether the next networks are sampled while a device works on others.
        pinned: Into memory that a GPU copies from by itself.

    Yields:
        Nothing.
    """
    before = _drawing.set(_Drawing(threads, ahead, pinned))
    try:
        yield
    finally:
        _drawing.reset(before)


def parameter_count(architecture: Drawable, index: int = 0) -> int:
    """The number of parameters of a network of an architecture.

    Args:
        architecture: What is sampled from.
        index: The network that is built where none was built before.

    >>> class Lines:
    ...     def seed_of(self, index):
    ...         return index
    ...
    ...     def build(self, seed):
    ...         return constructed(lambda: nn.Linear(2, 1), seed)
    >>> parameter_count(Lines())
    3
    """
    seed = architecture.seed_of(index)
    known = _known(architecture, seed)
    sizes = [tensor.numel() for tensor in known.module.parameters()]
    return sum(sizes)


def _stacked(states: Sequence[State]) -> State:
    """One state of many, along a new first axis."""
    stacked = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        stacked[name] = torch.stack(tensors)
    return stacked


# ---- replaying a construction


class Operation(NamedTuple):
    """An in-place operation that fills a whole parameter or buffer."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    random: bool


Plan = list[Operation]


class _Known(NamedTuple):
    """How an architecture is sampled."""

    module: nn.Module
    plan: Plan | None  # None where networks must be constructed
    constants: State  # what no operation fills


class _Drawing(NamedTuple):
    """How networks are sampled; see `drawing`."""

    threads: int = 1
    ahead: bool = False
    pinned: bool = False


# by the object that makes networks, which is no other one while it lives
_plans: dict[int, dict[Any, _Known]] = {}
_CURRENT = _Drawing()
_drawing: contextvars.ContextVar[_Drawing] = contextvars.ContextVar("drawing", default=_CURRENT)
_MOST_PINNED = 2**31  # bytes of a stack: torch keeps page-locked memory, which no other may use
_OTHER = 0x5DEECE66D  # makes another seed of one


def _known(architecture: Drawable, seed: int) -> _Known:
    """How an architecture is sampled: found out once, with two networks that are made both ways."""
    # bindings of one component are made and forgotten; shape and outputs tell them apart
    owner = getattr(architecture, "component", architecture)
    shape = getattr(architecture, "shape", None)
    outputs = getattr(architecture, "outputs", None)
    options = (shape, outputs)

    # plans go with their owner
    key = id(owner)
    if key not in _plans:
        _plans[key] = {}
        weakref.finalize(owner, _plans.pop, key)
    known = _plans[key]
    if options not in known:
        module, plan = _recorded(architecture, seed)
        constants = state_of(module)
        if plan is not None:
            other = seed ^ _OTHER
            again = state_of(architecture.build(other))
            same = _replays(plan, constants, seed, constants)
            same = same and _replays(plan, constants, other, again)
            plan = plan if same else None
        module.requires_grad_(False)
        known[options] = _Known(module, plan, constants)
    return known[options]


class _Noted(NamedTuple):
    """An in-place operation, and the tensor that it filled."""

    tensor: Tensor
    operation: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class _Recorder(TorchDispatchMode):
    """Notes the in-place operations of a construction, and what cannot be replayed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.operations: list[_Noted] = []
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
            noted = _Noted(args[0], func, args[1:], kwargs)
            self.operations.append(noted)
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
        filled = names.get((tensor.data_ptr(), tensor.shape))
        random = _is_random(operation)
        plain = _is_plain(arguments, keywords) and tensor.is_contiguous()
        if filled is not None and plain:
            plan.append(Operation(filled, operation, arguments, random))
        elif random:
            return module, None
    return module, plan


def _is_plain(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    """Whether an operation takes numbers only, besides the tensor it fills."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            return False
    return set(keywords) <= {"generator"}


def _replays(plan: Plan, constants: State, seed: int, built: State) -> bool:
    """Whether the plan gives the network of a seed as it was constructed."""
    again = replay(plan, constants, [seed])
    equal = []
    for name, tensor in built.items():
        (first,) = again[name]
        equal.append(torch.equal(first, tensor))
    return all(equal)


def _pins(constants: State, count: int) -> bool:
    """Whether this many networks are sampled in page-locked memory."""
    size = count * sum(tensor.nbytes for tensor in constants.values())
    return _drawing.get().pinned and size <= _MOST_PINNED


def replay(plan: Plan, constants: State, seeds: Sequence[int]) -> State:
    """Fill stacked tensors network by network, tensor by tensor, in the order of construction.

    Args:
        plan: The operations.
        constants: Tensors of one network; what no operation fills stays as it is.
        seeds: One a network.

    Returns:
        The state of all networks, (networks, *shape).
    """
    threads, _, _ = _drawing.get()
    pinned = _pins(constants, len(seeds))
    # every network begins with what no operation fills
    state = {}
    for name, tensor in constants.items():
        shape = (len(seeds), *tensor.shape)
        stack = torch.empty(shape, dtype=tensor.dtype, device="cpu", pin_memory=pinned)
        state[name] = stack.copy_(tensor.expand(shape))

    def fill(number: int) -> None:
        """One network."""
        generator = torch.Generator(device="cpu")
        generator.manual_seed(seeds[number])
        for name, function, arguments, random in plan:
            sampled = {"generator": generator} if random else {}
            function(state[name][number], *arguments, **sampled)

    # one after another, or by threads
    count = len(seeds)
    if threads == 1 or count == 1:
        for number in range(count):
            fill(number)
        return state
    with concurrent.futures.ThreadPoolExecutor(max_workers=threads) as pool:
        # a list, so that what a thread raises is raised here
        list(pool.map(fill, range(count)))
    return state
