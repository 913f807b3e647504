"""Inputs that stay where they are until they are read: on disk, or behind a loader.

`StreamedInputs` stands for the tensor of all inputs in `Samples`. It has its length, shape, device
and precision, gives rows by index, and batches by `split`, which are read one ahead. These are the
very numbers that the whole tensor would hold, so trainings, evaluations, operators and moments
that take batches have the same bytes. What asks for anything else is handed the whole tensor, if
the device can hold it; if not, it is refused with the number of bytes.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

import numpy as np
import torch
from penchant_numerics.data.data import Samples
from penchant_numerics.device import memory
from penchant_numerics.refusal import Refusal
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import IterableDataset, SequentialSampler, default_collate

_READ = 1024  # rows that are read at a time where no batch says how many


class Source(Protocol):
    """Where rows come from."""

    shape: tuple[int, ...]  # (samples, *shape)

    def rows(self, indices: Tensor) -> Tensor:
        """The rows with these indices, on the host, as they are stored."""

    def batches(self, size: int) -> Iterator[Tensor]:
        """All rows in their order, some at a time."""


class ArraySource:
    """Rows of an array, such as a memory-mapped one.

    Args:
        array: Anything with a shape whose rows numpy can take.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(array.shape)

    def rows(self, indices: Tensor) -> Tensor:
        """The rows with these indices."""
        # a copy: torch wants memory that may be written to
        rows = np.array(self.array[indices.numpy()])
        return torch.from_numpy(rows)

    def batches(self, size: int) -> Iterator[Tensor]:
        """All rows in their order."""
        for start in range(0, self.shape[0], size):
            end = start + size
            # a copy: torch wants memory that may be written to
            yield torch.from_numpy(np.array(self.array[start:end]))


