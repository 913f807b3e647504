"""One rule decides: degrees of freedom, p-values and Holm reach every number that is shown."""

import json
import math

import penchant
import pytest
from penchant import Quantity
from penchant.results.differences import Difference, z_text
from penchant.results.quantities import distance
from penchant_numerics.statistics import rank_correlation, significance
from penchant_report.answer_section import answer_values
from penchant_report.answers import Entry, answers
from penchant_report.pooling import difference, paired_difference, pooled
from scipy import stats


def _distance(quantity):
    return distance(quantity, quantity.against_null)


def test_two_repetitions_are_compared_by_their_t_distribution():
    found = Quantity.of([19.0, 21.0], over="trainings", null=0.0)
    away = found.against_null
    assert away.p == pytest.approx(stats.ttest_1samp([19.0, 21.0], 0.0).pvalue)
    assert away.p > 0.01 and away.z == pytest.approx(2.147, abs=1e-3)
    assert away.undecided
    assert _distance(found) == "z = 2.1 (2 trainings decide nothing)"
    # a third one decides
    more = Quantity.of([19.0, 20.0, 21.0], over="trainings", null=0.0)
    assert more.null_p_value < 0.01 and "decide" not in _distance(more)


def test_a_perfect_order_of_six_is_significant():
    found = rank_correlation(range(6), range(6), generator=None)
    quantity = Quantity(**found.fields(), over="indices")
    assert quantity.null_p_value == pytest.approx(2 / 720)
    assert _distance(quantity) == "z = 3.0"
    assert str(quantity) == "1.00 ± 0.14 (null 0.00 ± 0.45, p = 0.0028)"


def test_a_known_error_gives_z_however_large():
    assert Difference(300.0, 2.0).z == 150.0 and Difference(300.0, 2.0).p == 0.0
    assert Difference(-80.0, 1.0, 1e5).z == pytest.approx(-78.76, abs=0.01)
    assert Difference(3.0, 1.0, 5).z == pytest.approx(stats.norm.isf(stats.t.sf(3, 5)))
    exact = Difference(2.0, 0.0)
    assert exact.p == 0.0 and exact.z is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(-22.1, "z = −22"), (0.094, "z = 0.1"), (0.01, "z = 0"), (99.4, "z = 99"), (-99.6, "z < −99")],
)
def test_z_is_printed_with_the_digits_that_matter(value, text):
    assert z_text(Difference(value, 1.0)) == text
    assert z_text(None) == z_text(Difference(value, None)) == ""


def test_the_larger_error_decides_with_its_degrees_of_freedom():
    own = Quantity(3.0, stderr=1.0, df=2, null=0.0, null_spread=0.5)
    assert own.null_p_value == pytest.approx(2 * stats.t.sf(3.0, 2))
    null = Quantity(3.0, stderr=0.5, df=2, null=0.0, null_spread=1.0)
    assert null.null_p_value == pytest.approx(2 * stats.norm.sf(3.0))
    # eight draws of a null are those of a prediction interval
    spread = Quantity(3.0, null=0.0, null_spread=1.0, null_stderr=8**-0.5)
    size = 3.0 / math.sqrt(1 + 1 / 8)
    assert spread.null_p_value == pytest.approx((1 + (size + 0.5) / 7) ** -7)
    assert spread.null_p_value > 2 * stats.t.sf(size, 7)


def test_repetitions_that_are_all_equal_are_not_decided():
    for count in (3, 9, 30):
        quantity = Quantity.of([1.0] * count, over="trainings", null=0.5)
        assert quantity.null_p_value is None and not quantity.is_significant
        assert quantity.against_null.undecided
    assert _distance(quantity) == "(30 trainings without a spread decide nothing)"
    # ten trainings without a rare event, of which a tenth is expected
    assert Quantity.of([0.0] * 10, over="trainings", null=0.1).null_p_value is None


def test_differences_have_the_degrees_of_freedom_of_welch():
    first, second = [1.0, 2.0, 4.0, 2.0], [5.0, 5.5, 9.0, 6.0]
    found = difference(
        pooled([Quantity.of(first, over="trainings")]),
        pooled([Quantity.of(second, over="trainings")]),
    )
    expected = stats.ttest_ind(second, first, equal_var=False)
    assert (found.p, found.df) == pytest.approx((expected.pvalue, expected.df))


