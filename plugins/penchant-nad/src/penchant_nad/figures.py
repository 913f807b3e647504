"""Figures of both probes, drawn from stored results."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

SHOWN = 12
MANY = 100  # directions from which on a second figure shows more of them


def spectrum(result: penchant.Result) -> Figure:
    """Eigenvalues on a log axis with the edges of the isotropic null."""
    values = result.arrays["eigenvalues"]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(
        np.arange(len(values)),
        np.where(values > 0, values, np.nan),
        color="#2b5c8a",
        label="eigenvalues",
    )
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


def further_directions(result: penchant.Result, side: int) -> Figure:
    """NADs 0 to 19 and 50, 100, ..., 1000, as far as there are: pixels, and amplitude spectrum below."""
    vectors = result.arrays["directions"]
    shown = [*range(20), *range(50, min(len(vectors), 1001), 50)]
    blocks = [shown[start : start + 10] for start in range(0, len(shown), 10)]
    figure = Figure(figsize=(10.4, 2.2 * len(blocks)), layout="constrained")
    axes = figure.subplots(2 * len(blocks), 10, squeeze=False)
    for each in axes.flat:
        each.set_axis_off()
    for number, block in enumerate(blocks):
        for column, index in enumerate(block):
            picture = vectors[index].reshape(side, side)
            limit = np.abs(picture).max() or 1.0
            axes[2 * number, column].imshow(picture, cmap="RdBu", vmin=-limit, vmax=limit)
            axes[2 * number, column].set_title(str(index), fontsize=8)
            axes[2 * number + 1, column].imshow(
                np.abs(np.fft.fftshift(np.fft.fft2(picture))), cmap="viridis"
            )
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
    axes.errorbar(
        index,
        test,
        result.arrays["test-accuracy-stderr"],
        fmt="o-",
        color="#2b5c8a",
        capsize=2,
        label="test",
    )
    axes.plot(
        index, result.arrays["train-accuracy"], "s--", color="#7a8aa0", markersize=4, label="train"
    )
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel=f"index in the basis {result.options['basis']}", ylabel="accuracy", ylim=(0.4, 1.03)
    )
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
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
    axes.errorbar(
        eigenvalues,
        test,
        result.arrays["test-accuracy-stderr"],
        fmt="o",
        color="#2b5c8a",
        capsize=2,
    )
    for number, value, height in zip(result.arrays["index"], eigenvalues, test):
        axes.annotate(
            str(int(number)),
            (value, height),
            textcoords="offset points",
            xytext=(6, -10),
            fontsize=8,
            color="#5d6678",
        )
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(
        xscale="log", xlabel="eigenvalue of the direction", ylabel="test accuracy", ylim=(0.4, 1.03)
    )
    _sparse_log_ticks(axes.xaxis)
    return figure


def _sparse_log_ticks(axis: Any) -> None:
    """Labels at 1, 2 and 5 only: over less than a decade matplotlib's own run into each other."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())


def poisoned_accuracy(result: penchant.Result) -> Figure:
    """Accuracy on clean images by the index of the carrier, beside that of a network trained on clean images."""
    carrier = result.arrays["carrier"]
    order = np.argsort(carrier)
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, style, label in (
        ("test", "o-", "clean test images"),
        ("train", "s--", "poisoned training images"),
    ):
        color = "#2b5c8a" if name == "test" else "#7a8aa0"
        values, stderr = (
            result.arrays[f"{name}-accuracy{suffix}"][order] for suffix in ("", "-stderr")
        )
        axes.errorbar(
            carrier[order],
            values,
            stderr,
            fmt=style,
            color=color,
            capsize=2,
            markersize=4,
            label=label,
        )
    axes.axhline(
        result.quantities["clean-accuracy"].value,
        color="#d9822b",
        linestyle=":",
        label="trained on clean images",
    )
    axes.set(xlabel="index of the carrier", ylabel="accuracy", ylim=(0, 1.05))
    axes.legend(frameon=False, loc="lower right")
    return figure


def flipped_accuracy(result: penchant.Result) -> Figure:
    """Test and training accuracy on both representations."""
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.subplots()
    for shift, name, color in ((-0.2, "test", "#2b5c8a"), (0.2, "train", "#b8c4d2")):
        values, stderr = result.arrays[f"{name}-accuracy"], result.arrays[f"{name}-accuracy-stderr"]
        axes.bar(
            np.arange(2) + shift, values, 0.38, yerr=stderr, color=color, capsize=3, label=name
        )
    axes.axhline(
        result.quantities["original"].null,
        color="#999999",
        linewidth=0.8,
        linestyle=":",
        label="chance",
    )
    axes.set(xticks=[0, 1], xticklabels=["original", "flipped"], ylabel="accuracy", ylim=(0, 1.3))
    axes.legend(frameon=False, loc="upper center", ncols=3)
    return figure


def agreement(result: penchant.Result) -> Figure:
    """Overlap of the first k directions with its null, and both spectra."""
    overlap, stderr, null = (
        result.arrays[name] for name in ("overlap", "overlap-stderr", "overlap-null")
    )
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    k = np.arange(1, len(overlap) + 1)
    left.plot(k, overlap, color="#2b5c8a", label="two estimators")
    left.fill_between(
        k, overlap - stderr, overlap + stderr, color="#2b5c8a", alpha=0.25, linewidth=0
    )
    left.plot(k, null, color="#999999", linestyle=":", label="random subspaces")
    left.set(xlabel="first k directions", ylabel="overlap", ylim=(0, 1.05))
    left.legend(frameon=False, loc="upper left")
    names = result.conventions.get("estimators", "first and second").split(" and ")
    for values, name, color in zip(result.arrays["eigenvalues"], names, ("#2b5c8a", "#d9822b")):
        right.semilogy(
            np.arange(len(values)),
            np.where(values > 1e-12 * values[0], values / values.sum(), np.nan),
            color=color,
            label=name,
        )
    right.set(xlabel="index", ylabel="eigenvalue / trace")
    right.legend(frameon=False, fontsize=8)
    return figure


def dipole(result: penchant.Result) -> Figure:
    """Measured sides and their bounds, by direction."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    places = result.arrays["index"]
    titles = ("mean size of the dipole's gradient", "share of networks above eta")
    pairs = (("gradient-norm", "bound"), ("exceedance", "markov-bound"))
    for axes, (measured, bound), title in zip(figure.subplots(1, 2), pairs, titles):
        for name, color, style in ((measured, "#2b5c8a", "o"), (bound, "#d9822b", "_")):
            values, stderr = result.arrays[name], result.arrays[f"{name}-stderr"]
            label = "measured" if name == measured else "bound"
            axes.errorbar(
                places, values, stderr, fmt=style, color=color, capsize=2, markersize=5, label=label
            )
        axes.set(xlabel=f"index in the basis {result.options.get('basis', '')}", ylabel=title)
        if measured == "gradient-norm":
            axes.set_yscale("log")
        axes.legend(frameon=False)
    return figure
