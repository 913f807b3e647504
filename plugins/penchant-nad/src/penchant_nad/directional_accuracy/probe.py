"""The probe `directional-accuracy`: what a network learns along each direction of a basis.

When a noisy loss is first below a target.
"""

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.statistics import binomial_stderr
from penchant_numerics.training import (
    Learner,
    evaluate,
    map_trainings,
    shard_of,
    stacks,
    train_together,
)
from torch import Tensor

from penchant_nad.declarations.learning import DirectionalAccuracy
from penchant_nad.shared import image_trainings
from penchant_nad.shared.bases import Basis, check_indices, indices_of, named_basis
from penchant_nad.shared.rank_correlations import rank_correlation_of

OUTPUTS = 2
_FURTHER = 1_000_000  # network number of the next training of a direction

Rows = list[dict[str, Any]]


def run(options: DirectionalAccuracy, context: penchant.Context) -> penchant.Result:
    """Train fresh networks for each direction (and number of samples)."""
    # What cannot be is refused before networks are sampled.
    check_indices(context, networks=options.networks)
    basis = named_basis(context, networks=options.networks)
    indices = indices_of(options, basis)

    # Directions go to workers once, items name their position.
    sizes = _sizes(options)
    items = []
    for size in sizes:
        for position, index in enumerate(indices):
            for training in range(options.trainings):
                item = {"position": position, "index": index, "training": training, "train": size}
                items.append(item)
    shared = {"directions": basis.vectors[indices]}
    rows = map_trainings(
        context,
        train_along,
        items,
        outputs=OUTPUTS,
        alike=operator.itemgetter("train"),  # as many samples are as many steps and losses
        shared=shared,
    )

    # The trainings with `train` samples come first, those with other numbers after them.
    first = rows[: len(indices) * options.trainings]
    axes = {"index": indices, "training": range(options.trainings)}
    tables = _learned(first, axes, options)
    arrays = {"indices": np.array(indices), **_of_basis(basis, indices, context.architecture.shape)}
    if options.train_sizes is not None:
        tables["accuracy-by-size"] = _by_size(rows, {"train": sizes, **axes}, options)
        arrays["train-sizes"] = tables["accuracy-by-size"].coordinates("train")
    _warn_if_nothing_was_learnt(tables["train-accuracy"].values, context)
    never = np.isnan(tables["steps-to-loss"].values).any()
    return penchant.Result(
        _quantities(tables["test-accuracy"], first, context),
        arrays,
        tables=tables,
        conventions=_conventions(options),
        missing=("steps-to-loss", "steps-to-loss-stderr") if never else (),
    )


def _sizes(options: DirectionalAccuracy) -> list[int]:
    """Numbers of training samples: that of the probe first."""
    sizes = [options.train]
    for size in options.train_sizes or ():
        if size != options.train:
            sizes.append(size)
    return sizes


def _conventions(options: DirectionalAccuracy) -> dict[str, str]:
    margins = {"paper": "+-epsilon (paper)", "code": "+-epsilon / 2 (code)"}
    when = f"first step at which the mean loss of the last {WINDOW} batches is below"
    return {
        "margin": margins[options.margin],
        "outputs": "two logits",
        "steps to loss": f"{when} {options.loss_target:g}",
        **image_trainings.conventions(options.trainings),
    }


