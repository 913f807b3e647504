"""Every probe, small, by the kit; all of a probe's runs together show everything it declares."""

import tempfile
from pathlib import Path

import penchant_testing as testing
import torch
from penchant_testing.tiny import SAMPLES, TINY, tiny_network, tiny_samples


def one_network():
    """The weights of one network, so that seeds draw other samples for the same network."""
    path = Path(tempfile.mkdtemp(prefix="penchant-")) / "one.pt"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        torch.save(tiny_network((4,), 3).state_dict(), path)
    return {"name": "import", "factory": TINY, "weights": str(path)}


def shuffled_samples(generator):
    """The kit's samples with labels that know nothing of them."""
    (inputs, labels), (test_inputs, test_labels) = tiny_samples(generator)
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    test_order = torch.randperm(len(test_labels), generator=generator, device="cpu")
    return (inputs, labels[order]), (test_inputs, test_labels[test_order])


def in_the_plane(generator):
    """Points of a square with two classes that know nothing of them."""
    inputs = 2 * torch.rand(60, 2, generator=generator, device="cpu") - 1
    labels = torch.arange(60, device="cpu") % 2
    return (inputs[:40], labels[:40]), (inputs[40:], labels[40:])


KERNEL = {"architecture": one_network(), "samples": 80, "permutations": 20}
POSITIVE = "the size of an error, which is 0 only in the limit of small steps"
BOUND = "a bound, not a measurement"
FEW = {"steps": 6, "batch": 16, "learning_rate": 0.1}
ONE = {**FEW, "steps": 1}
TWO = {**FEW, "steps": 2}
DISK = "disk:train=20,test=10"
MIXED = {"noise_shares": [0.0, 1.0], "easy_samples": 40, "difficult_samples": 20}
ON_DISK = {
    "dataset": DISK,
    "eval_steps": [0, 3],
    "trainings": 2,
    "training": {"steps": 3, "batch": 0},
}
ON_A_LINE = {
    "dataset": "sinusoids",
    "grid_points": 8,
    "leading": 3,
    "eval_steps": [0],
    "trainings": 2,
    "training": {"steps": 0, "loss": "squared-error"},
}
SETTINGS = {
    "architecture": "mlp:widths=[4]",
    "widths": [2, 4],
    "noise_shares": [0.0, 0.5],
    "trainings": 2,
}

# Networks at initialisation, or hardly moved, mostly with labels that are independent of the samples.
DRAWN = {"steps": 0}
SHUFFLED = {"name": "import", "factory": shuffled_samples}
NO_EFFECT = {
    "tangent-kernel": {"dataset": SHUFFLED, "training": DRAWN, "samples": 40},
    "tangent-training": {
        "training": DRAWN,
        "samples": 40,
        "trainings": 6,
        "eval_steps": [0],
        "easy_samples": 50,
        "difficult_samples": 40,
    },
    "tangent-eigenfunctions": {
        "dataset": {"name": "import", "factory": in_the_plane},
        "training": DRAWN,
        "grid_points": 6,
        "leading": 4,
        "trainings": 3,
        "eval_steps": [0],
    },
    "complexity": {
        "architecture": "mlp:widths=[4]",
        "dataset": SHUFFLED,
        "widths": [2, 4, 8, 16],
        "noise_shares": [0.0, 1.0],
        "trainings": 2,
        "samples": 10,
        "training": {"steps": 2, "batch": 16, "learning_rate": 1e-6},
    },
    "parameter-directions": {
        "dataset": SHUFFLED,
        "training": DRAWN,
        "samples": 20,
        "vectors": 60,
        "step": 0.001,
    },
}
EVEN = "the null is a kernel without preference; an untrained network has one"
CLUSTERED = "the null are labels in random order; true ones align with the kernel of any network"
EFFECTS = {
    "tangent-kernel": {"effective-rank": EVEN, "trace-ratio-40": EVEN, "trace-ratio-80": EVEN},
    "tangent-training": {
        "effective-rank-initial-0": EVEN,
        "cka-final-0": CLUSTERED,
        "cka-uncentred-final-0": CLUSTERED,
        "test-cka-final-0": CLUSTERED,
    },
    "tangent-eigenfunctions": {"decay-0": EVEN},
    "parameter-directions": {"leading-change": EVEN, "leading-ratio": EVEN},
}

# Errors are compared with spreads where trainings are longer and samples more.
CLAIMS = {
    "tangent-kernel": {**KERNEL, "ratios": [2, 4, 40]},
    "tangent-training": [
        {"samples": 8, "evaluations": 2, "trainings": 2, "ratios": [2], "training": FEW},
        {**MIXED, "samples": 8, "eval_steps": [0, 6], "trainings": 2, "training": FEW},
    ],
    "tangent-eigenfunctions": [{**ON_DISK, "grid_points": 5, "leading": 4}, ON_A_LINE],
    "complexity": {**SETTINGS, "samples": 10, "eval_every": 3, "training": FEW},
    "capacity": {
        "features": 40,
        "grid_points": 40,
        "train": 10,
        "training_sets": 12,
        "signs": 40,
        "scalings": [0.0, 0.1, 0.5, 0.99],
    },
}

test_conforms = testing.conformance(
    "penchant-tangent",
    small={
        "tangent-kernel": [
            {**KERNEL, "samples": 20, "permutations": 3, "ratios": [2, 4], "store_kernel": True},
            {"samples": 16, "split": "test", "centring": "all", "groups": 4, "training": FEW},
        ],
        "tangent-training": [
            {"samples": 4, "evaluations": 2, "trainings": 2, "ratios": [2], "training": ONE},
            {
                **MIXED,
                "dataset": "disk:train=60,test=10",
                "samples": 8,
                "eval_steps": [0, 1],
                "trainings": 2,
                "training": ONE,
            },
        ],
        "tangent-eigenfunctions": [{**ON_DISK, "grid_points": 4, "leading": 3}, ON_A_LINE],
        "disk": {"train": 20, "test": 10},
        "supernat": [
            {"trainings": 6, "inputs": 3, "train": 12, "descent_steps": 20},
            {
                "architecture": {"name": "import", "factory": TINY},
                "dataset": {"name": "import", "factory": SAMPLES},
                "trainings": 2,
                "train": 8,
                "descent_steps": 4,
            },
        ],
        "parameter-directions": {
            "architecture": one_network(),
            "samples": 20,
            "vectors": 12,
            "step": 0.001,
        },
        "complexity": {**SETTINGS, "dataset": DISK, "samples": 4, "eval_every": 2, "training": TWO},
        "capacity": {
            "features": 30,
            "grid_points": 30,
            "train": 10,
            "training_sets": 4,
            "signs": 10,
            "scalings": [0.0, 0.5, 0.99],
        },
    },
    claims=CLAIMS,
    no_effect=NO_EFFECT,
    effects=EFFECTS,
    unclaimed={
        "tangent-training": {"rank-correlation": "alignment falls with the share in all runs"},
        "tangent-eigenfunctions": {"frequency-correlation": "three functions are always in order"},
    },
    without_null={
        "tangent-kernel": {"trace": "a trace has no value by chance"},
        "tangent-eigenfunctions": {"speed-error": POSITIVE},
        "parameter-directions": {
            "first-order-error": POSITIVE,
            "random-change": "is the null of leading-change",
            "random-change-expected": "is the null of random-change-train",
        },
        "capacity": {
            "bound-l2": BOUND,
            "bound-optimal": BOUND,
            "error-bound-*": BOUND,
            "tightness-*": "how near a bound is to equality, not a chance",
        },
    },
)
