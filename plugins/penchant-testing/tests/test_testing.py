"""The conformance kit itself: what it must notice."""

import attrs
import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant.plugins import discovery
from penchant_numerics.roles import Directions
from penchant_testing import checks
from penchant_testing.same_estimates import difference
from torch import nn


def result(quantities=None, arrays=None, meanings=("found",), about=("values",)):
    record = {
        "probe": {"name": "found"},
        "meanings": dict.fromkeys(meanings, "a meaning"),
        "about": dict.fromkeys(about, "an array"),
    }
    return penchant.Result(quantities or {}, arrays or {}, record=record)


@attrs.frozen
class Found(penchant.Probe):
    """Finds something."""

    name = "found"


ONE = penchant.Quantity(1.0, exact=True)


def test_an_undeclared_name_is_noticed():
    with pytest.raises(AssertionError, match="gives the quantity 'other', which it does not"):
        checks.check_declared(Found, [result({"found": ONE, "other": ONE})], ())
    with pytest.raises(AssertionError, match="gives the array 'rubbish'"):
        checks.check_declared(Found, [result({"found": ONE}, {"rubbish": [1.0]})], ())


def test_a_declared_name_that_never_comes_is_noticed():
    with pytest.raises(AssertionError, match="declares the array ..values.., never produced"):
        checks.check_declared(Found, [result({"found": ONE})], ())
    checks.check_declared(Found, [result({"found": ONE})], ("values",))
    several = [result({"found": ONE}), result({}, {"values": [1.0], "values-stderr": [0.1]})]
    checks.check_declared(Found, several, ())


def test_names_are_filled_from_their_braces(tmp_path):
    job = checks.experiment("output-spread", {"networks": 2})
    assert job["probes"][0]["networks"] == 2
    from penchant.components.names import filled

    declared = {"error-{proxy}": "of {proxy}", "at-{levels}": "level {levels}"}
    found = filled(declared, {"levels": (0.5, 2.0)}, {"proxy": ["kfac", "kfac-2"]})
    assert list(found) == ["error-kfac", "error-kfac-2", "at-0.5", "at-2"]


def test_a_quantity_without_an_error_is_noticed():
    with pytest.raises(AssertionError, match="no standard error and does not say that it is exact"):
        checks.check_errors(result({"found": penchant.Quantity(1.0)}))
    with pytest.raises(AssertionError, match="does not say what its error is over"):
        checks.check_errors(result({"found": penchant.Quantity(1.0, stderr=0.1)}))
    with pytest.raises(AssertionError, match="has no meaning"):
        checks.check_errors(result({"found": ONE}, meanings=()))
    checks.check_errors(result({"found": ONE}))


def test_a_quantity_with_neither_a_null_nor_a_reason_is_noticed():
    beside = penchant.Quantity(1.0, exact=True, null=0.0)
    alone = result({"trace-a": ONE, "trace-b": ONE, "found": beside})
    with pytest.raises(AssertionError, match=r"gives \['trace-a', 'trace-b'\] without a null and"):
        checks.check_nulls(Found, [alone], {})
    checks.check_nulls(Found, [alone], {"trace-*": "a trace has no value by chance"})
    # One run with a null is enough: others may have nothing to compare with.
    checks.check_nulls(Found, [result({"found": ONE}), result({"found": beside})], {})


def test_a_reason_for_nothing_is_noticed():
    one = result({"found": ONE})
    with pytest.raises(AssertionError, match="gives no quantity 'fuond', expected one of"):
        checks.check_nulls(Found, [one], {"found": "a count", "fuond": "a count"})
    with pytest.raises(AssertionError, match="does not say why 'found' has no null"):
        checks.check_nulls(Found, [one], {"found": ""})
    known = result({"found": penchant.Quantity(1.0, exact=True, null=0.0)})
    with pytest.raises(AssertionError, match=r"has a null of \['found'\] and a reason why"):
        checks.check_nulls(Found, [known], {"f*": "a count"})


def test_a_standard_error_of_another_shape_is_noticed():
    arrays = {"values": np.ones(3), "values-stderr": np.ones(2)}
    with pytest.raises(AssertionError, match="values-stderr has shapes"):
        checks.check_errors(result({"found": ONE}, arrays))


def test_the_emulated_device_refuses_what_cuda_refuses():
    with testing.emulated_device() as counts:
        tensor = torch.ones(3, device="cpu").to("emulated")
        assert tensor.device.type == "emulated"
        with pytest.raises(RuntimeError, match="expected all tensors to be on the same device"):
            tensor + torch.ones(3, device="cpu")
        with pytest.raises(RuntimeError, match="generator"):
            generator = torch.Generator(device="cpu")
            torch.randn(3, generator=generator, device="emulated")
        with pytest.raises((RuntimeError, TypeError)):
            np.asarray(tensor)
        assert float((tensor * 2).sum()) == 6.0
        assert counts.by_kind() == {"to device": 1, "item": 1}
        ((kind, line),) = [key for key in counts.syncs if key[0] == "item"]
        assert "test_testing.py" in line


def test_training_on_the_emulated_device_gives_the_numbers_of_the_cpu():
    def trained(device):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
        inputs = torch.randn(8, 3, device="cpu").to(device)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            network(inputs).square().mean().backward()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in network.parameters()]

    with torch.random.fork_rng(devices=[]):
        expected = trained("cpu")
        with testing.emulated_device() as counts:
            found = trained("emulated")
    assert all(torch.equal(one, two) for one, two in zip(expected, found))
    assert counts.launches > 50


