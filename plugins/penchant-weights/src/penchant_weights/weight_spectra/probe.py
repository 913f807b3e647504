"""The probe `weight-spectra`: singular values of every layer, one tensor at a time."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.statistics import null_of
from torch import Tensor

from penchant_weights.declarations import WeightSpectra
from penchant_weights.shared.stored_files import CONFIG, adapter_config
from penchant_weights.weight_spectra.low_rank_factors import multiplied_out
from penchant_weights.weight_spectra.stored_tensors import (
    StoredTensor,
    of_memory,
    stored_tensors,
    tensors_by_name,
)
from penchant_weights.weight_spectra.weight_difference import (
    RELATIVE,
    Base,
    pairs,
    random_direction,
)
from penchant_weights.weight_spectra.weight_spectrum import (
    MEASURES,
    Spectrum,
    as_matrix,
    shuffled,
    spectrum,
)

# what is measured, and the table that holds it by layer
TABLES = {
    "mp-distance": "mp-distances",
    "spikes": "spikes-by-layer",
    "stable-rank": "stable-ranks",
    "power-law": "power-laws",
}
TABLES_OF_BASE = {"relative-change": "relative-changes", "base-overlap": "base-overlaps"}


@dataclass
class _Layers:
    """Spectra of the layers, and the draws of their nulls (shuffles,) by measure."""

    names: list[str] = field(default_factory=list)
    spectra: list[Spectrum] = field(default_factory=list)
    nulls: list[dict[str, np.ndarray]] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)  # of differences, over those of the base


def run(options: WeightSpectra, context: penchant.Context) -> penchant.Result:
    """Measure one tensor after the other, and release it."""
    _check_given(options, context)
    layers = _Layers()
    if options.base is None:
        _add_tensors(layers, options, context)
    else:
        _add_differences(layers, options, context)
    if layers.small:
        context.warn(f"left out, with sides below {options.smallest}: {', '.join(layers.small)}")
    if layers.unchanged:
        context.warn(f"left out, the same as in the base: {', '.join(layers.unchanged)}")
    if not layers.names:
        _refuse_empty(layers, options)
    result = penchant.Result(
        _quantities(layers, context),
        _arrays(layers),
        tables=_tables(layers),
        conventions=_conventions(options),
    )
    missing = [name for name, each in result.arrays.items() if not np.isfinite(each).all()]
    return attrs.evolve(result, missing=missing)


def _check_given(options: WeightSpectra, context: penchant.Context) -> None:
    """Refuse none, or several, of a file, a matrix and an architecture."""
    given = {
        f"file = {options.file!r}": options.file is not None,
        "a matrix": options.matrix is not None,
        "an architecture": context.has("architecture"),
    }
    named = [name for name, is_given in given.items() if is_given]
    if len(named) != 1:
        listed = {0: "neither", 2: f"both ({' and '.join(named)})"}.get(len(named), "all three")
        raise penchant.Error(
            f"weight-spectra takes a file, a matrix or an architecture, found {listed}"
        )


def _refuse_empty(layers: _Layers, options: WeightSpectra) -> None:
    if layers.unchanged:
        raise penchant.Error(
            f"the weights and their base {options.base!r} must differ, found the same in both"
        )
    raise penchant.Error(
        f"found no tensor with two axes of at least {options.smallest} (option smallest)"
    )


def _conventions(options: WeightSpectra) -> dict[str, str]:
    null = f"entries in random order, {options.shuffles} times"
    conventions = {
        "matrix": "outputs x everything else; eigenvalues sigma^2 / longer side",
        "variance": "mean square of the entries, their mean included",
        "tail": "window of the smallest Kolmogorov distance; Vuong's test at 1 %, two-sided",
    }
    if options.base is not None:
        null = f"differences of the same norm in random directions, {options.shuffles} times"
        conventions["difference"] = f"minus the weights of {Path(options.base).name}"
    return {**conventions, "null": null}


def _add_tensors(layers: _Layers, options: WeightSpectra, context: penchant.Context) -> None:
    """Measure every tensor of the file, the network or the array."""
    for name, weight in _tensors(options, context):
        if weight.dim() < 2 or not weight.is_floating_point():
            continue
        if min(len(weight), weight[0].numel()) < options.smallest:
            layers.small.append(name)
            continue
        _add(layers, name, as_matrix(weight), context)
        del weight  # before the next one is read


def _tensors(options: WeightSpectra, context: penchant.Context) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors that fit the patterns."""
    if options.matrix is not None:
        yield "matrix", _given_matrix(options)
        return
    if options.file is not None:
        every = stored_tensors(Path(options.file))
    else:
        every = _network(context).named_parameters()
    seen, fitting = [], 0
    for name, weight in every:
        seen.append(name)
        if _is_chosen(name, options):
            fitting += 1
            yield name, weight
        del weight
    if not fitting:
        _refuse_names(seen, options)


def _given_matrix(options: WeightSpectra) -> Tensor:
    if options.matrix.ndim != 2:
        raise penchant.Error(f"matrix must have two axes, found the shape {options.matrix.shape}")
    return torch.as_tensor(options.matrix, device="cpu")


def _is_chosen(name: str, options: WeightSpectra) -> bool:
    patterns = options.layer_names or ("*",)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _refuse_names(seen: Iterable[str], options: WeightSpectra) -> None:
    known = ", ".join(seen) or "no tensors"
    raise penchant.Error(f"no tensor is called {list(options.layer_names or ())}, found {known}")


