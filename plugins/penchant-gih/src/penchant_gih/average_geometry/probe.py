"""The probe `average-geometry`: G at initialisation, its spectrum, how far it is from isotropy."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import attrs
import penchant
import torch
from penchant_numerics.inputs import (
    corr_with_fixed,
    directions_of_gradients,
    effective_rank,
    isotropic_spectra,
)
from penchant_numerics.roles import Directions, refuse_zero
from penchant_numerics.statistics import statistics
from torch import Tensor

from penchant_gih.average_geometry import frequency_shares
from penchant_gih.average_geometry.one_network import gradients_at_samples, over_samples, waves
from penchant_gih.declarations.geometry import AverageGeometry
from penchant_gih.shared import geometry
from penchant_gih.shared.containment import inner_products
from penchant_gih.shared.gradients import scalar_outputs
from penchant_gih.shared.preferred_directions import independent_groups, matrix_of

Statistic = Callable[[Tensor], float]  # of a spectrum (k,)

OVER = "networks (jackknife over groups)"
LARGEST_STORED = 4096  # inputs up to which G of few networks is stored: 128 MiB
ROUNDING = 10 * torch.finfo(torch.float32).eps  # of a gradient, relative


def run(options: AverageGeometry, context: penchant.Context) -> penchant.Result:
    """Measure G, of fresh networks or of one trained network at samples, then describe it."""
    rows = None
    if context.network_kind == "trained":
        rows = gradients_at_samples(options, context)
        directions = _of_gradients(rows)
    else:
        # One output, or the difference of two logits.
        narrower = context.scope(outputs=scalar_outputs(context))
        directions = _answer(narrower, options.networks)
    rank, size = directions.vectors.shape
    noun = "networks" if rows is None else "samples"
    if rank < size:
        context.warn(
            f"{directions.networks} {noun} for {size} inputs: at most {rank} directions can be "
            "estimated"
        )
    # What an architecture without preferred directions would show.
    null = _null(directions, context, options)
    spectra = directions.left_out_spectra()
    assert spectra is not None  # `_answer` and `_of_gradients` see to it
    arrays = _arrays(directions, spectra, null, options.store_directions)
    quantities = _quantities(directions, spectra, null)
    tables = {}
    # Which waves it sees, where inputs are images or signals.
    shape = context.architecture.shape
    if rows is not None:
        frequencies = waves(rows, shape, options, context)
        quantities["corr-isotropic"] = _isotropy_of(rows)
        quantities = over_samples(quantities) | frequencies.quantities
        arrays["frequency-shares"] = frequencies.shares
        tables["radial-shares"] = frequencies.radial
        arrays["radii"] = frequencies.radial.coordinates("radius")
    else:
        energies, left_out_energies = _energies(directions, shape)
        quantities["low-frequencies"] = _low_frequencies(
            directions, energies, left_out_energies, shape
        )
        arrays["frequency-shares"] = energies / directions.trace
    no_condition = quantities["condition"].missing
    missing = ("condition",) if no_condition else ()
    conventions = {
        "errors": f"jackknife over groups of the {noun}; of the condition to first order, "
        "which is up to twice too large for a nearly isotropic spectrum"
    }
    if directions.groups is None:
        gib = 8 * size**2 / 2**30
        conventions["geometry stored"] = f"no: {size} x {size} numbers are {gib:.3g} GiB"
    return penchant.Result(
        quantities, arrays, tables=tables, conventions=conventions, missing=missing
    )


def _arrays(
    directions: Directions, spectra: Tensor, null: Tensor | None, count: int | None
) -> dict[str, Any]:
    """G and its pairs, with errors from groups of the networks, and the null's eigenvalues."""
    arrays: dict[str, Any] = {}
    # Of very large inputs the matrix was never formed.
    if directions.groups is not None:
        arrays["geometry"] = directions.matrix
        arrays["geometry-stderr"] = _entry_stderr(directions.groups)
    arrays["eigenvalues"] = directions.eigenvalues
    arrays["eigenvalues-stderr"] = statistics.jackknife(spectra)
    arrays["directions"] = directions.vectors[:count]
    if null is not None:
        edges = [null.min(), null.max()]
        arrays["null-edges"] = torch.stack(edges)
        arrays["null-eigenvalues"] = null.mean(0)
        arrays["null-eigenvalues-spread"] = null.std(0)
    return arrays