def test_the_emulated_device_leaves_no_trace():
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    with testing.emulated_device():
        pass
    assert torch.__future__.get_overwrite_module_params_on_conversion() == before
    module = nn.Linear(2, 2)
    assert module.double().weight.dtype == torch.float64


def test_a_factory_without_a_device_is_noticed_in_any_package(install):
    install("careless", "import torch\n\ndef make():\n    return torch.arange(3)\n")
    import penchant_careless

    strict = testing.strict_devices("penchant_careless")
    with pytest.raises(AssertionError, match="torch.arange without device="), strict:
        penchant_careless.make()
    with testing.strict_devices("another"):
        penchant_careless.make()


def test_a_context_for_tests_is_a_real_one():
    context = testing.context("output-spread", networks=3, architecture="perceptron")
    assert isinstance(context, penchant.Context)
    assert context.options.networks == 3
    assert context.data.classes == 3
    assert context.network(1)(context.data.test.inputs).shape == (30, 3)
    assert context.has("dataset") and context.scope("x").generator("a").initial_seed() != 0


def test_parts_are_those_of_probes():
    bound = testing.architecture("perceptron:width=3", shape=(4,), outputs=2)
    assert bound(0)[1].out_features == 3
    one, two = testing.dataset("two-blobs", seed=0), testing.dataset("two-blobs", seed=1)
    assert not torch.equal(one.train.inputs, two.train.inputs)
    assert testing.seed(0, "network", 1) == bound.seed_of(1)


SPARING = """
import attrs
import penchant

@attrs.frozen
class Sparing(penchant.Probe):
    \"\"\"Gives other arrays than it declares.\"\"\"
    name = "sparing"
    target = "penchant_sparing:run"
    quantities = {"total": "of nothing"}
    arrays = {"first": "a number", "second": "another"}
    presets = {"quick": {}}
    given: str = penchant.option("first", "the array that is given")

def run(options, context):
    quantity = penchant.Quantity(1.0, exact=True)
    return penchant.Result({"total": quantity}, {options.given: [1.0]})

@penchant.hookimpl
def penchant_probes():
    return [Sparing]
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["first"], "declares the array ..second.., never produced"),
        (["first", "second", "third"], "gives the array 'third', which it does not declare"),
        (["first", "second"], None),
    ],
)
def test_arrays_of_small_runs_are_those_that_are_declared(install, tmp_path, given, told):
    install("sparing", SPARING)
    test = testing.conformance(
        "penchant-sparing", small={"sparing": [{"given": each} for each in given]}
    )
    (cases,) = [mark.args[1] for mark in test.pytestmark if mark.name == "parametrize"]
    (names,) = [case.values[0] for case in cases if case.id == "probe-sparing-names"]
    if told is None:
        names.check(tmp_path)
        return
    with pytest.raises(AssertionError, match=told):
        names.check(tmp_path)


def _answer(trace):
    return Directions(torch.ones(2), torch.eye(2), trace, None, networks=4)


def test_two_answers_are_compared_number_by_number():
    assert difference(_answer(1.0), _answer(1.0)) == ""
    assert difference(_answer(1.0), _answer(2.0)) == "trace: 1.0, then 2.0"
    assert difference({"a": (1, 2)}, {"a": (1, 3)}) == "1: 2, then 3"
    assert difference(float("nan"), float("nan")) == ""
    assert difference(1.0, "1.0") == "the answer: float, then str"


def test_an_estimator_that_answers_otherwise_the_second_time_is_refused(install):
    source = """
import attrs, penchant, random, torch
from penchant_numerics.roles import Directions
@attrs.frozen
class Guess(penchant.Estimator):
    "Another value at every call."
    name = "guess"
    role = "directions"
    target = "penchant_guess:estimate"
    given: bool = penchant.option(True, "give what the role says")
def estimate(options, context, *, networks):
    if not options.given:
        return {"trace": 1.0}
    count.append(1)
    return Directions(torch.ones(2, device="cpu"), torch.eye(2, device="cpu"), float(len(count)), None, networks)
count = []
@penchant.hookimpl
def penchant_estimators():
    return [Guess]
"""
    install("guess", source)
    arguments = {"architecture": "perceptron", "shape": (4,), "call": {"networks": 4}}
    with pytest.raises(AssertionError, match="guess gave another answer the second time: trace"):
        testing.check_estimator("guess", **arguments)
    with pytest.raises(
        penchant.Error,
        match="'guess' must return a penchant_numerics.roles.estimates.Directions, found dict",
    ):
        testing.check_estimator("guess", **arguments, options={"given": False})


def properties_of(distribution):
    """Properties by name, of a test without arguments."""
    (mark,) = testing.conformance(distribution).pytestmark
    cases = [case.values[0] for case in mark.args[1]]
    return {each.name: each for each in cases}


def test_every_estimator_of_every_plugin_is_called():
    """Those that no call was given for were skipped without a word."""
    registrations = discovery.load().registrations()
    estimators = [each for each in registrations if each.component.kind == "estimator"]
    assert len(estimators) >= 15
    for each in estimators:
        properties = properties_of(each.distribution)
        assert f"estimator-{each.component.name}-same-twice" in properties


def test_an_estimator_whose_call_is_not_known_fails(tmp_path):
    prop = properties_of("penchant-example")["estimator-standard-deviation-same-twice"]
    with pytest.raises(AssertionError, match="standard-deviation is never called: .* `small` must"):
        prop.check(tmp_path)
