"""The probe `direction-generalization`: what a network generalises along each direction that decides the labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.trainer import Trainer, evaluate

from penchant_gih._labels import Labeller, isotropic_inputs
from penchant_gih.bases import (
    average_geometry,
    checked_indices,
    eigenbasis,
    mean_and_stderr,
    projected_data,
)

OUTPUTS = 2


def run(options: Any, context: Any) -> penchant.Result:
    """Train `repeats` fresh networks a direction, each a shard of its own."""
    if options.basis == "gsg" and options.data != "dataset":
        raise penchant.Error(
            "basis = gsg needs the second moment of a dataset; found data = isotropic"
        )
    size = math.prod(
        context.data.shape if options.data == "dataset" else context.architecture.shape
    )
    if options.geometry is None and options.indices:
        checked_indices(
            options.indices, min(size, options.samples), size, every=options.every
        )  # before anything is drawn
    matrix, rank = average_geometry(options, context, outputs=OUTPUTS)
    if options.basis == "gsg":
        matrix = projected_data(matrix, context.data.train.inputs)
    eigenvalues, vectors = eigenbasis(matrix, rank)
    indices = checked_indices(options.indices, rank, size, every=options.every)
    settings = {
        name: getattr(options, name)
        for name in ("labels", "data", "epsilon", "label_noise", "train", "test")
    }
    items = [
        {**settings, "index": index, "repeat": repeat, "direction": vectors[index].tolist()}
        for index in indices
        for repeat in range(options.repeats)
    ]
    rows = list(context.map(labelled_accuracy, items))
    arrays = _arrays(rows, options)
    arrays |= {"index": np.array(indices), "eigenvalue": eigenvalues[indices]}
    _warn_unfitted(context, arrays["train-accuracy"])
    return penchant.Result(
        _quantities(arrays, options),
        arrays,
        conventions={**context.conventions, **_conventions(options)},
    )


def labelled_accuracy(context: Any, item: dict[str, Any]) -> dict[str, float]:
    """Accuracies of one network trained on labels that one direction decides."""
    train, test = labelled_samples(context, item)
    network = context.network(item["repeat"], outputs=OUTPUTS)
    seed = context.generator("training", item["index"], item["repeat"]).initial_seed()
    Trainer(network, train, context.training, seed=seed).run()
    found = {
        name: evaluate(network, part, loss=context.training.loss)[1]
        for name, part in (("train", train), ("test", test))
    }
    return {**found, "test-samples": len(test.labels), "train-samples": len(train.labels)}


def labelled_samples(context: Any, item: dict[str, Any]) -> tuple[Samples, Samples]:
    """Inputs of the dataset, or isotropic ones, with labels by one direction; repeats differ by their noise."""
    direction = torch.tensor(item["direction"], dtype=torch.float64, device="cpu")
    streams = {
        name: context.generator("samples", name, item["repeat"])
        for name in ("train", "test", "train labels", "test labels")
    }
    if item["data"] == "dataset":
        inputs = [context.data.train.inputs, context.data.test.inputs]
    else:
        shape = context.architecture.shape
        inputs = [
            isotropic_inputs(item[name], direction, item["epsilon"], shape, streams[name])
            for name in ("train", "test")
        ]
        inputs = [part.to(context.device, context.dtype) for part in inputs]
    labeller = Labeller(direction, item["labels"], inputs[0], noise=item["label_noise"])
    train, test = (
        Samples(part, labeller(part, streams[f"{name} labels"]))
        for part, name in zip(inputs, ("train", "test"))
    )
    return train, test


def _arrays(rows: list[dict[str, Any]], options: Any) -> dict[str, Any]:
    found = {}
    for name in ("train", "test"):
        values = np.array([row[name] for row in rows]).reshape(-1, options.repeats)
        mean, stderr = mean_and_stderr(values, int(rows[0][f"{name}-samples"]))
        found |= {f"{name}-accuracy": mean, f"{name}-accuracy-stderr": stderr}
    return found


def _warn_unfitted(context: Any, accuracy: np.ndarray) -> None:
    short = int((accuracy < 0.995).sum())
    if short:
        context.warn(
            f"{short} of {len(accuracy)} directions ended below 100 % training accuracy (lowest {accuracy.min():.3f}): train longer"
        )


def _conventions(options: Any) -> dict[str, str]:
    source = (
        "the dataset's inputs"
        if options.data == "dataset"
        else f"epsilon a u + N(0, I - u u^T), epsilon {options.epsilon:g}"
    )
    noise = f"noise {options.label_noise:g} x channel variance while labelling"
    return {
        "inputs": source,
        "labels": f"{options.labels} in u.x, threshold the training median, {noise}",
        "directions": "eigenvectors of G S G" if options.basis == "gsg" else "eigenvectors of G",
        "outputs": "two logits",
    }


def _quantities(arrays: dict[str, Any], options: Any) -> dict[str, penchant.Quantity]:
    """Mean accuracy, the drop from the leading to the trailing half of the indices, and the rank correlation."""
    from scipy.stats import spearmanr

    order = np.argsort(arrays["index"])
    test, errors = arrays["test-accuracy"][order], arrays["test-accuracy-stderr"][order]
    count, over = len(test), {"over": "directions", "count": len(test)}
    mean = penchant.Quantity(float(test.mean()), stderr=_of_mean(test, errors), null=0.5, **over)
    found = {"mean-accuracy": mean}
    half = count // 2
    if half:
        first, last = test[:half], test[count - half :]
        stderr = math.hypot(_of_mean(first, errors[:half]), _of_mean(last, errors[count - half :]))
        found["drop"] = penchant.Quantity(
            float(first.mean() - last.mean()), stderr=stderr, null=0.0, **over
        )
    if count > 2 and np.ptp(test) > 0:
        value = float(spearmanr(test, -arrays["index"][order]).statistic)
        chance = {"null": 0.0, "null_stderr": 1 / math.sqrt(count - 1)}
        found["rank-correlation"] = penchant.Quantity(
            value, stderr=math.sqrt((1 - value**2) / (count - 2)), **over, **chance
        )
    return found


def _of_mean(values: np.ndarray, errors: np.ndarray) -> float:
    """Standard error of a mean over directions: their spread, at least what their own errors make."""
    own = float(np.sqrt((errors**2).sum())) / len(values)
    spread = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return max(own, spread)


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy against eigen-index, with eigenvalues (figures 4, 10, 11, 14)."""
    from penchant_gih import figures

    return {"accuracy": figures.accuracy_by_index(result)}
