"""Data whose parts have names, as Hugging Face's have: columns, rows of dicts, train and test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penchant.errors import Error

from penchant_import.pixels import read_input

INPUTS = "image images img pixel_values input inputs x data features".split()
LABELS = "label labels target targets y".split()


def input_and_label(columns: Iterable[Any]) -> tuple[str, str]:
    """The names of the two columns that hold inputs and labels.

    Raises:
        Error: There is not exactly one of each.
    """
    names = [str(name) for name in columns]
    inputs = [name for name in names if name in INPUTS]
    labels = [name for name in names if name in LABELS]
    if len(inputs) == len(labels) == 1:
        return inputs[0], labels[0]
    found = ", ".join(names)
    expected = "one column such as image and one such as label"
    hint = "rename them, or give (inputs, labels)"
    raise Error(f"the data have {found}, expected {expected}; {hint}")


def train_and_test(parts: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The two parts of a dict of datasets; None where it is one of columns.

    Raises:
        Error: It has a train part and no test part.
    """
    if "train" not in parts:
        return None
    if "test" not in parts:
        names = map(str, parts)
        found = ", ".join(names)
        hint = "give (train, test)"
        raise Error(f"the data have the parts {found}, expected train and test; {hint}")
    return parts["train"], parts["test"]


class Rows:
    """Samples of a dataset as (input, label) pairs, whatever its rows look like.

    Args:
        dataset: It has `__getitem__` and `__len__`; rows are pairs or dicts.
    """

    def __init__(self, dataset: Any) -> None:
        self._source = dataset
        self._names: tuple[str, str] | None = None
        # The first row stands for all of them.
        first = dataset[0]
        if isinstance(first, Mapping):
            self._names = input_and_label(first)
        elif not _is_pair(first):
            kind = type(first).__name__
            raise Error(f"a sample of the dataset is {kind}, expected a pair (input, label)")

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        row = self._source[index]
        # A dict becomes a pair first.
        if self._names is not None:
            row = [row[name] for name in self._names]
        given, label = row
        return read_input(given), label


def _is_pair(row: Any) -> bool:
    if not isinstance(row, (tuple, list)):
        return False
    return len(row) == 2


class Batches:
    """Batches that are dicts as (inputs, labels) pairs.

    Args:
        batches: An iterable that can be gone through again and again.
    """

    def __init__(self, batches: Iterable[Mapping[str, Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for batch in self.batches:
            inputs, label = input_and_label(batch)
            given = batch[inputs]
            labels = batch[label]
            # A single label has no axis along which samples are counted.
            if not getattr(labels, "ndim", 0):
                hint = "DataLoader(dataset, batch_size=64) makes them"
                raise Error(f"the data are single samples one after another, not batches; {hint}")
            yield given, labels
