"""Derivatives with respect to the input: three answers to "which way does this network lean", for many networks.

`autograd` is the gradient at a point. `finite_difference` is (f(x + h e_i) - f(x - h e_i)) / 2h; with the published h = 100 it
is not a derivative at x. As h grows it tends to the `impulse` response (f0(e_i) - f0(-e_i)) / 2 of the bias-free network
f0, exactly so for positively homogeneous networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from penchant_numerics.ensembles import Ensemble
from torch import Tensor

Network = Callable[[Tensor], Tensor]

_KEPT_BYTES = 2**28  # displaced inputs up to this size are made once


def first_output(outputs: Tensor) -> Tensor:
    """The output that is differentiated: the only one, or the difference of two logits."""
    return outputs[..., 0] if outputs.shape[-1] == 1 else outputs[..., 1] - outputs[..., 0]


def input_gradients(ensemble: Ensemble, points: Tensor) -> Tensor:
    """Gradients (networks, points, D) of every network at points (points, *shape)."""

    def at_all_points(network: Network) -> Tensor:
        gradient = torch.func.grad(
            lambda x: first_output(network(x)).sum()
        )  # rows do not mix: the sum keeps them apart
        return gradient(points)

    return ensemble.map(at_all_points).flatten(2)


def chunk_size(device: torch.device) -> int:
    """Images a forward pass, by device type: 256 fit a CPU's caches, a GPU wants thousands (`make bench`)."""
    return 256 if device.type == "cpu" else 4096


class Displaced:
    """The inputs x + h e_i and x - h e_i for every pixel i, in chunks; made once where they fit."""

    def __init__(self, point: Tensor, step: float, *, chunk: int | None = None) -> None:
        self.point, self.step = point, step
        self.chunk = max(1, (chunk or chunk_size(point.device)) // 2)
        fits = 2 * point.numel() ** 2 * point.element_size() <= _KEPT_BYTES
        self._kept = [self._make(start) for start in self._starts()] if fits else None

    def _starts(self) -> range:
        return range(0, self.point.numel(), self.chunk)

    def _make(self, start: int) -> Tensor:
        size = self.point.numel()
        rows = min(self.chunk, size - start)
        step = torch.zeros(rows, size, device=self.point.device, dtype=self.point.dtype)
        step[
            torch.arange(rows, device=step.device),
            torch.arange(start, start + rows, device=step.device),
        ] = self.step
        both = torch.cat([self.point.flatten() + step, self.point.flatten() - step])
        return both.reshape(-1, *self.point.shape)

    def chunks(self) -> Iterator[Tensor]:
        """Batches (2 rows, *shape): first the forward, then the backward displacements."""
        return (
            iter(self._kept)
            if self._kept is not None
            else (self._make(start) for start in self._starts())
        )


@torch.inference_mode()
def central_differences(network: Network, displaced: Displaced) -> Tensor:
    """(f(x + h e_i) - f(x - h e_i)) / 2h for every pixel i, (D,)."""
    parts = []
    for batch in displaced.chunks():
        forward, backward = first_output(network(batch)).chunk(2)
        parts.append((forward - backward) / (2 * displaced.step))
    return torch.cat(parts)


def finite_differences(
    ensemble: Ensemble, point: Tensor, *, step: float, chunk: int | None = None
) -> Tensor:
    """Central differences (networks, D) at one point, network by network: each is bound by arithmetic already."""
    displaced = Displaced(point, step, chunk=chunk)
    return torch.stack([central_differences(network, displaced) for network in ensemble.each()])


def impulse_responses(
    ensemble: Ensemble, shape: tuple[int, ...], *, like: Tensor, chunk: int | None = None
) -> Tensor:
    """(f0(e_i) - f0(-e_i)) / 2 of the bias-free networks, (networks, D)."""
    origin = torch.zeros(shape, device=like.device, dtype=like.dtype)
    return finite_differences(ensemble.without_biases(), origin, step=1.0, chunk=chunk)
