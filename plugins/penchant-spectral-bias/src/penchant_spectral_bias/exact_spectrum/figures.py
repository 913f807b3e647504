"""Figures of the probe `exact-spectrum`."""

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, captioned, log_ticks
from penchant_numerics.pictures.curves import curves

from penchant_spectral_bias.shared.bands import curve


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Spectra with the powers of the theory, on the segment and in the plane; the share."""
    figures = {"segment": _segment(result)}
    if "generic-amplitude" in result.tables:
        figures["plane"] = _plane(result)
    if "share" in result.tables:
        figures["share"] = _share(result)
    return figures


def _segment(result: penchant.Result) -> Figure:
    """Spectrum, gradient and rate of learning along the segment."""
    figure = Figure(figsize=(6.5, 4.2))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="frequency (cycles on the segment)", ylabel="size")
    tables = result.tables
    _with_power(axes, tables["amplitude"], -2, BLUE, "spectrum")

    # gradients were taken at fewer frequencies, or not at all
    if "gradient-norm" in tables:
        _with_power(axes, tables["gradient-norm"], -1, ORANGE, "parameter gradient")
        _with_power(axes, tables["learning-rate"], -1, GREEN, "rate of learning")
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
    tables = result.tables
    _with_power(axes, tables["generic-amplitude"], -3, BLUE, "generic direction")
    _with_power(axes, tables["face-amplitude"], -2, ORANGE, "normal of a face")
    log_ticks(axes)
    figure.legend(loc="outside right upper")
    generic = result.quantities["generic-decay"]
    face = result.quantities["face-decay"]
    caption = f"Fitted exponents: {generic} in a generic direction, {face} along a face's normal."
    return captioned(figure, caption, title="Theorem 3.3: two decays in the plane")


def _with_power(axes: Axes, spectrum: penchant.Table, power: int, colour: str, label: str) -> None:
    """A spectrum and, dashed through its middle, the power that the theory gives."""
    (axis,) = spectrum.axes
    positions, values = spectrum.coordinates(axis), spectrum.values
    curve(axes, positions, values, spectrum.error, colour=colour, label=label)
    # at a middle frequency both agree, so that slopes can be compared
    middle = len(positions) // 2
    ratio = positions / positions[middle]
    line = values[middle] * ratio ** float(power)
    axes.plot(positions, line, "--", color=colour, linewidth=0.9, label=f"k^{power}")


def _share(result: penchant.Result) -> Figure:
    """The share of high-frequency parameters by cut-off."""
    figure = curves(
        result.tables["share"],
        x="frequency",
        y="share of parameters above epsilon",
        xlabel="cut-off (cycles)",
        xscale="log",
    )
    figure.axes[0].set_ylim(-0.03, 1.05)
    caption = "Parameters of a box with an amplitude above epsilon at the cut-off or beyond."
    return captioned(figure, caption, title="High-frequency parameters")
