"""Results about Delta: its correlations, its share in a subspace, tables, quantities."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import penchant
import torch
from penchant_numerics.device import HOST
from penchant_numerics.inputs import (
    Corr,
    RotatedCorr,
    corr_with_fixed,
    distinct_mean,
    jackknifed,
    rotated,
)
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.statistics import statistics
from torch import Tensor

from penchant_gih.declarations.geometry import GeometryEvolution
from penchant_gih.geometry_evolution.evolution import Evolution
from penchant_gih.shared.containment import containment, containment_null
from penchant_gih.shared.geometry import GROUPS
from penchant_gih.shared.projected import Projected

OVER = "networks (jackknife over groups)"
ROUNDING = 1 / math.sqrt(12)  # standard deviation of what is lost in a whole number
CONTAINED = 0.9  # share of the trace of G S G that the subspace of conjecture 2 has by default


class Contained(NamedTuple):
    """|P Delta P| / |Delta| by the dimension of P, and the requested dimension."""

    dimensions: list[int]
    shares: list[Corr]
    nulls: list[float]
    chosen: int
    chosen_stderr: float | None


class Row(NamedTuple):
    """Everything about one Delta."""

    corr_s: Corr
    corr_s_null: RotatedCorr
    corr_gsg: Corr
    corr_gsg_null: RotatedCorr
    label_effect: Corr
    contained: Contained
    arrays: dict[str, Tensor]


def row_of(
    evolution: Evolution,
    difference: Evolution,
    projected: Projected,
    S: Tensor,
    *,
    same_networks: bool,
    leading: int | None,
) -> Row:
    """Everything about one Delta.

    Args:
        evolution: Delta, in groups.
        difference: What permuting labels changes in it.
        projected: G S G.
        S: The second moment of the samples that drive the evolution.
        same_networks: Whether the groups of G are of the networks of those of Delta.
        leading: The dimension of conjecture 2; None: chosen by its share of the trace.
    """
    # Products of groups are all that the correlations need.
    S = S.to(evolution.squares.device, evolution.squares.dtype)
    groups = evolution.groups()
    table = evolution.table()
    delta = evolution.matrix()
    trace = float(delta.trace())
    norm = distinct_mean(table, range(GROUPS))
    squared = float(S.square().sum())
    products = torch.tensor([float((group * S).sum()) for group in groups], **HOST)
    changes = difference.table()
    corr_gsg = projected.corr_of_same if same_networks else projected.corr

    def label_effect(chosen: list[int]) -> float:
        changed = distinct_mean(changes, chosen)
        return changed / distinct_mean(table, chosen)

    return Row(
        corr_s=corr_with_fixed(products, table, squared),
        corr_s_null=rotated(trace, float(S.trace()), norm, squared, len(delta)),
        corr_gsg=corr_gsg(projected.against(groups), table),
        corr_gsg_null=rotated(trace, projected.trace, norm, projected.squared_norm(), len(delta)),
        label_effect=jackknifed(label_effect, GROUPS),
        contained=_containment(groups, table, projected, trace, leading),
        arrays={
            "evolution": delta,
            "evolution-stderr": evolution.stderr(),
            "label-difference": difference.matrix(),
            "label-difference-stderr": difference.stderr(),
        },
    )


def _containment(
    groups: list[Tensor], table: Tensor, projected: Projected, trace: float, leading: int | None
) -> Contained:
    """P on the k leading eigenvectors of G S G, for k = 1, 2, 4, ... and the requested k."""
    # In the basis of G S G a leading subspace is a corner.
    eigenvalues, vectors = descending_eigh(projected.matrix())
    size = len(eigenvalues)
    # A requested dimension has no error.
    chosen_stderr = None
    if leading is None:
        chosen = _leading(eigenvalues)
        chosen_stderr = _leading_stderr(projected)
    else:
        chosen = min(size, leading)
    turned = [vectors @ group @ vectors.T for group in groups]
    doublings = int(math.log2(size))
    powers = {2**power for power in range(doublings + 1)}
    ranks = sorted(powers | {chosen, size})
    norm = distinct_mean(table, range(GROUPS))
    shares = [containment(turned, table, rank) for rank in ranks]
    nulls = [containment_null(trace, norm, size, rank) for rank in ranks]
    return Contained(
        dimensions=ranks, shares=shares, nulls=nulls, chosen=chosen, chosen_stderr=chosen_stderr
    )


def _leading(eigenvalues: Tensor) -> int:
    """How many leading eigenvalues, descending, have the share CONTAINED of their sum."""
    shares = eigenvalues.clamp(min=0).cpu().cumsum(0)
    enough = CONTAINED * shares[-1]
    below = (shares < enough).sum()
    return int(below) + 1


def _leading_stderr(projected: Projected) -> float:
    """The standard error of that number, by the jackknife over groups of G, and its rounding."""
    # Leaving out a group of G may move the dimension.
    everything = range(projected.count)
    dimensions = []
    for group in everything:
        others = [number for number in everything if number != group]
        eigenvalues = torch.linalg.eigvalsh(projected.matrix(others))
        dimensions.append(_leading(eigenvalues.flip(0)))
    # A whole number is known up to its rounding.
    stderr = statistics.jackknife(dimensions)
    assert stderr is not None  # there are several groups
    return math.hypot(stderr, ROUNDING)


def tables_of(rows: list[Row], sweep: Sequence[int]) -> dict[str, penchant.Table]:
    """Correlations at every width or step, and the containment of the last one."""
    contained = rows[-1].contained
    dimensions = {"dimension": contained.dimensions}
    tables = {"containment": _table(contained.shares, dimensions, null=contained.nulls)}
    for name, corr, null in (
        ("corr-s", "corr_s", "corr_s_null"),
        ("corr-gsg", "corr_gsg", "corr_gsg_null"),
    ):
        nulls = [getattr(row, null) for row in rows]
        tables[name] = _table(
            [getattr(row, corr) for row in rows],
            {"sweep": sweep},
            null=[each.null for each in nulls],
            null_spread=[each.null_spread for each in nulls],
        )
    return tables


def _table(corrs: list[Corr], axes: Mapping[str, Sequence[int]], **nulls: Any) -> penchant.Table:
    stderr = [corr.stderr for corr in corrs]
    return penchant.Table(
        [corr.value for corr in corrs], axes, stderr=stderr, df=GROUPS - 1, over=OVER, **nulls
    )


def quantities_of(row: Row, options: GeometryEvolution) -> dict[str, penchant.Quantity]:
    """Numbers of one Delta, each with its null."""

    def quantity(corr: Corr, **null: Any) -> penchant.Quantity:
        return penchant.Quantity(
            corr.value, stderr=corr.stderr, over=OVER, count=options.networks, df=GROUPS - 1, **null
        )

    # The requested dimension, among all that were measured.
    contained = row.contained
    position = contained.dimensions.index(contained.chosen)
    containment_quantity = quantity(contained.shares[position], null=contained.nulls[position])
    # The whole space contains everything, whatever rounding says.
    if contained.chosen == contained.dimensions[-1] and not containment_quantity.missing:
        containment_quantity = penchant.Quantity(1.0, null=1.0, exact=True)
    return {
        "corr-s": quantity(row.corr_s, **row.corr_s_null._asdict()),
        "corr-gsg": quantity(row.corr_gsg, **row.corr_gsg_null._asdict()),
        "containment": containment_quantity,
        "leading": penchant.Quantity(
            contained.chosen,
            stderr=contained.chosen_stderr,
            over="" if contained.chosen_stderr is None else OVER,
            df=None if contained.chosen_stderr is None else GROUPS - 1,
            exact=options.leading is not None,
        ),
        "label-effect": quantity(row.label_effect, null=0.0),
    }
