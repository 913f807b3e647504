"""`penchant.Table` (`penchant.results.tables`), and tables in a run folder."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import attrs
import numpy as np
import penchant
import pytest
from numpy.testing import assert_array_equal
from penchant.results.job_folder import JobFolder
from penchant_numerics.statistics import significance, statistics

SHAPE = {"frequency": (0.1, 0.5), "training": range(4), "step": (0, 10, 20)}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture
def losses() -> penchant.Table:
    return penchant.Table(numbers(2, 4, 3), SHAPE)


def test_at_takes_numbers_by_their_coordinates(losses: penchant.Table) -> None:
    chosen = losses.at(step=20, frequency=0.5)
    assert chosen.axes == {"training": (0, 1, 2, 3)}
    assert_array_equal(chosen.values, losses.values[1, :, 2])


def test_some_coordinates_are_selected_in_any_order(losses: penchant.Table) -> None:
    means = losses.mean("training", null=0.0)
    chosen = means.select(step=(20, 0), frequency=[0.5])
    assert chosen.axes == {"frequency": (0.5,), "step": (20, 0)}
    assert_array_equal(chosen.values, means.values[1:, [2, 0]])
    assert_array_equal(chosen.stderr, np.asarray(means.stderr)[1:, [2, 0]])
    assert chosen.null == 0.0 and chosen.count == 4
    with pytest.raises(penchant.Error, match="the axis 'step' has 0, 10, 20, found 5"):
        losses.select(step=(0, 5))
    with pytest.raises(penchant.Error, match="no axis 'steps'"):
        losses.select(steps=(0,))


def test_a_mean_is_that_of_mean_and_stderr_to_the_last_bit(losses: penchant.Table) -> None:
    means = losses.mean("training", null=0.0)
    value, stderr = statistics.mean_and_stderr(losses.values, axis=1)
    assert_array_equal(means.values, value)
    assert_array_equal(means.stderr, stderr)
    assert (means.df, means.count, means.over) == (3.0, 4, "trainings")
    number = means.at(frequency=0.1, step=0).quantity()
    assert number == penchant.Quantity.of(losses.values[0, :, 0], over="trainings", null=0.0)


def test_the_mean_of_skewed_repetitions_is_compared_as_that_of_a_quantity() -> None:
    values = np.exp(2 * numbers(2, 12))
    table = penchant.Table(values, {"name": ("a", "b"), "training": range(12)})
    means = table.mean("training", null=9.0)
    for row, name in zip(values, ("a", "b")):
        expected = penchant.Quantity.of(row, over="trainings", null=9.0)
        assert expected.p is not None  # Student's t alone would say too much
        assert means.at(name=name).quantity() == expected
        assert table.at(name=name).mean("training", null=9.0).quantity() == expected


def test_where_one_mean_is_skewed_the_others_have_the_p_value_of_students_t() -> None:
    values = np.stack([np.exp(2 * numbers(12)), np.linspace(-1.0, 20.0, 12)])
    table = penchant.Table(values, {"name": ("skewed", "even"), "training": range(12)})
    even = table.mean("training", null=9.0).at(name="even").quantity()
    expected = penchant.Quantity.of(values[1], over="trainings", null=9.0)
    assert expected.p is None
    assert even.p == expected.null_p_value


def test_the_order_of_axes_does_not_change_the_order_of_sums() -> None:
    """Seventy values are added pairwise where they lie side by side, else one after another."""
    values = numbers(70, 3, 5)
    table = penchant.Table(values, {"training": range(70), "a": range(3), "b": range(5)})
    turned = table.transposed("b", "a", "training").mean("training")
    assert_array_equal(turned.values, table.mean("training").values.T)


def test_repetitions_of_trainings_and_samples_are_crossed() -> None:
    right = numbers(2, 3, 40) > 0
    table = penchant.Table(
        right, {"variant": ("a", "b"), "training": range(3), "sample": range(40)}
    )
    accuracy = table.accuracy(null=0.5)
    value, stderr = statistics.crossed_accuracy(right)
    assert_array_equal(accuracy.values, value)
    assert_array_equal(accuracy.stderr, stderr)
    assert accuracy.over == "trainings and samples"
    fall = table.at(variant="a").minus(table.at(variant="b")).mean(("training", "sample"), null=0)
    expected = statistics.paired_difference(right[1], right[0])
    quantity = fall.quantity()
    assert (quantity.value, quantity.stderr, quantity.df) == expected


def test_one_training_has_an_error_over_its_samples_only() -> None:
    right = penchant.Table([[1, 1, 0, 1]], {"training": range(1), "sample": range(4)})
    accuracy = right.accuracy()
    assert accuracy.stderr is None
    assert accuracy.sampling == pytest.approx(statistics.crossed_accuracy([[1, 1, 0, 1]])[1])
    assert accuracy.quantity().over == "samples of one training"


def test_accuracies_of_samples_that_were_not_kept() -> None:
    rates = penchant.Table([[0.9, 0.8], [0.5, 0.6]], {"index": range(2), "training": range(2)})
    accuracy = rates.accuracy(over=("training",), samples=100)
    value, stderr = statistics.accuracy(rates.values, 100)
    assert_array_equal(accuracy.values, value)
    assert_array_equal(accuracy.stderr, stderr)
    with pytest.raises(penchant.Error, match="how many each is of"):
        rates.accuracy(over=("training",))
    apart = rates.accuracy(over=("training",), samples=100, shared=False)
    assert_array_equal(apart.stderr, statistics.accuracy(rates.values, 100, shared=False)[1])


def test_a_control_is_compared_pair_by_pair(losses: penchant.Table) -> None:
    control = penchant.Table(numbers(2, 4, 3, seed=1), SHAPE)
    means = losses.mean("training", null=control)
    assert_array_equal(means.null, control.values.mean(1))
    for place in itertools.product(SHAPE["frequency"], SHAPE["step"]):
        where = dict(zip(("frequency", "step"), place))
        own, other = losses.at(**where).values, control.at(**where).values
        difference, error = statistics.mean_and_stderr(own - other)
        expected = significance.p_value(difference, error, 3)
        assert means.at(**where).quantity().p == pytest.approx(expected, rel=1e-12)


def test_what_another_table_lacks_is_subtracted_everywhere(losses: penchant.Table) -> None:
    clean = penchant.Table(numbers(4, seed=2), {"training": range(4)})
    excess = losses.minus(clean)
    assert_array_equal(excess.values, losses.values - clean.values[:, None])
    turned = losses.minus(losses.transposed("step", "training", "frequency"))
    assert not turned.values.any()


def test_reduced_takes_the_least_of_each_curve(losses: penchant.Table) -> None:
    best = losses.reduced(np.min, "step")
    assert best.axes == {"frequency": (0.1, 0.5), "training": (0, 1, 2, 3)}
    assert_array_equal(best.values, losses.values.min(-1))


def test_mistakes_are_refused_with_what_was_expected(losses: penchant.Table) -> None:
    with pytest.raises(penchant.Error, match=r"'step' has 0, 10, 20, found 15"):
        losses.at(step=15)
    with pytest.raises(penchant.Error, match=r"no axis 'steps'; did you mean 'step'"):
        losses.mean("steps")
    with pytest.raises(penchant.Error, match=r"has 'frequency', 'step' left"):
        losses.mean("training").quantity()
    with pytest.raises(penchant.Error, match="take the difference, then its mean"):
        losses.mean("training").minus(losses.mean("training"))
    with pytest.raises(penchant.Error, match=r"differ along 'training': 0, 1, and 0, 1, 2, 3"):
        losses.minus(penchant.Table([1.0, 2.0], {"training": range(2)}))
    with pytest.raises(penchant.Error, match=r"axes \(step 3\) must fit, found shape \(2,\)"):
        penchant.Table([1.0, 2.0], {"step": range(3)})
    with pytest.raises(penchant.Error, match="must differ"):
        penchant.Table([1.0, 2.0], {"step": (1, 1)})
    with pytest.raises(penchant.Error, match="a number or text"):
        penchant.Table([1.0], {"step": (None,)})


def test_numbers_of_a_table_cannot_be_changed(losses: penchant.Table) -> None:
    with pytest.raises(ValueError, match="read-only"):
        losses.values[0] = 1.0


def test_rows_hold_every_value_with_what_is_known_of_it(losses: penchant.Table) -> None:
    rows = losses.mean("training", null=0.5).rows()
    assert len(rows) == 6
    means = losses.values.mean(1)
    assert rows[4]["frequency"] == 0.5
    assert rows[4]["step"] == 10
    assert rows[4]["value"] == means[1, 1]
    assert rows[4]["null"] == 0.5


def test_tables_come_back_from_a_run_folder(tmp_path: Path, losses: penchant.Table) -> None:
    right = penchant.Table(numbers(2, 3) > 0, {"variant": ("a", "b"), "training": range(3)})
    tables = {
        "loss": losses.mean("training", null=0.5),
        "compared": losses.mean("training", null=losses),
        "right": right,
    }
    folder = JobFolder(tmp_path)
    folder.write(penchant.Result({}, {"other": np.ones(2)}, tables=tables))
    read = folder.read()
    assert list(read.arrays)[:1] == ["other"]
    assert {"loss", "loss-stderr", "compared-null", "compared-null-spread"} <= read.arrays.keys()
    # One null for all is no array.
    assert "loss-null" not in read.arrays
    assert read.tables.keys() == tables.keys()
    for name, table in tables.items():
        again = read.tables[name]
        assert again.axes == table.axes
        for field in attrs.fields(penchant.Table):
            assert_array_equal(getattr(again, field.name), getattr(table, field.name))
    assert folder.read(arrays=False).tables == {}
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["axes"]["step"] == [0, 10, 20]
    assert stored["arrays"]["loss"]["axes"] == ["frequency", "step"]
    # Names of entries are labels, as ever.
    assert read.labels == {"variant": ("a", "b")}


def test_an_axis_has_the_same_coordinates_in_all_tables(losses: penchant.Table) -> None:
    other = penchant.Table([1.0, 2.0], {"step": (1, 2)})
    result = penchant.Result(tables={"loss": losses, "accuracy": other})
    with pytest.raises(penchant.Error, match=r"'loss' and 'accuracy' have an axis 'step'"):
        result.check()


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(penchant.Error, match=r"must be a penchant\.Table, found list"):
        penchant.Result(tables={"loss": [1.0]})  # type: ignore[dict-item]


def test_a_damaged_axis_is_found_when_it_is_read(tmp_path: Path, losses: penchant.Table) -> None:
    folder = JobFolder(tmp_path)
    folder.write(penchant.Result(tables={"loss": losses}))
    stored = json.loads(folder.result.read_text())
    stored["axes"]["step"].pop()
    folder.result.write_text(json.dumps(stored))
    with pytest.raises(penchant.Error, match=r"result\.json is damaged.*'loss'"):
        folder.read()


@penchant.probe(
    needs="architecture",
    quantities={"size": "of the outputs"},
    tables={"by-scale[scale]": "size by the scale of the input"},
)
def output_size(context: penchant.Context, networks: int = 3, turned: bool = False) -> object:
    values = numbers(networks, 2)
    axes = {"network": range(networks), "scale": (1.0, 2.0)}
    by_scale = penchant.Table(values, axes).mean("network")
    if turned:
        by_scale = penchant.Table([by_scale.values], {"turn": (0,), **by_scale.axes})
    return {"size": penchant.Quantity.of(values[:, 0], over="networks"), "by-scale": by_scale}


def test_a_function_returns_quantities_and_tables() -> None:
    result = penchant.measure(output_size, architecture="mlp", shape=(4,), outputs=1)
    assert list(result.quantities) == ["size"]
    assert result.tables["by-scale"].axes == {"scale": (1.0, 2.0)}
    assert not result.warnings


def test_a_table_of_other_axes_than_declared_is_warned_of() -> None:
    result = penchant.measure(output_size, architecture="mlp", shape=(4,), outputs=1, turned=True)
    expected = "table 'by-scale' has the axes ['turn', 'scale'], declared ['scale']"
    assert result.warnings == (expected,)


def test_a_table_is_declared_with_its_axes() -> None:
    with pytest.raises(penchant.Error, match=r"declared as 'loss\[amplitude, step\]'"):

        @attrs.frozen
        class Loss(penchant.Probe):
            """Loss."""

            name = "loss"
            needs = ("architecture",)
            target = staticmethod(lambda options, context: None)
            quantities = {"loss": "loss"}
            tables = {"by-step[step": "loss by step"}

        penchant.measure(Loss, architecture="mlp", shape=(4,), outputs=1)
