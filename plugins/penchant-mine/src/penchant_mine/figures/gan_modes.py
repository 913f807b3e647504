"""Figures of the probe `gan-modes`."""

from __future__ import annotations

import math

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, RED, captioned

from penchant_mine.shared.samples import samples
from penchant_mine.shared.tables import table, text

TITLES = {"data": "data", "gan": "GAN", "mine": "GAN + MINE"}
VARIANTS = ("gan", "mine")


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
