"""The probe `manifold-accuracy`: accuracy on a binarised wave by frequency and petals.

Nearest neighbours as a classifier whose smoothness can be compared with a network's.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.data import Data, Samples
from penchant_numerics.statistics import statistics
from penchant_numerics.training import OneByOne, Stacked, groups, predictions
from torch import Tensor

from penchant_spectral_bias.declarations.curves import ManifoldAccuracy
from penchant_spectral_bias.manifold_accuracy.radial_spectrum import radial_spectrum, rounding_floor
from penchant_spectral_bias.shared.band_spectra import decay_exponent
from penchant_spectral_bias.shared.rank_order import joined, missing
from penchant_spectral_bias.shared.waves import (
    against_control,
    check_loss,
    in_steps,
    learners,
    on_curve,
)

BOX = 1.6  # the flower reaches 1.5
ROUNDING = 100  # times the spectrum of rounding: what a function has at every frequency
SPLITS = ("train", "test")


def run(options: ManifoldAccuracy, context: penchant.Context) -> penchant.Result:
    """Train networks for every cell of the grid, and compare with nearest neighbours."""
    check_loss(context, "cross-entropy")
    # cells of the grid first, then the networks of the plane
    cells = _cells(options, context)
    plane = _plane_cells(options, context)
    shards = list(context.map(trained, [*cells, *plane]))
    accuracy = _accuracies(options, shards[: len(cells)])
    planes = joined(shards[len(cells) :], ["plane", "untrained-plane"])
    arrays = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "petals": torch.tensor(options.petal_counts, device="cpu"),
        "plane": planes["plane"],
    }
    shares = torch.tensor(accuracy["commonest-share"].values, device="cpu")
    quantities = _accuracy_quantities(options, accuracy["train-accuracy"], float(shares.mean()))
    _warn_where_not_learnt(context, quantities["train-accuracy"])
    if options.neighbour_counts:
        accuracy |= _neighbour_accuracies(options, context)
        arrays["neighbours"] = torch.tensor(options.neighbour_counts, device="cpu")
        quantities |= _neighbour_gain(options, accuracy["neighbour-train-accuracy"])

    # what networks and neighbours make of the plane between the samples
    of_plane = _plane(options, context, plane[0], planes)
    quantities |= of_plane.quantities
    return penchant.Result(
        quantities,
        {**arrays, **of_plane.arrays},
        tables={
            **{name: table.mean("training") for name, table in accuracy.items()},
            **of_plane.tables,
        },
        conventions={
            "null": "accuracies: the most frequent training class; decay of networks: "
            "the same networks before training",
            "radial spectrum": "of the probability of class 1 on a square of side 3.2, mean taken "
            "off, Hann window",
            "plane": f"logits at {plane[0]['petals']} petals, frequency {plane[0]['frequency']}; "
            "all networks learnt the same target",
        },
        missing=missing(quantities),
    )


def _cells(options: ManifoldAccuracy, context: penchant.Context) -> list[dict[str, Any]]:
    """Flower, frequency and numbers of trainings of every shard."""
    shares = groups(options.trainings, context.device)
    cells = []
    for petals, frequency in itertools.product(options.petal_counts, options.frequencies):
        cell = {"petals": petals, "frequency": frequency, "plane": False}
        cells += [{**cell, "trainings": share} for share in shares]
    return cells


def _plane_cells(options: ManifoldAccuracy, context: penchant.Context) -> list[dict[str, Any]]:
    """The cell whose learnt functions are drawn in the plane."""
    petals = options.plane_petals
    frequency = options.plane_frequency
    # by default the hardest wave on the flower that makes it easiest
    if petals is None:
        petals = max(options.petal_counts)
    if frequency is None:
        frequency = max(options.frequencies)
    cell = {"petals": petals, "frequency": frequency, "plane": True}
    shares = groups(options.plane_networks, context.device)
    return [{**cell, "trainings": share} for share in shares]


def trained(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Accuracies (trainings,) of networks on one flower and frequency.

    For the plane all networks learn the same wave, and their logits there are given too.
    """
    data = []
    for number in item["trainings"]:
        phases = 0 if item["plane"] else number
        data.append(_flower(context, item, phases))
    samples = [each.train for each in data]
    training = learners(context, item["trainings"], samples)
    shares = [_commonest_share(each.labels) for each in samples]
    numbers: dict[str, Any] = {"commonest-share": torch.stack(shares)}
    if item["plane"]:
        numbers["untrained-plane"] = _logits(context, item, training)
    training.run(training.total)
    for split in SPLITS:
        samples = [getattr(each, split) for each in data]
        numbers[f"{split}-accuracy"] = _right(training, samples)

    # the functions themselves
    if item["plane"]:
        numbers["plane"] = _logits(context, item, training)
    return numbers


