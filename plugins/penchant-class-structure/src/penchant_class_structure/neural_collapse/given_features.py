"""Features and labels of the user's own, which stand for a network and its data."""

from typing import NamedTuple

import penchant
import torch
from penchant_numerics.data import Samples, class_labels, count_aligned
from torch import Tensor

from penchant_class_structure.declarations.neural_collapse import NeuralCollapse
from penchant_class_structure.shared.measured_network import chosen


class GivenFeatures(NamedTuple):
    """Features (n, ...) by layer, labels (n,), and the classifier's weights (classes, d)."""

    features: dict[str, Tensor]
    labels: Tensor
    classes: int
    classifier: Tensor | None


def given_features(options: NeuralCollapse, context: penchant.Context) -> GivenFeatures:
    """The arrays of the options on the device, once they are known to fit."""
    named = {**options.features, "labels": options.labels}
    count_aligned(named, options.sample_ids)
    labels = class_labels(options.labels).to(context.device)
    classes = int(labels.max()) + 1
    features = {}
    for name, each in options.features.items():
        array = torch.as_tensor(each, device=context.device, dtype=context.dtype)
        _check_width(name, array, classes, options)
        picked = chosen(Samples(array, labels), options.per_class, classes)
        features[name] = picked.inputs
    return GivenFeatures(features, picked.labels, classes, _classifier(options, array, classes))


def _check_width(name: str, array: Tensor, classes: int, options: NeuralCollapse) -> None:
    width = array.shape[1] if array.ndim > 1 else 1
    if array.ndim < 2 or not classes - 1 <= width <= options.largest:
        raise penchant.Error(
            f"features of {name!r} must be (samples, features) with {classes - 1} to "
            f"{options.largest} features for {classes} classes, found the shape "
            f"{tuple(array.shape)}"
        )


def _classifier(options: NeuralCollapse, last: Tensor, classes: int) -> Tensor | None:
    """The classifier's weights, which multiply the last of the arrays."""
    if options.classifier_weights is None:
        return None
    weight = torch.as_tensor(options.classifier_weights, device="cpu", dtype=torch.float64)
    expected = (classes, last.shape[1])
    if tuple(weight.shape) != expected:
        raise penchant.Error(
            f"the classifier must be (classes, features), {expected}, found {tuple(weight.shape)}"
        )
    return weight
