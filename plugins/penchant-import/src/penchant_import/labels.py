"""Labels as people have them, text, one-hot rows, a column; and as classes that count from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penchant.errors import Error
from penchant.results.bounds import MOST_CLASSES

from penchant_import.masked import check_unmasked

_SHOWN = 5  # names of classes that a convention lists


def read_labels(values: Any) -> Any:
    """Labels as a tensor, or as a list where they are text.

    Args:
        values: A tensor, an array, or one label per sample.
    """
    import numpy as np
    import torch

    check_unmasked(values, "labels")
    if isinstance(values, torch.Tensor):
        return values
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", "")
    # Text, and objects that may be text; other arrays hold numbers.
    if kind and kind not in "UO":
        return torch.as_tensor(np.asarray(values))
    # One label after another: all are text, or none is.
    each = list(values)
    for label in each:
        check_unmasked(label, "labels")
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
    splits: Sequence[Any],
    conventions: dict[str, str],
    positions: int | None = None,
    classes: int | None = None,
) -> tuple[list[Any], int]:
    """Labels of all splits of a dataset, as tensors, and the number of classes; 0 for numbers.

    Args:
        splits: Labels of each split, as `read_labels` gives them.
        conventions: Gets a line about what was done with them.
        positions: Positions of an input, each of which may have a label; None: it has none.
        classes: How many classes there are; None: those that occur.

    Raises:
        Error: What they mean is not clear.
    """
    texts = [isinstance(each, list) for each in splits]
    if all(texts):
        return _of_text(splits, conventions)
    if any(texts):
        raise Error("labels of one split are text, those of the other are not")
    if any(each.is_floating_point() for each in splits):
        _tell_of_numbers(splits, conventions)
        return list(splits), 0
    # Whole numbers: one per sample is its class, several need a closer check.
    ndim = splits[0].ndim
    if any(each.ndim != ndim for each in splits):
        raise Error("labels of train and test have different shapes, expected the same")
    if ndim == 1:
        whole = [each.long() for each in splits]
        return whole, _counted(whole, classes)
    return _of_rows(splits, conventions, positions)


def _of_text(splits: Sequence[list[str]], conventions: dict[str, str]) -> tuple[list[Any], int]:
    import torch

    names = sorted(set().union(*splits))
    numbers = {name: number for number, name in enumerate(names)}
    # The convention says which class is which, as far as there is room.
    listed = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        listed += ", ..."
    conventions["labels"] = f"text, numbered in alphabetical order: {listed}"
    indices = []
    for each in splits:
        classes = [numbers[name] for name in each]
        indices.append(torch.tensor(classes, device="cpu"))
    return indices, len(names)


def _of_rows(
    splits: Sequence[Any], conventions: dict[str, str], positions: int | None
) -> tuple[list[Any], int]:
    """Whole numbers in rows: a column of classes, one-hot, or a class for each position."""
    lengths = splits[0].shape[1:]
    rows = len(lengths) == 1
    if rows and lengths[0] == 1:
        column = [each[:, 0].long() for each in splits]
        conventions["labels"] = "a column of classes"
        return column, _counted(column)
    if rows and all(_is_one_hot(each) for each in splits):
        classes = [each.long().argmax(1) for each in splits]
        conventions["labels"] = "one-hot rows, read as classes"
        return classes, int(lengths[0])
    if rows and lengths[0] == positions:
        whole = [each.long() for each in splits]
        from penchant_numerics.data import IGNORED

        known = [each[each != IGNORED] for each in whole]
        if all(len(each) for each in known):
            conventions["labels"] = "a class for each position of a sequence, -100 for none"
            # Tokens that do not occur are classes as well.
            return whole, _few(max(int(each.max()) for each in known) + 1)
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


def _tell_of_numbers(splits: Sequence[Any], conventions: dict[str, str]) -> None:
    """Floating-point numbers are fitted as they are, also where they look like classes."""
    for each in splits:
        whole = each == each.round()
        if not whole.all():
            return
    conventions["labels"] = "numbers to be fitted, although all are whole; integers are classes"


def _counted(splits: Sequence[Any], classes: int | None = None) -> int:
    """How many classes there are; labels must count from 0, unless `classes` is given."""
    lowest = min(int(each.min()) for each in splits)
    highest = max(int(each.max()) for each in splits)
    if lowest > 0 and classes is None:
        raise Error(
            f"labels run from {lowest} to {highest}, expected classes that count from 0: subtract "
            f"{lowest}; or, where some classes have no samples, give "
            "penchant_numerics.data.data.Data(train, test, classes), or the option classes"
        )
    return _few(highest + 1)


def _few(classes: int) -> int:
    """The number of classes, unless a network would have far too many outputs."""
    if classes > MOST_CLASSES:
        hint = "number them from 0 without gaps: numpy.unique(labels, return_inverse=True)[1]"
        outputs = f"labels up to {classes - 1}, which need a network of {classes} outputs"
        raise Error(f"found {outputs}, expected at most {MOST_CLASSES} classes; {hint}")
    return classes
