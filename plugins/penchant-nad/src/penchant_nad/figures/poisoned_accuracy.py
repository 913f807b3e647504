"""Figures of the probe `poisoned-accuracy`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import Curve, by_index, captioned

from penchant_nad.figures.errors import known_error


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy on clean images by the carrier's index, beside training on clean images."""
    arrays = result.arrays
    clean = result.quantities["clean-test-accuracy"]
    figure = by_index(
        arrays["carriers"],
        {
            "clean test images": Curve(
                arrays["test-accuracy"], known_error(result, "test-accuracy")
            ),
            "poisoned training images": Curve(
                arrays["train-accuracy"], known_error(result, "train-accuracy")
            ),
        },
        xlabel="index of the carrier",
        ylabel="accuracy",
        level=clean.value,
        level_label="test, trained on clean images",
    )
    axes = figure.axes[0]
    axes.set_ylim(0, 1.05)
    if clean.null is not None:
        axes.axhline(clean.null, color="black", linewidth=0.8, linestyle="--")
        axes.annotate("chance", (1, clean.null), xycoords=("axes fraction", "data"), ha="right")
    caption = (
        "A carrier at a low index hides the images: the network learns the carrier instead, and "
        "fails on clean images."
    )
    title = "Accuracy after training on images with a carrier"
    return {"accuracy": captioned(figure, caption, title=title)}
