"""What runs on a GPU as soon as there is one: every probe has its test, and the test can fail."""

import re
import subprocess
import sys

import cuda_sizes
import cuda_verdict
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant.execution.job import gpus
from penchant.plugins import discovery
from penchant_testing import checks, on_cuda

ARGUMENTS = {"architecture": "mlp:widths=[4]", "shape": [3], "networks": 12}


@pytest.fixture()
def expected(tmp_path):
    pytest.importorskip("penchant_nad")
    return checks.small_run("nad", tmp_path / "here", {**ARGUMENTS, "figures": False})


def test_a_probe_on_a_device_is_compared_and_timed(tmp_path, expected, monkeypatch):
    table = tmp_path / "table.txt"
    monkeypatch.setenv(on_cuda.TABLE, str(table))
    with testing.emulated_device():
        on_cuda.check_on_cuda("nad", tmp_path / "there", ARGUMENTS, expected, device="emulated")
    assert re.fullmatch(r"nad +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d\n", table.read_text())


def test_other_numbers_on_a_device_are_noticed(tmp_path, expected):
    arguments = {**ARGUMENTS, "networks": 13}
    far = {"trace": penchant.Quantity(expected.quantities["trace"].value * 50)}
    wrong = penchant.Result(far, expected.arrays)
    with (
        testing.emulated_device(),
        pytest.raises(AssertionError, match="trace is .* on the device"),
    ):
        on_cuda.check_on_cuda("nad", tmp_path / "there", arguments, wrong, device="emulated")


@pytest.mark.slow
def test_every_probe_has_a_test_for_gpus(root):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "cuda", "plugins"]
    text = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout
    found = set(re.findall(r"\[probe-(.*)-cuda\]", text))
    probes = {
        registration.component.name for registration in discovery.load().registrations("probe")
    }
    assert found >= probes - {"output-spread"}, sorted(probes - found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_there_is_no_verdict_but_a_reason(root, command, tmp_path):
    report = tmp_path / "report.txt"
    done = command(root / "tests" / "tools" / "cuda_verdict.py", "--report", report, script=True)
    assert done.returncode == 2
    assert f"torch {torch.__version__}" in done.stdout
    assert gpus.obstacle(gpus.known()) in done.stdout
    assert report.read_text() == done.stdout


WARNS = """
import warnings
import pytest

@pytest.mark.cuda
def test_warns():
    warnings.warn("Attempting to run cuBLAS, but there was no current CUDA context", UserWarning)

@pytest.mark.cuda
def test_fails():
    assert 1 + 1 == 3, "arithmetic"
"""


@pytest.mark.slow
def test_warnings_are_shown_and_fail_nothing_failures_are_reported(root, command, tmp_path):
    """On the emulated device in the place of a GPU."""
    (tmp_path / "test_warns.py").write_text(WARNS)
    (tmp_path / "test_lacks.py").write_text("import no_such_package")
    report = tmp_path / "report.txt"
    # With the settings of this repository, where warnings are errors.
    settings = ["--", "-c", root / "pyproject.toml"]
    tests = ["--device", "emulated", "--report", report, *settings, tmp_path]
    done = command(root / "tests" / "tools" / "cuda_verdict.py", *tests, script=True)
    assert done.returncode == 1
    assert "1 x UserWarning: Attempting to run cuBLAS" in done.stdout
    assert "some tests fail (1 failed, 1 not collected, 1 passed" in done.stdout
    assert "Hessian product of resnet20" in done.stdout
    text = report.read_text()
    assert "FAILED" in text and "arithmetic" in text and "FAILED nad" not in text
    assert "NOT COLLECTED" in text and "No module named 'no_such_package'" in text


@pytest.mark.parametrize(
    ("ratio", "mebibytes", "expected"),
    [
        (0.95, 1, ["0.95, equally fast"]),
        (2.0, 1, ["stacked is faster", "the faster one is chosen"]),
        (0.5, 1, ["one by one is faster", "the slower one is chosen, and no setting changes"]),
        (0.5, 100, ["one by one is faster", "the faster one is chosen"]),
        (2.0, 100, ["stacked is faster", "the slower one is chosen"]),
    ],
)
def test_the_table_says_which_training_is_faster_and_which_is_chosen(ratio, mebibytes, expected):
    text = " ".join(cuda_sizes.stacking_advice(ratio, mebibytes * 2**20))
    assert all(each in text for each in expected)


def test_the_table_says_from_how_many_steps_on_compiling_is_won_back():
    (text,) = cuda_sizes.compiling_advice(30.0, 0.05)
    assert "won back after 600 steps; trainings of at least 1000 steps are compiled" in text
    assert "saves nothing" in " ".join(cuda_sizes.compiling_advice(30.0, -0.05))


FAILS = """
import pytest
import torch

@pytest.mark.cuda
def test_first():
    raise torch.AcceleratorError("CUDA error: device-side assert triggered")

@pytest.mark.cuda
def test_second():
    pass
"""


def test_a_device_that_failed_ends_the_tests(tmp_path, monkeypatch):
    """Everything after it in the same process would fail as well, and hide the cause."""
    (tmp_path / "test_fails.py").write_text(FAILS)
    monkeypatch.setenv(on_cuda.TABLE, "")
    code, watch = cuda_verdict.run_tests(tmp_path / "table.txt", [str(tmp_path)])
    assert code == pytest.ExitCode.INTERRUPTED
    assert watch.outcomes == {"failed": 1}
    assert "device-side assert" in watch.failures[0]
