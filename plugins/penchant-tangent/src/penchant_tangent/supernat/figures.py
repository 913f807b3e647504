"""Figures of the probe `supernat`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, ORANGE, captioned
from penchant_numerics.pictures.curves import curves

METHODS = {"gradient-descent": "gradient descent", "supernat": "SuperNat"}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Errors along the steps, and what SuperNat makes of the features."""
    return {"errors": _errors(result), "features": _features(result)}


def _errors(result: penchant.Result) -> Figure:
    """Both errors of both methods along the steps (figure 4.5)."""
    figure = Figure(figsize=(8.5, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True)
    for panel, split in zip(panels, ("test", "train")):
        errors = {
            label: result.tables[f"{split}-error-{method}"] for method, label in METHODS.items()
        }
        curves(errors, x="step", y=f"{split} error (mean squared)", yscale="log", axes=panel)
    difference = result.quantities["final-difference"]
    caption = f"Test error of both methods by step; SuperNat minus gradient descent: {difference}."
    return captioned(figure, caption, title="Gradient descent and SuperNat")


def _features(result: penchant.Result) -> Figure:
    """Eigenvalues of the kernel before and after."""
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    panel = figure.subplots()
    first = result.arrays["eigenvalues-first"]
    last = result.arrays["eigenvalues-last"]
    positions = np.arange(len(first))
    panel.plot(positions, first, "o-", color=BLUE, label="before training")

    # what is frozen beyond double precision is left out
    shown = np.where(last > 1e-30 * first.max(), last, np.nan)
    panel.plot(positions, shown, "s-", color=ORANGE, label="after SuperNat's last step")
    panel.set_yscale("log")
    panel.set_xlabel("direction")
    panel.set_ylabel("eigenvalue of the kernel")
    panel.legend()
    caption = "Eigenvalues before training and after SuperNat's last step (first training)."
    return captioned(figure, caption, title="Features that SuperNat rescales")
