"""Curvature by module: against dense diagonal blocks, the whole, and what it costs."""

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.curvature import Hessian
from torch import nn
from torch.func import functional_call, hessian, jacrev

MODULES = ["0", "2.weight", "2.bias"]


def network_and_samples():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    generator = torch.Generator("cpu").manual_seed(3)
    inputs = torch.randn(24, 4, generator=generator, device="cpu", dtype=torch.float64)
    labels = torch.arange(24, device="cpu") % 3
    return network, inputs, labels


def measure(probe, **options):
    network, inputs, labels = network_and_samples()
    return penchant.measure(
        probe,
        architecture=network,
        dataset=((inputs, labels), (inputs, labels)),
        split="train",
        dtype="float64",
        executor="serial",
        **options,
    )


def dense():
    """The Hessian and G of cross-entropy, and where each module lies."""
    network, inputs, labels = network_and_samples()
    named = dict(network.named_parameters())
    flat = torch.cat([value.detach().flatten() for value in named.values()])
    sizes = [value.numel() for value in named.values()]

    def outputs(row):
        pairs = zip(named.items(), row.split(sizes))
        return functional_call(
            network, {name: own.view_as(value) for (name, value), own in pairs}, (inputs,)
        )

    H = hessian(lambda row: nn.functional.cross_entropy(outputs(row), labels))(flat)
    J, p = jacrev(outputs)(flat), outputs(flat).softmax(1)
    middle = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    G = torch.einsum("ncp,ncd,ndq->pq", J, middle, J) / len(inputs)
    # Linear(4, 5), then Linear(5, 3)
    blocks = {"0": slice(0, 25), "2.weight": slice(25, 40), "2.bias": slice(40, 43)}
    return {"hessian": H.detach(), "gauss-newton": G.detach(), "residual": (H - G).detach()}, blocks


@pytest.mark.parametrize("products", [False, True])
def test_blocks_are_those_of_dense_derivatives(products):
    # with as many Lanczos steps as there are parameters, products find every eigenvalue
    options = {"exact_limit": 0, "lanczos_steps": 150, "starts": 2} if products else {}
    result = measure("hessian-spectrum", parameters=MODULES, **options)
    top = result.tables["top-eigenvalues-by-module"]
    trace = result.tables["trace-by-module"]
    matrices, blocks = dense()
    for matrix, whole in matrices.items():
        for module, own in blocks.items():
            block = whole[own, own]
            values = torch.linalg.eigvalsh(block).flip(0)[:3]
            found = top.at(split="train", matrix=matrix, module=module)
            np.testing.assert_allclose(found.values, values, atol=1e-6 if products else 1e-12)
            # traces of G are exact, those of random vectors have an error
            estimate = trace.at(split="train", matrix=matrix, module=module)
            allowed = 1e-10
            if products and matrix != "gauss-newton":
                allowed += 4.5 * float(estimate.stderr)
            assert abs(float(estimate.values) - float(block.trace())) <= allowed


@pytest.mark.parametrize("products", [False, True])
def test_traces_of_modules_add_up_to_the_whole(products):
    options = {"exact_limit": 0, "lanczos_steps": 24} if products else {}
    result = measure("hessian-spectrum", parameters=MODULES, **options)
    trace = result.tables["trace-by-module"].at(split="train")
    for matrix in ("hessian", "gauss-newton"):
        total = float(trace.at(matrix=matrix).values.sum())
        assert total == pytest.approx(result.quantities[f"trace-{matrix}"].value, rel=1e-12)


@pytest.mark.parametrize("products", [False, True])
def test_densities_of_modules_have_mass_one_and_the_mean_of_their_traces(products):
    options = {"exact_limit": 0, "lanczos_steps": 150} if products else {}
    result = measure("hessian-spectrum", parameters=MODULES, **options, grid_points=2000)
    density = result.tables["density-by-module"].at(split="train")
    grid = np.array(density.axes["eigenvalue"])
    spacing = grid[1] - grid[0]
    matrices, blocks = dense()
    for matrix, whole in matrices.items():
        for module, own in blocks.items():
            values = density.at(matrix=matrix, module=module).values
            assert values.sum() * spacing == pytest.approx(1, abs=1e-3)
            mean = float(whole[own, own].trace()) / (own.stop - own.start)
            # random start vectors weigh eigenvalues by chance
            allowed = 0.02 if products else 1e-3
            assert (values * grid).sum() * spacing == pytest.approx(mean, abs=allowed)


