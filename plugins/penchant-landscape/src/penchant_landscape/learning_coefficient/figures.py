"""Figures of the probe `learning-coefficient`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, captioned, palette
from penchant_numerics.pictures.curves import curves


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
    if "learning-coefficient-by-module" in result.tables:
        figures["modules"] = modules(result)
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
    figure = curves(
        result.tables["coefficients"],
        x="step",
        y="localised coefficient",
        xlabel="step of training",
    )
    return captioned(
        figure,
        "The coefficient at steps of the training, with standard errors over chains; steps "
        "without a point are those whose chains allow no number.",
        title="Learning coefficient along the training",
    )


def modules(result: penchant.Result) -> Figure:
    """The coefficient of each module beside half its parameters."""
    tables = {
        "localised, at this n": result.tables["localised-coefficient-by-module"],
        "limit of large n": result.tables["learning-coefficient-by-module"],
    }
    figure = curves(tables, x="module", y="learning coefficient", yscale="log")
    return captioned(
        figure,
        "The coefficient of the loss as a function of each module's parameters alone, with "
        "standard errors; dashed: half the module's parameters, a regular model. A module "
        "without a point allows no number.",
        title="Learning coefficient by module",
    )