def _commonest_share(labels: Tensor) -> Tensor:
    """The accuracy of a network that gives every sample the most frequent class."""
    share = labels.double().mean()
    return torch.maximum(share, 1 - share)


def _logits(
    context: penchant.Context, item: dict[str, Any], training: OneByOne | Stacked
) -> Tensor:
    """Logits of networks on the plane of the curve, (networks, rows, columns)."""
    count = context.options.grid_points
    inputs = _plane_inputs(context, item)
    logits = training.outputs(inputs)[..., 0]
    return logits.reshape(-1, count, count)


def _right(training: OneByOne | Stacked, samples: Sequence[Samples]) -> Tensor:
    """The share of its samples that each network is right about, (trainings,)."""
    # all trainings have the same inputs, with labels of their own
    inputs = samples[0].inputs
    right = []
    for outputs, each in zip(training.outputs(inputs), samples):
        is_right = predictions(outputs) == each.labels
        right.append(is_right)
    together = torch.stack(right)
    return together.double().mean(1)


def _plane_inputs(context: penchant.Context, cell: dict[str, Any]) -> Tensor:
    """Inputs at the grid points of the plane, row by row."""
    count = context.options.grid_points
    positions = _grid(count, context.device)
    # coordinates along the two directions of the plane
    inputs = positions @ _axes(context, cell)
    shape = context.architecture.shape
    shaped = inputs.reshape(-1, *shape)
    return shaped.to(context.dtype)


def _flower(
    context: penchant.Context, cell: dict[str, Any], phases: int, shape: Sequence[int] | None = None
) -> Data:
    return on_curve(
        context,
        "flower",
        shape,
        petals=cell["petals"],
        frequencies=[cell["frequency"]],
        draw=phases,
        binary=True,
        threshold=context.options.threshold,
    )


def _axes(context: penchant.Context, cell: dict[str, Any]) -> Tensor:
    """The two directions (2, D) of the input that the plane of the curve has.

    They follow from the samples, whose coordinates in the plane are known.
    """
    in_the_plane = _flower(context, cell, 0, (2,)).train
    in_the_input = _flower(context, cell, 0).train
    coordinates = in_the_plane.inputs.double()
    inputs = in_the_input.inputs.flatten(1).double()

    # the curve lies in a plane of the input, so that all samples agree
    fit = torch.linalg.lstsq(coordinates, inputs)
    solution: Tensor = fit.solution
    return solution


def _grid(count: int, device: torch.device) -> Tensor:
    """Points (count^2, 2) of the square, row by row; rows are the second coordinate."""
    line = _line(count, device)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    points = torch.stack([columns, rows], dim=-1)
    return points.reshape(-1, 2)


def _line(count: int, device: torch.device) -> Tensor:
    """Coordinates of rows and columns; the last side of the square is its first."""
    numbers = torch.arange(count, device=device, dtype=torch.float64)
    width = 2 * BOX
    # counted from the first side
    positions = width * numbers / count
    return -BOX + positions


def _accuracies(
    options: ManifoldAccuracy, shards: list[dict[str, Any]]
) -> dict[str, penchant.Table]:
    """(training, petals, frequency), from the shards of every cell in turn."""
    axes = {
        "petals": options.petal_counts,
        "frequency": options.frequencies,
        "training": range(options.trainings),
    }
    shape = [len(coordinates) for coordinates in axes.values()]
    names = ["commonest-share", *(f"{split}-accuracy" for split in SPLITS)]
    accuracies = {}
    for name, values in joined(shards, names).items():
        cells = penchant.Table(values.reshape(shape), axes)
        accuracies[name] = cells.transposed("training", "petals", "frequency")
    return accuracies


