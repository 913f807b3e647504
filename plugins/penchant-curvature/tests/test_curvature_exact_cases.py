"""Where proxies are exact, where they are another library's, and that elsewhere they are neither."""
# ruff: noqa: T201 (the numbers are shown with -s)

import pytest
import torch
from penchant_curvature.shared.layer_operators import column_operators, kronecker_operators
from penchant_curvature.shared.linear_layers import coverage
from torch import nn

CLASSES = 4


def perceptron(*, linear=False, bias=True, widths=(6, 5)):
    layers, width = [], 7
    for units in widths:
        layers += [nn.Linear(width, units, bias=bias), nn.Identity() if linear else nn.ReLU()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, CLASSES, bias=bias))


def convolutional(*, bias=True):
    layers = [
        nn.Conv2d(2, 4, 3, padding=1, bias=bias),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 2, stride=2, bias=bias),
        nn.ReLU(),
    ]
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(20, 6, bias=bias),
        nn.ReLU(),
        nn.Linear(6, CLASSES, bias=bias),
    )


def drawn(make, samples, shape, seed=0, **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return (
            make(**options).double().eval(),
            torch.randn(samples, *shape, dtype=torch.float64),
            torch.randint(0, CLASSES, (samples,)),
        )


def operators(network, data, *, loss="cross-entropy", blocks="layers", batch=5, bias=True):
    """Gauss-Newton, KFAC and CFAC."""
    shared = {"loss": loss, "blocks": blocks, "batch": batch, "bias": bias}
    covered = coverage(network, data[0])
    everyone = torch.zeros(len(data[0]), dtype=torch.int64)
    factored = [
        kronecker_operators(network, data, covered, groups, **shared)
        for groups in (everyone, data[1])
    ]
    return [column_operators(network, data, covered, columns="gauss-newton", **shared), *factored]


def difference(one, two):
    """Relative, from the matrices: the distance from inner products is rounding below 1e-8."""
    exact = one.dense()
    return float((exact - two.dense()).norm() / exact.norm())


@pytest.mark.parametrize("blocks", ["layers", "all"])
@pytest.mark.parametrize(("bias", "loss"), [(True, "cross-entropy"), (False, "squared-error")])
def test_kfac_is_exact_for_one_datum_and_for_equal_inputs(bias, loss, blocks):
    network, inputs, labels = drawn(perceptron, 9, (7,), bias=bias)
    for data in ((inputs[:1], labels[:1]), (inputs[:1].expand(9, 7).contiguous(), labels)):
        exact, kfac, _ = operators(network, data, loss=loss, blocks=blocks)
        for layer in exact:
            assert difference(exact[layer], kfac[layer]) < 1e-12
            assert exact[layer].frobenius_distance(kfac[layer], relative=True) < 1e-7
    exact, kfac, _ = operators(network, (inputs, labels), loss=loss, blocks=blocks)
    assert min(difference(exact[layer], kfac[layer]) for layer in list(exact)[:1]) > 0.01, (
        "in general it is not"
    )


@pytest.mark.parametrize("blocks", ["layers", "all"])
def test_kfac_is_exact_for_a_deep_linear_network_with_squared_error(blocks):
    network, inputs, labels = drawn(perceptron, 13, (7,), linear=True)
    exact, kfac, cfac = operators(network, (inputs, labels), loss="squared-error", blocks=blocks)
    for layer in exact:
        assert difference(exact[layer], kfac[layer]) < 1e-12
        assert difference(exact[layer], cfac[layer]) < 1e-12
    exact, kfac, _ = operators(network, (inputs, labels), loss="cross-entropy", blocks=blocks)
    assert difference(exact[next(iter(exact))], kfac[next(iter(exact))]) > 0.01, (
        "errors of cross-entropy depend on the inputs"
    )


@pytest.mark.parametrize("blocks", ["layers", "all"])
@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
def test_cfac_is_exact_with_one_sample_a_class(loss, blocks):
    network, inputs, _ = drawn(perceptron, CLASSES, (7,))
    exact, kfac, cfac = operators(
        network, (inputs, torch.tensor([2, 0, 3, 1])), loss=loss, blocks=blocks
    )
    for layer in exact:
        assert difference(exact[layer], cfac[layer]) < 1e-12
    assert max(difference(exact[layer], kfac[layer]) for layer in exact) > 0.01


def test_groups_interpolate_between_kfac_and_gauss_newton():
    network, inputs, labels = drawn(perceptron, 12, (7,))
    covered = coverage(network, inputs)
    exact = column_operators(
        network, (inputs, labels), covered, columns="gauss-newton", loss="cross-entropy"
    )
    for layer in exact:
        every = kronecker_operators(
            network, (inputs, labels), covered, torch.arange(12), loss="cross-entropy"
        )
        assert difference(exact[layer], every[layer]) < 1e-12


def test_a_convolution_with_one_position_is_a_linear_layer():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = (
            nn.Sequential(nn.Conv2d(2, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(5, CLASSES))
            .double()
            .eval()
        )
        inputs = torch.randn(CLASSES, 2, 4, 4, dtype=torch.float64)
    exact, _, cfac = operators(network, (inputs, torch.arange(CLASSES)))
    assert difference(exact["0"], cfac["0"]) < 1e-12


def test_unbalanced_classes_weigh_what_they_hold():
    """Twice the samples of a class, in a class of its own label or not: the moments of a class are means over it."""
    network, inputs, _ = drawn(perceptron, 8, (7,))
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])
    _, _, whole = operators(network, (inputs, labels))
    for layer, operator in whole.items():
        parts = [(labels == c, float((labels == c).double().mean())) for c in range(CLASSES)]
        total = sum(
            share * operators(network, (inputs[inside], labels[inside]))[1][layer].dense()
            for inside, share in parts
        )
        assert float((operator.dense() - total).norm() / total.norm()) < 1e-12, (
            "each class's KFAC, weighted by its share"
        )


