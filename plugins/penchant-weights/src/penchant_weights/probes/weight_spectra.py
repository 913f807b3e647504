"""The probe `weight-spectra`: singular values of every layer, one tensor at a time."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import penchant
from penchant_numerics.statistics import null_of
from torch import Tensor

from penchant_weights.declarations import WeightSpectra
from penchant_weights.numerics.stored_tensors import stored_tensors
from penchant_weights.numerics.weight_spectrum import (
    MEASURES,
    Spectrum,
    as_matrix,
    shuffled,
    spectrum,
)

# what is measured, and the array that holds it by layer
ARRAYS = {
    "mp-distance": "mp-distances",
    "spikes": "spikes-by-layer",
    "stable-rank": "stable-ranks",
    "power-law": "power-laws",
}


@dataclass
class _Layers:
    """Spectra of the layers, and the draws of their nulls (shuffles,) by measure."""

    names: list[str] = field(default_factory=list)
    spectra: list[Spectrum] = field(default_factory=list)
    nulls: list[dict[str, np.ndarray]] = field(default_factory=list)
    small: list[str] = field(default_factory=list)


def run(options: WeightSpectra, context: penchant.Context) -> penchant.Result:
    """Measure one tensor after the other, and release it."""
    layers = _Layers()
    for name, weight in _tensors(options, context):
        if weight.dim() < 2 or not weight.is_floating_point():
            continue
        if min(len(weight), weight[0].numel()) < options.smallest:
            layers.small.append(name)
            continue
        _add(layers, name, weight, context)
        del weight  # before the next one is read
    if layers.small:
        context.warn(f"left out, with sides below {options.smallest}: {', '.join(layers.small)}")
    if not layers.names:
        raise penchant.Error(
            f"expected a tensor with two axes of at least {options.smallest}, found none"
        )
    arrays = _arrays(layers)
    missing = [name for name, values in arrays.items() if not np.isfinite(values).all()]
    return penchant.Result(
        _quantities(layers, context),
        arrays,
        conventions={
            "matrix": "outputs x everything else; eigenvalues sigma^2 / longer side",
            "variance": "mean square of the entries, their mean included",
            "tail": "window of the smallest Kolmogorov distance; Vuong's test at 1 %, two-sided",
            "null": f"entries in random order, {options.shuffles} times",
        },
        missing=tuple(missing),
        labels={"layers": tuple(layers.names)},
    )


def _tensors(options: WeightSpectra, context: penchant.Context) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of the file, or of the network, that fit the patterns."""
    if (options.file is None) != context.has("architecture"):
        raise penchant.Error(
            "weight-spectra takes a file or an architecture, found "
            + ("neither" if options.file is None else f"both (file = {options.file!r})")
        )
    if options.file is not None:
        every = stored_tensors(Path(options.file))
    else:
        every = _network(context).named_parameters()
    seen, fitting = [], 0
    try:
        for name, weight in every:
            seen.append(name)
            patterns = options.layer_names or ("*",)
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                fitting += 1
                yield name, weight
            del weight
    except ValueError as error:
        raise penchant.Error(str(error)) from None
    if not fitting:
        known = ", ".join(seen) or "no tensors"
        raise penchant.Error(
            f"no tensor is called {list(options.layer_names or ())}, found {known}"
        )


def _network(context: penchant.Context) -> Any:
    """The network: trained if there is a dataset, the user's own as it is, else untrained."""
    try:
        *_, (_, network) = context.trained()
    except penchant.Error:
        if context.has("dataset"):
            raise
        # without a dataset only a network of the user's own is trained
        network = context.network()
    return network


def _add(layers: _Layers, name: str, weight: Tensor, context: penchant.Context) -> None:
    """Measure one tensor, and its entries in random order."""
    options: WeightSpectra = context.options
    matrix = as_matrix(weight)
    generator = context.generator("shuffles", name)
    random = np.random.default_rng(context.generator("bootstrap", name).initial_seed())
    try:
        own = spectrum(matrix, random=random)
    except ValueError as error:
        raise penchant.Error(f"tensor {name!r} {error}") from None
    draws = []
    for _ in range(options.shuffles):
        draws.append(spectrum(shuffled(matrix, generator=generator)).values)
    layers.names.append(name)
    layers.spectra.append(own)
    layers.nulls.append({key: np.array([each[key] for each in draws]) for key in MEASURES})


def _quantities(layers: _Layers, context: penchant.Context) -> dict[str, penchant.Quantity]:
    """Means over layers; nulls are means over layers of each shuffle."""
    quantities = {}
    for name in MEASURES:
        key = "power-law-layers" if name == "power-law" else name
        value = float(np.mean([each.values[name] for each in layers.spectra]))
        draws = np.mean([each[name] for each in layers.nulls], axis=0)
        quantities[key] = penchant.Quantity(value, exact=True, **null_of(draws, value=value))

    tails = [each.tail for each in layers.spectra if each.tail is not None and each.tail.accepted]
    refused = len(layers.spectra) - len(tails)
    if refused:
        context.warn(
            f"no power law in {refused} of {len(layers.spectra)} layers: an exponential fits the "
            "tail as well, or it has too few values"
        )
    if tails:
        squares = sum(each.stderr**2 for each in tails if each.stderr is not None)
        quantities["tail-exponent"] = penchant.Quantity(
            float(np.mean([each.exponent for each in tails])),
            stderr=squares**0.5 / len(tails),
            over="eigenvalues",
            count=sum(each.count for each in tails),
        )
    return quantities


def _arrays(layers: _Layers) -> dict[str, np.ndarray]:
    """Everything by layer."""
    longest = max(len(each.singular_values) for each in layers.spectra)
    table = np.zeros((len(layers.spectra), longest))
    for row, each in zip(table, layers.spectra):
        row[: len(each.singular_values)] = each.singular_values
    arrays = {
        "singular-values": table,
        "shapes": np.array([each.shape for each in layers.spectra]),
        "edges": np.array([each.edge for each in layers.spectra]),
    }
    for name, key in ARRAYS.items():
        arrays[key] = np.array([each.values[name] for each in layers.spectra])
        arrays[f"{key}-null"] = np.array([each[name].mean() for each in layers.nulls])
    tails = [each.tail for each in layers.spectra]
    accepted = [each if each is not None and each.accepted else None for each in tails]
    arrays["tail-exponents"] = _of(accepted, "exponent")
    arrays["tail-exponents-stderr"] = _of(accepted, "stderr")
    arrays["tail-windows"] = _of(tails, "begin")
    arrays["tail-counts"] = _of(tails, "count")
    arrays["tail-against-exponential"] = _of(tails, "against_exponential")
    return arrays


def _of(tails: list[Any], name: str) -> np.ndarray:
    """A field of each tail, not a number where there is none."""
    return np.array([np.nan if each is None else getattr(each, name) for each in tails])