def _answer(context: penchant.Context, networks: int) -> Directions:
    """G and its groups; of large inputs with few networks, the gradients instead of matrices."""
    estimate = context.estimator("directions")
    directions: Directions = estimate(networks=networks)
    large = directions.vectors.shape[1] > LARGEST_STORED
    if large and directions.rows is not None:
        refuse_zero(directions.eigenvalues, directions.vectors.shape[1])
        return directions
    return independent_groups(context, networks, directions)


def _of_gradients(rows: Tensor) -> Directions:
    """G of one network and its groups, from gradients (samples, D)."""
    directions = directions_of_gradients(rows)
    refuse_zero(directions.eigenvalues, directions.vectors.shape[1])
    if rows.shape[1] > LARGEST_STORED and directions.rows is not None:
        return directions
    groups = geometry.matrices(rows, len(rows))
    return dataclasses.replace(directions, matrix=directions.moment(), groups=groups)


def _null(
    directions: Directions, context: penchant.Context, options: AverageGeometry
) -> Tensor | None:
    """Spectra (draws, k) of isotropic architectures with the same norms.

    There is none where a network has several vectors.
    """
    if directions.squared_norms is None:
        return None
    size = directions.vectors.shape[1]
    stream = context.generator("null")
    return isotropic_spectra(
        directions.squared_norms, size, generator=stream, draws=options.null_draws
    )


def _entry_stderr(groups: Tensor) -> Tensor:
    """Standard error (D, D) of every entry of G, from its spread over groups."""
    spread = groups.std(0)
    return spread / math.sqrt(len(groups))


def numerical_rank(eigenvalues: Tensor) -> int:
    """How many eigenvalues are more than the rounding of gradients in single precision."""
    # Eigenvalues are squares: so is their rounding.
    least = ROUNDING**2 * float(eigenvalues.sum())
    return int((eigenvalues > least).sum())


def _quantities(
    directions: Directions, spectra: Tensor, null: Tensor | None
) -> dict[str, penchant.Quantity]:
    values = directions.eigenvalues
    quantities = {
        "trace": penchant.Quantity(
            directions.trace,
            stderr=directions.trace_stderr,
            over="networks",
            count=directions.networks,
            df=directions.networks - 1,
        ),
        "effective-rank": _of_spectrum(effective_rank, directions, spectra, null),
        "condition": _condition(directions, spectra, null),
        "rank": penchant.Quantity(numerical_rank(values), exact=True),
        "corr-isotropic": _isotropy(directions),
    }
    if null is not None:
        quantities["beyond-null"] = _beyond(directions, spectra, null)
    return quantities


def _of_spectrum(
    statistic: Statistic, directions: Directions, spectra: Tensor, null: Tensor | None
) -> penchant.Quantity:
    """A statistic of a spectrum, its error by the jackknife, its null from isotropic spectra."""
    # The statistic with one group left out at a time.
    replicates = [statistic(spectrum) for spectrum in spectra]
    value = statistic(directions.eigenvalues)
    quantity = penchant.Quantity(
        value,
        stderr=statistics.jackknife(replicates),
        over=OVER,
        count=directions.networks,
        df=len(spectra) - 1,
    )
    if null is None:
        return quantity
    draws = [statistic(spectrum) for spectrum in null]
    return attrs.evolve(quantity, **statistics.null_of(draws, value=value))


def _condition(directions: Directions, spectra: Tensor, null: Tensor | None) -> penchant.Quantity:
    """Largest over smallest eigenvalue; not a number where G has not full rank."""
    size = directions.vectors.shape[1]
    rank = numerical_rank(directions.eigenvalues)
    if rank < size:
        return penchant.Quantity(math.nan)
    quantity = _of_spectrum(_ratio_of_ends, directions, spectra, null)
    return attrs.evolve(quantity, stderr=condition_stderr(directions))


def _ratio_of_ends(spectrum: Tensor) -> float:
    largest = spectrum[0]
    smallest = spectrum[-1]
    return float(largest / smallest)


