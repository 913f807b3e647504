"""Every probe, small: all that the conformance tests ask of it, and what it refuses."""

import math

import penchant
import penchant_testing as testing
import pytest
import torch
from torch import nn

ADAM = {"optimizer": "adam", "learning_rate": 0.01, "batch": 0, "steps": 4, "loss": "squared-error"}
CURVE = {"frequencies": [1, 2, 3], "samples": 16, "trainings": 2, "training": ADAM}
PAIR = {"chosen_classes": [0, 2], "trainings": 2, "eval_every": 2, "training": ADAM}
PATHS = {
    "images": 3,
    "adversarials": 2,
    "pairs": 4,
    "pivots": 1,
    "refinements": 2,
    "bends": 2,
    "attack_certainty": 0.3,
    "training": {"epochs": 5},
}
# On these, errors are compared with their spread over seeds, but for those of CLAIMS.
RUNS = {
    "frequency-learning": {
        **CURVE,
        "eval_every": 2,
        "petals": 0,
        "compared_petals": [2],
        "shape": [2],
    },
    "frequency-robustness": {
        **CURVE,
        "deltas": [0.0, 0.5, 1.0],
        "perturbations": 5,
        "shape": [2, 3],
    },
    "target-noise": {**PAIR, "samples": 20, "test_samples": 10},
    "kernel-spectrum": {**PAIR, "samples": 24, "kernel_width": 2.0, "bins": 4},
    "manifold-accuracy": {
        "frequencies": [2, 4],
        "petal_counts": [0, 3],
        "samples": 24,
        "trainings": 2,
        "neighbour_counts": [1, 3],
        "grid_points": 16,
        "shape": [3],
        "training": {**ADAM, "loss": "cross-entropy"},
    },
    "peak-ablation": {
        "samples": 16,
        "weight_clips": [0.1, 0.0],
        "trainings": 2,
        "eval_every": 2,
        "shape": [1],
        "training": ADAM,
        "architecture": {"name": "mlp", "widths": [4]},
    },
    "noise-on-manifold": {
        "samples": 20,
        "features": 2,
        "trainings": 2,
        "eval_every": 2,
        "encoder_width": 8,
        "encoder_steps": 5,
        "training": ADAM,
    },
    "class-paths": PATHS,
    "exact-spectrum": {
        "networks": 3,
        "cycles": 20,
        "gradients": 4,
        "box_networks": 4,
        "regions": True,
        "shape": [2],
        "architecture": {"name": "mlp", "widths": [4, 4]},
    },
}


