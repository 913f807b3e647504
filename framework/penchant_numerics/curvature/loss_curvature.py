"""What the curvatures of a network's loss on data have in common.

The data are passed in batches. What a batch takes in the first pass, a linearisation or a recorded
gradient, is stored between products while it fits in `cache` bytes; what is stored depends on the
options only, never on free memory. Where the device runs out of memory, passes get smaller.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import torch
from penchant_numerics.curvature.losses import conventions
from penchant_numerics.data import IGNORED, are_sequences, samples_of
from penchant_numerics.device import batch_size, check_deterministic, fitting_batch, memory
from penchant_numerics.jacobians import Outputs, Unchanged, trainable_names
from penchant_numerics.linear_algebra import Operator
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

CACHE_SHARE = 0.25  # of the budget, for what batches cache between products
PASS_SHARE = 0.25  # of the budget, for one pass

Batch = TypeVar("Batch")  # what a batch is: its inputs, or inputs and labels
Stored = TypeVar("Stored")  # what a batch stores


def counted_samples(data: tuple[Tensor, Tensor | None], loss: str) -> tuple[Tensor, Tensor | None]:
    """Inputs and labels without the samples that the loss leaves out.

    Cross-entropy ignores the label -100. Its mean is over the others, so that batches would have to
    be weighted by how many they have; without these samples all batches weigh what they hold. A
    sequence is left out where none of its positions counts.

    >>> inputs, labels = torch.arange(3, device="cpu"), torch.tensor([0, -100, 1], device="cpu")
    >>> counted_samples((inputs, labels), "cross-entropy")
    (tensor([0, 2]), tensor([0, 1]))
    """
    inputs, labels = data
    if labels is None or (loss != "cross-entropy" and not are_sequences(labels)):
        return inputs, labels
    # labels that are numbers ignore nothing, and those on meta have no values
    if labels.is_floating_point() or labels.is_meta:
        return inputs, labels

    # whole inputs are not copied
    known = labels != IGNORED
    if are_sequences(labels):
        known = known.any(1)
    if bool(known.all()):
        return inputs, labels
    if not bool(known.any()):
        raise Refusal(
            f"all {len(labels)} labels are {IGNORED} (ignored): expected at least one that is not"
        )
    return inputs[known], labels[known]


class LossCurvature(Operator, Generic[Batch, Stored]):
    """A matrix of second derivatives of `network`'s loss on data (inputs, labels).

    Args:
        network: A network with outputs (samples, C), or (samples, positions, C), whose samples do
            not mix: batch-norm in evaluation mode.
        data: Inputs (n, ...) and labels, or a torch `DataLoader`, whose samples are read when they
            are needed. Samples, and positions of sequences, with the label -100 are left out.
        loss: A loss by name.
        parameters: Names or patterns of parameters (`parameters.select`); all by default.
        trainable_only: Leave frozen parameters out.
        reduction: `mean` or `sum` over samples, or over the positions of all sequences.
        batch: Samples per pass; by default as many as the device likes and the budget has room for.
        cache: Bytes that may be cached between products, a share of the budget by default;
            `cached_bytes` says how many are.
        check: Whether the network is tried for being the same function every time.

    >>> from penchant_numerics.curvature import GaussNewton, Hessian
    >>> issubclass(GaussNewton, LossCurvature), issubclass(Hessian, LossCurvature)
    (True, True)
    """

    products = ""  # what products are called where memory runs out

    def __init__(
        self,
        network: nn.Module,
        data: Sequence[Tensor | None] | Iterable[Any],
        *,
        loss: str = "cross-entropy",
        parameters: str | Sequence[str] | None = None,
        trainable_only: bool = False,
        reduction: str = "mean",
        batch: int | None = None,
        cache: int | None = None,
        check: bool = True,
    ) -> None:
        if trainable_only:
            parameters = trainable_names(network, parameters)
        self.outputs = Outputs(network, parameters)
        self.layout = self.outputs.layout
        super().__init__(self.layout.size, device=self.layout.device, dtype=self.layout.dtype)
        if cache is None:
            cache = int(CACHE_SHARE * memory.available(self.device))
        self.cache = cache

        samples = samples_of(data, self.device, self.dtype)
        self.inputs, self.labels = counted_samples(samples, loss)
        if check:
            check_deterministic(network, self.inputs)
        sequences = self._use_loss(loss)
        self.conventions = conventions(loss, reduction, sequences=sequences)
        self.scale = 1.0 / self.terms if reduction == "mean" else 1.0

        self._stored: list[Stored] = []
        self._unchanged: Unchanged | None = None
        self.cached_bytes = 0
        self.batch = batch or self._fitting_batch()
        self._fill_cache(check=check)
        # parameters on meta have no values that could change
        if self._stored and self.device.type != "meta":
            self._unchanged = Unchanged(self.outputs.parameters)

    @abstractmethod
    def _use_loss(self, loss: str) -> bool:
        """Take the loss; returns whether samples are sequences, with a loss at every position."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many terms the loss is a mean of: samples, or positions that count."""

    @abstractmethod
    def _batches(self) -> Iterable[Batch]:
        """The data, pass by pass."""

    @abstractmethod
    def _try(self, inputs: Tensor) -> None:
        """One product, of inputs that are repeated where there is only one."""

    @abstractmethod
    def _fill_cache(self, *, check: bool) -> None:
        """Store what batches take in the first pass, while it fits."""

    @abstractmethod
    def add_product(self, total: Tensor, rows: Tensor, number: int, batch: Batch) -> None:
        """Add the product of rows with the contribution of one batch.

        Args:
            total: Where to, rows (k, size).
            rows: The vectors (k, size).
            number: Which batch it is.
            batch: Its samples.
        """

    @property
    def samples(self) -> int:
        """How many samples the loss is over."""
        return len(self.inputs)

    @property
    def cached(self) -> int:
        """Number of batches that are cached."""
        return len(self._stored)

    def _fitting_batch(self) -> int:
        """Samples per pass, by what a product of one sample takes."""
        most = batch_size(self.device)
        if self.device.type == "meta":
            return most
        return fitting_batch(self._try, self.inputs, largest=most, share=PASS_SHARE)

    def _rows(self, rows: Tensor) -> Tensor:
        def work() -> Tensor:
            total = torch.zeros_like(rows)
            for number, batch in enumerate(self._batches()):
                self.add_product(total, rows, number, batch)
            return self.scaled(total)

        return self._in_passes(work)

    def scaled(self, total: Tensor) -> Tensor:
        """Products, from the sum over all batches."""
        return total

    def _in_passes(self, work: Callable[[], Tensor]) -> Tensor:
        """Work pass by pass, with smaller ones as often as the device runs out of memory."""

        def passed(batch: int) -> Tensor:
            self.pass_at_once(batch)
            return work()

        return memory.halving(passed, self.batch, what=f"samples per pass of {self.products}")

    def pass_at_once(self, batch: int) -> None:
        """Pass this many samples from now on; memory held for other batches is released."""
        changed = self._unchanged.first_changed() if self._unchanged is not None else None
        if changed is not None:
            raise Refusal(
                f"parameter {changed!r} has changed since this operator cached its activations; "
                "make a new operator, or switch the cache off (cache=0)"
            )
        if batch != self.batch:
            self.batch = batch
            self._release()

    def _release(self) -> None:
        """Forget what batches have stored."""
        self._stored = []
        self._unchanged = None
        self.cached_bytes = 0
