"""Figures of the probe `directional-accuracy`.

A map of values by frequency, zero frequency in the centre.
"""

import numpy as np
import penchant
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.inputs import layout
from penchant_numerics.pictures import (
    BLUE,
    FAINT,
    SIZE,
    Beside,
    Curve,
    by_index,
    captioned,
    log_ticks,
    palette,
)
from penchant_numerics.pictures.curves import curves
from penchant_numerics.statistics import p_text

SHOWN = 12  # curves of directions in one panel
WINDOW = 10  # steps of a running mean


def headline(result: penchant.Result) -> str | None:
    """Whether accuracy falls from the most to the least preferred direction, and by how much."""
    correlation = result.quantities.get("rank-correlation")
    if correlation is None or correlation.missing:
        return None
    accuracy, indices = result.arrays["test-accuracy"], result.arrays["indices"]
    ends = (
        f"{accuracy[0]:.2f} along direction {indices[0]}, {accuracy[-1]:.2f} along direction "
        f"{indices[-1]}"
    )
    size = f"{correlation.value:.2f}, {p_text(correlation.null_p_value)}"
    if not correlation.is_significant:
        return (
            "Test accuracy does not follow the order of the directions significantly (rank "
            f"correlation {size}): it is {ends}."
        )
    verb = "falls" if correlation.value > 0 else "rises"
    return f"Test accuracy {verb} along the directions: {ends} (rank correlation {size})."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy by index, eigenvalue, frequency and sample count; losses while training."""
    arrays = result.arrays
    figures = {"accuracy": _accuracy(result)}
    if "eigenvalues" in arrays:
        figures["accuracy-eigenvalue"] = _accuracy_by_eigenvalue(result)
    if "frequencies" in arrays:
        figures |= _maps(result)
    if "accuracy-by-size" in arrays:
        figures["accuracy-by-size"] = _accuracy_by_size(result)
    if arrays["loss-curves"].shape[1] > WINDOW:
        figures["loss-curves"] = _loss_curves(result)
    return figures


def _accuracy(result: penchant.Result) -> Figure:
    arrays = result.arrays
    # NADs have an eigenvalue, on an axis of its own.
    beside = None
    if "eigenvalues" in arrays:
        beside = Beside(arrays["eigenvalues"], "eigenvalue")
    test, train = (result.tables[f"{split}-accuracy"] for split in ("test", "train"))
    figure = by_index(
        arrays["indices"],
        {"test": Curve(test.values, test.error), "train": Curve(train.values, train.error)},
        xlabel=f"index in the basis {result.options.get('basis', '')}",
        ylabel="accuracy",
        level=0.5,
        beside=beside,
    )
    figure.axes[0].set_ylim(0.4, 1.03)
    caption = f"Accuracy by direction; {_bars(result)}."
    correlation = result.quantities.get("rank-correlation")
    if correlation is not None:
        caption += f" Rank correlation with minus the index: {correlation.with_significance}."
    return captioned(figure, caption, title="Accuracy along each direction")


def _bars(result: penchant.Result) -> str:
    """What the error bars of accuracies are."""
    if result.tables["test-accuracy"].stderr is not None:
        return "bars are standard errors over trainings and samples"
    return "bars are standard errors over samples only, of one training"


def _accuracy_by_eigenvalue(result: penchant.Result) -> Figure:
    arrays = result.arrays
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    axes.errorbar(
        arrays["eigenvalues"],
        arrays["test-accuracy"],
        result.tables["test-accuracy"].error,
        fmt="o",
        color=BLUE,
    )
    # Every point has the index of its direction beside it.
    for index, value, height in zip(
        arrays["indices"], arrays["eigenvalues"], arrays["test-accuracy"]
    ):
        axes.annotate(
            str(index), (value, height), textcoords="offset points", xytext=(6, -10), fontsize=8
        )
    axes.axhline(0.5, color=FAINT, linewidth=0.8, linestyle=":", label="chance")
    axes.set(xlabel="eigenvalue of the direction", ylabel="test accuracy", ylim=(0.4, 1.03))
    axes.set_xscale("log")
    log_ticks(axes)
    axes.legend(loc="lower right")
    caption = f"Test accuracy against the eigenvalue; numbers are indices, {_bars(result)}."
    return captioned(figure, caption, title="Accuracy against the eigenvalue of the direction")


def _maps(result: penchant.Result) -> dict[str, Figure]:
    accuracy = frequency_map(
        result, result.arrays["test-accuracy"], label="test accuracy", limits=(0.5, 1.0)
    )
    beside = "crosses mark mirror images, light grey what was not measured"
    figures = {
        "frequency-map": captioned(
            accuracy,
            f"Test accuracy by frequency; zero frequency in the centre, {beside}.",
            title="Test accuracy by frequency",
        )
    }
    # A map of steps where any direction reached the loss.
    steps = result.arrays["steps-to-loss"]
    if np.isfinite(steps).any():
        figure = frequency_map(result, steps, label="steps to the target loss")
        figures["steps-map"] = captioned(
            figure,
            f"Steps by frequency; {beside} or never reached that loss.",
            title="Steps to a small loss by frequency",
        )
    return figures


def _accuracy_by_size(result: penchant.Result) -> Figure:
    accuracy = result.tables["accuracy-by-size"]
    # One curve per direction, shades along the index.
    indices = accuracy.coordinates("index")
    figure = curves(
        accuracy.select(index=indices[_some(len(indices))]),
        x="train",
        y="test accuracy",
        xlabel="training samples",
        xscale="log",
        level=0.5,
    )
    figure.axes[0].set_ylim(0.4, 1.03)
    caption = f"Test accuracy by direction and number of samples; {_bars(result)}."
    return captioned(figure, caption, title="Accuracy against the number of training samples")


def _loss_curves(result: penchant.Result) -> Figure:
    """A running mean of the training loss, for some directions."""
    indices = result.arrays["indices"]
    target = result.options.get("loss_target", 0.01)
    chosen = _some(len(indices))
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    for number, colour in zip(chosen, palette(len(chosen), ordered=True)):
        _loss_curve(axes, result, number, colour)
        # Where this direction's loss was small enough.
        reached = result.arrays["steps-to-loss"][number]
        if np.isfinite(reached):
            axes.plot(reached, target, "o", color=colour)
    axes.set_xlabel("step")
    axes.set_ylabel(f"training loss, mean of {WINDOW} batches")
    axes.set_yscale("log")
    log_ticks(axes)
    axes.legend(title="index", ncols=2)
    caption = f"Training loss by direction; dots mark where a loss of {target:g} is reached."
    return captioned(figure, caption, title="Training loss along each direction")


def _loss_curve(axes: Axes, result: penchant.Result, number: int, colour: str) -> None:
    smooth = _running_mean(result.arrays["loss-curves"][number])
    steps = np.arange(WINDOW, len(smooth) + WINDOW)
    label = str(result.arrays["indices"][number])
    axes.plot(steps, smooth, color=colour, linewidth=1.1, label=label)
    losses = result.tables["loss-curves"]
    if losses.stderr is None:
        return
    # A band of two standard errors; a logarithmic axis cannot show what is below zero.
    half = 2 * _running_mean(np.asarray(losses.stderr)[number])
    low = np.maximum(smooth - half, smooth / 10)
    axes.fill_between(steps, low, smooth + half, color=colour, alpha=0.2, linewidth=0)


def _some(count: int) -> list[int]:
    """Positions of as many directions as a legend can name."""
    shown = min(SHOWN, count)
    positions = np.linspace(0, count - 1, shown)
    whole = {round(position) for position in positions}
    return sorted(whole)


def _running_mean(values: np.ndarray) -> np.ndarray:
    weights = np.full(WINDOW, 1 / WINDOW)
    means = np.convolve(values, weights, mode="valid")
    return np.maximum(means, 1e-12)  # a loss of exactly zero has no logarithm


def frequency_map(
    result: penchant.Result,
    values: np.ndarray,
    *,
    label: str,
    limits: tuple[float | None, float | None] = (None, None),
) -> Figure:
    """Values by frequency; crosses mark the half that is filled in from its mirror image.

    Args:
        result: Its arrays `frequencies` and `grid` say where values belong.
        values: One per direction; light grey where they are not finite or were not requested.
        label: Name and unit of the values.
        limits: The ends of the colours.
    """
    cells, mirrored = _laid_out(result, values)
    height, width = cells.shape
    # One row of cells for signals, a square for images.
    figure = Figure(figsize=(5.4, 4.6) if height > 1 else (6.4, 2.2))
    axes = figure.subplots()
    axes.set_facecolor("#e6e6e6")
    image = axes.imshow(
        cells,
        extent=(*_ends(width), *_ends(height)),
        origin="lower",
        vmin=limits[0],
        vmax=limits[1],
        aspect="equal" if height > 1 else "auto",
    )
    _cross_out(axes, mirrored & np.isfinite(cells))
    axes.set_xlabel("horizontal frequency" if height > 1 else "frequency")
    axes.set_ylabel("vertical frequency" if height > 1 else "")
    if height == 1:
        axes.set_yticks([])
    figure.colorbar(image, ax=axes, label=label)
    return figure


def _ends(count: int) -> tuple[float, float]:
    """The outer edges of cells whose centres are whole frequencies."""
    below = count // 2
    above = count - below
    # Half a cell beyond the outermost centres.
    start = -below - 0.5
    return start, above - 0.5


def _cross_out(axes: Axes, cells: np.ndarray) -> None:
    if not cells.any():
        return
    # Few large cells take larger crosses than many small ones.
    height, width = cells.shape
    row, column = np.nonzero(cells)
    axes.scatter(
        column - width // 2,
        row - height // 2,
        marker="x",
        s=3 if cells.size > 400 else 14,
        linewidths=0.5,
        color="white",
    )


def _laid_out(result: penchant.Result, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The map of the input's grid; inputs of one dimension have one row."""
    numbers = torch.tensor(values, dtype=torch.float64, device="cpu")
    frequencies = torch.tensor(result.arrays["frequencies"], device="cpu")
    grid = tuple(result.arrays["grid"].tolist())
    cells, mirrored = layout(numbers, frequencies, grid)
    return cells.numpy(), mirrored.numpy()
