"""Figures of the probe `frequency-learning`."""

import math

import attrs
import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, captioned, heat_map, palette
from penchant_numerics.pictures.curves import curves

from penchant_spectral_bias.shared.bands import curve

MANY = 10  # layers that a legend can list
SHARE = "learnt share of the wave"


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Learnt shares, the control, amplitudes, norms and loss, predictions; flowers, if compared."""
    if "spectrum" in result.tables:
        return own_figures(result)
    figures = {
        "learnt-share": _shares(result, "learnt-share"),
        "amplitude": _amplitudes(result),
        "norms": _norms(result),
        "prediction": _predictions(result),
    }
    if "shuffled-learnt-share" in result.tables:
        figures["shuffled"] = _shares(result, "shuffled-learnt-share")
    if "petal-losses" in result.tables:
        figures["petals"] = _petals(result)
    return figures


def own_figures(result: penchant.Result) -> dict[str, Figure]:
    """Of a network of the user's own: shares of its target, its spectrum, and its function."""
    figures = {}
    if "learnt-share" in result.tables:
        several = len(result.arrays["steps"]) > 1
        of = _shares(result, "learnt-share") if several else _shares_of_one(result)
        figures["learnt-share"] = of
    figures["spectrum"] = _spectrum(result)
    if "prediction" in result.arrays:
        axes = result.arrays["target"].ndim
        if axes == 1:
            figures["prediction"] = _predictions(result)
        elif axes == 2:
            figures["prediction"] = _planes(result)
    return figures


def _shares_of_one(result: penchant.Result) -> Figure:
    """The learnt share of every frequency, of one state."""
    share = result.tables["learnt-share"]
    (step,) = share.axes["step"]
    own = share.at(step=step)
    figure = curves(own, x="frequency", y=SHARE, level=1.0, level_label="all of the wave")
    caption = _order(result.quantities["rank-correlation"])
    return captioned(figure, caption, title="How much of each frequency is there")


def _spectrum(result: penchant.Result) -> Figure:
    """Shares of energy by frequency, with those of mixed weights."""
    spectrum = result.tables["spectrum"]
    # what is zero to rounding has no place on the axis
    values = np.maximum(spectrum.values, 1e-14)
    null = None if spectrum.null is None else np.maximum(spectrum.null, 1e-14)
    figure = curves(
        {"network": attrs.evolve(spectrum, values=values, null=None)},
        x="band",
        y="share of energy",
        xlabel="frequency",
        yscale="log",
        level=None if null is None else attrs.evolve(spectrum, values=null, null=None),
        level_label="weights in random order",
    )
    caption = result.quantities["mean-frequency"].sentence(
        above="The function is faster than with weights in random order, mean frequency",
        below="The function is slower than with weights in random order, mean frequency",
        neither="The function is about as fast as with weights in random order, mean frequency",
    )
    return captioned(figure, caption, title="Spectrum of the function")


def _planes(result: penchant.Result) -> Figure:
    """Target and last state in the first plane."""
    target, function = result.arrays["target"], result.arrays["prediction"][-1]
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    low, high = float(target.min()), float(target.max())
    for panel, values, title in zip(
        figure.subplots(1, 2), (target, function), ("target", "network")
    ):
        image = panel.imshow(values, origin="lower", vmin=low, vmax=high, aspect="auto")
        panel.set_title(title, fontsize=9)
        panel.set(xlabel="point, second axis", ylabel="point, first axis")
        figure.colorbar(image, ax=panel, shrink=0.8)
    return captioned(figure, "Target and network in the first plane.", title="The learnt function")


def _shares(result: penchant.Result, name: str) -> Figure:
    """The learnt share of every frequency over training."""
    shares = result.tables[name]
    reached = result.options.get("learnt_at", 0.8)
    figure = curves(shares, x="step", y=SHARE, level=reached, level_label="counts as learnt")
    (axes,) = figure.axes

    # from none to all, and more where there is more, but no outlier makes the rest small
    low = max(float(shares.values.min()), -1.0)
    high = min(float(shares.values.max()), 2.0)
    axes.set_ylim(min(-0.1, low), max(1.2, high))
    if name == "learnt-share":
        caption = _order(result.quantities["rank-correlation"])
        return captioned(figure, caption, title="When each frequency is learnt")
    caption = _order(result.quantities["shuffled-rank-correlation"])
    return captioned(figure, caption, title="The control: targets permuted among samples")


