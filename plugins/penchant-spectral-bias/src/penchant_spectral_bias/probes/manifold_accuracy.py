"""The probe `manifold-accuracy`: accuracy on a binarised wave by frequency and petals, beside nearest neighbours."""

from __future__ import annotations

import itertools
from typing import Any

import penchant
import torch
from penchant_numerics.trainer import predictions
from torch import Tensor

from penchant_spectral_bias.numerics.nearest_neighbours import (
    neighbour_accuracy,
    neighbour_probability,
)
from penchant_spectral_bias.numerics.piecewise_linear import decay_exponent
from penchant_spectral_bias.numerics.radial_spectrum import radial_spectrum
from penchant_spectral_bias.numerics.rank_correlation import mean_and_error
from penchant_spectral_bias.numerics.side_by_side import groups
from penchant_spectral_bias.probes.curves import learners

BOX = 1.6  # the flower reaches 1.5


def run(options: Any, context: Any) -> penchant.Result:
    """Train networks for every cell of the grid, and compare with nearest neighbours."""
    if context.training.loss != "cross-entropy":
        raise penchant.Error(
            f"manifold-accuracy classifies and needs training.loss = 'cross-entropy', found {context.training.loss!r}"
        )
    cells = list(itertools.product(options.petal_counts, options.frequencies))
    plane = (
        max(options.petal_counts) if options.plane_petals is None else options.plane_petals,
        max(options.frequencies) if options.plane_frequency is None else options.plane_frequency,
    )
    base = {name: getattr(options, name) for name in ("points", "threshold", "embedding", "grid")}
    shared = groups(options.draws, context.device)
    items = [
        {**base, "petals": petals, "frequency": k, "draws": group, "plane": False}
        for petals, k in cells
        for group in shared
    ]
    seen = {**base, "petals": plane[0], "frequency": plane[1], "plane": True}
    items += [{**seen, "draws": group} for group in groups(options.plane_networks, context.device)]
    rows = list(context.map(trained_cell, items))
    arrays: dict[str, Any] = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "petals": torch.tensor(options.petal_counts, device="cpu"),
    }
    accuracy = _accuracies(options, rows[: len(cells) * len(shared)])
    for name, values in accuracy.items():
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(values)
    arrays["plane"] = torch.cat(
        [torch.as_tensor(row["plane"], device="cpu") for row in rows if row["plane"].size]
    )
    arrays |= _neighbours(options, context, base)
    arrays |= _plane(options, context, base, plane, arrays["plane"])
    conventions = {
        "spectrum": "of the probability of class 1 on a square of side 3.2, mean taken off, Hann window",
        "plane": f"logits at {plane[0]} petals, frequency {plane[1]}; all networks learnt the same target",
    }
    return penchant.Result(
        _quantities(options, arrays, accuracy["accuracy"]), arrays, conventions=conventions
    )


