"""Figures of all probes, drawn from stored results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

BLUE, ORANGE, GREY, GREEN = "#2b5c8a", "#d9822b", "#7a8aa0", "#3a7d44"
SHOWN = 10


def geometry(result: penchant.Result) -> Figure:
    """G as a picture, and its eigenvalues with the edges of the isotropic null (figure 9)."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _matrix(figure, left, result.arrays["geometry"], "G")
    values = result.arrays["eigenvalues"]
    right.semilogy(
        np.arange(len(values)),
        np.where(values > 0, values, np.nan),
        color=BLUE,
        label="eigenvalues",
    )
    if "null-edges" in result.arrays:
        low, high = result.arrays["null-edges"]
        right.axhspan(
            max(low, values[values > 0].min()),
            high,
            color=ORANGE,
            alpha=0.25,
            label="isotropic, same norms",
        )
    right.set(xlabel="index", ylabel="eigenvalue of G")
    right.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    right.legend(frameon=False)
    return figure


def _matrix(figure: Figure, axes: Any, matrix: np.ndarray, label: str) -> None:
    limit = float(np.quantile(np.abs(matrix), 0.999)) or float(np.abs(matrix).max()) or 1.0
    drawn = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set(title=label, xlabel="input", ylabel="input")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    figure.colorbar(drawn, ax=axes, shrink=0.85)


