"""Figures of the probe `gan-modes`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, RED, captioned
from penchant_numerics.pictures.curves import curves

from penchant_mine.shared.samples import samples, table, text

TITLES = {"data": "data", "gan": "GAN", "mine": "GAN + MINE"}
VARIANTS = ("gan", "mine")
MOST_STEPS = 5  # panels per row


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Samples of data, GAN and GAN with information; modes and KL."""
    shown = {}
    for name, title in TITLES.items():
        shown[title] = result.arrays[f"samples-{name}"]
    figures = {
        "samples": captioned(
            samples(shown), _spread(result), title="Samples with and without information"
        ),
        "modes": captioned(
            _modes(result),
            "Every training (points) with mean and two standard errors, left out where samples are "
            "hardly nearer to modes than a uniform cloud (dashed); dotted: test data.",
            title="Modes captured and KL to the data's modes",
        ),
    }
    steps = result.tables["modes-by-step"].axes["step"]
    if len(steps) > 1:
        figures["modes-by-step"] = captioned(
            curves(result.tables["modes-by-step"], x="step", y="modes captured"),
            "Modes with enough samples along training, means over trainings; dashed: test data.",
            title="Modes captured along training",
        )
    if len(steps) > 1 and result.arrays["samples-by-step-gan"].ndim == 3:
        figures["evolution"] = captioned(
            _evolution(result, steps),
            "Samples of the first training after so many steps, over test data (gray).",
            title="Samples along training",
        )
    if "quoted" in result.arrays:
        figures["table"] = captioned(
            _table(result),
            "Modes with at least one sample, as table 5.1 counts them; quoted rows are not "
            "measured here.",
            title="Modes of stacked MNIST",
        )
    return figures


def _spread(result: penchant.Result) -> str:
    """What is drawn, and how much of it lies near a mode."""
    shares = []
    for name in VARIANTS:
        if f"quality-{name}" in result.quantities:
            quality = result.quantities[f"quality-{name}"].value
            shares.append(f"{quality:.2f} of the {TITLES[name]}'s")
    text = "Samples of the first training beside test data."
    if not shares:
        return text
    uniform = result.quantities["quality-uniform"].value
    listed = " and ".join(shares)
    return f"{text} Near a mode lie {listed} samples; of points spread evenly, {uniform:.2f}."


def _evolution(result: penchant.Result, steps: Sequence[Any]) -> Figure:
    """A row of panels for each variant, a column for each of at most `MOST_STEPS` steps."""
    chosen = np.unique(np.linspace(0, len(steps) - 1, MOST_STEPS).round().astype(int))
    figure = Figure(figsize=(1.9 * len(chosen) + 0.5, 4.2))
    panels = figure.subplots(len(VARIANTS), len(chosen), squeeze=False)
    data = result.arrays["samples-data"]
    limit = 1.15 * float(np.quantile(np.abs(data), 0.999))
    for row, name in zip(panels, VARIANTS):
        samples_by_step = result.arrays[f"samples-by-step-{name}"]
        for axes, position in zip(row, chosen):
            axes.scatter(data[:, 0], data[:, 1], s=1, color=FAINT, alpha=0.25, linewidths=0)
            points = samples_by_step[position]
            axes.scatter(points[:, 0], points[:, 1], s=2, color=BLUE, alpha=0.5, linewidths=0)
            axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
            axes.set_xticks([])
            axes.set_yticks([])
        row[0].set_ylabel(TITLES[name])
    for axes, position in zip(panels[0], chosen):
        axes.set_title(f"step {steps[position]}", fontsize=9)
    return figure


def _modes(result: penchant.Result) -> Figure:
    figure = Figure(figsize=(6.4, 3.4))
    left, right = figure.subplots(1, 2)
    _panel(result, left, "modes", "modes captured")
    _panel(result, right, "kl", "KL to the data's modes, nats")
    right.legend()
    return figure


def _panel(result: penchant.Result, axes: Axes, key: str, ylabel: str) -> None:
    top, null = 0.0, None
    for position, name in enumerate(VARIANTS):
        values = result.arrays[f"{key}-by-training-{name}"]
        quantity = result.quantities[f"{key}-{name}"]
        # Trainings at the left of their mean.
        axes.plot([position - 0.15] * len(values), values, "o", color=BLUE, alpha=0.6)
        top = max(top, values.max())
        # A mean that says nothing is left out.
        if quantity.missing:
            continue
        null = quantity.null
        # One training has no error.
        error = None if quantity.stderr is None else 2 * quantity.stderr
        axes.errorbar(
            [position + 0.1], [quantity.value], error, fmt="_", color=ORANGE, markersize=14
        )
        top = max(top, quantity.value + (error or 0.0), null)
    if key == "kl" and "kl-uniform" in result.quantities:
        level = result.quantities["kl-uniform"].value
        axes.axhline(level, color=RED, linestyle="--", label="uniform cloud")
        top = max(top, level)
    # Both variants are compared with the same test data.
    axes.axhline(math.nan if null is None else null, color=FAINT, linestyle=":", label="test data")
    axes.set_xticks(range(len(VARIANTS)), [TITLES[name] for name in VARIANTS])
    axes.set(ylabel=ylabel, xlim=(-0.6, len(VARIANTS) - 0.4), ylim=(0, 1.08 * top or 1))


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