class DatasetSource:
    """Inputs of a torch dataset of (input, label) pairs, sample by sample.

    Args:
        dataset: It has `__getitem__` and `__len__`.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        first = torch.as_tensor(dataset[0][0])
        self.shape = (len(dataset), *first.shape)

    def rows(self, indices: Tensor) -> Tensor:
        """The rows with these indices."""
        chunks = []
        for index in indices.tolist():
            inputs = self.dataset[index][0]
            chunks.append(torch.as_tensor(inputs))
        return torch.stack(chunks)

    def batches(self, size: int) -> Iterator[Tensor]:
        """All rows in their order."""
        numbers = torch.arange(self.shape[0], device="cpu")
        for indices in numbers.split(size):
            yield self.rows(indices)


class BatchSource:
    """Inputs of an iterable of (inputs, labels) batches that can be gone through again and again.

    Args:
        batches: The iterable.
        samples: How many samples it has.
        shape: The shape of one.
    """

    def __init__(self, batches: Iterable[Any], samples: int, shape: tuple[int, ...]) -> None:
        self.iterable = batches
        self.shape = (samples, *shape)

    def rows(self, indices: Tensor) -> Tensor:
        """The first rows; others are not to be had without going through all before them."""
        count = len(indices)
        expected = torch.arange(count, device="cpu")
        if not torch.equal(indices, expected):
            raise Refusal(
                "an iterable of batches gives its samples in its own order only; shuffling needs "
                "a memory-mapped array or a dataset with __getitem__"
            )
        return next(self.batches(count))

    def batches(self, size: int) -> Iterator[Tensor]:
        """All rows in their order, cut anew."""
        waiting: list[Tensor] = []
        held = 0
        for batch in self.iterable:
            waiting.append(torch.as_tensor(batch[0]))
            held += len(waiting[-1])
            # what is over waits for the next
            while held >= size:
                together = torch.cat(waiting)
                yield together[:size]
                waiting = [together[size:]]
                held -= size
        if held:
            yield torch.cat(waiting)


class Subset:
    """Some rows of another source.

    Args:
        source: The other source.
        indices: Which of its rows, on the CPU.
    """

    def __init__(self, source: Source, indices: Tensor) -> None:
        self.source = source
        self.indices = indices
        self.shape = (len(indices), *source.shape[1:])

    def rows(self, indices: Tensor) -> Tensor:
        """The rows of the subset with these indices."""
        return self.source.rows(self.indices[indices])

    def batches(self, size: int) -> Iterator[Tensor]:
        """All rows in their order."""
        for some in self.indices.split(size):
            yield self.source.rows(some)


class StreamedInputs:
    """Stands for the tensor (samples, *shape) of all inputs; rows are read when they are needed.

    Args:
        source: Where rows come from.
        device: Where they go.
        dtype: In which precision; stored bytes are pixels and are divided by 255.
    """

    def __init__(
        self,
        source: Source,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.source = source
        self.device = torch.device(device)
        self.dtype = dtype
        self._whole: Tensor | None = None

    # ---- what it says of itself

    @property
    def shape(self) -> torch.Size:
        """The shape of all inputs."""
        return torch.Size(self.source.shape)

    @property
    def is_cuda(self) -> bool:
        """Whether rows go to a GPU."""
        return self.device.type == "cuda"

    def __len__(self) -> int:
        return self.source.shape[0]

    def bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.shape.numel() * self.dtype.itemsize

    def stored_dtype(self) -> torch.dtype:
        """The precision of rows where they are stored."""
        first = torch.zeros(1, device="cpu", dtype=torch.int64)
        return self.source.rows(first).dtype

    def to(self, *targets: torch.device | str | torch.dtype | Tensor) -> StreamedInputs:
        """The same inputs for another device or precision, or for those of a tensor."""
        device, dtype = self.device, self.dtype
        for target in targets:
            if isinstance(target, Tensor):
                device, dtype = target.device, target.dtype
            elif isinstance(target, torch.dtype):
                dtype = target
            else:
                device = torch.device(target)
        return StreamedInputs(self.source, device=device, dtype=dtype)

    # ---- rows

    def __getitem__(self, key: Any) -> Any:
        """Rows by a slice or by indices; a mask gives a subset that is read later."""
        if isinstance(key, Tensor) and key.dtype == torch.bool:
            chosen = torch.nonzero(key.cpu())[:, 0]
            subset = Subset(self.source, chosen)
            return StreamedInputs(subset, device=self.device, dtype=self.dtype)

        # whatever a tensor can be indexed with
        numbers = torch.arange(len(self), device="cpu")
        if isinstance(key, Tensor):
            key = key.cpu()
        indices = numbers[key]
        if indices.ndim == 0:
            return self._placed(self.source.rows(indices[None]))[0]
        return self._placed(self.source.rows(indices))

    def split(self, size: int, dim: int = 0) -> Iterator[Tensor]:
        """All rows in their order, some at a time; the next ones are read meanwhile."""
        if dim:
            raise Refusal(f"streamed inputs are split by samples, found axis {dim}")
        batches = map(self._prepared, self.source.batches(size))
        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as reader:
            ahead = reader.submit(next, batches, None)
            while (rows := ahead.result()) is not None:
                ahead = reader.submit(next, batches, None)
                yield self._sent(rows)

    def _placed(self, stored: Tensor) -> Tensor:
        """Rows as the whole tensor would hold them."""
        return self._sent(self._prepared(stored))

    def _prepared(self, stored: Tensor) -> Tensor:
        """Rows in the memory of the host, ready to be sent."""
        rows = stored
        # stored bytes are pixels
        if stored.dtype == torch.uint8:
            rows = stored.float() / 255
        rows = rows.to(self.dtype)
        if not torch.isfinite(rows).all():
            raise Refusal("streamed inputs have values that are not finite")
        return rows.pin_memory() if self.is_cuda else rows

    def _sent(self, rows: Tensor) -> Tensor:
        """Rows on their device."""
        return rows.to(self.device, non_blocking=self.is_cuda)

    # ---- everything else a tensor has

    def whole(self) -> Tensor:
        """The tensor of all inputs, read once.

        Raises:
            Refusal: Where the device cannot hold it.
        """
        if self._whole is None:
            memory.require(
                self.bytes(),
                self.device,
                what=f"the tensor of {len(self)} streamed inputs",
                hint="this computation needs them all at once; give fewer samples",
            )
            self._whole = torch.cat(list(self.split(_READ)))
        return self._whole

    def __getattr__(self, name: str) -> Any:
        # operations that are not defined batch by batch are done on the whole
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole(), name)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Functions of torch are given the whole tensor."""

        def known(value: Any) -> Any:
            if isinstance(value, cls):
                return value.whole()
            return value

        given, named = tree_map(known, (args, kwargs or {}))
        return function(*given, **named)


