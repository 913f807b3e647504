"""Figures of the probe `flipped-accuracy`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, GREY, captioned


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Test and training accuracy on both representations."""
    figure = Figure(figsize=(4.8, 3.6))
    axes = figure.subplots()
    positions = np.arange(2)
    # Test and training beside each other, original and flipped.
    for shift, name, colour in ((-0.2, "test", BLUE), (0.2, "train", GREY)):
        accuracy = result.tables[f"{name}-accuracy"]
        axes.bar(
            positions + shift,
            accuracy.values,
            0.38,
            yerr=accuracy.error,
            color=colour,
            capsize=3,
            label=name,
        )
    chance = result.quantities["original-test-accuracy"].null
    assert chance is not None  # the share of the most frequent class
    axes.axhline(chance, color=FAINT, linewidth=0.8, linestyle=":", label="chance")
    names = accuracy.axes["variant"]
    axes.set(xticks=positions, xticklabels=names, ylabel="accuracy", ylim=(0, 1.05))
    figure.legend(loc="outside lower center", ncols=3)
    caption = (
        "Accuracy on images and on the same images with their NAD coefficients in reverse order, "
        f"an orthogonal map. Fall: {result.quantities['fall'].with_significance}."
    )
    return {"accuracy": captioned(figure, caption, title="Images and flipped images")}
