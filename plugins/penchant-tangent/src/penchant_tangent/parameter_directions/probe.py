"""The probe `parameter-directions`: what moves outputs, among all directions of parameters.

How outputs change when parameters move along right singular vectors of the Jacobian.

J = sum_j sqrt(lambda_j) u_j v_j^T; the left singular vectors and the eigenvalues are the tangent
kernel's, and v_j = J^T u_j / sqrt(lambda_j) is one backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.jacobians import Outputs, linearise
from penchant_numerics.layers import tangent_kernel
from penchant_numerics.statistics import null_of
from torch import Generator, Tensor

from penchant_tangent.declarations.kernels import ParameterDirections
from penchant_tangent.shared.kernel_samples import sampled
from penchant_tangent.shared.kernel_summary import precise_network, precise_values
from penchant_tangent.shared.supernat import positive_part

Tables = dict[str, penchant.Table]


def run(options: ParameterDirections, context: penchant.Context) -> penchant.Result:
    """Move the parameters of the trained network along singular vectors, then at random."""
    *_, (_, network) = context.trained()
    data = context.data
    train = sampled(data.train, options.samples, context.generator("samples"))
    test = sampled(data.test, options.test_samples, context.generator("test samples"))
    inputs = [precise_values(train.inputs), precise_values(test.inputs)]
    network = precise_network(network, train.inputs.device)

    # the same step along every direction
    outputs = Outputs(network)
    epsilon = options.step * _length(outputs)
    K = tangent_kernel(network, inputs[0])
    eigenvalues, vectors = positive_part(*torch.linalg.eigh(K.double()), dtype=K.dtype)
    count = min(options.vectors, len(eigenvalues))
    values = eigenvalues.cpu().numpy()
    expected_changes = epsilon * np.sqrt(values[:count] / len(inputs[0]))

    # singular vectors of the Jacobian on the training inputs, and as many directions at random
    leading = singular_directions(outputs, inputs[0], eigenvalues[:count], vectors[:, :count])
    random = random_directions(outputs, options.vectors, context.generator("random directions"))
    moved = Moved(outputs, inputs)
    tables = {
        **_changes("singular-changes", "vector", leading, moved, epsilon),
        **_changes("random-changes", "direction", random, moved, epsilon),
        "expected-changes": penchant.Table(expected_changes, {"vector": range(count)}),
    }

    # what random directions do to first order
    size = outputs.layout.size
    mean_square = float(K.trace()) / (len(train.labels) * size)
    expected = epsilon * mean_square**0.5
    return penchant.Result(
        _quantities(tables, expected),
        {"eigenvalues": values},
        tables=tables,
        conventions={
            "change": "root of the mean over samples of the squared norm of all outputs' change",
            "epsilon": f"{epsilon:.4g}, of {size} parameters",
            "batch-norm": "running statistics",
        },
    )


def _length(outputs: Outputs) -> float:
    """The length of the vector of all parameters."""
    total = 0.0
    for value in outputs.values:
        squares = value.double().square()
        total += float(squares.sum())
    length: float = total**0.5
    return length


def _changes(
    name: str, axis: str, directions: Iterator[Tensor], moved: Moved, epsilon: float
) -> Tables:
    """Changes of outputs on both sets of samples, with errors over samples."""
    rows = []
    for direction in directions:
        on_train, on_test = moved.squares(direction, epsilon)
        rows.append([*root_mean(on_test), *root_mean(on_train)])
    test, test_error, train, train_error = np.array(rows).T
    axes = {axis: range(len(rows))}
    return {
        name: penchant.Table(test, axes, stderr=test_error, over="test samples"),
        f"{name}-train": penchant.Table(train, axes, stderr=train_error, over="training samples"),
    }


def _quantities(tables: Tables, expected: float) -> dict[str, penchant.Quantity]:
    """The first singular vector against random directions, and first order against all orders."""
    # the first singular vector over random directions
    leading = tables["singular-changes"].at(vector=0).quantity()
    random = tables["random-changes"].values
    mean = penchant.Quantity.of(random, over="random directions")
    assert leading.stderr is not None and mean.stderr is not None  # the option asks for several
    ratio = leading.value / mean.value
    relative = np.hypot(leading.stderr / leading.value, mean.stderr / mean.value)

    # how far first order is from what happens
    changes = tables["singular-changes-train"].values
    away = np.abs(changes / tables["expected-changes"].values - 1)
    return {
        "leading-change": attrs.evolve(leading, **null_of(random)),
        "random-change": mean,
        "leading-ratio": penchant.Quantity(
            ratio, stderr=ratio * relative, over="test samples and random directions", null=1.0
        ),
        "random-change-train": _root_mean_square(
            tables["random-changes-train"].values, null=expected
        ),
        "random-change-expected": penchant.Quantity(expected, exact=True),
        "first-order-error": penchant.Quantity.of(away, over="directions"),
    }


def _root_mean_square(changes: np.ndarray, *, null: float) -> penchant.Quantity:
    """The root of the mean square over random directions: first order tells of its square."""
    squares = torch.tensor(changes, device="cpu").square()
    value, stderr = root_mean(squares)
    return penchant.Quantity(
        value,
        stderr=stderr,
        over="random directions",
        count=len(changes),
        df=len(changes) - 1,
        null=null,
    )


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
