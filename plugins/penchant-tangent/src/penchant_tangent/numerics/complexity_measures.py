"""Measures of how complex the function of a trained network is.

Of its way: sum_t |delta w_t| sqrt(tr K_t). Of its parameters: the product of spectral norms, the
path norm sqrt(sum over paths of the product of w^2), which is a forward pass of ones through
squared parameters, the Fisher-Rao norm sqrt(E (w . grad loss)^2), and the margin on training
samples.
"""

from __future__ import annotations

import math

import torch
from penchant_numerics.data import Samples
from penchant_numerics.linearisation import Outputs, linearise
from penchant_numerics.tangent_kernels import sample_traces
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

CHUNK = 256  # samples that are linearised at once


class PathLength:
    """sum_t |delta w_t| sqrt(tr K_t) along a training.

    Args:
        network: The network that is trained, as it is before the first step.
        inputs: Samples of the kernel.
        look_every: Steps between traces of the kernel.
    """

    def __init__(self, network: nn.Module, inputs: Tensor, *, look_every: int) -> None:
        self.network = network
        self.inputs = inputs
        self.look_every = look_every
        self.total = 0.0
        self._before = self._parameters()
        self._root = self._root_trace()

    def _parameters(self) -> Tensor:
        parts = [parameter.detach().flatten() for parameter in self.network.parameters()]
        return torch.cat(parts)

    def _root_trace(self) -> float:
        """sqrt(tr K) in evaluation mode; the network's mode is put back."""
        training = self.network.training
        self.network.eval()
        traces = sample_traces(self.network, self.inputs, loss="squared-error")
        self.network.train(training)
        return math.sqrt(float(traces.double().sum()))

    def observe(self, step: int, loss: float) -> None:
        """Add the last step; `Trainer.run` calls it."""
        now = self._parameters()
        self.total += float((now - self._before).norm()) * self._root
        self._before = now
        if step % self.look_every == 0:
            self._root = self._root_trace()


def spectral_product(network: nn.Module) -> float:
    """The product of the largest singular values of all weights, as matrices (units, inputs)."""
    found = 1.0
    for parameter in network.parameters():
        if parameter.dim() > 1:
            matrix = parameter.detach().flatten(1)
            found *= float(torch.linalg.matrix_norm(matrix.double(), 2))
    return found


@torch.no_grad()
def path_norm(network: nn.Module, shape: tuple[int, ...]) -> float:
    """The root of the sum over paths of products of squared parameters.

    It is meant for networks that are linear where all values are positive, such as ReLU networks
    without normalisation.
    """
    # ones take every path
    squares = {name: value.double().square() for name, value in network.named_parameters()}
    first = next(iter(squares.values()))
    ones = torch.ones(1, *shape, device=first.device, dtype=first.dtype)
    outputs = functional_call(network, squares, (ones,))
    return math.sqrt(float(outputs.sum()))


def fisher_rao(network: nn.Module, samples: Samples) -> float:
    """sqrt(E (w . grad loss)^2) over samples, for cross-entropy."""
    outputs = Outputs(network)
    row = outputs.layout.join([value.detach() for value in outputs.values])
    squares = []
    for inputs, labels in zip(samples.inputs.split(CHUNK), samples.labels.split(CHUNK)):
        line = linearise(outputs, inputs)
        # w . grad loss = (J w) . (chances - label)
        (change,) = line.jvp(row[None])  # J w, (n, C)
        chances = line.outputs.softmax(1)
        errors = chances - functional.one_hot(labels, chances.shape[1])
        squares.append((change * errors).sum(1).double().square())
    return math.sqrt(float(torch.cat(squares).mean()))


def margin(outputs: Tensor, labels: Tensor, *, share: float = 0.1) -> float:
    """The margin that this share of samples does not reach: f_y minus the largest other output.

    >>> outputs = torch.tensor([[3.0, 1.0], [0.0, 1.0]], device="cpu")
    >>> margin(outputs, torch.tensor([0, 1], device="cpu"), share=0.0)
    1.0
    """
    # of every sample
    own = outputs.gather(1, labels[:, None])[:, 0]
    others = outputs.scatter(1, labels[:, None], -torch.inf).amax(1)
    # the one that stands at this share
    ordered = (own - others).double().sort().values
    place = int(share * (len(ordered) - 1))
    return float(ordered[place])
