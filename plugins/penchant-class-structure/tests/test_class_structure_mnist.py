"""A real run: a perceptron with batch-norm on a thousand MNIST digits, and the same without batch-norm."""
# ruff: noqa: T201 (the numbers are shown with -s)

import os
from pathlib import Path

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


def measured(normalization, tmp_path):
    raw = {
        "seeds": [0],
        "executor": "serial",
        "architectures": [
            {"name": "mlp", "widths": [256, 256, 256], "normalization": normalization}
        ],
        "datasets": [{"name": "mnist", "per_class": 100, "test_per_class": 100}],
        "probes": [
            {
                "name": "cross-class",
                "per_class": 100,
                "exact_limit": 0,  # leading eigenvalues by Lanczos: all ten thousand take minutes
                "steps": 64,
                "starts": 1,
                "training": {
                    "epochs": 300,
                    "until_loss": 0.001,
                    "momentum": 0.9,
                    "weight_decay": 0.0,
                    "learning_rate": 0.05,
                },
            }
        ],
    }
    (result,) = penchant.run(raw, out=tmp_path / "run").results()
    assert result.status == "done", result.error
    found = {name: quantity.value for name, quantity in result.quantities.items()}
    null = result.quantities["class-share"].null
    print(
        f"\nbatch-norm {normalization}: loss {found['loss']:.5f}; share in the span of class means {found['class-share']:.3f}, permuted {null:.3f}"
    )
    print(
        f"  largest eigenvalue {found['largest']:.4f}, without G_class {found['largest-without-class']:.4f}",
        end="",
    )
    print(
        f"; largest gap after {found['outliers']:.0f} (searched after 2 to {2 * C}), ratio {found['gap']:.2f}, margin {found['gap-margin']:.2f}"
    )
    return found, null


def test_class_means_span_the_leading_eigenspace(tmp_path):
    found, null = measured("batch", tmp_path)
    assert found["loss"] < 0.001
    assert found["class-share"] > 0.85
    assert null < 0.65
    assert found["largest-without-class"] < 0.6 * found["largest"]
    parts = [found[f"trace-{name}"] for name in ("class", "cross", "within", "diagonal")]
    assert sum(parts) == pytest.approx(found["trace-total"], rel=1e-4)


def test_without_batch_norm_there_is_a_number_too(tmp_path):
    found, null = measured("none", tmp_path)
    assert found["class-share"] > null
