"""The probe `poisoned-accuracy`: does a network learn the images, or a carrier along a NAD?"""

import functools
import math
from typing import Any

import numpy as np
import penchant
from penchant_numerics.data import Samples

from penchant_nad.declarations.learning import PoisonedAccuracy
from penchant_nad.shared import image_trainings
from penchant_nad.shared.bases import Basis, most_directions, nad_basis
from penchant_nad.shared.image_trainings import (
    carriers_needed,
    one_channel,
    poisoned,
    train_and_test,
)

CROSSED = ("training", "sample")


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
    shared = {"directions": basis.vectors[: max(options.carriers) + needed]}
    trainings = range(options.trainings)
    clean = context.tables(
        train_poisoned, inside=("sample",), shared=shared, trainings=True, training=trainings
    )
    carried = context.tables(
        train_poisoned,
        inside=("sample",),
        shared=shared,
        trainings=True,
        carrier=options.carriers,
        training=trainings,
    )
    return _result(context, clean, carried, basis)


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


def _images(
    context: penchant.Context[PoisonedAccuracy], item: dict[str, Any]
) -> tuple[Samples, Samples]:
    """Training images with one carrier, or clean, and clean test images."""
    options = context.options
    train, test = context.data.train, context.data.test
    first = item.get("carrier")
    if first is not None:
        needed = carriers_needed(context.data.classes, context.architecture.shape[0])
        directions = context.shared["directions"][first : first + needed]
        images = poisoned(train.inputs, train.labels, directions, epsilon=options.epsilon)
        train = Samples(images, train.labels)
    return train, test


def _result(
    context: penchant.Context[PoisonedAccuracy],
    clean: dict[str, penchant.Table],
    carried: dict[str, penchant.Table],
    basis: Basis,
) -> penchant.Result:
    """Of right answers (training, sample) after training on clean images, and (carrier, ...)."""
    options = context.options
    data = context.data
    tables = {}
    quantities = {}
    for split, samples in (("train", data.train), ("test", data.test)):
        name = f"{split}-accuracy"
        tables[name] = carried[split].accuracy()
        chance = image_trainings.commonest_class(samples.labels)
        quantities[f"clean-{name}"] = clean[split].mean(CROSSED, null=chance).quantity()
    tables["test-accuracy-change"] = carried["test"].minus(clean["test"]).mean(CROSSED)
    if len(options.carriers) > 1:
        # How much better networks do with the carrier of the largest index than of the smallest.
        first = carried["test"].at(carrier=min(options.carriers))
        last = carried["test"].at(carrier=max(options.carriers))
        quantities["rise"] = last.minus(first).mean(CROSSED, null=0.0).quantity()
    arrays: dict[str, Any] = {"carriers": np.array(options.carriers)}
    if basis.eigenvalues is not None:
        arrays["eigenvalues"] = basis.eigenvalues[list(options.carriers)]
    conventions = {
        "carrier": "pair of classes d uses NAD i + floor(d / channels) in channel d mod channels; "
        "+epsilon for odd classes",
        "test": "clean images",
        **image_trainings.conventions(options.trainings),
    }
    return penchant.Result(quantities, arrays, tables=tables, conventions=conventions)