def directions(result: penchant.Result) -> Figure:
    """The leading and the trailing eigenvectors of G, as pictures where inputs are square, else as curves."""
    rows = result.arrays["directions"]
    chosen = [*range(min(SHOWN, len(rows))), *range(max(SHOWN, len(rows) - SHOWN), len(rows))]
    columns = min(SHOWN, len(chosen))
    lines = math.ceil(len(chosen) / columns)
    figure = Figure(figsize=(1.1 * columns + 0.4, 1.35 * lines + 0.2), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes, index in zip(grid, chosen):
        _direction(axes, rows[index])
        axes.set_title(str(index), fontsize=9)
    for axes in grid[len(chosen) :]:
        axes.set_axis_off()
    return figure


def _direction(axes: Any, values: np.ndarray) -> None:
    axes.set(xticks=[], yticks=[])
    for channels in (1, 3):
        side = math.isqrt(len(values) // channels)
        if side > 1 and channels * side**2 == len(values):
            limit = np.abs(values).max() or 1.0
            picture = values.reshape(channels, side, side).transpose(1, 2, 0) / limit
            if channels == 3:
                axes.imshow(picture / 2 + 0.5)
            else:
                axes.imshow(picture[:, :, 0], cmap="RdBu_r", vmin=-1, vmax=1)
            return
    axes.plot(values, color=BLUE)


def evolution(result: penchant.Result) -> Figure:
    """Delta as a picture, and how much of it is inside the leading subspaces of G S G."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _matrix(figure, left, result.arrays["evolution"], "Delta")
    ranks = result.arrays["leading"]
    right.errorbar(
        ranks,
        result.arrays["containment"],
        result.arrays["containment-stderr"],
        fmt="o-",
        color=BLUE,
        capsize=2,
        label="Delta",
    )
    right.plot(
        ranks,
        result.arrays["containment-null"],
        "s--",
        color=ORANGE,
        markersize=4,
        label="random subspace",
    )
    right.set(
        xlabel="leading eigenvectors of G S G", ylabel="|P Delta P| / |Delta|", ylim=(0, 1.05)
    )
    _log_counts(right, ranks)
    right.legend(frameon=False)
    return figure


def _log_counts(axes: Any, counts: np.ndarray) -> None:
    """A logarithmic axis with a tick at each count: the automatic ones between powers of ten run into each other."""
    axes.set_xscale("log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()


def _with_null(
    axes: Any, x: np.ndarray, result: penchant.Result, name: str, color: str, label: str
) -> None:
    values = result.arrays[name]
    axes.errorbar(
        x,
        values,
        result.arrays[f"{name}-stderr"],
        fmt="o-",
        color=color,
        capsize=2,
        markersize=4,
        label=label,
    )
    axes.plot(
        x,
        result.arrays[f"{name}-null"],
        "--",
        color=color,
        alpha=0.6,
        label=f"{label}, rotated at random",
    )


def sweep(result: penchant.Result, axis: str) -> Figure:
    """Corr(Delta, S) and Corr(Delta, G S G) by width or step (figure 7)."""
    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, color, label in (
        ("corr-s", BLUE, "Corr(Delta, S)"),
        ("corr-gsg", ORANGE, "Corr(Delta, G S G)"),
    ):
        _with_null(axes, result.arrays[axis], result, name, color, label)
    axes.set(xlabel="width" if axis == "widths" else "step", ylabel="Frobenius cosine")
    if axis == "widths":
        _log_counts(axes, result.arrays[axis])
    else:
        axes.set_xscale("symlog")
    axes.legend(frameon=False, fontsize=8)
    return figure


def correlations(result: penchant.Result) -> Figure:
    """Corr(G_t, S) and Corr(G_t, G S G) along training (figures 2, 8)."""
    steps = result.arrays["steps"]
    figure = Figure(figsize=(5.8, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, color, label in (
        ("corr-s", BLUE, "Corr(G_t, S)"),
        ("corr-gsg", ORANGE, "Corr(G_t, G S G)"),
    ):
        _with_null(axes, steps, result, name, color, label)
    axes.set(
        xscale="symlog", xlabel="step", ylabel="Frobenius cosine", xlim=(-0.2, steps[-1] * 1.1)
    )
    axes.legend(frameon=False, fontsize=8)
    return figure


def velocity(result: penchant.Result) -> Figure:
    """Velocity between consecutive steps, and accuracies (figures 3, 12, 13)."""
    steps = result.arrays["steps"]
    figure = Figure(figsize=(5.8, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.errorbar(
        steps[1:],
        result.arrays["velocity"],
        result.arrays["velocity-stderr"],
        fmt="o-",
        color=BLUE,
        capsize=2,
        markersize=4,
        label="velocity",
    )
    axes.set(
        xscale="symlog",
        xlabel="step",
        ylabel="1 - Corr of consecutive steps",
        xlim=(-0.2, steps[-1] * 1.1),
    )
    axes.axhline(0, color="#999999", linewidth=0.8, linestyle=":")
    other = axes.twinx()
    other.plot(
        steps,
        result.arrays["train-accuracy"],
        "s--",
        color=GREEN,
        markersize=3,
        label="train accuracy",
    )
    other.plot(
        steps, result.arrays["test-accuracy"], "^:", color=GREY, markersize=3, label="test accuracy"
    )
    other.set(ylabel="accuracy", ylim=(0.4, 1.03))
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return figure


def curvature(result: penchant.Result) -> Figure:
    """Alignment of the input Hessian with the geometry, and the share of its second part, by step."""
    steps = result.arrays["steps"]
    figure = Figure(figsize=(5.8, 3.8), layout="constrained")
    axes = figure.subplots()
    _with_null(axes, steps, result, "corr-g", BLUE, "Corr(Hessian, G_t)")
    axes.errorbar(
        steps,
        result.arrays["second-share"],
        result.arrays["second-share-stderr"],
        fmt="s-",
        color=ORANGE,
        markersize=4,
        capsize=2,
        label="share of the second part",
    )
    axes.set(xscale="symlog", xlabel="step", xlim=(-0.2, steps[-1] * 1.1))
    axes.legend(frameon=False, fontsize=8)
    return figure


def accuracy_by_index(result: penchant.Result) -> Figure:
    """Accuracy against eigen-index, with the eigenvalues (figures 4, 10, 11, 14)."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    order = _by_index(
        axes,
        result,
        (("test-accuracy", "o-", BLUE, "test"), ("train-accuracy", "s--", GREY, "train")),
    )
    other = axes.twinx()
    values = result.arrays["eigenvalue"][order]
    other.semilogy(
        result.arrays["index"][order],
        np.where(values > 0, values, np.nan),
        "d",
        color=ORANGE,
        markersize=4,
    )
    other.set_ylabel("eigenvalue", color=ORANGE)
    return figure


def _by_index(
    axes: Any, result: penchant.Result, curves: tuple[tuple[str, str, str, str], ...]
) -> np.ndarray:
    index = result.arrays["index"]
    order = np.argsort(index)
    for name, style, color, label in curves:
        values, errors = result.arrays[name][order], result.arrays[f"{name}-stderr"][order]
        axes.errorbar(
            index[order],
            values,
            errors,
            fmt=style,
            color=color,
            capsize=2,
            markersize=4,
            label=label,
        )
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xlabel="eigen-index", ylabel="accuracy", ylim=(0.4, 1.03))
    axes.figure.legend(frameon=False, loc="outside upper center", ncols=3, fontsize=8)
    return order