def fixed_network():
    """A trained network stands here for any: its lines are drawn again with the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 1))
        network[0].weight.data *= 6
    return network


OWN = {
    "architecture": {"name": "import", "factory": fixed_network()},
    "shape": [3],
    "wave_inputs": [0],
    "frequencies": [1, 2, 3],
    "slices": 12,
    "grid_points": 16,
}

# All other properties show in less.
TWO_STEPS = {"eval_every": 1, "training": {**ADAM, "steps": 2}}
SMALL = {
    "frequency-learning": [
        {**RUNS["frequency-learning"], **TWO_STEPS, "shuffled_trainings": 2},
        {**OWN, "shuffles": 3},
    ],
    "frequency-robustness": {**RUNS["frequency-robustness"], "training": TWO_STEPS["training"]},
    "target-noise": {**RUNS["target-noise"], **TWO_STEPS},
    "kernel-spectrum": {**RUNS["kernel-spectrum"], **TWO_STEPS},
    "manifold-accuracy": {
        **RUNS["manifold-accuracy"],
        "training": {**ADAM, "loss": "cross-entropy", "steps": 2},
    },
    "peak-ablation": {**RUNS["peak-ablation"], **TWO_STEPS},
    "noise-on-manifold": {**RUNS["noise-on-manifold"], **TWO_STEPS, "encoder_steps": 2},
    "class-paths": {**PATHS, "pairs": 3, "bends": 1, "attack_step": 0.3, "training": {"epochs": 3}},
    "exact-spectrum": {**RUNS["exact-spectrum"], "networks": 2, "gradients": 2, "box_networks": 2},
}


def ring(generator):
    """Class 1 around class 0, both blurred: straight lines between its points often leave it."""
    labels = torch.arange(160, device="cpu") % 2
    angle = 2 * math.pi * torch.rand(160, generator=generator, device="cpu")
    blur = 0.3 * torch.randn(160, generator=generator, device="cpu")
    radius = 0.9 + 1.1 * labels + blur
    inputs = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return (inputs[:100], labels[:100]), (inputs[100:], labels[100:])


def plane_network(shape, outputs):
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, outputs))


# Trained until numbers differ from run to run, which those of four steps do not.
CLAIMS = {
    **RUNS,
    "frequency-learning": [RUNS["frequency-learning"], OWN],
    "class-paths": [
        {
            "chosen_classes": [1],
            "images": 8,
            "adversarials": 0,
            "pairs": 20,
            "learning_rate": 0.02,
            "pivots": 1,
            "refinements": 2,
            "bends": 2,
            "architecture": {"name": "import", "factory": plane_network},
            "dataset": {"name": "import", "factory": ring},
            "training": {"optimizer": "adam", "learning_rate": 0.02, "batch": 0, "steps": 60},
        },
        PATHS,
    ],
    "kernel-spectrum": {
        **RUNS["kernel-spectrum"],
        # of 60 samples, so that choices hardly overlap
        "samples": 8,
        "trainings": 3,
        "eval_every": 5,
        "training": {**ADAM, "steps": 60},
    },
    "manifold-accuracy": {
        **RUNS["manifold-accuracy"],
        "frequencies": [5, 9],
        "samples": 40,
        "trainings": 3,
        "training": {**ADAM, "loss": "cross-entropy", "steps": 30},
    },
    "target-noise": {
        **RUNS["target-noise"],
        "trainings": 3,
        "test_samples": 20,
        "training": {**ADAM, "steps": 20},
    },
}
UNCLAIMED = {
    "class-paths": {"confirmed": "every path keeps its class between its points, in all runs"},
    "frequency-learning": {
        "learnt-frequencies": "none is learnt in four steps, and after more all are in order: "
        "then the rank correlation is 1 in all runs"
    },
}

DECAY = "a theorem gives its exponent, not chance"
SLOPE = "a slope has no value by chance"
BOUND = "a bound, not a measurement"
COUNT = "a count of linear pieces has no value by chance"
WITHOUT_NULL = {
    "class-paths": {
        "confirmed": "a check of `connected`: 1 where points lie close enough",
        "length-ratio": "a bent path is longer than a straight line in any network",
    },
    "exact-spectrum": {
        "decay": DECAY,
        "*-decay": DECAY,
        "lipschitz": SLOPE,
        "plane-lipschitz": SLOPE,
        "*-bound": BOUND,
        "pieces": COUNT,
        "regions": COUNT,
        "high-frequency-share": "a volume of parameters has no value by chance",
    },
    "kernel-spectrum": {"dip-step": "a step has no value by chance"},
    "manifold-accuracy": {"neighbour-decay": "neighbours are not trained"},
    "peak-ablation": {"lipschitz": SLOPE},
}


class White(nn.Module):
    """Linear in waves so fast that no two inputs have anything in common: it knows no order."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.register_buffer("waves", 300 * torch.randn(inputs, 64, device="cpu"))
        self.register_buffer("phases", 2 * math.pi * torch.rand(64, device="cpu"))
        self.weight = nn.Parameter(0.02 * torch.randn(64, outputs, device="cpu"))

    def forward(self, x):
        return torch.cos(x.flatten(1) @ self.waves + self.phases) @ self.weight


