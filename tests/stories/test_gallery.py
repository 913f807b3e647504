"""The gallery: pages are those of its numbers, rules decide verdicts, every experiment is covered."""

import importlib
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import penchant
import pytest

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs/gallery"
ENTRIES = tomllib.loads((GALLERY / "entries.toml").read_text())
RUNS = tomllib.loads((GALLERY / "runs.toml").read_text())
MODULES = ("freshness", "derived", "gather", "verdicts", "gallery", "measure")
NUMBERS = {
    "risen": {"value": 1.0, "stderr": 0.1, "null": 0.5},
    "flat": {"value": 0.5, "stderr": 0.1, "null": 0.5},
    "noisy": {"value": 1.0, "stderr": 0.3, "null": 0.5},
    "wide": {"value": 1.0, "stderr": 0.01, "null": 0.5, "null_spread": 0.2},
    "bare": {"value": 1.0},
    "few": {"value": 1.0, "stderr": 0.1, "over": "trainings", "count": 2, "null": 0.0},
    "ordered": {"value": 1.0, "stderr": 0.14, "null": 0.0, "null_spread": 0.45, "p": 2 / 720},
    "loose": {"value": 0.1, "stderr": 0.26, "null": 0.0},
}


@pytest.fixture
def made(monkeypatch):
    """The modules that write the gallery, as `python docs/make/gallery.py` finds them."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    found = {name: importlib.import_module(name) for name in MODULES}
    yield found
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def measured():
    job = {"name": "lenet", "quantities": NUMBERS, "places": {"curve[0]": {"value": 2.0}}}
    other = {"name": "mlp", "quantities": {"risen": {"value": 5.0, "stderr": 0.1}}, "places": {}}
    return {
        "own": {"exit": 0, "jobs": [job]},
        "two": {"exit": 0, "jobs": [job, other]},
        "noise": {"exit": 0, "jobs": [{**job, "quantities": {"risen": NUMBERS["noisy"]}}]},
        "stopped": {"exit": -24, "jobs": []},
        "broken": {"exit": 1, "jobs": [], "message": "out of memory"},
    }


@pytest.mark.parametrize(
    ("that", "kind", "than", "by", "holds"),
    [
        ("risen", "above", "null", None, True),
        ("risen", "below", "null", None, False),
        ("noisy", "above", "null", None, False),  # z = 1.7
        ("wide", "above", "null", None, False),  # the null's own spread counts
        ("few", "above", "null", None, False),  # ten standard errors of two trainings: p = 0.06
        ("ordered", "above", "null", None, True),  # by its p-value; its spread has z = 2.2
        ("risen", "above", 0.75, None, False),  # z = 2.5
        ("risen", "above", 0.74, None, True),  # z = 2.6
        ("risen", "near", 0.9, 0.4, True),
        ("risen", "near", 0.9, 0.3, False),  # 0.3 could not be told from what was seen
        ("loose", "near", "null", 0.3, False),  # nothing can be seen with such an error
        ("risen", "below", "two:mlp/risen", None, True),
        ("two:mlp/risen", "near", "risen", "10 %", False),
        ("bare", "near", 1.1, 0.2, True),
        ("curve[0]", "above", "bare", 0.5, True),
        ("curve[0]", "above", "bare", 1.5, False),
        ("bare", "below", "curve[0]", "40 %", True),
        ("bare", "below", "curve[0]", "60 %", False),
    ],
)
def test_rules(made, measured, that, kind, than, by, holds):
    test = {"that": that, "is": kind, "than": than}
    if by is not None:
        test["by"] = by
    assert made["verdicts"].outcome(test, measured, "own").holds is holds


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"that": "risen", "is": "larger", "than": 0}, "larger"),
        ({"that": "bare", "is": "above", "than": 0.0}, "no error"),
        ({"that": "bare", "is": "above", "than": "null"}, "without a null"),
        ({"that": "risen", "is": "near", "than": 1.0}, "needs `by`"),
        ({"that": "two:risen", "is": "above", "than": 0.0}, "2 jobs"),
    ],
)
def test_rules_that_mean_nothing_are_refused(made, measured, test, message):
    with pytest.raises(SystemExit, match=message):
        made["verdicts"].outcome(test, measured, "own")


RIGHT = {"that": "risen", "is": "above", "than": "null"}
WRONG = {"that": "noisy", "is": "above", "than": "null"}
OPPOSED = {"that": "risen", "is": "below", "than": "null"}
FAR = {"that": "risen", "is": "near", "than": 3.0, "by": 0.5}
CONTROL = {"about": "without the effect", "replace": {"risen": "flat"}}


@pytest.mark.parametrize(
    ("verdict", "entry"),
    [
        ("reproduced", {"tests": [RIGHT], "controls": [CONTROL]}),
        ("partly", {"tests": [RIGHT], "controls": [{"about": "", "run": "noise"}]}),  # too noisy
        ("partly", {"tests": [RIGHT]}),  # without a control
        ("partly", {"tests": [RIGHT], "controls": [{**CONTROL, "refutes": []}]}),
        ("partly", {"tests": [RIGHT, WRONG], "controls": [CONTROL]}),
        ("partly", {"tests": [RIGHT], "controls": [CONTROL], "stand_in": True}),
        ("partly", {"tests": [RIGHT], "controls": [CONTROL], "unmeasured": "the other half"}),
        ("partly", {"judged": "partly"}),
        ("not", {"tests": [WRONG], "controls": [CONTROL]}),
        ("not", {"tests": [WRONG, {**RIGHT, "premise": True}]}),  # a premise is no claim
        ("contradicted", {"tests": [OPPOSED]}),
        ("contradicted", {"tests": [RIGHT, FAR], "controls": [CONTROL]}),
        ("not", {"tests": [OPPOSED], "stand_in": True}),  # other data contradict nothing
        ("not measured", {"run": "broken", "tests": [RIGHT]}),
        ("not measured", {"run": "stopped", "tests": [RIGHT]}),
        ("not measured", {"run": "absent", "tests": [RIGHT]}),
        ("not measured", {"run": None}),
        ("not feasible here", {"tried": {"run": "stopped"}}),
        ("not measured", {"tried": {"run": "absent"}}),
    ],
)
def test_verdicts_are_what_tests_and_controls_make(made, measured, verdict, entry):
    assert made["verdicts"].judge({"run": "own", **entry}, measured).verdict == verdict


ABOVE_MLP = {"that": "two:lenet/risen", "is": "below", "than": "two:mlp/risen"}
EXCHANGED = {"two:lenet/": "two:mlp/", "two:mlp/": "two:lenet/"}
ALONE = {"two:lenet/": "two:mlp/"}
ABOVE_NOISY = {"that": "risen", "is": "above", "than": "noise:risen", "by": -0.1}


@pytest.mark.parametrize(
    ("tests", "control", "reason"),
    [
        ([ABOVE_MLP], {"replace": EXCHANGED}, "their sides exchanged"),
        ([ABOVE_MLP], {"replace": ALONE}, "two:mlp/risen with itself"),
        ([ABOVE_NOISY], {"run": "noise"}, "noise:risen with itself"),
        ([RIGHT], {"run": "own"}, "the numbers of the run"),
        ([RIGHT, ABOVE_MLP], {"run": "own"}, "the numbers of the run"),
        ([RIGHT], {"replace": {"risen": "own:risen"}}, "the numbers of the run"),
    ],
)
def test_controls_that_could_not_say_no_are_refused(made, measured, tests, control, reason):
    entry = {"run": "own", "tests": tests, "controls": [{"about": "a control", **control}]}
    with pytest.raises(SystemExit, match=reason):
        made["verdicts"].judge(entry, measured)
    refuting_nothing = {**entry["controls"][0], "refutes": []}
    assert made["verdicts"].judge({**entry, "controls": [refuting_nothing]}, measured)


def test_no_reproduced_entry_can_be_its_own_control(made):
    kept = json.loads((GALLERY / "measured.json").read_text())
    judge = made["verdicts"].judge
    tampered = 0
    for entry in ENTRIES["entries"]:
        if judge(entry, kept).verdict == "reproduced":
            own = {"about": "the run itself", "run": entry["run"]}
            with pytest.raises(SystemExit, match="has the numbers of the run"):
                judge({**entry, "controls": [own]}, kept)
            tampered += 1
    assert tampered > 50


@pytest.mark.parametrize(
    ("value", "stderr", "verdict"),
    [
        (0.5, 0.1, "reproduced"),  # no effect, and 3.5 standard errors from the run
        (0.7, 0.1, "partly"),  # no significant effect, nor one of the difference from the run
        (0.5, 0.4, "partly"),  # a control so noisy that nothing could be seen in it
        (1.2, 0.5, "partly"),  # further than the run
        (0.9, 0.1, "partly"),  # an untrained network that passes
    ],
)
def test_the_run_must_differ_from_its_control(made, measured, value, stderr, verdict):
    numbers = {"risen": {"value": value, "stderr": stderr, "null": 0.5}}
    job = {"name": "lenet", "quantities": numbers, "places": {}}
    measured["untrained"] = {"exit": 0, "jobs": [job]}
    control = {"about": "without training", "run": "untrained"}
    entry = {"run": "own", "tests": [RIGHT], "controls": [control]}
    assert made["verdicts"].judge(entry, measured).verdict == verdict


def test_numbers_of_several_seeds_are_pooled_and_compared_in_pairs(made):
    jobs = []
    for seed, low in enumerate((1.0, 2.0, 3.0, 5.0)):
        quantities = {"low": {"value": low}, "high": {"value": low + 0.1 + 0.001 * seed}}
        jobs.append({"name": "mlp", "seed": seed, "quantities": quantities, "places": {}})
    measured = {"own": {"exit": 0, "jobs": jobs}}
    pooled = made["verdicts"].number(measured, "low", "own")
    assert (pooled.value, pooled.df, pooled.over) == (2.75, 3, "seeds")
    test = {"that": "high", "is": "above", "than": "low"}
    assert made["verdicts"].outcome(test, measured, "own").holds  # seeds differ by more
    assert not made["verdicts"].outcome({**test, "than": 2.7}, measured, "own").holds


def test_a_bound_is_refuted_by_a_significant_excess_only(made, measured):
    test = {"that": "risen", "is": "not above"}
    assert made["verdicts"].outcome({**test, "than": 0.75}, measured, "own").holds
    above = made["verdicts"].outcome({**test, "than": 0.74}, measured, "own")
    assert not above.holds and above.opposed


def test_a_number_that_the_run_does_not_have_does_not_hold(made, measured):
    entry = {"run": "own", "tests": [{**RIGHT, "that": "absent"}]}
    assert made["verdicts"].judge(entry, measured).verdict == "not"


def test_a_control_without_the_number_refuses_nothing(made, measured):
    control = {"about": "", "replace": {"risen": "absent"}}
    found = made["verdicts"].judge(
        {"run": "own", "tests": [RIGHT], "controls": [control]}, measured
    )
    assert found.verdict == "partly" and found.controls[0].outcomes == (None,)


def test_the_longest_beginning_of_a_name_is_replaced_at_once(made):
    renamed = made["verdicts"].renamed
    exchanged = {"lenet/": "mlp/", "mlp/": "lenet/", "other:lenet/": "other:mlp/"}
    names = ("lenet/drop", "mlp/drop", "other:lenet/drop", "drop", 0.5)
    found = [renamed(name, exchanged) for name in names]
    assert found == ["mlp/drop", "lenet/drop", "other:mlp/drop", "drop", 0.5]


def test_older_numbers_get_their_degrees_of_freedom(made, measured):
    number = made["verdicts"].number
    assert number(measured, "few", "own").df == 1
    assert number(measured, "risen", "own").df is None  # an error over something else


def test_tests_compare_with_a_null_wherever_there_is_one(made):
    kept = json.loads((GALLERY / "measured.json").read_text())
    for entry in ENTRIES["entries"]:
        if made["verdicts"].judge(entry, kept).verdict in ("not feasible here", "not measured"):
            continue
        for test in entry.get("tests", []):
            try:
                found = made["verdicts"].number(kept, test["that"], entry["run"])
            except made["verdicts"].MissingNumberError:
                continue
            assert test["than"] != found.null, f"{entry['figure']}: {test['that']} has this null"


def test_zeros_are_kept(made):
    quantity = penchant.Quantity(0.0, stderr=0.0, null=0.0)
    assert made["gather"].known_parts(quantity) == {"value": 0.0, "stderr": 0.0, "null": 0.0}


def test_outliers_are_matched_where_eigenvalues_are_and_not_between_them(made):
    grid = np.linspace(-1.0, 10.0, 2001)
    eigenvalues = np.array([9.0, 6.0, 4.0])
    bumps = [np.exp(-0.5 * ((grid - each) / 0.05) ** 2) for each in (*eigenvalues, 0.0)]
    density = sum(bumps) + 20 * bumps[-1]
    arrays = {
        "density-grid": grid,
        "density-undeflated": density,
        "density-hessian": density / 2,
        "top-eigenvalues": eigenvalues,
        "top-residuals": 0.1 * eigenvalues,
        "bulk-grid": grid / 10,
        "bulk-density-hessian": density,
    }
    options = {"lanczos_steps": 64, "kappa": 3.0}
    found = made["derived"].deflation(arrays, options, np.array([8.0, 5.0, 4.0]))
    assert found["outliers-matched"].value == 3
    assert found["outliers-displaced"].value == 0
    assert found["foreign-matched"].value == 1  # one of another network's lies where one's own does
    assert "foreign-matched" not in made["derived"].deflation(arrays, options)
    assert found["bulk-width-ratio"].value == pytest.approx(0.1)
    assert found["outer-share-undeflated"].value == pytest.approx(3 * 0.05 * np.sqrt(2 * np.pi))
    assert found["outer-share"].value == pytest.approx(found["outer-share-undeflated"].value / 2)


def test_the_length_of_a_flower_is_that_of_the_long_circle(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    curve_length = importlib.import_module("curve_length")
    sides = {}
    for name in ("flower", "long-circle"):
        points = curve_length.points(name, 10_000)
        sides[name] = float((points[1:] - points[:-1]).norm(dim=1).sum())
    assert sides["long-circle"] == pytest.approx(sides["flower"], rel=1e-3)
    task = curve_length.LOSS
    waves = [curve_length.target(task, (4,), 0, permuted=each) for each in (False, True)]
    assert sorted(waves[0].tolist()) == sorted(waves[1].tolist())
    assert waves[0].tolist() != waves[1].tolist()


def test_cross_knockout_is_of_the_last_layer_with_a_separation(made):
    arrays = {
        "separation-errors-by-layer": np.array([0.1, 2.0, np.nan]),
        "errors-without-class": np.array([[1.0, 0.5], [8.0, 0.5], [0.0, 0.0]]),
        "errors-without-class-cross": np.array([[1.0, 0.5], [2.0, 0.5], [0.0, 0.0]]),
    }
    assert made["derived"].cross_knockout(arrays)["cross-fall-errors"].value == 4.0


def test_readme_is_written_between_its_marks_only(made):
    marked = made["gallery"].marked
    text = "before\n<!-- gallery -->\nold\n<!-- /gallery -->\nafter\n"
    assert marked(text, "new") == "before\n<!-- gallery -->\nnew\n<!-- /gallery -->\nafter\n"
    assert marked("no marks\n", "new") == "no marks\n"


def test_what_failed_or_changed_is_measured_again(made):
    is_finished = made["measure"].is_finished
    assert is_finished({"command": "a", "exit": 0}, "a")
    assert is_finished({"command": "a", "exit": -24}, "a")  # its time was over
    assert not is_finished({"command": "a", "exit": 1}, "a")
    assert not is_finished({"command": "a"}, "a")  # interrupted
    assert not is_finished({"command": "a", "exit": 0}, "b")
    assert not is_finished({}, "a")


def test_a_chapter_begins_with_its_story_and_tables_over_runs(made, measured):
    row = {"about": "before | after", "numbers": ["own:risen", "two:mlp/risen"]}
    about = {
        "story": "It rises.\n",
        "tables": [{"title": "Rises", "columns": ["own", "two"], "rows": [row]}],
    }
    assert made["gallery"]._story(about, measured) == [
        "It rises.",
        "",
        "**Rises**",
        "",
        "| | own | two |",
        "|---|---|---|",
        "| before \\| after | 1.00 ± 0.10 | 5.00 ± 0.10 |",
        "",
    ]
    assert made["gallery"]._story({}, measured) == []


def test_every_experiment_has_an_entry():
    files = {str(path.relative_to(ROOT / "examples")) for path in ROOT.glob("examples/*/*.toml")}
    covered = set(ENTRIES["others"])
    for entry in ENTRIES["entries"]:
        covered |= set(entry["examples"])
    assert covered == files


def test_every_run_is_used_and_every_number_is_of_its_command(made):
    kept = json.loads((GALLERY / "measured.json").read_text())
    for name, run in kept.items():
        assert run["command"] == RUNS[name]["command"], f"{name} was measured by another command"
        assert run["date"] and run["version"], f"{name} does not say when, and with which code"
    used = set()
    for entry in ENTRIES["entries"]:
        used |= set(made["verdicts"].runs_of(entry) if "run" in entry else ())
        used |= {entry["tried"]["run"]} if "tried" in entry else set()
    assert used == set(RUNS)


def test_no_probe_has_changed_since_it_was_measured(made):
    kept = json.loads((GALLERY / "measured.json").read_text())
    assert made["freshness"].stale(kept) == {}


def test_fingerprints_follow_numbers_and_not_names(made):
    checksum = made["freshness"].checksum
    code = "import torch\nSIZE = 3\ndef double(x: int) -> int:\n    return 2 * x + SIZE\n"
    renamed = code.replace("double", "twice").replace("x", "value").replace("SIZE", "WIDTH")
    assert checksum(code) == checksum(f'"""Docs."""\n{renamed}  # why\n')
    assert checksum(code) != checksum(code.replace("2 * x", "2 + x"))
    assert checksum(code) != checksum(code.replace("SIZE = 3", "SIZE = 4"))


def test_fingerprints_leave_out_what_is_for_types_alone(made):
    checksum = made["freshness"].checksum
    code = "def double(x):\n    return 2 * x\n"
    typed = """
