"""Figures of the probe `pooling-theory`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, GREEN, GREY, ORANGE, SIZE, captioned
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy and curvature by frequency, and the loss curves."""
    return {
        "accuracy": _accuracy(result),
        "curvature": _curvature(result),
        "loss-curves": _loss_curves(result),
    }


def _accuracy(result: penchant.Result) -> Figure:
    """Simulation, corrected theorem, and the paper's two versions."""
    arrays = result.arrays
    positions = arrays["frequencies"]
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    axes.errorbar(
        positions,
        arrays["simulation"],
        arrays["simulation-stderr"],
        fmt=".",
        color=BLUE,
        label="simulation",
    )
    axes.plot(positions, arrays["theory"], color=ORANGE, label="theorem, corrected")
    # The paper's own versions, for comparison.
    for name, style, label in (
        ("theory-text", "--", "as printed in the text"),
        ("theory-supplement", ":", "in the supplement"),
    ):
        axes.plot(positions, arrays[name], style, color=GREY, linewidth=1, label=label)
    axes.axhline(0.5, color=FAINT, linewidth=0.8, linestyle=":")
    axes.set(xlabel="frequency", ylabel="best accuracy after pooling", ylim=(0.45, 1.03))
    axes.legend()
    caption = (
        "Simulated accuracies and the theorem, corrected and as printed. Largest deviation from "
        f"the corrected one: {result.quantities['deviation'].with_significance}."
    )
    return captioned(figure, caption, title="Best accuracy after pooling, by frequency")


def _curvature(result: penchant.Result) -> Figure:
    """Mean curvature along phi_l and theta_(l mod M) above, the ratio zeta below."""
    arrays = result.arrays
    positions = arrays["frequencies"]
    figure = Figure(figsize=(6.0, 4.6))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    # Dots are measured, lines are the lemma.
    for name, colour, label in (
        ("curvature", BLUE, "filter"),
        ("theta-curvature", GREEN, "readout"),
    ):
        upper.errorbar(
            positions,
            arrays[name],
            arrays[f"{name}-stderr"],
            fmt=".",
            color=colour,
            label=f"{label}, measured",
        )
        upper.plot(
            positions, arrays[f"{name}-theory"], color=colour, linewidth=1, label=f"{label}, lemma"
        )
    upper.set_ylabel("mean second derivative\nof the loss")
    upper.legend(ncols=2)
    lower.plot(positions, arrays["zeta"], color=ORANGE)
    lower.set(xlabel="frequency", ylabel="zeta")
    caption = (
        "Measured curvatures and the corrected lemma. Largest deviation: "
        f"{result.quantities['curvature-deviation'].with_significance}."
    )
    return captioned(figure, caption, title="Curvature of the loss after pooling, by frequency")


def _loss_curves(result: penchant.Result) -> Figure:
    """Training loss of the linear model, one curve per frequency."""
    figure = curves(
        result.tables["loss-curves"], x="step", y="training loss (squared error)", yscale="log"
    )
    caption = "Loss while training by frequency; bands are standard errors."
    correlation = result.quantities.get("rank-correlation")
    if correlation is not None:
        caption += (
            f" Rank correlation of the mean loss with minus zeta: {correlation.with_significance}."
        )
    return captioned(figure, caption, title="Training of the linear model of pooling")
