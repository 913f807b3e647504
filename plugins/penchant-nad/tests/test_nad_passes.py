"""Large inputs: what finite differences in each of them take is said."""

import penchant
import penchant_testing as testing
import pytest
from penchant_nad.estimators import gradient_covariance


@pytest.mark.parametrize(("method", "told"), [("finite-difference", True), ("autograd", False)])
def test_differences_in_many_inputs_are_warned_of(monkeypatch, method, told):
    monkeypatch.setattr(gradient_covariance, "MANY_INPUTS", 15)
    estimators = {"directions": {"name": "gradient-covariance", "method": method}}
    architecture = {"name": "import", "factory": testing.TINY}
    result = penchant.measure(
        "nad",
        architecture=architecture,
        shape=(1, 4, 4),
        networks=2,
        estimators=estimators,
        executor="serial",
    )
    said = [text for text in result.warnings if "method=autograd takes one backward pass" in text]
    assert bool(said) == told
    assert all("in 16 inputs take 32 forward passes per network" in text for text in said)