def stream(value: Any) -> Samples:
    """Samples whose inputs are streamed.

    Args:
        value: A pair of arrays, of which the inputs may be memory-mapped; a torch `DataLoader`; a
            torch dataset of pairs; or an iterable of (inputs, labels) batches that can be gone
            through again and again.

    Returns:
        Streamed inputs and the labels, which are held in memory.

    >>> samples = stream((np.zeros((4, 3)), np.arange(4)))
    >>> len(samples.inputs), samples.inputs.shape, [len(chunk) for chunk in samples.inputs.split(3)]
    (4, torch.Size([4, 3]), [3, 1])
    """
    if _is_pair(value):
        inputs, labels = value
        return Samples(_inputs_of(ArraySource(inputs)), torch.as_tensor(labels))
    dataset = dataset_of(value)
    if dataset is None:
        return _of_batches(value)

    # labels are stored, inputs are read later
    tensors = []
    for index in range(len(dataset)):
        label = dataset[index][1]
        tensors.append(torch.as_tensor(label))
    return Samples(_inputs_of(DatasetSource(dataset)), torch.stack(tensors))


def _inputs_of(source: Source) -> Tensor:
    """What stands for the tensor of all inputs."""
    return cast(Tensor, StreamedInputs(source))


def _is_pair(value: Any) -> bool:
    """Whether a value is inputs and labels, both whole."""
    if not isinstance(value, (tuple, list)):
        return False
    return len(value) == 2 and hasattr(value[0], "shape")


def samples_of(data: Any, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Inputs and labels of a pair as they are; of anything else, such as a loader, streamed.

    Args:
        data: Inputs and labels, or what `stream` takes.
        device: Where streamed samples go.
        dtype: In which precision.

    Returns:
        Inputs and labels.

    >>> pair = (torch.zeros(3, 2, device="cpu"), torch.tensor([0, 1, 1], device="cpu"))
    >>> inputs, labels = samples_of(pair, torch.device("cpu"), torch.float32)
    >>> inputs is pair[0], labels is pair[1]
    (True, True)
    """
    if _is_pair(data):
        inputs, labels = data
        return inputs, labels
    return stream(data).to(device, dtype)


def dataset_of(value: Any) -> Any:
    """A dataset whose samples have numbers; None where there are batches only.

    A loader's own order may be shuffled, so that its dataset is taken. One that makes something
    else of its samples (`collate_fn`) must give them in one order, and its batches are taken.

    Raises:
        Refusal: It shuffles, and makes something else of its samples.

    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> dataset = TensorDataset(torch.zeros(3, 2, device="cpu"))
    >>> dataset_of(DataLoader(dataset, shuffle=True)) is dataset
    True
    """
    dataset = getattr(value, "dataset", value)
    if isinstance(dataset, IterableDataset):
        return None
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return None
    if getattr(value, "collate_fn", default_collate) is default_collate:
        return dataset
    if not isinstance(value.sampler, SequentialSampler):
        raise Refusal(
            "the loader has a collate_fn of its own and shuffles, so that its samples have no "
            "definite order; make it with shuffle=False"
        )
    return None


def _of_batches(batches: Iterable[Any]) -> Samples:
    """Samples of an iterable of batches: one pass counts them and stores their labels."""
    shape: tuple[int, ...] = ()
    tensors = []
    for inputs, labels in batches:
        shape = tuple(inputs.shape[1:])
        tensors.append(torch.as_tensor(labels))
    if not tensors:
        raise Refusal("the iterable has no batches")
    if next(iter(batches), None) is None:
        raise Refusal(
            "the batches can be read only once; give an iterable that begins anew, such as "
            "a DataLoader"
        )
    together = torch.cat(tensors)
    source = BatchSource(batches, len(together), shape)
    return Samples(_inputs_of(source), together)