def test_pairs_of_seeds_are_those_of_a_paired_t_test():
    first, second = [1.0, 5.0, 9.0], [1.5, 5.7, 9.4]
    left = [Quantity(value, stderr=1.0) for value in first]
    right = [Quantity(value, stderr=1.0) for value in second]
    found = paired_difference(left, right)
    assert found.p == pytest.approx(stats.ttest_rel(second, first).pvalue)
    counts = [Quantity(value, exact=True) for value in (3, 3, 3)]
    others = [Quantity(value, exact=True) for value in (5, 5, 5)]
    assert paired_difference(counts, others).exact


def test_two_seeds_have_the_degrees_of_freedom_of_claims_and_spread():
    seeds = [Quantity(1.0, stderr=0.3, df=2), Quantity(1.1, stderr=0.3, df=2)]
    found = pooled(seeds)
    assert found.quantity.df == 5 and not found.overdispersed
    # where the seeds show more than they claim, they alone decide
    far = pooled([Quantity(value, stderr=0.1, df=99) for value in (0.0, 5.0, 9.0)])
    assert far.overdispersed and far.quantity.df == 2
    # two trainings know their error so badly that their seeds may differ by a lot
    few = pooled([Quantity(value, stderr=0.1, df=1) for value in (0.0, 0.5, 0.9)])
    assert not few.overdispersed


def test_from_three_seeds_on_their_spread_decides():
    """Errors of 0.2 would give p = 1e-6, half of the error that the seeds show 0.01."""
    values = (1.0, 0.2, 0.5)
    found = pooled([Quantity(value, stderr=0.2, df=99, null=0.0) for value in values])
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert found.against_null.p == pytest.approx(expected) and expected > 0.05
    assert found.quantity.stderr == pytest.approx(stats.sem(values)) and found.quantity.df == 2
    assert found.quantity.over == "seeds"
    # nulls that were measured are in the differences from them
    nulls = (0.1, 0.0, 0.3)
    moved = [Quantity(value + null, null=null, p=1e-9) for value, null in zip(values, nulls)]
    assert pooled(moved).against_null.p == pytest.approx(expected)


def test_seeds_of_the_same_samples_have_the_error_of_these_samples_in_full():
    def seeds(over):
        return [Quantity(v, stderr=0.1, over=over, null=0.0) for v in (0.30, 0.31, 0.27)]

    apart = pooled(seeds("test samples"))
    assert apart.quantity.stderr < 0.02 and apart.quantity.over == "seeds"
    same = pooled(seeds("test samples"), shared=True)
    assert same.quantity.stderr == pytest.approx(math.hypot(0.1, stats.sem([0.30, 0.31, 0.27])))
    assert same.quantity.over == "seeds, and test samples that they share"
    assert apart.against_null.p < 0.01 and same.against_null.p > 2 * stats.norm.sf(3.0)
    # trainings are drawn again for each seed
    assert pooled(seeds("trainings"), shared=True).quantity.over == "seeds"


def test_seeds_that_hardly_differ_share_what_their_errors_are_over():
    """One trained network: its seeds differ by start vectors alone."""
    seeds = [Quantity(v, stderr=1.0, over="samples", null=0.0) for v in (2.0, 2.001, 2.002)]
    found = pooled(seeds)
    assert found.against_null.p == pytest.approx(2 * stats.norm.sf(2.001), rel=1e-4)
    assert found.quantity.stderr == pytest.approx(1.0, rel=1e-5)
    equal = pooled([Quantity(2.0, stderr=1.0, null=0.0)] * 3)
    assert equal.against_null.p == pytest.approx(2 * stats.norm.sf(2.0))


def test_p_values_of_seeds_are_combined_with_their_signs():
    def seed(value, p):
        return Quantity(value, null=0.0, p=p)

    together = pooled([seed(1.0, 0.02), seed(0.8, 0.05)]).quantity
    expected = stats.combine_pvalues([0.01, 0.025], method="stouffer").pvalue
    assert together.p == pytest.approx(2 * expected)
    assert pooled([seed(1.0, 0.001), seed(-1.0, 0.001)]).quantity.p == pytest.approx(1.0)
    assert pooled([seed(1.0, 0.001), seed(1.0, None)]).quantity.p is None
    # perfect orders have no spread
    assert pooled([seed(1.0, 0.002)] * 3).quantity.p < 1e-6


def table_of(p_values):
    """The answer of a probe with a quantity for each of these p-values."""
    quantities = {}
    for number, p in enumerate(p_values):
        quantities[f"q-{number}"] = Quantity(1.0, stderr=0.5, null=0.0, p=p)
    labels = {"probe": "p", "architecture": "a", "seed": 0}
    (answer,) = answers([Entry("a", "done", labels, probe="p", quantities=quantities)])
    return answer


