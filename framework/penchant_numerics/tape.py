"""A linear program recorded while dual numbers pass through a network.

On dual numbers every operation computes a value and a tangent. The tangents' operations are linear in the tangent of the
parameters and use values only as constants; recorded once, they give J v for any v without computing values again: two matrix
products a linear layer instead of three. Their transpose is what autograd records beside it (`linearisation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten


class NotRecordableError(RuntimeError):
    """An operation that cannot be played again; the message names it."""


class Slot(NamedTuple):
    """The place of a tangent."""

    number: int


class Step(NamedTuple):
    """One operation: arguments flattened, tangents among them as slots; where its tensors go; which slots end with it."""

    operation: Any
    arguments: list[Any]
    spec: TreeSpec
    outputs: list[int | None]
    writes: bool
    ends: list[int]


class Tape(TorchDispatchMode):
    """Records every operation that a tangent reaches; `finish` closes it, `play` runs it on other tangents.

    A tensor is known by storage, offset, shape and strides, because autograd hands out views of one tensor under new
    identities. Everything seen is kept until the end, so that no storage is used twice.
    """

    def __init__(self, tangents: Sequence[Tensor]) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._slots: dict[tuple[Any, ...], int] = {}
        self._live: set[int] = set()
        self._held: list[Tensor] = []
        self._constants: set[int] = set()
        for tangent in tangents:
            self._place(tangent)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        flat, spec = tree_flatten((args, kwargs or {}))
        written = _written(func, flat, spec)
        if any(each.untyped_storage()._cdata in self._constants for each in written):
            raise NotRecordableError(f"{func} changes in place a value that a tangent needs")
        if any(self._is_live(each) for each in flat):
            self._record(func, flat, spec, out, written)
        return out

    def _is_live(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.untyped_storage()._cdata in self._live

    def _record(
        self, func: Any, flat: list[Any], spec: TreeSpec, out: Any, written: list[Tensor]
    ) -> None:
        if (
            any(not self._is_live(each) for each in written)
            or func is torch.ops.aten._local_scalar_dense.default
        ):
            raise NotRecordableError(f"{func} writes into, or reads out of, what is not a tangent")
        if not any(isinstance(each, Tensor) for each in tree_leaves(out)):
            return  # a question about shapes
        arguments = [self._slot(each) if self._is_live(each) else each for each in flat]
        self._constants |= {
            each.untyped_storage()._cdata for each in arguments if isinstance(each, Tensor)
        }
        outputs = [
            self._place(each) if isinstance(each, Tensor) else None for each in tree_leaves(out)
        ]
        self.steps.append(Step(func, arguments, spec, outputs, bool(written), []))

    def _place(self, tensor: Tensor) -> int:
        number = len(self._held)
        self._slots[_identity(tensor)] = number
        self._live.add(tensor.untyped_storage()._cdata)
        self._held.append(tensor)
        return number

    def _slot(self, tensor: Tensor) -> Slot:
        try:
            return Slot(self._slots[_identity(tensor)])
        except KeyError:
            raise NotRecordableError(
                f"a tangent of shape {tuple(tensor.shape)} came from nowhere"
            ) from None

    def finish(self, result: Tensor) -> None:
        """Close the tape: `result` is what it computes. Steps that do not reach it are dropped, slots end with their last use."""
        self.result = self._slot(result).number
        needed, kept = {self.result}, []
        for step in reversed(self.steps):
            if not step.writes and not needed.intersection(step.outputs):
                continue
            used = {each.number for each in step.arguments if isinstance(each, Slot)}
            ends = sorted((used | {out for out in step.outputs if out is not None}) - needed)
            needed |= used
            kept.append(step._replace(ends=ends))
        self.steps = kept[::-1]
        self._slots, self._live, self._held, self._constants = {}, set(), [], set()

    @property
    def writes(self) -> bool:
        """Whether a step changes a tangent in place."""
        return any(step.writes for step in self.steps)

    def play(self, tangents: Sequence[Tensor]) -> Tensor:
        """What the tape computes for other tangents of the parameters."""
        values: dict[int, Tensor] = dict(enumerate(tangents))
        for step in self.steps:
            flat = [
                values[each.number] if isinstance(each, Slot) else each for each in step.arguments
            ]
            args, kwargs = tree_unflatten(flat, step.spec)
            for number, value in zip(step.outputs, tree_leaves(step.operation(*args, **kwargs))):
                if number is not None:
                    values[number] = value
            for number in step.ends:
                del values[number]
        return values[self.result]

    def constants(self) -> dict[int, int]:
        """Bytes of every storage the tape keeps, by its identity."""
        tensors = [
            each for step in self.steps for each in step.arguments if isinstance(each, Tensor)
        ]
        return {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in tensors}


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    strides = tuple(
        stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1
    )  # those of size 1 mean nothing
    return (
        tensor.untyped_storage()._cdata,
        tensor.storage_offset(),
        tuple(tensor.shape),
        strides,
        tensor.dtype,
    )


def _written(func: Any, flat: list[Any], spec: TreeSpec) -> list[Tensor]:
    """The arguments an operation changes in place."""
    if not func._schema.is_mutable:
        return []
    args, kwargs = tree_unflatten(flat, spec)
    given = {**dict(zip([argument.name for argument in func._schema.arguments], args)), **kwargs}
    names = [
        each.name
        for each in func._schema.arguments
        if each.alias_info is not None and each.alias_info.is_write
    ]
    return [
        leaf
        for name in names
        if name in given
        for leaf in tree_leaves(given[name])
        if isinstance(leaf, Tensor)
    ]
