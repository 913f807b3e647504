"""Figures of the probe `hessian-spectrum`."""

import attrs
import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, RED, captioned, log_ticks
from penchant_numerics.pictures.curves import Panel, panels

COLOURS = {"hessian": BLUE, "gauss-newton": ORANGE, "residual": GREEN}
TITLES = {"hessian": "Hessian", "gauss-newton": "G (Gauss-Newton)", "residual": "E = Hessian - G"}
_DECADES = 1e-9  # of its maximum: where a density is cut off


def headline(result: penchant.Result) -> str | None:
    """The largest eigenvalue of the Hessian, its outliers above the bulk, and its negative part."""
    largest = result.quantities.get("largest")
    if largest is None:
        return None
    text = f"The largest eigenvalue of the Hessian is {largest.value:.3g}"
    top = result.arrays.get("top-eigenvalues")
    if top is not None and len(top) > 1:
        text += f"; {_outliers(np.asarray(top))}"
    negative, resolution = (result.quantities.get(n) for n in ("negative-mass", "resolution"))
    if negative is not None and resolution is not None:
        text += f"; a share {negative} of all is below −{resolution:.2g}"
    return f"{text}."


def _outliers(top: np.ndarray) -> str:
    """How many leading eigenvalues lie above the widest gap between neighbours, as a ratio."""
    positive = top[top > 0]
    if len(positive) < 2:
        return "one is above the bulk" if len(positive) else "none is positive"
    ratios = positive[:-1] / positive[1:]
    count = int(ratios.argmax()) + 1
    verb = "is" if count == 1 else "are"
    return f"{count} {verb} above the bulk (the next is {ratios[count - 1]:.2g} times smaller)"


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Spectra (figures 3, 4, 14), what deflation does (17), and the tail of E (16)."""
    figures = {"spectra": spectra(result), "bulk": spectra(result, zoom=True)}
    if "density-undeflated" in result.arrays:
        figures["deflation"] = deflation(result)
    if _prefixes(result, "log-grid"):
        figures["tail"] = tail(result)
    if "trace-by-module" in result.tables:
        figures["modules"] = modules(result)
        figures["module-densities"] = module_densities(result)
    return figures


def _prefixes(result: penchant.Result, name: str) -> list[str]:
    """Of which samples there is an array: names of test samples have a prefix."""
    prefixes = []
    for prefix in ("", "test-"):
        if f"{prefix}{name}" in result.arrays:
            prefixes.append(prefix)
    return prefixes


def _samples(result: penchant.Result, prefix: str) -> str:
    split = result.options.get("split")
    if prefix or split == "test":
        return "test samples"
    return "training samples"


def spectra(result: penchant.Result, *, zoom: bool = False) -> Figure:
    """Densities on a log axis, a column for each set of samples; or only the bulk."""
    prefixes = _prefixes(result, "density-grid")
    names = [name for name in COLOURS if f"density-{name}" in result.arrays]
    figure = Figure(figsize=(5.2 * len(prefixes), 2.0 * len(names) + 1.0))
    axes = figure.subplots(len(names), len(prefixes), squeeze=False, sharex="col")
    for column, prefix in enumerate(prefixes):
        for row, name in enumerate(names):
            _density(axes[row, column], result, prefix, name, zoom=zoom)
        log_ticks(*axes[:, column])
        axes[0, column].set_title(_samples(result, prefix))
        axes[-1, column].set_xlabel("eigenvalue")
    if zoom:
        caption = "The same densities in the range of the bulk."
        return captioned(figure, caption, title="Spectra of the Hessian, G and E: the bulk")
    caption = "Densities on a log axis; black marks are the leading eigenvalues."
    return captioned(figure, caption, title="Spectra of the Hessian, G and E")


def _density(axes: Axes, result: penchant.Result, prefix: str, name: str, *, zoom: bool) -> None:
    bulk = "bulk-" if zoom else ""
    grid = result.arrays[f"{prefix}{bulk or 'density-'}grid"]
    density = result.arrays[f"{prefix}{bulk}density-{name}"]
    stderr = result.arrays.get(f"{prefix}{bulk}density-{name}-stderr")
    floor = density.max() * _DECADES
    _curve(axes, grid, density, stderr, floor, COLOURS[name])
    axes.set_ylim(floor, density.max() * 3)
    axes.set_ylabel(f"density, {TITLES[name]}", fontsize=8)

    # E has no leading eigenvalues
    suffix = {"hessian": "", "gauss-newton": "-gauss-newton"}.get(name)
    top = result.arrays.get(f"{prefix}top-eigenvalues{suffix}") if suffix is not None else None
    if top is not None and not zoom:
        # marks under the bumps that they make
        heights = np.full(len(top), floor * 6)
        label = f"{len(top)} leading"
        axes.plot(top, heights, "|", markersize=11, color="black", label=label)
        axes.legend(fontsize=8, loc="upper right")


def _curve(
    axes: Axes,
    grid: np.ndarray,
    density: np.ndarray,
    stderr: np.ndarray | None,
    floor: float,
    colour: str,
) -> None:
    """A density above a floor, with two standard errors."""
    axes.semilogy(grid, np.maximum(density, floor), color=colour, linewidth=1.2)
    if stderr is not None:
        low, high = density - 2 * stderr, density + 2 * stderr
        axes.fill_between(
            grid,
            np.maximum(low, floor),
            np.maximum(high, floor),
            color=colour,
            alpha=0.25,
            linewidth=0,
        )


def deflation(result: penchant.Result) -> Figure:
    """The density without and with deflation, one under the other on one axis."""
    figure = Figure(figsize=(6.4, 4.6))
    axes = figure.subplots(2, 1, sharex=True, sharey=True)
    grid = result.arrays["density-grid"]
    names = {"undeflated": "not deflated", "hessian": "leading eigenvalues deflated"}

    # aligned panels: the same axes
    highest = max(result.arrays[f"density-{name}"].max() for name in names)
    for panel, (name, title) in zip(axes, names.items()):
        density = result.arrays[f"density-{name}"]
        stderr = result.arrays.get(f"density-{name}-stderr")
        _curve(panel, grid, density, stderr, highest * _DECADES, BLUE)
        panel.set(ylim=(highest * _DECADES, highest * 3), ylabel="density")
        panel.set_title(title, fontsize=9)
    log_ticks(*axes)
    axes[-1].set_xlabel("eigenvalue")
    caption = "The same matrix and Lanczos steps, without and with deflation, on one axis."
    return captioned(figure, caption, title="Spectral density without and with deflation")


def tail(result: penchant.Result) -> Figure:
    """The density of |eigenvalue| of E on two log axes, by sign, with the fitted line."""
    prefixes = _prefixes(result, "log-grid")
    figure = Figure(figsize=(5.2 * len(prefixes), 4.2))
    axes = figure.subplots(1, len(prefixes), squeeze=False)[0]
    for panel, prefix in zip(axes, prefixes):
        _signs(panel, result, prefix)
        _line(panel, result, prefix)
        panel.set(xlabel="|eigenvalue|", ylabel="density", title=_samples(result, prefix))
        log_ticks(panel)
        panel.legend(fontsize=8)
    caption = "Densities of positive and negative eigenvalues of E, and the line fitted to both."
    return captioned(figure, caption, title="The tail of E = Hessian - G")


def _signs(axes: Axes, result: penchant.Result, prefix: str) -> None:
    """Densities of positive and of negative eigenvalues, in the eigenvalue."""
    # from a density in the logarithm to one in the eigenvalue
    values = np.exp(result.arrays[f"{prefix}log-grid"]) - result.options.get("epsilon", 0.0)
    whole = result.arrays[f"{prefix}log-density-residual"]
    for name, colour in (("positive", GREEN), ("negative", RED)):
        density = result.arrays[f"{prefix}log-density-{name}"]
        shown = (values > 0) & (density > whole.max() * 1e-6)
        # gaps between bumps stay gaps
        positions = np.where(shown, values, np.nan)
        axes.loglog(positions, density / positions, color=colour, linewidth=0.9, label=name)


def _line(axes: Axes, result: penchant.Result, prefix: str) -> None:
    line = result.arrays.get(f"{prefix}tail-line")
    if line is None:
        return
    positions = result.arrays[f"{prefix}tail-grid"]
    density = result.arrays[f"{prefix}tail-density"]
    axes.loglog(np.exp(positions), density, "o", markersize=4, color=BLUE, label="both, bins")

    # the label says what a semicircle would have
    slope = result.quantities[f"{prefix}tail-exponent"]
    fit = result.quantities[f"{prefix}tail-fit"].value
    error = "" if slope.stderr is None else f" ± {slope.stderr:.2f}"
    exponential = result.quantities[f"{prefix}tail-fit-exponential"].value
    label = (
        f"exponent {slope.value:.2f}{error} (semicircle {slope.null:.2f}), R² {fit:.2f} "
        f"(exponential {exponential:.2f})"
    )
    fitted = np.exp(line[1] + line[0] * positions)
    axes.loglog(np.exp(positions), fitted, "--", color="black", label=label)


def modules(result: penchant.Result) -> Figure:
    """Traces and leading eigenvalues of modules, a row for each set of samples."""
    traces = result.tables["trace-by-module"]
    largest = result.tables["top-eigenvalues-by-module"].at(rank=1)
    matrices = traces.axes["matrix"]
    shown = {}
    for split in traces.axes["split"]:
        for what, table in {"trace": traces, "largest eigenvalue": largest}.items():
            curves = {TITLES[str(each)]: table.at(split=split, matrix=each) for each in matrices}
            shown[f"{what}, {split} samples"] = Panel(curves, what, level=0.0, level_label="0")
    figure = panels(shown, x="module", columns=2)
    return captioned(
        figure,
        "Traces and largest eigenvalues of the diagonal blocks of each module, with standard "
        "errors (of traces) and residuals (of eigenvalues).",
        title="The Hessian, G and E by module",
    )


def module_densities(result: penchant.Result) -> Figure:
    """Densities of modules on a log axis, a panel for each matrix, of the first samples."""
    table = result.tables["density-by-module"]
    split = table.axes["split"][0]
    shown = {}
    for matrix in table.axes["matrix"]:
        densities = table.at(split=split, matrix=matrix)
        above = np.maximum(densities.values, densities.values.max() * _DECADES)
        densities = attrs.evolve(densities, values=above)
        shown[TITLES[str(matrix)]] = Panel(densities, "density", yscale="log")
    return captioned(
        panels(shown, x="eigenvalue"),
        f"Densities of the eigenvalues of each module's diagonal block, of {split} samples.",
        title="Spectra by module",
    )
