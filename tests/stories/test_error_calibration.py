"""The kit compares claimed errors with the spread over seeds, and tells which are not honest."""

import importlib

import penchant
import pytest
import torch

claims = importlib.import_module("penchant_testing.claims")  # its name is also a function's


def normal_probe(scale, seen):
    """A stand-in for a run: a normal number of unit spread that claims an error of `scale`."""

    def small_run(name, folder, parts):
        seed = parts["seed"]
        seen.append(seed)
        stream = torch.Generator("cpu").manual_seed(seed)
        value = float(torch.randn(1, generator=stream, device="cpu"))
        drawn = penchant.Quantity(value, stderr=scale, over="draws")
        at_its_bound = penchant.Quantity(1.0, stderr=0.1, over="draws")
        found = {"drawn": drawn, "bound": at_its_bound}
        # What an option adds has ten times the spread, and is there for some seeds only.
        if seed % 3 < parts.get("often", 0):
            found["seldom"] = penchant.Quantity(10 * value, stderr=10 * scale, over="draws")
        return penchant.Result(found)

    return small_run


BOUND = {"bound": "always 1 here"}


def test_an_honest_error_needs_a_dozen_seeds(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(claims, "small_run", normal_probe(1.0, seen))
    claims.check_claims("any", tmp_path, [{}], unclaimed=BOUND)
    assert seen == list(range(12))


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_errors_that_are_too_small_or_too_large_are_named_after_more_seeds(
    monkeypatch, tmp_path, scale
):
    seen = []
    monkeypatch.setattr(claims, "small_run", normal_probe(scale, seen))
    with pytest.raises(AssertionError, match=r"drawn: claimed .* over 48 seeds, ratio"):
        claims.check_claims("any", tmp_path, [{}], unclaimed=BOUND)
    assert seen == list(range(48))


def test_a_value_that_never_moves_needs_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "small_run", normal_probe(1.0, []))
    with pytest.raises(AssertionError, match="bound: .* ratio inf"):
        claims.check_claims("any", tmp_path, [{}])


def test_a_reason_for_what_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "small_run", normal_probe(1.0, []))
    reasons = {**BOUND, "bond": "misspelt"}
    with pytest.raises(AssertionError, match=r"no error of \['bond'\]"):
        claims.check_claims("any", tmp_path, [{}], unclaimed=reasons)


def test_what_is_missing_now_and_then_is_compared_nevertheless(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "small_run", normal_probe(3.0, []))
    with pytest.raises(AssertionError, match=r"seldom: .* spread .* over 32 seeds, ratio"):
        claims.check_claims("any", tmp_path, [{"often": 2}], unclaimed=BOUND)


def test_an_error_that_no_run_compares_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "small_run", normal_probe(1.0, []))
    about = {"expected": ["drawn", "seldom"], "unclaimed": BOUND}
    with pytest.raises(AssertionError, match=r"never compares the errors of \['seldom'\]"):
        claims.check_claims("any", tmp_path, [{"often": 1}], **about)
    # A second run is for what the first does not give.
    claims.check_claims("any", tmp_path / "two", [{}, {"often": 3}], **about)
