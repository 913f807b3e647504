"""Spectra on one grid, outliers, and class means against means taken from dense gradients."""

import math

import pytest
import torch
from penchant_curvature.curvature_proxies import class_means
from penchant_curvature.shared import curvature_operator
from penchant_curvature.shared.layer_operators import kronecker_operators
from penchant_curvature.shared.linear_layers import coverage
from penchant_numerics.linear_algebra import common_log_grid, exact_quadrature, quadrature
from torch import nn
from torch.nn import functional

CLASSES = 3


def network_and_data(samples=14, bias=True):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Conv2d(1, 3, 3, bias=bias),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(12, 5, bias=bias),
            nn.Tanh(),
        )
        network = network.append(nn.Linear(5, CLASSES, bias=bias)).double().eval()
        return network, (
            torch.randn(samples, 1, 4, 4, dtype=torch.float64) + 0.2,
            torch.arange(samples) % CLASSES,
        )


def cfac(width=20, samples=80):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = (
            nn.Sequential(nn.Linear(15, width), nn.ReLU(), nn.Linear(width, CLASSES))
            .double()
            .eval()
        )
        inputs, labels = (
            torch.randn(samples, 15, dtype=torch.float64),
            torch.arange(samples) % CLASSES,
        )
    return kronecker_operators(
        network, (inputs, labels), coverage(network, inputs), labels, loss="cross-entropy"
    )["0"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def every_eigenvalue(A):
    values = A.exact_spectrum()
    return exact_quadrature(values, zeros=A.size - len(values))


def test_densities_integrate_to_one_and_zeros_stand_at_the_floor():
    A = cfac(samples=6)
    found = every_eigenvalue(A)
    grid = common_log_grid([found], floor=1e-6, points=400, steps=128)
    density, stderr = grid.density(found)
    assert stderr is None
    assert float(density.sum()) * grid.spacing == pytest.approx(1.0, abs=1e-8)
    values = torch.linalg.eigvalsh(A.dense())
    share = float((values < 1e-7 * values.max()).double().mean())
    assert 0 < share < 1
    bump = (grid.centres - math.log10(grid.floor)).abs() < 7 * grid.width
    assert float(density[bump].sum()) * grid.spacing == pytest.approx(share, abs=1e-6)


def test_lanczos_sees_the_spectrum_that_is_exact():
    """Distance of the distributions of log eigenvalues, in decades; and each outlier at its place with its weight."""
    A = cfac()
    exact = every_eigenvalue(A)
    found = quadrature(A, generator=generator(), steps=60, starts=4)
    assert found.variant != "exact"
    grid = common_log_grid([exact, found], floor=1e-6, points=400, steps=60)
    (one, _), (two, stderr) = (grid.density(each) for each in (exact, found))
    assert stderr.shape == two.shape and float(stderr.max()) > 0
    assert float(two.sum()) * grid.spacing == pytest.approx(1.0, abs=1e-8)
    distance = float((one - two).cumsum(0).abs().sum()) * grid.spacing**2  # Wasserstein
    assert distance < 0.1
    first = torch.linalg.eigvalsh(A.dense())[-1].log10()
    inside = (grid.centres - first).abs() < 6 * grid.width
    top = [float(each[inside].sum()) * grid.spacing for each in (one, two)]
    assert top[1] == pytest.approx(top[0], rel=0.3)


def test_zeros_of_few_samples_are_counted_not_guessed():
    """CFAC of few samples as V V^T: Lanczos in sample space adds the zeros by count."""
    A = cfac(samples=6)
    V = A.factor()
    columns = V.apply(torch.eye(V.samples, dtype=torch.float64)).T
    largest = float(A.dense().abs().max())
    assert float((columns @ columns.T - A.dense()).abs().max()) < 1e-12 * largest
    assert torch.allclose(V.adjoint(torch.eye(A.size, dtype=torch.float64)), columns)
    values = torch.linalg.eigvalsh(A.dense())
    zeros = float((values < 1e-10 * values.max()).double().mean())
    found = quadrature(A, generator=generator(), steps=40, starts=2)
    for nodes, weights in zip(found.nodes, found.weights):
        small = nodes.abs() < 1e-10 * float(values.max())
        assert float(weights[small].sum()) == pytest.approx(zeros, abs=0.01)
    assert cfac().factor() is None, "with many samples parameters are fewer"


def test_leading_eigenvalues_by_lanczos_are_the_exact_ones(monkeypatch):
    A = cfac()
    exact = torch.linalg.eigvalsh(A.dense()).flip(0)[:9]
    monkeypatch.setattr(curvature_operator, "DENSE", 10)
    pairs = A.eigenpairs(9, generator=generator())
    assert bool(pairs.converged.all())
    assert float((pairs.values - exact).abs().max()) < 1e-8 * float(exact[0])
    with pytest.raises(ValueError, match="expected a generator"):
        A.eigenpairs(9)


def dense_means(network, data, layer):
    """g_{c,c'}, delta_{c,c'}, h_c of a layer by autograd, one loss after another; target C is the mean over c' != c."""
    module, seen = network.get_submodule(layer), []
    handle = module.register_forward_hook(lambda _, given, made: seen.append((given[0], made)))
    gradients, errors, features, weights = {}, {}, [], {}
    inputs, labels = data
    for c in range(CLASSES):
        own = [[] for _ in range(CLASSES + 1)]
        for x in inputs[labels == c]:
            for k in range(CLASSES):
                outputs = network(x[None])
                given, made = seen.pop()
                loss = functional.cross_entropy(outputs, torch.tensor([k]))
                parts = torch.autograd.grad(
                    loss, [made, module.weight] + ([] if module.bias is None else [module.bias])
                )
                delta, weight = parts[0][0], parts[1].flatten(1)
                g = weight if module.bias is None else torch.cat([weight, parts[2][:, None]], dim=1)
                own[k].append(
                    (
                        outputs.softmax(1)[0, k].detach(),
                        g,
                        delta.flatten(1).sum(1) if delta.dim() > 1 else delta,
                    )
                )
            flat = (
                functional.unfold(given, module.kernel_size)[0].mean(1)
                if isinstance(module, nn.Conv2d)
                else given[0]
            )
            own[CLASSES].append(
                flat.detach() if module.bias is None else torch.cat([flat.detach(), torch.ones(1)])
            )
        features.append(torch.stack(own[CLASSES]).mean(0))
        for k in range(CLASSES):
            weights[c, k] = sum(w for w, _, _ in own[k])
            gradients[c, k] = sum(w * g for w, g, _ in own[k]) / weights[c, k]
            errors[c, k] = sum(w * d for w, _, d in own[k]) / weights[c, k]
        others = [k for k in range(CLASSES) if k != c]
        total = sum(weights[c, k] for k in others)
        gradients[c, CLASSES] = sum(weights[c, k] * gradients[c, k] for k in others) / total
        errors[c, CLASSES] = sum(weights[c, k] * errors[c, k] for k in others) / total
    handle.remove()
    return gradients, errors, features


@pytest.mark.parametrize("bias", [True, False])
def test_cosines_of_class_means_are_those_of_dense_gradients(bias):
    network, data = network_and_data(bias=bias)
    data = (data[0], torch.tensor([0, 1, 2, 1, 1, 0, 2, 1, 0, 1, 1, 2, 1, 1]))
    found, dense = [], []
    for layer in ("0", "3", "5"):
        found.append(
            class_means.mean_products(network, data, layer, classes=CLASSES, bias=bias, batch=4)
        )
        dense.append(dense_means(network, data, layer))
    for c in range(CLASSES):
        for k in range(CLASSES + 1):
            for b in range(CLASSES):
                pairs = [
                    (g[c, k].flatten(), torch.outer(e[c, k], h[b]).flatten()) for g, e, h in dense
                ]
                for each, (g, product) in zip(found, pairs):
                    assert float(each.cosines()[c, k, b]) == pytest.approx(
                        float(torch.cosine_similarity(g, product, dim=0)), abs=1e-10
                    )
                whole = torch.cosine_similarity(*(torch.cat(each) for each in zip(*pairs)), dim=0)
                assert float(class_means.add(found).cosines()[c, k, b]) == pytest.approx(
                    float(whole), abs=1e-10
                )


def test_class_means_are_products_with_one_sample_a_class():
    network, data = network_and_data(3)
    data = (data[0], torch.arange(3))
    for layer in ("3", "5"):
        cosines = class_means.mean_products(network, data, layer, classes=CLASSES).cosines()
        for c in range(CLASSES):
            assert torch.allclose(
                cosines[c, :CLASSES, c], torch.ones(CLASSES, dtype=torch.float64)
            ), "one gradient is one product"
    with pytest.raises(ValueError, match="found none of class 3"):
        class_means.mean_products(network, data, "5", classes=4)