def feature_accuracy(result: penchant.Result) -> Figure:
    """Accuracy on each feature alone by the direction of the linear one (figure 5)."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    curves = (
        ("linear-accuracy", "o-", BLUE, "linear feature"),
        ("ring-accuracy", "s-", ORANGE, "ring"),
        ("both-accuracy", "^:", GREY, "both"),
    )
    _by_index(axes, result, curves)
    axes.set_xlabel("eigen-index of the linear feature's direction")
    return figure


def elimination(result: penchant.Result) -> Figure:
    """Accuracy against what was taken out (figure 6)."""
    return _against_random(
        result, result.arrays["removed"], "least aligned with G first", "directions taken out"
    )


def pruning(result: penchant.Result) -> Figure:
    """Accuracy against the share of samples taken out (tables 1, 2)."""
    return _against_random(
        result, result.arrays["fraction"], "lowest score first", "share of samples taken out"
    )


def _against_random(result: penchant.Result, x: np.ndarray, label: str, xlabel: str) -> Figure:
    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, style, color, text in (
        ("accuracy", "o-", BLUE, label),
        ("random-accuracy", "s--", ORANGE, "random"),
    ):
        axes.errorbar(
            x,
            result.arrays[name],
            result.arrays[f"{name}-stderr"],
            fmt=style,
            color=color,
            capsize=2,
            markersize=4,
            label=text,
        )
    axes.set(xlabel=xlabel, ylabel="test accuracy")
    axes.legend(frameon=False)
    return figure


def scores(result: penchant.Result) -> Figure:
    """Distribution of scores."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.hist(result.arrays["score"], bins=40, color=BLUE)
    axes.set(xlabel="Score(x) = x^T G x / |x|^2", ylabel="training samples")
    axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return figure


def planes(result: penchant.Result) -> Figure:
    """Test samples and the learnt boundaries in each plane, one line a network (figure 1)."""
    seconds, axis = result.arrays["second"], result.arrays["axis"]
    figure = Figure(figsize=(3.9 * len(seconds), 4.0), layout="constrained")
    for axes, number in zip(
        figure.subplots(1, len(seconds), squeeze=False)[0], range(len(seconds))
    ):
        points, labels = result.arrays["points"][number], result.arrays["labels"][number]
        for label, color in ((0, ORANGE), (1, BLUE)):
            axes.scatter(*points[labels == label].T, s=6, color=color, alpha=0.7)
        for outputs in result.arrays["plane"][number]:
            if outputs.min() < 0 < outputs.max():
                axes.contour(axis, axis, outputs.T, levels=[0], colors=GREEN, linewidths=1.2)
        accuracy = result.arrays["test-accuracy"][number]
        axes.set(
            xlabel="first direction",
            ylabel=f"direction {seconds[number]}",
            title=f"test accuracy {accuracy:.2f}",
        )
        axes.set(xlim=(axis[0], axis[-1]), ylim=(axis[0], axis[-1]), aspect="equal")
    return figure
