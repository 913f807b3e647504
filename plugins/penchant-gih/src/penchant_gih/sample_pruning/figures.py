"""Figures of the probe `sample-pruning`."""

import penchant
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from penchant_numerics.pictures import BLUE, captioned
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy against the share taken out (tables 1, 2), and the scores."""
    return {"accuracy": pruning(result), "scores": scores(result)}


def pruning(result: penchant.Result) -> Figure:
    """Accuracy against the share of samples taken out."""
    tables = {
        "lowest score first": result.tables["test-accuracy"],
        "at random": result.tables["random-test-accuracy"],
    }
    xlabel = "share of every class removed from the training samples"
    figure = curves(tables, x="fraction", y="test accuracy", xlabel=xlabel)
    caption = (
        "Test accuracy after removing the samples of lowest score, or random ones. "
        f"Mean advantage: {result.quantities['advantage'].with_significance}."
    )
    return captioned(figure, caption, title="Pruning the training samples by score")


def scores(result: penchant.Result) -> Figure:
    """Distribution of scores."""
    figure = Figure(figsize=(5, 3.2))
    axes = figure.subplots()
    # One score per training sample; absolute values depend on the architecture.
    axes.hist(result.arrays["scores"], bins=40, color=BLUE)
    axes.set(xlabel="Score(x) = x^T G x / |x|^2", ylabel="training samples")
    axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    caption = "Scores of the training samples: their alignment with the average geometry."
    return captioned(figure, caption, title="Scores of the training samples")
