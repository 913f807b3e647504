"""Figures of the probe `exact-spectrum`."""

from __future__ import annotations

from typing import Any

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, captioned, log_ticks

from penchant_spectral_bias.shared.bands import curve, stderr_of


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Spectra with the powers of the theory, on the segment and in the plane; the share."""
    figures = {"segment": _segment(result)}
    if "generic-amplitude" in result.arrays:
        figures["plane"] = _plane(result)
    if "share" in result.arrays:
        figures["share"] = _share(result)
    return figures


def _segment(result: penchant.Result) -> Figure:
    """Spectrum, gradient and rate of learning along the segment."""
    figure = Figure(figsize=(6.5, 4.2))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="frequency (cycles on the segment)", ylabel="size")
    frequencies = result.arrays["frequencies"]
    _with_power(axes, result, "amplitude", frequencies, -2, BLUE, "spectrum")

    # gradients were taken at fewer frequencies, or not at all
    if "gradient-norm" in result.arrays:
        positions = result.arrays["gradient-frequencies"]
        _with_power(axes, result, "gradient-norm", positions, -1, ORANGE, "parameter gradient")
        _with_power(axes, result, "learning-rate", positions, -1, GREEN, "rate of learning")
    log_ticks(axes)
    figure.legend(loc="outside right upper")
    decay = result.quantities["decay"]
    caption = f"Fitted exponent of the spectrum: {decay}; dashed: the powers of the theory."
    return captioned(figure, caption, title="Exact spectrum of fresh networks")


def _plane(result: penchant.Result) -> Figure:
    """Both decays of theorem 3.3."""
    figure = Figure(figsize=(6.5, 4.2))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="|k| (radians per unit)", ylabel="|f~|, rms")
    positions = result.arrays["plane-frequencies"]
    _with_power(axes, result, "generic-amplitude", positions, -3, BLUE, "generic direction")
    _with_power(axes, result, "face-amplitude", positions, -2, ORANGE, "normal of a face")
    log_ticks(axes)
    figure.legend(loc="outside right upper")
    generic = result.quantities["generic-decay"]
    face = result.quantities["face-decay"]
    caption = f"Fitted exponents: {generic} in a generic direction, {face} along a face's normal."
    return captioned(figure, caption, title="Theorem 3.3: two decays in the plane")


def _with_power(
    axes: Axes,
    result: penchant.Result,
    name: str,
    positions: Any,
    power: int,
    colour: str,
    label: str,
) -> None:
    """A spectrum and, dashed through its middle, the power that the theory gives."""
    values = result.arrays[name]
    stderr = stderr_of(result, name)
    curve(axes, positions, values, stderr, colour=colour, label=label)
    # at a middle frequency both agree, so that slopes can be compared
    middle = len(positions) // 2
    ratio = positions / positions[middle]
    line = values[middle] * ratio ** float(power)
    axes.plot(positions, line, "--", color=colour, linewidth=0.9, label=f"k^{power}")


def _share(result: penchant.Result) -> Figure:
    """The share of high-frequency parameters by cut-off."""
    figure = Figure(figsize=(6.0, 3.8))
    axes = figure.subplots()
    axes.set(xscale="log", xlabel="cut-off (cycles)", ylim=(-0.03, 1.05))
    axes.set_ylabel("share of parameters above epsilon")
    share = result.arrays["share"]
    stderr = stderr_of(result, "share")
    frequencies = result.arrays["frequencies"]
    curve(axes, frequencies, share, stderr, colour=BLUE, label="share")
    log_ticks(axes)
    caption = "Parameters of a box with an amplitude above epsilon at the cut-off or beyond."
    return captioned(figure, caption, title="High-frequency parameters")
