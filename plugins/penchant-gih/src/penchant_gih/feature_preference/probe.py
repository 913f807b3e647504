"""The probe `feature-preference`: does a network rely on the linear feature or on the ring?"""

import functools
import itertools
from typing import Any

import numpy as np
import penchant
from penchant_numerics.data import Data
from penchant_numerics.training import Learner, measured, right_answers
from torch import Tensor

from penchant_gih.declarations.preference import FeaturePreference
from penchant_gih.shared.preferred_directions import (
    direction_of,
    indices_of,
    preferred_directions,
    shared_directions,
)

OUTPUTS = 2
FEATURES = ("linear", "ring")
ACCURACIES = {
    "train": "train-accuracy",
    "both": "test-accuracy",
    "linear": "linear-accuracy",
    "ring": "ring-accuracy",
}


def run(options: FeaturePreference, context: penchant.Context) -> penchant.Result:
    """Train on both features at once, the linear one on one direction after another."""
    # Two leading directions carry the ring, the others one by one the linear feature.
    directions = preferred_directions(
        context, networks=options.networks, outputs=OUTPUTS, stored=options.geometry
    )
    indices = _indices(options, directions.vectors)
    # All trainings of a direction have the same samples.
    right = context.tables(
        accuracy_by_feature,
        inside=("sample",),
        shared={
            "plane": directions.vectors[list(options.ring)],
            **shared_directions(indices, directions.vectors),
        },
        trainings=True,
        outputs=OUTPUTS,
        index=indices,
        training=range(options.trainings),
    )
    tables = {array: right[name].accuracy() for name, array in ACCURACIES.items()}
    arrays = {"indices": np.array(indices), "eigenvalues": directions.eigenvalues[indices]}
    # Accuracy on each feature alone, at the smallest and at the largest index.
    ends = {"first": min(indices), "last": max(indices)}
    quantities = {}
    for feature, (end, index) in itertools.product(FEATURES, ends.items()):
        accuracy = right[feature].at(index=index).mean(("training", "sample"), null=0.5)
        quantities[f"{end}-{feature}-accuracy"] = accuracy.quantity()
    conventions = {
        "alone": "the other feature is that of an independent random label",
        "outputs": "two logits",
    }
    return penchant.Result(quantities, arrays, tables=tables, conventions=conventions)


def _indices(options: FeaturePreference, vectors: Tensor) -> list[int]:
    """Where the linear feature goes: never on the ring's own plane."""
    indices_of(options.ring, vectors)
    indices = indices_of(options.indices, vectors, every=options.every)
    if options.indices is None:
        return [index for index in indices if index not in options.ring]
    # Requested indices are refused there, not left out.
    both = sorted(set(indices) & set(options.ring))
    if both:
        raise penchant.Error(f"indices must not be those of the ring's plane, found {both} in both")
    return indices


def accuracy_by_feature(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Right answers of networks: on training samples, on both features, on each alone."""
    begin = functools.partial(_learner, context)
    tested = functools.partial(_tested, context)
    return measured(context, item, begin, tested)


def _learner(context: penchant.Context, item: dict[str, int]) -> Learner:
    """A network that is trained on both features at once."""
    data = _data(context, item, "both")
    training = item["training"]
    network = context.network(training, outputs=OUTPUTS)
    keys = (item["index"], training)
    return Learner(network, data.train, keys, data.test)


def _tested(context: penchant.Context, item: dict[str, int], learner: Learner) -> dict[str, Tensor]:
    network = learner.network
    right = {
        "train": right_answers(network, learner.samples),
        "both": right_answers(network, learner.test_samples),
    }
    # Where only one of them tells the class.
    for name in FEATURES:
        right[name] = right_answers(network, _data(context, item, name).test)
    return right


def _data(context: penchant.Context, item: dict[str, int], tested: str) -> Data:
    options = context.options
    # The linear feature first, then the plane of the ring.
    first = direction_of(context, item["index"])
    rows = [first.tolist(), *context.shared["plane"].tolist()]
    return context.dataset(
        "linear-and-ring",
        tested=tested,
        directions=rows,
        epsilon=options.epsilon,
        noise_std=options.noise_std,
        radii=options.radii,
        train=options.train,
        test=options.test,
        input_shape=list(context.architecture.shape),
    )