def test_a_table_is_decided_at_once_by_holm():
    p_values = [0.004, 0.0001, 0.03, 0.0035, None]
    answer = table_of(p_values)
    marks = [answer.from_null(answer.groups[0], name) for name in answer.meanings]
    # Bonferroni would ask 0.002 of all; without a p-value of its own the last one has 0.045
    assert marks == [0, 1, 0, 0, 0] and answer.comparisons == 5
    answer = table_of([0.0045, 0.0001, 0.009])
    assert [answer.from_null(answer.groups[0], name) for name in answer.meanings] == [1, 1, 1]


def test_two_repetitions_that_decide_nothing_are_named_in_the_report():
    few = Quantity.of([19.0, 21.0], over="trainings", null=0.0)
    labels = {"probe": "p", "architecture": "a", "seed": 0}
    (answer,) = answers([Entry("a", "done", labels, probe="p", quantities={"slope": few})])
    values = answer_values(answer)
    assert values["found"] == []
    assert values["nothing"] == (
        "No significant difference from the null (1 % level). The nearest is slope, with p = 0.032; "
        "it would need p below 0.01: about 1.4 times as many trainings, if the effect is real."
    )
    flag, seen = values["flags"]
    assert seen == ("With 2 trainings only effects beyond 64 standard errors can be significant.")
    assert "Two repetitions, or equal ones, are too few to decide" in flag and "slope" in flag


def written(folder, seeds):
    """A run with these quantities of each seed."""
    jobs = []
    for seed, quantities in enumerate(seeds):
        labels = {"probe": "p", "architecture": "a", "seed": seed}
        job = {"id": f"j{seed}", "status": "done", "labels": labels}
        record = {"schema": 1, **job, "quantities": quantities, "probe": {"name": "p"}}
        place = folder / "jobs" / job["id"]
        place.mkdir(parents=True)
        (place / "result.json").write_text(json.dumps(record))
        jobs.append({**job, "path": f"jobs/{job['id']}"})
    run = {"schema": 1, "title": "t", "seeds": list(range(len(seeds))), "jobs": jobs}
    (folder / "run.json").write_text(json.dumps(run))
    return penchant.read(folder)


def test_comparisons_of_runs_show_z_and_are_decided_together(tmp_path):
    def seeds(shift):
        found = []
        for value in (1.0, 1.01, 0.98):
            claimed = {"value": value + shift, "stderr": 0.01, "df": 9}
            # what both runs share does not count
            found.append({"far": claimed, "bare": {"value": value + 9 * shift * (value - 0.95)}})
        return found

    before = written(tmp_path / "before", seeds(0.0))
    after = written(tmp_path / "after", seeds(1.0)[:2])
    far, bare = penchant.compare(before, after).table()
    assert far["significant"] and far["p"] < 0.005 and far["z"] > 2.8
    # two seeds and three seeds without errors of their own
    assert not bare["significant"]
    lines = penchant.compare(before, after).lines()
    assert lines[1].endswith(f"z = {far['z']:.1f} *")
    page = penchant.compare(before, after).write(tmp_path / "compare.html").read_text()
    assert page.count("z: the difference in standard errors") == 1


def test_tables_have_df_p_and_z_and_old_runs_have_none_to_read(tmp_path):
    quantities = {
        "new": {"value": 1.0, "stderr": 0.1, "df": 4.0, "null": 0.0, "over": "trainings"},
        "old": {"value": 1.0, "stderr": 0.1, "null": 0.0, "over": "trainings", "count": 5},
        "bare": {"value": 1.0},
    }
    new, old, bare = written(tmp_path, [quantities]).table()
    assert (new["df"], new["p"]) == (4.0, pytest.approx(2 * stats.t.sf(10, 4)))
    assert old["df"] is None and old["z"] == pytest.approx(10)
    assert bare["df"] is bare["p"] is bare["z"] is None


def test_results_keep_df_and_p(tmp_path):
    found = Quantity.of([1.0, 2.0, 4.0], over="trainings", null_draws=range(300))
    assert found.df == 2 and found.p is not None
    assert found.numbers.keys() >= {"df", "p"}
    with pytest.raises(penchant.Error, match="has p nan"):
        penchant.Result({"x": Quantity(1.0, null=0.0, p=math.nan)}).check()


def test_the_rule_is_that_of_the_numerics():
    assert significance.LEVEL == 0.01
    assert significance.significant([0.01]) == [True]


def test_a_quantity_is_formatted_as_its_value_where_digits_are_given():
    quantity = Quantity(1.234, stderr=0.1)
    assert f"{quantity:.1f} {quantity}" == "1.2 1.23 ± 0.10"
