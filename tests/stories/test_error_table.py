"""`make errors`: stated errors beside the spread over seeds, from what is stored."""

import importlib.util
import json
from pathlib import Path

import pytest


@pytest.fixture
def made():
    path = Path(__file__).parents[1] / "tools" / "error_table.py"
    spec = importlib.util.spec_from_file_location("error_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_row_has_the_root_mean_square_of_errors_and_the_spread_of_values(made):
    stored = {"0": {"a": [1.0, 3.0], "b": [1.0, None]}, "1": {"a": [3.0, 4.0], "b": [2.0, None]}}
    rows = {key: rest for key, *rest in made.rows(stored)}
    assert rows["a"] == pytest.approx([2, 12.5**0.5, 2**0.5])
    assert rows["b"] == [2, None, pytest.approx(0.5**0.5)]


def test_what_was_measured_is_not_measured_again(made, tmp_path, monkeypatch):
    path = tmp_path / "some-0.json"
    path.write_text(json.dumps({str(seed): {"a": [1.0, 1.0]} for seed in range(made.SEEDS - 1)}))
    asked = []

    class Ran:
        quantities = {}

    def small_run(name, folder, options):
        asked.append(options["seed"])
        return Ran()

    monkeypatch.setattr(made, "small_run", small_run)
    made.measure("some", 0, {}, path)
    assert asked == [made.SEEDS - 1]
    assert len(json.loads(path.read_text())) == made.SEEDS