@pytest.mark.parametrize(
    ("loss", "bias", "dtype"),
    [
        ("cross-entropy", True, torch.float64),
        ("squared-error", False, torch.float64),
        ("cross-entropy", False, torch.float32),
        ("squared-error", True, torch.float32),
    ],
)
@pytest.mark.parametrize(("make", "shape"), [(perceptron, (7,)), (convolutional, (2, 8, 8))])
def test_kfac_is_that_of_curvlinops(make, shape, loss, bias, dtype):
    curvlinops = pytest.importorskip("curvlinops")
    network, inputs, labels = drawn(make, 11, shape, bias=bias)
    network, inputs = network.to(dtype), inputs.to(dtype)
    _, kfac, _ = operators(network, (inputs, labels), loss=loss, batch=4)
    targets = (
        labels if loss == "cross-entropy" else nn.functional.one_hot(labels, CLASSES).to(dtype)
    )
    batches = list(zip(inputs.split(4), targets.split(4)))
    theirs = curvlinops.KFACLinearOperator(
        network,
        nn.CrossEntropyLoss() if loss == "cross-entropy" else nn.MSELoss(),
        list(network.parameters()),
        batches,
        fisher_type="type-2",
        kfac_approx="expand",
        separate_weight_and_bias=False,
    )
    dense = theirs @ torch.eye(sum(each.numel() for each in network.parameters()), dtype=dtype)
    if loss == "squared-error":
        dense = dense * CLASSES / 2  # its loss is a mean over outputs, ours half their sum
    ours = torch.block_diag(*[operator.dense() for operator in kfac.values()])
    error = float((ours - dense).norm() / ours.norm())
    print(f"{make.__name__} {loss} bias={bias} {dtype}: relative difference {error:.1e}")
    assert error < (1e-10 if dtype == torch.float64 else 1e-5)


def test_no_matrix_of_all_parameters_is_formed(monkeypatch):
    """Distances, traces and leading eigenvalues of a layer of 10,000 parameters need no dense operator."""
    from penchant_curvature.shared.curvature_operator import Curvature

    monkeypatch.setattr(
        Curvature, "dense", lambda self, **options: pytest.fail("a dense matrix was formed")
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, CLASSES)).eval()
        data = (torch.randn(60, 100), torch.arange(60) % CLASSES)
    exact, kfac, cfac = operators(network, data, batch=60)
    largest = []
    handle = _tensor_sizes(largest)
    with handle:
        for operator in (exact["0"], kfac["0"], cfac["0"]):
            operator.trace()
            operator.frobenius_distance(exact["0"])
            operator.eigenvalues(5, generator=torch.Generator().manual_seed(0))
    assert max(largest) <= 70 * 10100, (
        f"{max(largest)} numbers in one tensor: a Lanczos basis has 25 to 60 rows of 10,100"
    )


def _tensor_sizes(sizes):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            sizes.extend(
                each.numel() for each in tree_leaves(made) if isinstance(each, torch.Tensor)
            )
            return made

    return Sizes()
