"""Which directions of a basis a probe takes, by their indices."""

from collections.abc import Sequence

from penchant_numerics.refusal import Refusal
from torch import Tensor


def chosen_indices(
    indices: Sequence[int] | None,
    count: int,
    *,
    of: str,
    every: int = 1,
    size: int | None = None,
    hint: str = "",
) -> list[int]:
    """The requested indices, or every `every`-th; each of them must exist, once.

    Args:
        indices: Which directions; negative ones count from the end. None: every `every`-th.
        count: How many directions there are.
        of: What has them, for the message.
        every: The stride where no indices are given.
        size: From where negative indices count; by default the directions there are.
        hint: How there would be more of them, with `{least}` for how many are needed.

    Returns:
        Indices from 0.

    >>> chosen_indices(None, 5, of="the basis", every=2)
    [0, 2, 4]
    >>> chosen_indices([0, -1], 5, of="the basis")
    [0, 4]
    """
    if indices is None:
        return list(range(0, count, every))
    size = count if size is None else size
    chosen = [index + size if index < 0 else index for index in indices]
    if not chosen:
        raise Refusal("indices must name at least one direction, found none")
    for index, given in zip(chosen, indices):
        if not 0 <= index < count:
            possible = index >= 0 and (size == count or index < size)
            more = hint.format(least=index + 1) if possible else ""
            raise Refusal(f"{of} has {count} directions, found index {given}{more}")
    if len(set(chosen)) < len(chosen):
        raise Refusal(f"indices must differ, found {list(indices)}")
    return chosen


def refuse_zero(moment: Tensor, size: int) -> None:
    """Refuse a moment of gradients that are all exactly zero: its directions would be arbitrary.

    Args:
        moment: Its eigenvalues, or the matrix.
        size: Numbers of an input.

    >>> import torch
    >>> refuse_zero(torch.tensor([1.0, 0.0], device="cpu"), 2)
    >>> refuse_zero(torch.zeros(2, device="cpu"), 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.refusal.Refusal: the gradient by each of 2 inputs is exactly zero ...
    """
    if not bool(moment.any()):
        raise Refusal(
            f"the gradient by each of {size} inputs is exactly zero in every network: an "
            "architecture whose output does not depend on its input has no directions"
        )
