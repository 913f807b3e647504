"""Figure of the probe `feature-preference`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves

CURVES = {
    "linear-accuracy": "linear feature alone",
    "ring-accuracy": "ring alone",
    "test-accuracy": "both",
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy on each feature alone by the direction of the linear one (figure 5)."""
    figure = curves(
        {label: result.tables[name] for name, label in CURVES.items()},
        x="index",
        y="test accuracy",
        xlabel="eigen-index of the linear feature's direction",
        level=0.5,
    )
    # Nothing is below chance but by chance.
    figure.axes[0].set_ylim(0.4, 1.03)
    caption = (
        "Accuracy on test samples in which only one of the features predicts the class, by the "
        "direction of the linear one."
    )
    title = "Accuracy on a linear feature and on a ring"
    return {"accuracy": captioned(figure, caption, title=title)}
