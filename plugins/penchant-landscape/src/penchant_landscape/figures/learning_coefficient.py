"""Figures of the probe `learning-coefficient`."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned, palette


def headline(result: penchant.Result) -> str | None:
    """The coefficient beside that of a regular model, or that there is none."""
    coefficient = result.quantities["learning-coefficient"]
    local = result.quantities["localised-coefficient"]
    if coefficient.missing and not local.missing:
        return (
            f"The localised coefficient is {local.value:.3g} ± {local.stderr:.2g}; its limit of "
            "large n is out of reach."
        )
    if coefficient.missing:
        return "The chains do not allow a learning coefficient; the warnings say why."
    return (
        f"The learning coefficient is {coefficient.value:.3g} ± {coefficient.stderr:.2g}; "
        f"a regular model with as many parameters has {coefficient.null:g}."
    )


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Chains and their running means; the coefficient along the training where there are steps."""
    figures = {"chains": chains(result)}
    if len(result.arrays["steps"]) > 1:
        figures["training"] = training(result)
    return figures


def chains(result: penchant.Result) -> Figure:
    """Running means of chains, and the autocorrelation of their draws."""
    figure = Figure(figsize=(8.8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    excess = result.arrays["excess"]
    counts = np.arange(1, excess.shape[1] + 1)
    means = np.cumsum(excess, axis=1) / counts
    for values, colour in zip(means, palette(len(means))):
        left.plot(counts, values, color=colour, linewidth=0.9)
    localised = result.quantities["localised-coefficient"]
    if not localised.missing:
        left.axhline(localised.value, color=FAINT, linestyle=":", label="mean of all chains")
        left.legend(frameon=False, fontsize=8)
    left.set(xlabel="stored draws", ylabel="n beta (mean loss - loss of the network)")
    values = result.arrays["autocorrelations"]
    right.plot(np.arange(len(values)), values, color=BLUE)
    right.axhline(0, color=FAINT, linestyle=":")
    right.set(xlabel="lag, stored draws", ylabel="autocorrelation")
    verdict = "no number is given" if localised.missing else "its mean is the coefficient"
    return captioned(
        figure,
        "Left: running mean of n beta (L_n(w) - L_n(w*)) of every chain, of which "
        f"{verdict}. Right: autocorrelation of the draws, chains that disagree included.",
        title="Langevin chains around the network",
    )


def training(result: penchant.Result) -> Figure:
    """The coefficient along the training."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    panel = figure.subplots()
    arrays = result.arrays
    panel.errorbar(
        arrays["steps"],
        arrays["coefficients"],
        yerr=2 * arrays["coefficients-stderr"],
        marker="o",
        color=ORANGE,
        capsize=2,
    )
    panel.set(xlabel="step of training", ylabel="localised coefficient")
    return captioned(
        figure,
        "The coefficient at steps of the training, with two standard errors over chains; steps "
        "without a point are those whose chains allow no number.",
        title="Learning coefficient along the training",
    )
