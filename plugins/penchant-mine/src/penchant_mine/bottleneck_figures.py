"""Figures of the information bottleneck, drawn from stored results."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure

PUBLISHED = {
    "baseline": 1.38,
    "dropout": 1.34,
    "confidence-penalty": 1.36,
    "label-smoothing": 1.40,
    "variational": 1.13,
    "variational-noise": 1.06,
    "mine-gaussian": 1.11,
    "mine-propagated": 1.10,
    "mine-additive": 1.01,
}  # per cent, table 5.3: 60000 samples, 200 epochs


def errors(result: penchant.Result) -> Figure:
    """Misclassification of every row with its error; the published numbers are marked as such."""
    names = [name.removeprefix("error-") for name in result.quantities if name.startswith("error-")]
    figure = Figure(figsize=(6.4, 0.38 * len(names) + 1.3), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(names))
    values = [result.quantities[f"error-{name}"] for name in names]
    axes.errorbar(
        [100 * q.value for q in values],
        places,
        xerr=[200 * (q.stderr or 0) for q in values],
        fmt="o",
        color="#2b5c8a",
        capsize=3,
    )
    axes.plot(
        [PUBLISHED[name] for name in names],
        places,
        "|",
        color="#d9822b",
        markersize=10,
        label="published (full scale)",
    )
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlabel="misclassified, % (two standard errors)", xlim=(0, None))
    axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def sweep(result: penchant.Result) -> Figure:
    """Information and error of the Gaussian encoder against beta."""
    beta, figure = result.arrays["beta"], Figure(figsize=(6.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, label, colour in (
        ("information-by-beta", "estimated", "#2b5c8a"),
        ("density-by-beta", "from the encoder's density", "#4f8a5b"),
    ):
        left.errorbar(
            beta,
            result.arrays[name],
            2 * result.arrays[f"{name}-stderr"],
            fmt="o-",
            capsize=2,
            color=colour,
            label=label,
        )
    right.errorbar(
        beta,
        100 * result.arrays["error-by-beta"],
        200 * result.arrays["error-by-beta-stderr"],
        fmt="o-",
        capsize=2,
        color="#a23b52",
    )
    positive = beta[beta > 0]
    for axes in (left, right):
        axes.set_xscale("symlog", linthresh=float(positive.min()) if len(positive) else 1.0)
        axes.set_xlabel("beta")
    left.set_ylabel("I(X; Z), nats")
    right.set_ylabel("misclassified, %")
    figure.legend(frameon=False, fontsize=8, loc="outside upper left", ncols=2)
    return figure