def trained_cell(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Accuracies (draws,) of networks on one flower and frequency; or, all with the phase of draw 0, their logits on the plane."""
    size = list(context.architecture.shape)
    data = [_flower(context, item, 0 if item["plane"] else draw, size) for draw in item["draws"]]
    training = learners(context, item["draws"], [part.train for part in data])
    training.run(training.total)
    found: dict[str, Any] = {}
    for name, side in (("accuracy", "train"), ("test-accuracy", "test")):
        outputs = training.outputs(getattr(data[0], side).inputs)
        right = [
            predictions(each) == getattr(part, side).labels for each, part in zip(outputs, data)
        ]
        found[name] = torch.stack(right).double().mean(1)
    found["plane"] = torch.zeros(0, item["grid"], item["grid"], device=context.device)
    if item["plane"]:
        places = _grid(item["grid"], context.device) @ _axes(context, item, size).to(torch.float64)
        outputs = training.outputs(places.reshape(-1, *size).to(context.dtype))[..., 0]
        found["plane"] = outputs.reshape(-1, item["grid"], item["grid"])
    return found


def _flower(context: Any, item: dict[str, Any], draw: int, size: list[int]) -> Any:
    values = {name: item[name] for name in ("points", "threshold", "embedding", "petals")}
    return context.dataset(
        "flower", frequencies=[item["frequency"]], draw=draw, binary=True, size=size, **values
    )


def _axes(context: Any, item: dict[str, Any], size: list[int]) -> Tensor:
    """The two directions (2, D) of the input that the plane of the curve has, found from points with known coordinates."""
    coordinates = _flower(context, item, 0, [2]).train.inputs.double()
    inputs = _flower(context, item, 0, size).train.inputs.flatten(1).double()
    return torch.linalg.lstsq(coordinates, inputs).solution


def _grid(count: int, device: torch.device) -> Tensor:
    """Points (count^2, 2) of the square, row by row; rows are the second coordinate."""
    line = _line(count, device)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([columns, rows], dim=-1).reshape(-1, 2)


def _line(count: int, device: torch.device) -> Tensor:
    return -BOX + 2 * BOX * torch.arange(count, device=device, dtype=torch.float64) / count


def _accuracies(options: Any, rows: list[Any]) -> dict[str, Tensor]:
    """(draws, petals, frequencies), from the shards of every cell in turn."""
    shape = (len(options.petal_counts), len(options.frequencies), options.draws)
    names = ("accuracy", "test-accuracy")
    joined = {
        name: torch.cat([torch.as_tensor(row[name], device="cpu") for row in rows])
        for name in names
    }
    return {name: values.reshape(shape).movedim(2, 0) for name, values in joined.items()}


def _neighbours(options: Any, context: Any, base: dict[str, Any]) -> dict[str, Any]:
    """Accuracies (K, petals, frequencies) of nearest neighbours, mean over phase draws."""
    if not options.neighbours:
        return {}
    arrays: dict[str, Any] = {"neighbours": torch.tensor(options.neighbours, device="cpu")}
    sides = {"neighbour-accuracy": "train", "neighbour-test-accuracy": "test"}
    values: dict[str, list[float]] = {name: [] for name in sides}
    for petals, frequency, draw in itertools.product(
        options.petal_counts, options.frequencies, range(options.draws)
    ):
        data = _flower(context, {**base, "petals": petals, "frequency": frequency}, draw, [2])
        for count, (name, side) in itertools.product(options.neighbours, sides.items()):
            queries = getattr(data, side)
            values[name].append(
                neighbour_accuracy(
                    data.train.inputs, data.train.labels, queries.inputs, queries.labels, count
                )
            )
    shape = (
        len(options.petal_counts),
        len(options.frequencies),
        options.draws,
        len(options.neighbours),
    )
    for name, found in values.items():
        together = (
            torch.tensor(found, device="cpu", dtype=torch.float64)
            .reshape(shape)
            .permute(2, 3, 0, 1)
        )
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(together)
    return arrays


def _plane(
    options: Any, context: Any, base: dict[str, Any], cell: tuple[int, int], logits: Tensor
) -> dict[str, Any]:
    """The plane's axis and points, and radial spectra (1 + K, frequencies) of network and neighbours."""
    data = _flower(context, {**base, "petals": cell[0], "frequency": cell[1]}, 0, [2]).train
    queries = _grid(options.grid, context.device)
    maps = [
        neighbour_probability(data.inputs, data.labels, queries, count)
        for count in options.neighbours
    ]
    frequency, network = radial_spectrum(logits.double().sigmoid(), 2 * BOX)
    spectra = [network.mean(0)]
    spectra += [
        radial_spectrum(each.reshape(options.grid, options.grid), 2 * BOX)[1].cpu() for each in maps
    ]
    return {
        "plane-axis": _line(options.grid, context.device),
        "plane-points": data.inputs,
        "plane-labels": data.labels,
        "radial-frequency": frequency,
        "radial-spectrum": torch.stack(spectra),
    }


def _quantities(
    options: Any, arrays: dict[str, Any], accuracy: Tensor
) -> dict[str, penchant.Quantity]:
    over = {"over": "networks", "count": options.draws}

    def quantity(values: Tensor, **more: Any) -> penchant.Quantity:
        mean, error = mean_and_error(values)
        return penchant.Quantity(
            float(mean), stderr=float(error) if options.draws > 1 else None, **over, **more
        )

    petals, frequencies = (
        torch.tensor(options.petal_counts, device="cpu"),
        torch.tensor(options.frequencies, device="cpu"),
    )
    most, fewest, low, high = (
        int(petals.argmax()),
        int(petals.argmin()),
        int(frequencies.argmin()),
        int(frequencies.argmax()),
    )
    found = {"mean-accuracy": quantity(accuracy.mean((1, 2)), null=0.5)}
    if most != fewest:
        found["petal-gain"] = quantity((accuracy[:, most] - accuracy[:, fewest]).mean(1), null=0.0)
    if low != high:
        found["frequency-loss"] = quantity(
            (accuracy[:, :, low] - accuracy[:, :, high]).mean(1), null=0.0
        )
    larger = [number for number, count in enumerate(options.neighbours) if count > 1]
    if larger and most != fewest:
        each = torch.as_tensor(arrays["neighbour-accuracy"], device="cpu")[larger[0]]
        found["neighbour-petal-gain"] = penchant.Quantity(
            float((each[most] - each[fewest]).mean()), null=0.0
        )
    upper = slice(len(arrays["radial-frequency"]) // 4, None)
    frequency, spectrum = (
        arrays["radial-frequency"][upper].cpu(),
        arrays["radial-spectrum"][:, upper],
    )
    found["network-decay"] = penchant.Quantity(decay_exponent(frequency, spectrum[0]))
    if options.neighbours:
        smallest = options.neighbours.index(min(options.neighbours))
        found["neighbour-decay"] = penchant.Quantity(
            decay_exponent(frequency, spectrum[1 + smallest])
        )
    return found
