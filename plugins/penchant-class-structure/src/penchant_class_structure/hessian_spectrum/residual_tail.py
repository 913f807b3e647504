"""The tail of E = Hess - G: its log density by sign, and the power law through it."""

import math
from dataclasses import replace
from typing import Any

import penchant
import torch
from penchant_numerics.linear_algebra import Density, Quadrature, log_density
from torch import Tensor

from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum
from penchant_class_structure.hessian_spectrum.power_law import (
    DECADES,
    FEWEST,
    PowerLaw,
    line_errors,
    power_law,
    resolved_from,
    semicircle_slope,
)

LOW = 0.01  # the power law is fitted from this share of the largest |eigenvalue| of E ...
HIGH = 0.5  # ... to this one
TAIL = ("tail-exponent", "tail-fit", "tail-fit-exponential")  # in the order of `LineErrors`


def residual_tail(
    measure: Quadrature, split: str, options: HessianSpectrum, context: penchant.Context
) -> tuple[dict[str, penchant.Quantity], dict[str, Any]]:
    """Quantities and arrays of the tail; without enough of it numbers are missing.

    Args:
        measure: The spectrum of E.
        split: Of which samples, for warnings and conventions.
        options: The probe's.
        context: Where warnings and conventions go.
    """
    density = _density(measure, options)
    arrays: dict[str, Any] = {"log-grid": density.grid, "log-density-residual": density.density}
    if density.stderr is not None:
        arrays["log-density-residual-stderr"] = density.stderr

    # their symmetry is what figure 16 shows
    for name, sign in (("positive", 1), ("negative", -1)):
        half = _density(_of_sign(measure, sign), options, density.grid)
        arrays[f"log-density-{name}"] = half.density

    line = power_law(measure, low=LOW, high=HIGH)
    quantities = None if line is None else _quantities(measure, line, options)
    if line is None or quantities is None:
        hint = "; more lanczos_steps resolve more of it" if resolved_from(measure) else ""
        context.warn(
            f"no power law is fitted to the tail of E ({split} samples): it needs {FEWEST} bins "
            f"with eigenvalues over {DECADES:g} decade{hint}"
        )
        missing = penchant.Quantity(math.nan, exact=True)
        return dict.fromkeys(TAIL, missing), arrays
    _say_window(line, split, context)
    arrays["tail-line"] = torch.tensor(
        [line.slope, line.intercept], device="cpu", dtype=torch.float64
    )
    arrays["tail-window"] = torch.tensor([line.low, line.high], device="cpu", dtype=torch.float64)
    arrays["tail-grid"] = line.positions
    arrays["tail-density"] = line.density
    return quantities, arrays


def _say_window(line: PowerLaw, split: str, context: penchant.Context) -> None:
    """Record where the line was fitted, and warn where an exponential fits better."""
    decades = math.log10(line.high / line.low)
    context.conventions[f"tail ({split})"] = (
        f"{len(line.positions)} bins from {line.low:.3g} to {line.high:.3g}, {decades:.1f} decades"
    )
    if line.exponential >= line.fit:
        context.warn(
            f"the tail of E ({split} samples) is not a power law: an exponential fits the same "
            f"bins better, with R squared {line.exponential:.3f} against {line.fit:.3f}; "
            "tail-exponent is only the slope in this window"
        )


def _density(measure: Quadrature, options: HessianSpectrum, grid: Tensor | None = None) -> Density:
    return log_density(
        measure, epsilon=options.epsilon, points=options.grid_points, kappa=options.kappa, grid=grid
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
) -> dict[str, penchant.Quantity] | None:
    """Slope and fits: exact, or with errors over start vectors and positions of bins."""
    low = max(LOW, resolved_from(measure))
    numbers = {
        "tail-exponent": line.slope,
        "tail-fit": line.fit,
        "tail-fit-exponential": line.exponential,
    }
    # what an ordinary bulk would show in the same window
    null = semicircle_slope(low=low, high=HIGH)
    nulls = {"tail-exponent": null}
    if measure.complete or measure.variant == "exact":
        return {
            name: penchant.Quantity(value, exact=True, null=nulls.get(name))
            for name, value in numbers.items()
        }
    errors = line_errors(measure, low=LOW, high=HIGH)
    if errors is None:
        return None
    return {
        name: penchant.Quantity(
            numbers[name],
            stderr=error,
            over="start vectors and positions of bins",
            count=len(measure.nodes),
            null=nulls.get(name),
        )
        for name, error in zip(TAIL, errors)
    }
