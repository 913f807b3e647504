"""`penchant_numerics.Refusal` in a job: a sentence, where other errors need their type and line."""

import attrs
import penchant
import torch
from penchant.execution.failures import failure_of
from penchant_numerics import Refusal
from penchant_numerics.statistics import binomial_stderr


@attrs.frozen
class Correlation(penchant.Probe):
    """A probe whose code raises."""

    name = "correlation"
    target = "test_refusals:run"


def raised(call, kind):
    try:
        call()
    except kind as problem:
        return failure_of(problem, Correlation)
    raise AssertionError(f"expected {kind.__name__}")


def test_a_refusal_is_shown_as_its_sentence_with_the_traceback_below():
    failure = raised(lambda: binomial_stderr(0.5, 0), Refusal)
    assert failure.text == "a share needs at least 1 sample, found 0"
    assert "in binomial_stderr" in failure.details


def test_another_value_error_keeps_its_type():
    failure = raised(lambda: torch.zeros(2).numpy().reshape(3), ValueError)
    assert failure.text.startswith("ValueError: cannot reshape")
