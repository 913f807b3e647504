"""The average geometry evolution Delta = D + D^T from the mixed derivative.

D = -sum_mu E[(M^T grad_theta f(x_mu)) g^T r_mu], M = d^2 f / d theta d x. The sum over samples goes
first: it is the parameter gradient u of the loss, so a network costs one backward pass over the
data and one M^T u, the derivative along u of the input gradient of f. M is never formed, and a
network adds one term of rank two.
"""

import math
from collections.abc import Callable

import torch
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.inputs import first_output
from penchant_numerics.training import Ensemble, State
from torch import Tensor
from torch.func import functional_call, grad, jvp, vjp

from penchant_gih.shared.containment import inner_products

Residual = Callable[[Tensor, Tensor], Tensor]

_NUMBERS_A_PASS = 2**22  # of images, for all networks together: 16 MiB in single precision


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """F - y, for half the sum of squared errors."""
    return outputs - targets


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """dl/df of the logistic loss for targets +-1."""
    classes = (targets + 1) / 2
    probabilities = torch.sigmoid(outputs)
    return probabilities - classes


RESIDUALS: dict[str, Residual] = {"squared-error": squared_error, "cross-entropy": cross_entropy}


class Flow:
    """What moves the networks: gradient flow on samples.

    Args:
        inputs: Samples (m, *shape).
        targets: Their targets (m,).
        permuted: The same targets in another order.
        residual: dl/df.
        batch: Samples a backward pass.
    """

    def __init__(
        self, inputs: Tensor, targets: Tensor, permuted: Tensor, residual: Residual, *, batch: int
    ) -> None:
        self.inputs = inputs
        self.targets = targets
        self.permuted = permuted
        self.residual = residual
        self.batch = batch

    def parameter_gradients(self, ensemble: Ensemble) -> tuple[State, State]:
        """Per network, sum_mu r_mu grad f(x_mu), and what permuting labels would take from it."""
        # Batches are summed in their order.
        first = slice(0, self.batch)
        total, taken = self._batch_gradients(ensemble, first)
        for start in range(self.batch, len(self.inputs), self.batch):
            rows = slice(start, start + self.batch)
            more, more_taken = self._batch_gradients(ensemble, rows)
            total = _sum(total, more)
            taken = _sum(taken, more_taken)
        return total, taken

    def _batch_gradients(self, ensemble: Ensemble, rows: slice) -> tuple[State, State]:
        inputs = self.inputs[rows]
        targets = self.targets[rows]
        permuted = self.permuted[rows]

        def one(state: State) -> tuple[State, State]:
            def outputs_of(weights: State) -> Tensor:
                return _outputs(ensemble, {**state, **weights}, inputs)

            outputs, pull, *_ = vjp(outputs_of, _weights(ensemble, state))
            # One forward pass serves both orders of labels.
            right = self.residual(outputs, targets)
            wrong = self.residual(outputs, permuted)
            (whole,) = pull(right)
            (taken,) = pull(right - wrong)
            return whole, taken

        return torch.vmap(one, randomness="error")(ensemble.state)


def _sum(first: State, second: State) -> State:
    total = {}
    for name, tensor in first.items():
        total[name] = tensor + second[name]
    return total


def _weights(ensemble: Ensemble, state: State) -> State:
    # The gradient does not contain buffers.
    named = ensemble.module.named_parameters()
    return {name: state[name] for name, _ in named}


def _outputs(ensemble: Ensemble, state: State, inputs: Tensor) -> Tensor:
    outputs = functional_call(ensemble.module, state, (inputs,))
    return first_output(outputs)


