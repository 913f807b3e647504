"""Figures of the probe `gan-modes`."""

from __future__ import annotations

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned

from penchant_mine.figures.samples import samples
from penchant_mine.figures.tables import table, text

TITLES = {"data": "data", "gan": "GAN", "mine": "GAN + MINE"}
VARIANTS = ("gan", "mine")


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Samples of data, GAN and GAN with information; modes and KL."""
    shown = {}
    for name, title in TITLES.items():
        shown[title] = result.arrays[f"samples-{name}"]
    figures = {
        "samples": captioned(
            samples(shown),
            "Samples of the first training beside test data: which modes are there, how sharp?",
            title="Samples with and without information",
        ),
        "modes": captioned(
            _modes(result),
            "Every training (points) with mean and two standard errors; dotted: test data.",
            title="Modes captured and KL to the data's modes",
        ),
    }
    if "quoted" in result.arrays:
        figures["table"] = captioned(
            _table(result),
            "Modes with at least one sample, as table 5.1 counts them; quoted rows are not "
            "measured here.",
            title="Modes of stacked MNIST",
        )
    return figures


def _modes(result: penchant.Result) -> Figure:
    figure = Figure(figsize=(6.4, 3.4))
    left, right = figure.subplots(1, 2)
    _panel(result, left, "modes", "modes captured")
    _panel(result, right, "kl", "KL to the data's modes, nats")
    right.legend()
    return figure


def _panel(
    result: penchant.Result,
    axes: Axes,
    key: str,
    ylabel: str,
) -> None:
    top = 0.0
    for place, name in enumerate(VARIANTS):
        values = result.arrays[f"{key}-by-training-{name}"]
        found = result.quantities[f"{key}-{name}"]
        # Trainings at the left of their mean.
        axes.plot(
            [place - 0.15] * len(values),
            values,
            "o",
            color=BLUE,
            alpha=0.6,
        )
        # One training has no error.
        error = None if found.stderr is None else 2 * found.stderr
        axes.errorbar(
            [place + 0.1],
            [found.value],
            error,
            fmt="_",
            color=ORANGE,
            markersize=14,
        )
        top = max(top, values.max(), found.value + (error or 0.0))
    # Both variants are compared with the same test data.
    null = result.quantities[f"{key}-{VARIANTS[0]}"].null
    axes.axhline(
        null,
        color=FAINT,
        linestyle=":",
        label="test data",
    )
    axes.set_xticks(range(len(VARIANTS)), [TITLES[name] for name in VARIANTS])
    axes.set(
        ylabel=ylabel,
        xlim=(-0.6, len(VARIANTS) - 0.4),
        ylim=(0, 1.08 * max(top, null) or 1),
    )


def _table(result: penchant.Result) -> Figure:
    """Modes and KL; rows that were not measured say so."""
    rows = []
    quoted = zip(result.labels["quoted"], result.arrays["quoted"])
    for name, (modes, kl) in quoted:
        rows.append([f"{name} (quoted)", f"{modes:g}", f"{kl:g}"])
    # What was measured stands below what is quoted.
    for name in VARIANTS:
        seen = text(result.quantities[f"modes-seen-{name}"])
        kl = text(result.quantities[f"kl-{name}"])
        rows.append([f"{TITLES[name]} (measured)", seen, kl])
    return table(["", "modes", "KL"], rows)
