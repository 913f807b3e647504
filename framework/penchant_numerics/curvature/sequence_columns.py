"""Sequences as samples with few outputs, so that what takes gradients sample by sample takes them.

A network with outputs f (positions, C) of a sequence becomes a function of the sequence's number
with outputs (k,), each a combination <u_k, f> with fixed weights u_k (positions, C):

- `loss_gradients`: k = 1, u = dL/df at the labels. The output's gradient is that of the loss.
- `gauss_newton_columns`: u are the columns of the root L of the loss's Hessian, one for every
  position and class, while these are at most 1,000. Beyond, labels y_t are sampled from the
  network's probabilities and u = p - e_y at all positions at once: E[u u^T] = L L^T, because
  samples at different positions are independent. This never takes a pass per class.
- `sampled_outputs`: u picks single outputs (position, class), sampled at random.

With half the squared error as loss, the Gauss-Newton matrix of such a function is the sum of its
gradients' outer products: with the scaling here it is that of the sequences (exactly, or in
expectation over draws), a mean over all positions that count. Parameters keep their names.

Reference: Kunstner, Balles and Hennig, NeurIPS 2019 (sampled labels); Martens, JMLR 2020.
"""

from collections.abc import Callable, Sequence

import torch
from penchant_numerics.curvature.convex_losses import convex_hessians
from penchant_numerics.curvature.losses import closed_form
from penchant_numerics.data import IGNORED, are_sequences, positions_counted
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import MOST_OUTPUTS
from penchant_numerics.refusal import Refusal
from torch import Generator, Tensor, nn

DRAWS = 16  # of the labels of a sequence, where there are more
_CHUNK = 8  # sequences per pass, where labels are sampled

# takes the outputs (m, positions, C) of sequences and their numbers, and gives (m, k)
Combine = Callable[[Tensor, Tensor], Tensor]


class OfSequences(nn.Module):
    """A network as a function of the numbers (m, 1) of sequences.

    It has the modules and parameters of the network, under the same names.

    Args:
        network: A network with outputs (samples, positions, C).
        inputs: All sequences.
        combine: What is made of outputs.
    """

    _network: nn.Module

    def __init__(self, network: nn.Module, inputs: Tensor, combine: Combine) -> None:
        super().__init__()
        # the same dictionaries: parameters that are replaced here are replaced in the network
        for kind in ("_parameters", "_buffers", "_modules"):
            self.__dict__[kind] = network.__dict__[kind]
        self.__dict__["_network"] = network  # not as a module of its own
        self._sequences = inputs
        self._combine = combine
        self.training = network.training

    def forward(self, numbers: Tensor) -> Tensor:
        """Combinations (m, k) of the outputs of these sequences."""
        chosen = numbers[:, 0].long()
        inputs = self._sequences[chosen]
        if inputs.is_floating_point():
            parameter = next(iter(self.parameters()))
            inputs = inputs.to(parameter.dtype)
        return self._combine(self._network(inputs), chosen)


def numbers_of(inputs: Tensor) -> Tensor:
    """The numbers (n, 1) of sequences: the inputs of `OfSequences`.

    >>> numbers_of(torch.zeros(2, 5, device="cpu")).tolist()
    [[0], [1]]
    """
    return torch.arange(len(inputs), device=inputs.device)[:, None]


def loss_gradients(network: nn.Module, data: Sequence[Tensor]) -> OfSequences:
    """The loss of each sequence, (n, 1).

    A sequence's is the sum over its positions, times n over the positions of all: the mean over
    sequences is the mean over positions.

    Args:
        network: A network with outputs (samples, positions, C).
        data: Sequences and labels (n, positions).

    Returns:
        The function of numbers of sequences; the gradient of its output is that of the loss.

    >>> inputs, labels = torch.zeros(1, 2, 3, device="cpu"), torch.tensor([[0, 2]], device="cpu")
    >>> losses = loss_gradients(nn.Linear(3, 3, bias=False), (inputs, labels))
    >>> round(float(losses(numbers_of(inputs)).detach()), 4)  # log 3 at both positions
    1.0986
    """
    inputs, labels = data
    refuse_other_labels(labels)
    # without any position that counts every loss is 0
    scale = len(labels) / max(1, int(positions_counted(labels).sum()))
    return _losses(network, inputs, labels[:, None], scale)


