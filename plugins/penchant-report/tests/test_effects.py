"""Groups whose nulls differ are compared by how far each is from its null."""

import math

from penchant.results.quantities import Quantity
from penchant_report.answer_section import _largest_contrasts
from penchant_report.answers import Entry, answers
from penchant_report.pooling import effects_difference, nulls_differ, pooled
from scipy import stats


def answer_of(**quantities):
    entries = [
        Entry(
            id=name,
            status="done",
            labels={"probe": "nad", "architecture": name, "seed": 0},
            probe="nad",
            quantities={"rank": quantity},
        )
        for name, quantity in quantities.items()
    ]
    (answer,) = answers(entries)
    return answer


def test_two_groups_at_their_nulls_do_not_differ():
    logistic = Quantity(9.5, stderr=0.4, null=9.5, null_stderr=0.1)
    deep = Quantity(6.0, stderr=0.4, null=6.0, null_stderr=0.1)
    answer = answer_of(logistic=logistic, deep=deep)
    assert not _largest_contrasts(answer)
    (contrast,) = answer.contrasts("rank")
    assert contrast.less_nulls and contrast.difference.value == 0


def test_an_effect_beyond_both_nulls_is_a_sentence_that_says_so():
    answer = answer_of(
        one=Quantity(9.5, stderr=0.1, null=9.5, null_stderr=0.1),
        other=Quantity(8.0, stderr=0.1, null=6.0, null_stderr=0.1),
    )
    (sentence,) = _largest_contrasts(answer)
    assert sentence.startswith("rank less its null: other exceeds one by 2.00 ± 0.20")


def test_the_error_has_both_values_and_both_nulls():
    one = pooled([Quantity(5.0, stderr=0.3, null=4.0, null_stderr=0.4)])
    other = pooled([Quantity(9.0, exact=True, null=7.0)])
    found = effects_difference(one, other)
    assert found.value == 1.0 and math.isclose(found.error, 0.5)
    assert math.isclose(found.p, 2 * stats.norm.sf(2.0))


def test_groups_with_one_null_are_compared_as_they_are():
    answer = answer_of(
        one=Quantity(1.0, stderr=0.1, null=0.0), other=Quantity(4.0, stderr=0.1, null=0.0)
    )
    (contrast,) = answer.contrasts("rank")
    assert not contrast.less_nulls and contrast.difference.value == 3.0
    assert not nulls_differ(pooled([Quantity(1.0, null=0.0)]), pooled([Quantity(1.0)]))
