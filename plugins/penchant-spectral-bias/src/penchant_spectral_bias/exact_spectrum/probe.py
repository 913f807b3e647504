"""The probe `exact-spectrum`: the Fourier transform of untrained networks, from their pieces."""

import copy
import math
from typing import Any

import penchant
import torch
from penchant_numerics.statistics import statistics
from penchant_numerics.training import outputs
from torch import Generator, Tensor, nn

from penchant_spectral_bias.declarations.theory import ExactSpectrum
from penchant_spectral_bias.exact_spectrum import polygons
from penchant_spectral_bias.exact_spectrum.spectral_gradients import spectral_gradients
from penchant_spectral_bias.shared import piecewise_linear
from penchant_spectral_bias.shared.band_spectra import decay_exponent, in_windows
from penchant_spectral_bias.shared.rank_order import joined, missing
from penchant_spectral_bias.shared.spectral_norms import lipschitz_bounds
from penchant_spectral_bias.shared.waves import network_of_one_output

BLOCK = 8  # networks per shard
SAMPLED = 4096  # pieces of networks whose own are not known
ANGLE = 0.7123  # a direction of the plane that no face has for a reason
# Where the decays of the plane are those of the theorem: at smaller |k| faces that the direction is
# almost normal to, and short edges, still hide them.
CUTOFF = 10  # cycles at which an amplitude of random parameters counts as a high frequency
RADII = (4.0, 7.0)  # powers of ten
WINDOWS = 24
# Of every curve its axis, and the array that has its coordinates.
AXES = {
    "amplitude": ("frequency", "frequencies"),
    "gradient-norm": ("gradient-frequency", "gradient-frequencies"),
    "learning-rate": ("gradient-frequency", "gradient-frequencies"),
    "generic-amplitude": ("plane-frequency", "plane-frequencies"),
    "face-amplitude": ("plane-frequency", "plane-frequencies"),
}


def run(options: ExactSpectrum, context: penchant.Context) -> penchant.Result:
    """Measure networks in blocks; then parameters sampled from a box."""
    shards = list(context.map(measured, networks=options.networks, shard_size=BLOCK))
    rows = joined(shards, shards[0])
    arrays = {"frequencies": _cycles(options.cycles)}
    if "gradient-norm" in rows:
        arrays["gradient-frequencies"] = _spread_cycles(options.gradients, options.cycles)
    if "plane-frequencies" in rows:
        arrays["plane-frequencies"] = rows.pop("plane-frequencies")[0]
    # curves become tables, numbers quantities
    tables, quantities = {}, {}
    for name, values in rows.items():
        if values.ndim == 1:
            quantities[name] = penchant.Quantity.of(values, over="networks")
            continue
        axis, positions = AXES[name]
        axes = {"network": range(options.networks), axis: arrays[positions].tolist()}
        tables[name] = penchant.Table(values, axes).mean("network")
    if options.box_networks:
        # cycles are counted from 1
        cutoff = min(CUTOFF, options.cycles)
        tables["share"] = _high_frequency_share(options, context)
        quantities["high-frequency-share"] = tables["share"].at(frequency=cutoff).quantity()
    return penchant.Result(
        quantities,
        arrays,
        tables=tables,
        conventions={
            "transform": "int f e^{-ikx} over a segment of length 1, k = 2 pi n; f minus the "
            "straight line through its ends",
            "segment": "from the origin along a random direction (of the only input value, if there"
            " is one)",
            "learning rate": "|d f~(k) / dt| of gradient descent on int (f - sin kx)^2 / 2, at its "
            "start",
        },
        missing=missing(quantities),
    )


def _cycles(count: int) -> Tensor:
    """Frequencies of a segment of length 1."""
    return torch.arange(1, count + 1, device="cpu", dtype=torch.float64)