def empirical_columns(network: nn.Module, data: Sequence[Tensor]) -> OfSequences:
    """The same with a scale that makes their outer products' mean the empirical Fisher.

    That of sequences is Ave s_i s_i^T with s_i the sum of gradients over the positions of a
    sequence, over the mean number of positions: what sampled labels would make Gauss-Newton.

    >>> inputs, labels = torch.zeros(1, 2, 3, device="cpu"), torch.tensor([[0, 2]], device="cpu")
    >>> columns = empirical_columns(nn.Linear(3, 3, bias=False), (inputs, labels))
    >>> round(float(columns(numbers_of(inputs)).detach()), 4)  # 2 log 3 / sqrt(2)
    1.5537
    """
    inputs, labels = data
    refuse_other_labels(labels)
    scale = len(labels) / int(positions_counted(labels).sum())
    return _losses(network, inputs, labels[:, None], scale**0.5)


def _losses(network: nn.Module, inputs: Tensor, labels: Tensor, scale: float) -> OfSequences:
    """Sums over positions (n, k) of the cross-entropy at labels (n, k, positions), scaled."""

    def combine(outputs: Tensor, chosen: Tensor) -> Tensor:
        logs = outputs.log_softmax(-1)
        return -scale * _picked(logs, labels[chosen])

    return OfSequences(network, inputs, combine)


def gauss_newton_columns(
    network: nn.Module,
    data: Sequence[Tensor],
    *,
    loss: str = "cross-entropy",
    draws: int | None = None,
    generator: Generator | None = None,
) -> tuple[OfSequences, str]:
    """A function whose gradients are columns of the Gauss-Newton matrix's root.

    Args:
        network: A network with outputs (samples, positions, C), in evaluation mode.
        data: Sequences and labels (n, positions), of which only -100 matters.
        loss: `cross-entropy` or `squared-error`.
        draws: Draws of each sequence's labels; None: all columns where they are at most
            `MOST_OUTPUTS`, else `DRAWS`.
        generator: On the CPU, for draws.

    Returns:
        The function of numbers of sequences, with outputs (n, k), and the convention in words.

    >>> inputs, labels = torch.ones(1, 2, 3, device="cpu"), torch.tensor([[0, -100]], device="cpu")
    >>> columns, convention = gauss_newton_columns(nn.Linear(3, 4), (inputs, labels))
    >>> columns(numbers_of(inputs)).shape, convention
    (torch.Size([1, 8]), 'all 8 positions x classes of a sequence')
    """
    inputs, labels = data
    refuse_other_labels(labels)
    shape = Outputs(network).sample_shape(inputs)
    counted = labels != IGNORED
    scale = (len(labels) / int(counted.sum())) ** 0.5
    if draws is None and shape.numel() <= MOST_OUTPUTS:

        def every(outputs: Tensor, chosen: Tensor) -> Tensor:
            weights: Tensor = counted[chosen][:, :, None].to(outputs.dtype) * scale
            columns = closed_form(loss).factor_times(outputs.detach(), outputs, transposed=True)
            return (columns * weights).flatten(1)

        convention = f"all {shape.numel()} positions x classes of a sequence"
        return OfSequences(network, inputs, every), convention

    count = draws or DRAWS
    if generator is None:
        raise Refusal(
            f"{shape.numel()} positions x classes of a sequence are more than {MOST_OUTPUTS}, so "
            "that labels are sampled: expected a generator, found None"
        )
    scale = scale / count**0.5
    if loss == "squared-error":
        return _random_signs(network, inputs, counted, scale, count, generator)

    sampled = sampled_labels(network, inputs, count, generator=generator)
    sampled = sampled.masked_fill(~counted[:, None], IGNORED)
    convention = f"{count} draws of the labels of each sequence from the network's probabilities"
    return _losses(network, inputs, sampled, scale), convention


