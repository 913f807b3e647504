"""Paired samples made fit for estimation: checked, flattened, scaled.

Information does not change under any of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from penchant_numerics import Refusal
from torch import Tensor

NEIGHBOURS_OF = 2048  # samples used to search for a deterministic map
HEAVY = 5.0  # excess kurtosis of a column with heavy tails; that of a normal one is 0


@dataclass(frozen=True)
class Pairs:
    """x (samples, size) and z (samples, size), scaled to mean 0 and variance 1.

    Constant columns are 0 and keep their position.
    """

    x: Tensor
    z: Tensor
    warnings: tuple[str, ...]
    conventions: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Is one of them constant, so that the information is 0?"""
        both_vary = self.x.any() and self.z.any()
        return not both_vary


def prepare(x: Tensor, z: Tensor, *, scaling: str | None = "standard", at_least: int = 2) -> Pairs:
    """Refuse what is no sample of pairs, and scale the rest.

    Args:
        x: Samples (pairs, ...) of the first variable.
        z: Samples (pairs, ...) of the second.
        scaling: Every column by itself (`standard`), all columns by one number (`whole`, for
            pixels), or replaced by normal scores (`rank`). None: `rank` for a variable with heavy
            tails, else `standard`.
        at_least: Fewest pairs that are taken.

    Returns:
        The pairs, with warnings and with a convention where None chose `rank`.
    """
    # Rows are pairs, whatever the shape of a sample.
    x, z = _flat(x), _flat(z)
    if len(x) != len(z):
        raise Refusal(f"x has {len(x)} samples and z has {len(z)}, expected pairs")
    if len(x) < at_least:
        raise Refusal(f"expected at least {at_least} pairs, found {len(x)}")
    warnings: list[str] = []
    conventions: dict[str, str] = {}
    ready = []
    for name, values in (("x", x), ("z", z)):
        values = values if values.is_floating_point() else values.to(torch.float32)
        if bad := int((~torch.isfinite(values)).sum()):
            raise Refusal(f"{name} has {bad} of {values.numel()} values that are not finite")
        # Heavy tails give a network few samples that matter, and these far away.
        heavy = scaling != "rank" and has_heavy_tails(values)
        if heavy and scaling is None:
            conventions[f"scaling of {name}"] = "normal scores, because its tails are heavy"
        elif heavy:
            warnings.append(f"{name} has heavy tails: scaling = rank may give much more")
        chosen = scaling or ("rank" if heavy else "standard")
        scaled, constant = _scaled(values, chosen)
        if constant:
            warnings.append(
                f"{constant} of {values.shape[1]} columns of {name} are constant and carry no "
                "information"
            )
        ready.append(scaled)
    return Pairs(ready[0], ready[1], tuple(warnings), conventions)


def _flat(values: Tensor) -> Tensor:
    # A number by itself is one sample.
    if not values.ndim:
        return values.reshape(1, 1)
    return values.reshape(len(values), -1)


def _scaled(values: Tensor, scaling: str) -> tuple[Tensor, int]:
    exact = values.to(torch.float64)
    # A column that varies by rounding only is constant.
    rounding = 1e-12 * exact.abs().amax(0)
    varies = exact.std(0) > rounding
    centred = torch.where(varies, exact - exact.mean(0), 0.0)
    if scaling == "rank":
        centred[:, varies] = normal_scores(centred[:, varies])
    spread = centred.std(0)
    if scaling == "whole":
        scale = spread.square().mean().sqrt()
    else:
        scale = torch.where(varies, spread, 1.0)
    scaled = centred / torch.where(scale > 0, scale, 1.0)
    constant = (~varies).sum()
    return scaled.to(values.dtype), int(constant)


def normal_scores(values: Tensor) -> Tensor:
    """Every column's ranks (equal values: their mean rank) as quantiles of a standard normal.

    On the host: CUDA has no deterministic kernel for sums along a column.
    """
    columns = []
    for column in values.cpu().T:
        _, inverse, counts = torch.unique(column, return_inverse=True, return_counts=True)
        counts = counts.to(values.dtype)
        # Equal values share their mean rank, so that nothing is made up.
        mean_rank = counts.cumsum(0) - (counts - 1) / 2  # from 1
        columns.append(torch.special.ndtri((mean_rank[inverse] - 0.5) / len(column)))
    return torch.stack(columns, 1).to(values.device) if columns else values


def has_heavy_tails(values: Tensor) -> bool:
    """Has a continuous column (most of its values differ) much more kurtosis than a normal one?"""
    exact = values.to(torch.float64)
    standard = (exact - exact.mean(0)) / exact.std(0)
    # Kurtosis beyond that of a normal column; not a number for constant ones.
    excess = standard.pow(4).mean(0) - 3
    for column in torch.nonzero(excess > HEAVY)[:, 0]:
        different = torch.unique(exact[:, column])
        if len(different) > len(exact) / 2:
            return True
    return False


def is_discrete(values: Tensor) -> bool:
    """Do few different rows make up all samples?"""
    some = values[:NEIGHBOURS_OF]
    different = torch.unique(some, dim=0)
    return len(different) < 0.5 * len(some)


def seems_deterministic(x: Tensor, z: Tensor) -> bool:
    """Does z look like a continuous function of x? Its information would be infinite.

    Either a linear map leaves less than a millionth of the variance; or the difference of z between
    neighbours in x is small and goes on falling as samples become dense, where noise would hold it
    up. Many dimensions hide non-linear maps.
    """
    if is_discrete(z) or len(x) < 16:
        return False
    x = x[:NEIGHBOURS_OF].to(torch.float64)
    z = z[:NEIGHBOURS_OF].to(torch.float64)
    # A linear map with as many parameters as samples would fit anything.
    columns = x.shape[1] + 1
    if columns < len(x) // 2 and _linear_rest(x, z) < 1e-6:
        return True
    # With a quarter of the samples neighbours are farther apart.
    dense = _neighbour_difference(x, z)
    sparse = _neighbour_difference(x[::4], z[::4])
    falling = dense < 0.6 * sparse
    return dense < 0.1 and falling


def _linear_rest(x: Tensor, z: Tensor) -> float:
    """Share of z that no linear map of x gives.

    On the host: CUDA has no driver for columns that depend on each other, such as constant ones.
    """
    x, z = x.cpu(), z.cpu()
    ones = torch.ones_like(x[:, :1])
    with_one = torch.cat([x, ones], 1)
    solution = torch.linalg.lstsq(with_one, z, driver="gelsd")
    residual = z - with_one @ solution.solution
    left_over = residual.square().sum()
    whole = z.square().sum()
    return float(left_over / whole)


def _neighbour_difference(x: Tensor, z: Tensor) -> float:
    """Mean squared difference of z between nearest neighbours in x.

    In units of that between any two samples.
    """
    distances = torch.cdist(x, x)
    distances.fill_diagonal_(torch.inf)
    nearest = distances.argmin(1)
    differences = z - z[nearest]
    centred = z - z.mean(0)
    between = differences.square().sum()
    any_two = 2 * centred.square().sum()
    return float(between / any_two)
