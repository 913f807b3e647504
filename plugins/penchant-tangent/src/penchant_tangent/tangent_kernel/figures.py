"""Figures of the probe `tangent-kernel`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    captioned,
    legend_beside,
    spectrum,
)


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The spectrum with its trace ratios, and the alignment of every layer."""
    return {"spectrum": _spectrum(result), "layers": _layers(result)}


def _spectrum(result: penchant.Result) -> Figure:
    """Eigenvalues on a logarithmic axis, and the share of the leading ones."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    spectrum(result.arrays["eigenvalues"], axes=left, label="tangent kernel")

    # how few of them make the trace
    shares = result.arrays["trace-ratios"]
    counts = np.arange(1, len(shares) + 1)
    right.plot(counts, shares, color=BLUE)
    for k in result.options["ratios"]:
        if k <= len(shares):
            text = f"T_{k} = {shares[k - 1]:.2f}"
            right.plot(k, shares[k - 1], "o", color=ORANGE, label=text)
    right.set_xscale("log")
    right.set_xlabel("leading eigenvalues")
    right.set_ylabel("share of the trace")
    right.set_ylim(0, 1.05)
    legend_beside(right, fontsize=7)
    rank = result.quantities["effective-rank"]
    caption = f"Eigenvalues, and the share of the leading ones; effective rank {rank}."
    return captioned(figure, caption, title="Spectrum of the tangent kernel")


def _layers(result: penchant.Result) -> Figure:
    """Alignment and trace of every layer's kernel, from the input to the output."""
    alignment, trace = result.tables["layer-cka"], result.tables["layer-trace"]
    names = result.labels["layers"]
    positions = np.arange(len(names))
    figure = Figure(figsize=(max(8.5, 0.35 * len(names) + 3), 4), layout="constrained")
    left, right = figure.subplots(1, 2)

    # alignment, with that of labels in random order
    left.errorbar(
        positions,
        alignment.values,
        alignment.error,
        fmt="o-",
        color=BLUE,
        capsize=2,
        label="of the layer",
    )
    left.plot(positions, alignment.null, "--", color=BLUE, alpha=0.6, label="null")
    whole = result.quantities["cka"]
    left.axhline(whole.value, color=FAINT, linestyle=":", label="of the whole kernel")
    left.set_ylabel("alignment with the labels (CKA)")
    left.set_ylim(bottom=0)
    legend_beside(left, fontsize=7)

    # how much of the kernel a layer is
    right.bar(positions, trace.values, yerr=trace.error, color=GREEN, capsize=2)
    right.set_ylabel("trace of the layer's kernel")
    for panel in (left, right):
        _name_layers(panel, names)
    caption = f"Alignment with the labels, and trace, per layer; all layers: {whole}."
    return captioned(figure, caption, title="Alignment per layer")


def _name_layers(panel: Axes, names: tuple[str, ...]) -> None:
    """Layers along the axis, by name."""
    panel.set_xlabel("layer")
    panel.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
