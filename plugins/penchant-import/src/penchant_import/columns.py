"""Data with names, as those of Hugging Face: columns, rows of dicts, train and test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penchant.errors import Error

from penchant_import.masked import check_unmasked
from penchant_import.pixels import read_input

INPUTS = "image images img pixel_values input_ids input inputs x data features".split()
BESIDE = ("attention_mask", "token_type_ids")  # what models of tokens take beside these
LABELS = "label labels target targets y".split()


def input_and_label(columns: Iterable[Any]) -> tuple[tuple[str, ...], str]:
    """The names of the columns that hold inputs and labels; tokens may have a mask beside them.

    Raises:
        Error: There is not exactly one of each.
    """
    names = [str(name) for name in columns]
    inputs = [name for name in names if name in INPUTS]
    labels = [name for name in names if name in LABELS]
    if len(inputs) == len(labels) == 1:
        beside = [name for name in BESIDE if name in names and inputs == ["input_ids"]]
        return (*inputs, *beside), labels[0]
    listed = ", ".join(names)
    expected = "one column such as image and one such as label"
    hint = "rename them, or give (inputs, labels)"
    raise Error(f"the data have {listed}, expected {expected}; {hint}")


def together(columns: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The inputs of a sample or of many; tokens and their mask as one, (..., names, positions)."""
    import torch

    first, *others = names
    if not others:
        return columns[first]
    for name in names:
        check_unmasked(columns[name], name)
    return torch.stack([torch.as_tensor(columns[name]) for name in names], dim=-2)


def train_and_test(splits: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The two splits of a dict of datasets; None where it is one of columns.

    Raises:
        Error: It has a train split and no test split.
    """
    if "train" not in splits:
        return None
    if "test" not in splits:
        names = map(str, splits)
        listed = ", ".join(names)
        hint = "give (train, test)"
        raise Error(f"the data have the splits {listed}, expected train and test; {hint}")
    return splits["train"], splits["test"]


class Rows:
    """Samples of a dataset as (input, label) pairs, whatever its rows look like.

    Args:
        dataset: It has `__getitem__` and `__len__`; rows are pairs or dicts.
    """

    def __init__(self, dataset: Any) -> None:
        self._source = dataset
        self._names: tuple[tuple[str, ...], str] | None = None
        # The first row stands for all of them.
        first = dataset[0]
        if isinstance(first, Mapping):
            self._names = input_and_label(first)
        elif not _is_pair(first):
            kind = type(first).__name__
            raise Error(f"a sample of the dataset is {kind}, expected a pair (input, label)")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of inputs, where rows have names."""
        return self._names[0] if self._names else ()

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        row = self._source[index]
        # A dict becomes a pair first.
        if self._names is not None:
            inputs, name = self._names
            row = [together(row, inputs), row[name]]
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
            given = together(batch, inputs)
            labels = batch[label]
            # A single label has no axis along which samples are counted.
            if not getattr(labels, "ndim", 0):
                hint = "DataLoader(dataset, batch_size=64) makes them"
                raise Error(f"the data are single samples one after another, not batches; {hint}")
            yield given, labels
