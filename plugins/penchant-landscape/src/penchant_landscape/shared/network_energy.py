"""The loss of several networks of one architecture at once, less that of one of them, in batches.

Parameters are rows of a matrix (chains, parameters), so that all chains share every pass. Losses
are compared sample by sample with those at w*: with a batch of samples, most of its noise cancels.

Linear layers of stacked networks, as one product where they share their input.

`torch.vmap` adds biases in a pass of their own and repeats an input that networks share; a product
of all weights at once does neither.

Which samples the probes of this plugin measure on, and the loss that is meant.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import penchant
import torch
from penchant_numerics.curvature import loss_function
from penchant_numerics.data import IGNORED, Samples, as_rows, contributions_to_mean, kind_of
from penchant_numerics.device import lacks_batching, warn_not_vectorised
from penchant_numerics.jacobians import Layout
from penchant_numerics.training import state_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

PASS = 8192  # samples, or positions, times chains that share a pass


def sequence_scale(labels: Tensor) -> float:
    """Samples over the positions that count: sums over positions times this have the loss as mean.

    >>> sequence_scale(torch.tensor([[1, 0, -100], [2, -100, -100]], device="cpu"))
    0.6666666666666666
    """
    return len(labels) / int(kind_of(labels).counts.sum())


def contributions(values: Tensor, labels: Tensor) -> Tensor:
    """What samples contribute to a mean (n,), from values (n,) that have this mean.

    Sequences count by their positions, so that one of another length has no other mean.
    """
    if not kind_of(labels).by_position:
        return values
    sums = values.double() / sequence_scale(labels)
    return contributions_to_mean(sums, kind_of(labels).counts.to(sums.device))


def sample_losses(outputs: Tensor, labels: Tensor, loss: str, scale: float = 1.0) -> Tensor:
    """Losses (n,) whose mean is the loss that networks are trained with.

    Args:
        outputs: Of a network, (n, C), or of sequences, (n, positions, C).
        labels: Classes (n,), numbers as many as outputs, or classes (n, positions).
        loss: `cross-entropy` or `squared-error`.
        scale: Of sequences: `sequence_scale` of all of them.

    Returns:
        One number for each sample; of a sequence the sum over its positions that count, times the
        scale.
    """
    if outputs.dim() > 2:
        rows, truth = as_rows(outputs, labels)
        each = sample_losses(rows, truth.clamp(min=0), loss)
        counted = each.where(truth != IGNORED, 0.0)
        energies: Tensor = scale * counted.unflatten(0, labels.shape).sum(1)
        return energies
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
        batch: Samples of each chain in every call, sampled without repetition; None: all.
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
        self._count = len(samples.labels) if batch is None else batch
        self._scale = sequence_scale(samples.labels)
        self._room = max(1, PASS // samples.kind.positions)  # samples times chains of a pass
        self._traced: dict[tuple[torch.Size, torch.Size], Callable[..., tuple[Tensor, ...]]] = {}
        self._gradient: Tensor | None = None
        self._can_trace = True
        self._stackable: nn.Module | None = with_stacked_linear(network)
        self.at_centre = self._losses_at_centre()

    def _losses_at_centre(self) -> Tensor:
        """The loss (n,) of every sample at w*."""
        losses = []
        with torch.no_grad():
            room = self._room
            for inputs, labels in zip(self.samples.inputs.split(room), self._labels(room)):
                row = self.layout.named(self.centre)
                losses.append(self._of_one(row, inputs, labels))
        return torch.cat(losses)

    def _labels(self, size: int) -> tuple[Tensor, ...]:
        labels: tuple[Tensor, ...] = self.samples.labels.split(size)
        return labels

    def _of_one(self, parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """Losses (n,) of one network."""
        outputs = functional_call(self.network, {**parameters, **self._fixed}, (inputs,))
        return sample_losses(outputs, labels, self.loss, self._scale)

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The excess (halves, chains) and the gradient (chains, parameters) of its mean."""
        if self.batch is None:
            return self._of_all(weights)
        return self._of_batch(weights)

    def _of_all(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """All samples, as many in a pass as there is room for."""
        chains = len(weights)
        size = max(1, self._room // chains)
        total = torch.zeros(chains, device=weights.device, dtype=torch.float64)
        gradient = self._memory(weights).zero_()
        passes = zip(
            self.samples.inputs.split(size), self._labels(size), self.at_centre.split(size)
        )
        for inputs, labels, reference in passes:
            excess = self._graded(
                weights, inputs, labels, reference, shared=True, gradient=gradient
            )
            total += excess.double().sum(1)
        return (total / self._count)[None], gradient

    def _memory(self, weights: Tensor) -> Tensor:
        """Where gradients are written, in every call again."""
        if self._gradient is None or self._gradient.shape != weights.shape:
            self._gradient = torch.empty_like(weights)
        return self._gradient

    def _of_batch(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """A batch for each chain, in two halves."""
        assert self.batch is not None
        count = len(self.samples.labels)
        rows = [
            torch.randperm(count, generator=self.generator, device="cpu")[: self.batch]
            for _ in weights
        ]
        chosen = torch.stack(rows).to(weights.device)
        gradient = self._memory(weights).zero_()
        excess = self._graded(
            weights,
            self.samples.inputs[chosen],
            self.samples.labels[chosen],
            self.at_centre[chosen],
            shared=False,
            gradient=gradient,
        )
        half = self.batch // 2
        halves = torch.stack([excess[:, :half].mean(1), excess[:, half:].mean(1)])
        return halves.double(), gradient

    def _graded(
        self,
        weights: Tensor,
        inputs: Tensor,
        labels: Tensor,
        reference: Tensor,
        *,
        shared: bool,
        gradient: Tensor,
    ) -> Tensor:
        """Excess losses (chains, n); the gradient of their sum over `count` is added, by chain."""
        key = (weights.shape, inputs.shape)
        if key in self._traced:
            with torch.no_grad():
                losses, *gradients = self._traced[key](weights, inputs, labels)
        else:
            work = functools.partial(self._differentiated, shared=shared)
            losses, *gradients = work(weights, inputs, labels)
            # a network that can be stacked takes the same operations for all weights: what torch
            # does to find them out in every call costs more than they do where layers are small
            on_cpu = weights.device.type == "cpu"
            if self._can_trace and self._stackable is not None and len(weights) > 1 and on_cpu:
                try:
                    self._traced[key] = make_fx(work)(weights, inputs, labels)
                except RuntimeError:  # it reads a number out of a tensor: every call is the first
                    self._can_trace = False
        self.layout.add_(gradient, gradients)
        return losses - reference

    def _differentiated(
        self, weights: Tensor, inputs: Tensor, labels: Tensor, *, shared: bool
    ) -> tuple[Tensor, ...]:
        """Losses (chains, n), and the gradient of their sum over `count` by parameter."""
        leaves = [each.detach().requires_grad_() for each in self.layout.split(weights)]
        with torch.enable_grad():
            losses = self._losses(leaves, inputs, labels, shared=shared)
            total = losses.sum() / self._count
            gradients = torch.autograd.grad(total, leaves, materialize_grads=True)
        return losses.detach(), *gradients

    def _losses(
        self, leaves: Sequence[Tensor], inputs: Tensor, labels: Tensor, *, shared: bool
    ) -> Tensor:
        """Losses (chains, n): stacked, or chain by chain where torch cannot stack an operation."""
        named = dict(zip(self.layout.names, leaves))
        chains = len(leaves[0])
        # one chain needs no stack
        if self._stackable is not None and chains > 1:
            axes = (0, None) if shared else (0, 0)
            try:
                outputs = torch.vmap(self._stacked_outputs, in_dims=axes)(named, inputs)
            except RuntimeError as error:
                if not lacks_batching(error):
                    raise
                warn_not_vectorised(error, "chains")
                self._stackable = None
            else:
                every = labels.expand(chains, *labels.shape) if shared else labels
                rows = every.flatten(0, 1)
                losses = sample_losses(outputs.flatten(0, 1), rows, self.loss, self._scale)
                stacked: Tensor = losses.unflatten(0, (chains, -1))
                return stacked
        values = []
        for chain in range(chains):
            own = {name: tensor[chain] for name, tensor in named.items()}
            given = (inputs, labels) if shared else (inputs[chain], labels[chain])
            values.append(self._of_one(own, *given))
        return torch.stack(values)

    def _stacked_outputs(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """Outputs (n, ...) of one network among stacked ones."""
        assert self._stackable is not None
        state = {**parameters, **self._fixed}
        outputs: Tensor = functional_call(self._stackable, state, (inputs,))
        return outputs


def with_stacked_linear(network: nn.Module) -> nn.Module:
    """A copy of a network for `torch.vmap`; its parameters have the same names.

    Args:
        network: It stays as it is; its layers of the very class `nn.Linear` are replaced.

    Returns:
        The copy, which computes the same.
    """
    # the network may itself be a linear layer
    holder = nn.Sequential(copy.deepcopy(network))
    for module in list(holder.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear:
                setattr(module, name, _StackedLinear(child))
    return holder[0]


class _StackedLinear(nn.Module):
    """The parameters of a linear layer, multiplied by `_Product`."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = layer.weight
        self.bias = layer.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """W x + b."""
        # torch's `apply` has no annotations
        outputs: Tensor = _Product.apply(inputs, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return outputs


class _Product(torch.autograd.Function):
    """`functional.linear` with a rule of its own for stacks of weights.

    Only the rule for `torch.vmap` is differentiated, outside of it; it is made of plain operations.
    """

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Nothing is saved."""

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor | None,
    ) -> tuple[Tensor, int]:
        """Outputs of all networks, and the axis of networks in them."""
        count = info.batch_size
        if in_dims[0] is None:
            flat = None if biases is None else biases.flatten()
            together = functional.linear(inputs, weights.flatten(0, 1), flat)
            return together.unflatten(-1, (count, -1)), together.dim() - 1
        rows = inputs.movedim(in_dims[0], 0)  # (networks, ..., inputs)
        shape = rows.shape[:-1]
        rows = rows.flatten(1, -2)
        turned = weights.transpose(1, 2)
        if biases is None:
            outputs = torch.bmm(rows, turned)
        else:
            outputs = torch.baddbmm(biases[:, None], rows, turned)
        return outputs.reshape(*shape, -1), 0


def first_samples(samples: Samples, count: int | None, *, usual: int | None = None) -> Samples:
    """The first samples in order.

    Args:
        samples: Of one split.
        count: How many; more than there are is refused.
        usual: How many where `count` is None, or all if there are fewer; None: all.

    Returns:
        The samples.
    """
    there = len(samples.labels)
    if count is None:
        count = there if usual is None else min(usual, there)
    if count > there:
        raise penchant.Error(f"samples must be at most {there}, found {count}")
    rows = torch.arange(count, device=samples.labels.device)
    first: Samples = samples.select(rows)
    if not int(first.kind.counts.sum()):
        raise penchant.Error(
            f"the first {count} sequences have no label: all are {IGNORED}; expected at least one"
        )
    return first


def training_loss(context: penchant.Context) -> str:
    """The loss that the network was trained with; the labels decide where that is not known."""
    assert context.training is not None
    loss = context.training.loss
    # how a network of the user's was trained is not known, and cross-entropy is the default only
    own = context.network_kind != "fresh"
    if own and loss == "cross-entropy" and not context.data.classes:
        loss = "squared-error"
    terms = context.data.train.kind.terms_described
    context.conventions["loss"] = f"{loss}, mean over {terms}, without weight decay"
    return loss
