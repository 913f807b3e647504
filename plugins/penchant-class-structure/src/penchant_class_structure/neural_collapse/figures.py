"""Figures of the probe `neural-collapse`: the measures along training, and by layer."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, GREY, ORANGE, captioned, log_ticks
from penchant_numerics.statistics import significant

NAMES = {
    "nc1": "NC1: scatter within classes",
    "nc2-simplex": "NC2: angles, from a simplex",
    "nc2-norms": "NC2: norms, spread",
    "nc4": "NC4: nearest mean disagrees",
}


_COUNTED = {2: "two", 3: "three", 4: "four"}


def headline(result: penchant.Result) -> str | None:
    """How many of the four measures are below their nulls, in one sentence."""
    named = {"NC1": "nc1", "NC2": "nc2-simplex", "NC3": "nc3", "NC4": "nc4"}
    named = {label: name for label, name in named.items() if name in result.quantities}
    measures = [result.quantities[name] for name in named.values()]
    decided = significant([quantity.null_p_value for quantity in measures])
    below = []
    for label, quantity, holds in zip(named, measures, decided):
        if holds and quantity.null is not None and quantity.value < quantity.null:
            below.append(label)
    if not below:
        listed = "NC1 to NC4" if len(named) == 4 else ", ".join(named)
        return f"None of {listed} is below its value for permuted labels: nothing has collapsed."
    ratio = result.quantities["nc1"].value
    text = (
        f"{', '.join(below)} of {_COUNTED[len(named)]} are below their values for permuted "
        f"labels; the scatter within classes is {ratio:.2g} of that between them (NC1)"
    )
    # in many dimensions class means are close to a simplex whatever they are
    chance = result.arrays["nc2-simplex-isotropic"][-1]
    if result.quantities["nc2-simplex"].value > chance:
        text += f", but angles are no closer to a simplex than isotropic features ({chance:.2g})"
    return f"{text}."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Along training where there are several steps, and by layer at the last of them."""
    figures = {}
    if len(result.arrays["steps"]) > 1:
        figures["training"] = _training(result)
    figures["layers"] = _layers(result)
    return figures


def _training(result: penchant.Result) -> Figure:
    """The last layer's measures by step, with those of permuted labels and isotropic features."""
    steps = result.arrays["steps"]
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    panels = figure.subplots(2, 3)
    for panel, (name, title) in zip((panels[0, 0], panels[0, 1], panels[0, 2]), NAMES.items()):
        _curve(panel, steps, *_last(result, name), title=title)
        level = result.arrays[f"{name}-isotropic"][-1]
        panel.axhline(level, color=GREY, linestyle=":", label="isotropic")
        if f"{name}-classifier-by-step" in result.arrays:
            values = result.arrays[f"{name}-classifier-by-step"]
            panel.plot(steps, values, "s-", color=GREEN, markersize=3, label="classifier")
    nc3 = [result.arrays[f"nc3-{ending}"] for ending in ("by-step", "by-step-stderr", "null")]
    _curve(panels[1, 0], steps, *nc3, title="NC3: classifier, from the means")
    _curve(panels[1, 1], steps, *_last(result, "nc4"), title=NAMES["nc4"])
    for panel in panels.flat[:5]:
        _log(panel)
    split = result.options["split"]
    panels[1, 2].plot(steps, result.arrays["accuracies"], "o-", color=BLUE, markersize=3)
    panels[1, 2].set_title(f"{split} accuracy", fontsize=9)
    for panel in panels.flat:
        panel.set_xlabel("training step", fontsize=8)
        panel.set_ylabel("value", fontsize=8)
        panel.tick_params(labelsize=8)
    _legend(figure, panels[0, 1])
    caption = (
        "Measures of the last layer with standard errors over samples; dashed: permuted labels; "
        "dotted: isotropic features of this dimension. 0 is collapse."
    )
    return captioned(figure, caption, title="Neural collapse along training")


def _last(result: penchant.Result, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, errors and nulls of the last layer by step."""
    arrays = result.arrays
    keys = (f"{name}-by-layer", f"{name}-by-layer-stderr", f"{name}-null")
    values, errors, nulls = (arrays[key][:, -1] for key in keys)
    return values, errors, nulls


def _layers(result: penchant.Result) -> Figure:
    """Measures of every layer at the last step."""
    names = result.labels["layers"]
    figure = Figure(figsize=(max(9.0, 0.5 * len(names) + 5), 6.0), layout="constrained")
    panels = list(figure.subplots(2, 2).flat)
    positions = np.arange(len(names))
    for panel, (name, title) in zip(panels, NAMES.items()):
        if f"{name}-by-layer" not in result.arrays:
            panel.set_visible(False)
            continue
        values = result.arrays[f"{name}-by-layer"][-1]
        errors = result.arrays[f"{name}-by-layer-stderr"][-1]
        _curve(panel, positions, values, errors, result.arrays[f"{name}-null"][-1], title=title)
        if f"{name}-isotropic" in result.arrays:
            level = result.arrays[f"{name}-isotropic"]
            panel.plot(positions, level, "_:", color=GREY, label="isotropic")
        _log(panel)
        panel.set_xticks(positions, names, rotation=60, ha="right", fontsize=7)
        panel.set_xlabel("layer", fontsize=8)
        panel.set_ylabel("value", fontsize=8)
    _legend(figure, panels[0])
    caption = (
        "What each layer is given, from the input to the classifier; dashed: permuted labels; "
        "dotted: isotropic features of the layer's dimension."
    )
    return captioned(figure, caption, title="Neural collapse by layer")


def _curve(
    panel: Axes,
    positions: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray,
    null: np.ndarray,
    *,
    title: str,
) -> None:
    panel.errorbar(
        positions, values, errors, fmt="o-", color=BLUE, markersize=3, capsize=2, label="measured"
    )
    # With marks: a line of one layer or step is not seen.
    panel.plot(positions, null, "_--", color=ORANGE, label="permuted labels")
    panel.set_title(title, fontsize=9)


def _legend(figure: Figure, panel: Axes) -> None:
    """One legend for all panels, below them: inside of one it would lie on a line."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8
    )


def _log(panel: Axes) -> None:
    """A logarithmic axis, where everything drawn is above zero."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.lines])
    if np.nanmin(values) > 0:
        panel.set_yscale("log")
        log_ticks(panel)
