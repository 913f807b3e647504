"""Normal inputs of any covariance, with labels that say nothing about them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import penchant
import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

from penchant_synthetic import Gaussian
from penchant_synthetic._draws import balanced_labels, normal_rows, streams


def load(options: Gaussian, generator: Generator) -> Data:
    """Target of the dataset `gaussian`."""
    root = None if options.covariance is None else _square_root(options.covariance, options.size)
    train, test = (
        _draw(count, root, options.scale, options.size, stream)
        for count, stream in zip((options.train, options.test), streams(generator, 2))
    )
    covariance = "identity" if root is None else "given"
    conventions = {
        "covariance": f"{covariance}, times the square of scale",
        "labels": "random, balanced",
    }
    return Data(train, test, classes=2, conventions=conventions)


def _draw(
    count: int, root: Tensor | None, scale: float, size: Sequence[int], generator: Generator
) -> Samples:
    for_labels, for_inputs = streams(generator, 2)
    labels = balanced_labels(count, 2, for_labels)
    inputs = normal_rows(
        count,
        math.prod(size),
        for_inputs,
        transform=lambda z: scale * (z if root is None else z @ root),
    )
    return Samples(inputs.to(torch.float32).reshape(count, *size), labels)


def _square_root(covariance: object, size: Sequence[int]) -> Tensor:
    """The symmetric square root: unlike other factors it does not depend on the signs or the choice of eigenvectors."""
    matrix = torch.as_tensor(covariance, device="cpu", dtype=torch.float64)
    points = math.prod(size)
    if matrix.shape != (points, points):
        raise penchant.Error(
            f"covariance must be {points} x {points}, as size is {list(size)}, found shape {list(matrix.shape)}"
        )
    largest = float(matrix.abs().max())
    asymmetry = float((matrix - matrix.T).abs().max())
    if not largest:
        raise penchant.Error("covariance must not be zero")
    if asymmetry > 1e-6 * largest:
        raise penchant.Error(
            f"covariance must be symmetric, found entries that differ by {asymmetry:.3g}"
        )
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -1e-6 * values.abs().max():
        raise penchant.Error(
            f"covariance must be positive semi-definite, found the eigenvalue {float(values[0]):.3g}"
        )
    return vectors * values.clamp(min=0).sqrt() @ vectors.T