def convex_columns(network: nn.Module, data: Sequence[Tensor], *, loss: str) -> OfSequences:
    """The same for a loss that is convex in the outputs (samples, C), by its Hessian there.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        data: Samples and labels.
        loss: A name of `losses.LOSSES`, or `module:function`.

    Returns:
        The function of numbers of samples, with outputs (n, C).

    Raises:
        Refusal: The loss is not convex at the outputs.

    >>> inputs, labels = torch.ones(2, 1, device="cpu"), torch.tensor([[0.0], [1.0]], device="cpu")
    >>> network = nn.Linear(1, 1, bias=False)
    >>> network.weight.data.zero_()
    tensor([[0.]])
    >>> columns = convex_columns(network, (inputs, labels), loss="binary-cross-entropy")
    >>> gradient, = torch.autograd.grad(columns(numbers_of(inputs)).sum(), network.weight)
    >>> gradient  # two samples with roots sqrt(p (1 - p)) = 1/2
    tensor([[1.]])
    """
    inputs, labels = data
    hessians = convex_hessians(network, inputs, labels, loss)
    values, vectors = torch.linalg.eigh(hessians.double())
    roots = (vectors * values.clamp(min=0).sqrt()[:, None]).to(hessians)  # H = L L^T

    def combine(outputs: Tensor, chosen: Tensor) -> Tensor:
        return torch.einsum("nab,na->nb", roots[chosen], outputs)

    return OfSequences(network, inputs, combine)


def _random_signs(
    network: nn.Module,
    inputs: Tensor,
    counted: Tensor,
    scale: float,
    count: int,
    generator: Generator,
) -> tuple[OfSequences, str]:
    """The identity as a mean of s s^T: random signs s of all outputs."""
    shape = Outputs(network).sample_shape(inputs)
    bits = torch.randint(
        0, 2, (len(inputs), count, *shape), generator=generator, device="cpu", dtype=torch.int8
    )
    sampled = 2 * bits - 1
    sampled = sampled.to(inputs.device) * counted[:, None, :, None]

    def combine(outputs: Tensor, chosen: Tensor) -> Tensor:
        signs = sampled[chosen].to(outputs.dtype)
        return scale * torch.einsum("nktc,ntc->nk", signs, outputs)

    convention = f"{count} draws of random signs for the outputs of each sequence"
    return OfSequences(network, inputs, combine), convention


def sampled_outputs(
    network: nn.Module, inputs: Tensor, *, count: int, generator: Generator
) -> OfSequences:
    """Some outputs (n, count) of each sequence, at positions and classes sampled at random.

    Args:
        network: A network with outputs (samples, positions, C).
        inputs: Sequences.
        count: Outputs of each.
        generator: On the CPU.

    Returns:
        The function of numbers of sequences.
    """
    every = Outputs(network).sample_shape(inputs).numel()
    chances = torch.rand(len(inputs), count, generator=generator, device="cpu").double()
    positions = (chances * every).long().to(inputs.device)

    def combine(outputs: Tensor, chosen: Tensor) -> Tensor:
        return outputs.flatten(1).gather(1, positions[chosen])

    return OfSequences(network, inputs, combine)


@torch.no_grad()
def sampled_labels(
    network: nn.Module, inputs: Tensor, draws: int, *, generator: Generator
) -> Tensor:
    """Labels (n, draws, positions) from the network's own probabilities.

    Args:
        network: A network with outputs (samples, positions, C).
        inputs: Sequences.
        draws: Of each sequence.
        generator: On the CPU, so that every device has the same labels.

    Returns:
        Classes.
    """
    outputs = Outputs(network)
    labels_of_draws = []
    for chunk in inputs.split(_CHUNK):
        made = outputs(outputs.values, chunk)
        shares = made.flatten(0, 1).float().softmax(-1).cpu()
        labels = torch.multinomial(shares, draws, replacement=True, generator=generator)
        labels_of_draws.append(labels.T.unflatten(1, made.shape[:2]).transpose(0, 1))
    return torch.cat(labels_of_draws).to(inputs.device)


def _picked(logs: Tensor, labels: Tensor) -> Tensor:
    """Sums (m, k) of logs (m, positions, C) at labels (m, k, positions), those ignored left out."""
    counted = labels != IGNORED
    positions = labels.clamp(min=0).transpose(1, 2)  # (m, positions, k)
    values = logs.gather(-1, positions).transpose(1, 2)
    return (values * counted).sum(-1)


def refuse_other_labels(labels: Tensor | None) -> None:
    """Refuse labels that are not those of sequences."""
    if are_sequences(labels):
        return
    described = "none" if labels is None else f"{tuple(labels.shape)} of {labels.dtype}"
    raise Refusal(f"expected whole-number labels (samples, positions), found {described}")
