"""The probe `exact-spectrum`: the Fourier transform of networks as drawn, from their linear pieces."""

from __future__ import annotations

import copy
import math
from typing import Any

import penchant
import torch
from torch import Tensor

from penchant_spectral_bias.numerics import piecewise_linear as line
from penchant_spectral_bias.numerics import polygons as polygons
from penchant_spectral_bias.numerics.rank_correlation import mean_and_error
from penchant_spectral_bias.numerics.spectral_norms import lipschitz_bounds

BLOCK = 8  # networks a shard
SAMPLED = 4096  # pieces of networks whose own are not known
ANGLE = 0.7123  # a direction of the plane that no face has for a reason


def run(options: Any, context: Any) -> penchant.Result:
    """Measure networks in blocks; then parameters drawn from a box."""
    settings = {"cycles": options.cycles, "clip": options.clip}
    blocks = [
        list(range(start, min(start + BLOCK, options.networks)))
        for start in range(0, options.networks, BLOCK)
    ]
    items = [
        {**settings, "indices": block, "gradients": options.gradients, "regions": options.regions}
        for block in blocks
    ]
    rows = list(context.map(measured_networks, items))
    found = {
        name: torch.cat([torch.as_tensor(row[name], device="cpu") for row in rows])
        for name in rows[0]
    }
    cycles = torch.arange(1, options.cycles + 1, device="cpu", dtype=torch.float64)
    arrays: dict[str, Any] = {"frequency": cycles}
    arrays["spectrum"], arrays["spectrum-stderr"] = mean_and_error(found["spectrum"])
    if "gradient-norm" in found:
        arrays["gradient-frequency"] = _spread_cycles(options.gradients, options.cycles)
        arrays["gradient-norm"], arrays["gradient-norm-stderr"] = mean_and_error(
            found["gradient-norm"]
        )
    arrays |= _high_frequency_share(options, context, settings)
    conventions = {
        "transform": "int f e^{-ikx} over a segment of length 1, k = 2 pi n; f minus the straight line through its ends",
        "segment": "from the origin along a random direction (of the only input value, if there is one)",
    }
    return penchant.Result(_quantities(options, found, arrays), arrays, conventions=conventions)


