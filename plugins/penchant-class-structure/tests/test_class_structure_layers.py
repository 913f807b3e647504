"""Layer moments and their class components against definitions, sample by sample; weights at a stationary point."""
# ruff: noqa: T201 (the numbers are shown with -s)

import penchant_testing as testing
import pytest
import torch
from penchant_class_structure.layer_structure.layer_moments import layer_moments
from penchant_class_structure.layer_structure.layer_spectra import (
    error_rows,
    error_spectra,
    feature_rows,
    feature_spectra,
    null_draws,
    separation,
    weight_spectra,
)
from torch import nn
from torch.func import jacrev
from torch.nn import functional

C, N = 3, 21


def build(kind, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        labels = torch.cat([torch.zeros(9), torch.ones(7), 2 * torch.ones(5)]).long()[
            torch.randperm(N)
        ]
        if kind == "mlp":
            network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, C))
            inputs = torch.randn(N, 4) + labels[:, None]
        else:
            network = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, C))
            inputs = torch.randn(N, 1, 3, 3) + labels[:, None, None, None]
        return network.double().eval(), inputs.double(), labels


def by_definition(network, x, layer, after):
    """h (n, t, d) and delta_{i,c'} (n, C, t, o) of a layer, with what follows it."""
    h = network[:layer](x) if layer else x
    z = network[layer](h)
    p = network(x).softmax(1)
    E = torch.stack(
        [jacrev(lambda each: network[after:](each[None])[0])(row) for row in z]
    )  # (n, C, *z)
    if z.dim() == 4:
        E, h = E.flatten(3).transpose(2, 3), functional.unfold(h, 2).transpose(1, 2)
    else:
        E, h = E[:, :, None], h[:, None]
    delta = torch.einsum("ncy,nyto->ncto", p[:, None] - torch.eye(C, dtype=torch.float64), E)
    return h.detach(), delta.detach(), p.detach()


@pytest.mark.parametrize(
    ("kind", "layer", "number"), [("mlp", 0, 0), ("mlp", 3, 1), ("conv", 0, 0), ("conv", 3, 1)]
)
def test_moments_and_means_are_those_of_the_definition(kind, layer, number):
    network, x, y = build(kind)
    found = layer_moments(network, x, [y, y.flip(0)], largest=100)
    assert not found.wide
    found = found.moments[number]
    h, delta, p = by_definition(network, x, layer, layer + 1)
    w = p / N
    torch.testing.assert_close(found.features, torch.einsum("ntd,nte->de", h, h) / (N * h.shape[1]))
    torch.testing.assert_close(found.errors, torch.einsum("nc,ncto,nctq->oq", w, delta, delta))
    torch.testing.assert_close(
        found.gradient, torch.einsum("nto,ntd->od", delta[torch.arange(N), y], h) / N
    )
    for sums, labels in zip(found.sums, (y, y.flip(0))):
        means, cross = sums.error_means()
        for c in range(C):
            own = labels == c
            torch.testing.assert_close(sums.feature_means()[c], h[own].mean((0, 1)))
            expected = torch.einsum("nc,ncto->co", w[own], delta[own]) / (
                w[own].sum(0)[:, None] * h.shape[1]
            )
            torch.testing.assert_close(cross[c], expected)
            others = [k for k in range(C) if k != c]
            shares = w[own].sum(0)[others] / w[own].sum(0)[others].sum()
            torch.testing.assert_close(means[c], (shares[:, None] * expected[others]).sum(0))


@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_parts_add_up_to_the_moment(kind):
    network, x, y = build(kind)
    for number, layer in enumerate((0, 3)):
        found = layer_moments(network, x, [y], largest=100).moments[number]
        h, delta, p = by_definition(network, x, layer, layer + 1)
        rows = feature_rows(found.sums[0])
        within = h - found.sums[0].feature_means()[y][:, None]
        torch.testing.assert_close(
            found.features,
            rows.T @ rows + torch.einsum("ntd,nte->de", within, within) / (N * h.shape[1]),
        )
        class_rows, cross_rows = error_rows(found.sums[0])
        _, cross = found.sums[0].error_means()
        own = found.sums[0].weights.diagonal().sqrt()[:, None] * cross.diagonal().T
        rest = delta - cross[y][:, :, None]
        terms = [each.T @ each for each in (class_rows, cross_rows, own)]
        torch.testing.assert_close(
            found.errors, sum(terms) + torch.einsum("nc,ncto,nctq->oq", p / N, rest, rest)
        )


