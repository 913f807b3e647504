"""Trainings on images: the same network and order of samples for every variant of the images.

Accuracies of trainings as quantities, with the errors that are known.

Several trainings tell how much trainings differ; one does not. So of one training there is no
standard error over trainings: only the one over test samples.

Changing images along NADs: a carrier that gives the class away, and flipped coefficients.

Reference: Neural Anisotropy Directions, section 4.2 and supplement E. The printed channel
floor(y/2) does not exist for y > 5 in three channels; with K channels the pair of classes
d = floor(y/2) uses NAD i + floor(d/K) in channel d mod K.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.statistics import accuracy, binomial_stderr, combined_error, mean_and_stderr
from penchant_numerics.training import Learner, measured, outputs, predictions
from torch import Tensor, nn

Images = Callable[[dict[str, Any]], tuple[Samples, Samples]]


def train_and_test(context: penchant.Context, item: Any, images: Images) -> dict[str, Any]:
    """On which samples networks trained on variants of the images are right.

    Args:
        context: That of a shard.
        item: One training, or a list of several; `training` is its number.
        images: Makes training and test images of a variant.

    Returns:
        Right answers on training and test samples, for each of several trainings.
    """

    def begin(one: dict[str, Any]) -> Learner:
        # The number of the training is its key: variants begin alike.
        train, test = images(one)
        number = one["training"]
        return Learner(context.network(number), train, (number,), test)

    return measured(context, item, begin, _answers)


def _answers(item: dict[str, Any], learner: Learner) -> dict[str, Tensor]:
    network = learner.network
    assert learner.test is not None  # `images` made them
    return {"train": _right(network, learner.samples), "test": _right(network, learner.test)}


def _right(network: nn.Module, samples: Samples) -> Tensor:
    """On which samples the network is right (samples,)."""
    predicted = predictions(outputs(network, samples.inputs))
    return predicted == samples.labels


def one_channel(context: penchant.Context) -> penchant.Context:
    """The context in which NADs of images are defined: one channel, one output."""
    _, height, width = context.architecture.shape
    plane = (1, height, width)
    return context.scope(shape=plane, outputs=1)


def accuracy_quantity(
    values: np.ndarray, samples: int, *, over: str, null: float
) -> penchant.Quantity:
    """The mean accuracy of independent rows (rows,): trainings, or directions.

    Args:
        values: Accuracies.
        samples: Samples of each, the same for all.
        over: What the error is over.
        null: The accuracy of guessing.
    """
    mean, stderr = accuracy(values, samples)
    # What rows differ by has as many degrees of freedom as rows less one; samples are many.
    _, between = mean_and_stderr(values)
    sampling = binomial_stderr(mean, samples)
    terms = [(float(between or 0.0), max(len(values) - 1, 1)), (float(sampling), None)]
    _, df = combined_error(terms)
    return penchant.Quantity(mean, stderr=stderr, over=over, count=len(values), df=df, null=null)


def commonest_class(labels: Any) -> float:
    """The accuracy of always answering with the most frequent class."""
    counts = labels.bincount()
    return float(counts.max() / counts.sum())


def conventions(trainings: int) -> dict[str, str]:
    """What the errors of accuracies are over."""
    if trainings > 1:
        return {"errors of accuracies": "over trainings and samples"}
    return {
        "errors of accuracies": "one training each: over its samples only, too small by what "
        "trainings differ"
    }


def carriers_needed(classes: int, channels: int) -> int:
    """Consecutive NADs that a carrier takes: one for every `channels` pairs of classes."""
    pairs = math.ceil(classes / 2)
    return math.ceil(pairs / channels)


def poisoned(images: Tensor, labels: Tensor, directions: Tensor, *, epsilon: float) -> Tensor:
    """Images whose projection on the direction of their pair of classes is +-epsilon.

    Args:
        images: Images (n, K, H, W); everything but that projection is unchanged.
        labels: Their classes (n,); the sign is that of 2 (y mod 2) - 1.
        directions: Unit rows (needed, H W), from the carrier's index on.
        epsilon: The size of the carrier.
    """
    # Which channel and which direction each image's pair of classes has.
    rows = torch.arange(len(images), device=images.device)
    pairs = labels // 2
    channels = images.shape[1]
    planes = images.flatten(2).clone()  # (n, K, H W)
    chosen = directions.to(images.dtype)[pairs // channels]  # (n, H W)

    # The projection is replaced; the rest of the channel stays.
    plane = planes[rows, pairs % channels]
    target = epsilon * (2 * (labels % 2) - 1).to(images.dtype)
    missing = target - (plane * chosen).sum(1)
    planes[rows, pairs % channels] = plane + missing[:, None] * chosen
    return planes.reshape(images.shape)


def orthonormal(basis: Tensor) -> Tensor:
    """Rows made orthonormal again in their order, signs kept: stored ones have lost digits."""
    columns, triangle = torch.linalg.qr(basis.T.to(torch.float64))
    # QR may turn a vector round; the sign of its component along the original says whether it did.
    signs = triangle.diagonal().sign()
    turned: Tensor = columns * signs
    return turned.T


def flip_matrix(basis: Tensor) -> Tensor:
    """The orthogonal matrix R = U flip(U^T) for an orthonormal basis given as rows (D, D)."""
    return basis.flip(0).T @ basis


def flipped(images: Tensor, matrix: Tensor) -> Tensor:
    """Images x' = U flip(U^T x), each channel by itself."""
    rotation = matrix.T.to(images.dtype)
    turned = images.flatten(2) @ rotation
    return turned.reshape(images.shape)