def _add_differences(layers: _Layers, options: WeightSpectra, context: penchant.Context) -> None:
    """Measure the difference of every tensor from that of the base."""
    assert options.base is not None
    products: dict[str, StoredTensor] = {}
    if options.file is not None:
        path = Path(options.file)
        products, tuned = multiplied_out(tensors_by_name(path), adapter_config(path))
        if products and adapter_config(path) is None:
            context.warn(f"no {CONFIG} beside {path}: the products of its factors are not scaled")
    else:
        parameters = _network(context).named_parameters()
        tuned = {name: of_memory(parameter) for name, parameter in parameters}
    base = tensors_by_name(Path(options.base))
    tuned, base, products = (_matrices(each, options) for each in (tuned, base, products))
    if options.layer_names and not tuned and not products:
        _refuse_names(base, options)
    for pair in pairs(tuned, base, products):
        if pair.shorter_side < options.smallest:
            layers.small.append(pair.name)
            continue
        difference, before = pair.read()
        if not bool(difference.any()):
            layers.unchanged.append(pair.name)
        else:
            _add_difference(layers, pair.name, difference, before, context)
        del difference, before  # before the next ones are read


def _matrices(
    tensors: Mapping[str, StoredTensor], options: WeightSpectra
) -> dict[str, StoredTensor]:
    """The tensors with two axes or more that fit the patterns."""
    return {
        name: tensor
        for name, tensor in tensors.items()
        if len(tensor.shape) > 1 and tensor.is_floating_point and _is_chosen(name, options)
    }


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


def _add(layers: _Layers, name: str, matrix: Tensor, context: penchant.Context) -> None:
    """Measure one tensor, and its entries in random order."""
    options: WeightSpectra = context.options
    generator = context.generator("shuffles", name)
    own = _spectrum(name, matrix, context)
    draws = []
    for _ in range(options.shuffles):
        draws.append(spectrum(shuffled(matrix, generator=generator)).values)
    layers.names.append(name)
    layers.spectra.append(own)
    layers.nulls.append({key: np.array([each[key] for each in draws]) for key in MEASURES})


def _spectrum(name: str, matrix: Tensor, context: penchant.Context) -> Spectrum:
    random = np.random.default_rng(context.generator("bootstrap", name).initial_seed())
    try:
        return spectrum(matrix, random=random)
    except Refusal as error:
        raise penchant.Error(f"tensor {name!r} {error}") from None


def _add_difference(
    layers: _Layers, name: str, difference: Tensor, before: Tensor, context: penchant.Context
) -> None:
    """Measure one difference, and others of the same norm in random directions."""
    options: WeightSpectra = context.options
    generator = context.generator("directions", name)
    own = _spectrum(name, difference, context)
    if not bool(before.isfinite().all()) or not bool(before.any()):
        raise penchant.Error(f"tensor {name!r} of the base must be finite and not zero everywhere")
    base = Base.of(before)
    own.values.update(base.compared(difference, float(own.singular_values[0])))
    draws = []
    for _ in range(options.shuffles):
        random = random_direction(difference, generator=generator)
        sampled = spectrum(random)
        draws.append({**sampled.values, **base.compared(random, float(sampled.singular_values[0]))})
    layers.names.append(name)
    layers.spectra.append(own)
    layers.norms.append(float(difference.norm() / before.norm()))
    keys = (*MEASURES, *RELATIVE)
    layers.nulls.append({key: np.array([each[key] for each in draws]) for key in keys})


def _quantities(layers: _Layers, context: penchant.Context) -> dict[str, penchant.Quantity]:
    """Means over layers; nulls are means over layers of each shuffle."""
    quantities = {}
    for name in layers.nulls[0]:
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
    """Shapes, and singular values filled up with zeros."""
    longest = max(len(each.singular_values) for each in layers.spectra)
    values = np.zeros((len(layers.spectra), longest))
    for row, each in zip(values, layers.spectra):
        row[: len(each.singular_values)] = each.singular_values
    return {"singular-values": values, "shapes": np.array([each.shape for each in layers.spectra])}


def _tables(layers: _Layers) -> dict[str, penchant.Table]:
    """One number for each layer; nulls are means over shuffles."""
    axes = {"layer": layers.names}
    tables = {"edges": penchant.Table([each.edge for each in layers.spectra], axes)}
    if layers.norms:
        tables["relative-norms"] = penchant.Table(layers.norms, axes)
    for name, key in {**TABLES, **(TABLES_OF_BASE if layers.norms else {})}.items():
        values = [each.values[name] for each in layers.spectra]
        null = [each[name].mean() for each in layers.nulls]
        tables[key] = penchant.Table(values, axes, null=null)
    tails = [each.tail for each in layers.spectra]
    accepted = [each if each is not None and each.accepted else None for each in tails]
    tables["tail-exponents"] = penchant.Table(
        _of(accepted, "exponent"), axes, stderr=_of(accepted, "stderr"), over="eigenvalues"
    )
    fields = {"windows": "begin", "counts": "count", "against-exponential": "against_exponential"}
    for name, field_name in fields.items():
        tables[f"tail-{name}"] = penchant.Table(_of(tails, field_name), axes)
    return tables


def _of(tails: list[Any], name: str) -> np.ndarray:
    """A field of each tail, not a number where there is none."""
    return np.array([np.nan if each is None else getattr(each, name) for each in tails])
