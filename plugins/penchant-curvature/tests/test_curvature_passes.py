"""Kronecker factors of all layers in one pass, reduced ones, damped inverses, and their memory."""

import pytest
import torch
from penchant_curvature.shared.kronecker_moments import MomentPasses, loss_columns
from penchant_curvature.shared.layer_operators import column_operators, kronecker_operators
from penchant_curvature.shared.linear_layers import coverage
from penchant_curvature.shared.moment_sums import Measured
from penchant_numerics.device import LiveBytes, memory
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

CLASSES = 4


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def mlp(depth=6):
    layers = []
    for _ in range(depth - 1):
        layers += [nn.Linear(8, 8), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(8, CLASSES)).eval()


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 5, 2, stride=2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(45, CLASSES),
    ).eval()


def images(samples, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, 2, 6, 6, generator=generator, dtype=torch.float64)
    return inputs.to(dtype), torch.arange(samples) % CLASSES


def kfac(network, data, **options):
    together = torch.zeros(len(data[0]), dtype=torch.int64)
    shared = {"loss": "cross-entropy", "batch": 4, **options}
    groups = shared.pop("groups", together)
    return kronecker_operators(network, data, coverage(network, data[0]), groups, **shared)


class Calls(TorchDispatchMode):
    """Counts matrix products with a bias, which only a forward pass makes."""

    def __init__(self):
        super().__init__()
        self.forward = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.forward += func is torch.ops.aten.addmm.default
        return func(*args, **(kwargs or {}))


def test_all_layers_take_one_forward_pass_and_a_backward_pass_less_than_classes():
    network = seeded(mlp)
    data = (torch.randn(16, 8, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 4)
    found = kfac(network, data, batch=8)
    backward = []
    before = torch.autograd.grad

    def counted(*args, **kwargs):
        backward.append(1)
        return before(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, Calls() as calls:
        patch.setattr(torch.autograd, "grad", counted)
        for layer in found:
            found[layer].trace()
    assert calls.forward == 2 * 6, "two batches through six layers"
    assert len(backward) == 2 * (CLASSES - 1)


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0, 2000.0])
@pytest.mark.parametrize("classes", [2, 7])
def test_columns_of_the_loss_are_a_root_of_its_hessian(scale, classes):
    generator = torch.Generator().manual_seed(0)
    outputs = scale * torch.randn(5, classes, generator=generator, dtype=torch.float64)
    columns = loss_columns(outputs, "cross-entropy")
    assert columns.shape == (classes - 1, 5, classes)
    for number, sample in enumerate(outputs):
        label = torch.tensor(0)
        hessian = torch.func.hessian(nn.functional.cross_entropy)(sample, label)
        root = columns[:, number].T
        assert torch.allclose(root @ root.T, hessian, rtol=1e-12, atol=1e-15)


def test_a_small_budget_makes_layers_one_by_one_with_the_same_factors():
    network = seeded(cnn).double()
    data = images(9)
    together = kfac(network, data)
    whole = {layer: each.dense() for layer, each in together.items()}
    with memory.budget(1000):
        apart = kfac(network, data, batch=None)
        for layer, matrix in whole.items():
            assert torch.allclose(apart[layer].dense(), matrix, rtol=1e-12, atol=1e-15)
            assert len(apart._held) == 1


