"""Figures of the probe `information-bottleneck`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, RED, VIOLET, captioned

PUBLISHED = {  # per cent, table 5.3: 60000 samples, 200 epochs
    "baseline": 1.38,
    "dropout": 1.34,
    "confidence-penalty": 1.36,
    "label-smoothing": 1.40,
    "variational": 1.13,
    "variational-noise": 1.06,
    "mine-gaussian": 1.11,
    "mine-propagated": 1.10,
    "mine-additive": 1.01,
}
BOUNDS = {
    "information-by-beta": ("upper bound (density)", RED),
    "density-by-beta": ("over the test inputs only", GREEN),
    "lower-by-beta": ("lower bound (estimated)", BLUE),
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Errors of the rows; information and error against beta."""
    figures = {
        "errors": captioned(
            _errors(result),
            "Misclassified test samples with two standard errors; bars: published at full scale.",
            title="Test error of regularised classifiers",
        )
    }
    if "betas" in result.arrays:
        figures["beta"] = captioned(
            _sweep(result), _fall(result), title="Information and error of the Gaussian encoder"
        )
    return figures


def _fall(result: penchant.Result) -> str:
    """What the largest beta does to both bounds, in nats."""
    changes = []
    for name, label in (("information-by-beta", "upper"), ("lower-by-beta", "lower")):
        first, last = (result.arrays[name][position] for position in _ends(result))
        changes.append(f"the {label} bound goes from {first:.3g} to {last:.3g} nats")
    lowest, highest = (result.arrays["betas"][position] for position in _ends(result))
    listed = " and ".join(changes)
    return (
        f"From beta {lowest:g} to {highest:g} {listed}. A lower bound that changes alone says that "
        "the estimator misses information that is still there."
    )


def _ends(result: penchant.Result) -> tuple[int, int]:
    """Where the smallest and the largest beta stand."""
    betas = result.arrays["betas"]
    return int(betas.argmin()), int(betas.argmax())


def _errors(result: penchant.Result) -> Figure:
    names = list(result.options["rows"])
    figure = Figure(figsize=(6.4, 0.38 * len(names) + 1.6))
    axes = figure.subplots()
    positions = np.arange(len(names))
    quantities = [result.quantities[f"error-{name}"] for name in names]
    values = [100 * quantity.value for quantity in quantities]
    errors = [200 * (quantity.stderr or 0.0) for quantity in quantities]
    axes.errorbar(values, positions, xerr=errors, fmt="o", color=BLUE, capsize=3)
    # Published numbers are for the full scale, and say so.
    published = [PUBLISHED.get(name, np.nan) for name in names]
    axes.plot(
        published, positions, "|", color=ORANGE, markersize=10, label="published (full scale)"
    )
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    assert quantities[0].null is not None  # the share of the other classes
    chance = 100 * quantities[0].null
    axes.set(xlabel=f"misclassified, % (most frequent class: {chance:.0f})", xlim=(0, None))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def _sweep(result: penchant.Result) -> Figure:
    betas = result.arrays["betas"]
    figure = Figure(figsize=(7.2, 3.8))
    left, right = figure.subplots(1, 2)
    for name, (label, colour) in BOUNDS.items():
        errors = 2 * result.arrays[f"{name}-stderr"]
        left.errorbar(betas, result.arrays[name], errors, fmt="o-", color=colour, label=label)
    right.errorbar(
        betas,
        100 * result.arrays["error-by-beta"],
        200 * result.arrays["error-by-beta-stderr"],
        fmt="o-",
        color=VIOLET,
    )
    # Betas grow by factors, and 0 is one of them.
    positive = betas[betas > 0]
    for axes in (left, right):
        axes.set_xscale("symlog", linthresh=float(positive.min()) if len(positive) else 1.0)
        axes.set_xlabel("beta")
    # The upper bound may be a hundred times the lower one, which may be 0 or below.
    left.set_yscale("symlog", linthresh=1.0)
    left.set_ylabel("I(X; Z), nats")
    right.set_ylabel("misclassified, %")
    figure.legend(loc="outside lower center", ncols=3)
    return figure