def measured(context: penchant.Context, indices: range) -> dict[str, Any]:
    """Spectra and constants of some networks at initialisation."""
    networks = []
    for index in indices:
        network = network_of_one_output(context, index)
        networks.append(_of_network(context, network))

    # one row per network; all of them have the same names
    rows = {}
    for name in networks[0]:
        rows[name] = torch.stack([each[name] for each in networks])
    return rows


def _of_network(context: penchant.Context, network: nn.Module) -> dict[str, Tensor]:
    options = context.options
    chain = piecewise_linear.chain_of(network)
    k = 2 * math.pi * _cycles(options.cycles).to(context.device)
    function = _along(context, network, chain)
    bends = function.without_line()
    amplitude = piecewise_linear.transform(bends, k).abs()
    numbers = {
        "amplitude": amplitude,
        "decay": _decay(context, k, amplitude),
        "lipschitz": piecewise_linear.lipschitz(function),
    }
    if chain is None:
        return numbers

    # a chain has known pieces, and with them everything else
    weights = [weight.detach().double() for weight, _ in chain]
    bound, max_norm_bound = lipschitz_bounds(weights)
    numbers["pieces"] = _number(context, function.pieces())
    numbers["lipschitz-bound"] = _number(context, bound)
    numbers["max-norm-bound"] = _number(context, max_norm_bound)
    if options.gradients:
        numbers |= _gradients(context, chain)

    # regions are polygons: they need two inputs
    size = math.prod(context.architecture.shape)
    if options.regions and size == 2:
        numbers |= _in_the_plane(context, chain)
    return numbers


def _along(
    context: penchant.Context, network: nn.Module, chain: piecewise_linear.Chain | None
) -> piecewise_linear.PiecewiseLinear:
    """The network's first output along the segment.

    It is exact for chains, else linear between closely spaced points.
    """
    start, end = _segment(context)
    with torch.no_grad():
        if chain is not None:
            return piecewise_linear.on_segment(chain, start, end)

        # linear between samples instead
        context.warn(
            "the network is no chain of linear layers and ReLUs: its spectrum is that of "
            f"{SAMPLED} pieces between samples"
        )
        share = torch.linspace(0, 1, SAMPLED + 1, device=start.device, dtype=torch.float64)
        whole = end - start
        positions = start + share[:, None] * whole
        inputs = positions.reshape(-1, *context.architecture.shape)
        # in double precision: differences of neighbours would be rounding
        precise = copy.deepcopy(network).double()
        values = outputs(precise, inputs)[:, 0]
        length = float(whole.norm())
        return piecewise_linear.on_grid(values, length)


def _segment(context: penchant.Context) -> tuple[Tensor, Tensor]:
    """From the origin, along a random direction of length 1."""
    size = math.prod(context.architecture.shape)
    generator = context.generator("direction")
    direction = torch.randn(size, generator=generator, device="cpu", dtype=torch.float64)
    if size == 1:
        direction = direction.abs()
    unit = direction / direction.norm()
    end = unit.to(context.device)
    return torch.zeros_like(end), end


def _gradients(context: penchant.Context, chain: piecewise_linear.Chain) -> dict[str, Tensor]:
    """How the transform depends on the parameters, and how fast each frequency would be learnt."""
    options = context.options
    start, end = _segment(context)
    # gradients are dear: a few frequencies stand for all
    cycles = _spread_cycles(options.gradients, options.cycles)
    k = 2 * math.pi * cycles.to(context.device)
    norms, rates = spectral_gradients(chain, start, end, k)
    return {
        "gradient-norm": norms,
        "gradient-decay": _decay(context, k, norms),
        "learning-rate": rates,
        "rate-decay": _decay(context, k, rates),
    }


