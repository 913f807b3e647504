"""The probe `manifold-accuracy`: accuracy on a binarised wave by frequency and petals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import penchant
import torch
from penchant_numerics import statistics
from penchant_numerics.data import Data
from penchant_numerics.side_by_side import groups
from penchant_numerics.trainer import predictions
from torch import Tensor

from penchant_spectral_bias.declarations.curves import ManifoldAccuracy
from penchant_spectral_bias.numerics import resolution
from penchant_spectral_bias.numerics.decay import decay_exponent
from penchant_spectral_bias.numerics.nearest_neighbours import (
    neighbour_accuracy,
    neighbour_probability,
)
from penchant_spectral_bias.numerics.radial_spectrum import radial_spectrum
from penchant_spectral_bias.probes.averages import averages, joined
from penchant_spectral_bias.probes.regression import check_loss
from penchant_spectral_bias.probes.waves import learners, on_curve

BOX = 1.6  # the flower reaches 1.5
PARTS = ("train", "test")


def run(options: ManifoldAccuracy, context: penchant.Context) -> penchant.Result:
    """Train networks for every cell of the grid, and compare with nearest neighbours."""
    check_loss(context, "cross-entropy")
    cells = _cells(options, context)
    plane = _plane_cells(options, context)
    shards = list(context.map(trained, [*cells, *plane]))
    accuracy = _accuracies(options, shards[: len(cells)])
    logits = joined(shards[len(cells) :], ["plane"])["plane"]
    arrays = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "petals": torch.tensor(options.petal_counts, device="cpu"),
        "plane": logits,
        **averages(accuracy),
    }
    quantities = _accuracy_quantities(options, accuracy["train-accuracy"])
    if options.neighbour_counts:
        of_neighbours = _neighbour_accuracies(options, context)
        arrays["neighbours"] = torch.tensor(options.neighbour_counts, device="cpu")
        arrays |= averages(of_neighbours)
        quantities |= _neighbour_gain(options, of_neighbours["neighbour-train-accuracy"])

    spectra, found = _plane(options, context, plane[0], logits)
    arrays |= spectra
    quantities |= found
    return penchant.Result(
        quantities,
        arrays,
        conventions={
            "radial spectrum": "of the probability of class 1 on a square of side 3.2, mean taken "
            "off, Hann window",
            "plane": f"logits at {plane[0]['petals']} petals, frequency {plane[0]['frequency']}; "
            "all networks learnt the same target",
        },
    )


def _cells(options: ManifoldAccuracy, context: penchant.Context) -> list[dict[str, Any]]:
    cells = []
    for petals, frequency in itertools.product(options.petal_counts, options.frequencies):
        cell = {"petals": petals, "frequency": frequency, "plane": False}
        for group in groups(options.trainings, context.device):
            cells.append({**cell, "trainings": group})
    return cells


def _plane_cells(options: ManifoldAccuracy, context: penchant.Context) -> list[dict[str, Any]]:
    """The cell whose learnt functions are drawn in the plane."""
    petals, frequency = options.plane_petals, options.plane_frequency
    cell = {
        "petals": max(options.petal_counts) if petals is None else petals,
        "frequency": max(options.frequencies) if frequency is None else frequency,
        "plane": True,
    }
    shares = groups(options.plane_networks, context.device)
    return [{**cell, "trainings": share} for share in shares]


def trained(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Accuracies (trainings,) of networks on one flower and frequency.

    For the plane all networks learn the same wave, and their logits there are given too.
    """
    data = []
    for training in item["trainings"]:
        data.append(_flower(context, item, 0 if item["plane"] else training))
    training = learners(context, item["trainings"], [part.train for part in data])
    training.run(training.total)
    found: dict[str, Any] = {}
    for side in PARTS:
        outputs = training.outputs(getattr(data[0], side).inputs)
        right = []
        for each, part in zip(outputs, data):
            right.append(predictions(each) == getattr(part, side).labels)
        found[f"{side}-accuracy"] = torch.stack(right).double().mean(1)
    if item["plane"]:
        count = context.options.grid_points
        places = _grid(count, context.device) @ _axes(context, item)
        inputs = places.reshape(-1, *context.architecture.shape).to(context.dtype)
        found["plane"] = training.outputs(inputs)[..., 0].reshape(-1, count, count)
    return found


