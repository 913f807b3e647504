"""Losses of a network whose parameters are moved, sample by sample, and the quadratic model.

Curvature of the loss along directions, by central differences: two forward passes each.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from penchant_numerics.curvature import Hessian
from penchant_numerics.data import Samples
from penchant_numerics.device import calibrate
from penchant_numerics.jacobians import Layout
from torch import Tensor, nn

from penchant_landscape.shared.network_energy import contributions, sample_losses, sequence_scale

PASS = 2048  # samples, or positions of sequences, of a pass


class Measured(NamedTuple):
    """Losses and right answers of every sample at every point, double precision, on the CPU.

    Of sequences: what each contributes to the mean over positions.
    """

    losses: Tensor  # (points, n)
    right: Tensor  # (points, n), 0 or 1; not a number where labels are numbers


class Landscape:
    """A network that is moved in its parameters.

    Args:
        network: The network at the centre, safe for second derivatives; it stays as it is.
        samples: What losses are measured on.
        loss: `cross-entropy` or `squared-error`.
        batch_norm: `running`, `batch` or `calibrated`, which is done again at every point.
        calibration: Inputs for `calibrated`.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Samples,
        *,
        loss: str,
        batch_norm: str,
        calibration: Tensor,
    ) -> None:
        self.network = network
        self.samples = samples
        self.loss = loss
        self.batch_norm = batch_norm
        self.calibration = calibration
        self.parameters = {name: each.detach() for name, each in network.named_parameters()}
        self.layout = Layout(self.parameters)
        self.centre = self.layout.join(list(self.parameters.values()))
        self._moved = copy.deepcopy(network)
        self.scale = sequence_scale(samples.labels)
        # statistics of the batch are those of all samples
        room = max(1, PASS // samples.kind.positions)
        self.passed = len(samples.labels) if batch_norm == "batch" else room

    def on(self, rows: Tensor) -> Landscape:
        """The same network on some of the samples."""
        samples = self.samples.select(rows.to(self.samples.labels.device))
        return Landscape(
            self.network,
            samples,
            loss=self.loss,
            batch_norm=self.batch_norm,
            calibration=self.calibration,
        )

    @torch.no_grad()
    def measure(
        self, points: Iterable[Tensor], buffers: Iterable[dict[str, Tensor]] | None = None
    ) -> Measured:
        """Losses at points.

        Args:
            points: Parameters (parameters,) of each.
            buffers: Statistics of each point, by name; by default the network's own.

        Returns:
            Losses and right answers (points, n).
        """
        losses, right = [], []
        own = dict(self.network.named_buffers())
        parameters = dict(self._moved.named_parameters())
        held = dict(self._moved.named_buffers())
        given = iter(buffers) if buffers is not None else None
        for point in points:
            for name, value in self.layout.named(point).items():
                parameters[name].copy_(value)
            for name, value in (own if given is None else next(given)).items():
                held[name].copy_(value)
            if self.batch_norm == "calibrated":
                calibrate(self._moved, self.calibration)
            loss, answers = self._of_moved()
            losses.append(loss)
            right.append(answers)
        return Measured(torch.stack(losses), torch.stack(right))

    def _of_moved(self) -> tuple[Tensor, Tensor]:
        """Losses and right answers (n,) of the network as it is now."""
        losses, right = [], []
        inputs, labels = self.samples
        for some, truth in zip(inputs.split(self.passed), labels.split(self.passed)):
            outputs = self._moved(some)
            losses.append(sample_losses(outputs, truth, self.loss, self.scale))
            right.append(self._right_answers(outputs, truth))
        both = (torch.cat(each).to("cpu", torch.float64) for each in (losses, right))
        first, second = (contributions(each, labels.cpu()) for each in both)
        return first, second

    def _right_answers(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Which samples are right; of sequences how many positions, scaled like losses."""
        # numbers are neither right nor wrong
        if labels.is_floating_point():
            return torch.full((len(labels),), torch.nan, device=labels.device)
        right = outputs.argmax(-1) == labels
        return self.scale * right.sum(1) if right.dim() > 1 else right

    def hessian(self) -> Hessian:
        """The Hessian of the mean loss at the centre."""
        # statistics of a batch mix its samples: all of them are one batch
        whole = self.batch_norm == "batch"
        return Hessian(
            self.network,
            tuple(self.samples),
            loss=self.loss,
            batch=self.passed if whole else None,
            check=not whole,
        )

    def curvatures(self, direction: Tensor) -> Tensor:
        """What each sample adds to v^T H v (n,), for the Hessian H of the mean loss at the centre.

        Forward-mode derivatives, twice: a difference would see kinks of single samples.

        Args:
            direction: v (parameters,).
        """

        def losses(position: Tensor, some: Tensor, truth: Tensor) -> Tensor:
            named = self.layout.named(self.centre + position * direction)
            outputs = torch.func.functional_call(self.network, named, (some,))
            return sample_losses(outputs, truth, self.loss, self.scale)

        inputs, labels = self.samples
        zero = torch.zeros((), device=self.centre.device, dtype=self.centre.dtype)
        one = torch.ones_like(zero)
        values = []
        for some, truth in zip(inputs.split(self.passed), labels.split(self.passed)):

            def slopes(position: Tensor, some: Tensor = some, truth: Tensor = truth) -> Tensor:
                along = torch.func.jvp(lambda t: losses(t, some, truth), (position,), (one,))
                tangents: Tensor = along[1]
                return tangents

            values.append(torch.func.jvp(slopes, (zero,), (one,))[1])
        of_samples = torch.cat(values).to("cpu", torch.float64)
        return contributions(of_samples, labels.cpu())

    def gradient(self) -> Tensor:
        """The gradient (parameters,) of the mean loss at the centre."""
        total = torch.zeros_like(self.centre)
        inputs, labels = self.samples
        for some, truth in zip(inputs.split(self.passed), labels.split(self.passed)):
            leaves = {name: each.requires_grad_() for name, each in self._leaves().items()}
            with torch.enable_grad():
                outputs = torch.func.functional_call(self.network, leaves, (some,))
                loss = sample_losses(outputs, truth, self.loss, self.scale).sum()
                gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
            total += self.layout.join(gradients)
        return total / len(labels)

    def _leaves(self) -> dict[str, Tensor]:
        return {name: each.detach() for name, each in self.parameters.items()}


class Quadratic(NamedTuple):
    """The quadratic model along directions: L + g a + h a^2 / 2."""

    loss: float
    slopes: Tensor  # (directions,)
    curvatures: Tensor  # (directions,)

    def at(self, positions: Tensor) -> Tensor:
        """Losses (directions, positions), positions in units of each direction."""
        slopes = self.slopes[:, None]
        curvatures = self.curvatures[:, None]
        return self.loss + slopes * positions + curvatures * positions.square() / 2


def quadratic_model(loss: float, gradient: Tensor, H: Hessian, directions: Tensor) -> Quadratic:
    """The model from gradient and Hessian along rows of directions.

    Args:
        loss: At the centre.
        gradient: At the centre (parameters,).
        H: The Hessian there.
        directions: Rows (k, parameters).

    Returns:
        The model, in double precision on the CPU.
    """
    wide = directions.double() @ gradient.double()
    return Quadratic(loss, wide.cpu(), H.quadratic(directions).double().cpu())


class Along(NamedTuple):
    """The slope and the curvature along a direction, of each sample (n,)."""

    slopes: Tensor
    curvatures: Tensor


def curvature_along(losses: Callable[[float], Tensor], here: Tensor, distance: float) -> Along:
    """Central differences at a distance on both sides.

    Args:
        losses: Losses (n,) at a distance along the direction.
        here: Losses at 0.
        distance: How far to go.

    Returns:
        Slopes and curvatures, exact for a quadratic loss.

    >>> here = torch.ones(1, device="cpu", dtype=torch.float64)
    >>> curvature_along(lambda t: 1 + 2 * t + 1.5 * t**2 * here, here, 0.5).curvatures.item()
    3.0
    """
    ahead, behind = losses(distance), losses(-distance)
    slopes = (ahead - behind) / (2 * distance)
    curvatures = (ahead + behind - 2 * here) / distance**2
    return Along(slopes, curvatures)


def random_units(count: int, like: Tensor, *, generator: torch.Generator) -> Tensor:
    """Rows (count, size) of random unit vectors.

    Args:
        count: How many.
        like: A vector (size,) whose device and precision they have.
        generator: On the CPU.
    """
    rows = torch.randn((count, len(like)), generator=generator, device="cpu", dtype=torch.float64)
    units: Tensor = rows / rows.norm(dim=1, keepdim=True)
    return units.to(like)
