"""Figure of the probe `feature-elimination`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy against the number of directions taken out (figure 6)."""
    tables = {
        "least aligned with G first": result.tables["test-accuracy"],
        "at random": result.tables["random-test-accuracy"],
    }
    xlabel = "directions removed (random ones: same explained variance)"
    figure = curves(tables, x="removed", y="test accuracy", xlabel=xlabel)
    caption = (
        "Test accuracy without the directions of smallest G-energy, and without random ones that "
        "explain the same variance. Mean advantage: "
        f"{result.quantities['advantage'].with_significance}."
    )
    title = "Accuracy without the least sensitive directions"
    return {"accuracy": captioned(figure, caption, title=title)}
