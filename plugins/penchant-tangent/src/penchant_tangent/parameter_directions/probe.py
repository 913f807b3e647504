"""The probe `parameter-directions`: what moves outputs, among all directions of parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import penchant
import torch
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import tangent_kernel
from penchant_numerics.statistics import null_of
from torch import Tensor

from penchant_tangent.declarations.kernels import ParameterDirections
from penchant_tangent.parameter_directions.parameter_steps import (
    Moved,
    random_directions,
    root_mean,
    singular_directions,
)
from penchant_tangent.shared.kernel_precision import precise_network, precise_values
from penchant_tangent.shared.kernel_samples import sampled
from penchant_tangent.shared.supernat import positive_part

Arrays = dict[str, np.ndarray]


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
    arrays = _moved_arrays(outputs, inputs, K, epsilon, context)

    # what random directions do to first order
    size = outputs.layout.size
    mean_square = float(K.trace()) / (len(train.labels) * size)
    expected = epsilon * mean_square**0.5
    return penchant.Result(
        _quantities(arrays, expected),
        arrays,
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


def _moved_arrays(
    outputs: Outputs, inputs: list[Tensor], K: Tensor, epsilon: float, context: penchant.Context
) -> Arrays:
    """Changes of outputs on training and test inputs along both sets of directions."""
    requested = context.options.vectors
    moved = Moved(outputs, inputs)

    # singular vectors of the Jacobian on the training inputs
    train = inputs[0]
    pairs = torch.linalg.eigh(K.double())
    values, vectors = positive_part(*pairs, dtype=K.dtype)
    count = min(requested, len(values))
    leading = singular_directions(outputs, train, values[:count], vectors[:, :count])

    # and as many at random
    generator = context.generator("random directions")
    random = random_directions(outputs, requested, generator)
    eigenvalues = values.cpu().numpy()
    return {
        "eigenvalues": eigenvalues,
        "expected-changes": epsilon * np.sqrt(eigenvalues[:count] / len(train)),
        **_changes("singular-changes", leading, moved, epsilon),
        **_changes("random-changes", random, moved, epsilon),
    }


def _changes(name: str, directions: Iterator[Tensor], moved: Moved, epsilon: float) -> Arrays:
    """Changes of outputs on both sets of samples, with errors over samples."""
    rows = []
    for direction in directions:
        on_train, on_test = moved.squares(direction, epsilon)
        rows.append([*root_mean(on_test), *root_mean(on_train)])
    test, test_error, train, train_error = np.array(rows).T
    return {
        name: test,
        f"{name}-stderr": test_error,
        f"{name}-train": train,
        f"{name}-train-stderr": train_error,
    }


def _quantities(arrays: Arrays, expected: float) -> dict[str, penchant.Quantity]:
    """The first singular vector against random directions, and first order against all orders."""
    # the first singular vector over random directions
    first = arrays["singular-changes"][0]
    error = arrays["singular-changes-stderr"][0]
    mean = penchant.Quantity.of(arrays["random-changes"], over="random directions")
    assert mean.stderr is not None  # the option asks for several
    ratio = first / mean.value
    relative = np.hypot(error / first, mean.stderr / mean.value)

    # how far first order is from what happens
    predicted = arrays["expected-changes"]
    away = np.abs(arrays["singular-changes-train"] / predicted - 1)
    return {
        "leading-change": penchant.Quantity(
            first, stderr=error, over="test samples", **null_of(arrays["random-changes"])
        ),
        "random-change": mean,
        "leading-ratio": penchant.Quantity(
            ratio, stderr=ratio * relative, over="test samples and random directions", null=1.0
        ),
        "random-change-train": _root_mean_square(arrays["random-changes-train"], null=expected),
        "random-change-expected": penchant.Quantity(expected, exact=True),
        "first-order-error": penchant.Quantity.of(away, over="directions"),
    }


def _root_mean_square(changes: np.ndarray, *, null: float) -> penchant.Quantity:
    """The root of the mean square over random directions: first order tells of its square."""
    squares = torch.as_tensor(changes, device="cpu").square()
    value, stderr = root_mean(squares)
    return penchant.Quantity(
        value,
        stderr=stderr,
        over="random directions",
        count=len(changes),
        df=len(changes) - 1,
        null=null,
    )