def condition_stderr(directions: Directions) -> float:
    """The standard error of the condition, to first order in the spread of groups of the networks.

    A group moves an eigenvalue by v.G_i v. Leaving it out instead changes how many networks there
    are, and the ends of a spectrum of few networks depend on that more than on anything else.
    """
    groups = directions.groups
    ends = directions.eigenvalues[[0, -1]]
    vectors = directions.vectors[[0, -1]].to(groups)
    # Both ends in every group, relative to those of all networks.
    along = torch.einsum("ka,pab,kb->pk", vectors, groups, vectors)
    moved = along / ends.to(groups)
    changes = moved[:, 0] - moved[:, 1]
    _, stderr = statistics.mean_and_stderr(changes)
    assert stderr is not None  # there are several groups
    condition = float(ends[0] / ends[1])
    return condition * float(stderr)


def _isotropy(directions: Directions) -> penchant.Quantity:
    """Corr(G, I), the norm of G from different groups of the networks."""
    # <G, I> is the trace; the norm of I is the root of D.
    if directions.groups is None:
        assert directions.rows is not None  # an answer has groups or gradients
        table, traces = geometry.table_and_traces(directions.rows, directions.networks)
    else:
        table = inner_products(list(directions.groups))
        diagonals = directions.groups.diagonal(dim1=1, dim2=2)
        traces = diagonals.sum(1).cpu()
    corr = corr_with_fixed(traces, table, float(directions.vectors.shape[1]))
    return penchant.Quantity(
        corr.value,
        stderr=corr.stderr,
        over=OVER,
        count=directions.networks,
        df=len(traces) - 1,
        null=1.0,
    )


def _isotropy_of(rows: Tensor) -> penchant.Quantity:
    """Corr(G, I) of one network, from gradients (samples, D)."""
    corr = geometry.corr_isotropic(rows)
    count = len(rows)
    return penchant.Quantity(
        corr.value, stderr=corr.stderr, over="networks", count=count, df=count - 1, null=1.0
    )


def _energies(directions: Directions, shape: tuple[int, ...]) -> tuple[Tensor, list[Tensor]]:
    """Energies by frequency, and with one group of the networks left out at a time."""
    if directions.groups is not None:
        total = directions.groups.sum(0)
        left_out = []
        for group in directions.groups:
            left_out.append(frequency_shares.energies(total - group, shape))
        energies = frequency_shares.energies(matrix_of(directions), shape)
        return energies, left_out
    # From the gradients themselves.
    rows = directions.rows
    assert rows is not None  # an answer has groups or gradients
    groups = geometry.members(directions.networks, len(rows), device=rows.device)
    assert groups is not None
    equal = torch.full_like(directions.eigenvalues, 1 / len(rows))
    left_out = []
    for weights in geometry.left_out_weights(groups, like=equal):
        left_out.append(frequency_shares.energies_of_rows(rows, weights, shape))
    energies = frequency_shares.energies_of_rows(rows, equal, shape)
    return energies, left_out


def _low_frequencies(
    directions: Directions, energies: Tensor, left_out: list[Tensor], shape: tuple[int, ...]
) -> penchant.Quantity:
    """The share of slow waves; isotropic gradients have as much as there are slow waves."""
    replicates = [frequency_shares.low_share(each, shape) for each in left_out]
    isotropic = frequency_shares.frequencies(shape, device="cpu") <= frequency_shares.LOW
    return penchant.Quantity(
        frequency_shares.low_share(energies, shape),
        stderr=statistics.jackknife(replicates),
        over=OVER,
        count=directions.networks,
        df=len(replicates) - 1,
        null=isotropic.double().mean(),
    )


def _beyond(directions: Directions, spectra: Tensor, null: Tensor) -> penchant.Quantity:
    """Eigenvalues outside those of isotropic architectures; for each of these, outside the rest."""
    replicates = [_outside(spectrum, null) for spectrum in spectra]
    # Each isotropic draw against the others: what the count is without an effect.
    others = []
    for number in range(len(null)):
        rest = torch.cat([null[:number], null[number + 1 :]])
        others.append(_outside(null[number], rest))
    null_fields = statistics.null_of(others)
    null_fields["null"] = 0.0
    return penchant.Quantity(
        _outside(directions.eigenvalues, null),
        stderr=statistics.jackknife(replicates),
        over=OVER,
        count=directions.networks,
        **null_fields,
    )


def _outside(values: Tensor, null: Tensor) -> int:
    """How many eigenvalues are beyond the edges of isotropic spectra (draws, k)."""
    # With few networks only as many eigenvalues as networks are compared.
    values = values[: null.shape[1]]
    above = (values > null.max()).sum()
    below = (values < null.min()).sum()
    return int(above + below)
