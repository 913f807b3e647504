"""The tail of E = Hess - G: its log density, signs apart, and the power law through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import penchant
import torch
from penchant_numerics.spectral_density import Density, Quadrature, log_density
from torch import Tensor

from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum
from penchant_class_structure.numerics.power_law import (
    PowerLaw,
    line_errors,
    power_law,
    resolved_from,
    semicircle_slope,
)


def residual_tail(
    measure: Quadrature, options: HessianSpectrum
) -> tuple[dict[str, penchant.Quantity], dict[str, Any]]:
    """Quantities and arrays of the tail; without enough of it there is no line."""
    density = _density(measure, options)
    arrays: dict[str, Any] = {
        "log-grid": density.grid,
        "log-density-residual": density.density,
    }
    if density.stderr is not None:
        arrays["log-density-residual-stderr"] = density.stderr

    # their symmetry is what figure 16 shows
    for name, sign in (("positive", 1), ("negative", -1)):
        half = _density(_of_sign(measure, sign), options, density.grid)
        arrays[f"log-density-{name}"] = half.density

    # where it is resolved, and with at least three bins
    line = power_law(
        measure,
        low=options.tail_low,
        high=options.tail_high,
    )
    quantities = {} if line is None else _quantities(measure, line, options)
    if not quantities:
        return {}, arrays
    numbers = [line.slope, line.intercept]
    arrays["tail-line"] = torch.tensor(
        numbers,
        device="cpu",
        dtype=torch.float64,
    )
    arrays["tail-grid"] = line.places
    arrays["tail-density"] = line.density
    return quantities, arrays


def _density(measure: Quadrature, options: HessianSpectrum, grid: Tensor | None = None) -> Density:
    return log_density(
        measure,
        epsilon=options.epsilon,
        points=options.grid_points,
        kappa=options.kappa,
        grid=grid,
    )


def _of_sign(measure: Quadrature, sign: int) -> Quadrature:
    """The same nodes, those of the other sign without weight."""
    weights = []
    for nodes, each in zip(measure.nodes, measure.weights):
        of_sign = nodes * sign > 0
        weights.append(each * of_sign)
    return replace(measure, weights=tuple(weights))


def _quantities(
    measure: Quadrature, line: PowerLaw, options: HessianSpectrum
) -> dict[str, penchant.Quantity]:
    """Slope and fit: exact, or with errors over start vectors and places of bins."""
    low = max(options.tail_low, resolved_from(measure))

    # what an ordinary bulk would show in the same window
    null = semicircle_slope(
        low=low,
        high=options.tail_high,
    )
    if measure.complete or measure.variant == "exact":
        return {
            "tail-exponent": penchant.Quantity(
                line.slope,
                exact=True,
                null=null,
            ),
            "tail-fit": penchant.Quantity(line.fit, exact=True),
        }
    errors = line_errors(
        measure,
        low=options.tail_low,
        high=options.tail_high,
    )
    if errors is None:
        return {}
    drawn = {
        "over": "start vectors and places of bins",
        "count": len(measure.nodes),
    }
    return {
        "tail-exponent": penchant.Quantity(
            line.slope,
            stderr=errors.slope,
            null=null,
            **drawn,
        ),
        "tail-fit": penchant.Quantity(
            line.fit,
            stderr=errors.fit,
            **drawn,
        ),
    }
