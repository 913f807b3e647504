"""Loads texts from disk as sequences of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import penchant
import torch
from penchant_numerics.data import IGNORED, Data, Samples, next_labels
from torch import Generator, Tensor

from penchant_huggingface.declarations import Texts
from penchant_huggingface.tokens import BESIDE_TOKENS, Tokens, tokens_by

FORMATS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}
HELD_OUT = 10  # one in this many rows, or tokens, is for the test where there is no split for it
MASKED = 0.15  # share of tokens that are masked
GIVEN_LABELS = "labels"  # the column with labels of rows that are tokens already
WITH_MASK = 2  # axes of tokens; with what stands beside them there is one more
Rows = dict[str, list[Any]]


def load(options: Texts, generator: Generator) -> Data:
    """Target of the dataset `huggingface`."""
    train, test = _rows(options)
    if options.task == "given":
        return _given(options, (train, test), generator)
    tokens = tokens_by(options.tokenizer, train[options.column])
    conventions = {"tokens": tokens.about}
    if options.task == "classes":
        conventions["padding"] = "rows are cut, or filled up with token 0 behind; there is no mask"
        classes = sorted(set(train[options.label_column]))
        splits = [_classified(options, tokens, split, classes) for split in (train, test)]
        return Data(
            _chosen(splits[0], options.train, generator),
            _chosen(splits[1], options.test, generator),
            len(classes),
            conventions=conventions,
        )

    # all texts one behind the other, cut into pieces
    streams = [_stream(tokens, split[options.column]) for split in (train, test)]
    if test is train:
        last = len(streams[0]) // HELD_OUT
        streams = [streams[0][:-last], streams[0][-last:]] if last else streams
    size = tokens.size
    if options.task == "masked-token" and tokens.mask is None:
        size += 1  # one more token, which hides others
    size = _padded(size, options.vocabulary)
    samples = []
    for stream, name, count in zip(
        streams, ("training", "test"), (options.train, options.test), strict=True
    ):
        pieces = _pieces(stream, options.length, name)
        samples.append(_chosen(_labelled(options, tokens, pieces, generator), count, generator))
    conventions["sample"] = f"a sequence of {options.length} tokens, {options.task} labels"
    return Data(samples[0], samples[1], size, conventions=conventions)


def _padded(size: int, vocabulary: int | None) -> int:
    """The size of the vocabulary: that of a model is often filled up to a round number."""
    if vocabulary is not None and vocabulary < size:
        raise penchant.Error(
            f"vocabulary must be at least the tokenizer's {size}, found {vocabulary}"
        )
    return vocabulary or size


def _rows(options: Texts) -> tuple[Rows, Rows]:
    """Columns of the training and of the test split; the same object where there is one split."""
    path = Path(options.path)
    if not path.exists():
        raise penchant.Error(f"there is no file or folder {options.path!r}")
    if path.is_file() and path.suffix not in FORMATS:
        whole = {options.column: [path.read_text(encoding="utf-8", errors="replace")]}
        return whole, whole
    import datasets

    try:
        if path.is_dir():
            loaded = datasets.load_from_disk(str(path))
        else:
            files = {options.train_split: str(path)}
            loaded = datasets.load_dataset(FORMATS[path.suffix], data_files=files)
    except (OSError, ValueError) as error:
        raise penchant.Error(f"{options.path} cannot be read as a dataset: {error}") from error
    if not isinstance(loaded, dict):
        loaded = {options.train_split: loaded}
    if options.train_split not in loaded:
        there = ", ".join(loaded)
        raise penchant.Error(f"{options.path} has no split {options.train_split!r}, found {there}")
    train = _columns(options, loaded[options.train_split])
    if options.test_split in loaded:
        return train, _columns(options, loaded[options.test_split])
    if options.task not in ("classes", "given"):
        return train, train
    # of rows the last ones are held out
    last = max(1, len(next(iter(train.values()))) // HELD_OUT)
    first = {name: values[:-last] for name, values in train.items()}
    return first, {name: values[-last:] for name, values in train.items()}


def _columns(options: Texts, table: Any) -> Rows:
    """The columns that are read."""
    names = [options.column]
    if options.task == "classes":
        names.append(options.label_column)
    if options.task == "given":
        beside = [name for name in BESIDE_TOKENS[1:] if name in table.column_names]
        names = [BESIDE_TOKENS[0], *beside, GIVEN_LABELS]
    for name in names:
        if name not in table.column_names:
            there = ", ".join(table.column_names)
            raise penchant.Error(f"{options.path} has no column {name!r}, found {there}")
    return {name: list(table[name]) for name in names}


def _given(options: Texts, splits: tuple[Rows, Rows], generator: Generator) -> Data:
    """Rows of tokens with their labels; shorter ones are filled up behind, and masked there."""
    names = [name for name in BESIDE_TOKENS if name in splits[0]]
    longest = max(len(row) for split in splits for row in split[names[0]])
    if longest > min(len(row) for split in splits for row in split[names[0]]):
        names = [*dict.fromkeys([*names[:1], BESIDE_TOKENS[1], *names[1:]])]
    samples = [_given_samples(split, names, longest) for split in splits]
    conventions = {"inputs": f"{', '.join(names)}, as they are"}
    if len(names) > 1:
        conventions["inputs"] += f"; your own network takes them by name: input_names = {names}"
    warnings = []
    for number, each in enumerate(samples):
        tokens = each.inputs[:, 0] if len(names) > 1 else each.inputs
        shifted = next_labels(tokens, each.labels)
        if shifted is not None:
            samples[number] = Samples(each.inputs, shifted)
            warnings = ["labels are the inputs: taken for those of the next position"]
    labels = torch.cat([each.labels.flatten() for each in samples])
    classes = 1 + int(labels.max())
    if samples[0].labels.dim() > 1:
        classes = max(classes, _vocabulary(options, samples))
    train, test = (
        _chosen(each, count, generator)
        for each, count in zip(samples, (options.train, options.test), strict=True)
    )
    return Data(train, test, classes, conventions=conventions, warnings=tuple(warnings))


def _given_samples(rows: Rows, names: Sequence[str], length: int) -> Samples:
    """Inputs (samples, positions), or (samples, names, positions), and labels."""
    counts = [len(row) for row in rows[BESIDE_TOKENS[0]]]
    known = {**rows, BESIDE_TOKENS[1]: rows.get(BESIDE_TOKENS[1]) or [[1] * n for n in counts]}
    columns = [_filled(known[name], length, 0) for name in names]
    inputs = torch.stack(columns, 1) if len(columns) > 1 else columns[0]
    given = rows[GIVEN_LABELS]
    if isinstance(given[0], int):
        return Samples(inputs, torch.tensor(given, dtype=torch.int64, device="cpu"))
    if [len(row) for row in given] != counts:
        raise penchant.Error(
            f"{GIVEN_LABELS} must be one per row, or one for every position of its input_ids"
        )
    return Samples(inputs, _filled(given, length, IGNORED))


def _filled(rows: Sequence[Sequence[int]], length: int, value: int) -> Tensor:
    """Rows of one length, filled up behind."""
    filled = torch.full((len(rows), length), value, dtype=torch.int64, device="cpu")
    for row, own in zip(filled, rows, strict=True):
        row[: len(own)] = torch.tensor(own, dtype=torch.int64, device="cpu")
    return filled


def _vocabulary(options: Texts, samples: Sequence[Samples]) -> int:
    """How many tokens there are: those of a tokenizer that is named, else those that occur."""
    if options.tokenizer not in ("bytes", "characters"):
        return tokens_by(options.tokenizer, ()).size
    first = [
        each.inputs[:, 0] if each.inputs.dim() > WITH_MASK else each.inputs for each in samples
    ]
    return 1 + int(torch.cat(first).max())


def _stream(tokens: Tokens, texts: Sequence[str]) -> Tensor:
    """Tokens of all texts, with an empty line between texts."""
    joined = "\n\n".join(texts)
    return torch.tensor(list(tokens.encode(joined)), dtype=torch.int64, device="cpu")


def _pieces(stream: Tensor, length: int, name: str) -> Tensor:
    """Pieces (n, length + 1) that do not overlap, but for the token that is the last label."""
    count = (len(stream) - 1) // length
    if count < 1:
        raise penchant.Error(
            f"the {name} texts have {len(stream)} tokens, expected more than length = {length}"
        )
    starts = torch.arange(count, device="cpu")[:, None] * length
    positions = torch.arange(length + 1, device="cpu")
    return stream[starts + positions]


def _labelled(options: Texts, tokens: Tokens, pieces: Tensor, generator: Generator) -> Samples:
    """Inputs and labels of pieces."""
    if options.task == "next-token":
        return Samples(pieces[:, :-1], pieces[:, 1:])
    inputs = pieces[:, :-1].clone()
    hidden = torch.rand(inputs.shape, generator=generator, device="cpu") < MASKED
    hidden[:, 0] |= ~hidden.any(1)  # every sequence has a label
    labels = inputs.masked_fill(~hidden, IGNORED)
    mask = tokens.size if tokens.mask is None else tokens.mask
    inputs[hidden] = mask
    return Samples(inputs, labels)


def _classified(options: Texts, tokens: Tokens, rows: Rows, classes: Sequence[Any]) -> Samples:
    """Rows of equal length with one class each."""
    inputs = torch.zeros(len(rows[options.column]), options.length, dtype=torch.int64, device="cpu")
    for row, text in zip(inputs, rows[options.column], strict=True):
        own = list(tokens.encode(text))[: options.length]
        row[: len(own)] = torch.tensor(own, dtype=torch.int64, device="cpu")
    known = {name: number for number, name in enumerate(classes)}
    labels = [known.get(each, -1) for each in rows[options.label_column]]
    if -1 in labels:
        other = rows[options.label_column][labels.index(-1)]
        raise penchant.Error(f"the test texts have a class that training has not, found {other!r}")
    return Samples(inputs, torch.tensor(labels, dtype=torch.int64, device="cpu"))


def _chosen(samples: Samples, count: int, generator: Generator) -> Samples:
    """`count` samples, or all where there are fewer, in random order."""
    order = torch.randperm(len(samples.labels), generator=generator, device="cpu")
    return samples.select(order[:count])
