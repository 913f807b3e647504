"""The probe `feature-preference`: does a network rely on the linear feature or on the ring?"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import penchant
from penchant_numerics import statistics
from penchant_numerics.batched_training import Learner, map_trainings, measured
from penchant_numerics.data import Data
from torch import Tensor

from penchant_gih.declarations.preference import FeaturePreference
from penchant_gih.shared.advantages import answer_quantity
from penchant_gih.shared.preferred_directions import chosen_indices, preferred_directions
from penchant_gih.shared.right_answers import right_answers

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
    items = []
    for number, index in enumerate(indices):
        for training in range(options.trainings):
            items.append({"number": number, "index": index, "training": training})
    shared = {
        "directions": directions.vectors[indices],
        "plane": directions.vectors[list(options.ring)],
    }
    rows = map_trainings(context, accuracy_by_feature, items, outputs=OUTPUTS, shared=shared)
    arrays: dict[str, Any] = {
        "indices": np.array(indices),
        "eigenvalues": directions.eigenvalues[indices],
    }
    # All trainings of a direction have the same samples: (directions, trainings, samples).
    right = {}
    for name, array in ACCURACIES.items():
        answers = np.array([row[name] for row in rows])
        right[name] = answers.reshape(-1, options.trainings, answers.shape[-1])
        mean, stderr = statistics.crossed_accuracy(right[name])
        arrays[array] = mean
        arrays[f"{array}-stderr"] = stderr
    conventions = {
        "alone": "the other feature is that of an independent random label",
        "outputs": "two logits",
    }
    return penchant.Result(_quantities(indices, right), arrays, conventions=conventions)


def _indices(options: FeaturePreference, vectors: Tensor) -> list[int]:
    """Where the linear feature goes: never on the ring's own plane."""
    chosen_indices(options.ring, vectors)
    indices = chosen_indices(options.indices, vectors, every=options.every)
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
    first = context.shared["directions"][item["number"]]
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


def _quantities(indices: list[int], right: dict[str, np.ndarray]) -> dict[str, penchant.Quantity]:
    """Accuracy on each feature alone, at the smallest and at the largest index."""
    ends = {"first": int(np.argmin(indices)), "last": int(np.argmax(indices))}
    quantities = {}
    for feature in FEATURES:
        for end, position in ends.items():
            answers = right[feature][position]
            quantities[f"{end}-{feature}-accuracy"] = answer_quantity(answers, null=0.5)
    return quantities
