"""The probe `sample-pruning`: is a training set better pruned by Score than at random?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.trainer import Trainer, evaluate
from torch import Generator, Tensor

from penchant_gih._geometry import scores, unit_rows
from penchant_gih.bases import average_geometry, mean_and_stderr
from penchant_gih.measuring import measure_geometry, scalar_outputs


def run(options: Any, context: Any) -> penchant.Result:
    """Score every training sample where it stands, then train without the lowest of each class, and without random ones."""
    train = context.data.train
    score, stderr = _scores(options, context, train.inputs.flatten(1).cpu())
    labels = train.labels.cpu()
    items, randoms = [], []
    for fraction in options.fractions:
        kept = keep_highest(score, labels, fraction)
        for repeat in range(options.repeats):
            items.append({"kept": kept.tolist(), "repeat": repeat})
            chance = keep_random(labels, fraction, context.generator("random samples", repeat))
            randoms.append({"kept": chance.tolist(), "repeat": repeat})
    found = np.array([shard["accuracy"] for shard in context.map(pruned_accuracy, items + randoms)])
    ours, others = found.reshape(2, len(options.fractions), options.repeats)
    samples = len(context.data.test.labels)
    arrays = {"fraction": np.array(options.fractions), "score": score}
    if stderr is not None:
        arrays["score-stderr"] = stderr
    arrays["accuracy"], arrays["accuracy-stderr"] = mean_and_stderr(ours, samples)
    arrays["random-accuracy"], arrays["random-accuracy-stderr"] = mean_and_stderr(others, samples)
    conventions = {
        **context.conventions,
        "score": "in the order of the training samples; lowest of each class go first",
    }
    return penchant.Result(_quantities(ours, others, options), arrays, conventions=conventions)


def _scores(options: Any, context: Any, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Score of every sample, with its standard error over networks where G was measured here."""
    outputs = scalar_outputs(context)
    if options.geometry is not None:
        return scores(average_geometry(options, context, outputs=outputs)[0], inputs), None
    geometry = measure_geometry(
        context, samples=options.samples, scale=options.scale, outputs=outputs
    )
    inputs = inputs.to(context.device)
    parts = [
        geometry.stderr(lambda rows, part=part: (rows @ unit_rows(part.to(rows.dtype)).T).square())
        for part in inputs.split(1024)
    ]
    return scores(geometry.matrix(), inputs).cpu(), torch.cat(parts).cpu()


def keep_highest(score: Tensor, labels: Tensor, fraction: float) -> Tensor:
    """Indices, ascending, of the samples left after this share of every class, lowest scores first, is taken out."""
    kept = []
    for label in labels.unique():
        own = (labels == label).nonzero().flatten()
        order = own[score[own].argsort(stable=True)]
        kept.append(order[_dropped(len(own), fraction) :])
    return torch.cat(kept).sort().values


def keep_random(labels: Tensor, fraction: float, generator: Generator) -> Tensor:
    """As many of every class, chosen at random; larger shares take out what smaller ones do and more."""
    return keep_highest(
        torch.rand(len(labels), generator=generator, device="cpu"), labels, fraction
    )


def _dropped(count: int, fraction: float) -> int:
    return min(count - 1, round(fraction * count))


def pruned_accuracy(context: Any, item: dict[str, Any]) -> dict[str, float]:
    """Test accuracy of one network trained on the samples that were kept."""
    data = context.data
    train = data.train.select(torch.tensor(item["kept"], device=data.train.labels.device))
    network = context.network(item["repeat"])
    Trainer(
        network,
        train,
        context.training,
        seed=context.generator("training", item["repeat"]).initial_seed(),
    ).run()
    return {"accuracy": evaluate(network, data.test, loss=context.training.loss)[1]}


def _quantities(ours: np.ndarray, others: np.ndarray, options: Any) -> dict[str, penchant.Quantity]:
    gaps = (ours - others).mean(0)  # one a repeat
    stderr = float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else None
    return {
        "advantage": penchant.Quantity(
            float(gaps.mean()), stderr=stderr, over="repeats", count=options.repeats, null=0.0
        )
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy against the share taken out (tables 1, 2), and the scores."""
    from penchant_gih import figures

    return {"accuracy": figures.pruning(result), "scores": figures.scores(result)}
