"""Figures of the probe `poisoned-accuracy`."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import Curve, by_index, captioned

from penchant_nad.shared.errors import known_error


def headline(result: penchant.Result) -> str | None:
    """One sentence, chosen by the numbers."""
    quantity = result.quantities.get("rise")
    if quantity is None or quantity.missing:
        return None
    return quantity.sentence(
        above="A carrier along a weak direction reduces clean accuracy less",
        below="A carrier along a weak direction reduces clean accuracy more",
        neither="The direction of the carrier makes no significant difference to clean accuracy",
    )


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy on clean images by the carrier's index, beside training on clean images."""
    arrays = result.arrays
    clean = result.quantities["clean-test-accuracy"]
    everywhere = np.ones(len(arrays["carriers"]))
    assert clean.stderr is not None  # an accuracy has the error of its samples at least
    # Training on clean images has no index: its accuracy is a line across.
    curves = {
        "clean test images": Curve(arrays["test-accuracy"], known_error(result, "test-accuracy")),
        "poisoned training images": Curve(
            arrays["train-accuracy"], known_error(result, "train-accuracy")
        ),
        "test, trained on clean images": Curve(clean.value * everywhere, clean.stderr * everywhere),
    }
    figure = by_index(
        arrays["carriers"],
        curves,
        xlabel="index of the carrier",
        ylabel="accuracy",
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
