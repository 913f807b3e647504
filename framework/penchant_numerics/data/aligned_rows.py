"""Arrays whose rows are the same samples: as many, and with the same ids where these are known."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from penchant_numerics.refusal import Refusal
from torch import Tensor


def count_aligned(
    arrays: Mapping[str, ArrayLike], ids: Mapping[str, ArrayLike] | None = None
) -> int:
    """How many samples arrays have whose rows are the same ones.

    Args:
        arrays: Arrays (samples, ...) by name.
        ids: Numbers (samples,) that identify the rows of each array; None: rows are taken to be
            the same samples in the same order.

    Returns:
        The number of samples.

    Raises:
        Refusal: Where numbers of rows differ, or ids do. The message has both.

    >>> count_aligned({"a": np.zeros((5, 2)), "b": np.zeros((5, 3))})
    5
    """
    counts = {name: _rows(name, each) for name, each in arrays.items()}
    first, *others = counts
    for name in others:
        if counts[name] != counts[first]:
            raise Refusal(
                "rows of arrays must be the same samples, found "
                f"{counts[first]} rows in {first!r} and {counts[name]} in {name!r}"
            )
    if ids is not None:
        _check_ids(counts, {name: np.asarray(each) for name, each in ids.items()})
    return counts[first]


def _rows(name: str, array: ArrayLike) -> int:
    shape = np.shape(array)
    if not shape:
        raise Refusal(f"{name!r} must have a row for each sample, found one number")
    return int(shape[0])


def _check_ids(counts: Mapping[str, int], ids: Mapping[str, np.ndarray]) -> None:
    if ids.keys() != counts.keys():
        expected, given = (", ".join(map(repr, each)) for each in (counts, ids))
        raise Refusal(f"sample ids must be given of {expected}, found those of {given}")
    for name, own in ids.items():
        if own.shape != (counts[name],):
            raise Refusal(
                f"{name!r} has {counts[name]} rows, found sample ids of the shape {own.shape}"
            )
        if len(np.unique(own)) < len(own):
            raise Refusal(f"sample ids of {name!r} must be different, found some twice")
    first, *others = ids
    for name in others:
        differ = np.flatnonzero(ids[name] != ids[first])
        if len(differ):
            row = int(differ[0])
            raise Refusal(
                f"sample ids must match row by row, found {len(ids[first])} ids of {first!r} and "
                f"{len(ids[name])} of {name!r}, of which {len(differ)} differ: in row {row} "
                f"{ids[first][row]:g} and {ids[name][row]:g}"
            )


def class_labels(labels: ArrayLike) -> Tensor:
    """Labels (samples,) of classes 0, 1, ... as whole numbers.

    Raises:
        Refusal: Where they are others.

    >>> class_labels([0.0, 2.0, 1.0])
    tensor([0, 2, 1])
    """
    numbers = torch.as_tensor(np.asarray(labels, dtype=np.float64), device="cpu")
    if numbers.ndim != 1:
        raise Refusal(f"labels must be one number for each sample, found {np.shape(labels)}")
    whole = numbers.long()
    if bool((whole != numbers).any()) or bool((whole < 0).any()):
        wrong = numbers[(whole != numbers) | (whole < 0)][0]
        raise Refusal(f"labels must be classes 0, 1, ..., found {float(wrong):g}")
    return whole