def _order(correlation: penchant.Quantity) -> str:
    return correlation.sentence(
        above="Lower frequencies come first, rank correlation",
        below="Higher frequencies come first, rank correlation",
        neither="No significant order of frequencies, rank correlation",
    )


def _amplitudes(result: penchant.Result) -> Figure:
    """Amplitude over the target's by frequency and step, as the thesis shows it."""
    figure = heat_map(
        result.arrays["amplitude"],
        columns=result.arrays["frequencies"],
        rows=result.arrays["steps"],
        xlabel="frequency (cycles)",
        ylabel="step",
        label="amplitude / target's",
        limits=(0, 1),
    )
    caption = "Amplitude of the learnt function by frequency (across) and step (upwards)."
    return captioned(figure, caption, title="The spectrum over training")


def _norms(result: penchant.Result) -> Figure:
    """Spectral norm of every layer and the loss over training."""
    norms, loss = result.tables["spectral-norms"], result.tables["loss"]
    steps = norms.axes["step"]
    figure = Figure(figsize=(9.5, 3.8))
    left, right = figure.subplots(1, 2)
    layers = norms.axes["layer"]
    for layer, colour in zip(layers, palette(len(layers), ordered=True)):
        own = norms.at(layer=layer)
        label = str(layer) if len(layers) <= MANY else ""
        curve(left, steps, own.values, own.stderr, colour=colour, label=label)
    left.set(xlabel="step", ylabel="spectral norm")
    if 0 < len(layers) <= MANY:
        # beside both panels a legend covers no curve
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper")

    # a loss of zero has a position on the axis too
    right.set(xlabel="step", ylabel="mean squared error", yscale="log")
    curve(right, steps, np.maximum(loss.values, 1e-12), loss.stderr, colour=BLUE, label="loss")
    caption = "Spectral norm of every layer, and the loss; bands: one standard error."
    return captioned(figure, caption, title="Layers and loss over training")


def _predictions(result: penchant.Result) -> Figure:
    """The learnt function over the target at four steps of the first training."""
    steps = result.arrays["steps"]
    target = result.arrays["target"]
    rows = _spread_rows(len(steps))
    columns = min(2, len(rows))
    lines = math.ceil(len(rows) / columns)
    figure = Figure(figsize=(9.5, 2.3 * lines + 0.8))
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)

    # both functions over the curve from its start to its end
    positions = np.arange(len(target)) / len(target)
    for panel, number in zip(axes.flat, rows):
        panel.plot(positions, target, color=BLUE, linewidth=1.0, label="target")
        prediction = result.arrays["prediction"][number]
        panel.plot(positions, prediction, color=GREEN, linewidth=1.3, label="network")
        panel.set_title(f"step {steps[number]:g}")

    # labels and legend once for all panels
    figure.supxlabel("position z along the curve", fontsize=10)
    figure.supylabel("value", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2)
    caption = "Target and network of the first training at some of the recorded steps."
    return captioned(figure, caption, title="The learnt function")


def _spread_rows(count: int) -> np.ndarray:
    """Up to four recorded steps, denser at the beginning, where most happens."""
    last = count - 1
    if not last:
        return np.array([0])
    spread = np.geomspace(1, last, 4)
    return np.unique(spread.round().astype(int))


def _petals(result: penchant.Result) -> Figure:
    """The loss on every flower over training, all in one plot."""
    losses = result.tables["petal-losses"]
    figure = curves(losses, x="step", y="mean squared error", yscale="log")
    caption = result.quantities["petal-loss-gain"].sentence(
        above="Petals make the same waves easier, final loss with fewest minus most",
        below="Petals make the same waves harder, final loss with fewest minus most",
        neither="Petals make no significant difference, final loss with fewest minus most",
    )
    return captioned(figure, caption, title="The same waves on flowers")
