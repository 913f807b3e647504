"""Figures of the probe `noise-on-manifold`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, GREEN, GREY, ORANGE, captioned

from penchant_spectral_bias.shared.bands import curve, stderr_of

LINES = {
    "manifold-loss": ("reconstructed images", BLUE, "-"),
    "plane-loss": ("plane, length and spread of the images", GREEN, "-"),
    "normal-loss": ("normal, mean and covariance of the images", GREY, "-"),
    "unscaled-plane-loss": ("plane as in the paper", ORANGE, "--"),
}


def headline(result: penchant.Result) -> str | None:
    """One sentence, chosen by the numbers."""
    quantity = result.quantities.get("manifold-minus-plane")
    if quantity is None or quantity.missing:
        return None
    return quantity.sentence(
        above="Noise is harder to learn on the images than on a plane with the same norm and "
        "variance",
        below="Noise is easier to learn on the images than on a plane with the same norm and "
        "variance",
        neither="No significant difference between the images and a plane with the same norm "
        "and spread",
    )


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
    variance = result.quantities["manifold-loss"].null
    assert variance is not None  # the probe gives it
    axes.axhline(variance, color=FAINT, linestyle=":", label="variance of the targets")
    axes.legend()
    caption = result.quantities["manifold-minus-plane"].sentence(
        above="Noise is harder on the images than on a plane with the same norm and variance",
        below="Noise is easier on the images than on a plane with the same norm and variance",
        neither="No significant difference of images and a plane with the same norm and variance",
    )
    return {"loss": captioned(figure, caption, title="Learning white noise on two manifolds")}
