"""The probe `nad`: which directions an architecture prefers, and how strongly."""

from __future__ import annotations

import penchant
import torch
from penchant_numerics.answers import Directions
from penchant_numerics.moments import effective_rank, isotropic_spectra
from penchant_numerics.statistics import jackknife, null_of
from torch import Tensor

from penchant_nad.declarations.directions import Nad
from penchant_nad.numerics import participation


def run(options: Nad, context: penchant.Context) -> penchant.Result:
    """Measure the directions with the chosen estimator."""
    found: Directions = context.estimator("directions")(networks=options.networks)
    _warn_of_few_networks(found, context)
    arrays = {
        "eigenvalues": participation.without_rounding(found.eigenvalues),
        "directions": found.vectors,
    }
    left_out = left_out_spectra(found)
    if left_out is not None:
        arrays["eigenvalues-stderr"] = jackknife(left_out)
    if found.residuals is not None:
        arrays["residuals"] = found.residuals

    null = _null(found, context)
    if null is not None:
        arrays["null-edges"] = torch.stack([null[:, -1].mean(), null[:, 0].mean()])
        arrays["null-eigenvalues"] = null.mean(0)
        arrays["null-eigenvalues-spread"] = null.std(0)
    if options.keep_matrix:
        arrays["second-moment"] = _matrix(found)
    return penchant.Result(_quantities(found, left_out, null), arrays)


def _warn_of_few_networks(found: Directions, context: penchant.Context) -> None:
    """With one vector a network there are as many directions as networks."""
    size = found.vectors.shape[1]
    if found.networks < size and found.squared_norms is not None:
        kept = len(found.eigenvalues)
        counts = f"{found.networks} networks for {size} inputs"
        context.warn(f"{counts}: only the first {kept} directions mean anything")


def _matrix(found: Directions) -> Tensor:
    if found.matrix is None:
        raise penchant.Error(
            "keep_matrix needs an estimator that has the whole matrix, found leading pairs only"
        )
    return found.matrix


def left_out_spectra(found: Directions) -> Tensor | None:
    """Eigenvalues (parts, k) with one part of the networks left out, where the answer allows it."""
    if found.jackknife is not None or found.parts is None or len(found.parts) < 2:
        return found.jackknife
    total = found.parts.sum(0)
    spectra = []
    for part in found.parts:
        others = (total - part) / (len(found.parts) - 1)
        values = torch.linalg.eigvalsh(others).flip(0)
        spectra.append(values[: len(found.eigenvalues)])
    return torch.stack(spectra)


def _null(found: Directions, context: penchant.Context) -> Tensor | None:
    """Spectra (draws, k) of isotropic architectures with the same norms.

    There are none without one vector a network.
    """
    if found.squared_norms is None:
        return None
    size = found.vectors.shape[1]
    generator = context.generator("null")
    spectra = isotropic_spectra(found.squared_norms, size, generator=generator)
    return spectra[:, : len(found.eigenvalues)]


def _quantities(
    found: Directions, left_out: Tensor | None, null: Tensor | None
) -> dict[str, penchant.Quantity]:
    trace = penchant.Quantity(
        found.trace,
        stderr=found.trace_stderr,
        over="networks",
        count=found.networks,
    )
    if found.residuals is not None:  # a few pairs say nothing about the whole spectrum
        return {"trace": trace}

    known = {}
    if left_out is not None:
        known = {"over": "networks (jackknife over parts)", "count": found.networks}
    rank = penchant.Quantity(
        effective_rank(found.eigenvalues),
        stderr=None if left_out is None else jackknife([effective_rank(each) for each in left_out]),
        **known,
        **({} if null is None else null_of([effective_rank(each) for each in null])),
    )
    count = penchant.Quantity(
        participation.directions_90(found.eigenvalues),
        stderr=None if left_out is None else participation.place_stderr(left_out),
        **known,
        **({} if null is None else participation.place_null(null)),
    )
    return {"trace": trace, "effective-rank": rank, "directions-90": count}
