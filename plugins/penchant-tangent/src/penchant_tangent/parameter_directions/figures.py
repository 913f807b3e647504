"""Figures of the probe `parameter-directions`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned, log_ticks


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Changes along singular vectors, then along random directions (figure B.1)."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    panel = figure.subplots()
    singular = result.arrays["singular-changes"]
    random = result.arrays["random-changes"]
    first = np.arange(len(singular))
    second = len(singular) + np.arange(len(random))
    panel.errorbar(
        first,
        singular,
        result.arrays["singular-changes-stderr"],
        fmt="o",
        color=BLUE,
        markersize=4,
        label="singular vectors of the Jacobian",
    )

    # what first order says of them
    panel.plot(
        first,
        result.arrays["expected-changes"],
        "--",
        color=BLUE,
        alpha=0.6,
        label="first order, on the Jacobian's samples",
    )

    # random ones stand to the right
    panel.errorbar(
        second,
        random,
        result.arrays["random-changes-stderr"],
        fmt="s",
        color=ORANGE,
        markersize=4,
        label="random directions",
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
