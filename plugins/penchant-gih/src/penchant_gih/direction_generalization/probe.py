"""The probe `direction-generalization`: what is learnt along each direction that decides labels."""

import functools
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.statistics import significance, statistics
from penchant_numerics.training import Learner, evaluate, measured
from torch import Tensor

from penchant_gih.declarations.preference import DirectionGeneralization
from penchant_gih.direction_generalization.labels import Labeller, isotropic_inputs
from penchant_gih.shared.geometry import uncentred
from penchant_gih.shared.preferred_directions import (
    direction_of,
    indices_of,
    matrix_of,
    preferred_directions,
    shared_directions,
)

OUTPUTS = 2
CHANCE = 0.5  # labels are split at their median
FITTED = 0.995  # training accuracy from which on a direction counts as learnt
PUBLISHED_NOISE = {"dataset": 0.2, "isotropic": 0.0}  # while labelling


def run(options: DirectionGeneralization, context: penchant.Context) -> penchant.Result:
    """Train fresh networks for each direction."""
    eigenvalues, vectors = _basis(options, context)
    indices = indices_of(options.indices, vectors, every=options.every)
    learnt = context.tables(
        labelled_accuracy,
        shared=shared_directions(indices, vectors),
        trainings=True,
        outputs=OUTPUTS,
        index=indices,
        training=range(options.trainings),
    )
    tables = {}
    for name in ("train", "test"):
        tables[f"{name}-accuracy"] = learnt[name].accuracy(
            over=("training",),
            samples=int(learnt[f"{name}-samples"].values.flat[0]),
            shared=options.data == "dataset",
        )
    _warn_unfitted(context, tables["train-accuracy"].values)
    return penchant.Result(
        _quantities(tables["test-accuracy"], context),
        {"indices": np.array(indices), "eigenvalues": eigenvalues[indices]},
        tables=tables,
        conventions=_conventions(options),
    )


def _basis(options: DirectionGeneralization, context: penchant.Context) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors (rows) of G, or of G S G, as many as mean anything."""
    # Eigenvectors of G are the estimator's own; those of G S G need the data.
    geometry = preferred_directions(
        context, networks=options.networks, outputs=OUTPUTS, stored=options.geometry
    )
    if options.basis == "g":
        return geometry.eigenvalues, geometry.vectors
    G = matrix_of(geometry)
    S = uncentred(context.data.train.inputs).to(G)
    eigenvalues, vectors = descending_eigh(G @ S @ G)
    rank = len(geometry.vectors)
    return eigenvalues[:rank], vectors[:rank]


def labelled_accuracy(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Accuracies of networks trained on labels that one direction each decides."""
    begin = functools.partial(_learner, context)
    tested = functools.partial(_tested, context)
    return measured(context, item, begin, tested)


def _learner(context: penchant.Context, item: dict[str, int]) -> Learner:
    """A network, and the labels it is trained on."""
    direction = direction_of(context, item["index"])
    training = item["training"]
    train, test = labelled_samples(context, direction, training)
    network = context.network(training, outputs=OUTPUTS)
    keys = (item["index"], training)
    return Learner(network, train, keys, test)


def _tested(context: penchant.Context, item: dict[str, int], learner: Learner) -> dict[str, float]:
    """What was learnt, and what was generalised."""
    network = learner.network
    train = learner.samples
    test = learner.test_samples
    assert context.training is not None  # the probe needs one
    loss = context.training.loss
    return {
        "train": evaluate(network, train, loss=loss)[1],
        "test": evaluate(network, test, loss=loss)[1],
        "train-samples": len(train.labels),
        "test-samples": len(test.labels),
    }


