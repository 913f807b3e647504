"""A linear program recorded while dual numbers pass through a network.

On dual numbers every operation computes a value and a tangent. The tangents' operations are linear
in the tangent of the parameters and use values only as constants; recorded once, they give J v for
any v without computing values again: two matrix products a linear layer instead of three. Their
transpose is what autograd records beside it (`linearisation.py`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from penchant_numerics.jacobians.compact_records import Packed, Positions, Shape, Signs
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten


class NotRecordableError(RuntimeError):
    """An operation that cannot be played again; the message names it."""


class Slot(NamedTuple):
    """The position of a tangent."""

    number: int


class Step(NamedTuple):
    """One operation."""

    operation: Any
    arguments: list[Any]  # flattened, tangents among them as slots
    spec: TreeSpec  # how they were nested
    outputs: list[int | None]  # the slots its tensors go to
    writes: bool  # whether it changes a tangent in place
    ends: list[int]  # slots that no later step needs


class Tape(TorchDispatchMode):
    """Records every operation that a tangent reaches.

    `finish` closes it, `play` runs it on other tangents. A tensor is known by storage, offset,
    shape and strides, because autograd hands out views of one tensor under new identities.
    Everything seen is stored until the end, so that no storage is used twice.

    Args:
        tangents: Tangents of the parameters.

    >>> start = torch.tensor([1.0, 2.0], device="cpu")
    >>> with Tape([start]) as tape:
    ...     result = 3 * start
    >>> tape.finish(result)
    >>> tape.play([torch.tensor([5.0, 0.0], device="cpu")]).tolist()
    [15.0, 0.0]
    """

    def __init__(self, tangents: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.steps: list[Step] = []
        self._slots: dict[tuple[Any, ...], int] = {}
        self._live: set[int] = set()  # storages of tangents
        self._constants: set[int] = set()  # storages of values that steps use
        self._held: list[Tensor] = []
        for tangent in tangents:
            self._position(tangent)

    # ---- recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute, and note what a tangent reached."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)

        # a constant of the tape must not change after it was noted
        flat, spec = tree_flatten((args, kwargs))
        written = _written(func, flat, spec)
        if any(_storage(each) in self._constants for each in written):
            raise NotRecordableError(f"{func} changes in place a value that a tangent needs")
        # only what depends on a tangent has to be played again
        if any(self.is_live(each) for each in flat):
            self._record(func, flat, spec, out, written)
        return out

    def is_live(self, value: Any) -> bool:
        """Whether a value is a tangent, or a view of one."""
        if not isinstance(value, Tensor):
            return False
        return _storage(value) in self._live

    def _record(
        self, func: Any, flat: list[Any], spec: TreeSpec, out: Any, written: list[Tensor]
    ) -> None:
        """Note a step whose arguments have a tangent among them."""
        reads_out = func is torch.ops.aten._local_scalar_dense.default
        if reads_out or any(not self.is_live(each) for each in written):
            raise NotRecordableError(f"{func} writes into, or reads out of, what is not a tangent")
        leaves = tree_leaves(out)
        if not _tensors(leaves):
            return  # a question about shapes

        # tangents by their slots, everything else as it is
        arguments = [self._slot(each) if self.is_live(each) else each for each in flat]
        for constant in _tensors(arguments):
            self._constants.add(_storage(constant))
        outputs = [self._position(each) if isinstance(each, Tensor) else None for each in leaves]
        step = Step(func, arguments, spec, outputs, writes=bool(written), ends=[])
        self.steps.append(step)

    def _position(self, tensor: Tensor) -> int:
        """The number of a new slot for a tangent."""
        number = len(self._held)
        self._slots[_identity(tensor)] = number
        self._live.add(_storage(tensor))
        self._held.append(tensor)
        return number

    def _slot(self, tensor: Tensor) -> Slot:
        """The slot of a tangent that was seen before."""
        number = self._slots.get(_identity(tensor))
        if number is None:
            shape = tuple(tensor.shape)
            raise NotRecordableError(f"a tangent of shape {shape} was not recorded")
        return Slot(number)

    def finish(self, result: Tensor) -> None:
        """Close the tape: `result` is what it computes.

        Steps that do not reach it are dropped, and slots end with their last use.
        """
        self.result = self._slot(result).number
        needed = {self.result}
        steps = []
        for step in reversed(self.steps):
            made = {number for number in step.outputs if number is not None}
            if not step.writes and not needed & made:
                continue
            used = {each.number for each in step.arguments if isinstance(each, Slot)}
            # backwards, the first step that mentions a slot is its last use
            ends = (used | made) - needed
            needed |= used
            steps.append(step._replace(ends=sorted(ends)))
        self.steps = steps[::-1]
        # tangents side by side may lie otherwise in memory, where a view of them is a copy
        if not self.writes:
            self.steps = [_reshaping(step) for step in self.steps]

        # what was stored for recognising tangents
        self._slots = {}
        self._live = set()
        self._held = []
        self._constants = set()

    # ---- playing

    @property
    def writes(self) -> bool:
        """Whether a step changes a tangent in place."""
        return any(step.writes for step in self.steps)

    def play(self, tangents: Sequence[Tensor]) -> Tensor:
        """What the tape computes for other tangents of the parameters."""
        values: dict[int, Tensor] = dict(enumerate(tangents))
        for step in self.steps:
            # arguments as they were, with other tangents in the slots
            flat = []
            for each in step.arguments:
                flat.append(_given(each, values))
            args, kwargs = tree_unflatten(flat, step.spec)
            made = tree_leaves(step.operation(*args, **kwargs))

            # what no later step needs goes
            for number, value in zip(step.outputs, made):
                if number is not None:
                    values[number] = value
            for number in step.ends:
                del values[number]
        return values[self.result]

    def pack(self) -> dict[int, Packed]:
        """Keep constants in smaller forms where steps allow it; gives these by storage."""
        smaller: dict[int, Packed] = {}
        for storage, (tensor, form) in self._smaller_forms().items():
            smaller[storage] = form(tensor)

        # steps are given these from now on
        for number, step in enumerate(self.steps):
            arguments = []
            for each in step.arguments:
                if isinstance(each, Tensor):
                    each = smaller.get(_storage(each), each)
                arguments.append(each)
            self.steps[number] = step._replace(arguments=arguments)
        return smaller

    def _smaller_forms(self) -> dict[int, tuple[Tensor, Any]]:
        """Constants whose every use has the same smaller form, and which."""
        forms: dict[int, tuple[Tensor, Any]] = {}
        whole: set[int] = set()  # storages that are needed as they are
        for step in self.steps:
            for position, each in enumerate(step.arguments):
                if not isinstance(each, Tensor):
                    continue
                form = _smaller_form(step, position)
                storage = _storage(each)
                first, _ = forms.get(storage, (each, None))
                # a view of it would need its own form
                if form is None or _identity(first) != _identity(each):
                    whole.add(storage)
                forms[storage] = (each, form)
        return {key: value for key, value in forms.items() if key not in whole}

    def constants(self) -> dict[int, int]:
        """Bytes of every storage the tape holds, by its identity."""
        sizes = {}
        for step in self.steps:
            for each in _tensors(step.arguments):
                sizes[_storage(each)] = each.untyped_storage().nbytes()
        return sizes


def _reshaping(step: Step) -> Step:
    """A step that gives a view where there is one, and a copy elsewhere."""
    if step.operation is not torch.ops.aten.view.default:
        return step
    return step._replace(operation=torch.ops.aten.reshape.default)


def _given(argument: Any, values: dict[int, Tensor]) -> Any:
    """An argument as an operation takes it."""
    if isinstance(argument, Slot):
        return values[argument.number]
    if isinstance(argument, Signs | Positions | Shape):
        return argument.restore()
    return argument


def _smaller_form(step: Step, position: int) -> Any:
    """The form in which a step can be given a constant; None: as it is."""
    constant = step.arguments[position]
    if not constant.is_contiguous():
        return None
    # a view of something larger stays as it is
    storage = constant.untyped_storage()
    if storage.nbytes() != constant.nbytes:
        return None
    relu = step.operation is torch.ops.aten.threshold_backward.default
    if relu and position == 1 and step.arguments[2] == 0:
        return Signs
    # what is added to a tangent is the tangent of a constant, zero
    if step.operation is torch.ops.aten.add.Tensor and constant.is_floating_point():
        return Shape
    if constant.dtype == torch.int64:
        return Positions
    return None


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among some values."""
    return [value for value in values if isinstance(value, Tensor)]


def _storage(tensor: Tensor) -> int:
    """The identity of the memory a tensor is in."""
    address: int = tensor.untyped_storage()._cdata
    return address


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    """What two tensors share only if they are the same numbers."""
    sizes = zip(tensor.shape, tensor.stride())
    strides = tuple(stride for size, stride in sizes if size > 1)  # those of size 1 mean nothing
    return (_storage(tensor), tensor.storage_offset(), tuple(tensor.shape), strides, tensor.dtype)


def _written(func: Any, flat: list[Any], spec: TreeSpec) -> list[Tensor]:
    """The arguments an operation changes in place."""
    schema = func._schema
    if not schema.is_mutable:
        return []
    # arguments by the names of the operation's schema
    args, kwargs = tree_unflatten(flat, spec)
    names = [argument.name for argument in schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}

    # those that the schema says it writes to
    tensors: list[Tensor] = []
    for argument in schema.arguments:
        alias = argument.alias_info
        changed = alias is not None and alias.is_write
        if changed and argument.name in given:
            tensors += _tensors(tree_leaves(given[argument.name]))
    return tensors
