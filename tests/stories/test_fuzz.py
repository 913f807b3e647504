"""A few cases of every kind of damaged input; `make fuzz` tries thousands."""

import fuzz
import penchant
import pytest


@pytest.mark.parametrize(
    ("kind", "cases"), [("experiments", 40), ("checkpoints", 25), ("commands", 30), ("runs", 4)]
)
def test_damaged_input_gives_a_result_or_an_error(kind, cases):
    counts, failed = fuzz.tried(kind, cases, seed=0)
    assert not failed, failed[0][1]
    assert counts.total() == cases and counts["error"] + counts["result"] == cases


class Careless:
    """A reader whose cases end in every way."""

    cases = 30

    def __init__(self, folder):
        pass

    def make(self, random):
        return {"input": bytes([random.randrange(256)])}

    def attempt(self, folder):
        (content,) = (folder / "input").read_bytes()
        if content % 3 == 0:
            raise penchant.Error("a sentence")
        if content % 3 == 1:
            raise KeyError("a traceback")


def test_what_is_neither_fails_is_saved_and_comes_again_by_its_number(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setitem(fuzz.KINDS, "careless", Careless)
    monkeypatch.setattr(fuzz, "SAVED", tmp_path)
    counts, failed = fuzz.tried("careless", 30, seed=5)
    assert counts["failed"] == len(failed) > 3 and counts["error"] > 3 and counts["result"] > 3
    number, text = failed[0]
    assert "KeyError: 'a traceback'" in text
    saved = (tmp_path / f"careless-5-{number}" / "input").read_bytes()
    again, (same,) = fuzz.tried("careless", 1, seed=5, first=number)
    assert same[0] == number and again["failed"] == 1
    assert (tmp_path / f"careless-5-{number}" / "input").read_bytes() == saved
    arguments = ["careless", "--seed", "5", "--case", str(number)]
    assert fuzz.main(arguments) == 1
    assert f"fuzz.py careless --seed 5 --case {number}" in capsys.readouterr().out


def test_a_case_that_never_ends_fails(monkeypatch, tmp_path):
    class Endless(Careless):
        def attempt(self, folder):
            while True:
                pass

    monkeypatch.setattr(fuzz, "SECONDS_A_CASE", 1)
    assert "HangError" in fuzz.outcome_of(Endless(None), {"input": b""}, tmp_path / "case")
