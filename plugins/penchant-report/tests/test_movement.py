"""`compare --fail`: what has moved since a baseline, decided about at once."""

import json

import attrs
import numpy as np
import penchant
import pytest
from click.testing import CliRunner
from penchant.cli import main
from penchant.results.quantities import Quantity
from penchant_numerics.statistics import significance
from penchant_report.answers import Entry
from penchant_report.movement import movement
from penchant_report.sources import Source, source_of, to_records
from scipy import stats

SEEDS = 5


def entries(values, *, probe="spread", status="done", first=0, quantity="size"):
    """A job for each value, all of one network."""
    return [
        Entry(
            id=f"{probe}-{seed}",
            status=status,
            labels={"probe": probe, "architecture": "net", "seed": seed},
            probe=probe,
            quantities={quantity: Quantity(value, stderr=0.5)} if status == "done" else {},
            error="" if status == "done" else "out of memory",
        )
        for seed, value in enumerate(values, first)
    ]


def source(*jobs, tmp_path):
    return Source(tmp_path / "run", [entry for some in jobs for entry in some])


def test_the_p_value_is_that_of_a_paired_t_test(tmp_path):
    random = np.random.default_rng(0)
    before, after = random.normal(size=SEEDS), random.normal(0.5, size=SEEDS)
    one, other = (source(entries(values), tmp_path=tmp_path) for values in (before, after))
    found = movement(one, other, level=0.5)
    expected = stats.ttest_rel(after, before).pvalue
    assert bool(found.moved) == (expected <= 0.5)
    rows = movement(one, other, level=0.999).moved
    assert rows[0].p == pytest.approx(expected)


def test_other_seeds_are_compared_as_two_samples(tmp_path):
    random = np.random.default_rng(1)
    before, after = random.normal(size=SEEDS), random.normal(size=SEEDS)
    one = source(entries(before), tmp_path=tmp_path)
    other = source(entries(after, first=SEEDS), tmp_path=tmp_path)
    (row,) = movement(one, other, level=0.9999).moved
    assert row.p == pytest.approx(stats.ttest_ind(after, before, equal_var=False).pvalue, abs=0.02)


def test_a_quantity_that_moved_is_a_line_with_both_values_and_its_p(tmp_path):
    one = source(entries([1.0, 1.1, 0.9, 1.05, 0.95]), tmp_path=tmp_path)
    other = source(entries([9.0, 9.1, 8.9, 9.05, 8.96]), tmp_path=tmp_path)
    found = movement(one, other)
    assert found.fails
    first, last = found.lines()
    assert first.startswith("spread size: 1.00 ± 0.50 -> 9.00 ± 0.50, p ")
    assert last == "1 of 1 compared number moved (0.01 level, Holm's correction)"
    same = movement(one, one)
    assert not same.fails and same.lines()[-1].startswith("none of 1 compared number moved")


def exact(values, tmp_path):
    """A run of numbers without errors, such as those of one given network on its samples."""
    jobs = entries(values)
    numbers = [Quantity(value, exact=True) for value in values]
    return Source(
        tmp_path, [attrs.evolve(job, quantities={"size": n}) for job, n in zip(jobs, numbers)]
    )


def test_the_last_digits_of_an_exact_number_have_not_moved(tmp_path):
    one = exact([1.0], tmp_path)
    assert movement(one, exact([1.001], tmp_path)).fails
    rounded = movement(one, exact([1.00001], tmp_path))
    assert not rounded.fails and rounded.changed == 0


def test_other_numbers_of_the_same_seeds_are_said_where_none_moved(tmp_path):
    one = source(entries([1.0, 1.1, 0.9, 1.05, 0.95]), tmp_path=tmp_path)
    shuffled = source(entries([1.1, 1.0, 0.95, 0.9, 1.05]), tmp_path=tmp_path)
    found = movement(one, shuffled)
    assert not found.fails and found.changed == 1
    assert found.lines()[0] == (
        "not the same: 1 of 1 number of the same seeds differ, none significantly"
    )
    elsewhere = source(entries([1.1, 1.0, 0.95, 0.9, 1.05], first=SEEDS), tmp_path=tmp_path)
    assert movement(one, elsewhere).changed == 0 == movement(one, one).changed


