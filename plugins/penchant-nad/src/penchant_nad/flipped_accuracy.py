"""The probe `flipped-accuracy`: images as they are, and with their NAD coefficients in reverse order."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from torch import Tensor

from penchant_nad._carriers import flip_matrix, flipped
from penchant_nad.bases import nad_basis
from penchant_nad.directional_accuracy import mean_and_stderr
from penchant_nad.trained_images import accuracy, check_classes, plane_size, train_and_test
from penchant_nad.views import image_shape, view


def run(options: Any, context: Any) -> penchant.Result:
    """Train and test on both representations."""
    check_classes(context)
    image_shape(context)
    size = plane_size(context)
    if options.directions is None and options.samples < size:
        raise penchant.Error(
            f"flipping needs all {size} NADs: samples must be at least {size}, found {options.samples}"
        )
    basis = nad_basis(options, view(context, plane=True), size).vectors
    if len(basis) < size:
        raise penchant.Error(f"flipping needs all {size} NADs, found {len(basis)}")
    matrix = flip_matrix(orthonormal(basis))
    items = [
        {"matrix": sent, "repeat": repeat}
        for sent in (None, as_text(matrix))
        for repeat in range(options.repeats)
    ]
    found = list(context.map(flipped_training, items))
    return _result(options, context, found)


def orthonormal(basis: Tensor) -> Tensor:
    """Stored directions may have lost digits: rows made orthonormal again in their order, signs kept."""
    columns, triangle = torch.linalg.qr(basis.T.to(torch.float64))
    return (columns * triangle.diagonal().sign()).T


def flipped_training(context: Any, item: dict[str, Any]) -> dict[str, float]:
    """One network trained and tested on one representation."""
    train, test = context.data.train, context.data.test
    if item["matrix"] is not None:
        matrix = from_text(item["matrix"]).to(context.device)
        train, test = (Samples(flipped(part.inputs, matrix), part.labels) for part in (train, test))
    return train_and_test(context, train, test, item["repeat"])


def as_text(matrix: Tensor) -> str:
    """A square matrix as an item of a map can carry it, in single precision."""
    return base64.b64encode(matrix.to(torch.float32).contiguous().numpy().tobytes()).decode()


def from_text(text: str) -> Tensor:
    """What `as_text` wrote."""
    numbers = torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)
    side = round(len(numbers) ** 0.5)
    return numbers.reshape(side, side)


def _result(options: Any, context: Any, found: list[dict[str, float]]) -> penchant.Result:
    quantities: dict[str, penchant.Quantity] = {}
    arrays: dict[str, Any] = {}
    for part, samples in (("test", context.data.test), ("train", context.data.train)):
        values = np.array([each[f"{part}-accuracy"] for each in found]).reshape(2, options.repeats)
        count = len(samples.labels)
        names = ("original", "flipped") if part == "test" else ("original-train", "flipped-train")
        quantities |= {
            name: accuracy(row, count, null=1 / context.data.classes)
            for name, row in zip(names, values)
        }
        arrays[f"{part}-accuracy"], arrays[f"{part}-accuracy-stderr"] = mean_and_stderr(
            values, count
        )
    conventions = {
        "flipped": "x' = U flip(U^T x), each channel by itself, training and test images alike"
    }
    return penchant.Result(quantities, arrays, conventions=conventions)


def plot(result: penchant.Result) -> dict[str, Any]:
    """Both accuracies side by side."""
    from penchant_nad.figures import flipped_accuracy

    return {"accuracy": flipped_accuracy(result)}
