"""Figures of the probe `hessian-spectrum`."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_class_structure._log_axes import few_ticks

COLORS = {"hessian": "#2b5c8a", "gauss-newton": "#d9822b", "residual": "#4c9a4c"}
TITLES = {"hessian": "Hessian", "gauss-newton": "G (Gauss-Newton)", "residual": "E = Hessian - G"}


def spectra(result: penchant.Result, *, zoom: bool = False) -> Figure:
    """Densities on a log axis, a column for each set of samples, leading eigenvalues marked; or only the bulk."""
    prefixes = [prefix for prefix in ("", "test-") if f"{prefix}density-grid" in result.arrays]
    figure = Figure(figsize=(5.2 * len(prefixes), 6.6), layout="constrained")
    axes = figure.subplots(len(COLORS), len(prefixes), squeeze=False, sharex="col")
    named = result.options.get("samples", "train")
    for column, prefix in enumerate(prefixes):
        title = "test samples" if prefix or named == "test" else "training samples"
        for row, name in enumerate(COLORS):
            _density(axes[row, column], result, prefix, name, zoom=zoom)
        few_ticks(*axes[:, column])
        axes[0, column].set_title(title)
        axes[-1, column].set_xlabel("eigenvalue")
    return figure


def _density(axes: Any, result: penchant.Result, prefix: str, name: str, *, zoom: bool) -> None:
    part = "bulk-" if zoom else ""
    grid, density = (
        result.arrays[f"{prefix}{part or 'density-'}grid"],
        result.arrays[f"{prefix}{part}density-{name}"],
    )
    floor = density.max() * 1e-9
    axes.semilogy(grid, np.maximum(density, floor), color=COLORS[name], linewidth=1.2)
    axes.set_ylim(floor, density.max() * 3)
    axes.set_ylabel(f"density, {TITLES[name]}", fontsize=8)
    suffix = {"hessian": "", "gauss-newton": "-gauss-newton"}.get(name)
    top = result.arrays.get(f"{prefix}top-eigenvalues{suffix}") if suffix is not None else None
    if top is not None and not zoom:
        heights = np.full(len(top), floor * 6)
        axes.plot(
            top,
            heights,
            linestyle="none",
            marker="|",
            markersize=11,
            color="black",
            label=f"{len(top)} leading",
        )
        axes.legend(frameon=False, fontsize=8, loc="upper right")


def tail(result: penchant.Result) -> Figure:
    """The density of |eigenvalue| of E on two log axes, with the fitted line."""
    prefixes = [prefix for prefix in ("", "test-") if f"{prefix}log-grid" in result.arrays]
    figure = Figure(figsize=(5.2 * len(prefixes), 3.6), layout="constrained")
    for axes, prefix in zip(figure.subplots(1, len(prefixes), squeeze=False)[0], prefixes):
        grid, density = (
            result.arrays[f"{prefix}log-grid"],
            result.arrays[f"{prefix}log-density-residual"],
        )
        values = np.exp(grid) - result.options.get("epsilon", 0.0)
        shown = (values > 0) & (density > density.max() * 1e-6)
        axes.loglog(
            values[shown],
            density[shown] / values[shown],
            color=COLORS["residual"],
            linewidth=0.8,
            label="E",
        )
        line = result.arrays.get(f"{prefix}tail-line")
        if line is not None:
            places = result.arrays[f"{prefix}tail-grid"]
            axes.loglog(
                np.exp(places),
                result.arrays[f"{prefix}tail-density"],
                "o",
                markersize=4,
                color=COLORS["hessian"],
                label="bins",
            )
            fit = result.quantities[f"{prefix}tail-fit"].value
            label = f"|eigenvalue|^{line[0]:.2f}, R² = {fit:.3f}"
            axes.loglog(
                np.exp(places),
                np.exp(line[1] + line[0] * places),
                color="black",
                linestyle="--",
                label=label,
            )
        named = (
            "test samples"
            if prefix or result.options.get("samples") == "test"
            else "training samples"
        )
        axes.set(xlabel="|eigenvalue|", ylabel="density", title=named)
        few_ticks(axes)
        axes.legend(frameon=False, fontsize=8)
    return figure
