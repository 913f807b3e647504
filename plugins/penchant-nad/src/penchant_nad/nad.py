"""The probe `nad`: which directions an architecture prefers, and how strongly."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.moments import Directions, effective_rank, isotropic_spectra


def run(options: Any, context: Any) -> penchant.Result:
    """Measure the directions with the chosen estimator."""
    found: Directions = context.estimator("directions")(networks=options.samples)
    for warning in found.warnings:
        context.warn(warning)
    size = found.vectors.shape[1]
    if found.samples < size and found.squared_norms is not None:
        context.warn(
            f"{found.samples} networks for {size} inputs: only the first {len(found.eigenvalues)} directions mean anything"
        )
    arrays = {"eigenvalues": found.eigenvalues, "directions": found.vectors}
    if found.jackknife is not None:
        arrays["eigenvalues-stderr"] = jackknife_spread(found.jackknife)
    if found.residuals is not None:
        arrays["residuals"] = found.residuals
    null = _null(found, context)
    if null is not None:
        arrays["null-edges"] = torch.stack([null[:, -1].mean(), null[:, 0].mean()])
    if options.keep_matrix:
        if found.matrix is None:
            raise penchant.Error(
                "keep_matrix needs an estimator that has the whole matrix, found leading pairs only"
            )
        arrays["second-moment"] = found.matrix
    return penchant.Result(_quantities(found, null), arrays, conventions=dict(found.conventions))


def _null(found: Directions, context: Any) -> torch.Tensor | None:
    """Spectra (draws, k) of isotropic architectures with the same norms; none without one vector a network."""
    if found.squared_norms is None:
        return None
    size = found.vectors.shape[1]
    return isotropic_spectra(found.squared_norms, size, generator=context.generator("null"))[
        :, : len(found.eigenvalues)
    ]


def _quantities(found: Directions, null: torch.Tensor | None) -> dict[str, penchant.Quantity]:
    trace = penchant.Quantity(
        found.trace, stderr=found.trace_stderr, over="networks", count=found.samples
    )
    quantities = {"trace": trace}
    if found.residuals is not None:  # a few pairs say nothing about the whole spectrum
        return quantities
    for name, statistic in (("effective-rank", effective_rank), ("directions-90", directions_90)):
        nothing = (
            {} if null is None else _mean_and_spread([statistic(spectrum) for spectrum in null])
        )
        stderr = (
            None
            if found.jackknife is None
            else jackknife_stderr([statistic(spectrum) for spectrum in found.jackknife])
        )
        over = "" if stderr is None else "networks (jackknife over groups)"
        count = None if stderr is None else found.samples
        quantities[name] = penchant.Quantity(
            statistic(found.eigenvalues), stderr=stderr, over=over, count=count, **nothing
        )
    return quantities


def directions_90(eigenvalues: torch.Tensor) -> float:
    """How many leading eigenvalues carry 90 % of their sum."""
    shares = eigenvalues.clamp(min=0).cumsum(0)
    return float((shares < 0.9 * shares[-1]).sum() + 1)


def _mean_and_spread(values: list[float]) -> dict[str, float]:
    numbers = torch.tensor(values, dtype=torch.float64, device="cpu")
    return {"null": float(numbers.mean()), "null_stderr": float(numbers.std())}


def jackknife_stderr(values: list[float]) -> float:
    """Standard error from a statistic with one group of networks left out at a time."""
    return float(jackknife_spread(torch.tensor(values, dtype=torch.float64, device="cpu")))


def jackknife_spread(values: torch.Tensor) -> torch.Tensor:
    """The same for many statistics at once: (groups, ...) -> (...)."""
    return ((len(values) - 1) / len(values) * (values - values.mean(0)).square().sum(0)).sqrt()


def plot(result: penchant.Result) -> dict[str, Any]:
    """NADs in pixels and in Fourier, and the spectrum with the null's edges."""
    from penchant_nad import figures

    drawn = {"eigenvalues": figures.spectrum(result)}
    if (side := math.isqrt(result.arrays["directions"].shape[1])) ** 2 == result.arrays[
        "directions"
    ].shape[1] and side > 1:
        drawn["directions"] = figures.directions(result, side)
        if len(result.arrays["directions"]) >= figures.MANY:
            drawn["directions-further"] = figures.further_directions(result, side)
    return drawn
