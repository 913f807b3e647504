"""Figures of the probe `peak-ablation`."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import heat_map

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {"spectrum": peak_spectra(result), "prediction": peak_predictions(result)}


def peak_spectra(result: penchant.Result) -> Figure:
    """Spectrum of the learnt function over training, one panel a clip."""
    spectrum, points = result.arrays["spectrum"], result.arrays["prediction"].shape[-1]
    return _panels(
        result,
        spectrum,
        result.arrays["frequencies"],
        "frequency",
        "|DFT| / N",
        vmin=0,
        vmax=1.2 / points,
    )


def peak_predictions(result: penchant.Result) -> Figure:
    """The learnt function over training, one panel a clip."""
    values = result.arrays["prediction"]
    places = np.round(np.arange(values.shape[-1]) / values.shape[-1], 2)
    return _panels(
        result,
        values,
        places,
        "z",
        "prediction",
        vmin=min(0.0, float(values.min())),
        vmax=max(0.1, float(values.max())),
    )


def _panels(
    result: penchant.Result, values: Any, columns: Any, xlabel: str, label: str, **limits: Any
) -> Figure:
    clips, steps = result.arrays["weight-clips"], result.arrays["steps"]
    figure = Figure(figsize=(1.4 + 2.9 * len(clips), 3.3), layout="constrained")
    axes = figure.subplots(1, len(clips), squeeze=False, sharey=True)[0]
    for panel, clip, each in zip(axes, clips, values):
        drawn = heat_map(panel, each, columns, steps, **limits)
        panel.set_title(f"clip {clip:g}" if clip else "no clip", fontsize=9)
        panel.set_xlabel(xlabel)
        panel.tick_params(axis="x", labelsize=7)
    axes[0].set_ylabel("step")
    figure.colorbar(drawn, ax=list(axes), label=label)
    return figure
