"""Figures of the probe `kernel-spectrum`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, captioned, heat_map, palette
from penchant_numerics.pictures.curves import curves

from penchant_spectral_bias.shared.bands import curve

BLACK = "#222222"


def draw(result: penchant.Result) -> dict[str, Figure]:
    """What is learnt by eigenvector and step, spectra, losses, and eigenvectors on a grid."""
    return {
        "learnt": _learnt(result),
        "coefficients": _coefficients(result),
        "losses": _losses(result),
        "grid-spectrum": _grid_spectrum(result),
        "grid-eigenvectors": _extremes(result),
    }


def _learnt(result: penchant.Result) -> Figure:
    figure = heat_map(
        result.arrays["learnt-target"],
        columns=np.round(result.arrays["eigenvectors"]),
        rows=result.arrays["steps"],
        xlabel="eigenvector",
        ylabel="step",
        label="learnt share of the target",
        limits=(0, 1),
    )
    caption = result.quantities["rank-correlation"].sentence(
        above="Early eigenvectors are learnt first, more so than in a random basis",
        below="Early eigenvectors are learnt first less than in a random basis",
        neither="Eigenvectors show no other order than a random basis",
    )
    return captioned(figure, caption, title="What is learnt, by eigenvector of the kernel")


def _coefficients(result: penchant.Result) -> Figure:
    """Spectra at a few steps between the clean and the noisy target's."""
    coefficients = result.tables["coefficients"]
    figure = Figure(figsize=(7.0, 3.9))
    axes = figure.subplots()
    axes.set(xlabel="eigenvector", ylabel="coefficient (rms in a bin)", yscale="log")
    # the network at a few steps, from its start to its end
    steps = coefficients.coordinates("step")
    spread = np.linspace(0, len(steps) - 1, 5)
    chosen = steps[np.unique(spread.astype(int))]
    for step, colour in zip(chosen, palette(len(chosen), ordered=True)):
        table = coefficients.at(step=int(step))
        positions = table.coordinates("eigenvector")
        curve(axes, positions, table.values, table.error, colour=colour, label=f"step {step}")

    # both targets in black
    for name, style in (("clean", "--"), ("noisy", ":")):
        target = result.tables[f"{name}-coefficients"].values
        axes.plot(positions, target, style, color=BLACK, label=f"{name} target")
    figure.legend(loc="outside right upper")
    caption = "The network's spectrum at some steps, and those of clean and noisy target."
    return captioned(figure, caption, title="Spectrum in the kernel's eigenvectors")


def _losses(result: penchant.Result) -> Figure:
    # each on the targets of its own
    losses = {
        "clean target (validation)": result.tables["validation-loss"],
        "noisy target (training)": result.tables["training-loss"],
    }
    figure = curves(losses, x="step", y="mean squared error", yscale="log")
    dip = result.quantities["dip"]
    step = result.quantities["dip-step"]
    caption = f"Validation is smallest at step {step}; the end is above it by {dip}."
    return captioned(figure, caption, title="Losses over training")


def _grid_spectrum(result: penchant.Result) -> Figure:
    """Spectrum of every eigenvector on equidistant points: the n-th has about n / 2 periods."""
    values = result.arrays["grid-spectrum"]
    figure = heat_map(
        values,
        columns=range(values.shape[1]),
        rows=range(1, len(values) + 1),
        xlabel="frequency (cycles)",
        ylabel="eigenvector n",
        label="|DFT| / sqrt(N)",
    )
    slope = result.quantities["grid-slope"]
    caption = f"Cycles of an eigenvector by its number, slope: {slope}."
    return captioned(figure, caption, title="Eigenvectors on equidistant points")


def _extremes(result: penchant.Result) -> Figure:
    """The first and the last eigenvector on equidistant points."""
    vectors = result.arrays["grid-eigenvectors"]
    count, points = vectors.shape
    positions = np.linspace(0, 1, points)
    figure = Figure(figsize=(9.0, 3.3))
    panels = figure.subplots(1, 2, sharey=True)
    last = count - 1
    for panel, number in zip(panels, (0, last)):
        panel.plot(positions, vectors[number], ".-", color=BLUE)
        panel.set(xlabel="position", title=f"n = {number + 1}")
    panels[0].set_ylabel("value")
    caption = "Eigenvectors of the largest (left) and of the smallest eigenvalue (right)."
    return captioned(figure, caption, title="Two extreme eigenvectors")