@pytest.mark.parametrize("products", [False, True])
def test_blocks_of_g_are_those_of_dense_derivatives_and_add_up(products):
    options = {"exact_limit": 0, "products": 300} if products else {}
    result = measure("cross-class", parameters=MODULES, **options, permutations=3)
    top = result.tables["top-eigenvalues-by-module"]
    trace = result.tables["trace-by-module"]
    matrices, blocks = dense()
    G = matrices["gauss-newton"]
    for module, own in blocks.items():
        block = G[own, own]
        values = torch.linalg.eigvalsh(block).flip(0)[:3]
        np.testing.assert_allclose(top.at(module=module).values, values, rtol=1e-6, atol=1e-12)
        total = float(trace.at(component="total", module=module).values)
        assert total == pytest.approx(float(block.trace()), rel=1e-10)
    # components of a block add up to it, and blocks to the components of the whole
    parts = [trace.at(component=each).values for each in ("class", "cross", "within", "diagonal")]
    np.testing.assert_allclose(sum(parts), trace.at(component="total").values, rtol=1e-10)
    for component in ("total", "class", "cross", "within", "diagonal"):
        total = float(trace.at(component=component).values.sum())
        assert total == pytest.approx(result.quantities[f"trace-{component}"].value, rel=1e-9)


def test_errors_and_nulls_of_the_whole_as_a_module_are_those_of_the_whole():
    result = measure("cross-class", parameters=["*"], permutations=4)
    trace = result.tables["trace-by-module"]
    for component in ("total", "class", "cross", "within", "diagonal"):
        own = trace.at(component=component, module="*")
        whole = result.quantities[f"trace-{component}"]
        assert float(own.stderr) == pytest.approx(whole.stderr, rel=1e-9)
        if component != "total":
            assert float(own.null) == pytest.approx(whole.null, rel=1e-9)
    largest = result.tables["top-eigenvalues-by-module"].at(module="*", rank=1)
    assert float(largest.stderr) == pytest.approx(
        result.quantities["largest-gauss-newton"].stderr, rel=1e-9
    )


@pytest.mark.parametrize("products", [False, True])
def test_log_densities_of_blocks_have_mass_one(products):
    options = {"exact_limit": 0} if products else {}
    result = measure("cross-class", parameters=MODULES, **options, permutations=0)
    density = result.tables["density-by-module"]
    grid = np.array(density.axes["log-eigenvalue"])
    assert density.values.sum(1) * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)


def test_without_modules_nothing_changes():
    plain = measure("hessian-spectrum", exact_limit=0, lanczos_steps=24)
    named = measure("hessian-spectrum", exact_limit=0, lanczos_steps=24, parameters=MODULES)
    assert not plain.tables
    for name, array in plain.arrays.items():
        assert np.array_equal(array, named.arrays[name]), name
    for name, quantity in plain.quantities.items():
        assert named.quantities[name].value == pytest.approx(quantity.value, rel=0, nan_ok=True)


def test_all_modules_together_take_at_most_1_2_times_the_products(monkeypatch):
    products = []
    multiply = Hessian._rows

    def counted(self, rows):
        products.append(len(rows))
        return multiply(self, rows)

    monkeypatch.setattr(Hessian, "_rows", counted)
    options = {"matrices": ("hessian",), "exact_limit": 0, "lanczos_steps": 40}
    measure("hessian-spectrum", **options)
    whole = sum(products)
    products.clear()
    measure("hessian-spectrum", **options, parameters=MODULES)
    modules = sum(products) - whole
    assert 0 < modules <= 1.2 * whole


def test_without_modules_components_do_not_change():
    plain = measure("cross-class", permutations=2)
    named = measure("cross-class", permutations=2, parameters=MODULES)
    assert not plain.tables
    for name, array in plain.arrays.items():
        assert np.array_equal(array, named.arrays[name]), name


def test_what_names_no_parameter_is_refused():
    for probe in ("hessian-spectrum", "cross-class"):
        with pytest.raises(penchant.Error, match="no parameter is named '7'"):
            measure(probe, parameters=["0", "7"])
    with pytest.raises(penchant.Error, match="parameters must differ"):
        measure("hessian-spectrum", parameters=["0", "0"])


def test_more_modules_than_lanczos_steps_allow_are_refused():
    with pytest.raises(penchant.Error, match="expected at most 2, or lanczos_steps of at least 24"):
        measure("hessian-spectrum", parameters=MODULES, lanczos_steps=20)
