"""Figures of the probe `noise-on-manifold`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves

LABELS = {
    "manifold-loss": "reconstructed images",
    "plane-loss": "plane, length and spread of the images",
    "normal-loss": "normal, mean and covariance of the images",
    "unscaled-plane-loss": "plane as in the paper",
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Losses over training on all manifolds."""
    figure = curves(
        {label: result.tables[name] for name, label in LABELS.items()},
        x="step",
        y="mean squared error",
        yscale="log",
        # what a network that learnt nothing has
        level=result.quantities["manifold-loss"].null,
        level_label="variance of the targets",
    )
    caption = result.quantities["manifold-minus-plane"].sentence(
        above="Noise is harder on the images than on a plane with the same norm and variance",
        below="Noise is easier on the images than on a plane with the same norm and variance",
        neither="No significant difference of images and a plane with the same norm and variance",
    )
    return {"loss": captioned(figure, caption, title="Learning white noise on two manifolds")}
