"""Figure of the probe `feature-elimination`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned

from penchant_gih.figures.against_random import accuracy_against_random


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy against the number of directions taken out (figure 6)."""
    figure = accuracy_against_random(
        result,
        result.arrays["removed"],
        label="least aligned with G first",
        xlabel="directions taken out (random ones: as many as explain as much of the data)",
    )
    caption = (
        "What taking directions out of the data costs: those that the architecture hardly sees, "
        "against random ones that explain as much of the data."
    )
    title = "Accuracy without the directions an architecture hardly sees"
    return {"accuracy": captioned(figure, caption, title=title)}
