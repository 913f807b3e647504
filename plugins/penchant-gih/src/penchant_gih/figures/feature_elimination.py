"""Figure of the probe `feature-elimination`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned

from penchant_gih.shared.against_random import accuracy_against_random


def headline(result: penchant.Result) -> str | None:
    """What the numbers allow to be said."""
    quantity = result.quantities.get("advantage")
    if quantity is None or quantity.missing:
        return None
    return quantity.sentence(
        above="Leaving out the least aligned directions costs less accuracy than leaving "
        "out random ones",
        below="Leaving out the least aligned directions costs more accuracy than leaving "
        "out random ones",
        neither="No significant difference between leaving out the least aligned directions "
        "and random ones",
    )


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy against the number of directions taken out (figure 6)."""
    figure = accuracy_against_random(
        result,
        result.arrays["removed"],
        label="least aligned with G first",
        xlabel="directions taken out (random ones: as many as explain as much of the data)",
    )
    caption = (
        "Test accuracy without the directions that G is least aligned with, beside random ones "
        "that explain as much of the data. Mean advantage: "
        f"{result.quantities['advantage'].verdict}."
    )
    title = "Accuracy without the directions least aligned with G"
    return {"accuracy": captioned(figure, caption, title=title)}
