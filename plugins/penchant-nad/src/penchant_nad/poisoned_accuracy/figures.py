"""Figures of the probe `poisoned-accuracy`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy on clean images by the carrier's index, beside training on clean images."""
    tables = result.tables
    clean = result.quantities["clean-test-accuracy"]
    axes = tables["test-accuracy"].axes
    assert clean.stderr is not None  # an accuracy has the error of its samples at least
    # Training on clean images has no index: its accuracy is a line across.
    everywhere = np.ones(len(axes["carrier"]))
    across = penchant.Table(clean.value * everywhere, axes, stderr=clean.stderr * everywhere)
    figure = curves(
        {
            "clean test images": tables["test-accuracy"],
            "poisoned training images": tables["train-accuracy"],
            "test, trained on clean images": across,
        },
        x="carrier",
        y="accuracy",
        xlabel="index of the carrier",
        level=clean.null,
    )
    figure.axes[0].set_ylim(0, 1.05)
    caption = (
        "Accuracy after training on images with a carrier of the class along a NAD, by its index."
    )
    rise = result.quantities.get("rise")
    if rise is not None:
        caption += f" Rise from the first to the last carrier: {rise.with_significance}."
    title = "Accuracy after training on images with a carrier"
    return {"accuracy": captioned(figure, caption, title=title)}
