"""Figures of both probes, drawn from stored results."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

SHOWN = 12


def spectrum(result: penchant.Result) -> Figure:
    """Eigenvalues on a log axis with the edges of the isotropic null."""
    values = result.arrays["eigenvalues"]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(np.arange(len(values)), np.where(values > 0, values, np.nan), color="#2b5c8a", label="eigenvalues")
    if "null-edges" in result.arrays:
        low, high = result.arrays["null-edges"]
        axes.axhspan(low, high, color="#d9822b", alpha=0.25, label="isotropic, same norms")
    axes.set(xlabel="index", ylabel="eigenvalue")
    axes.legend(frameon=False)
    return figure


def directions(result: penchant.Result, side: int) -> Figure:
    """The first NADs: pixels above, amplitude spectrum below (DC in the centre)."""
    rows = result.arrays["directions"][:SHOWN].reshape(-1, side, side)
    figure = Figure(figsize=(1.1 * len(rows) + 0.6, 3.1), layout="constrained")
    axes = figure.subplots(2, len(rows), squeeze=False)
    for column, picture in enumerate(rows):
        limit = np.abs(picture).max() or 1.0
        _picture(axes[0, column], picture, cmap="RdBu", vmin=-limit, vmax=limit)
        _picture(axes[1, column], np.abs(np.fft.fftshift(np.fft.fft2(picture))), cmap="viridis")
        axes[0, column].set_title(str(column), fontsize=9)
    axes[0, 0].set_ylabel("pixels")
    axes[1, 0].set_ylabel("Fourier")
    return figure


def _picture(axes: Any, values: Any, **options: Any) -> None:
    axes.imshow(values, **options)
    axes.set_xticks([])
    axes.set_yticks([])


def accuracy(result: penchant.Result) -> Figure:
    """Accuracy by index; for NADs, the eigenvalue beside it."""
    index, test = result.arrays["index"], result.arrays["test-accuracy"]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.errorbar(index, test, result.arrays["test-accuracy-stderr"], fmt="o-", color="#2b5c8a", capsize=2, label="test")
    axes.plot(index, result.arrays["train-accuracy"], "s--", color="#7a8aa0", markersize=4, label="train")
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xlabel=f"index in the basis {result.options['basis']}", ylabel="accuracy", ylim=(0.4, 1.03))
    axes.legend(frameon=False, loc="lower left")
    if "eigenvalue" in result.arrays:
        other = axes.twinx()
        other.semilogy(index, result.arrays["eigenvalue"], "d", color="#d9822b", markersize=5)
        other.set_ylabel("eigenvalue", color="#d9822b")
        _sparse_log_ticks(other.yaxis)
    return figure


def accuracy_against_eigenvalue(result: penchant.Result) -> Figure:
    """Is what a network prefers what it learns? Test accuracy against the eigenvalue of its direction."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    eigenvalues, test = result.arrays["eigenvalue"], result.arrays["test-accuracy"]
    axes.errorbar(eigenvalues, test, result.arrays["test-accuracy-stderr"], fmt="o", color="#2b5c8a", capsize=2)
    for number, value, height in zip(result.arrays["index"], eigenvalues, test):
        axes.annotate(str(int(number)), (value, height), textcoords="offset points", xytext=(6, -10), fontsize=8, color="#5d6678")
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="eigenvalue of the direction", ylabel="test accuracy", ylim=(0.4, 1.03))
    _sparse_log_ticks(axes.xaxis)
    return figure


def _sparse_log_ticks(axis: Any) -> None:
    """Labels at 1, 2 and 5 only: over less than a decade matplotlib's own run into each other."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())


def frequency_map(result: penchant.Result) -> Figure:
    """Accuracy by frequency, DC in the centre; the mirrored half is fainter."""
    frequencies, test = result.arrays["frequency"], result.arrays["test-accuracy"]
    figure = Figure(figsize=(5, 4.2), layout="constrained")
    axes = figure.subplots()
    size = 4 if len(test) > 200 else 40
    options = {"marker": "s", "s": size, "cmap": "viridis", "vmin": 0.5, "vmax": 1.0}
    axes.scatter(-frequencies[:, 1], -frequencies[:, 0], c=test, alpha=0.35, **options)
    drawn = axes.scatter(frequencies[:, 1], frequencies[:, 0], c=test, **options)
    axes.set(xlabel="horizontal frequency", ylabel="vertical frequency", aspect="equal")
    figure.colorbar(drawn, ax=axes, label="test accuracy")
    return figure
