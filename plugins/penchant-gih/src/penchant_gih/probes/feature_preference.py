"""The probe `feature-preference`: does a network rely on the linear feature or on the ring?"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import penchant
from penchant_numerics import statistics
from penchant_numerics.data import Data
from penchant_numerics.many_trainings import Learner, map_trainings, measured
from penchant_numerics.trainer import evaluate
from torch import Tensor

from penchant_gih.declarations.preference import FeaturePreference
from penchant_gih.probes.preferred_directions import chosen_indices, preferred_directions

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
    found = preferred_directions(
        context,
        networks=options.networks,
        outputs=OUTPUTS,
        stored=options.geometry,
    )
    indices = _indices(options, found.vectors)
    items = []
    for place, index in enumerate(indices):
        for training in range(options.trainings):
            items.append({"place": place, "index": index, "training": training})
    shared = {
        "directions": found.vectors[indices],
        "plane": found.vectors[list(options.ring)],
    }
    rows = map_trainings(context, accuracy_by_feature, items, outputs=OUTPUTS, shared=shared)
    arrays: dict[str, Any] = {
        "indices": np.array(indices),
        "eigenvalues": found.eigenvalues[indices],
    }
    # All trainings of a direction have the same samples.
    for name, array in ACCURACIES.items():
        values = np.array([row[name] for row in rows])
        values = values.reshape(-1, options.trainings)
        samples = options.train if name == "train" else options.test
        mean, stderr = statistics.accuracy(values, samples, shared=True)
        arrays[array] = mean
        arrays[f"{array}-stderr"] = stderr
    conventions = {
        "alone": "the other feature is that of an independent random label",
        "outputs": "two logits",
    }
    return penchant.Result(_quantities(arrays), arrays, conventions=conventions)


def _indices(options: FeaturePreference, vectors: Tensor) -> list[int]:
    """Where the linear feature goes: never on the ring's own plane."""
    chosen_indices(options.ring, vectors)
    indices = chosen_indices(options.indices, vectors, every=options.every)
    if options.indices is None:
        return [index for index in indices if index not in options.ring]
    # Indices that were asked for are refused there, not left out.
    both = sorted(set(indices) & set(options.ring))
    if both:
        raise penchant.Error(f"indices must not be those of the ring's plane, found {both} in both")
    return indices


def accuracy_by_feature(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Accuracies of networks: on training samples, on both features, on each alone."""
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


def _tested(
    context: penchant.Context,
    item: dict[str, int],
    learner: Learner,
) -> dict[str, float]:
    network = learner.network
    found = {
        "train": evaluate(network, learner.samples)[1],
        "both": evaluate(network, learner.test)[1],
    }
    # Where only one of them tells the class.
    for name in FEATURES:
        found[name] = evaluate(network, _data(context, item, name).test)[1]
    return found


def _data(context: penchant.Context, item: dict[str, int], tested: str) -> Data:
    options = context.options
    # The linear feature first, then the plane of the ring.
    first = context.shared["directions"][item["place"]]
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


def _quantities(arrays: dict[str, Any]) -> dict[str, penchant.Quantity]:
    """Accuracy on each feature alone, at the smallest and at the largest index."""
    places = {
        "first": int(arrays["indices"].argmin()),
        "last": int(arrays["indices"].argmax()),
    }
    found = {}
    for feature in FEATURES:
        name = f"{feature}-accuracy"
        for place, position in places.items():
            found[f"{place}-{name}"] = penchant.Quantity(
                arrays[name][position],
                stderr=arrays[f"{name}-stderr"][position],
                over="trainings and samples",
                null=0.5,
            )
    return found
