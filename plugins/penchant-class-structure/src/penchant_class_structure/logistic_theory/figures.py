"""Figures of the probe `logistic-theory`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, ORANGE, captioned
from penchant_numerics.pictures.curves import Panel, panels

_PAIRS = {
    "probabilities set": ("spectrum", "theory"),
    "trained classifier": ("trained-spectrum", "trained-theory"),
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Measured eigenvalues beside theory; what changes with the separation."""
    return {"spectrum": spectra(result), "separation": sweep(result)}


def spectra(result: penchant.Result) -> Figure:
    """Eigenvalues of the sample's G, theory as steps: probabilities set, and trained."""
    figure = Figure(figsize=(8.8, 3.8))
    counts = result.arrays["multiplicity"].astype(int)
    axes = figure.subplots(1, 2)
    for panel, (title, (spectrum, expected)) in zip(axes, _PAIRS.items()):
        values = result.arrays[spectrum]
        steps = np.repeat(result.arrays[expected], counts)
        positions = np.arange(1, len(values) + 1)
        panel.plot(positions, values, ".", color=BLUE, label="sample")
        panel.plot(positions, steps, color=ORANGE, drawstyle="steps-mid", label="theorem 8.1")
        panel.set(xlabel="rank", ylabel="eigenvalue of G", title=title)
        panel.legend()
    return captioned(
        figure,
        "Eigenvalues of the sample's G and of the theorem. The theorem assumes symmetric "
        "probabilities, which a trained classifier does not have.",
        title="Logistic regression on a Gaussian mixture",
    )


def sweep(result: penchant.Result) -> Figure:
    """Error and ratio of outliers to bulk against the separation."""
    tables = result.tables
    errors = {
        "error probability a": tables["sweep-error-probability"],
        "test error": tables["sweep-test-error"],
    }
    ratios = {"measured": tables["sweep-ratio"], "theorem 8.1": tables["sweep-ratio-theory"]}
    chance = 1 - 1 / tables["multiplicity"].values[0]
    figure = panels(
        {
            "errors": Panel(errors, "share", level=chance, level_label="guessing"),
            "outliers": Panel(
                ratios, "outliers / bulk", level=1.0, level_label="classes with equal means"
            ),
        },
        x="separation",
        xlabel="separation t",
    )
    return captioned(
        figure,
        "Error rates, and the ratio of outliers to bulk, by the separation of the classes.",
        title="Error rates and outliers by separation",
    )