def mixed_products(ensemble: Ensemble, along: State, points: Tensor) -> Tensor:
    """M^T u, the derivative along u of the input gradient of f.

    Args:
        ensemble: The networks.
        along: u, one a network.
        points: Inputs (networks, inputs, *shape); network n is taken at points[n].

    Returns:
        The products (networks, inputs, D).
    """

    def one(state: State, direction: State, x: Tensor) -> Tensor:
        # Forward along u over a gradient in x. The other order is wrong for layer norm: the tangent
        # of torch's has a backward pass that takes mean and scale for constants (torch 2.13).
        def gradient(weights: State) -> Tensor:
            def total(x: Tensor) -> Tensor:
                return _outputs(ensemble, {**state, **weights}, x).sum()

            gradients: Tensor = grad(total)(x)
            return gradients

        slope: Tensor = jvp(gradient, (_weights(ensemble, state),), (direction,))[1]
        return slope

    return torch.vmap(one, randomness="error")(ensemble.state, along, points).flatten(2)


class Evolution:
    """Delta = -(v g^T + g v^T) averaged over networks, in groups, with errors of its entries."""

    def __init__(self, size: int, *, device: torch.device | str, groups: int) -> None:
        dtype = accumulation_dtype(torch.device(device))
        self.sums = [torch.zeros(size, size, device=device, dtype=dtype) for _ in range(groups)]
        self.squares = torch.zeros(size, size, device=device, dtype=dtype)
        self.counts = [0] * groups

    @property
    def count(self) -> int:
        """How many networks were added."""
        return sum(self.counts)

    def add(self, mixed: Tensor, gradients: Tensor) -> None:
        """Add networks, in their order.

        Args:
            mixed: v = sum_mu r_mu M^T grad_theta f(x_mu), (networks, inputs, D).
            gradients: g, (networks, inputs, D).
        """
        # Sums are in double precision, whatever networks compute in.
        dtype = self.squares.dtype
        v = mixed.to(dtype)
        g = gradients.to(dtype)
        first = self.count
        inputs = v.shape[1]
        # Network i goes to group i mod groups, as in the geometry.
        groups = len(self.sums)
        for offset in range(min(groups, len(v))):
            group = (first + offset) % groups
            own = slice(offset, None, groups)
            left = v[own].flatten(0, 1)
            right = g[own].flatten(0, 1)
            self.sums[group].addmm_(left.T, right, alpha=1 / inputs)
            self.counts[group] += len(v[own])
        # The square of a network's mean over its inputs is a sum over pairs of them.
        weight = 1 / inputs**2
        for p in range(inputs):
            for q in range(inputs):
                self._add_products(v[:, p], g[:, p], v[:, q], g[:, q], weight)

    def _add_products(self, v: Tensor, g: Tensor, w: Tensor, h: Tensor, weight: float) -> None:
        """Entrywise products of (v g^T + g v^T) and (w h^T + h w^T), summed over networks."""
        # Four products of entries, two of which are transposes of the others.
        total = (v * w).T @ (g * h)
        total += (v * h).T @ (g * w)
        self.squares += weight * (total + total.T)

    def group(self, number: int) -> Tensor:
        """Delta from one group of the networks."""
        count = self.counts[number]
        mean = self.sums[number] / count
        return -(mean + mean.T)

    def groups(self) -> list[Tensor]:
        """Delta from every group of the networks."""
        numbers = range(len(self.sums))
        return [self.group(number) for number in numbers]

    def matrix(self) -> Tensor:
        """Delta from all networks."""
        # Groups are summed in their order: another order would round otherwise.
        first, *others = self.sums
        mean = sum(others, first) / self.count
        return -(mean + mean.T)

    def stderr(self) -> Tensor:
        """Standard error (D, D) over networks."""
        # Mean of squares minus square of the mean, entry by entry.
        variance = self.squares / self.count - self.matrix().square()
        freedom = max(1, self.count - 1)
        return (variance.clamp(min=0) / freedom).sqrt()

    def table(self) -> Tensor:
        """Inner products (groups, groups)."""
        return inner_products(self.groups())


def batch_size(networks: int, size: int, samples: int) -> int:
    """Samples a backward pass: some 16 MiB of images for all networks together."""
    a_sample = networks * size
    fitting = math.ceil(_NUMBERS_A_PASS / a_sample)
    return max(1, min(samples, fitting))


def largest_stack(size: int) -> int:
    """Networks differentiated together: many of few inputs, as each stack has a fixed cost."""
    fitting = 2**16 // size
    return max(64, min(1024, fitting))
