"""The probe, small, by the conformance tests; errors and nulls over a dozen seeds."""

import tempfile
from pathlib import Path

import penchant_testing as testing
import torch
from torch import nn


def heavy_network(shape, outputs):
    """Entries with a power-law tail, drawn again with the seed."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 200, bias=False))
    uniform = torch.rand_like(network[1].weight)
    signs = torch.where(torch.rand_like(uniform) < 0.5, -1.0, 1.0)
    network[1].weight.data = signs * uniform ** (-1 / 1.2)
    return network


HEAVY = {
    "architecture": {"name": "import", "factory": heavy_network},
    "shape": [200],
    "outputs": 200,
}
FRESH = {
    "architecture": {"name": "import", "factory": testing.tiny_network},
    "shape": [40],
    "outputs": 30,
}
SMALL = {**FRESH, "smallest": 4, "shuffles": 2}


def base_file():
    """Weights from which a network's are a random direction away."""
    path = Path(tempfile.mkdtemp(prefix="penchant-")) / "base.pt"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        torch.save(testing.tiny_network((40,), 30).state_dict(), path)
    return str(path)


DIFFERENCE = {**SMALL, "base": base_file()}

test_conforms = testing.conformance(
    "penchant-weights",
    small={"weight-spectra": [SMALL, {**HEAVY, "shuffles": 2}, DIFFERENCE]},
    claims={"weight-spectra": {**HEAVY, "shuffles": 2}},
    without_null={"weight-spectra": {"tail-exponent": "an exponent has no value by chance"}},
    no_effect={"weight-spectra": {**FRESH, "smallest": 8, "shuffles": 20}},
)
