"""Shared pictures: what is drawn, in which shape, and that nothing is guessed."""

import sys

import numpy as np
import penchant
import pytest
from matplotlib.figure import Figure
from penchant_numerics.pictures import Beside, Curve, pictures
from penchant_numerics.pictures.curves import MOST_NAMES, Panel, curves, panels


def images(figure):
    return [panel.images[0].get_array() for panel in figure.axes if panel.images]


def lines(figure, label):
    (found,) = [line for line in figure.axes[0].lines if line.get_label() == label]
    return found


def test_a_caption_is_the_label_of_its_figure():
    figure = pictures.captioned(Figure(), "The first stands out.", "Eigenvalues of lenet")
    assert figure.get_label() == "The first stands out."
    assert figure.get_suptitle() == "Eigenvalues of lenet"
    assert pictures.captioned(Figure(), "Nothing.").get_suptitle() == ""


def test_drawing_does_not_touch_pyplot():
    before = "matplotlib.pyplot" in sys.modules
    pictures.spectrum([2.0, 1.0])
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_the_null_of_a_spectrum_is_one_of_each_index():
    null = np.array([[4.0, 2.0, 1.0], [6.0, 2.2, 0.8]])
    figure = pictures.spectrum([9.0, 1.0, 0.5], null=null)
    np.testing.assert_allclose(lines(figure, "isotropic, same norms").get_ydata(), null.mean(0))
    (band,) = figure.axes[0].collections
    heights = {
        place: {y for x, y in band.get_paths()[0].vertices if x == place} for place in range(3)
    }
    spread = null.std(0, ddof=1)
    for place, (middle, each) in enumerate(zip(null.mean(0), spread)):
        assert max(heights[place]) == pytest.approx(middle + 2 * each)


def test_a_mean_null_is_drawn_without_a_band_where_its_spread_is_unknown():
    figure = pictures.spectrum([3.0, 1.0], null=[2.0, 1.5])
    assert not figure.axes[0].collections
    figure = pictures.spectrum(
        [3.0, 1.0], stderr=[0.1, 0.1], null=[2.0, 1.5], null_spread=[0.2, 0.1]
    )
    assert len(figure.axes[0].collections) == 2


def test_eigenvalues_that_are_rounding_are_left_out():
    figure = pictures.spectrum([1.0, 0.1, 1e-18, -1e-17])
    shown = lines(figure, "measured").get_ydata()
    assert np.isfinite(shown).tolist() == [True, True, False, False]


def test_curves_are_drawn_in_the_order_of_their_index_with_errors_and_null():
    curve = Curve([0.7, 0.9, 0.8], stderr=[0.1, 0.2, 0.3], null=[0.5, 0.4, 0.6])
    figure = pictures.by_index(
        [2, 0, 1], {"test": curve}, xlabel="index", ylabel="accuracy", level=0.5
    )
    (bars,) = figure.axes[0].containers
    assert bars.lines[0].get_xdata().tolist() == [0, 1, 2]
    assert bars.lines[0].get_ydata().tolist() == [0.9, 0.8, 0.7]
    assert bars.has_yerr
    assert lines(figure, "test, null").get_ydata().tolist() == [0.4, 0.6, 0.5]
    assert lines(figure, "chance").get_ydata()[0] == 0.5


def test_values_beside_have_a_logarithmic_axis_of_their_own():
    figure = pictures.by_index(
        [0, 1],
        {"test": Curve([0.7, 0.9])},
        xlabel="index",
        ylabel="accuracy",
        beside=Beside([1e-3, 0.0], "eigenvalue"),
    )
    _, right = figure.axes
    assert right.get_yscale() == "log" and right.get_ylabel() == "eigenvalue"
    assert np.isnan(right.lines[0].get_ydata()[1])


def test_panels_of_a_larger_figure_are_drawn_into():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert pictures.spectrum([2.0, 1.0], axes=left) is figure
    found = pictures.heat_map(
        np.ones((2, 3)),
        columns=[1, 2, 3],
        rows=[0, 9],
        xlabel="frequency",
        ylabel="step",
        label="amplitude",
        axes=right,
    )
    assert found is figure
    assert [text.get_text() for text in right.get_xticklabels()] == ["1", "2", "3"]
    assert figure.axes[2].get_ylabel() == "amplitude"


def test_one_channel_is_grey_around_zero():
    rows = np.arange(-6.0, 6.0).reshape(2, 6)
    figure = pictures.rows_as_images(rows, (1, 2, 3))
    first, second = figure.axes
    assert first.images[0].get_cmap().name == "gray"
    assert first.images[0].get_clim() == (-1, 1)
    np.testing.assert_allclose(images(figure)[1], (rows[1] / 5).reshape(2, 3))
    assert [panel.get_title() for panel in (first, second)] == ["0", "1"]


def test_three_channels_are_colours_and_zero_is_mid_grey():
    row = np.zeros((3, 2, 2))
    row[0, 0, 0], row[2, 1, 1] = 4.0, -2.0
    figure = pictures.rows_as_images(row.reshape(1, -1), (3, 2, 2), titles=["first"])
    (picture,) = images(figure)
    assert picture.shape == (2, 2, 3)
    np.testing.assert_allclose(picture[0, 0], [1, 0.5, 0.5])
    np.testing.assert_allclose(picture[1, 1], [0.5, 0.5, 0.25])