def _neighbour_accuracies(
    options: ManifoldAccuracy, context: penchant.Context
) -> dict[str, penchant.Table]:
    """Accuracies of nearest neighbours, on the same waves."""
    axes = {
        "training": range(options.trainings),
        "neighbours": options.neighbour_counts,
        "petals": options.petal_counts,
        "frequency": options.frequencies,
    }
    shape = [len(coordinates) for coordinates in axes.values()]
    # filled cell by cell
    rows = {f"neighbour-{split}-accuracy": np.zeros(shape) for split in SPLITS}
    positions = itertools.product(
        range(options.trainings), enumerate(options.petal_counts), enumerate(options.frequencies)
    )
    for phases, (row, petals), (column, frequency) in positions:
        cell = {"petals": petals, "frequency": frequency}
        data = _flower(context, cell, phases, (2,))
        for number, count in enumerate(options.neighbour_counts):
            for values, queries in zip(rows.values(), (data.train, data.test)):
                values[phases, number, row, column] = neighbour_accuracy(
                    *data.train, *queries, count
                )
    return {name: penchant.Table(values, axes) for name, values in rows.items()}


def _accuracy_quantities(
    options: ManifoldAccuracy, accuracy: penchant.Table, constant: float
) -> dict[str, penchant.Quantity]:
    """Of accuracies (training, petals, frequency), and of that of the most frequent class."""
    # every training has waves of its own, in all cells
    by_training = accuracy.values.reshape(options.trainings, -1).mean(1)
    samples = accuracy.values[0].size * options.samples
    mean, stderr = statistics.accuracy(by_training, samples, shared=False)
    quantities = {
        "train-accuracy": penchant.Quantity(
            mean,
            stderr=stderr,
            over="trainings and samples",
            count=options.trainings,
            df=options.trainings - 1 or None,
            null=constant,
        )
    }
    if len(options.petal_counts) > 1:
        # petals do not change labels, so that a constant gains nothing
        quantities["petal-gain"] = _petal_gain(accuracy, options)
    if len(options.frequencies) > 1:
        # without the effect networks are equally right at all frequencies
        low = accuracy.at(frequency=min(options.frequencies))
        losses = low.minus(accuracy.at(frequency=max(options.frequencies)))
        losses = losses.reduced(np.mean, "petals")
        quantities["frequency-loss"] = in_steps(losses, 1 / options.samples, null=0.0)
    return quantities


def _petal_gain(accuracy: penchant.Table, options: ManifoldAccuracy) -> penchant.Quantity:
    """Accuracy with most petals minus that with fewest, over (training, petals, frequency)."""
    most = accuracy.at(petals=max(options.petal_counts))
    gains = most.minus(accuracy.at(petals=min(options.petal_counts)))
    return in_steps(gains.reduced(np.mean, "frequency"), 1 / options.samples, null=0.0)


def _warn_where_not_learnt(context: penchant.Context, accuracy: penchant.Quantity) -> None:
    null = accuracy.null or 0.0
    if accuracy.value <= null:
        context.warn(
            f"the training accuracy is {accuracy.value:.3g}, the most frequent class alone gives "
            f"{null:.3g}: nothing was learnt; train longer"
        )


def _neighbour_gain(
    options: ManifoldAccuracy, accuracy: penchant.Table
) -> dict[str, penchant.Quantity]:
    # one neighbour of a training sample is the sample itself
    several = [count for count in options.neighbour_counts if count > 1]
    # without a second flower there is nothing to gain
    if not several or len(options.petal_counts) < 2:
        return {}
    return {"neighbour-petal-gain": _petal_gain(accuracy.at(neighbours=several[0]), options)}


def _plane(
    options: ManifoldAccuracy,
    context: penchant.Context,
    cell: dict[str, Any],
    planes: dict[str, Tensor],
) -> penchant.Result:
    """The plane's axis and points, radial spectra of networks and neighbours, and their decays."""
    data = _flower(context, cell, 0, (2,)).train
    zetas = {}
    for name, logits in planes.items():
        probability = logits.double().sigmoid()
        frequencies, zetas[name] = radial_spectrum(probability, 2 * BOX)
    arrays = {
        "plane-axis": _line(options.grid_points, context.device),
        "plane-points": data.inputs,
        "plane-labels": data.labels,
        "radial-frequencies": frequencies,
    }
    axis = {"radial-frequency": frequencies.tolist()}
    networks = {"network": range(options.plane_networks)}
    tables = {
        "radial-spectrum": penchant.Table(zetas["plane"], {**networks, **axis}).mean("network")
    }
    exponents = []
    for name, logits in planes.items():
        fit = _exponents(frequencies, zetas[name])
        exponents.append(fit.masked_fill(_is_rounding(logits, frequencies, zetas[name]), math.nan))
    _warn_where_rounding(context, exponents[0])
    decay = against_control(*exponents, paired=True)
    quantities = {"network-decay": attrs.evolve(decay, over="networks")}
    if options.neighbour_counts:
        of_neighbours = _neighbour_spectra(options, context, cell)
        phases = {"phases": range(options.trainings), "neighbours": options.neighbour_counts}
        spectra = penchant.Table(of_neighbours, {**phases, **axis})
        tables["neighbour-radial-spectrum"] = spectra.mean("phases")

        # the fewest neighbours follow the samples most closely
        counts = options.neighbour_counts
        smallest = counts.index(min(counts))
        of_fewest = of_neighbours[:, smallest]
        exponents_of_fewest = _exponents(frequencies, of_fewest)
        quantities["neighbour-decay"] = penchant.Quantity.of(exponents_of_fewest, over="phases")
    return penchant.Result(quantities, arrays, tables=tables)


