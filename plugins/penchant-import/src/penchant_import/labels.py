"""Labels as people have them, text, one-hot rows, a column; and as classes that count from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penchant.errors import Error

_SHOWN = 5  # names of classes that a convention lists


def read_labels(values: Any) -> Any:
    """Labels as a tensor, or as a list where they are text.

    Args:
        values: A tensor, an array, or one label per sample.
    """
    import numpy as np
    import torch

    if isinstance(values, torch.Tensor):
        return values
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", "")
    # Text, and objects that may be text; other arrays hold numbers.
    if kind and kind not in "UO":
        return torch.as_tensor(np.asarray(values))
    # One label after another: all are text, or none is.
    each = list(values)
    are_text = [isinstance(label, str) for label in each]
    if each and all(are_text):
        return [str(label) for label in each]
    if any(are_text):
        raise Error("some labels are text and others are not, expected all of one kind")
    try:
        tensors = [torch.as_tensor(label) for label in each]
        return torch.stack(tensors)
    except (TypeError, ValueError, RuntimeError) as error:
        type_name = type(each[0]).__name__ if each else "none"
        raise Error(
            f"labels must be classes, numbers or text, found {type_name}: {error}"
        ) from error


def numbered(
    parts: Sequence[Any],
    conventions: dict[str, str],
    positions: int | None = None,
    classes: int | None = None,
) -> tuple[list[Any], int]:
    """Labels of all parts of a dataset, as tensors, and the number of classes; 0 for numbers.

    Args:
        parts: Labels of each part, as `read_labels` gives them.
        conventions: Gets a line about what was done with them.
        positions: Positions of an input, each of which may have a label; None: it has none.
        classes: How many classes there are; None: those that occur.

    Raises:
        Error: What they mean is not clear.
    """
    texts = [isinstance(part, list) for part in parts]
    if all(texts):
        return _of_text(parts, conventions)
    if any(texts):
        raise Error("labels of one split are text, those of the other are not")
    if any(part.is_floating_point() for part in parts):
        _tell_of_numbers(parts, conventions)
        return list(parts), 0
    # Whole numbers: one per sample is its class, several need a closer check.
    ndim = parts[0].ndim
    if any(part.ndim != ndim for part in parts):
        raise Error("labels of train and test have different shapes, expected the same")
    if ndim == 1:
        whole = [part.long() for part in parts]
        return whole, _counted(whole, classes)
    return _of_rows(parts, conventions, positions)


def _of_text(parts: Sequence[list[str]], conventions: dict[str, str]) -> tuple[list[Any], int]:
    import torch

    names = sorted(set().union(*parts))
    numbers = {name: number for number, name in enumerate(names)}
    # The convention says which class is which, as far as there is room.
    listed = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        listed += ", ..."
    conventions["labels"] = f"text, numbered in alphabetical order: {listed}"
    indices = []
    for part in parts:
        classes = [numbers[name] for name in part]
        indices.append(torch.tensor(classes, device="cpu"))
    return indices, len(names)


def _of_rows(
    parts: Sequence[Any], conventions: dict[str, str], positions: int | None
) -> tuple[list[Any], int]:
    """Whole numbers in rows: a column of classes, one-hot, or a class for each position."""
    lengths = parts[0].shape[1:]
    rows = len(lengths) == 1
    if rows and lengths[0] == 1:
        column = [part[:, 0].long() for part in parts]
        conventions["labels"] = "a column of classes"
        return column, _counted(column)
    if rows and all(_is_one_hot(part) for part in parts):
        classes = [part.long().argmax(1) for part in parts]
        conventions["labels"] = "one-hot rows, read as classes"
        return classes, int(lengths[0])
    if rows and lengths[0] == positions:
        whole = [part.long() for part in parts]
        from penchant_numerics.sequences import IGNORED

        known = [part[part != IGNORED] for part in whole]
        if all(len(part) for part in known):
            conventions["labels"] = "a class for each position of a sequence, -100 for none"
            # Tokens that do not occur are classes as well.
            return whole, max(int(part.max()) for part in known) + 1
    # Neither: their meaning is unknown.
    size = " x ".join(map(str, lengths))
    actual = f"labels are whole numbers, {size} per sample, and not one-hot"
    expected = "expected one class per sample, or one for each position of the input"
    raise Error(f"{actual}: {expected}, or floating-point numbers to be fitted")


def _is_one_hot(rows: Any) -> bool:
    whole = rows.long()
    binary = (whole == 0) | (whole == 1)
    if not binary.all():
        return False
    single = whole.sum(1) == 1
    return bool(single.all())


def _tell_of_numbers(parts: Sequence[Any], conventions: dict[str, str]) -> None:
    """Floating-point numbers are fitted as they are, also where they look like classes."""
    for part in parts:
        whole = part == part.round()
        if not whole.all():
            return
    conventions["labels"] = "numbers to be fitted, although all are whole; integers are classes"


def _counted(parts: Sequence[Any], classes: int | None = None) -> int:
    """How many classes there are; labels must count from 0, unless `classes` is given."""
    lowest = min(int(part.min()) for part in parts)
    highest = max(int(part.max()) for part in parts)
    if lowest > 0 and classes is None:
        raise Error(
            f"labels run from {lowest} to {highest}, expected classes that count from 0: subtract "
            f"{lowest}; or, where some classes have no samples, give "
            "penchant_numerics.data.Data(train, test, classes), or the option classes"
        )
    return highest + 1
