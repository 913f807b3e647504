"""Figures of the probe `flipped-accuracy`."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, GREY, captioned

from penchant_nad.shared.errors import known_error


def headline(result: penchant.Result) -> str | None:
    """One sentence, chosen by the numbers."""
    quantity = result.quantities.get("fall")
    if quantity is None or quantity.missing:
        return None
    return quantity.sentence(
        above="Test accuracy falls when preferred and weak directions of the data are exchanged",
        below="Test accuracy rises when preferred and weak directions of the data are exchanged",
        neither="Exchanging preferred and weak directions makes no significant difference "
        "in test accuracy",
    )


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Test and training accuracy on both representations."""
    figure = Figure(figsize=(4.8, 3.6))
    axes = figure.subplots()
    positions = np.arange(2)
    # Test and training beside each other, original and flipped.
    for shift, name, colour in ((-0.2, "test", BLUE), (0.2, "train", GREY)):
        axes.bar(
            positions + shift,
            result.arrays[f"{name}-accuracy"],
            0.38,
            yerr=known_error(result, f"{name}-accuracy"),
            color=colour,
            capsize=3,
            label=name,
        )
    chance = result.quantities["original-test-accuracy"].null
    assert chance is not None  # the share of the most frequent class
    axes.axhline(chance, color=FAINT, linewidth=0.8, linestyle=":", label="chance")
    names = result.labels.get("variants", ("original", "flipped"))
    axes.set(xticks=positions, xticklabels=names, ylabel="accuracy", ylim=(0, 1.05))
    figure.legend(loc="outside lower center", ncols=3)
    caption = (
        "Accuracy on images and on the same images with their NAD coefficients in reverse order, "
        f"an orthogonal map. Fall: {result.quantities['fall'].with_significance}."
    )
    return {"accuracy": captioned(figure, caption, title="Images and flipped images")}
