"""The average geometry evolution Delta = D + D^T from the mixed derivative, one rank-two term a network.

D = -sum_mu E[(M^T grad_theta f(x_mu)) g^T r_mu], M = d^2 f / d theta d x. The sum over samples goes first: it is
the parameter gradient of the loss, u, so a network costs one backward pass over the data and one M^T u, the input gradient of
the derivative of f along u. M is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from penchant_numerics.derivatives import first_output
from penchant_numerics.ensembles import Ensemble, State
from penchant_numerics.moments import accumulation_dtype
from torch import Tensor
from torch.func import functional_call, grad, jvp, vjp

Residual = Callable[[Tensor, Tensor], Tensor]


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """f - y, for half the sum of squared errors."""
    return outputs - targets


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """dl/df of the logistic loss for targets +-1."""
    return torch.sigmoid(outputs) - (targets + 1) / 2


RESIDUALS: dict[str, Residual] = {"squared-error": squared_error, "cross-entropy": cross_entropy}


class Flow:
    """What moves the networks: samples (m, *shape), targets (m,), and the same targets in another order."""

    def __init__(
        self, inputs: Tensor, targets: Tensor, permuted: Tensor, residual: Residual, *, batch: int
    ) -> None:
        self.inputs, self.targets, self.permuted, self.residual, self.batch = (
            inputs,
            targets,
            permuted,
            residual,
            batch,
        )

    def parameter_gradients(self, ensemble: Ensemble) -> tuple[State, State]:
        """Per network, sum_mu r_mu grad f(x_mu), and the part of it that permuting labels would take away."""
        total: tuple[State, State] | None = None
        for start in range(0, len(self.inputs), self.batch):
            found = self._batch_gradients(ensemble, slice(start, start + self.batch))
            total = (
                found
                if total is None
                else tuple({name: a[name] + b[name] for name in a} for a, b in zip(total, found))
            )
        assert total is not None
        return total

    def _batch_gradients(self, ensemble: Ensemble, rows: slice) -> tuple[State, State]:
        inputs, targets, permuted = self.inputs[rows], self.targets[rows], self.permuted[rows]

        def one(state: State) -> tuple[State, State]:
            outputs, pull = vjp(
                lambda weights: _outputs(ensemble, {**state, **weights}, inputs),
                _weights(ensemble, state),
            )
            right = self.residual(outputs, targets)
            return pull(right)[0], pull(right - self.residual(outputs, permuted))[0]

        return torch.vmap(one, randomness="error")(ensemble.state)


def _weights(ensemble: Ensemble, state: State) -> State:
    return {name: state[name] for name, _ in ensemble.module.named_parameters()}


def _outputs(ensemble: Ensemble, state: State, inputs: Tensor) -> Tensor:
    return first_output(functional_call(ensemble.module, state, (inputs,)))


def mixed_products(ensemble: Ensemble, along: State, points: Tensor) -> Tensor:
    """M^T u (networks, inputs, D): network n at points[n] (networks, inputs, *shape), u = along[n]; the x-gradient of df along u."""

    def one(state: State, direction: State, x: Tensor) -> Tensor:
        def slope(x: Tensor) -> Tensor:
            along_direction = jvp(
                lambda w: _outputs(ensemble, {**state, **w}, x).sum(),
                (_weights(ensemble, state),),
                (direction,),
            )
            return along_direction[1]

        return grad(slope)(x)

    return torch.vmap(one, randomness="error")(ensemble.state, along, points).flatten(2)


class Evolution:
    """Delta = -(v g^T + g v^T) averaged over networks, in parts, with the standard error of every entry."""

    def __init__(self, size: int, *, device: torch.device | str, parts: int) -> None:
        dtype = accumulation_dtype(torch.device(device))
        self.sums = [torch.zeros(size, size, device=device, dtype=dtype) for _ in range(parts)]
        self.squares = torch.zeros(size, size, device=device, dtype=dtype)
        self.counts = [0] * parts

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, mixed: Tensor, gradients: Tensor) -> None:
        """Add v = sum_mu r_mu M^T grad_theta f(x_mu) and g, both (networks, inputs, D), in the order of networks."""
        v, g = mixed.to(self.squares.dtype), gradients.to(self.squares.dtype)
        first, parts, inputs = self.count, len(self.sums), v.shape[1]
        for offset in range(min(parts, len(v))):
            part = (first + offset) % parts
            self.sums[part].addmm_(
                v[offset::parts].flatten(0, 1).T, g[offset::parts].flatten(0, 1), alpha=1 / inputs
            )
            self.counts[part] += len(v[offset::parts])
        for p in range(
            inputs
        ):  # the square of a network's mean over its inputs is a sum over pairs of them
            for q in range(inputs):
                self._add_products(v[:, p], g[:, p], v[:, q], g[:, q], 1 / inputs**2)

    def _add_products(self, v: Tensor, g: Tensor, w: Tensor, h: Tensor, weight: float) -> None:
        """Entrywise products of (v g^T + g v^T) and (w h^T + h w^T), summed over networks."""
        total = (v * w).T @ (g * h) + (v * h).T @ (g * w)
        self.squares += weight * (total + total.T)

    def part(self, number: int) -> Tensor:
        """Delta from one part of the networks."""
        mean = self.sums[number] / self.counts[number]
        return -(mean + mean.T)

    def matrix(self) -> Tensor:
        """Delta from all networks."""
        total = sum(self.sums[1:], self.sums[0]) / self.count
        return -(total + total.T)

    def stderr(self) -> Tensor:
        """Standard error (D, D) over networks."""
        variance = (self.squares / self.count - self.matrix().square()).clamp(min=0)
        return (variance / max(1, self.count - 1)).sqrt()

    def table(self) -> Tensor:
        """Inner products (parts, parts)."""
        parts = [self.part(number) for number in range(len(self.sums))]
        return torch.tensor(
            [[float((a * b).sum()) for b in parts] for a in parts],
            dtype=torch.float64,
            device="cpu",
        )


def batch_size(networks: int, size: int, samples: int) -> int:
    """Samples a backward pass: some 16 MiB of images for all networks together."""
    return max(1, min(samples, math.ceil(2**22 / (networks * size))))
