"""The probe `sample-pruning`: is a training set better pruned by Score than at random?"""

import functools
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.training import Learner, measured, right_answers
from torch import Generator, Tensor

from penchant_gih.declarations.preference import SamplePruning
from penchant_gih.shared.geometry import scores
from penchant_gih.shared.gradients import scalar_outputs
from penchant_gih.shared.preferred_directions import (
    groups_of,
    independent_groups,
    matrix_of,
    preferred_directions,
)


def run(options: SamplePruning, context: penchant.Context) -> penchant.Result:
    """Score every training sample where it stands, then train without the lowest of each class.

    And, as many, without random ones.
    """
    train = context.data.train
    score, stderr = _scores(options, context, train.inputs.flatten(1))
    # Both kinds of pruning leave as many samples of every class.
    answers = context.tables(
        right_pruned,
        inside=("sample",),
        shared={"scores": score},
        trainings=True,
        random=(False, True),
        fraction=options.fractions,
        training=range(options.trainings),
    )
    right = answers["right"]
    difference = right.at(random=False).minus(right.at(random=True))
    tables = {
        "test-accuracy": right.at(random=False).accuracy(),
        "random-test-accuracy": right.at(random=True).accuracy(),
        "advantage": difference.mean(("training", "sample")),
    }
    arrays = {"fractions": np.array(options.fractions), "scores": score}
    if stderr is not None:
        arrays["scores-stderr"] = stderr
    accuracy = right.reduced(np.mean, "fraction")
    advantage = accuracy.at(random=False).minus(accuracy.at(random=True))
    quantities = {"advantage": advantage.mean(("training", "sample"), null=0.0).quantity()}
    conventions = {"score": "in the order of the training samples; lowest of each class go first"}
    return penchant.Result(quantities, arrays, tables=tables, conventions=conventions)


def _scores(
    options: SamplePruning, context: penchant.Context, inputs: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Score of every sample, with its standard error over networks where G was measured here."""
    # A score is linear in G, so its error is its spread over groups of G.
    scalar = scalar_outputs(context)
    if options.geometry is not None:
        geometry = preferred_directions(
            context, networks=options.networks, outputs=scalar, stored=options.geometry
        )
        return scores(matrix_of(geometry), inputs), None
    geometry = independent_groups(context.scope(outputs=scalar), options.networks)
    # (groups, samples)
    each = torch.stack([scores(group, inputs) for group in groups_of(geometry)])
    stderr = each.std(0) / len(each) ** 0.5
    return scores(matrix_of(geometry), inputs), stderr


def highest_scores(score: Tensor, labels: Tensor, fraction: float) -> Tensor:
    """Indices, ascending, of the samples left after a share of every class is taken out.

    Args:
        score: Of every sample; the lowest go first.
        labels: Their classes.
        fraction: The share.
    """
    # Within each class, so that classes stay balanced.
    chosen = []
    for label in labels.unique():
        of_class = labels == label
        own = of_class.nonzero().flatten()
        # The lowest first; of equal ones, the first.
        lowest = score[own].argsort(stable=True)
        dropped = _dropped(len(own), fraction)
        chosen.append(own[lowest][dropped:])
    together = torch.cat(chosen)
    return together.sort().values


def random_choice(labels: Tensor, fraction: float, generator: Generator) -> Tensor:
    """As many of every class, chosen at random.

    Larger shares take out what smaller ones do and more.
    """
    score = torch.rand(len(labels), generator=generator, device="cpu").to(labels.device)
    return highest_scores(score, labels, fraction)


def _dropped(count: int, fraction: float) -> int:
    # One sample stays in any case.
    return min(count - 1, round(fraction * count))


def right_pruned(context: penchant.Context, item: Any) -> dict[str, Tensor]:
    """On which test samples networks are right that were trained on the chosen samples."""
    begin = functools.partial(_learner, context)
    return measured(context, item, begin, _right)


def _learner(context: penchant.Context, item: dict[str, Any]) -> Learner:
    """A network, and the samples that are chosen for it."""
    # Which samples are chosen follows from scores, or from the training's number.
    data = context.data
    training = item["training"]
    fraction = item["fraction"]
    labels = data.train.labels
    if item["random"]:
        stream = context.generator("random samples", training)
        chosen = random_choice(labels, fraction, stream)
    else:
        chosen = highest_scores(context.shared["scores"], labels, fraction)
    samples = data.train.select(chosen)
    network = context.network(training)
    return Learner(network, samples, (training,), data.test)


def _right(item: dict[str, Any], learner: Learner) -> dict[str, Tensor]:
    return {"right": right_answers(learner.network, learner.test_samples)}
