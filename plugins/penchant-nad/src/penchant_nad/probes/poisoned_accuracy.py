"""The probe `poisoned-accuracy`: does a network learn the images, or a carrier along a NAD?"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import penchant
from penchant_numerics.batched_training import map_trainings
from penchant_numerics.data import Samples

from penchant_nad.declarations.learning import PoisonedAccuracy
from penchant_nad.numerics.carriers import carriers_needed, poisoned
from penchant_nad.shared import accuracies
from penchant_nad.shared.bases import Basis, most_directions, nad_basis
from penchant_nad.shared.image_trainings import one_channel, train_and_test


def run(options: PoisonedAccuracy, context: penchant.Context) -> penchant.Result:
    """Train on clean images and on images with each carrier; test on clean images."""
    # Refuse what cannot be before networks are sampled, and once more when NADs are there.
    plane = one_channel(context)
    needed = carriers_needed(context.data.classes, context.architecture.shape[0])
    _check_carriers(options, needed, math.prod(plane.architecture.shape))
    if options.directions is None:
        _check_networks(options, needed, plane)
    basis = nad_basis(options.directions, plane, networks=options.networks)
    _check_carriers(options, needed, len(basis.vectors))

    # No carrier is training on clean images.
    items = []
    for carrier in (None, *options.carriers):
        for training in range(options.trainings):
            items.append({"carrier": carrier, "needed": needed, "training": training})
    shared = {"directions": basis.vectors[: max(options.carriers) + needed]}
    rows = map_trainings(context, train_poisoned, items, shared=shared)
    return _result(options, context, rows, basis)


def _check_carriers(options: PoisonedAccuracy, needed: int, available: int) -> None:
    if len(set(options.carriers)) < len(options.carriers) or not options.carriers:
        carriers = list(options.carriers)
        raise penchant.Error(f"carriers must be indices that differ, found {carriers}")
    # A carrier takes several NADs where there are more pairs of classes than channels.
    last = max(options.carriers)
    end = last + needed - 1
    if end >= available:
        raise penchant.Error(
            f"the carrier at {last} takes NADs up to {end}, but there are {available}"
        )


def _check_networks(options: PoisonedAccuracy, needed: int, plane: penchant.Context) -> None:
    last = max(options.carriers)
    end = last + needed
    if end > most_directions(plane, networks=options.networks):
        actual = f"found networks = {options.networks}"
        raise penchant.Error(f"the carrier at {last} needs at least {end} networks, {actual}")


def train_poisoned(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Networks trained on poisoned images (or clean ones), tested on clean images."""
    images = functools.partial(_images, context)
    return train_and_test(context, item, images)


def _images(context: penchant.Context, item: dict[str, Any]) -> tuple[Samples, Samples]:
    """Training images with one carrier, or clean, and clean test images."""
    options: PoisonedAccuracy = context.options
    train, test = context.data.train, context.data.test
    first = item["carrier"]
    if first is not None:
        directions = context.shared["directions"][first : first + item["needed"]]
        images = poisoned(train.inputs, train.labels, directions, epsilon=options.epsilon)
        train = Samples(images, train.labels)
    return train, test


def _rise(carriers: tuple[int, ...], right: np.ndarray) -> dict[str, penchant.Quantity]:
    """How much better networks do with the carrier of the largest index than of the smallest."""
    if len(carriers) < 2:
        return {}
    last = right[int(np.argmax(carriers))]
    first = right[int(np.argmin(carriers))]
    return {"rise": accuracies.answer_quantity(last, split="test", null=0.0, instead=first)}


def _result(
    options: PoisonedAccuracy, context: penchant.Context, rows: list[dict[str, Any]], basis: Basis
) -> penchant.Result:
    data = context.data
    arrays: dict[str, Any] = {"carriers": np.array(options.carriers)}
    quantities = {}
    for split, samples in (("train", data.train), ("test", data.test)):
        name = f"{split}-accuracy"
        right = np.array([row[split] for row in rows])
        right = right.reshape(1 + len(options.carriers), options.trainings, -1)
        # The first row is that of clean images.
        clean, carried = right[0], right[1:]
        arrays |= accuracies.answer_arrays(name, carried)
        kind = "training" if split == "train" else split
        chance = accuracies.commonest_class(samples.labels)
        quantities[f"clean-{name}"] = accuracies.answer_quantity(clean, split=kind, null=chance)
        if split == "test":
            arrays |= accuracies.difference_arrays("test-accuracy-change", clean, carried)
            quantities |= _rise(options.carriers, carried)
    if basis.eigenvalues is not None:
        arrays["eigenvalues"] = basis.eigenvalues[list(options.carriers)]
    conventions = {
        "carrier": "pair of classes d uses NAD i + floor(d / channels) in channel d mod channels; "
        "+epsilon for odd classes",
        "test": "clean images",
        **accuracies.conventions(options.trainings),
    }
    return penchant.Result(quantities, arrays, conventions=conventions)