def test_any_other_number_of_channels_has_a_panel_each():
    figure = pictures.rows_as_images(np.ones((3, 2 * 4 * 5)), (2, 4, 5))
    assert len(images(figure)) == 6
    assert {picture.shape for picture in images(figure)} == {(4, 5)}
    assert [panel.get_ylabel() for panel in figure.axes if panel.get_ylabel()] == [
        "channel 0",
        "channel 1",
    ]


def test_inputs_with_one_axis_are_curves_even_where_a_square_would_fit():
    figure = pictures.rows_as_images(np.ones((2, 16)), (16,))
    assert not images(figure)
    assert len(figure.axes[0].lines[-1].get_ydata()) == 16


def test_the_amplitude_spectrum_of_a_wave_has_its_frequencies():
    wave = np.cos(2 * np.pi * 2 * np.arange(8) / 8)
    figure = pictures.rows_as_images(np.tile(wave, (1, 8)), (8, 8), fourier=True)
    _, amplitudes = images(figure)
    rows, columns = np.nonzero(np.asarray(amplitudes) > 1e-9)
    assert set(rows) == {4} and set(columns - 4) == {-2, 2}


def test_rows_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"shape \(1, 4, 4\).*\(2, 15\)"):
        pictures.rows_as_images(np.ones((2, 15)), (1, 4, 4))
    with pytest.raises(ValueError, match="three axes"):
        pictures.rows_as_images(np.ones((2, 16)), (2, 2, 2, 2))


def test_logarithmic_axes_have_few_ticks_and_others_are_left_alone():
    figure = Figure()
    wide, narrow, straight = figure.subplots(1, 3)
    wide.set(yscale="log", ylim=(1e-12, 1e3))
    narrow.set(yscale="log", ylim=(1.1, 8))
    before = straight.yaxis.get_major_locator()
    pictures.log_ticks(wide, narrow, straight)
    for panel in (wide, narrow):
        low, high = panel.get_ylim()
        inside = [tick for tick in panel.get_yticks() if low <= tick <= high]
        assert 2 <= len(inside) <= 6
        assert not panel.get_yticks(minor=True).size
    assert straight.yaxis.get_major_locator() is before


def test_colours_are_distinct_or_in_order():
    assert len(set(pictures.palette(8))) == 8
    assert len(set(pictures.palette(12, ordered=True))) == 12


def test_every_panel_has_its_own_scale_and_labels_stand_once_below():
    steps = {"step": (0, 1)}
    loss = penchant.Table([2.0, 1.0], steps, stderr=[0.2, 0.1], null=3.0, over="trainings")
    right = penchant.Table([0.4, 0.6], steps)
    figure = panels(
        {
            "loss": Panel({"trained": loss}, "nats", yscale="log"),
            "accuracy": Panel({"trained": right}, "share", level=0.5),
        },
        x="step",
    )
    left, other = figure.axes
    assert (left.get_yscale(), other.get_yscale()) == ("log", "linear")
    assert (left.get_title(), left.get_ylabel(), other.get_ylabel()) == ("loss", "nats", "share")
    assert left.containers[0].has_yerr and not other.containers[0].has_yerr
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "trained",
        "trained, null",
        "chance",
    ]


def test_a_row_of_panels_that_is_not_full_leaves_the_rest_empty():
    table = penchant.Table([1.0, 2.0], {"step": (0, 1)})
    figure = panels({str(number): Panel(table, "loss") for number in range(5)}, x="step")
    assert [axes.get_visible() for axes in figure.axes] == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("names", "written", "rotation"),
    [
        (["a", "b", "c"], 3, 0),
        ([f"encoder.layer.{number}" for number in range(12)], 12, 90),
        ([f"encoder.layer.{number}" for number in range(100)], MOST_NAMES // 1.2, 90),
    ],
)
def test_names_of_many_coordinates_do_not_touch(names, written, rotation):
    figure = curves(penchant.Table(np.arange(len(names)), {"layer": names}), x="layer", y="rank")
    labels = figure.axes[0].get_xticklabels()
    assert len(labels) == written and {label.get_rotation() for label in labels} == {rotation}
    assert labels[1].get_text() == names[-(-len(names) // MOST_NAMES)]
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in labels]
    assert not any(one.overlaps(other) for one, other in zip(boxes, boxes[1:]))


def test_points_of_several_tables_at_one_name_do_not_hide_each_other():
    layers = {"layer": ("conv", "fc")}
    same = {name: penchant.Table([1.0, 2.0], layers) for name in ("Hessian", "G", "E")}
    figure = curves(same, x="layer", y="trace")
    first = [bars.lines[0].get_xdata()[0] for bars in figure.axes[0].containers]
    assert first == pytest.approx([-0.12, 0.0, 0.12])
    steps = {name: penchant.Table([1.0, 2.0], {"step": (0, 1)}) for name in ("one", "two")}
    figure = curves(steps, x="step", y="loss")
    assert {bars.lines[0].get_xdata()[0] for bars in figure.axes[0].containers} == {0.0}
