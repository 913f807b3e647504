"""Figures of the generative probes, drawn from stored results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

TITLES = {"data": "data", "gan": "GAN", "mine": "GAN + MINE"}


def samples(
    result: penchant.Result,
    names: Sequence[str],
    prefix: str = "samples-",
    titles: dict[str, str] | None = None,
) -> Figure:
    """Points, or a sheet of pictures, side by side."""
    figure = Figure(figsize=(3.1 * len(names), 3.3), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    shown = [result.arrays[f"{prefix}{name}"] for name in names]
    limit = 1.15 * max(float(np.quantile(np.abs(values), 0.999)) for values in shown)
    for axes, name, values in zip(panels, names, shown):
        axes.set_title((titles or TITLES).get(name, name), fontsize=10)
        if values.ndim == 4:
            axes.imshow(sheet(values), cmap="gray", vmin=0, vmax=1)
            axes.axis("off")
        else:
            axes.scatter(values[:, 0], values[:, 1], s=2, color="#2b5c8a", alpha=0.4, linewidths=0)
            axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    return figure


def sheet(pictures: np.ndarray) -> np.ndarray:
    """Pictures in [-1, 1] (count, channels, height, width) as one, eight a row."""
    columns = min(8, len(pictures))
    rows = len(pictures) // columns
    _, channels, height, width = pictures.shape
    grid = (
        pictures[: rows * columns]
        .reshape(rows, columns, channels, height, width)
        .transpose(0, 3, 1, 4, 2)
    )
    page = np.clip((grid.reshape(rows * height, columns * width, channels) + 1) / 2, 0, 1)
    return page[:, :, 0] if channels == 1 else page


def modes(result: penchant.Result, names: Sequence[str]) -> Figure:
    """Modes captured and KL of every training, with mean and null."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    for axes, key, label in zip(
        figure.subplots(1, 2), ("modes", "kl"), ("modes captured", "KL to the data's modes, nats")
    ):
        for place, name in enumerate(names):
            values = result.arrays[f"{key}-by-training-{name}"]
            axes.plot([place] * len(values), values, "o", color="#2b5c8a", alpha=0.6)
            axes.plot([place - 0.2, place + 0.2], [values.mean()] * 2, color="#d9822b")
        null = result.quantities[f"{key}-{names[0]}"].null
        axes.axhline(null, color="#999999", linestyle=":", label="test data")
        axes.set_xticks(range(len(names)), [TITLES.get(name, name) for name in names])
        top = max(null, *(result.arrays[f"{key}-by-training-{name}"].max() for name in names))
        axes.set(ylabel=label, xlim=(-0.6, len(names) - 0.4), ylim=(0, 1.08 * top or 1))
    axes.legend(frameon=False, fontsize=8)
    return figure


def table(result: penchant.Result, names: Sequence[str], quoted: Sequence[str]) -> Figure:
    """Modes and KL as a table; rows that were not measured say so."""
    rows = [
        [f"{name} (quoted)", f"{modes:g}", f"{kl:g}"]
        for name, (modes, kl) in zip(quoted, result.arrays["quoted"])
    ]
    rows += [
        [
            f"{TITLES[name]} (measured)",
            *(_text(result.quantities[f"{key}-{name}"]) for key in ("modes", "kl")),
        ]
        for name in names
    ]
    return page(["", "modes", "KL"], rows)


def page(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Figure:
    """A table as a figure; columns are as wide as what they hold."""
    letters = [4 + max(map(len, column)) for column in zip(head, *rows)]
    figure = Figure(
        figsize=(0.085 * sum(letters) + 0.4, 0.32 * len(rows) + 0.7), layout="constrained"
    )
    axes = figure.subplots()
    axes.axis("off")
    shares = [count / sum(letters) for count in letters]
    drawn: Any = axes.table(
        cellText=[list(row) for row in rows],
        colLabels=list(head),
        colWidths=shares,
        loc="center",
        cellLoc="left",
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(9)
    drawn.scale(1, 1.3)
    return figure


def _text(quantity: penchant.Quantity) -> str:
    return f"{quantity.value:.3g}" + (
        f" ± {quantity.stderr:.2g}" if quantity.stderr is not None else ""
    )


def embeddings(result: penchant.Result, names: Sequence[str], titles: dict[str, str]) -> Figure:
    """First two components of the encoder's z of test samples, coloured by label."""
    figure = Figure(figsize=(3.1 * len(names), 3.3), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        z = result.arrays[f"embeddings-{name}"]
        second = z[:, 1] if z.shape[1] > 1 else np.zeros(len(z))
        axes.scatter(
            z[:, 0], second, c=result.arrays["labels"][: len(z)], s=3, cmap="turbo", linewidths=0
        )
        axes.set_title(titles.get(name, name), fontsize=10)
        axes.set(xlabel="z 1", ylabel="z 2")
    return figure


def reconstruction_table(
    result: penchant.Result,
    names: Sequence[str],
    titles: dict[str, str],
    quoted: dict[str, tuple[float, ...]],
    keys: dict[str, str],
) -> Figure:
    """Measured numbers; for images of the published sizes also the published ones, marked as quoted."""
    measured = [label for label in keys.values() if f"{label}-{names[0]}" in result.quantities]
    rows = [
        [
            f"{titles[name]} (measured)",
            *(_text(result.quantities[f"{label}-{name}"]) for label in measured),
        ]
        for name in names
    ]
    if len(measured) == len(keys):
        rows += [
            [f"{titles[name]} (quoted)", f"{a:g}", f"{b / 100:.4g}", f"{c:g}"]
            for name, (a, b, c) in quoted.items()
        ]
    return page(["", *measured], rows)
