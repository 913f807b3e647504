"""Figure of the probe `direction-generalization`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import Beside, Curve, by_index, captioned


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy against eigen-index, with eigenvalues (figures 4, 10, 11, 14)."""
    arrays = result.arrays
    curves = {}
    for name in ("test", "train"):
        accuracy = result.tables[f"{name}-accuracy"]
        curves[name] = Curve(accuracy.values, accuracy.error)
    figure = by_index(
        arrays["indices"],
        curves,
        xlabel="eigen-index of the direction that determines the labels",
        ylabel="accuracy",
        level=0.5,
        beside=Beside(arrays["eigenvalues"], "eigenvalue"),
    )
    # Nothing is below chance but by chance.
    figure.axes[0].set_ylim(0.4, 1.03)
    caption = "Accuracy if one eigenvector determines the labels, by its index."
    correlation = result.quantities.get("rank-correlation")
    if correlation is not None:
        caption += f" Rank correlation with minus the index: {correlation.with_significance}."
    title = "Accuracy if one direction determines the labels"
    return {"accuracy": captioned(figure, caption, title=title)}
