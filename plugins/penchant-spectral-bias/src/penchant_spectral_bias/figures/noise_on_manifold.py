"""Figures of the probe `noise-on-manifold`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, GREEN, ORANGE, captioned

from penchant_spectral_bias.figures.bands import curve, stderr_of

LINES = {
    "manifold-loss": ("reconstructed images", BLUE, "-"),
    "plane-loss": ("plane, as long as the images", GREEN, "-"),
    "unscaled-plane-loss": ("plane as in the paper", ORANGE, "--"),
}
VARIANCE = 1 / 12  # of the targets


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Losses over training on all manifolds."""
    figure = Figure(figsize=(6.5, 4.0))
    axes = figure.subplots()
    axes.set(xlabel="step", ylabel="mean squared error", yscale="log")
    steps = result.arrays["steps"]
    for name, (label, colour, style) in LINES.items():
        curve(
            axes,
            steps,
            result.arrays[name],
            stderr_of(result, name),
            colour=colour,
            label=label,
            style=style,
        )
    # what a network that learnt nothing has
    axes.axhline(VARIANCE, color=FAINT, linestyle=":", label="variance of the targets")
    axes.legend()
    difference = result.quantities["manifold-minus-plane"]
    caption = f"Images minus plane, inputs of one length: {difference} at the end."
    return {"loss": captioned(figure, caption, title="Learning white noise on two manifolds")}
