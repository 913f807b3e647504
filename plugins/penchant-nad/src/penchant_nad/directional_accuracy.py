"""The probe `directional-accuracy`: what a network learns along each direction of a basis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
from penchant_numerics.trainer import Trainer, evaluate

from penchant_nad.bases import chosen_indices, named_basis

WINDOW = 10  # steps whose mean loss is compared with loss_target: a single batch is too noisy
_FURTHER = 1_000_000  # network number of the next repeat


def run(options: Any, context: Any) -> penchant.Result:
    """Train fresh networks for each direction (and number of training samples), each a shard of its own."""
    if options.basis == "nad" and options.directions is None and options.indices:
        _check_before_drawing(options, math.prod(context.architecture.shape))
    basis = named_basis(options, context)
    indices = chosen_indices(options, basis)
    data = {
        name: getattr(options, name)
        for name in ("epsilon", "margin", "sigma", "test", "loss_target")
    }
    sizes = [options.train, *(size for size in options.train_sizes if size != options.train)]
    items = [
        {
            "index": index,
            "repeat": repeat,
            "direction": basis.vectors[index].tolist(),
            "train": size,
            **data,
        }
        for size in sizes
        for index in indices
        for repeat in range(options.repeats)
    ]
    rows = list(context.map(trained_accuracy, items))
    first = len(indices) * options.repeats
    arrays = {"index": np.array(indices), **_learned(rows[:first], options)}
    if options.train_sizes:
        arrays |= _by_size(rows, sizes, options)
    if basis.frequencies is not None:
        arrays["frequency"] = _two_columns(basis.frequencies[indices])
        arrays["grid"] = np.array((1, *context.architecture.shape)[-2:])
    if basis.eigenvalues is not None:
        arrays["eigenvalue"] = basis.eigenvalues[indices]
    conventions = {
        "margin": "+-epsilon (paper)" if options.margin == "paper" else "+-epsilon / 2 (code)",
        "outputs": "two logits",
        "steps to loss": f"first step at which the mean loss of the last {WINDOW} batches is below {options.loss_target:g}",
    }
    missing = (
        ("steps-to-loss", "steps-to-loss-stderr") if np.isnan(arrays["steps-to-loss"]).any() else ()
    )
    return penchant.Result(
        _quantities(arrays, rows[:first]), arrays, conventions=conventions, missing=missing
    )


def _by_repeat(rows: list[dict[str, Any]], name: str, options: Any) -> np.ndarray:
    """Values (directions, repeats, ...)."""
    values = np.array([row[name] for row in rows])
    return values.reshape(-1, options.repeats, *values.shape[1:])


def _learned(rows: list[dict[str, Any]], options: Any) -> dict[str, np.ndarray]:
    """Means over repeats, by direction, with standard errors where there is anything to take them over."""
    arrays = {}
    for part, count in (("train", options.train), ("test", options.test)):
        values = _by_repeat(rows, f"{part}-accuracy", options)
        arrays[f"{part}-accuracy"], arrays[f"{part}-accuracy-stderr"] = mean_and_stderr(
            values, count
        )
    for name in ("final-loss", "loss-curves", "steps-to-loss"):
        values = _by_repeat(rows, name, options)
        arrays[name] = values.mean(1)
        if options.repeats > 1:
            arrays[f"{name}-stderr"] = values.std(1, ddof=1) / math.sqrt(options.repeats)
    return arrays


def _by_size(rows: list[dict[str, Any]], sizes: list[int], options: Any) -> dict[str, np.ndarray]:
    """Test accuracies (sizes, directions), smallest size first."""
    found = _by_repeat(rows, "test-accuracy", options).reshape(len(sizes), -1, options.repeats)
    order = np.argsort(sizes)
    mean, stderr = mean_and_stderr(found[order], options.test)
    return {
        "train-sizes": np.array(sizes)[order],
        "accuracy-by-size": mean,
        "accuracy-by-size-stderr": stderr,
    }


def mean_and_stderr(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean accuracies over repeats (last axis); standard errors over repeats and over `count` samples together."""
    mean = values.mean(-1)
    variance = binomial_stderr(mean, count) ** 2
    if values.shape[-1] > 1:
        variance = variance + values.var(-1, ddof=1) / values.shape[-1]
    return mean, np.sqrt(variance)


def _check_before_drawing(options: Any, size: int) -> None:
    """Say at once that too few networks were asked for, not after they were drawn."""
    if max(options.indices) >= size:
        raise penchant.Error(f"the input has {size} directions, found index {max(options.indices)}")
    if max(options.indices) >= options.samples:
        need = max(options.indices) + 1
        raise penchant.Error(
            f"{options.samples} networks give {options.samples} directions, found index {need - 1}; samples must be at least {need}"
        )


