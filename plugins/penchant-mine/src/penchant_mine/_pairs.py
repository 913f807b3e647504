"""Paired samples made fit for estimation: checked, flattened, scaled. Information does not change under any of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NEIGHBOURS_OF = 2048  # samples that the search for a deterministic map looks at


@dataclass(frozen=True)
class Pairs:
    """x (samples, size) and z (samples, size), scaled to mean 0 and variance 1; constant columns are 0 and keep their place."""

    x: Tensor
    z: Tensor
    warnings: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Is one of them constant, so that the information is 0?"""
        return not (self.x.any() and self.z.any())


def prepare(x: Tensor, z: Tensor, *, scaling: str = "standard", at_least: int = 2) -> Pairs:
    """Refuse what is no sample of pairs, and scale the rest.

    Every column by itself (`standard`), all columns by one number (`whole`, for pixels), or replaced by normal scores (`rank`).
    """
    x, z = (each.reshape(len(each), -1) if each.ndim else each.reshape(1, 1) for each in (x, z))
    if len(x) != len(z):
        raise ValueError(f"x has {len(x)} samples and z has {len(z)}, expected pairs")
    if len(x) < at_least:
        raise ValueError(f"expected at least {at_least} pairs, found {len(x)}")
    warnings = []
    ready = []
    for name, values in (("x", x), ("z", z)):
        values = values if values.is_floating_point() else values.to(torch.float32)
        if bad := int((~torch.isfinite(values)).sum()):
            raise ValueError(f"{name} has {bad} of {values.numel()} values that are not finite")
        scaled, constant = _scaled(values, scaling)
        if constant:
            warnings.append(
                f"{constant} of {values.shape[1]} columns of {name} are constant and carry no information"
            )
        ready.append(scaled)
    return Pairs(ready[0], ready[1], tuple(warnings))


def _scaled(values: Tensor, scaling: str) -> tuple[Tensor, int]:
    exact = values.to(torch.float64)
    varies = exact.std(0) > 1e-12 * exact.abs().amax(0)
    centred = torch.where(varies, exact - exact.mean(0), 0.0)
    if scaling == "rank":
        centred[:, varies] = normal_scores(centred[:, varies])
    spread = centred.std(0)
    scale = (
        spread.square().mean().sqrt() if scaling == "whole" else torch.where(varies, spread, 1.0)
    )
    return (centred / torch.where(scale > 0, scale, 1.0)).to(values.dtype), int((~varies).sum())


def normal_scores(values: Tensor) -> Tensor:
    """Every column's ranks (equal values: their mean rank) as quantiles of a standard normal."""
    columns = []
    for column in values.T:
        _, inverse, counts = torch.unique(column, return_inverse=True, return_counts=True)
        counts = counts.to(values.dtype)
        mean_rank = counts.cumsum(0) - (counts - 1) / 2  # from 1
        columns.append(torch.special.ndtri((mean_rank[inverse] - 0.5) / len(column)))
    return torch.stack(columns, 1) if columns else values


def is_discrete(values: Tensor) -> bool:
    """Do few different rows make up all samples?"""
    return len(torch.unique(values[:NEIGHBOURS_OF], dim=0)) < 0.5 * len(values[:NEIGHBOURS_OF])


def looks_deterministic(x: Tensor, z: Tensor) -> bool:
    """Does z look like a continuous function of x? Its information would be infinite, whatever an estimate says.

    Either a linear map leaves less than a millionth of the variance; or the difference of z between neighbours in x is small
    and goes on falling as samples become dense, where noise would hold it up. Many dimensions hide non-linear maps.
    """
    if is_discrete(z) or len(x) < 16:
        return False
    x, z = x[:NEIGHBOURS_OF].to(torch.float64), z[:NEIGHBOURS_OF].to(torch.float64)
    with_one = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    if with_one.shape[1] < len(x) // 2:
        residual = (
            z
            - with_one
            @ torch.linalg.lstsq(
                with_one, z, driver="gelsd" if z.device.type == "cpu" else None
            ).solution
        )
        if float(residual.square().sum() / z.square().sum()) < 1e-6:
            return True
    dense, sparse = _neighbour_difference(x, z), _neighbour_difference(x[::4], z[::4])
    return dense < 0.1 and dense < 0.6 * sparse


def _neighbour_difference(x: Tensor, z: Tensor) -> float:
    """Mean squared difference of z between nearest neighbours in x, in units of that between any two samples."""
    distances = torch.cdist(x, x)
    distances.fill_diagonal_(torch.inf)
    return float((z - z[distances.argmin(1)]).square().sum() / (2 * (z - z.mean(0)).square().sum()))