def test_knockouts_leave_what_projections_leave():
    network, x, y = build("mlp")
    found = layer_moments(network, x, [y], largest=100).moments[1]
    spectra = feature_spectra(found, 6)
    B = feature_rows(found.sums[0]).T
    P = torch.eye(6, dtype=torch.float64) - B @ torch.linalg.pinv(B)
    torch.testing.assert_close(
        spectra["features-without-class"],
        torch.linalg.eigvalsh(P @ found.features @ P).flip(0),
        atol=1e-12,
        rtol=1e-9,
    )
    torch.testing.assert_close(
        spectra["features-class"], torch.linalg.eigvalsh(B @ B.T).flip(0)[:C], atol=1e-12, rtol=1e-9
    )
    errors = error_spectra(layer_moments(network, x, [y], largest=100).moments[0], 6)
    assert (
        float(errors["errors-without-class-cross"].max())
        <= float(errors["errors-without-class"].max())
        <= float(errors["errors"].max())
    )


def test_errors_of_the_last_layer_live_in_fewer_dimensions_than_classes():
    network, x, y = build("mlp")
    spectra = error_spectra(layer_moments(network, x, [y], largest=100).moments[1], C)
    assert (
        spectra["separation-errors-by-layer"] != spectra["separation-errors-by-layer"]
    )  # nothing is left: not a number
    assert float(spectra["errors"][C - 1]) < 1e-12


def test_weights_are_the_class_part_and_the_rest_at_a_stationary_point():
    """Logistic regression with weight decay, trained to its minimum: W = -(1/eta) Ave delta h^T."""
    _, x, y = build("mlp")
    eta, network = 0.05, nn.Sequential(nn.Linear(4, C, bias=False)).double()
    nn.init.zeros_(network[0].weight)
    optimizer = torch.optim.LBFGS(
        network.parameters(),
        max_iter=500,
        tolerance_grad=1e-13,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(x), y) + eta / 2 * network[0].weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    found = layer_moments(network, x, [y], largest=100).moments[0]
    spectra = weight_spectra(found, 3, eta)
    print(
        f"relative difference of W and -(1/eta) Ave delta h^T: {spectra['stationarity-by-layer']:.1e}"
    )
    assert spectra["stationarity-by-layer"] < 1e-6
    one_each = [
        int(torch.nonzero(y == c)[0]) for c in range(C)
    ]  # one sample per class: the class component is all of it
    alone = layer_moments(network, x[one_each], [y[one_each]], largest=100).moments[0]
    component = weight_spectra(alone, 3, eta)["weights-class"]
    torch.testing.assert_close(
        component, torch.linalg.svdvals(alone.gradient / eta), atol=1e-12, rtol=1e-9
    )


def test_layers_that_are_too_wide_are_named():
    network, x, y = build("mlp")
    layers = layer_moments(network, x, [y], largest=5)
    assert (layers.wide, layers.moments) == (["0", "3"], [])


def test_separated_classes_stand_out_and_permuted_ones_do_not():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        y = torch.arange(90) % C
        x = torch.randn(90, 8).double()
        x[torch.arange(90), y] += 20
        network = nn.Sequential(nn.Linear(8, C)).double()
        found = layer_moments(network, x, [y, y[torch.randperm(90)]], largest=100).moments[0]
    true, null = (
        feature_spectra(found, 8)["separation-features-by-layer"],
        null_draws(found)["separation-features"][0],
    )
    print(f"separation {true:.1f}, permuted {null:.2f}")
    assert true > 10
    assert null < 1
    assert separation(torch.tensor([4.0, 2.0]), torch.tensor([0.5])) == 4


def test_products_on_a_device_have_the_networks_precision():
    network, x, y = build("conv")
    network, x = network.float(), x.float()
    expected = layer_moments(network, x, [y], largest=100).moments[1]
    with testing.emulated_device():
        device = torch.device("emulated")
        there = layer_moments(network.to(device), x.to(device), [y.to(device)], largest=100)
    found = there.moments[1]
    for name in ("features", "errors", "gradient"):
        one, other = getattr(found, name), getattr(expected, name)
        away = float((one - other).norm() / other.norm())
        # sums in double precision would be equal to 15 digits
        assert 1e-12 < away < 1e-6, name