from typing import TypedDict, cast, overload
class Found(TypedDict):
    size: int
@overload
def double(x: int) -> int: ...
def double(x: int) -> int:
    assert x is not None
    return 2 * cast(int, x)
"""
    assert checksum(typed) == checksum(code)


def test_fingerprints_hold_numerics(made):
    freshness = made["freshness"]
    probe = ROOT / "plugins/penchant-nad/src/penchant_nad/nad/probe.py"
    assert freshness._imported(probe, freshness.NUMERICS)


def test_every_entry_fails_with_its_controls(made):
    """The tests of an entry that is called reproduced do not all hold where its claim must not."""
    kept = json.loads((GALLERY / "measured.json").read_text())
    judge = made["verdicts"].judge
    for entry in ENTRIES["entries"]:
        if judge(entry, kept).verdict != "reproduced":
            continue
        assert entry["controls"], entry["figure"]
        for control in entry["controls"]:
            fed = {
                "run": control.get("run", entry["run"]),
                "tests": made["verdicts"].control_tests(entry, control),
            }
            try:
                holding = [each.holds for each in judge(fed, kept).outcomes]
            except made["verdicts"].MissingNumberError:
                continue  # a number that the control does not have
            assert holding and not all(holding), f"{entry['figure']}: {control['about']} passes"


def test_entries_say_what_their_controls_are_about():
    for entry in ENTRIES["entries"]:
        for control in entry.get("controls", []):
            assert set(control) <= {"about", "run", "replace", "refutes"}, entry["figure"]
            assert control["about"] and ("run" in control or "replace" in control), entry["figure"]


def test_pages_are_those_of_the_numbers(made):
    expected = made["gallery"].pages()
    for name, text in expected.items():
        assert (GALLERY / name).read_text() == text, f"{name} is stale: docs/make/gallery.py"
    assert {path.name for path in GALLERY.glob("*.md")} == set(expected)
    readme = (ROOT / "README.md").read_text()
    assert made["gallery"].marked(readme, made["gallery"].score()) == readme


def test_verdicts_are_those_of_the_stored_numbers(made):
    kept = json.loads((GALLERY / "measured.json").read_text())
    for entry in ENTRIES["entries"]:
        found = made["verdicts"].judge(entry, kept)
        explained = entry["why"] if isinstance(entry["why"], dict) else [entry["verdict"]]
        assert found.verdict in explained, entry["figure"]
        unseen = found.verdict in ("not feasible here", "not measured")
        assert bool(found.outcomes) != bool(entry.get("judged") or unseen), entry["figure"]
        # A picture that was judged by eye has no control.
        assert entry.get("judged") in (None, "partly", "not"), entry["figure"]


def test_every_finding_has_its_picture_and_its_number():
    sections = (GALLERY / "findings.md").read_text().split("\n## ")[1:]
    found = {each.partition("\n")[0]: each for each in sections}
    for finding in ENTRIES["findings"]:
        section = found[finding["title"]]
        assert section.count("](pictures/") == 1, finding["title"]
        assert f"**: {finding['label']}." in section, finding["title"]


def test_pictures_are_small_and_all_shown():
    pictures = list((GALLERY / "pictures").iterdir())
    assert max(path.stat().st_size for path in pictures) <= 60_000
    assert sum(path.stat().st_size for path in pictures) < 6_000_000
    text = "".join(path.read_text() for path in GALLERY.glob("*.md"))
    for path in pictures:
        assert f"pictures/{path.name}" in text, f"{path.name} is shown nowhere"
