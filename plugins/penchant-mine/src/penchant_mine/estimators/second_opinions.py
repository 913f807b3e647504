"""What other methods say of the same samples, and what the samples are like.

No estimator sees everything: networks miss fine structure, neighbours what is spread over many
columns, correlations what is not linear. What a part of x and z tells, or another method finds, is
a lower bound of their information: where it is larger, the difference is bias.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from penchant_mine.shared.information.column_products import telling_columns
from penchant_mine.shared.information.dependent_samples import copied_rows, inflation
from penchant_mine.shared.information.fine_structure import information_along_columns
from penchant_mine.shared.information.kraskov import kraskov
from penchant_mine.shared.information.pairs import Pairs, normal_scores
from penchant_mine.shared.information.repeated_values import information_of_atoms, largest_atom

NEGLIGIBLE = 1e-9  # standard deviations of the noise that breaks ties
FEW_DIMENSIONS = 6  # of a pair: up to 3 + 3, where neighbours are near enough
LEAST_DOUBT = 0.02  # nats: smaller differences are not worth a warning
NEIGHBOURS = 3
SUBSETS = 10  # disjoint ones, which show how the bias of neighbours falls
DEPENDENT = 1.35  # times the error of independent terms: those of neighbours share samples
ASKED = 10000  # samples that neighbours are asked about, at most
ASKED_FAR = 2048  # the same in more than few dimensions
MOST_COLUMNS = 64  # of a pair, in more of which neighbours are not asked
SERIES = 1.5  # times the variance of independent rows, from which a series is one


@dataclass(frozen=True)
class Bound:
    """What is found at least, with its standard error, and what bias may be missing from it."""

    least: float
    error: float
    bias: float = 0.0


def second_opinion(
    pairs: Pairs, value: float, error: float, generator: Generator
) -> tuple[float, list[str]]:
    """How far other methods are above a value, and what they and the samples warn of."""
    pairs = on_host(pairs)
    bounds = bounds_of_neighbours(pairs, generator) | bounds_of_columns(pairs, generator)
    bias, warnings = missing(value, error, bounds, noise=1.0)
    return bias, [*warnings, *doubts_of_samples(pairs)]


def clear_second_opinion(
    pairs: Pairs, value: float, error: float, generator: Generator
) -> tuple[float, list[str]]:
    """The same for values whose own error is complete: a bias counts only where it is clear."""
    pairs = on_host(pairs)
    bounds = bounds_of_neighbours(pairs, generator) | bounds_of_columns(pairs, generator)
    bias, warnings = missing(value, error, bounds)
    return bias if warnings else 0.0, [*warnings, *doubts_of_samples(pairs)]


def on_host(pairs: Pairs) -> Pairs:
    """The same pairs on the CPU: elsewhere sums and counts have no deterministic kernels."""
    return Pairs(pairs.x.cpu(), pairs.z.cpu(), pairs.warnings, pairs.conventions)


def missing(
    value: float, error: float, bounds: Mapping[str, Bound], noise: float = 0.0
) -> tuple[float, list[str]]:
    """By how much a value is below lower bounds, and a warning of each where it clearly is.

    Args:
        value: The value.
        error: Its standard error, without a bias.
        bounds: Lower bounds.
        noise: How many standard errors of the difference do not count as bias.

    Returns:
        The largest difference, or 0, and the warnings.
    """
    bias, warnings = 0.0, []
    for name, bound in bounds.items():
        difference = bound.least - value
        of_both = math.hypot(error, bound.error)
        bias = max(bias, difference + bound.bias - noise * of_both)
        if difference > max(3 * of_both, LEAST_DOUBT):
            warnings.append(f"{name} give {bound.least:.3g}: the value is too low")
    return bias, warnings


def bounds_of_columns(pairs: Pairs, generator: Generator) -> dict[str, Bound]:
    """What lengths, atoms, and single columns or products of columns say."""
    bounds = {}
    if pairs.x.shape[1] + pairs.z.shape[1] > 2:
        of_x, of_z = (each.norm(dim=1, keepdim=True) for each in (pairs.x, pairs.z))
        bounds["the lengths of x and z alone"] = _one_with_one(of_x, of_z, generator)
    columns = telling_columns(pairs.x, pairs.z)
    if columns is not None:
        name = "columns, products or totals of columns"
        bounds[name] = _one_with_one(columns[0], columns[1], generator)
    step = -(-len(pairs.x) // ASKED)
    fine = Bound(*information_along_columns(pairs.x[::step], pairs.z[::step]))
    if fine.least > 0:
        bounds["neighbours along one column"] = fine
    atoms = Bound(*information_of_atoms(pairs.x, pairs.z))
    if atoms.least > 0:
        bounds["equal values alone"] = atoms
    return bounds


def bounds_of_neighbours(pairs: Pairs, generator: Generator) -> dict[str, Bound]:
    """What nearest neighbours say, in units of the columns and of their ranks."""
    columns = pairs.x.shape[1] + pairs.z.shape[1]
    few = columns <= FEW_DIMENSIONS
    if columns > MOST_COLUMNS or len(pairs.x) <= NEIGHBOURS:
        return {}
    step = -(-len(pairs.x) // (ASKED if few else ASKED_FAR))
    x, z = (jittered(each[::step], generator) for each in (pairs.x, pairs.z))
    bounds = {"nearest neighbours": _neighbours(x, z, generator, rising=few)}
    x, z = normal_scores(x), normal_scores(z)
    bounds["nearest neighbours of normal scores"] = _neighbours(x, z, generator, rising=few)
    return bounds


def _one_with_one(x: Tensor, z: Tensor, generator: Generator) -> Bound:
    """What one column tells of another, in each of which ranks are all that matters."""
    step = -(-len(x) // ASKED)
    x, z = (jittered(normal_scores(each[::step]), generator) for each in (x, z))
    terms = kraskov(x, z, min(NEIGHBOURS, len(x) - 1))
    return Bound(float(terms.mean()), error_of_terms(terms))


def _neighbours(x: Tensor, z: Tensor, generator: Generator, *, rising: bool) -> Bound:
    terms = kraskov(x, z, NEIGHBOURS)
    value = float(terms.mean())
    groups = min(SUBSETS, len(x) // (NEIGHBOURS + 2))
    if not rising or groups < 2:
        return Bound(value, error_of_terms(terms))
    order = torch.randperm(len(x), generator=generator, device="cpu").to(x.device)
    subsets = [kraskov(x[rows], z[rows], NEIGHBOURS) for rows in order.tensor_split(groups)]
    gain = value - sum(float(each.mean()) for each in subsets) / groups
    return Bound(value, error_of_terms(terms), max(0.0, bias_left(gain, groups)))


def bias_left(gain: float, groups: int) -> float:
    """What a bias that falls with the root of the samples leaves after `groups` times as many."""
    return gain / (math.sqrt(groups) - 1)


def error_of_terms(terms: Tensor) -> float:
    """Standard error of the mean of what samples contribute, whose neighbours are shared."""
    return DEPENDENT * float(terms.std()) / math.sqrt(len(terms))


def jittered(values: Tensor, generator: Generator) -> Tensor:
    """The same values without equal ones: distances of 0 have no neighbours inside."""
    exact = values.to(torch.float64)
    noise = torch.randn(exact.shape, generator=generator, device="cpu", dtype=torch.float64)
    parted = exact + NEGLIGIBLE * noise.to(exact.device)
    # Constant columns stay constant.
    return torch.where(exact.std(0) > 0, parted, 0.0)


def doubts_of_samples(pairs: Pairs) -> list[str]:
    """Rows that depend on each other."""
    doubts = []
    if (factor := inflation(pairs.x, pairs.z)) > SERIES:
        count = len(pairs.x) / factor
        doubts.append(
            f"neighbouring rows are alike: as rows of a series they are worth {count:.3g} "
            f"independent ones, not {len(pairs.x)}, and the standard error is too small"
        )
    if copied := copied_rows(pairs.x, pairs.z):
        doubts.append(
            f"{copied} of {len(pairs.x)} rows are copies of others, which pass for information: "
            "drop them"
        )
    return doubts


def doubts_of_atoms(pairs: Pairs) -> list[str]:
    """Values that many samples share, beside continuous ones, in few columns."""
    if pairs.x.shape[1] + pairs.z.shape[1] > FEW_DIMENSIONS:
        return []
    return [
        f"{share:.0%} of the samples have one value in a column of {name} that is otherwise "
        "continuous, which networks and neighbours smooth over"
        for name, share in (("x", largest_atom(pairs.x)), ("z", largest_atom(pairs.z)))
        if share
    ]
