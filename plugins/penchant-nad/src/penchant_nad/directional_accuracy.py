"""The probe `directional-accuracy`: what a network learns along each direction of a basis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
from penchant_numerics.training import Trainer, evaluate

from penchant_nad.bases import chosen_indices, named_basis


def run(options: Any, context: Any) -> penchant.Result:
    """Train one fresh network a direction, each a shard of its own."""
    if options.basis == "nad" and options.directions is None and options.indices:
        _check_before_drawing(options, math.prod(context.architecture.shape))
    basis = named_basis(options, context)
    indices = chosen_indices(options, basis)
    data = {name: getattr(options, name) for name in ("epsilon", "margin", "sigma", "train", "test")}
    items = [{"index": index, "direction": basis.vectors[index].tolist(), **data} for index in indices]
    rows = list(context.map(trained_accuracy, items))
    arrays = {name: np.array([row[name] for row in rows]) for name in ("train-accuracy", "test-accuracy", "final-loss")}
    arrays["index"] = np.array(indices)
    for part, count in (("train", options.train), ("test", options.test)):
        arrays[f"{part}-accuracy-stderr"] = binomial_stderr(arrays[f"{part}-accuracy"], count)
    if basis.frequencies is not None:
        arrays["frequency"] = _two_columns(basis.frequencies[indices])
    if basis.eigenvalues is not None:
        arrays["eigenvalue"] = basis.eigenvalues[indices]
    conventions = {"margin": "+-epsilon (paper)" if options.margin == "paper" else "+-epsilon / 2 (code)", "outputs": "two logits"}
    return penchant.Result(_quantities(arrays), arrays, conventions=conventions)


def _check_before_drawing(options: Any, size: int) -> None:
    """Say at once that too few networks were asked for, not after they were drawn."""
    if max(options.indices) >= size:
        raise penchant.Error(f"the input has {size} directions, found index {max(options.indices)}")
    if max(options.indices) >= options.samples:
        need = max(options.indices) + 1
        raise penchant.Error(
            f"{options.samples} networks give {options.samples} directions, found index {need - 1}; samples must be at least {need}"
        )


def trained_accuracy(context: Any, item: dict[str, Any]) -> dict[str, float]:
    """Accuracies and loss of one network trained on the data of one direction."""
    data = {name: item[name] for name in ("epsilon", "margin", "sigma", "train", "test")}
    loaded = context.dataset("linearly-separable", direction=item["direction"], size=list(context.architecture.shape), **data)
    network = context.network(item["index"], outputs=2)
    seed = context.generator("training", item["index"]).initial_seed()
    Trainer(network, loaded.train, context.training, seed=seed).run()
    loss, train = evaluate(network, loaded.train, loss=context.training.loss)
    return {"train-accuracy": train, "test-accuracy": evaluate(network, loaded.test)[1], "final-loss": loss}


def binomial_stderr(accuracy: np.ndarray, count: int) -> np.ndarray:
    """Standard error of a share of `count` samples; half a sample is added on each side so that 0 and 1 have one too."""
    share = (accuracy * count + 0.5) / (count + 1)
    return np.sqrt(share * (1 - share) / count)


def _two_columns(frequencies: Any) -> np.ndarray:
    """Frequencies as (k, 2); a one-dimensional input has vertical frequency 0."""
    values = np.asarray(frequencies)
    return values if values.shape[1] == 2 else np.column_stack([np.zeros_like(values), values])


def _quantities(arrays: dict[str, Any]) -> dict[str, penchant.Quantity]:
    from scipy.stats import spearmanr

    test, count = arrays["test-accuracy"], len(arrays["index"])
    stderr = float(test.std(ddof=1) / math.sqrt(count)) if count > 1 else None
    found = {"mean-accuracy": penchant.Quantity(float(test.mean()), stderr=stderr, over="directions", count=count, null=0.5)}
    if count > 2 and np.ptp(test) > 0:
        correlation = float(spearmanr(test, -arrays["index"]).statistic)
        spread = math.sqrt((1 - correlation**2) / (count - 2))
        chance = {"null": 0.0, "null_stderr": 1 / math.sqrt(count - 1)}
        found["rank-correlation"] = penchant.Quantity(correlation, stderr=spread, over="directions", count=count, **chance)
    return found


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy by index, against the eigenvalue, and by frequency."""
    from penchant_nad import figures

    drawn = {"accuracy": figures.accuracy(result)}
    if "eigenvalue" in result.arrays:
        drawn["accuracy-eigenvalue"] = figures.accuracy_against_eigenvalue(result)
    if "frequency" in result.arrays:
        drawn["frequency-map"] = figures.frequency_map(result)
    return drawn