def trained_accuracy(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Accuracies and losses of one network trained on the data of one direction."""
    data = {name: item[name] for name in ("epsilon", "margin", "sigma", "train", "test")}
    loaded = context.dataset(
        "linearly-separable",
        direction=item["direction"],
        size=list(context.architecture.shape),
        **data,
    )
    number = item["index"] + _FURTHER * item["repeat"]
    network = context.network(number, outputs=2)
    trainer = Trainer(
        network,
        loaded.train,
        context.training,
        seed=context.generator("training", number).initial_seed(),
    )
    losses = np.zeros(trainer.total, np.float32)

    def keep(step: int, loss: float) -> None:
        losses[step - 1 :] = loss  # after an early stop the last loss stands for the rest

    trainer.run(observe=keep)
    loss, train = evaluate(network, loaded.train, loss=context.training.loss)
    found = {
        "train-accuracy": train,
        "test-accuracy": evaluate(network, loaded.test)[1],
        "final-loss": loss,
    }
    return {
        **found,
        "loss-curves": losses,
        "steps-to-loss": steps_to_loss(losses, item["loss_target"]),
    }


def steps_to_loss(losses: np.ndarray, target: float, window: int = WINDOW) -> float:
    """The first step at which the mean of the last `window` losses is below the target; NaN where it never is.

    >>> steps_to_loss(np.array([4.0, 2.0, 1.0, 0.5, 0.25]), 1.0, window=2)
    4.0
    """
    window = max(1, min(window, len(losses)))
    means = np.convolve(losses, np.full(window, 1 / window), mode="valid")
    below = np.nonzero(means < target)[0]
    return float(below[0] + window) if len(below) else math.nan


def binomial_stderr(accuracy: np.ndarray, count: int) -> np.ndarray:
    """Standard error of a share of `count` samples; half a sample is added on each side so that 0 and 1 have one too."""
    share = (accuracy * count + 0.5) / (count + 1)
    return np.sqrt(share * (1 - share) / count)


def _two_columns(frequencies: Any) -> np.ndarray:
    """Frequencies as (k, 2); a one-dimensional input has vertical frequency 0."""
    values = np.asarray(frequencies)
    return values if values.shape[1] == 2 else np.column_stack([np.zeros_like(values), values])


def _quantities(arrays: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, penchant.Quantity]:
    from scipy.stats import spearmanr

    test, count = arrays["test-accuracy"], len(arrays["index"])
    stderr = float(test.std(ddof=1) / math.sqrt(count)) if count > 1 else None
    found = {
        "mean-accuracy": penchant.Quantity(
            float(test.mean()), stderr=stderr, over="directions", count=count, null=0.5
        )
    }
    reached = np.isfinite([row["steps-to-loss"] for row in rows])
    spread = float(binomial_stderr(np.array(reached.mean()), len(reached)))
    found["reached"] = penchant.Quantity(
        float(reached.mean()), stderr=spread, over="trainings", count=len(reached)
    )
    if count > 2 and np.ptp(test) > 0:
        correlation = float(spearmanr(test, -arrays["index"]).statistic)
        spread = math.sqrt((1 - correlation**2) / (count - 2))
        chance = {"null": 0.0, "null_stderr": 1 / math.sqrt(count - 1)}
        found["rank-correlation"] = penchant.Quantity(
            correlation, stderr=spread, over="directions", count=count, **chance
        )
    return found


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy by index, against the eigenvalue, by frequency and by sample count; losses while training."""
    from penchant_nad import figures, training_figures

    drawn = {"accuracy": figures.accuracy(result)}
    if result.arrays["loss-curves"].shape[1] > WINDOW:
        drawn["loss-curves"] = training_figures.loss_curves(result)
    if "eigenvalue" in result.arrays:
        drawn["accuracy-eigenvalue"] = figures.accuracy_against_eigenvalue(result)
    if "accuracy-by-size" in result.arrays:
        drawn["accuracy-by-size"] = training_figures.accuracy_by_size(result)
    if "frequency" in result.arrays:
        accuracies = {
            "values": result.arrays["test-accuracy"],
            "label": "test accuracy",
            "limits": (0.5, 1.0),
        }
        drawn["frequency-map"] = training_figures.frequency_map(result, **accuracies)
        steps = result.arrays["steps-to-loss"]
        if np.isfinite(steps).any():
            drawn["steps-map"] = training_figures.frequency_map(
                result, values=steps, label="steps to the loss asked for"
            )
    return drawn
