"""Measures of how complex the function of a trained network is.

Of its way: sum_t |delta w_t| sqrt(tr K_t). Of its parameters: the product of spectral norms, the
path norm sqrt(sum over paths of the product of w^2), which is a forward pass of ones through
squared parameters, the Fisher-Rao norm sqrt(E (w . grad loss)^2), and the margin on training
samples.
"""

import math

import torch
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.data import Samples
from penchant_numerics.jacobians import Outputs, linearise
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

CHUNK = 256  # samples that are linearised at once


class PathLength:
    """sum_t |delta w_t| sqrt(tr K_t) along a training.

    Args:
        network: The network that is trained, as it is before the first step.
        inputs: Samples of the kernel.
        eval_every: Steps between traces of the kernel.
    """

    def __init__(self, network: nn.Module, inputs: Tensor, *, eval_every: int) -> None:
        self.network = network
        self.inputs = inputs
        self.eval_every = eval_every
        self.total = 0.0
        self._before = self._parameters()
        self._root = self._root_trace()

    def _parameters(self) -> Tensor:
        """All parameters in a row."""
        values = []
        for parameter in self.network.parameters():
            values.append(parameter.detach().flatten())
        return torch.cat(values)

    def _root_trace(self) -> float:
        """sqrt(tr K) in evaluation mode; the network's mode is put back."""
        network = self.network
        training = network.training
        network.eval()
        traces = sample_traces(network, self.inputs, loss="squared-error")
        network.train(training)

        # the trace of K is the sum over samples
        trace = float(traces.double().sum())
        return math.sqrt(trace)

    def observe(self, step: int, loss: float) -> None:
        """Add the last step; `Trainer.run` calls it."""
        now = self._parameters()
        update = now - self._before
        self.total += float(update.norm()) * self._root
        self._before = now

        # the kernel changes more slowly than parameters do
        if step % self.eval_every == 0:
            self._root = self._root_trace()


def spectral_product(network: nn.Module) -> float:
    """The product of the largest singular values of all weights, as matrices (units, inputs)."""
    product = 1.0
    for parameter in network.parameters():
        if parameter.dim() > 1:
            matrix = parameter.detach().flatten(1)
            product *= float(torch.linalg.matrix_norm(matrix.double(), 2))
    return product


def spectral_stable_rank(network: nn.Module) -> float:
    """The product of spectral norms times the root of the sum of stable ranks |W|_F^2 / |W|_2^2.

    Reference: Neyshabur, Bhojanapalli and Srebro, A PAC-Bayesian approach to spectrally-normalized
    margin bounds for neural networks, 2018; the bound divides it by the margin.
    """
    ranks = 0.0
    for parameter in network.parameters():
        if parameter.dim() > 1:
            matrix = parameter.detach().flatten(1).double()
            largest = torch.linalg.matrix_norm(matrix, 2)
            ranks += float((matrix.norm() / largest).square())
    return spectral_product(network) * math.sqrt(ranks)


@torch.no_grad()
def path_norm(network: nn.Module, shape: tuple[int, ...]) -> float:
    """The root of the sum over paths of products of squared parameters.

    It is meant for networks that are linear where all values are positive, such as ReLU networks
    without normalisation.
    """
    # ones take every path
    squares = {}
    for name, value in network.named_parameters():
        squares[name] = value.double().square()
    first = next(iter(squares.values()))
    ones = torch.ones(1, *shape, device=first.device, dtype=first.dtype)
    outputs = functional_call(network, squares, (ones,))
    return math.sqrt(float(outputs.sum()))


def fisher_rao(network: nn.Module, samples: Samples) -> float:
    """sqrt(E (w . grad loss)^2) over samples, for cross-entropy."""
    outputs = Outputs(network)
    values = [value.detach() for value in outputs.values]
    w = outputs.layout.join(values)
    chunks = zip(samples.inputs.split(CHUNK), samples.labels.split(CHUNK))
    squares = []
    for inputs, labels in chunks:
        line = linearise(outputs, inputs)
        (change,) = line.jvp(w[None])  # J w, (n, C)

        # w . grad loss = (J w) . (chances - label)
        chances = line.outputs.softmax(1)
        indicators = functional.one_hot(labels, chances.shape[1])
        products = change * (chances - indicators)
        squares.append(products.sum(1).double().square())
    mean = torch.cat(squares).mean()
    return math.sqrt(float(mean))


def margins(outputs: Tensor, labels: Tensor) -> Tensor:
    """f_y minus the largest other output of every sample, (samples,).

    >>> outputs = torch.tensor([[3.0, 1.0], [0.0, 1.0]], device="cpu")
    >>> margins(outputs, torch.tensor([0, 0], device="cpu")).tolist()
    [2.0, -1.0]
    """
    own_index = labels[:, None]
    own = outputs.gather(1, own_index)[:, 0]
    others = outputs.scatter(1, own_index, -torch.inf).amax(1)
    return (own - others).double()


def margin(outputs: Tensor, labels: Tensor, *, share: float = 0.1) -> float:
    """The margin that this share of samples does not reach.

    >>> outputs = torch.tensor([[3.0, 1.0], [0.0, 1.0]], device="cpu")
    >>> margin(outputs, torch.tensor([0, 1], device="cpu"), share=0.0)
    1.0
    """
    ordered = margins(outputs, labels).sort().values
    last = len(ordered) - 1
    return float(ordered[int(share * last)])