class Constant(nn.Module):
    """The same logit everywhere, drawn near zero."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(1, device="cpu"))

    def forward(self, x):
        return 0 * x.flatten(1)[:, :1] + self.bias


def white(shape, outputs):
    return White(math.prod(shape), outputs)


def constant(shape, outputs):
    return Constant()


def dealt(generator):
    """Labels that have nothing to do with the inputs."""
    inputs = torch.randn(240, 4, generator=generator, device="cpu")
    labels = torch.randint(3, (240,), generator=generator, device="cpu")
    return (inputs[:120], labels[:120]), (inputs[120:], labels[120:])


def imported(factory):
    return {"name": "import", "factory": factory}


SGD = {"optimizer": "sgd", "learning_rate": 0.02, "momentum": 0.0, "batch": 0, "steps": 20}
SLOW = {**SGD, "loss": "squared-error"}
UNTRAINED = {**ADAM, "steps": 0}
SIX = {"frequencies": [1, 2, 3, 4, 5, 6], "samples": 32, "trainings": 4, "shape": [2]}
FOUR = {"chosen_classes": [0, 2], "trainings": 4, "eval_every": 5, "samples": 40}
NO_EFFECT = {
    # all frequencies, eigenvectors and inputs are alike to this network
    "frequency-learning": {
        **SIX,
        "eval_every": 5,
        "petals": 0,
        "compared_petals": [2],
        "shuffled_trainings": 4,
        "architecture": imported(white),
        "training": SLOW,
    },
    "kernel-spectrum": {
        **FOUR,
        "kernel_width": 4.0,
        "bins": 6,
        "architecture": imported(white),
        "training": SLOW,
    },
    "noise-on-manifold": {
        "samples": 40,
        "features": 2,
        "trainings": 4,
        "eval_every": 5,
        "encoder_width": 8,
        "encoder_steps": 30,
        "architecture": imported(white),
        "training": SLOW,
    },
    # at initialisation
    "frequency-robustness": {
        **SIX,
        "deltas": [0.0, 0.5, 1.0],
        "perturbations": 10,
        "training": UNTRAINED,
    },
    "peak-ablation": {
        "samples": 16,
        "weight_clips": [0.1, 0.0],
        "trainings": 4,
        "eval_every": 2,
        "shape": [1],
        "architecture": {"name": "mlp", "widths": [8]},
        "training": UNTRAINED,
    },
    # waves so fast that samples see noise in both
    "target-noise": {
        **FOUR,
        "test_samples": 40,
        "noise_frequencies": [50.0, 90.0],
        "dataset": imported(dealt),
        "training": ADAM,
    },
    # the commonest class of every wave
    "manifold-accuracy": {
        "frequencies": [4, 8],
        "petal_counts": [0, 3],
        "samples": 40,
        "trainings": 4,
        "neighbour_counts": [],
        "grid_points": 16,
        "shape": [2],
        "architecture": imported(constant),
        "training": {**ADAM, "loss": "cross-entropy", "learning_rate": 0.1, "steps": 30},
    },
    # paths that are not bent, of a network with nothing to learn
    "class-paths": {
        **PATHS,
        "images": 4,
        "adversarials": 3,
        "pairs": 8,
        "bends": 0,
        "dataset": imported(dealt),
    },
}
FITTED = "training samples are fitted even where no frequency comes first"
GEOMETRY = "of inputs, not of a training"
EFFECTS = {
    "frequency-learning": {"final-loss": FITTED},
    "kernel-spectrum": {"effective-rank": GEOMETRY, "grid-slope": GEOMETRY},
    "noise-on-manifold": {
        "manifold-loss": FITTED,
        "plane-loss": FITTED,
        "normal-loss": FITTED,
        "unscaled-plane-loss": FITTED,
        "reconstruction-error": "the autoencoder is trained",
        "norm-ratio": GEOMETRY,
    },
}

test_conforms = testing.conformance(
    "penchant-spectral-bias",
    small=SMALL,
    claims=CLAIMS,
    unclaimed=UNCLAIMED,
    without_null=WITHOUT_NULL,
    no_effect=NO_EFFECT,
    effects=EFFECTS,
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
            {"frequencies": [32], "samples": 64, "shape": [1]},
            "frequencies must be below half the",
        ),
        ("frequency-learning", {"petals": 3, "shape": [1]}, "must have at least 2 input values"),
        (
            "frequency-learning",
            {"compared_petals": [3], "shape": [2]},
            "compared_petals need a flower",
        ),
        (
            "manifold-accuracy",
            {"training": {"loss": "squared-error", "steps": 1}, "shape": [2]},
            "needs training.loss = 'cross-entropy'",
        ),
        (
            "target-noise",
            {"chosen_classes": [0, 3]},
            r"classes must be two of 0..2, found \[0, 3\]",
        ),
        ("target-noise", {"chosen_classes": [1, 1]}, "classes must be two of"),
        (
            "target-noise",
            {"chosen_classes": [0, 1], "noise_frequencies": []},
            "at least one frequency",
        ),
        (
            "noise-on-manifold",
            {"features": 4, "samples": 10},
            "features must be below the 4 values",
        ),
        ("noise-on-manifold", {"features": 2, "samples": 91}, "samples must be at most 90"),
        ("class-paths", {"chosen_classes": [3]}, r"classes must be in 0..2, found 3"),
        (
            "peak-ablation",
            {"weight_clips": [], "shape": [1]},
            "weight_clips must name at least one bound",
        ),
    ],
)
def test_what_does_not_fit_is_refused(name, options, message, tmp_path):
    with pytest.raises((penchant.Error, AssertionError), match=message):
        testing.check_probe(name, tmp_path, **options)