def _flower(
    context: penchant.Context,
    cell: dict[str, Any],
    phases: int,
    shape: Sequence[int] | None = None,
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
    coordinates = _flower(context, cell, 0, (2,)).train.inputs.double()
    inputs = _flower(context, cell, 0).train.inputs.flatten(1).double()
    return torch.linalg.lstsq(coordinates, inputs).solution


def _grid(count: int, device: torch.device) -> Tensor:
    """Points (count^2, 2) of the square, row by row; rows are the second coordinate."""
    line = _line(count, device)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([columns, rows], dim=-1).reshape(-1, 2)


def _line(count: int, device: torch.device) -> Tensor:
    numbers = torch.arange(count, device=device, dtype=torch.float64)
    return -BOX + 2 * BOX * numbers / count


def _accuracies(options: ManifoldAccuracy, shards: list[dict[str, Any]]) -> dict[str, Tensor]:
    """(trainings, petals, frequencies), from the shards of every cell in turn."""
    shape = (len(options.petal_counts), len(options.frequencies), options.trainings)
    rows = joined(shards, [f"{side}-accuracy" for side in PARTS])
    return {name: values.reshape(shape).movedim(2, 0) for name, values in rows.items()}


def _neighbour_accuracies(
    options: ManifoldAccuracy, context: penchant.Context
) -> dict[str, Tensor]:
    """Accuracies (trainings, K, petals, frequencies) of nearest neighbours, on the same waves."""
    shape = (
        options.trainings,
        len(options.neighbour_counts),
        len(options.petal_counts),
        len(options.frequencies),
    )
    names = [f"neighbour-{side}-accuracy" for side in PARTS]
    rows = {name: torch.zeros(shape, device="cpu", dtype=torch.float64) for name in names}
    places = itertools.product(
        range(options.trainings), enumerate(options.petal_counts), enumerate(options.frequencies)
    )
    for phases, (row, petals), (column, frequency) in places:
        data = _flower(context, {"petals": petals, "frequency": frequency}, phases, (2,))
        for number, count in enumerate(options.neighbour_counts):
            for name, queries in zip(names, (data.train, data.test)):
                rows[name][phases, number, row, column] = neighbour_accuracy(
                    *data.train, *queries, count
                )
    return rows


def _accuracy_quantities(
    options: ManifoldAccuracy, accuracy: Tensor
) -> dict[str, penchant.Quantity]:
    """Of accuracies (trainings, petals, frequencies)."""
    low = options.frequencies.index(min(options.frequencies))
    high = options.frequencies.index(max(options.frequencies))
    cells = accuracy[0].numel()
    mean, stderr = statistics.accuracy(
        accuracy.flatten(1).mean(1), cells * options.samples, shared=False
    )
    found = {
        "train-accuracy": penchant.Quantity(
            mean,
            stderr=stderr,
            over="trainings and samples",
            count=options.trainings,
            null=0.5,
        )
    }
    if len(set(options.petal_counts)) > 1:
        found["petal-gain"] = _difference(options, _petal_gain(options, accuracy))
    if low != high:
        losses = (accuracy[:, :, low] - accuracy[:, :, high]).mean(1)
        found["frequency-loss"] = _difference(options, losses)
    return found


def _petal_gain(options: ManifoldAccuracy, accuracy: Tensor) -> Tensor:
    """Accuracy with most petals minus that with fewest, (trainings,)."""
    most = options.petal_counts.index(max(options.petal_counts))
    fewest = options.petal_counts.index(min(options.petal_counts))
    return (accuracy[:, most] - accuracy[:, fewest]).mean(1)


def _difference(options: ManifoldAccuracy, values: Tensor) -> penchant.Quantity:
    """A difference of accuracies, each known to one sample."""
    mean, stderr = resolution.mean_and_stderr(values, 1 / options.samples)
    return penchant.Quantity(mean, stderr=stderr, over="trainings", count=len(values), null=0.0)


def _neighbour_gain(options: ManifoldAccuracy, accuracy: Tensor) -> dict[str, penchant.Quantity]:
    larger = [number for number, count in enumerate(options.neighbour_counts) if count > 1]
    if not larger or len(set(options.petal_counts)) < 2:
        return {}
    gains = _petal_gain(options, accuracy[:, larger[0]])
    return {"neighbour-petal-gain": _difference(options, gains)}


def _plane(
    options: ManifoldAccuracy, context: penchant.Context, cell: dict[str, Any], logits: Tensor
) -> tuple[dict[str, Any], dict[str, penchant.Quantity]]:
    """The plane's axis and points, radial spectra of networks and neighbours, and their decays."""
    data = _flower(context, cell, 0, (2,)).train
    frequencies, zeta = radial_spectrum(logits.double().sigmoid(), 2 * BOX)
    arrays = {
        "plane-axis": _line(options.grid_points, context.device),
        "plane-points": data.inputs,
        "plane-labels": data.labels,
        "radial-frequencies": frequencies,
        **averages({"radial-spectrum": zeta}),
    }
    quantities = {"network-decay": _decay(frequencies, zeta, over="networks")}
    if options.neighbour_counts:
        of_neighbours = _neighbour_spectra(options, context, cell)
        arrays |= averages({"neighbour-radial-spectrum": of_neighbours})
        smallest = options.neighbour_counts.index(min(options.neighbour_counts))
        quantities["neighbour-decay"] = _decay(
            frequencies, of_neighbours[:, smallest], over="phases"
        )
    return arrays, quantities


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
        rows.append(radial_spectrum(torch.stack(maps), 2 * BOX)[1])
    return torch.stack(rows).cpu()


def _decay(frequencies: Tensor, spectra: Tensor, *, over: str) -> penchant.Quantity:
    """Exponent of each of several spectra, over the upper three quarters of the frequencies."""
    first = len(frequencies) // 4
    upper = frequencies[first:]
    exponents = [decay_exponent(upper, spectrum[first:]) for spectrum in spectra]
    return penchant.Quantity.of(exponents, over=over)
