"""Every probe on architectures that are no perceptron: convolutions, attention, batch normalisation, in the shape of images."""

import numpy as np
import penchant
import pytest
import torch

pytest.importorskip("penchant_architectures")

SHAPE = (1, 16, 16)
ARCHITECTURES = {
    "lenet": {"name": "lenet"},
    "vit": {"name": "vit", "layers": 1, "heads": 2, "width": 8, "hidden": 8},
    "batch-norm": {"name": "mlp", "widths": [8], "normalization": "batch", "activation": "sine"},
}
STEPS = {"steps": 2}
CURVE = {"frequencies": (1, 2, 3), "samples": 12, "trainings": 1, "shape": SHAPE}
IMAGES = {"chosen_classes": (0, 1), "samples": 16, "trainings": 1, "eval_every": 1}
SMALL = {
    "frequency-learning": {**CURVE, "eval_every": 1, "petals": 3, "shuffled_trainings": 0},
    "frequency-robustness": {**CURVE, "deltas": (0.0, 1.0), "perturbations": 2},
    "manifold-accuracy": {
        "frequencies": (2,),
        "petal_counts": (0, 2),
        "samples": 12,
        "trainings": 1,
        "grid_points": 16,
        "shape": SHAPE,
    },
    "peak-ablation": {"samples": 12, "trainings": 1, "eval_every": 1, "shape": SHAPE},
    "exact-spectrum": {"networks": 1, "cycles": 20, "box_networks": 1, "shape": SHAPE},
    "target-noise": {**IMAGES, "test_samples": 8},
    "kernel-spectrum": {**IMAGES, "bins": 4},
    "noise-on-manifold": {
        "samples": 16,
        "features": 4,
        "trainings": 1,
        "encoder_steps": 2,
        "eval_every": 1,
    },
    "class-paths": {
        "images": 2,
        "adversarials": 1,
        "pairs": 2,
        "pivots": 1,
        "refinements": 1,
        "bends": 1,
        "attack_steps": 2,
    },
}


def pictures():
    generator = torch.Generator(device="cpu").manual_seed(0)
    labels = torch.arange(60, device="cpu") % 2
    inputs = (
        torch.rand(60, *SHAPE, generator=generator, device="cpu")
        + 3.0 * labels[:, None, None, None]
    )
    return (inputs[:40], labels[:40]), (inputs[40:], labels[40:])


CELLS = [
    pytest.param(
        probe,
        architecture,
        marks=[] if architecture == "lenet" or probe == "frequency-learning" else pytest.mark.slow,
    )
    for probe in SMALL
    for architecture in ARCHITECTURES
]


@pytest.mark.parametrize(("probe", "architecture"), CELLS)
def test_probe_takes_any_architecture(probe, architecture):
    runs = SMALL[probe]
    options = dict(runs[0] if isinstance(runs, list) else runs)
    data = {} if "shape" in options else {"dataset": pictures}
    training = (
        {}
        if probe == "exact-spectrum"
        else {"training": {"epochs": 8} if probe == "class-paths" else STEPS}
    )
    if probe == "frequency-robustness":
        training = {"training": {"steps": 20}}  # a spectrum of nothing has no relative amplitude
    result = penchant.measure(
        probe,
        architecture=ARCHITECTURES[architecture],
        executor="serial",
        **data,
        **training,
        **options,
    )
    assert result.quantities
    if architecture == "batch-norm" and probe not in ("exact-spectrum", "class-paths"):
        assert "running statistics" in result.conventions["batch-norm"]


def test_spectrum_of_a_network_without_pieces_is_sampled_and_says_so():
    tanh = {"name": "mlp", "widths": [16], "activation": "tanh"}
    options = {"networks": 2, "cycles": 20, "box_networks": 0, "shape": (1,), "executor": "serial"}
    result = penchant.measure("exact-spectrum", architecture=tanh, **options)
    assert any("no chain of linear layers" in text for text in result.warnings)
    assert "pieces" not in result.quantities and np.isfinite(result.arrays["amplitude"]).all()
