"""Every curvature against dense matrices in double precision, made the long way: autograd of each loss, patches cut by hand."""

import pytest
import torch
from penchant_curvature.shared.layer_operators import column_operators, kronecker_operators
from penchant_curvature.shared.linear_layers import coverage
from penchant_curvature.shared.moment_sums import IndefiniteError
from penchant_numerics.curvature import GaussNewton, loss_function
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional

SAMPLES, CLASSES = 7, 3
LABELS = [0, 1, 2, 1, 1, 0, 1]  # 2, 4 and 1 of each class
LOSSES = ("cross-entropy", "squared-error")


def mlp(bias):
    return nn.Sequential(
        nn.Linear(5, 4, bias=bias),
        nn.Tanh(),
        nn.Linear(4, 3, bias=bias),
        nn.Tanh(),
        nn.Linear(3, CLASSES, bias=bias),
    ), (5,)


def cnn(bias):
    first = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=bias)  # (3, 3, 3)
    second = nn.Conv2d(3, 2, 2, dilation=2, bias=bias)  # (2, 1, 1)
    return nn.Sequential(
        first, nn.Tanh(), second, nn.Tanh(), nn.Flatten(), nn.Linear(2, CLASSES, bias=bias)
    ), (2, 5, 5)


def wide_cnn(bias):
    """More weights than positions: columns stay factored."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=bias), nn.Tanh(), nn.Flatten(), nn.Linear(32, CLASSES, bias=bias)
    ), (3, 4, 4)


NETWORKS = {"mlp": mlp, "cnn": cnn, "wide-cnn": wide_cnn}


def build(name, *, bias=True, samples=SAMPLES, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, shape = NETWORKS[name](bias)
        network = network.double().eval()
        return network, (
            torch.randn(samples, *shape, dtype=torch.float64) + 0.3,
            torch.tensor((LABELS * samples)[:samples]),
        )


def kfac(network, data, *, loss="cross-entropy", groups=None, **options):
    groups = torch.zeros(len(data[0]), dtype=torch.int64) if groups is None else groups
    return kronecker_operators(
        network, data, coverage(network, data[0]), groups, loss=loss, batch=4, **options
    )


def cfac(network, data, **options):
    return kfac(network, data, groups=data[1], **options)


def columns(network, data, *, loss="cross-entropy", which="gauss-newton", **options):
    return column_operators(
        network, data, coverage(network, data[0]), columns=which, loss=loss, batch=4, **options
    )


def gauss_newton(network, data, **options):
    return columns(network, data, **options)


def fisher(network, data, **options):
    return columns(network, data, which="empirical", **options)


def parameters_of(network, layer=None):
    return {
        name: value.detach()
        for name, value in network.named_parameters()
        if layer is None or name.rpartition(".")[0] == layer
    }


def dense_columns(network, data, loss, which, layer=None):
    """Gradients of every loss that enters, as rows in the order of the parameters."""
    own = parameters_of(network, layer)
    sizes = [value.numel() for value in own.values()]
    flat = torch.cat([value.reshape(-1) for value in own.values()])

    def outputs(theta, x):
        parts = zip(own.items(), theta.split(sizes))
        return functional_call(
            network, {name: part.view_as(value) for (name, value), part in parts}, (x[None],)
        )[0]

    rows = []
    for x, y in zip(*data):
        J, at = jacrev(outputs)(flat, x), outputs(flat, x)
        if which == "empirical":
            slope = jacrev(lambda f, y=y: loss_function(loss)(f[None], y[None]))(at)
            rows.append(J.T @ slope)
        elif loss == "squared-error":
            rows += list(J)
        else:
            p = at.softmax(0)
            rows += [
                p[c].sqrt() * (J.T @ (p - functional.one_hot(torch.tensor(c), len(p))))
                for c in range(len(p))
            ]
    return torch.stack(rows).detach() / len(data[0]) ** 0.5


def dense_curvature(*arguments, **options):
    rows = dense_columns(*arguments, **options)
    return rows.T @ rows


def places_of(network, layer):
    """Where the parameters of a layer are among all of them."""
    sizes = {name: value.numel() for name, value in network.named_parameters()}
    own = [name.rpartition(".")[0] == layer for name in sizes]
    return torch.repeat_interleave(torch.tensor(own), torch.tensor(list(sizes.values())))


def patches(module, h):
    """Inputs (t, d) of a layer for one sample, cut position by position."""
    if isinstance(module, nn.Linear):
        return h[None]
    (kh, kw), (sh, sw), (dh, dw) = module.kernel_size, module.stride, module.dilation
    padded = functional.pad(h, (module.padding[1],) * 2 + (module.padding[0],) * 2)
    rows = range(0, padded.shape[1] - dh * (kh - 1), sh)
    columns_ = range(0, padded.shape[2] - dw * (kw - 1), sw)
    cut = [
        padded[:, r : r + dh * (kh - 1) + 1 : dh, c : c + dw * (kw - 1) + 1 : dw]
        for r in rows
        for c in columns_
    ]
    return torch.stack([each.reshape(-1) for each in cut])


def inputs_and_errors(network, data, loss, layer):
    """Inputs (n, t, d) with a one for the bias, errors (n, k, t, o) and their weights (n, k), sample by sample."""
    module, seen = network.get_submodule(layer), []
    handle = module.register_forward_hook(
        lambda _, given, made: seen.append((given[0][0].detach(), made))
    )
    H, D, W = [], [], []
    for x in data[0]:
        errors, weights = [], []
        for c in range(CLASSES):
            f = network(x[None])[0]
            given, made = seen.pop()
            value = (
                functional.cross_entropy(f[None], torch.tensor([c]))
                if loss == "cross-entropy"
                else f[c]
            )
            (delta,) = torch.autograd.grad(value, made)
            errors.append(delta[0].reshape(module.weight.shape[0], -1).T)
            weights.append(
                f.softmax(0)[c].detach() if loss == "cross-entropy" else torch.tensor(1.0)
            )
        h = patches(module, given)
        H.append(h if module.bias is None else torch.cat([h, torch.ones(len(h), 1)], dim=1))
        D.append(torch.stack(errors))
        W.append(torch.stack(weights))
    handle.remove()
    return torch.stack(H), torch.stack(D), torch.stack(W).double() / len(data[0])


def order(module):
    """Where the entries of (out, width), row by row, are among weights and biases."""
    o, d = module.weight.shape[0], module.weight[0].numel()
    weight = torch.arange(o * d).reshape(o, d)
    return (
        weight
        if module.bias is None
        else torch.cat([weight, o * d + torch.arange(o)[:, None]], dim=1)
    ).flatten()


def dense_kronecker(network, parts, layers, groups):
    """sum_g H_g x Delta_g over layers, block by block with torch.kron.

    Of one layer positions are samples; of several, inputs are means and errors sums over them. The
    parts are the inputs and errors of each layer.
    """
    sizes = [
        sum(value.numel() for value in parameters_of(network, layer).values()) for layer in layers
    ]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    total = torch.zeros(sum(sizes), sum(sizes), dtype=torch.float64)
    for a, start in zip(layers, starts):
        for b, begin in zip(layers, starts):
            (h, da, w), (k, db, _) = parts[a], parts[b]
            for g in groups.unique():
                i = groups == g
                if len(layers) == 1:
                    H = torch.einsum("ntd,nte->de", h[i], h[i]) / (i.sum() * h.shape[1])
                    D = torch.einsum("nk,nkto,nktp->op", w[i], da[i], da[i])
                else:
                    H = torch.einsum("nd,ne->de", h[i].mean(1), k[i].mean(1)) / i.sum()
                    D = torch.einsum("nk,nko,nkp->op", w[i], da[i].sum(2), db[i].sum(2))
                rows, cols = (
                    start + order(network.get_submodule(a)),
                    begin + order(network.get_submodule(b)),
                )
                total[rows[:, None], cols[None]] += torch.kron(
                    D.contiguous(), H.contiguous()
                )  # rows of (out, width)
    return total


def close(found, expected, tolerance=1e-10):
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


def layers_of(network):
    return [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]


# Biases are inputs and losses make errors: every network has both of either, not all pairs.
CASES = [(name, *pair) for name in NETWORKS for pair in zip((True, False), LOSSES)]


@pytest.mark.parametrize(("name", "bias", "loss"), CASES)
def test_gauss_newton_and_the_empirical_fisher_are_the_dense_ones(name, bias, loss):
    network, data = build(name, bias=bias)
    for which in ("gauss-newton", "empirical"):
        found = columns(network, data, loss=loss, which=which)
        assert list(found) == layers_of(network)
        rows = dense_columns(network, data, loss, which)
        for layer, operator in found.items():
            own = rows[:, places_of(network, layer)]
            exact = own.T @ own
            close(operator.dense(), exact)
            check_numbers(operator, exact)
        whole = columns(network, data, loss=loss, which=which, blocks="all")["all"]
        exact = rows.T @ rows
        close(whole.dense(), exact)
        check_numbers(whole, exact)


@pytest.mark.parametrize(("name", "bias", "loss"), CASES)
def test_kfac_and_cfac_are_the_dense_ones(name, bias, loss):
    network, data = build(name, bias=bias)
    parts = {layer: inputs_and_errors(network, data, loss, layer) for layer in layers_of(network)}
    for make, groups in ((kfac, torch.zeros(SAMPLES)), (cfac, data[1])):
        for layer, operator in make(network, data, loss=loss).items():
            exact = dense_kronecker(network, parts, [layer], groups)
            close(operator.dense(), exact)
            check_numbers(operator, exact)
        whole = make(network, data, loss=loss, blocks="all", positions="reduce")["all"]
        exact = dense_kronecker(network, parts, layers_of(network), groups)
        close(whole.dense(), exact)
        check_numbers(whole, exact)
        # a second moment has no negative eigenvalues
        values = torch.linalg.eigvalsh(whole.dense())
        assert float(values[0]) >= -1e-12 * float(values[-1])


@pytest.mark.parametrize("make", [kfac, cfac])
def test_one_curvature_over_layers_with_positions_is_not_expanded(make):
    """Expanded, its smallest eigenvalue was -0.13 beside a largest of 0.96."""
    network, data = build("wide-cnn")
    with pytest.raises(IndefiniteError, match="'expand' with 4 positions"):
        make(network, data, blocks="all")
    # with one position there is nothing to expand
    network, data = build("mlp")
    both = [make(network, data, blocks="all", positions=how) for how in ("expand", "reduce")]
    close(both[0]["all"].dense(), both[1]["all"].dense())


def check_numbers(operator, exact):
    """Trace, norm, leading eigenvalues and their vectors."""
    assert operator.trace().value == pytest.approx(float(exact.trace()), rel=1e-10)
    assert operator.squared_norm**0.5 == pytest.approx(float(exact.norm()), rel=1e-10)
    values = torch.linalg.eigvalsh(exact).flip(0)
    scale = float(values.abs().max())
    assert float((operator.eigenvalues(6) - values[:6]).abs().max()) <= 1e-10 * scale
    pairs = operator.eigenpairs(3)
    for value, vector in zip(pairs.values, pairs.vectors.T):
        assert float((exact @ vector - value * vector).abs().max()) <= 1e-9 * scale
        assert float(vector.norm()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("blocks", ["layers", "all"])
def test_distances_are_those_of_the_matrices(name, blocks):
    network, data = build(name)
    makers = (gauss_newton, fisher, kfac, cfac)
    reduced = {"positions": "reduce"} if blocks == "all" else {}
    made = [make(network, data, blocks=blocks) for make in makers[:2]]
    made += [make(network, data, blocks=blocks, **reduced) for make in makers[2:]]
    for key in made[0]:
        operators = [(each[key], each[key].dense()) for each in made]
        for one, matrix in operators:
            for two, other in operators:
                exact = float((matrix - other).norm())
                assert one.frobenius_distance(two) == pytest.approx(
                    exact, rel=1e-7, abs=2e-8 * float(matrix.norm())
                )
                if exact > 1e-7:
                    relative = exact / float(matrix.norm())
                    assert one.frobenius_distance(two, relative=True) == pytest.approx(
                        relative, rel=1e-7
                    )


@pytest.mark.parametrize("name", NETWORKS)
def test_gauss_newton_is_that_of_the_numerics_layer_by_layer(name):
    network, data = build(name)
    found = gauss_newton(network, data)
    assert found
    for layer, operator in found.items():
        other = GaussNewton(network, data, parameters=layer, batch=4)
        close(operator.dense(), other.dense())
        V = operator.factor()
        close(
            V.apply(torch.eye(V.samples, dtype=torch.float64)).T,
            V.adjoint(torch.eye(V.size, dtype=torch.float64)),
        )


def test_biases_can_be_left_out():
    network, data = build("cnn")
    for make in (gauss_newton, kfac, cfac, fisher):
        with_biases, without = make(network, data), make(network, data, bias=False)
        assert without.keys() == with_biases.keys() and without
        for layer, operator in without.items():
            weights = network.get_submodule(layer).weight.numel()
            close(operator.dense(), with_biases[layer].dense()[:weights, :weights])


def test_parameters_of_other_layers_are_represented_by_their_gradients():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = (
            nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, CLASSES))
            .double()
            .eval()
        )
        data = (torch.randn(SAMPLES, 5, dtype=torch.float64), torch.tensor(LABELS))
    found = gauss_newton(network, data)
    assert set(found) == {"0", "1", "3"}
    close(
        found["1"].dense(),
        dense_curvature(network, data, "cross-entropy", "gauss-newton", layer="1"),
    )
    assert set(kfac(network, data)) == {"0", "3"}
    report = coverage(network, data[0])
    assert report.report() == "1 (BatchNorm1d: 8 parameters)"
    assert report.share == pytest.approx(39 / 47)


def test_one_output_is_two_classes():
    network, data = build("mlp")
    network[4] = nn.Linear(3, 1).double()
    data = (data[0], data[1] % 2)
    exact = GaussNewton(network, data, batch=4).dense()
    close(gauss_newton(network, data, blocks="all")["all"].dense(), exact)
    last = kfac(network, (data[0][:1], data[1][:1]))["4"]
    close(last.dense(), GaussNewton(network, (data[0][:1], None), parameters="4").dense())
    rows = []
    for x, y in zip(*data):
        value = loss_function("cross-entropy")(network(x[None]), y[None])
        rows.append(
            torch.cat(
                [each.flatten() for each in torch.autograd.grad(value, list(network.parameters()))]
            )
        )
    close(
        fisher(network, data, blocks="all")["all"].dense(),
        torch.stack(rows).T @ torch.stack(rows) / SAMPLES,
    )