def train_along(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Accuracies and losses of networks trained on the data of one direction each."""
    train_all = functools.partial(_trained, context)
    return shard_of(item, train_all)


def _trained(context: penchant.Context, items: list[dict[str, int]]) -> Rows:
    """Accuracies and losses of every training."""
    begin = functools.partial(_learner, context)
    rows = []
    # Networks of one stack are trained side by side.
    for group in stacks(context, items, begin):
        learners = [learner for _, learner in group]
        rows += _trained_together(context, learners)
    return rows


def _learner(context: penchant.Context[DirectionalAccuracy], item: dict[str, int]) -> Learner:
    """A fresh network, and the data of one direction."""
    options = context.options
    loaded = context.dataset(
        "linearly-separable",
        direction=context.shared["directions"][item["position"]].cpu().numpy(),
        input_shape=list(context.architecture.shape),
        epsilon=options.epsilon,
        margin=options.margin,
        sigma=options.sigma,
        train=item["train"],
        test=options.test,
    )
    # The index, not the position: a direction has the same networks whatever others are chosen.
    number = item["index"] + _FURTHER * item["training"]
    network = context.network(number, outputs=OUTPUTS)
    return Learner(network, loaded.train, (number,), loaded.test)


def _trained_together(context: penchant.Context, learners: list[Learner]) -> Rows:
    """Train, keeping the loss of every step, and test."""
    assert context.training is not None  # the probe needs it
    training = train_together(context, learners)
    losses = np.zeros((len(learners), training.total), np.float32)

    def record(number: int, step: int, loss: float) -> None:
        # After an early stop the last loss stands for the rest.
        losses[number, step - 1 :] = loss

    training.run(losses=record)
    rows = []
    for network, learner, own in zip(training.networks(), learners, losses):
        loss, train_accuracy = evaluate(network, learner.samples, loss=context.training.loss)
        assert learner.test is not None  # `_learner` made them
        _, test_accuracy = evaluate(network, learner.test)
        row = {
            "train-accuracy": train_accuracy,
            "test-accuracy": test_accuracy,
            "final-loss": loss,
            "loss-curves": own,
            "steps-to-loss": steps_to_loss(own, context.options.loss_target),
        }
        rows.append(row)
    return rows


def _table(rows: Rows, name: str, axes: Mapping[str, Sequence[int]]) -> penchant.Table:
    """What trainings found under a name, in their order; losses have an axis of steps."""
    values = np.array([row[name] for row in rows])
    shape = [len(coordinates) for coordinates in axes.values()]
    steps = {"step": range(1, values.shape[1] + 1)} if values.ndim > 1 else {}
    return penchant.Table(values.reshape(*shape, *values.shape[1:]), {**axes, **steps})


def _learned(
    rows: Rows, axes: Mapping[str, Sequence[int]], options: DirectionalAccuracy
) -> dict[str, penchant.Table]:
    """Means over trainings, by direction, with the errors that are known."""
    tables = {}
    for split, samples in (("train", options.train), ("test", options.test)):
        rates = _table(rows, f"{split}-accuracy", axes)
        tables[f"{split}-accuracy"] = rates.accuracy(over=("training",), samples=samples)
    # Losses have an error only over trainings; curves stay in single precision.
    for name in ("final-loss", "loss-curves", "steps-to-loss"):
        losses = _table(rows, name, axes)
        values = losses.reduced(np.mean, "training").values
        tables[name] = attrs.evolve(losses.mean("training"), values=values)
    return tables


def _by_size(
    rows: Rows, axes: Mapping[str, Sequence[int]], options: DirectionalAccuracy
) -> penchant.Table:
    """Test accuracies (train, index), smallest size first."""
    # The probe's own number of samples stands first; here it takes its position.
    rates = _table(rows, "test-accuracy", axes).select(train=sorted(axes["train"]))
    return rates.accuracy(over=("training",), samples=options.test)


def _of_basis(basis: Basis, indices: list[int], shape: Sequence[int]) -> dict[str, Any]:
    """What the directions are in their basis."""
    arrays: dict[str, Any] = {}
    if basis.frequencies is not None:
        arrays["frequencies"] = _two_columns(basis.frequencies[indices])
        # A figure lays frequencies out on the grid of the input.
        arrays["grid"] = np.array((1, *shape)[-2:])
    if basis.eigenvalues is not None:
        arrays["eigenvalues"] = basis.eigenvalues[indices]
    return arrays


def _two_columns(frequencies: Tensor) -> Tensor:
    """Frequencies as (k, 2); a one-dimensional input has vertical frequency 0."""
    if frequencies.shape[1] == 2:
        return frequencies
    vertical = torch.zeros_like(frequencies)
    return torch.cat([vertical, frequencies], dim=1)


def _warn_if_nothing_was_learnt(
    accuracy: np.ndarray, context: penchant.Context[DirectionalAccuracy]
) -> None:
    """Some directions may well not be learnt; where none is, the recipe does not fit."""
    # Within two standard errors of guessing.
    best = float(accuracy.max())
    if best <= 0.5 + 2 * float(binomial_stderr(0.5, context.options.train)):
        context.warn(
            f"nothing was learnt along any direction: training accuracy at most {best:.3f}, "
            "guessing gives 0.5"
        )


def _quantities(
    accuracy: penchant.Table, rows: Rows, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    test = accuracy.values
    # A training that never reached the loss has NaN steps.
    reached = np.isfinite([row["steps-to-loss"] for row in rows])
    quantities = {
        "test-accuracy": _mean_accuracy(test, rows, context.options.test),
        "reached-share": penchant.Quantity(
            reached.mean(),
            stderr=binomial_stderr(reached.mean(), len(reached)),
            over="trainings",
            count=len(reached),
        ),
    }
    # Positive where what comes first is learnt best.
    order = -accuracy.coordinates("index")
    quantities |= rank_correlation_of(test, order, context, over="directions")
    return quantities


def _mean_accuracy(test: np.ndarray, rows: Rows, samples: int) -> penchant.Quantity:
    """The mean test accuracy over directions, all of which have the same noise in their samples."""
    # A single direction has no spread over directions, but one over its trainings.
    values, over = test, "directions and test samples"
    if len(test) == 1:
        values = np.array([row["test-accuracy"] for row in rows])
        over = "trainings and test samples"
        if len(values) == 1:
            over = "test samples of one training"
    return image_trainings.accuracy_quantity(values, samples, over=over, null=0.5)


WINDOW = 10  # steps whose mean loss is compared with the target: a single batch is too noisy


def steps_to_loss(losses: np.ndarray, target: float, window: int = WINDOW) -> float:
    """The first step at which the mean of the last `window` losses is below the target.

    Args:
        losses: The loss of every step (steps,).
        target: What is to be reached.
        window: Steps that are averaged; all of them where there are fewer.

    Returns:
        The step, or NaN where the target is never reached.

    >>> steps_to_loss(np.array([4.0, 2.0, 1.0, 0.5, 0.25]), 1.0, window=2)
    4.0
    """
    # An untrained network has no losses.
    if not len(losses):
        return math.nan
    window = min(window, len(losses))
    weights = np.full(window, 1 / window)
    means = np.convolve(losses, weights, mode="valid")
    (below,) = np.nonzero(means < target)
    if not len(below):
        return math.nan
    # The mean of a window belongs to its last step.
    return float(below[0] + window)
