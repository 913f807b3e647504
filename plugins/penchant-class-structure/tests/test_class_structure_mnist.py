"""A real run: a perceptron with batch-norm on a thousand MNIST digits, and without batch-norm."""
# ruff: noqa: T201 (the numbers are shown with -s)

import os
from pathlib import Path

import numpy as np
import penchant
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path(os.environ.get("PENCHANT_DATA", ""), "mnist").is_dir(),
        reason="PENCHANT_DATA names no folder with mnist",
    ),
]
C = 10
SEEDS = [0, 1, 2, 3]
TRAINING = {
    "epochs": 300,
    "until_loss": 0.001,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "learning_rate": 0.05,
}
PROBE = {
    "name": "cross-class",
    "per_class": 100,
    "exact_limit": 0,  # leading eigenvalues by Lanczos: all ten thousand take minutes
    "lanczos_steps": 8,  # the densities are not looked at
    "starts": 1,
    "permutations": 2,
    "training": TRAINING,
}


def measured(normalization, seeds, folder):
    network = {"name": "mlp", "widths": [256, 256, 256], "normalization": normalization}
    raw = {
        "seeds": seeds,
        "executor": "serial",
        "figures": False,
        "architectures": [network],
        "datasets": [{"name": "mnist", "per_class": 100, "test_per_class": 100}],
        "probes": [PROBE],
    }
    results = penchant.run(raw, out=folder).results()
    for result in results:
        assert result.status == "done", result.error
        print(result)
    return [result.quantities for result in results]


def test_class_means_span_the_leading_eigenspace(tmp_path):
    """The share in their span is above that of permuted classes, by many errors over seeds.

    The largest gap comes after 9 = C - 1 eigenvalues, in these four seeds, where the paper has C.
    """
    found = measured("batch", SEEDS, tmp_path / "run")
    effect = [each["class-share"].value - each["class-share"].null for each in found]
    stderr = np.std(effect, ddof=1) / len(effect) ** 0.5
    print(f"share minus null {np.mean(effect):.3f} ± {stderr:.3f} over seeds")
    assert np.mean(effect) > 5 * stderr
    assert np.mean(effect) > 0.1
    for each in found:
        assert each["loss"].value < 0.001
        assert each["largest-without-class"].value < each["largest-without-class"].null
        assert each["outliers"].value in (C - 1, C)
        traces = [each[f"trace-{name}"].value for name in ("class", "cross", "within", "diagonal")]
        assert sum(traces) == pytest.approx(each["trace-total"].value, rel=1e-4)


def test_without_batch_norm_there_is_a_number_too(tmp_path):
    (found,) = measured("none", [0], tmp_path / "run")
    assert found["class-share"].value > found["class-share"].null
