"""A part of `tests/tools/outside_networks.py`: networks from outside are right, or refused in a sentence."""

import re

import pytest
from outside_networks import known, outcome

RIGHT = [
    ("hostile", "DataParallel", "layer-structure"),
    ("hostile", "sparse embedding", "cross-class"),
    ("hostile", "frozen layer", "cross-class"),
    ("torch", "attention", "nad"),
    ("torch", "cnn, batch norm", "hessian-spectrum"),
]
REFUSED = [
    ("changes its input", "cross-class", "changes its input in place"),
    ("changes its input", "layer-structure", "changes its input in place"),
    ("functional dropout", "nad", "gives other outputs for equal inputs"),
    ("functional dropout", "average-geometry", "gives other outputs for equal inputs"),
    ("functional dropout", "layer-structure", "gives other outputs for equal inputs"),
    ("functional dropout", "neural-collapse", "gives other outputs for equal inputs"),
    ("complex parameters", "cross-class", "is complex64"),
    ("quantised", "nad", "is quantised"),
    ("storing", "nad", "cannot be copied"),
    ("no running statistics", "layer-structure", "normalises by the batch at hand"),
    ("log of inputs", "layer-structure", "expected finite numbers"),
    ("in-place activation", "nad", "has no gradients in its parameters: .*write x = torch.relu"),
    ("no_grad inside", "nad", "has no gradients in its inputs"),
    ("no_grad inside", "curvature-proxies", "no gradient reaches the layer '0'"),
]


@pytest.mark.parametrize(("group", "name", "probe"), RIGHT)
def test_networks_from_outside_have_the_numbers_of_plain_torch(group, name, probe):
    values = known(group, name, probe)
    assert values
    assert outcome(probe, group, name, values) == ("right", f"{len(values)} known")


@pytest.mark.parametrize(("name", "probe", "message"), REFUSED)
def test_hostile_networks_are_refused_in_a_sentence(name, probe, message):
    found, text = outcome(probe, "hostile", name, {})
    assert found == "refused", text
    assert re.search(message, text), text
