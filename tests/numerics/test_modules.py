"""Groups of parameters by patterns, in wrappers and copies as in the network itself."""

import doctest

import pytest
import torch
from penchant_numerics.jacobians import Modules, modules
from torch import nn


def network():
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)))


def test_examples_in_docstrings_run():
    assert doctest.testmod(modules).failed == 0


def test_coordinates_are_those_of_parameters_that_differ():
    whole = network()
    row = nn.utils.parameters_to_vector(whole.parameters()).detach()
    for pattern, coordinates in (
        Modules.of(whole, ["0", "1.1", "*.bias"]).coordinates(whole).items()
    ):
        changed = network()
        changed.load_state_dict(whole.state_dict())
        with torch.no_grad():
            for name in Modules.of(whole, [pattern]).names(changed)[pattern]:
                changed.get_parameter(name).add_(1)
        moved = nn.utils.parameters_to_vector(changed.parameters()).detach() != row
        assert torch.equal(torch.nonzero(moved)[:, 0], coordinates)


def test_a_wrapper_has_the_same_modules_under_other_names():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

    whole = network()
    found = Modules.of(whole, ["1.0"])
    assert found.names(Wrapper(whole)) == {"1.0": ("inner.1.0.weight", "inner.1.0.bias")}
    assert torch.equal(found.coordinates(Wrapper(whole))["1.0"], found.coordinates(whole)["1.0"])


def test_what_names_nothing_or_a_module_twice_is_refused():
    with pytest.raises(ValueError, match="no parameter is named '2'"):
        Modules.of(network(), ["0", "2"])
    with pytest.raises(ValueError, match=r"parameters must differ, found \['0', '0'\]"):
        Modules.of(network(), ["0", "0"])
