"""Figures of the probe `tangent-eigenfunctions`."""

import attrs
import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, captioned, heat_map, legend_beside, palette
from penchant_numerics.pictures.curves import curves

SHOWN = (0, 1, 2, 3, 5, 10, 15, 19)  # eigenfunctions in the plane
ON_A_LINE = (0, 5, 20)


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Eigenfunctions, their eigenvalues, and how fast they are learnt."""
    # functions of one input are curves, of two pictures
    inputs = result.arrays["grid"].shape[1]
    if inputs == 1:
        figures = {"line": _line(result)}
    else:
        figures = {"plane": _plane(result)}
    figures["eigenvalues"] = _eigenvalues(result)
    figures["speeds"] = _speeds(result)
    return figures


def _plane(result: penchant.Result) -> Figure:
    """A row of pictures for every evaluation (figure 4.1)."""
    functions = result.arrays["eigenfunctions"]
    positions = [position for position in SHOWN if position < functions.shape[1]]
    side = round(functions.shape[2] ** 0.5)
    steps = result.arrays["steps"]
    width = 1.3 * len(positions) + 0.6
    height = 1.35 * len(steps) + 0.8
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(steps), len(positions), squeeze=False)
    for row, step in enumerate(steps):
        for column, position in enumerate(positions):
            panel = grid[row, column]
            picture = functions[row, position].reshape(side, side)
            # zero is white in every panel
            limit = np.abs(picture).max()
            panel.imshow(picture, cmap="RdBu", vmin=-limit, vmax=limit, origin="lower")
            panel.set(xticks=[], yticks=[])
            if row == 0:
                panel.set_title(f"j = {position}", fontsize=8)
        grid[row, 0].set_ylabel(f"step {step}", fontsize=8)
    first = result.quantities[f"label-share-{steps[0]}"]
    caption = f"Share of the labels in the leading functions at step {steps[0]}: {first}"
    if len(steps) > 1:
        last = result.quantities[f"label-share-{steps[-1]}"]
        caption += f"; at step {steps[-1]}: {last}"
    return captioned(figure, f"{caption}.", title="Eigenfunctions of the tangent kernel")


def _line(result: penchant.Result) -> Figure:
    """Fourier content of every eigenvector, and some of them (figure B.2)."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    amplitudes = result.arrays["amplitudes"][0]
    heat_map(
        amplitudes.T,
        columns=range(len(amplitudes)),
        rows=range(amplitudes.shape[1]),
        xlabel="eigenvector",
        ylabel="frequency (cycles)",
        label="amplitude",
        axes=left,
    )
    functions = result.arrays["eigenfunctions"][0]
    positions = [position for position in ON_A_LINE if position < len(functions)]
    inputs = result.arrays["grid"][:, 0]
    for position, colour in zip(positions, palette(len(positions))):
        right.plot(inputs, functions[position], color=colour, label=f"j = {position}")
    right.set_xlabel("input")
    right.set_ylabel("eigenvector")
    legend_beside(right)
    correlation = result.quantities["frequency-correlation"]
    caption = f"Fourier content by index; rank correlation of index and frequency {correlation}."
    return captioned(figure, caption, title="Eigenvectors of the tangent kernel on a line")


def _eigenvalues(result: penchant.Result) -> Figure:
    """Eigenvalues over the first one, one curve per evaluation."""
    eigenvalues = result.tables["eigenvalues"]
    steps = eigenvalues.axes["step"]
    ratios = attrs.evolve(eigenvalues, values=eigenvalues.values / eigenvalues.values[:, :1])
    figure = curves(ratios, x="index", y="eigenvalue over the first", yscale="log")
    last = result.quantities[f"decay-{steps[-1]}"]
    caption = f"Eigenvalues by index; last over first eigenvalue at the end: {last}."
    return captioned(figure, caption, title="Spectrum of the tangent kernel on the grid")


def _speeds(result: penchant.Result) -> Figure:
    """Learning speeds along eigenvectors: lemma 4.1 against a real step."""
    figure = Figure(figsize=(4.6, 4), layout="constrained")
    panel = figure.subplots()
    expected = result.arrays["expected-speeds"]
    measured = result.arrays["measured-speeds"]

    # a diagonal as long as the points need
    both = np.concatenate([expected, measured])
    limit = np.abs(both).max() or 1.0
    ends = [-limit, limit]
    panel.plot(ends, ends, color=FAINT, linewidth=0.8)
    panel.plot(expected, measured, "o", color=BLUE, markersize=3)
    panel.set_xlabel("expected change / rate")
    panel.set_ylabel("measured change / rate")
    error = result.quantities["speed-error"]
    caption = f"One point per eigenvector: lemma 4.1 and one small step; relative error {error}."
    return captioned(figure, caption, title="Learning speeds along eigenvectors")
