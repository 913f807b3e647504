"""Figure of the probe `input-curvature`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves

from penchant_gih.shared.by_step import step_axis


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Alignment of the Hessian with the geometry, and what its second term amounts to, by step."""
    tables = result.tables
    figure = curves(
        {
            "Corr(Hessian, G_t)": tables["corr-g"],
            "share of the second term": tables["second-share"],
        },
        x="step",
        y="cosine, or share of the norm",
    )
    (axes,) = figure.axes
    step_axis(axes, result.arrays["steps"])
    # A cosine of few networks may come out above one, or be missing.
    largest = np.nan_to_num(tables["corr-g"].values).max()
    axes.set_ylim(0, max(1.05, 1.05 * float(largest)))
    caption = (
        "The input Hessian of the loss against the geometry of the same networks; dashed: after "
        "a random rotation. The second term is what the paper drops."
    )
    title = "Input curvature of the loss"
    return {"curvature": captioned(figure, caption, title=title)}
