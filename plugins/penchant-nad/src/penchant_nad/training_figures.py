"""Figures of `directional-accuracy` beyond the accuracy by index, drawn from stored results."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib import colormaps
from matplotlib.figure import Figure

SHOWN = 12


def frequency_map(
    result: penchant.Result,
    *,
    values: np.ndarray,
    label: str,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Values by frequency, DC in the centre; the half that is filled in from its mirror image is crossed out."""
    cells, mirrored = _laid_out(result, values)
    height, width = cells.shape
    edges = (
        -(width // 2) - 0.5,
        width - width // 2 - 0.5,
        -(height // 2) - 0.5,
        height - height // 2 - 0.5,
    )
    low, high = limits or (None, None)
    figure = Figure(figsize=(5.4, 4.6) if height > 1 else (6.4, 2.0), layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor("#e6e6e6")
    aspect = "equal" if height > 1 else "auto"
    drawn = axes.imshow(
        cells,
        extent=edges,
        origin="lower",
        cmap="viridis",
        vmin=low,
        vmax=high,
        aspect=aspect,
        interpolation="nearest",
    )
    known = mirrored & np.isfinite(cells)
    if known.any():
        grid = [np.arange(count) - count // 2 for count in (width, height)]
        x, y = np.meshgrid(*grid)
        axes.scatter(
            x[known],
            y[known],
            marker="x",
            s=3 if cells.size > 400 else 14,
            linewidths=0.5,
            color="white",
            label="mirrored",
        )
        where = (1.0, 1.0)  # above the map: inside it would cover cells
        axes.legend(
            loc="lower right",
            bbox_to_anchor=where,
            borderaxespad=0.3,
            fontsize=8,
            facecolor="#555555",
            labelcolor="white",
        )
    axes.set(xlabel="horizontal frequency", ylabel="vertical frequency")
    figure.colorbar(drawn, ax=axes, label=label)
    return figure


def _laid_out(result: penchant.Result, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The map of the input's grid; inputs of one dimension have one row."""
    import torch
    from penchant_numerics.fourier import layout

    numbers = torch.as_tensor(values, dtype=torch.float64, device="cpu")
    frequencies = torch.as_tensor(result.arrays["frequency"], device="cpu")
    cells, mirrored = layout(numbers, frequencies, tuple(result.arrays["grid"].tolist()))
    return cells.numpy(), mirrored.numpy()


def loss_curves(result: penchant.Result) -> Figure:
    """Training loss per batch, a running mean, for up to twelve directions; dots mark the loss asked for."""
    curves, index = result.arrays["loss-curves"], result.arrays["index"]
    chosen = np.unique(np.linspace(0, len(index) - 1, min(SHOWN, len(index))).round().astype(int))
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    window = 10
    for place, number in enumerate(chosen):
        color = colormaps["viridis"](place / max(1, len(chosen) - 1))
        smooth = np.convolve(curves[number], np.full(window, 1 / window), mode="valid")
        axes.semilogy(
            np.arange(window, len(smooth) + window),
            np.maximum(smooth, 1e-12),
            color=color,
            linewidth=1.1,
            label=str(index[number]),
        )
        reached = result.arrays["steps-to-loss"][number]
        if np.isfinite(reached):
            axes.plot(
                reached, result.options.get("loss_target", 0.01), "o", color=color, markersize=4
            )
    axes.set(xlabel="step", ylabel=f"training loss, mean of {window} batches")
    axes.legend(frameon=False, fontsize=8, title="index", ncols=2)
    return figure


def accuracy_by_size(result: penchant.Result) -> Figure:
    """Test accuracy against the number of training samples, one curve a direction."""
    sizes, index = result.arrays["train-sizes"], result.arrays["index"]
    accuracies, stderr = result.arrays["accuracy-by-size"], result.arrays["accuracy-by-size-stderr"]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for number in range(len(index)):
        color = colormaps["viridis"](number / max(1, len(index) - 1))
        axes.errorbar(
            sizes,
            accuracies[:, number],
            stderr[:, number],
            fmt="o-",
            capsize=2,
            markersize=4,
            color=color,
            label=str(index[number]),
        )
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="training samples", ylabel="test accuracy", ylim=(0.4, 1.03))
    axes.legend(frameon=False, fontsize=8, title="index")
    return figure