def _neighbour_spectra(
    options: ManifoldAccuracy, context: penchant.Context, cell: dict[str, Any]
) -> Tensor:
    """Zeta of the probability of nearest neighbours, (phases, K, frequencies)."""
    count = options.grid_points
    queries = _grid(count, context.device)
    rows = []
    for phases in range(options.trainings):
        data = _flower(context, cell, phases, (2,)).train
        maps = []
        for neighbours in options.neighbour_counts:
            probability = neighbour_probability(*data, queries, neighbours)
            maps.append(probability.reshape(count, count))
        _, zeta = radial_spectrum(torch.stack(maps), 2 * BOX)
        rows.append(zeta)
    return torch.stack(rows).cpu()


def _is_rounding(logits: Tensor, frequencies: Tensor, zeta: Tensor) -> Tensor:
    """Which functions (networks,) have frequencies with no more than their logits' rounding."""
    # a probability is a quarter as steep as its logit
    largest = logits.abs().amax((-2, -1))
    rounding = torch.finfo(logits.dtype).eps * largest / 4
    floor = rounding_floor(frequencies, rounding, grid=logits.shape[-1], side=2 * BOX)
    return (zeta <= ROUNDING * floor).any(-1)


def _warn_where_rounding(context: penchant.Context, exponents: Tensor) -> None:
    count = int(exponents.isnan().sum())
    if count:
        context.warn(
            f"{count} of {len(exponents)} networks in the plane have frequencies with nothing but "
            "rounding, and network-decay is left out; train longer, or use dtype = 'float64'"
        )


def _exponents(frequencies: Tensor, spectra: Tensor) -> Tensor:
    """Exponent of each of several spectra, over the upper three quarters of the frequencies."""
    first = len(frequencies) // 4
    upper = frequencies[first:]
    exponents = [decay_exponent(upper, spectrum[first:]) for spectrum in spectra]
    return torch.tensor(exponents, device="cpu", dtype=torch.float64)


def neighbour_probability(
    points: Tensor, labels: Tensor, queries: Tensor, neighbours: int
) -> Tensor:
    """Share of class 1 among the nearest points of every query, (queries,).

    A query that is a point counts itself. The tree of scikit-learn is a host step: in the plane it
    is some ten times faster than all distances (`make bench`).

    Args:
        points: Points (points, dimensions).
        labels: Their classes, 0 or 1.
        queries: Points whose neighbours are searched, (queries, dimensions).
        neighbours: How many points vote.
    """
    from sklearn.neighbors import NearestNeighbors  # here: no shard needs it, and it takes a second

    if neighbours > len(points):
        raise Refusal(f"neighbours must be at most the {len(points)} points, found {neighbours}")
    tree = NearestNeighbors(n_neighbors=neighbours, algorithm="kd_tree")
    tree.fit(_on_host(points))
    nearest = tree.kneighbors(_on_host(queries), return_distance=False)
    # labels of the nearest, (queries, neighbours)
    indices = torch.as_tensor(nearest, device=labels.device)
    votes = labels[indices]
    return votes.double().mean(1)


def _on_host(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def neighbour_accuracy(
    points: Tensor, labels: Tensor, queries: Tensor, truth: Tensor, neighbours: int
) -> float:
    """Share of queries that the majority of their neighbours is right about."""
    probability = neighbour_probability(points, labels, queries, neighbours)
    majority = probability > 0.5
    right = majority == truth.bool()
    return float(right.double().mean())
