"""The probe `nad-agreement`: do two estimators of the role `directions` find the same ones?

Each has networks of its own, in groups: products of moments from different groups are unbiased, where the plain norm of a sampled second
moment is too large; leaving a group out tells the standard errors.
"""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.moments import Directions, descending_eigh
from torch import Tensor

from penchant_nad.nad import jackknife_spread
from penchant_nad.views import view


def run(options: Any, context: Any) -> penchant.Result:
    """Estimate both moments group by group and compare them."""
    estimators = context.estimators("directions")
    if len(estimators) != 2:
        raise penchant.Error(
            f"nad-agreement compares two estimators of the role directions, found {len(estimators)}"
        )
    size = math.prod(context.architecture.shape)
    count = math.ceil(options.samples / options.groups)
    moments, vectors_a_network = [], False
    for number in range(len(estimators)):
        groups = [
            _moment(context, options, number, group, count) for group in range(options.groups)
        ]
        moments.append(torch.stack([each.matrix for each in groups]))  # (groups, D, D)
        vectors_a_network = vectors_a_network or any(
            each.squared_norms is not None for each in groups
        )
    rank = min(size, count * options.groups) if vectors_a_network else size
    if rank < size:
        context.warn(
            f"{count * options.groups} networks for {size} inputs: only the first {rank} directions mean anything"
        )
    return _compared(moments, rank, [each.name for each in estimators], context.conventions)


def _moment(context: Any, options: Any, number: int, group: int, count: int) -> Directions:
    """The moment of one estimator over one group: networks that no other group of either estimator has."""
    other = view(context, first=(number * options.groups + group) * count)
    found: Directions = other.estimators("directions")[number](networks=count)
    if found.matrix is None:
        raise penchant.Error(
            "nad-agreement needs estimators that give the whole matrix, found leading pairs only"
        )
    context.conventions.update(
        {f"estimator {number}: {name}": text for name, text in found.conventions.items()}
    )
    return found


def _compared(
    moments: list[Tensor], rank: int, names: list[str], conventions: dict[str, str]
) -> penchant.Result:
    groups, size = len(moments[0]), moments[0].shape[-1]
    spectra = [descending_eigh(each.mean(0)) for each in moments]
    curve = overlap(spectra[0][1], spectra[1][1])[:rank]
    left_out = [[_without(each, group) for each in moments] for group in range(groups)]
    curves = torch.stack(
        [overlap(*(descending_eigh(each.mean(0))[1] for each in pair))[:rank] for pair in left_out]
    )
    spread = float(jackknife_spread(torch.stack([corr(*pair) for pair in left_out])))
    networks = {"over": "networks (jackknife over groups)", "count": groups}
    quantities = {
        "corr": penchant.Quantity(
            float(corr(*moments)), stderr=spread, null=float(rotated_corr(*moments)), **networks
        ),
        "mean-overlap": penchant.Quantity(
            float(curve.mean()),
            stderr=float(jackknife_spread(curves.mean(1))),
            null=float((rank + 1) / (2 * size)),
            **networks,
        ),
    }
    arrays = {
        "overlap": curve,
        "overlap-stderr": jackknife_spread(curves),
        "overlap-null": torch.arange(1, rank + 1, device="cpu", dtype=torch.float64) / size,
        "eigenvalues": torch.stack([values for values, _ in spectra]),
    }
    compared = {
        "estimators": " and ".join(names),
        "networks": "each estimator and group has its own",
    }
    return penchant.Result(quantities, arrays, conventions={**conventions, **compared})


def _without(moments: Tensor, group: int) -> Tensor:
    return torch.cat([moments[:group], moments[group + 1 :]])


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """|U_k V_k^T|^2 / k of the first k rows of two orthonormal bases, for every k: 1 for equal spaces, k/D for random ones."""
    squares = (first @ second.T).square().cumsum(0).cumsum(1).diagonal()
    return squares / torch.arange(1, len(squares) + 1, device=squares.device, dtype=squares.dtype)


def corr(first: Tensor, second: Tensor) -> Tensor:
    """Frobenius cosine of two mean moments (groups, D, D), every product from independent networks."""
    return _inner(first, second) / (_own_square(first) * _own_square(second)).sqrt()


def rotated_corr(first: Tensor, second: Tensor) -> Tensor:
    """The expectation of `corr` after a random rotation of one: tr A tr B / (D |A| |B|)."""
    traces = first.mean(0).trace() * second.mean(0).trace() / first.shape[-1]
    return traces / (_own_square(first) * _own_square(second)).sqrt()


def _inner(first: Tensor, second: Tensor) -> Tensor:
    return (first.mean(0) * second.mean(0)).sum()


def _own_square(groups: Tensor) -> Tensor:
    """|A|^2 without the bias of sampling: the mean of <A_g, A_h> over pairs of different groups."""
    count = len(groups)
    return (count**2 * _inner(groups, groups) - groups.square().sum()) / (count * (count - 1))


def plot(result: penchant.Result) -> dict[str, Any]:
    """Overlap against its null, and both spectra."""
    from penchant_nad.figures import agreement

    return {"agreement": agreement(result)}