def test_a_pass_stays_within_its_budget():
    network = seeded(cnn)
    inputs, labels = images(64, torch.float32)
    layers = dict.fromkeys(coverage(network, inputs).layers, True)
    measured = Measured("cross-entropy")
    allowed = 200_000
    with memory.budget(allowed):
        passes = MomentPasses(network, inputs, labels * 0, layers, measured=measured)
        with LiveBytes(peaks=True) as live:
            passes.run(list(layers))
    assert live.peak <= allowed
    with LiveBytes(peaks=True) as unbounded:
        MomentPasses(network, inputs, labels * 0, layers, measured=measured).run(list(layers))
    assert unbounded.peak > 2 * allowed, "without a budget a pass takes all samples"


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
def test_reduced_factors_are_those_of_curvlinops_and_dense_ones(loss):
    curvlinops = pytest.importorskip("curvlinops")
    network = seeded(cnn).double()
    inputs, labels = images(7)
    ours = kfac(network, (inputs, labels), loss=loss, positions="reduce")
    targets = labels
    if loss == "squared-error":
        targets = nn.functional.one_hot(labels, CLASSES).double()
    theirs = curvlinops.KFACLinearOperator(
        network,
        nn.CrossEntropyLoss() if loss == "cross-entropy" else nn.MSELoss(),
        list(network.parameters()),
        [(inputs, targets)],
        fisher_type="type-2",
        kfac_approx="reduce",
        separate_weight_and_bias=False,
        check_deterministic=False,
    )
    size = sum(each.numel() for each in network.parameters())
    dense = theirs @ torch.eye(size, dtype=torch.float64)
    if loss == "squared-error":
        dense = dense * CLASSES / 2  # its loss is a mean over outputs, ours half their sum
    matrix = torch.block_diag(*[each.dense() for each in ours.values()])
    assert float((matrix - dense).norm() / dense.norm()) < 1e-10

    # the first layer by hand: patches averaged, errors summed
    layer = network[0]
    patches = nn.functional.unfold(inputs, 3, padding=1).mean(2)
    ones = torch.ones(len(inputs), 1, dtype=torch.float64)
    h = torch.cat([patches, ones], dim=1)
    made = layer(inputs).detach().requires_grad_()
    outputs = network[1:](made.clone())
    columns = []
    for k in range(CLASSES):
        (slope,) = torch.autograd.grad(outputs[:, k].sum(), made, retain_graph=True)
        columns.append(slope.sum((2, 3)))
    J = torch.stack(columns, dim=1)  # (n, C, o)
    H = torch.eye(CLASSES, dtype=torch.float64).expand(len(inputs), -1, -1)
    if loss == "cross-entropy":
        p = outputs.detach().softmax(1)
        H = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    delta = torch.einsum("nco,ncd,ndq->oq", J, H, J) / len(inputs)
    factors = ours["0"].factors[0]
    assert torch.allclose(factors.H[0], h.T @ h / len(inputs), rtol=1e-10)
    assert torch.allclose(factors.Delta[0], delta, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("kind", ["exact", "factored"])
def test_damped_inverses_are_those_of_curvlinops_and_dense_ones(kind):
    curvlinops = pytest.importorskip("curvlinops")
    network = seeded(cnn).double()
    inputs, labels = images(7)
    found = kfac(network, (inputs, labels))
    theirs = curvlinops.KFACLinearOperator(
        network,
        nn.CrossEntropyLoss(),
        list(network.parameters()),
        [(inputs, labels)],
        fisher_type="type-2",
        separate_weight_and_bias=False,
        check_deterministic=False,
    )
    damping = 0.01
    exact = kind == "exact"
    given = damping if exact else damping**0.5  # theirs is added to each factor
    inverse = curvlinops.KFACInverseLinearOperator(theirs, damping=given, use_exact_damping=exact)
    size = sum(each.numel() for each in network.parameters())
    dense = inverse @ torch.eye(size, dtype=torch.float64)
    ours = [each.inverse(damping, kind=kind) for each in found.values()]
    matrix = torch.block_diag(*[each.dense() for each in ours])
    assert float((matrix - dense).norm() / dense.norm()) < 1e-10

    # and by the definition
    for own, each in zip(ours, found.values()):
        H, Delta = each.factors[0].H[0], each.factors[0].Delta[0]
        root = damping**0.5
        if exact:
            damped = each.dense() + damping * torch.eye(each.size, dtype=torch.float64)
            product = own.dense() @ damped
            assert torch.allclose(product, torch.eye(each.size, dtype=torch.float64), atol=1e-9)
        else:
            left = torch.linalg.inv(Delta + root * torch.eye(len(Delta), dtype=torch.float64))
            right = torch.linalg.inv(H + root * torch.eye(len(H), dtype=torch.float64))
            vector = torch.ones(1, each.size, dtype=torch.float64)
            (given,) = each.matrices(vector)
            assert torch.allclose(own.rows(vector), each.flat([left @ given @ right]))
        assert own.trace().value == pytest.approx(float(own.dense().trace()))


def test_what_has_no_inverse_in_factors_is_refused():
    network = seeded(cnn).double()
    data = images(8)
    classes = kfac(network, data, groups=data[1])["0"]
    with pytest.raises(ValueError, match="4 groups of samples"):
        classes.inverse(0.1)
    with pytest.raises(ValueError, match="damping above 0"):
        kfac(network, data)["0"].inverse(0.0)
    with pytest.raises(ValueError, match="expand or reduce"):
        kfac(network, data, positions="mean")


def test_one_output_and_shared_layers_are_as_gauss_newton_says():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(5, 5)
            self.head = nn.Linear(5, 1)

        def forward(self, x):
            return self.head(self.inner(torch.tanh(self.inner(x))))

    network = seeded(Twice).double().eval()
    inputs = torch.randn(1, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = (inputs, torch.zeros(1, dtype=torch.int64))
    exact = column_operators(
        network,
        data,
        coverage(network, inputs),
        columns="gauss-newton",
        loss="cross-entropy",
        batch=1,
    )
    # with one sample and one position KFAC is Gauss-Newton itself
    head = kfac(network, data)["head"]
    assert exact["head"].frobenius_distance(head, relative=True) < 1e-7
    # two uses are two positions
    assert kfac(network, data)["inner"].size == 30
