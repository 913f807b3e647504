"""The probe `flipped-accuracy`: images as they are, and with their NAD coefficients reversed."""

import functools
import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples

from penchant_nad.declarations.learning import FlippedAccuracy
from penchant_nad.shared import image_trainings
from penchant_nad.shared.bases import most_directions, nad_basis
from penchant_nad.shared.image_trainings import (
    flip_matrix,
    flipped,
    one_channel,
    orthonormal,
    train_and_test,
)

VARIANTS = ("original", "flipped")
CROSSED = ("training", "sample")


def run(options: FlippedAccuracy, context: penchant.Context) -> penchant.Result:
    """Train and test on both representations."""
    # A rotation needs a whole basis.
    plane = one_channel(context)
    size = math.prod(plane.architecture.shape)
    if options.directions is None:
        most = most_directions(plane, networks=options.networks)
        if most < size:
            actual = f"networks must be at least {size}, found {options.networks}"
            raise penchant.Error(f"flipping needs all {size} NADs: {actual}")
    nads = nad_basis(options.directions, plane, networks=options.networks)
    basis = nads.vectors
    if len(basis) < size:
        raise penchant.Error(f"flipping needs all {size} NADs, found {len(basis)}")

    # In single precision, which is that of the images.
    matrix = flip_matrix(orthonormal(basis)).to(torch.float32)
    right = context.tables(
        train_variant,
        inside=("sample",),
        shared={"matrix": matrix},
        trainings=True,
        variant=VARIANTS,
        training=range(options.trainings),
    )
    return _result(context, right)


def train_variant(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Networks trained and tested on one representation each."""
    images = functools.partial(_images, context)
    return train_and_test(context, item, images)


def _images(context: penchant.Context, item: dict[str, Any]) -> tuple[Samples, Samples]:
    """Training and test images in one representation."""
    train, test = context.data.train, context.data.test
    if item["variant"] == "flipped":
        matrix = context.shared["matrix"]
        train_inputs = flipped(train.inputs, matrix)
        test_inputs = flipped(test.inputs, matrix)
        train = Samples(train_inputs, train.labels)
        test = Samples(test_inputs, test.labels)
    return train, test


def _result(
    context: penchant.Context[FlippedAccuracy], right: dict[str, penchant.Table]
) -> penchant.Result:
    """Of right answers (variant, training, sample) on test and training samples."""
    data = context.data
    tables = {}
    quantities = {}
    for split, samples in (("test", data.test), ("train", data.train)):
        name = f"{split}-accuracy"
        tables[name] = right[split].accuracy()
        chance = image_trainings.commonest_class(samples.labels)
        for variant in VARIANTS:
            own = right[split].at(variant=variant)
            quantities[f"{variant}-{name}"] = own.mean(CROSSED, null=chance).quantity()
    original, turned = (right["test"].at(variant=variant) for variant in VARIANTS)
    quantities["fall"] = original.minus(turned).mean(CROSSED, null=0.0).quantity()
    conventions = {
        "flipped": "x' = U flip(U^T x), each channel by itself, training and test images alike",
        **image_trainings.conventions(context.options.trainings),
    }
    return penchant.Result(quantities, tables=tables, conventions=conventions)
