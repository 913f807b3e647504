"""Figure of the probe `feature-elimination`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned

from penchant_gih.shared.against_random import accuracy_against_random


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy against the number of directions taken out (figure 6)."""
    figure = accuracy_against_random(
        result,
        "removed",
        label="least aligned with G first",
        xlabel="directions removed (random ones: same explained variance)",
    )
    caption = (
        "Test accuracy without the directions of smallest G-energy, and without random ones that "
        "explain the same variance. Mean advantage: "
        f"{result.quantities['advantage'].with_significance}."
    )
    title = "Accuracy without the least sensitive directions"
    return {"accuracy": captioned(figure, caption, title=title)}
