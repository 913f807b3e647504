"""The examples of this plugin in their quick form, as scripts; half a minute, so slow tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "landscape"


def output(name, folder):
    """What an example prints, in a folder where it draws."""
    script = [sys.executable, "-W", "ignore", str(EXAMPLES / f"{name}.py"), "--quick"]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / f"{name}.png").is_file()
    return done.stdout


@pytest.mark.slow
def test_coefficients_of_layers_are_the_known_ones(tmp_path):
    line = re.compile(
        r"layer \d: ([\d.]+) ± ([\d.]+), known ([\d.]+);.*half its parameters ([\d.]+)"
    )
    found = line.findall(output("coefficient_by_layer", tmp_path))
    assert len(found) == 3
    for each in found:
        value, stderr, known, half = map(float, each)
        assert abs(value - known) < 4 * stderr < half - known


@pytest.mark.slow
def test_sharpness_rises_with_the_rate_and_not_without_it(tmp_path):
    printed = output("progressive_sharpening", tmp_path)
    rows = re.findall(r"critical sharpness: first, largest, last ([\d.e+]+) ([\d.e+]+)", printed)
    (first, largest), (of_control, most_of_control) = (map(float, row) for row in rows)
    assert largest > 10 * first
    assert most_of_control < 2 * of_control
    passes = [int(each) for each in re.findall(r"most (\d+)", printed)]
    assert len(passes) == 2 and max(passes) <= 12
