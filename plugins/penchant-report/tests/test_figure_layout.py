"""Figures at the width of a page: what is wrong is found, and laid out anew it is right."""

import pytest
from matplotlib.figure import Figure
from penchant_report.figure_faults import compute_layout, faults
from penchant_report.figure_layout import lay_out
from penchant_report.figures import resized
from penchant_report.legends import Legends


def panels(rows, columns, *, size, titles=True, **options):
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for number, axes in enumerate(grid.flat):
        axes.plot([0, 1, 2], [number, 1, 3], label="a curve with a name")
        axes.plot([0, 1, 2], [0, 2, 1], label="another curve")
        axes.set(xlabel="distance from the network, in filter norms")
        if titles:
            axes.set_title(f"panel {number} with quite a long title")
    grid[0, 0].set_ylabel("training loss (mean squared error)")
    return figure


def kinds(figure):
    return {fault.kind for fault in faults(figure)}


def test_text_outside_of_the_figure_is_found():
    figure = Figure(figsize=(3, 2))
    figure.subplots().set_title("a title that is a good deal longer than its figure is wide")
    assert kinds(figure) == {"outside"}


def test_axes_without_room_are_found():
    figure = Figure(figsize=(3, 2))
    figure.add_axes((0.3, 0.4, 0.6, 0.2))
    assert kinds(figure) == {"small"}


def test_an_arrangement_without_any_room_is_a_fault_and_no_warning():
    figure = panels(9, 1, size=(3, 0.8))
    compute_layout(figure)
    assert [fault.kind for fault in faults(figure)] == ["small"] * 9
    assert not faults(resized(panels(2, 1, size=(3, 1.6)), "column"))


def test_texts_over_each_other_are_found():
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    axes.text(0.4, 0.5, "one name")
    axes.text(0.45, 0.5, "another name")
    assert kinds(figure) == {"overlap"}


def test_what_is_hidden_is_no_fault():
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    twin = axes.twinx()
    twin.plot([0, 1], [0, 1])
    hidden = axes.text(0.5, 3.0, "far outside")
    hidden.set_visible(False)
    assert not faults(figure)


@pytest.mark.parametrize("width", ["column", "text"])
def test_panels_are_stacked_until_they_can_be_read(width):
    figure = panels(1, 3, size=(10, 3.6), sharey=True)
    figure.set_size_inches(3.25, 1.2)
    assert kinds(figure) >= {"outside", "small", "overlap"}
    figure = resized(panels(1, 3, size=(10, 3.6), sharey=True), width)
    assert not faults(figure)
    rows = {axes.get_subplotspec().rowspan.start for axes in figure.axes}
    assert len(rows) in ({2, 3} if width == "column" else {1, 2})


def test_stacked_panels_have_the_label_and_the_numbers_of_the_first():
    figure = resized(panels(1, 3, size=(10, 3.6), sharey=True), "column")
    left = [axes for axes in figure.axes if axes.get_subplotspec().colspan.start == 0]
    assert len(left) > 1
    for axes in left:
        assert axes.get_ylabel().replace("\n", " ") == "training loss (mean squared error)"
        assert axes.yaxis.get_major_ticks()[0].label1.get_visible()


def test_lines_of_panels_are_read_in_their_order():
    figure = resized(panels(2, 3, size=(9, 5)), "column")
    assert not faults(figure)
    places = [axes.get_subplotspec() for axes in figure.axes]
    order = [(place.rowspan.start, place.colspan.start) for place in places]
    assert order == sorted(order) and order[-1][0] >= 3


def test_rows_below_their_titles_stay_below_them():
    figure = panels(2, 2, size=(8, 4), titles=False)
    for number, axes in enumerate(figure.axes[:2]):
        axes.set_title(str(number))
    lay_out(figure, 3.25)
    places = [axes.get_subplotspec() for axes in figure.axes]
    for above, below in zip(places[:2], places[2:]):
        assert below.rowspan.start == above.rowspan.start + 1
        assert below.colspan.start == above.colspan.start


def test_a_legend_that_covers_its_panel_goes_below_it():
    figure = panels(1, 1, size=(6, 3.6))
    for number in range(4):
        figure.axes[0].plot([0, 2], [number, 1], label=f"curve {number}, of a long name")
    figure.axes[0].legend()
    figure.set_size_inches(2.4, 2.0)
    legends = Legends(figure)
    legends.place()
    compute_layout(figure)
    legends.move()
    (legend,) = figure.legends
    assert legend.get_window_extent().y1 < figure.axes[0].get_window_extent().y0
    assert [text.get_text().replace("\n", " ") for text in legend.get_texts()] == [
        "a curve with a name",
        "another curve",
        *(f"curve {number}, of a long name" for number in range(4)),
    ]


def test_formulas_are_not_broken():
    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.set_xlabel(r"the size of $\alpha + \beta + \gamma$ in units of its mean over networks")
    lay_out(figure, 2.0)
    assert not faults(figure)
    assert r"$\alpha + \beta + \gamma$" in axes.get_xlabel()


def test_many_names_are_turned_or_left_out():
    figure = Figure(figsize=(9, 3))
    axes = figure.subplots()
    names = [f"layer{number}.convolution" for number in range(40)]
    axes.bar(range(40), range(40))
    axes.set_xticks(range(40), names)
    lay_out(figure, 3.25)
    assert not faults(figure)
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert 5 < len(shown) < 40
    assert set(shown) <= set(names)