def test_holm_is_over_all_quantities_of_all_probes(tmp_path):
    same, moved = [1.0, 1.2, 0.8, 1.1, 0.9], [2.2, 2.6, 1.7, 2.5, 1.9]
    p = stats.ttest_rel(moved, same).pvalue
    assert 0.01 / 100 < p < 0.01
    noise = np.random.default_rng(3).normal(size=(2, 99, SEEDS))

    def run(values, others):
        jobs = [entries(each, probe=f"p{number}") for number, each in enumerate(others)]
        return source(entries(values), *jobs, tmp_path=tmp_path)

    assert movement(run(same, []), run(moved, [])).fails
    many = movement(run(same, noise[0]), run(moved, noise[1]))
    assert many.compared == 100 and not many.moved
    assert significance.significant([p] + [0.5] * 99, level=0.5)[0]


def test_a_job_that_fails_now_fails_the_comparison(tmp_path):
    one = source(entries([1.0, 1.1, 0.9]), entries([2.0], probe="other"), tmp_path=tmp_path)
    other = source(
        entries([1.0, 1.1, 0.9]), entries([2.0], probe="other", status="failed"), tmp_path=tmp_path
    )
    found = movement(one, other)
    assert found.fails and not found.moved
    assert found.lines()[0].startswith("failed: other · net · seed 0: out of memory")


def test_runs_without_a_common_quantity_are_refused(tmp_path):
    one = source(entries([1.0, 2.0, 3.0]), tmp_path=tmp_path)
    other = source(entries([1.0, 2.0, 3.0], quantity="other"), tmp_path=tmp_path)
    with pytest.raises(penchant.Error, match="no quantity in common"):
        movement(one, other)
    with pytest.raises(penchant.Error, match="level must be between 0 and 1, found 2"):
        movement(one, one, level=2)


def test_jobs_survive_a_card(tmp_path):
    known = entries([1.0, float("nan")])
    known[0] = attrs.evolve(
        known[0],
        quantities={
            "size": Quantity(1.0, stderr=0.5, null=0.0, p=0.01, df=3),
            "hidden": Quantity(2.0),
        },
        conventions={"mean": "over samples"},
    )
    path = tmp_path / "card.json"
    record = {"schema": 1, "network": {}, "jobs": to_records(known, {"spread": ("size",)})}
    path.write_text(json.dumps(record, allow_nan=False))
    first, second = source_of(path).entries
    assert first.quantities == {"size": known[0].quantities["size"]}
    assert first.conventions == known[0].conventions and first.labels == known[0].labels
    assert second.quantities["size"].missing
    path.write_text('{"schema": 1}')
    with pytest.raises(penchant.Error, match="is not a card: expected a run folder"):
        source_of(path)


@pytest.mark.parametrize("arguments", [["--fail"], ["--fail", "--level", "0.5"]])
def test_the_command_exits_with_1_where_something_moved(tmp_path, arguments):
    for name in ("before", "after"):
        penchant.run(
            {
                "architectures": [{"name": "perceptron"}],
                "datasets": [{"name": "two-blobs"}],
                "probes": [{"name": "output-spread", "networks": 8}],
                "seeds": [0, 1, 2],
                "executor": "serial",
                "figures": False,
            },
            out=tmp_path / name,
            progress=False,
        )
    one, other = str(tmp_path / "before"), str(tmp_path / "after")
    done = CliRunner().invoke(main, ["compare", one, other, *arguments])
    assert done.exit_code == 0, done.output
    card = tmp_path / "card.json"
    source = source_of(one)
    shifted = [
        attrs.evolve(
            entry,
            quantities={
                name: attrs.evolve(quantity, value=quantity.value + 1000 + index)
                for name, quantity in entry.quantities.items()
            },
        )
        for index, entry in enumerate(source.entries)
    ]
    names = {"output-spread": tuple(shifted[0].quantities)}
    jobs = to_records(shifted, names)
    card.write_text(json.dumps({"schema": 1, "network": {}, "jobs": jobs}))
    done = CliRunner().invoke(main, ["compare", one, str(card), *arguments])
    assert done.exit_code == 1, done.output
    assert " -> " in done.output
    assert CliRunner().invoke(main, ["compare", one, "--fail"]).exit_code == 2
