"""Figures of the probe `target-noise`."""

import attrs
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves

CAPTIONS = {
    "validation-loss": "Loss on clean targets of test samples; errors are standard errors.",
    "training-loss": "Loss on the noisy targets of training; errors are standard errors.",
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Losses by amplitude and by frequency of the noise, and the best validation of each."""
    figures = {"best": _best(result)}
    for name in CAPTIONS:
        figures[f"{name}-by-amplitude"] = _losses(result, name, panels="amplitude")
        figures[f"{name}-by-frequency"] = _losses(result, name, panels="frequency")
    return figures


def _losses(result: penchant.Result, name: str, *, panels: str) -> Figure:
    """Loss over training: a panel for each value of one axis, as in figures 3.4 a and b."""
    loss = name.replace("-", " ")
    figure = curves(
        result.tables[name],
        x="step",
        y=f"{loss} (mean squared error)",
        yscale="log",
        panels=panels,
        level=result.tables[f"clean-{name}"],
        level_label="no noise",
    )
    title = f"{loss.capitalize()}, by {panels} of the noise"
    return captioned(figure, CAPTIONS[name], title=title)


def _best(result: penchant.Result) -> Figure:
    """The best validation loss by frequency, beside the same noise permuted among samples."""
    permuted = result.tables["shuffled-best-loss"]
    figure = curves(
        attrs.evolve(result.tables["best-loss"], null=permuted.values),
        x="frequency",
        y="best validation loss",
        xlabel="frequency of the noise (cycles per unit)",
        level=result.quantities["clean-best-loss"].value,
        level_label="no noise",
    )
    caption = result.quantities["low-minus-high"].sentence(
        above="Low-frequency noise hurts more than high-frequency noise (dashed: permuted noise)",
        below="High-frequency noise hurts more than low-frequency noise (dashed: permuted noise)",
        neither="No significant difference of low- and high-frequency noise (dashed: permuted "
        "noise)",
    )
    return captioned(figure, caption, title="Best validation loss by noise frequency")
