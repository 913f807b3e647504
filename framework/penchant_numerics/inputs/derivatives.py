"""Derivatives with respect to the input: three answers to "which way does this network lean".

`autograd` is the gradient at a point. `finite_difference` is (f(x + h e_i) - f(x - h e_i)) / 2h;
with the published h = 100 it is not a derivative at x. As h grows it tends to the `impulse`
response (f0(e_i) - f0(-e_i)) / 2 of the bias-free network f0, exactly so for positively
homogeneous networks.
"""

from collections.abc import Callable, Iterator

import torch
from penchant_numerics.training import Ensemble
from torch import Tensor

Network = Callable[[Tensor], Tensor]

_CACHE_BYTES = 2**28  # displaced inputs up to this size are made once


def first_output(outputs: Tensor) -> Tensor:
    """The output that is differentiated: the only one, or the difference of two logits.

    >>> first_output(torch.tensor([[1.0, 3.0]], device="cpu")).tolist()
    [2.0]
    """
    first = outputs[..., 0]
    if outputs.shape[-1] == 1:
        return first
    second = outputs[..., 1]
    return second - first


def input_gradients(ensemble: Ensemble, points: Tensor) -> Tensor:
    """Gradients in the input, of every network at every point.

    Args:
        ensemble: Networks.
        points: Inputs (points, *shape).

    Returns:
        Gradients (networks, points, D).

    >>> weights = {"weight": torch.tensor([[[1.0, 2.0]]], device="cpu")}  # one network
    >>> linear = torch.nn.Linear(2, 1, bias=False, device="cpu")
    >>> input_gradients(Ensemble(linear, weights, "constructed"), torch.ones(1, 2, device="cpu"))
    tensor([[[1., 2.]]])
    """

    def at_all_points(network: Network) -> Tensor:
        def total(x: Tensor) -> Tensor:
            # rows do not mix: the gradient of the sum is that of each
            outputs = network(x)
            return first_output(outputs).sum()

        gradients: Tensor = torch.func.grad(total)(points)
        return gradients

    values: Tensor = ensemble.map(at_all_points)
    return values.flatten(2)


def chunk_size(device: torch.device) -> int:
    """Images a forward pass: 256 fit a CPU's caches, a GPU wants thousands (`make bench`).

    >>> chunk_size(torch.device("cpu"))
    256
    """
    if device.type == "cpu":
        return 256
    return 4096


class Displaced:
    """The inputs x + h e_i and x - h e_i for every pixel i, in chunks; made once where they fit.

    Args:
        point: The input x, without an axis of samples.
        step: The h.
        chunk: Inputs a forward pass; by default what the device likes.
    """

    def __init__(self, point: Tensor, step: float, *, chunk: int | None = None) -> None:
        self.point = point
        self.step = step
        # half of a pass for each side
        both = chunk or chunk_size(point.device)
        self.chunk = max(1, both // 2)

        # small ones are made once for all networks
        self._cached: list[Tensor] | None = None
        needed = 2 * point.numel() ** 2 * point.element_size()
        if needed <= _CACHE_BYTES:
            self._cached = [self._make(start) for start in self._starts()]

    def chunks(self) -> Iterator[Tensor]:
        """Batches (2 rows, *shape): first the forward, then the backward displacements."""
        if self._cached is not None:
            return iter(self._cached)
        return (self._make(start) for start in self._starts())

    def _starts(self) -> range:
        """The first pixel of each chunk."""
        return range(0, self.point.numel(), self.chunk)

    def _make(self, start: int) -> Tensor:
        """The chunk whose first displaced pixel is `start`."""
        size = self.point.numel()
        count = min(self.chunk, size - start)
        # h e_i, row by row
        step = torch.zeros(count, size, device=self.point.device, dtype=self.point.dtype)
        rows = torch.arange(count, device=step.device)
        step[rows, start + rows] = self.step

        # forward first, then backward
        centre = self.point.flatten()
        both = torch.cat([centre + step, centre - step])
        return both.reshape(-1, *self.point.shape)


@torch.inference_mode()
def central_differences(network: Network, displaced: Displaced) -> Tensor:
    """(f(x + h e_i) - f(x - h e_i)) / 2h for every pixel i, (D,).

    Args:
        network: A function of a batch.
        displaced: The inputs on both sides.
    """
    distance = 2 * displaced.step
    quotients = []
    for batch in displaced.chunks():
        outputs = first_output(network(batch))
        forward, backward = outputs.chunk(2)
        quotients.append((forward - backward) / distance)
    return torch.cat(quotients)


def finite_differences(
    ensemble: Ensemble, point: Tensor, *, step: float, chunk: int | None = None
) -> Tensor:
    """Central differences at one point, network by network: each is bound by arithmetic already.

    Args:
        ensemble: Networks.
        point: The input, without an axis of samples.
        step: The h.
        chunk: Inputs a forward pass; by default what the device likes.

    Returns:
        Differences (networks, D).

    >>> weights = {"weight": torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]], device="cpu")}
    >>> networks = Ensemble(torch.nn.Linear(2, 1, bias=False, device="cpu"), weights, "constructed")
    >>> finite_differences(networks, torch.zeros(2, device="cpu"), step=1.0)
    tensor([[1., 2.],
            [3., 4.]])
    """
    displaced = Displaced(point, step, chunk=chunk)
    rows = [central_differences(network, displaced) for network in ensemble.each()]
    return torch.stack(rows)


def impulse_responses(
    ensemble: Ensemble, shape: tuple[int, ...], *, like: Tensor, chunk: int | None = None
) -> Tensor:
    """(f0(e_i) - f0(-e_i)) / 2 of the bias-free networks.

    Args:
        ensemble: Networks; their biases are left out.
        shape: The shape of an input.
        like: A tensor of the device and precision to use.
        chunk: Inputs a forward pass; by default what the device likes.

    Returns:
        Responses (networks, D).

    >>> state = {"weight": [[[1.0, 2.0]]], "bias": [[5.0]]}
    >>> state = {name: torch.tensor(value, device="cpu") for name, value in state.items()}
    >>> network = Ensemble(torch.nn.Linear(2, 1, device="cpu"), state, "constructed")
    >>> impulse_responses(network, (2,), like=state["weight"])  # the bias is left out
    tensor([[1., 2.]])
    """
    # with a step of one, central differences at the origin are just that
    origin = torch.zeros(shape, device=like.device, dtype=like.dtype)
    without = ensemble.without_biases()
    return finite_differences(without, origin, step=1.0, chunk=chunk)