def _in_the_plane(context: penchant.Context, chain: piecewise_linear.Chain) -> dict[str, Tensor]:
    """Regions in [-1, 1]^2 and both decays of theorem 3.3."""
    regions = polygons.linear_regions(chain)
    radius = torch.logspace(*RADII, 3000, device="cpu", dtype=torch.float64)
    generic = torch.tensor([math.cos(ANGLE), math.sin(ANGLE)], device="cpu", dtype=torch.float64)
    numbers = {
        "regions": _number(context, len(regions)),
        "plane-lipschitz": _number(context, regions.lipschitz()),
    }

    # Without any face the network is affine in the box: there is no bend to follow.
    normals = polygons.faces(regions).normals
    across = normals[0] if len(normals) else generic
    for name, direction in (("generic", generic), ("face", across)):
        k = radius[:, None] * direction
        values = polygons.lemma_sum(regions, k).abs()
        positions, sizes = in_windows(radius, values, windows=WINDOWS)
        numbers[f"{name}-decay"] = _number(context, decay_exponent(radius, values))
        numbers[f"{name}-amplitude"] = sizes
        numbers["plane-frequencies"] = positions
    return numbers


def _decay(context: penchant.Context, k: Tensor, magnitude: Tensor) -> Tensor:
    """The exponent over the upper frequencies, where the decay is the asymptotic one."""
    first = len(k) // 8
    exponent = decay_exponent(k[first:], magnitude[first:])
    return _number(context, exponent)


def _spread_cycles(count: int, largest: int) -> Tensor:
    """Different whole numbers of cycles, evenly spread on a logarithmic axis."""
    highest = math.log10(largest)
    values = torch.logspace(0, highest, count, device="cpu", dtype=torch.float64)
    whole = values.round()
    different: Tensor = whole.unique()
    return different


def _number(context: penchant.Context, value: float) -> Tensor:
    """A number as shards return it."""
    number = float(value)
    return torch.tensor(number, device=context.device, dtype=torch.float64)


def _high_frequency_share(options: ExactSpectrum, context: penchant.Context) -> penchant.Table:
    """For every cut-off: the share of parameters with an amplitude above epsilon beyond it."""
    shards = list(context.map(in_the_box, networks=options.box_networks, shard_size=BLOCK))
    amplitude = joined(shards, ["amplitude"])["amplitude"]  # (parameters, frequencies)
    # parameters of a box have no scale of their own
    median = amplitude.amax(1).median()
    epsilon = options.epsilon * float(median)
    context.conventions["epsilon"] = (
        f"{epsilon:.6g}: {options.epsilon:g} of the median over parameters of the largest amplitude"
    )
    # the largest amplitude at this frequency or a higher one
    downwards = amplitude.flip(1)
    largest = downwards.cummax(1).values
    beyond = largest.flip(1)
    share = (beyond > epsilon).double().mean(0)
    stderr = statistics.binomial_stderr(share, len(amplitude))
    return penchant.Table(
        share,
        {"frequency": _cycles(options.cycles).tolist()},
        stderr=stderr,
        over="parameters",
        count=options.box_networks,
    )


def in_the_box(context: penchant.Context, indices: range) -> dict[str, Any]:
    """Spectra of networks whose parameters are uniform in [-clip, clip]."""
    options = context.options
    cycles = _cycles(options.cycles)
    k = 2 * math.pi * cycles.to(context.device)
    # one network, whose parameters are filled anew
    network = copy.deepcopy(network_of_one_output(context))
    chain = piecewise_linear.chain_of(network)
    rows = []
    for index in indices:
        generator = context.generator("parameters", index)
        _fill(network, options.clip, generator)
        function = _along(context, network, chain)
        bends = function.without_line()
        transform = piecewise_linear.transform(bends, k)
        rows.append(transform.abs())
    return {"amplitude": torch.stack(rows)}


def _fill(network: nn.Module, clip: float, generator: Generator) -> None:
    """Parameters sampled uniformly from [-clip, clip], in place."""
    for parameter in network.parameters():
        sampled = torch.rand(parameter.shape, generator=generator, device="cpu")
        uniform = (2 * sampled - 1) * clip
        parameter.data.copy_(uniform)
