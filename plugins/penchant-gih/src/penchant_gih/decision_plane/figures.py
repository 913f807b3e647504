"""Figure of the probe `decision-plane`."""

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, captioned

CLASSES = {0: ORANGE, 1: BLUE}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Test samples and the learnt boundaries in each plane, one line per network (figure 1)."""
    seconds = result.arrays["seconds"]
    figure = Figure(figsize=(3.9 * len(seconds), 4.5))
    panels = figure.subplots(1, len(seconds), squeeze=False)[0]
    for number, axes in enumerate(panels):
        _draw_plane(axes, result, number)
    figure.legend(handles=_legend(), loc="outside lower center", ncols=3)
    worst = result.quantities["worst-aligned-test-accuracy"]
    caption = (
        "Boundaries that networks learn between two circles, by plane. Test accuracy in the plane "
        f"of the last direction, compared with one axis alone: {worst.with_significance}."
    )
    title = "Two circles in planes of two directions"
    return {"planes": captioned(figure, caption, title=title)}


def _draw_plane(axes: Axes, result: penchant.Result, number: int) -> None:
    arrays = result.arrays
    axis = arrays["axis"]
    points, labels = arrays["points"][number], arrays["labels"][number]
    for label, colour in CLASSES.items():
        horizontal, vertical = points[labels == label].T
        axes.scatter(horizontal, vertical, s=6, color=colour, alpha=0.7)
    # A network that says one class everywhere has no boundary.
    for outputs in arrays["planes"][number]:
        if outputs.min() < 0 < outputs.max():
            axes.contour(axis, axis, outputs.T, levels=[0], colors=GREEN, linewidths=1.2)
    second = int(arrays["seconds"][number])
    accuracy = result.tables["test-accuracy"].at(second=second).quantity()
    # Both directions by their eigen-indices.
    axes.set(
        xlabel="along direction 0",
        ylabel=f"along direction {second}",
        title=f"test accuracy {accuracy.value:.3f} ± {accuracy.stderr:.3f}",
        xlim=(axis[0], axis[-1]),
        ylim=(axis[0], axis[-1]),
        aspect="equal",
    )


def _legend() -> list[Line2D]:
    handles = []
    for label, colour in CLASSES.items():
        handles.append(
            Line2D([], [], marker="o", linestyle="", color=colour, label=f"class {label}")
        )
    handles.append(Line2D([], [], color=GREEN, label="boundary of a network"))
    return handles
