"""Every probe, small, by the conformance tests."""

import penchant_testing as testing
import torch
from torch import nn

FEW = {
    "samples": 60,
    "grid_points": 5,
    "plane_points": 3,
    "random_directions": 3,
    "training": {"steps": 6, "learning_rate": 0.3},
}
CHAINS = {
    "chains": 4,
    "chain_steps": 60,
    "warmup": 40,
    "localisation": 30.0,
    "training": {"steps": 4, "learning_rate": 0.3},
}
BATCHES = {**CHAINS, "batch": 20, "step_size": 1e-4, "eval_steps": [2, 4]}

BY_MODULE = {"parameters": ["*"]}
STEPS = {"samples": 40, "random_directions": 3, "training": {"steps": 6, "learning_rate": 0.3}}


def one_network(shape, outputs):
    """The same network for every seed: errors are over samples, so only these are drawn again."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return testing.tiny_network(shape, outputs)


def same_training(generator):
    """Training samples are the same for every seed; test samples are drawn again.

    Their classes are drawn too: errors are over samples of a population, and the spread over sets
    with as many of each class is smaller.
    """
    fixed = torch.Generator("cpu").manual_seed(3)
    train, _ = testing.tiny_samples(fixed)
    labels = torch.randint(3, (360,), generator=generator, device="cpu")
    inputs = torch.randn(360, 4, generator=generator, device="cpu")
    inputs[torch.arange(360, device="cpu"), labels] += 3.0
    return train, (inputs, labels)


def linear_network(shape, outputs):
    """A regular model: the loss is a quadratic form of full rank."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], outputs, bias=False))


def linear_samples(generator):
    """Numbers that are a linear function of inputs, but for noise."""
    inputs = torch.randn(200, 4, generator=generator, device="cpu")
    noise = torch.randn(200, 1, generator=generator, device="cpu")
    labels = inputs @ torch.tensor([[1.0], [-1.0], [0.5], [2.0]], device="cpu") + 0.1 * noise
    return (inputs, labels), (inputs[:20], labels[:20])


# Full batches: the order of samples does not matter.
FULL = {"steps": 30, "learning_rate": 0.3, "batch": 0}
FIXED = {
    **FEW,
    "architecture": {"name": "import", "factory": one_network},
    "dataset": {"name": "import", "factory": same_training},
    "split": "test",
    "samples": None,
    "training": FULL,
    "random_directions": 20,
    "plane_points": 0,
}
REGULAR = {
    "architecture": {"name": "import", "factory": linear_network},
    "dataset": {"name": "import", "factory": linear_samples},
    "training": {"steps": 300, "learning_rate": 0.1, "batch": 0, "loss": "squared-error"},
    "chains": 8,
    "chain_steps": 400,
    "warmup": 200,
    "localisation": 0.1,
}
# The gradient is that of the training samples, which stay: the losses are those of test samples.
SAME_STEP = {
    "architecture": {"name": "import", "factory": one_network},
    "dataset": {"name": "import", "factory": same_training},
    "split": "test",
    "samples": None,
    "training": {**FULL, "steps": 3},
    "eval_steps": [3],
    "dtype": "float64",
}
# A random direction among random directions.
ANY_DIRECTION = {
    **SAME_STEP,
    "along": "random",
    "training": {**FULL, "steps": 0},
    "eval_steps": [0],
    "exact_limit": 0,
}

# A path between networks that are the same but for rounding.
STANDING = {**FIXED, "training": {**FULL, "steps": 2, "learning_rate": 1e-30}}

SCALE = "has the scale of the loss: none is expected by chance"
METHOD = "says how far the chains may be trusted; not a measurement of the network"
SCALED = "is the critical sharpness, which has a null, in other units"
WITHOUT_NULL = {
    "critical-sharpness": {
        "critical-rate": SCALED,
        "critical-update": SCALED,
        "sharpness-ratio": "a ratio of two curvatures, which have nulls",
        "stability-limit": "follows from the learning rate",
        "loss": SCALE,
    },
    "loss-plane": {"random-rise": SCALE},
    "learning-coefficient": {
        "localised-coefficient": "its limit, learning-coefficient, has one",
        "temperature-slope": "localisation gives it a slope at any finite n",
        "split-r-hat": METHOD,
        "effective-samples": METHOD,
        "acceptance": METHOD,
        "loss": SCALE,
    },
}
RANKS = "over states of one training, of which samples that are drawn again have the same"
UNCLAIMED = {
    "critical-sharpness": {
        "rank-correlation": RANKS,
        "sharpening": RANKS,
        "critical-update": "is the critical rate in other units, whose error is compared",
    },
    "learning-coefficient": {
        "learning-coefficient": "holds an allowance for the distance to the limit, which is the "
        "same for every seed; its coverage is tested in test_landscape_chains",
        "temperature-slope": "is over chains, and samples that are drawn again move it, too; "
        "compared with its spread over chains in test_landscape_chains",
    },
}
STEEP = "an eigenvector is chosen for its curvature, in an untrained network too"
EFFECTS = {
    "loss-plane": {
        "eigenvector-rise": STEEP,
        "sharpness": STEEP,
        "quadratic-ratio": "no loss of a network is quadratic",
        "loss": "an untrained network is worse than constant outputs",
    }
}

test_conforms = testing.conformance(
    "penchant-landscape",
    small={
        "loss-plane": [
            FEW,
            {**FEW, "batch_norm": "calibrated", "split": "test", "samples": 24, **BY_MODULE},
        ],
        "learning-coefficient": [CHAINS, {**BATCHES, **BY_MODULE}],
        "critical-sharpness": [
            STEPS,
            {**STEPS, "along": "update", "batch_norm": "calibrated"},
            {**STEPS, "along": "random", "batch_norm": "batch", "dtype": "float64"},
        ],
    },
    claims={"loss-plane": FIXED, "learning-coefficient": REGULAR, "critical-sharpness": SAME_STEP},
    unclaimed=UNCLAIMED,
    without_null=WITHOUT_NULL,
    no_effect={
        "loss-plane": STANDING,
        "learning-coefficient": REGULAR,
        "critical-sharpness": ANY_DIRECTION,
    },
    effects=EFFECTS,
)
