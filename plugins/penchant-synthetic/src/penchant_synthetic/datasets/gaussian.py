"""Normal inputs of any covariance, with labels that are independent of them."""

import math
from collections.abc import Sequence

import penchant
import torch
from penchant_numerics.data import Data, Samples, streams
from torch import Generator, Tensor

from penchant_synthetic.declarations import Gaussian
from penchant_synthetic.shared.extendable_draws import balanced_labels, normal_rows

TOLERANCE = 1e-6  # of the largest entry: what rounding leaves of symmetry and positivity


def load(options: Gaussian, generator: Generator) -> Data:
    """Target of the dataset `gaussian`."""
    for_train, for_test = streams(generator, 2)
    root, origin = None, "identity"
    if options.covariance is not None:
        covariance = _checked(options.covariance, options.input_shape)
        root, origin = _square_root(covariance), "given"
    conventions = {
        "covariance": f"{origin}, times the square of scale",
        "labels": "random, balanced",
    }
    return Data(
        train=_draw(options.train, root, options, for_train),
        test=_draw(options.test, root, options, for_test),
        classes=2,
        conventions=conventions,
    )


def _draw(count: int, root: Tensor | None, options: Gaussian, generator: Generator) -> Samples:
    for_labels, for_inputs = streams(generator, 2)
    labels = balanced_labels(count, 2, for_labels)

    def coloured(white: Tensor) -> Tensor:
        if root is None:
            return options.scale * white
        return options.scale * (white @ root)

    values = math.prod(options.input_shape)
    inputs = normal_rows(count, values, for_inputs, transform=coloured)
    inputs = inputs.to(torch.float32).reshape(count, *options.input_shape)
    return Samples(inputs, labels)


def _checked(covariance: object, shape: Sequence[int]) -> Tensor:
    """A covariance as a matrix of numbers; what is none is refused."""
    matrix = torch.as_tensor(covariance, device="cpu", dtype=torch.float64)
    values = math.prod(shape)
    if matrix.shape != (values, values):
        raise penchant.Error(
            f"covariance must be {values} x {values}, as input_shape is {list(shape)}, "
            f"found shape {list(matrix.shape)}"
        )
    largest = float(matrix.abs().max())
    if not largest:
        raise penchant.Error("covariance must not be zero")
    asymmetry = float((matrix - matrix.T).abs().max())
    if asymmetry > TOLERANCE * largest:
        raise penchant.Error(
            f"covariance must be symmetric, found entries that differ by {asymmetry:.3g}"
        )
    return matrix


def _square_root(covariance: Tensor) -> Tensor:
    """The symmetric root: unlike other factors it depends on no sign or choice of eigenvectors."""
    symmetric = (covariance + covariance.T) / 2
    values, vectors = torch.linalg.eigh(symmetric)
    smallest = float(values[0])
    largest = float(values.abs().max())
    if smallest < -TOLERANCE * largest:
        raise penchant.Error(
            f"covariance must be positive semi-definite, found the eigenvalue {smallest:.3g}"
        )
    # What rounding made negative is zero.
    roots = values.clamp(min=0).sqrt()
    root: Tensor = (vectors * roots) @ vectors.T
    return root