def measured_networks(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Spectra and constants of some networks as they are drawn."""
    start, end = _segment(context)
    k = (
        2
        * math.pi
        * torch.arange(1, item["cycles"] + 1, device=context.device, dtype=torch.float64)
    )
    rows = [
        _measured(context, context.network(index), start, end, k, item) for index in item["indices"]
    ]
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def _measured(
    context: Any, network: Any, start: Tensor, end: Tensor, k: Tensor, item: dict[str, Any]
) -> dict[str, Tensor]:
    function, chain = _along(context, network, start, end)
    spectrum = line.transform(function.without_line(), k).abs()
    found = {
        "spectrum": spectrum,
        "decay": _number(line.decay_exponent(*_upper(k, spectrum)), k),
        "lipschitz": line.lipschitz(function),
    }
    if chain is None:
        return found
    bounds = lipschitz_bounds([weight.detach().double() for weight, _ in chain])
    found |= {
        "pieces": _number(function.pieces(), k),
        "lipschitz-bound": _number(bounds[0], k),
        "max-norm-bound": _number(bounds[1], k),
    }
    if item["gradients"]:
        some = 2 * math.pi * _spread_cycles(item["gradients"], item["cycles"]).to(k.device)
        norms = line.gradient_norms(chain, start, end, some)
        found |= {
            "gradient-norm": norms,
            "gradient-decay": _number(line.decay_exponent(*_upper(some, norms)), k),
        }
    if item["regions"] and len(start) == 2:
        found |= _in_the_plane(chain, k, item["cycles"])
    return found


def _along(
    context: Any, network: Any, start: Tensor, end: Tensor
) -> tuple[line.PiecewiseLinear, Any]:
    """The network's first output along the segment: exact for chains, else linear between closely spaced points."""
    chain = line.chain_of(network)
    with torch.no_grad():
        if chain is not None:
            return line.on_segment(chain, start, end), chain
        context.warn(
            f"the network is no chain of linear layers and ReLUs: its spectrum is that of {SAMPLED} pieces between samples"
        )
        share = torch.linspace(0, 1, SAMPLED + 1, device=start.device, dtype=torch.float64)[:, None]
        places = (
            (start + share * (end - start))
            .reshape(-1, *context.architecture.shape)
            .to(context.dtype)
        )
        return line.on_grid(
            torch.cat([network(part)[:, 0] for part in places.split(1024)]),
            float((end - start).norm()),
        ), None


def _in_the_plane(chain: Any, k: Tensor, cycles: int) -> dict[str, Tensor]:
    """Regions in [-1, 1]^2 and both decays of theorem 3.3."""
    regions = polygons.linear_regions(chain)
    radius = torch.logspace(
        math.log10(20), math.log10(20 * cycles), 1000, device="cpu", dtype=torch.float64
    )
    generic = torch.tensor([math.cos(ANGLE), math.sin(ANGLE)], device="cpu", dtype=torch.float64)
    normals = polygons.face_normals(regions)
    found = {
        "regions": _number(len(regions), k),
        "plane-lipschitz": _number(regions.lipschitz(), k),
    }
    for name, direction in (
        ("generic-decay", generic),
        ("face-decay", normals[0] if len(normals) else generic),
    ):
        found[name] = _number(
            line.decay_exponent(
                radius, polygons.lemma_sum(regions, radius[:, None] * direction).abs()
            ),
            k,
        )
    return found


def _segment(context: Any) -> tuple[Tensor, Tensor]:
    size = math.prod(context.architecture.shape)
    direction = torch.randn(
        size, generator=context.generator("direction"), device="cpu", dtype=torch.float64
    )
    direction = direction.abs() / direction.norm() if size == 1 else direction / direction.norm()
    end = direction.to(context.device)
    return torch.zeros_like(end), end


def _upper(k: Tensor, magnitude: Tensor) -> tuple[Tensor, Tensor]:
    """The upper part of the frequencies, where the decay is the asymptotic one."""
    first = len(k) // 8
    return k[first:], magnitude[first:]


def _spread_cycles(count: int, largest: int) -> Tensor:
    """Different whole numbers of cycles, evenly spread on a logarithmic axis."""
    values = torch.logspace(0, math.log10(largest), count, device="cpu", dtype=torch.float64)
    return values.round().unique()


def _number(value: float, like: Tensor) -> Tensor:
    return torch.tensor(float(value), device=like.device, dtype=torch.float64)


def _high_frequency_share(options: Any, context: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """For every cut-off: the share of parameters in the box whose spectrum is above epsilon somewhere beyond it."""
    if not options.box_draws:
        return {}
    blocks = [
        list(range(start, min(start + BLOCK, options.box_draws)))
        for start in range(0, options.box_draws, BLOCK)
    ]
    rows = list(context.map(drawn_parameters, [{**settings, "indices": block} for block in blocks]))
    spectra = torch.cat(
        [torch.as_tensor(row["spectrum"], device="cpu") for row in rows]
    )  # (parameters, frequencies)
    epsilon = options.epsilon * float(spectra.amax(1).median())
    context.conventions["epsilon"] = (
        f"{epsilon:.6g}: {options.epsilon:g} of the median over parameters of the largest amplitude"
    )
    beyond = (
        spectra.flip(1).cummax(1).values.flip(1)
    )  # the largest at this frequency or a higher one
    share = (beyond > epsilon).double().mean(0)
    smoothed = (share * len(spectra) + 0.5) / (len(spectra) + 1)
    return {"share": share, "share-stderr": (smoothed * (1 - smoothed) / len(spectra)).sqrt()}


def drawn_parameters(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Spectra of networks whose parameters are uniform in [-clip, clip]."""
    start, end = _segment(context)
    k = (
        2
        * math.pi
        * torch.arange(1, item["cycles"] + 1, device=context.device, dtype=torch.float64)
    )
    network = copy.deepcopy(context.network(0))
    rows = []
    for index in item["indices"]:
        generator = context.generator("parameters", index)
        for parameter in network.parameters():
            drawn = (2 * torch.rand(parameter.shape, generator=generator, device="cpu") - 1) * item[
                "clip"
            ]
            parameter.data.copy_(drawn)
        rows.append(line.transform(_along(context, network, start, end)[0].without_line(), k).abs())
    return {"spectrum": torch.stack(rows)}


def _quantities(
    options: Any, found: dict[str, Tensor], arrays: dict[str, Any]
) -> dict[str, penchant.Quantity]:
    quantities = {}
    for name, values in found.items():
        if values.ndim == 1:
            mean, error = mean_and_error(values)
            known = float(error) if len(values) > 1 else None
            quantities[name] = penchant.Quantity(
                float(mean), stderr=known, over="networks", count=len(values)
            )
    if "share" in arrays:
        place = min(options.cutoff, options.cycles) - 1
        error = float(arrays["share-stderr"][place])
        quantities["high-frequency-share"] = penchant.Quantity(
            float(arrays["share"][place]), stderr=error, over="parameters", count=options.box_draws
        )
    return quantities
