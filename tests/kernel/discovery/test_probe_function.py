"""`penchant.probe` makes a probe of a function."""

import penchant
import pytest
import torch


@penchant.probe(needs="architecture", quantities={"size": "norm of the output on ones"})
def output_size(context, networks: int = 16, scale: float = 1.0):
    """How large are outputs on ones?

    Args:
        networks: how many networks are sampled
        scale: factor of the inputs
    """
    inputs = scale * torch.ones(1, *context.architecture.shape, device=context.device)
    values = [context.network(i)(inputs).norm().item() for i in range(networks)]
    return penchant.Quantity.of(values, over="networks")


def linear(shape, outputs):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, outputs, bias=False))


def measure(probe=output_size, **options):
    return penchant.measure(probe, architecture=linear, shape=(1, 2, 2), **options)


def test_the_function_is_measured_with_its_own_options():
    once = measure(networks=4).quantities["size"]
    twice = measure(networks=4, scale=2.0).quantities["size"]
    assert once.count == 4 and once.df == 3
    assert twice.value == pytest.approx(2 * once.value)


def test_name_help_and_options_come_from_the_function():
    assert output_size.name == "output-size"
    assert output_size.summary() == "How large are outputs on ones?"
    helps = {field.name: field.metadata["help"] for field in output_size.__attrs_attrs__}
    assert helps == {"networks": "how many networks are sampled", "scale": "factor of the inputs"}


def test_options_are_as_strict_as_those_of_a_class():
    with pytest.raises(penchant.Error, match="networks must be a whole number, found 2.5"):
        measure(networks=2.5)


def test_an_option_needs_a_type_and_a_default():
    with pytest.raises(penchant.Error, match="option 'networks' of probe 'f' has no type"):

        @penchant.probe(quantities={})
        def f(context, networks=3): ...

    with pytest.raises(penchant.Error, match="option 'networks' of probe 'g' has no default"):

        @penchant.probe(quantities={})
        def g(context, networks: int): ...


def test_a_decorator_without_arguments_says_what_they_are():
    expected = r'@penchant.probe\(needs="architecture", quantities={"output-norm": "what it is"}\)'
    with pytest.raises(penchant.Error, match=expected + ", found no arguments"):

        @penchant.probe
        def output_norm(context): ...

    with pytest.raises(penchant.Error, match="found no quantities and no tables"):
        penchant.probe(needs="architecture")


def test_a_probe_may_measure_a_table_alone():
    @penchant.probe(needs="architecture", tables={"norm[network]": "norm of the weights"})
    def norms(context):
        """Norms of weights."""
        networks = [context.network(number) for number in range(3)]
        values = [float(next(each.parameters()).detach().norm()) for each in networks]
        return penchant.Table(values, {"network": range(3)})

    result = penchant.measure(norms, architecture="mlp", shape=(4,), outputs=2)
    assert not result.quantities
    assert result.tables["norm"].axes == {"network": (0, 1, 2)}


def test_what_is_no_quantity_is_refused():
    @penchant.probe(needs="architecture", quantities={"a": "one", "b": "another"})
    def two(context):
        return penchant.Quantity(1.0, exact=True)

    with pytest.raises(penchant.Error, match="'two' must return a Result, .* found Quantity"):
        measure(two)
