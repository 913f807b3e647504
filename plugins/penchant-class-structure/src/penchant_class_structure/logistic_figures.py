"""Figures of the probe `logistic-theory`."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure

MEASURED, THEORY = "#2b5c8a", "#d9822b"


def spectra(result: penchant.Result) -> Figure:
    """Eigenvalues of the sample's G, theory as steps: probabilities set, and of a trained classifier."""
    figure = Figure(figsize=(8.8, 3.6), layout="constrained")
    counts = result.arrays["multiplicity"].astype(int)
    titles = ("probabilities set", "trained classifier")
    names = (("spectrum", "theory"), ("trained-spectrum", "trained-theory"))
    for axes, title, (spectrum, expected) in zip(figure.subplots(1, 2), titles, names):
        values = result.arrays[spectrum]
        steps = np.repeat(result.arrays[expected], counts)
        places = np.arange(1, len(values) + 1)
        axes.plot(places, values, color=MEASURED, marker=".", linestyle="none", label="sample")
        axes.plot(places, steps, color=THEORY, drawstyle="steps-mid", label="theorem 8.1")
        axes.set(xlabel="index", ylabel="eigenvalue of G", title=title)
        axes.legend(frameon=False)
    return figure


def sweep(result: penchant.Result) -> Figure:
    """Error and ratio of outliers to bulk against the separation."""
    figure = Figure(figsize=(8.8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    t = result.arrays["separations"]
    left.plot(
        t,
        result.arrays["sweep-error-probability"],
        color=MEASURED,
        marker="o",
        label="error probability a",
    )
    left.plot(t, result.arrays["sweep-test-error"], color="#4c9a4c", marker="s", label="test error")
    left.set(xlabel="separation t", ylabel="share")
    right.plot(t, result.arrays["sweep-ratio"], color=MEASURED, marker="o", label="measured")
    right.plot(
        t,
        result.arrays["sweep-ratio-theory"],
        color=THEORY,
        marker="_",
        markersize=12,
        linestyle=":",
        label="theorem 8.1",
    )
    right.set(xlabel="separation t", ylabel="outliers / bulk")
    for axes in (left, right):
        axes.legend(frameon=False)
    return figure
