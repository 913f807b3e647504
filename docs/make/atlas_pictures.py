"""Pictures of the atlas: a card for an architecture, and all of them side by side."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import penchant
from atlas_findings import probe_of, quantities_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import pictures
from PIL import Image

SHOWN = 6  # leading NADs of a card
TITLES = {
    "nad": "NADs",
    "average-geometry": "average geometry G",
    "tangent-kernel": "tangent kernel",
}
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5)  # shares
ROUNDING = 1e-6  # of the largest eigenvalue, in single precision


def draw_card(found: dict[str, penchant.Result], entry: dict[str, Any]) -> Image.Image:
    """NADs in pixels and in Fourier space, shares of frequencies, spectra.

    Args:
        found: Results by probe; those that failed are left out of the picture.
        entry: The numbers of the architecture, with its spectra.

    Returns:
        The picture.
    """
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    side = found["nad"].shape[-1]
    _draw_directions(upper.subplots(2, SHOWN), found["nad"].arrays["directions"][:SHOWN], side)
    shares, *panels = lower.subplots(1, 4)
    geometry = found.get("average-geometry")
    if geometry is not None and geometry.status == "done":
        _draw_shares(shares, geometry.arrays["frequency-shares"], side)
    else:
        shares.set_axis_off()
    for panel, (probe, title) in zip(panels, TITLES.items(), strict=True):
        spectra = entry[probe_of(entry, probe)].get("spectra")
        if spectra:
            _draw_spectrum(panel, spectra, title)
        else:
            panel.set_axis_off()
    return _as_image(figure)


def draw_strip(result: penchant.Result) -> Image.Image:
    """The first four NADs side by side, a pixel for a pixel."""
    side = result.shape[-1]
    columns = []
    for row in result.arrays["directions"][:4]:
        limit = max(float(np.abs(row).max()), 1e-30)
        grey = np.rint(127.5 * (1 + row.reshape(side, side) / limit)).astype(np.uint8)
        columns.append(np.pad(grey, 1, constant_values=255))
    return Image.fromarray(np.concatenate(columns, axis=1), "L")


def _draw_directions(grid: Any, rows: np.ndarray, side: int) -> None:
    for number, row in enumerate(rows):
        picture = row.reshape(side, side)
        limit = np.abs(picture).max()
        amplitudes = np.abs(np.fft.fftshift(np.fft.fft2(picture)))
        grid[0, number].imshow(picture, cmap="gray", vmin=-limit, vmax=limit)
        grid[0, number].set_title(f"NAD {number}", fontsize=9)
        grid[1, number].imshow(amplitudes, cmap="magma")
    for panel in grid.ravel():
        panel.set(xticks=[], yticks=[])
    grid[0, 0].set_ylabel("pixels")
    grid[1, 0].set_ylabel("Fourier")


def _draw_shares(axes: Axes, shares: np.ndarray, side: int) -> None:
    """The share of every frequency; brighter is more than what equal shares would be."""
    centred = np.fft.fftshift(np.asarray(shares).reshape(side, side))
    ratio = np.log10(centred * centred.size)
    shown = axes.imshow(ratio, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set(xticks=[], yticks=[])
    axes.set_title("frequencies in G", fontsize=9)
    bar = axes.figure.colorbar(shown, ax=axes, ticks=[-1, 0, 1], shrink=0.8)
    bar.ax.set_yticklabels(["1/10", "equal", "10"], fontsize=7)


def _draw_spectrum(axes: Axes, spectra: dict[str, list[float]], title: str) -> None:
    arrays = {name: np.array(values) for name, values in spectra.items()}
    values = arrays["eigenvalues"]
    pictures.spectrum(
        np.where(values > ROUNDING * values.max(), values, np.nan),
        stderr=arrays.get("eigenvalues-stderr"),
        null=arrays.get("null-eigenvalues"),
        null_spread=arrays.get("null-eigenvalues-spread"),
        null_label="isotropic",
        axes=axes,
    )
    axes.set_title(title, fontsize=9)
    axes.set_ylabel("")
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)


def draw_overview(whole: dict[str, Any]) -> Image.Image:
    """Shares of low frequencies with two standard errors, sorted, coloured by family."""
    quantities = quantities_of(whole, "average-geometry", "low-frequencies")
    order = sorted(quantities, key=lambda label: quantities[label]["value"])
    families = list(dict.fromkeys(whole[label]["family"] for label in quantities))
    colours = dict(zip(families, pictures.palette(len(families)), strict=True))
    figure = Figure(figsize=(8, 0.21 * len(order) + 1), layout="constrained")
    axes = figure.subplots()
    for family in families:
        positions = [
            position for position, label in enumerate(order) if whole[label]["family"] == family
        ]
        chosen = [quantities[order[position]] for position in positions]
        axes.errorbar(
            [each["value"] for each in chosen],
            positions,
            xerr=[2 * each["stderr"] for each in chosen],
            fmt="o",
            color=colours[family],
            label=family,
        )
    axes.axvline(quantities[order[0]]["null"], color="0.4", linestyle="--", label="no preference")
    axes.set_yticks(range(len(order)), order, fontsize=8)
    axes.set(xlabel="share of low frequencies", xscale="log", ylim=(-1, len(order)))
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.grid(axis="x")
    axes.legend(fontsize=8, loc="lower right")
    return _as_image(figure)


def draw_gradients(whole: dict[str, Any]) -> Image.Image:
    """Mean squared input gradients on a logarithmic axis, sorted; the two ends are named."""
    quantities = quantities_of(whole, "nad", "trace")
    order = sorted(quantities, key=lambda label: quantities[label]["value"])
    values = [quantities[label]["value"] for label in order]
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(range(len(order)), values, "o", color=pictures.BLUE, markersize=5)
    for position, align in ((0, "left"), (len(order) - 1, "right")):
        axes.annotate(
            order[position],
            (position, values[position]),
            xytext=(0, 9) if position == 0 else (-9, 0),
            textcoords="offset points",
            ha=align,
            fontsize=9,
        )
    axes.set(xlabel="architectures, sorted", ylabel="mean squared gradient", xticks=[])
    axes.grid(axis="y")
    return _as_image(figure)


def _as_image(figure: Figure) -> Image.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return Image.open(buffer).convert("RGB")
