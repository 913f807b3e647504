"""The probe `poisoned-accuracy`: does a network learn the images, or a carrier along one of its NADs?"""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples

from penchant_nad._carriers import carriers_needed, poisoned
from penchant_nad.bases import nad_basis
from penchant_nad.directional_accuracy import mean_and_stderr
from penchant_nad.trained_images import accuracy, check_classes, plane_size, train_and_test
from penchant_nad.views import image_shape, view


def run(options: Any, context: Any) -> penchant.Result:
    """Train on clean images and on images with the carrier at each index; test on clean images."""
    check_classes(context)
    channels = image_shape(context)[0]
    needed = carriers_needed(context.data.classes, channels)
    _check_carriers(options, needed, plane_size(context))
    basis = nad_basis(options, view(context, plane=True), plane_size(context))
    _check_carriers(options, needed, len(basis.vectors))
    rows = [basis.vectors[index : index + needed].tolist() for index in options.carriers]
    items = [
        {"directions": directions, "epsilon": options.epsilon, "repeat": repeat}
        for directions in (None, *rows)
        for repeat in range(options.repeats)
    ]
    found = list(context.map(poisoned_training, items))
    train, test = (
        np.array([each[f"{part}-accuracy"] for each in found]).reshape(-1, options.repeats)
        for part in ("train", "test")
    )
    return _result(options, context, train, test, basis)


def _check_carriers(options: Any, needed: int, available: int) -> None:
    if len(set(options.carriers)) < len(options.carriers) or not options.carriers:
        raise penchant.Error(
            f"carriers must be indices that differ, found {list(options.carriers)}"
        )
    last = max(options.carriers) + needed - 1
    if last >= available:
        raise penchant.Error(
            f"the carrier at {max(options.carriers)} takes NADs up to {last}, but there are {available}"
        )
    if options.directions is None and last >= options.samples:
        raise penchant.Error(
            f"the carrier at {max(options.carriers)} needs at least {last + 1} networks, found samples = {options.samples}"
        )


def poisoned_training(context: Any, item: dict[str, Any]) -> dict[str, float]:
    """One network trained on poisoned images (or clean ones), tested on clean images."""
    train, test = context.data.train, context.data.test
    if item["directions"] is not None:
        directions = torch.tensor(item["directions"], device=context.device, dtype=torch.float64)
        train = Samples(
            poisoned(train.inputs, train.labels, directions, epsilon=item["epsilon"]), train.labels
        )
    return train_and_test(context, train, test, item["repeat"])


def _result(
    options: Any, context: Any, train: np.ndarray, test: np.ndarray, basis: Any
) -> penchant.Result:
    counts = {"train": len(context.data.train.labels), "test": len(context.data.test.labels)}
    arrays: dict[str, Any] = {"carrier": np.array(options.carriers)}
    for part, values in (("train", train), ("test", test)):
        arrays[f"{part}-accuracy"], arrays[f"{part}-accuracy-stderr"] = mean_and_stderr(
            values[1:], counts[part]
        )
    if basis.eigenvalues is not None:
        arrays["eigenvalue"] = basis.eigenvalues[list(options.carriers)]
    chance = 1 / context.data.classes
    quantities = {
        "clean-accuracy": accuracy(test[0], counts["test"], null=chance),
        "clean-train-accuracy": accuracy(train[0], counts["train"], null=chance),
    }
    conventions = {
        "carrier": "pair of classes d uses NAD i + floor(d / channels) in channel d mod channels; +epsilon for odd classes",
        "test": "clean images",
    }
    return penchant.Result(quantities, arrays, conventions=conventions)


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy by the carrier's index."""
    from penchant_nad.figures import poisoned_accuracy

    return {"accuracy": poisoned_accuracy(result)}
