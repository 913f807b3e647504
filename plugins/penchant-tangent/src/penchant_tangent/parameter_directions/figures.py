"""Figures of the probe `parameter-directions`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned, log_ticks


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Changes along singular vectors, then along random directions (figure B.1)."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    panel = figure.subplots()
    tables = result.tables
    singular, random = tables["singular-changes"], tables["random-changes"]
    count = len(singular.values)
    # random ones stand to the right
    for table, start, style, colour, label in (
        (singular, 0, "o", BLUE, "singular vectors of the Jacobian"),
        (random, count, "s", ORANGE, "random directions"),
    ):
        where = start + np.arange(len(table.values))
        panel.errorbar(
            where, table.values, table.error, fmt=style, color=colour, markersize=4, label=label
        )

    # what first order says of both
    panel.plot(
        np.arange(count),
        tables["expected-changes"].values,
        "--",
        color=BLUE,
        alpha=0.6,
        label="first order, on the Jacobian's samples",
    )
    expected = result.quantities["random-change-expected"].value
    panel.axhline(expected, color=FAINT, linestyle=":", label="first order, random directions")
    panel.set_yscale("log")
    panel.set_xlabel("direction")
    panel.set_ylabel("change of test outputs")
    log_ticks(panel)
    panel.legend()
    ratio = result.quantities["leading-ratio"]
    caption = f"Change along the first singular vector over that of random directions: {ratio}."
    return {
        "changes": captioned(
            figure, caption, title="Change of the outputs along parameter directions"
        )
    }