def labelled_samples(
    context: penchant.Context, direction: Tensor, training: int
) -> tuple[Samples, Samples]:
    """Inputs of the dataset, or isotropic ones, with labels by one direction.

    Trainings differ by their noise, and on isotropic data by their inputs.
    """
    options = context.options
    # Isotropic inputs are drawn anew for each training, a dataset's stay as they are.
    direction = direction.to("cpu", torch.float64)
    inputs = []
    for name in ("train", "test"):
        if options.data == "dataset":
            inputs.append(getattr(context.data, name).inputs)
            continue
        sampled = isotropic_inputs(
            getattr(options, name),
            direction,
            options.epsilon,
            context.architecture.shape,
            context.generator("samples", name, training),
        )
        inputs.append(sampled.to(context.device, context.dtype))
    labeller = Labeller(
        direction,
        options.labels,
        inputs[0],
        noise=label_noise(options),
        unit=None if options.data == "dataset" else options.epsilon,
    )
    # The threshold is that of the training labels.
    splits = []
    for name, own in zip(("train", "test"), inputs):
        stream = context.generator("samples", f"{name} labels", training)
        splits.append(Samples(own, labeller(own, stream)))
    return splits[0], splits[1]


def label_noise(options: DirectionGeneralization) -> float:
    """The variance of the noise while labelling, in units of the channel's."""
    if options.label_noise is not None:
        return options.label_noise
    return PUBLISHED_NOISE[options.data]


def _warn_unfitted(context: penchant.Context, accuracy: np.ndarray) -> None:
    short = int((accuracy < FITTED).sum())
    if short:
        context.warn(
            f"{short} of {len(accuracy)} directions ended below 100 % training accuracy "
            f"(lowest {accuracy.min():.3f}): train longer"
        )


def _conventions(options: DirectionGeneralization) -> dict[str, str]:
    on_dataset = options.data == "dataset"
    isotropic = f"epsilon a u + N(0, I - u u^T), epsilon {options.epsilon:g}"
    variance = label_noise(options)
    noise = f"noise {variance:g} x channel variance while labelling"
    score = f"{options.labels} in u.x"
    if options.labels == "sinusoid":
        score = "sin(u.x), x standardised per channel" if on_dataset else "sin(pi a)"
    basis = "G S G" if options.basis == "gsg" else "G"
    return {
        "inputs": "the dataset's inputs" if on_dataset else isotropic,
        "labels": f"{score}, threshold the training median, {noise}",
        "directions": f"eigenvectors of {basis}",
        "outputs": "two logits",
    }


def _quantities(
    accuracy: penchant.Table, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Mean accuracy, the drop from the leading half of indices to the trailing, the order."""
    # By index, whatever their order in the options.
    accuracy = accuracy.select(index=sorted(accuracy.axes["index"]))
    index, test = accuracy.coordinates("index"), accuracy.values
    errors = np.asarray(accuracy.error)
    trainings = context.options.trainings
    mean_error = _of_mean(test, errors, trainings)
    quantities = {"test-accuracy": _over_directions(test.mean(), *mean_error, test, null=CHANCE)}
    # The middle one of an odd number belongs to neither half.
    half = len(test) // 2
    if half:
        first = slice(0, half)
        last = slice(len(test) - half, None)
        drop = test[first].mean() - test[last].mean()
        leading = _of_mean(test[first], errors[first], trainings)
        trailing = _of_mean(test[last], errors[last], trainings)
        quantities["drop"] = _over_directions(
            drop, *significance.combined_error([leading, trailing]), test, null=0.0
        )
    # Do smaller indices do better?
    if len(test) > 2 and statistics.varies(test):
        stream = context.generator("permutations")
        ranked = statistics.rank_correlation(test, -index, generator=stream)
        quantities["rank-correlation"] = penchant.Quantity(**ranked.fields(), over="directions")
    return quantities


def _over_directions(
    value: float, stderr: float, df: float | None, directions: np.ndarray, *, null: float
) -> penchant.Quantity:
    return penchant.Quantity(
        value, stderr=stderr, df=df, null=null, over="directions", count=len(directions)
    )


def _of_mean(values: np.ndarray, errors: np.ndarray, trainings: int) -> tuple[float, int]:
    """Standard error of a mean over directions: their spread, at least what their errors make.

    And its degrees of freedom: those of directions, or of the trainings of all of them.
    """
    count = len(values)
    squares = errors**2
    together = np.sqrt(squares.sum())
    own = float(together) / count
    _, spread = statistics.mean_and_stderr(values)
    if spread is not None and spread > own:
        return float(spread), count - 1
    return own, count * max(trainings - 1, 1)
