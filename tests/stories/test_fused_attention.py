"""A network that calls fused attention on four axes goes through every probe of second derivatives."""

import penchant
import pytest
import torch
from torch import nn
from torch.nn import functional


class Attends(nn.Module):
    """Two heads of attention over the tokens of an input, as many networks call it by hand."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.tokens = 4
        width = torch.Size(shape).numel() // self.tokens
        self.embed = nn.Linear(width, 3 * 8)
        self.head = nn.Linear(8, outputs)

    def forward(self, x):
        tokens = x.flatten(1).reshape(len(x), self.tokens, -1)
        parts = self.embed(tokens).reshape(len(x), self.tokens, 3, 2, 4)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.head(mixed.transpose(1, 2).reshape(len(x), self.tokens, 8).mean(1))


def samples(generator):
    inputs = torch.randn(60, 1, 4, 4, generator=generator, device="cpu")
    return inputs, (inputs[:, 0, 0, 0] > 0).long()


SHAPE = {"shape": (1, 4, 4)}
DATA = {"dataset": samples}
SHORT = {"training": {"steps": 4}}
CASES = {
    "nad": {**SHAPE, "networks": 4, "estimators": {"directions": "mixed-derivative"}},
    "dipole": {**SHAPE, "networks": 8, "every": 8},
    "geometry-evolution": {**DATA, "networks": 16},
    "input-curvature": {**DATA, **SHORT, "trainings": 3, "samples": 2},
    "hessian-spectrum": {**DATA, **SHORT, "lanczos_steps": 8, "starts": 2},
    "cross-class": {**DATA, **SHORT},
    "curvature-proxies": {**DATA, **SHORT, "per_class": 5},
}


@pytest.mark.parametrize("probe", CASES)
def test_the_probe_runs_on_fused_attention(probe):
    result = penchant.measure(probe, architecture=Attends, executor="serial", **CASES[probe])
    assert result.status == "done"
    assert all(quantity.missing or quantity.numbers for quantity in result.quantities.values())
