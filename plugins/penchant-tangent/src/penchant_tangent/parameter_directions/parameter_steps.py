"""How outputs change when parameters move along right singular vectors of the Jacobian.

J = sum_j sqrt(lambda_j) u_j v_j^T; the left singular vectors and the eigenvalues are the tangent
kernel's, and v_j = J^T u_j / sqrt(lambda_j) is one backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from penchant_numerics.jacobians import Outputs, linearise
from torch import Generator, Tensor

CHUNK = 10  # directions that are held at once: a network may have many parameters


def singular_directions(
    outputs: Outputs, inputs: Tensor, values: Tensor, vectors: Tensor
) -> Iterator[Tensor]:
    """Right singular vectors (P,), one after another.

    Args:
        outputs: The network.
        inputs: The samples (n, ...) of the kernel.
        values: Its eigenvalues (k,), positive.
        vectors: Its eigenvectors (n C, k), as columns.
    """
    # J^T u needs no tangents, which some networks do not have
    line = linearise(outputs, inputs, route="double-backward")
    dtype = outputs.layout.dtype
    for start in range(0, len(values), CHUNK):
        end = start + CHUNK
        columns = vectors[:, start:end]

        # J^T u_j, some at a time
        cotangents = columns.T.reshape(-1, len(inputs), len(columns) // len(inputs))
        rows = line.vjp(cotangents.to(dtype))

        # over their length
        lengths = values[start:end].sqrt().to(rows)
        yield from rows / lengths[:, None]


def random_directions(outputs: Outputs, count: int, generator: Generator) -> Iterator[Tensor]:
    """Directions (P,) that are uniform on the sphere.

    They are sampled on the CPU in single precision: the same in every precision of the network.
    """
    layout = outputs.layout
    for _ in range(count):
        # normal numbers have no preferred direction
        sampled = torch.randn(
            layout.size, generator=generator, device="cpu", dtype=torch.float32
        ).to(layout.dtype)
        unit = sampled / sampled.norm()
        yield unit.to(layout.device)


class Moved:
    """Outputs of a network on several sets of inputs when its parameters have moved.

    Args:
        outputs: The network.
        inputs: Sets of inputs.
    """

    def __init__(self, outputs: Outputs, inputs: Sequence[Tensor]) -> None:
        self.outputs = outputs
        self.inputs = inputs
        self.before = self._at(outputs.values)

    @torch.no_grad()
    def _at(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Outputs on every set of inputs with these parameters."""
        moved = []
        for each in self.inputs:
            moved.append(self.outputs(values, each))
        return moved

    def squares(self, direction: Tensor, epsilon: float) -> list[Tensor]:
        """|f(w + epsilon v) - f(w)|^2 of every sample (n,), for each set of inputs."""
        # move all parameters
        steps = self.outputs.layout.split(direction)
        moved = []
        for value, step in zip(self.outputs.values, steps):
            moved.append(value + epsilon * step)

        # and see what that does
        squares = []
        for after, before in zip(self._at(moved), self.before):
            away = (after - before).double()
            squares.append(away.square().sum(1))
        return squares


def root_mean(squares: Tensor) -> tuple[float, float]:
    """The root of the mean of squares (n,), and its standard error to first order."""
    root = float(squares.mean().sqrt())
    if root == 0:
        return 0.0, 0.0

    # d sqrt(m) = dm / (2 sqrt(m))
    error = float(squares.std()) / len(squares) ** 0.5
    return root, error / (2 * root)
