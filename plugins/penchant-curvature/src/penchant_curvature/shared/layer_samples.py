"""What a layer sees of every sample: its inputs, and the errors that arrive at its outputs.

The gradient of sample i towards column k is the matrix v_ik = sum_t errors_ikt inputs_it^T over the
positions t of a convolution (one in a perceptron). Errors are scaled so that sum_ik v_ik v_ik^T is
the curvature, a mean over samples:

- `gauss-newton`: sqrt(p_k / N) (e_k - p)^T df/dz for softmax cross-entropy, where k runs over
  classes: the extended gradients of Papyan (JMLR 2020) but for their sign; df_k/dz / sqrt(N) for
  half the squared error.
- `empirical`: one column, the gradient of the loss at the label, over sqrt(N).

All of it is in double precision. One output is the difference of two logits and becomes two
classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics import Refusal
from penchant_numerics.device import accumulation_dtype, batch_size, fitting_batch
from penchant_numerics.layers import Factored, TangentFeatures, is_transposed
from torch import Tensor, nn
from torch.nn import functional

from penchant_curvature.shared.linear_layers import parameter_names

COLUMNS = ("gauss-newton", "empirical")


@dataclass(frozen=True)
class Batch:
    """Samples `start` and following."""

    start: int
    inputs: Tensor  # (n, t, d), a bias as a last input of ones
    errors: Tensor  # (n, k, t, o)
    probabilities: Tensor  # (n, C), of the network's outputs; ones for the squared error

    @property
    def indices(self) -> slice:
        """Where these samples are among all."""
        end = self.start + len(self.inputs)
        return slice(self.start, end)


class LayerSamples:
    """Batches of one layer's samples; each pass computes them anew, so nothing has to be stored.

    A module without linear structure (`factored` is false) has its gradients as errors of a layer
    whose only input is 1.

    Args:
        network: A network in evaluation mode.
        data: Inputs and labels.
        layer: The layer's name.
        parameters: Names of its parameters; None: its weight and, with `bias`, its bias.
        loss: `cross-entropy` or `squared-error`.
        columns: `gauss-newton` or `empirical`.
        bias: Whether the bias is there.
        batch: Samples per pass; None: by device and budget.
    """

    def __init__(
        self,
        network: nn.Module,
        data: tuple[Tensor, Tensor | None],
        layer: str,
        *,
        parameters: Sequence[str] | None = None,
        loss: str = "cross-entropy",
        columns: str = "gauss-newton",
        bias: bool = True,
        batch: int | None = None,
    ) -> None:
        if columns not in COLUMNS:
            raise Refusal(f"columns must be one of {', '.join(COLUMNS)}, found {columns!r}")
        self.name = layer
        self.loss = loss
        self.columns = columns
        self.inputs, self.labels = data[0], data[1]

        # a linear layer has a weight and maybe a bias; other modules are known by their parameters
        names = parameter_names(layer)
        known = {name for name, _ in network.named_parameters()}
        own = [name for name in names if name in known and (bias or name != names[1])]
        chosen = list(parameters or own)

        # features tell whether gradients are errors times inputs
        self.features = TangentFeatures(network, self.inputs[:8], parameters=chosen)
        self.factored = layer in self.features.layers
        self.has_bias = self.factored and names[1] in chosen
        self.transposed = self.factored and is_transposed(network.get_submodule(layer))
        if columns == "empirical" and self.labels is None:
            raise Refusal("the empirical Fisher needs labels, found none")
        self.batch = batch or self._fitting_batch()

    def _fitting_batch(self) -> int:
        """Samples per pass, by what one takes."""

        def passed(inputs: Tensor) -> None:
            labels = self.labels
            if labels is not None:
                # any labels will do
                labels = labels[:1].expand(len(inputs), *labels.shape[1:])
            self._batch(0, inputs, labels)

        most = batch_size(self.inputs.device)
        if len(self.inputs) == 1 or self.inputs.device.type == "meta":
            return most
        return fitting_batch(passed, self.inputs, largest=most)

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[Batch]:
        chunks = self.inputs.split(self.batch)
        labels: Sequence[Tensor | None] = [None] * len(chunks)
        if self.labels is not None:
            labels = self.labels.split(self.batch)
        for number, (x, y) in enumerate(zip(chunks, labels)):
            start = number * self.batch
            yield self._batch(start, x, y)

    def _batch(self, start: int, inputs: Tensor, labels: Tensor | None) -> Batch:
        # curvatures are compared to many digits, whatever the precision of the network
        wide = accumulation_dtype(inputs.device)
        with torch.no_grad():
            outputs = self.features.outputs(self.features.outputs.values, inputs).to(wide)
        (feature,) = self.features(inputs).values()
        if isinstance(feature, Factored):
            given = _with_bias(feature.inputs.to(wide), bias=feature.bias)
            errors = feature.errors.to(wide)
        else:
            # gradients are the errors of a layer whose one input is 1
            errors = feature.rows.to(wide)[:, :, None]  # (n, C, 1, parameters)
            given = torch.ones(len(inputs), 1, 1, device=errors.device, dtype=wide)

        # from errors of the outputs to those of the columns
        outputs, errors = _at_least_two_classes(outputs, errors, self.loss)
        scaled = self._scaled(errors, outputs, labels)
        return Batch(start, given, scaled, _probabilities(outputs, self.loss))

    def _scaled(self, errors: Tensor, outputs: Tensor, labels: Tensor | None) -> Tensor:
        """Errors of the columns, of errors (n, C, t, o) of the outputs."""
        root = len(self) ** 0.5
        if self.columns == "empirical":
            assert labels is not None  # `__init__` refuses to go without
            slopes = _loss_gradient(outputs, labels, self.loss) / root
            return torch.einsum("nc,ncto->nto", slopes, errors)[:, None]
        if self.loss == "squared-error":
            scaled: Tensor = errors / root
            return scaled

        # sqrt(p_k / N) (e_k - p)
        share = outputs.softmax(1)
        mean = torch.einsum("nc,ncto->nto", share, errors)
        weights = (share / len(self)).sqrt()
        return (errors - mean[:, None]).mul_(weights[:, :, None, None])


def _with_bias(inputs: Tensor, *, bias: bool) -> Tensor:
    """Inputs, with a last one of ones for the bias."""
    if not bias:
        return inputs
    ones = torch.ones_like(inputs[..., :1])
    return torch.cat([inputs, ones], dim=-1)


def _at_least_two_classes(outputs: Tensor, errors: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """One logit f is the pair (0, f)."""
    if outputs.shape[1] > 1 or loss == "squared-error":
        return outputs, errors

    # the first class has neither a logit nor an error
    blank = torch.zeros_like(outputs)
    pair = torch.cat([blank, outputs], dim=1)
    zeros = torch.zeros_like(errors)
    return pair, torch.cat([zeros, errors], dim=1)


def _probabilities(outputs: Tensor, loss: str) -> Tensor:
    """Probabilities of classes; the squared error has none, and weighs all outputs alike."""
    if loss == "squared-error":
        return torch.ones_like(outputs)
    return outputs.softmax(1)


def _loss_gradient(outputs: Tensor, labels: Tensor, loss: str) -> Tensor:
    """Gradient (n, C) of each sample's loss in its outputs, with labels as trainings have them."""
    classes = outputs.shape[1]
    if loss == "cross-entropy":
        # p - 1 of the label is minus the sum of the others, which does not cancel
        label = labels.long()[:, None]
        others = outputs.softmax(1).scatter(1, label, 0.0)
        return others.scatter(1, label, -others.sum(1, keepdim=True))

    # classes are unit vectors, or signs where there is one output
    if not labels.is_floating_point():
        if classes == 1:
            labels = 2 * labels[:, None] - 1
        else:
            labels = functional.one_hot(labels, classes)
    targets = labels.to(outputs.dtype).reshape(outputs.shape)
    return outputs - targets
