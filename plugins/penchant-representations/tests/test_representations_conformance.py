"""The probe, small, by the conformance tests; errors and nulls over a dozen seeds."""

import sys

import penchant_testing as testing
import torch
from torch import nn

ROWS = torch.randn(40, 4, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
# Networks at initialisation, and a short training.
DRAWN = {"training": {"steps": 0}}
SHORT = {"training": {"steps": 5, "batch": 30}}
FEW = {"samples": 30, "groups": 3, "shuffles": 3, "neighbours": 2}


class Slice(nn.Module):
    """Two layers on some of the inputs, with the same weights for every seed."""

    def __init__(self, chosen, outputs, seed=0):
        super().__init__()
        self.chosen = chosen
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, outputs)
        generator = torch.Generator("cpu").manual_seed(seed)
        for value in self.parameters():
            value.data = torch.randn(value.shape, generator=generator, device="cpu")

    def forward(self, x):
        return self.last(self.first(x[:, self.chosen]).tanh())


def on_all(shape, outputs):
    """A network on the first four inputs."""
    return Slice(slice(0, 4), outputs)


def on_others(shape, outputs):
    """A network on four other inputs: independent of the first."""
    return Slice(slice(4, 8), outputs, seed=1)


def noise(generator):
    """Test inputs drawn again with the seed; the same training samples for every seed."""
    fixed = torch.Generator("cpu").manual_seed(5)
    train = torch.randn(40, 8, generator=fixed, device="cpu")
    test = torch.randn(300, 8, generator=generator, device="cpu")
    labels = torch.arange(300, device="cpu") % 3
    return (train, labels[:40]), (test, labels)


FIXED = {
    "architecture": {"name": "import", "factory": on_all},
    "dataset": {"name": "import", "factory": noise},
    "samples": 300,
}
# The second architecture is text, so that its module must have a name that can be imported.
sys.modules["representations_cases"] = sys.modules[__name__]
OTHERS = "import:factory=representations_cases:on_others"
# The full batch: nothing about the training is random.
TRAINED = {"training": {"steps": 5, "batch": 0, "learning_rate": 1.0}}

test_conforms = testing.conformance(
    "penchant-representations",
    small={
        "representation-similarity": [
            {**FEW, **SHORT, "second": "seed"},
            {**FEW, **DRAWN, "layer_names": ["*"], "positions": "mean"},
            {**FEW, "features": {"a": ROWS, "b": ROWS[:, :2]}},
        ]
    },
    own={"representation-similarity": {**FEW, "second": "itself"}},
    claims={"representation-similarity": {**FIXED, **TRAINED}},
    no_effect={"representation-similarity": {**FIXED, **DRAWN, "second": "other", "other": OTHERS}},
)
