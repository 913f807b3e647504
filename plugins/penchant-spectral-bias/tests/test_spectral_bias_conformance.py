"""Every probe, small: declared, deterministic, the same under every executor, device-clean, traceless, stored and drawn."""

import subprocess
import sys

import penchant
import pytest
from penchant import testing

ADAM = {"optimizer": "adam", "learning_rate": 0.01, "batch": 0, "steps": 6, "loss": "squared-error"}
CURVE = {"frequencies": [1, 2, 3], "points": 16, "draws": 2, "training": ADAM}
SMALL = {
    "frequency-learning": {**CURVE, "every": 2, "shape": [1]},
    "frequency-robustness": {
        **CURVE,
        "deltas": [0.0, 0.5, 1.0],
        "perturbations": 5,
        "shape": [2, 3],
    },
    "target-noise": {
        "classes": [0, 2],
        "samples": 20,
        "validation": 10,
        "draws": 2,
        "every": 3,
        "training": ADAM,
    },
    "kernel-spectrum": {
        "classes": [0, 2],
        "samples": 24,
        "sigma": 2.0,
        "bins": 4,
        "draws": 2,
        "every": 3,
        "training": ADAM,
    },
    "manifold-accuracy": {
        "frequencies": [2, 4],
        "petal_counts": [0, 3],
        "points": 24,
        "draws": 2,
        "neighbours": [1, 3],
        "grid": 16,
        "shape": [3],
        "training": {**ADAM, "loss": "cross-entropy"},
    },
    "peak-ablation": {
        "points": 16,
        "weight_clips": [0.1, 0.0],
        "draws": 2,
        "every": 3,
        "shape": [1],
        "training": ADAM,
    },
    "noise-on-manifold": {
        "samples": 20,
        "features": 2,
        "draws": 2,
        "every": 3,
        "encoder_width": 8,
        "encoder_steps": 5,
        "match_norms": True,
        "training": ADAM,
    },
    "class-paths": {
        "images": 3,
        "adversarials": 2,
        "pairs": 4,
        "pivots": 1,
        "refinements": 2,
        "steps": 2,
        "training": {"epochs": 3},
    },
    "exact-spectrum": {"networks": 3, "cycles": 20, "gradients": 4, "box_draws": 4, "shape": [1]},
}


@pytest.mark.parametrize("offer", testing.offers("penchant-spectral-bias"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


@pytest.mark.parametrize("name", SMALL)
def test_probe_conforms(name, tmp_path):
    testing.check_probe(
        name, tmp_path, processes=name in ("frequency-learning", "class-paths"), **SMALL[name]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_probe_is_the_same_in_two_processes(name, tmp_path):
    testing.check_probe(name, tmp_path, **SMALL[name])


def test_every_probe_is_conformed():
    offered = {offer.component.name for offer in testing.offers("penchant-spectral-bias")}
    assert offered == set(SMALL)


def test_declarations_import_no_numerics():
    code = "import penchant_spectral_bias, sys; print([m for m in ('torch', 'numpy', 'scipy', 'matplotlib') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "frequency-learning",
            {"training": {"loss": "cross-entropy", "steps": 1}, "shape": [1]},
            "needs training.loss = 'squared-error'",
        ),
        (
            "frequency-learning",
            {"frequencies": [32], "points": 64, "shape": [1]},
            "frequencies must be below half the points",
        ),
        (
            "frequency-learning",
            {"petals": 3, "shape": [1]},
            "must have at least 2 input values",
        ),
        (
            "manifold-accuracy",
            {"training": {"loss": "squared-error", "steps": 1}, "shape": [2]},
            "needs training.loss = 'cross-entropy'",
        ),
        ("target-noise", {"classes": [0, 3]}, r"classes must be two of 0..2, found \[0, 3\]"),
        ("target-noise", {"classes": [1, 1]}, "classes must be two of"),
        ("target-noise", {"classes": [0, 1], "frequencies": []}, "at least one frequency"),
        (
            "noise-on-manifold",
            {"features": 4, "samples": 10},
            "features must be below the 4 values",
        ),
        ("noise-on-manifold", {"features": 2, "samples": 91}, "samples must be at most 90"),
        ("class-paths", {"classes": [3]}, r"classes must be in 0..2, found 3"),
        (
            "peak-ablation",
            {"weight_clips": [], "shape": [1]},
            "weight_clips must name at least one bound",
        ),
    ],
)
def test_what_does_not_fit_is_refused(name, options, message, tmp_path):
    with pytest.raises((penchant.Error, AssertionError), match=message):
        testing.check_probe(name, tmp_path, processes=False, **options)
