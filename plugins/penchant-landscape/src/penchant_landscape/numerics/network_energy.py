"""The loss of several networks of one architecture at once, less that of one of them, in batches.

Parameters are rows of a matrix (chains, parameters), so that all chains share every pass. Losses
are compared sample by sample with those at w*: with a batch of samples, most of its noise cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from penchant_numerics.data import Samples
from penchant_numerics.ensembles import state_of
from penchant_numerics.parameters import Layout
from penchant_numerics.trainer import loss_function
from penchant_numerics.vectorisation import lacks_batching, warn_not_vectorised
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

PASS = 4096  # samples times chains that share a pass


def sample_losses(outputs: Tensor, labels: Tensor, loss: str) -> Tensor:
    """Losses (n,) whose mean is the loss that networks are trained with.

    Args:
        outputs: Of a network, (n, C).
        labels: Classes (n,), or numbers as many as outputs.
        loss: `cross-entropy` or `squared-error`.

    Returns:
        One number for each sample.
    """
    if loss == "cross-entropy" and outputs.shape[1] > 1:
        return functional.cross_entropy(outputs, labels, reduction="none")
    mean_loss = loss_function(loss)
    return torch.vmap(lambda row, label: mean_loss(row[None], label[None]))(outputs, labels)


class NetworkEnergy:
    """L(w) - L(w*) of chains on samples, and its gradient: an `Energy` of `langevin`.

    Args:
        network: The network at w*, in evaluation mode; it stays as it is.
        samples: All n samples.
        loss: `cross-entropy` or `squared-error`.
        batch: Samples of each chain in every call, drawn without repetition; None: all.
        generator: On the CPU, for batches.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Samples,
        *,
        loss: str,
        batch: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.network = network
        self.samples = samples
        self.loss = loss
        self.batch = batch
        self.generator = generator
        parameters = {name: each.detach() for name, each in network.named_parameters()}
        self.layout = Layout(parameters)
        self.centre = self.layout.join(list(parameters.values()))
        self._fixed = {
            name: each for name, each in state_of(network).items() if name not in parameters
        }
        self._vectorised = True
        self.at_centre = self._losses_at_centre()

    def _losses_at_centre(self) -> Tensor:
        """The loss (n,) of every sample at w*."""
        found = []
        with torch.no_grad():
            for inputs, labels in zip(self.samples.inputs.split(PASS), self._labels(PASS)):
                row = self.layout.named(self.centre)
                found.append(self._of_one(row, inputs, labels))
        return torch.cat(found)

    def _labels(self, size: int) -> tuple[Tensor, ...]:
        labels: tuple[Tensor, ...] = self.samples.labels.split(size)
        return labels

    def _of_one(self, parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """Losses (n,) of one network."""
        outputs = functional_call(self.network, {**parameters, **self._fixed}, (inputs,))
        return sample_losses(outputs, labels, self.loss)

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The excess (parts, chains) and the gradient (chains, parameters) of its mean."""
        if self.batch is None:
            return self._of_all(weights)
        return self._of_batch(weights)

    def _of_all(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """All samples, as many in a pass as there is room for."""
        chains = len(weights)
        size = max(1, PASS // chains)
        count = len(self.samples.labels)
        total = torch.zeros(chains, device=weights.device, dtype=torch.float64)
        gradient: Tensor | None = None
        passes = zip(
            self.samples.inputs.split(size), self._labels(size), self.at_centre.split(size)
        )
        for inputs, labels, reference in passes:
            excess, part = self._graded(weights, inputs, labels, reference, shared=True)
            total += excess.double().sum(1)
            gradient = part if gradient is None else gradient.add_(part)
        assert gradient is not None
        return (total / count)[None], gradient.div_(count)

    def _of_batch(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """A batch for each chain; its two halves are the parts."""
        assert self.batch is not None
        count = len(self.samples.labels)
        rows = [
            torch.randperm(count, generator=self.generator, device="cpu")[: self.batch]
            for _ in weights
        ]
        chosen = torch.stack(rows).to(weights.device)
        excess, gradient = self._graded(
            weights,
            self.samples.inputs[chosen],
            self.samples.labels[chosen],
            self.at_centre[chosen],
            shared=False,
        )
        half = self.batch // 2
        halves = torch.stack([excess[:, :half].mean(1), excess[:, half:].mean(1)])
        return halves.double(), gradient.div_(self.batch)

    def _graded(
        self,
        weights: Tensor,
        inputs: Tensor,
        labels: Tensor,
        reference: Tensor,
        *,
        shared: bool,
    ) -> tuple[Tensor, Tensor]:
        """Excess losses (chains, n) and the gradient of their sum, by chain."""
        leaves = [each.detach().requires_grad_() for each in self.layout.split(weights)]
        with torch.enable_grad():
            losses = self._losses(leaves, inputs, labels, shared=shared)
            parts = torch.autograd.grad(losses.sum(), leaves, materialize_grads=True)
        return losses.detach() - reference, self.layout.join(parts, leading=1)

    def _losses(
        self, leaves: Sequence[Tensor], inputs: Tensor, labels: Tensor, *, shared: bool
    ) -> Tensor:
        """Losses (chains, n): stacked, or chain by chain where torch cannot stack an operation."""
        named = dict(zip(self.layout.names, leaves))
        axes = (0, None, None) if shared else (0, 0, 0)
        # one chain needs no stack
        if self._vectorised and len(leaves[0]) > 1:
            try:
                return torch.vmap(self._of_one, in_dims=axes)(named, inputs, labels)
            except RuntimeError as error:
                if not lacks_batching(error):
                    raise
                warn_not_vectorised(error, "chains")
                self._vectorised = False
        found = []
        for chain in range(len(leaves[0])):
            own = {name: tensor[chain] for name, tensor in named.items()}
            given = (inputs, labels) if shared else (inputs[chain], labels[chain])
            found.append(self._of_one(own, *given))
        return torch.stack(found)
