"""Losses of the user's own: Hessian and Gauss-Newton matrix beside dense ones, and refusals."""

import penchant
import pytest
import torch
from penchant.components.training import Training
from penchant_numerics.curvature import GaussNewton, Hessian, OwnGaussNewton, loss_function
from penchant_numerics.curvature.losses import own_loss
from penchant_numerics.data import Samples
from penchant_numerics.training import Stacked, Trainer
from torch import nn
from torch.nn import functional

G = torch.Generator().manual_seed(0)
X = torch.randn(12, 3, generator=G).double()
Y = torch.arange(12) % 2
MANY = (torch.rand(12, 2, generator=G) > 0.5).double()


def network():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def huber(outputs, labels):
    """Convex; one number per sample."""
    return functional.huber_loss(outputs, labels.to(outputs), reduction="none").sum(1)


def waves(outputs, labels):
    """Not convex; the mean itself."""
    return torch.sin(3 * outputs).sum(1).mean() + 0 * labels.sum()


def cross_entropy(outputs, labels):
    return functional.cross_entropy(outputs, labels, reduction="none")


def shapeless(outputs, labels):
    return outputs


def dense(net, loss, labels, *, gauss_newton=False):
    """The Hessian of the mean loss in all parameters, or J^T H J, by automatic differentiation."""
    names = [name for name, _ in net.named_parameters()]
    sizes = [p.numel() for p in net.parameters()]
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])

    def outputs(vector):
        parts = vector.split(sizes)
        values = {n: v.view_as(p) for n, v, p in zip(names, parts, net.parameters())}
        return torch.func.functional_call(net, values, (X,))

    if not gauss_newton:
        return torch.func.hessian(lambda v: loss(outputs(v), labels))(flat)
    J = torch.func.jacrev(outputs)(flat).reshape(24, -1)
    H = torch.func.hessian(lambda f: loss(f.reshape(12, 2), labels))(outputs(flat).flatten())
    return J.T @ H @ J


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("test_losses:huber", MANY),
        ("test_losses:waves", MANY),
        ("binary-cross-entropy", MANY),
        ("squared-error", MANY),
    ],
)
def test_hessians_of_any_loss(name, labels):
    net = network()
    expected = dense(net, loss_function(name), labels)
    torch.testing.assert_close(Hessian(net, (X, labels), loss=name).dense(), expected)


@pytest.mark.parametrize(
    ("name", "labels"), [("test_losses:huber", MANY), ("binary-cross-entropy", MANY)]
)
def test_gauss_newton_of_convex_losses(name, labels):
    net = network()
    found = OwnGaussNewton(net, (X, labels), loss=name, batch=5).dense()
    torch.testing.assert_close(found, dense(net, loss_function(name), labels, gauss_newton=True))


def test_her_cross_entropy_has_the_matrix_of_ours():
    net = network()
    own = OwnGaussNewton(net, (X, Y), loss="test_losses:cross_entropy").dense()
    torch.testing.assert_close(own, GaussNewton(net, (X, Y)).dense())


def test_a_loss_that_is_not_convex_is_refused_with_the_smallest_eigenvalue():
    net = network()
    smallest = float((-9 * torch.sin(3 * net(X))).detach().min())
    with pytest.raises(ValueError, match=f"not convex .* eigenvalue {smallest:.3g} at sample"):
        OwnGaussNewton(net, (X, MANY), loss="test_losses:waves")


def test_binary_cross_entropy_is_that_of_torch():
    outputs = network()(X)
    expected = functional.binary_cross_entropy_with_logits(outputs, MANY) * 2
    torch.testing.assert_close(loss_function("binary-cross-entropy")(outputs, MANY), expected)


def test_losses_that_cannot_be_used_are_refused():
    with pytest.raises(ValueError, match="cannot be loaded: No module named 'nowhere'"):
        own_loss("nowhere:loss")
    with pytest.raises(ValueError, match=r"gives Tensor \(12, 2\), expected a tensor of one num"):
        own_loss("test_losses:shapeless")(network()(X), Y)
    with pytest.raises(penchant.Error, match="must be module:function or one of cross-entropy"):
        Training(loss="cross entropy")


def test_a_network_is_trained_and_measured_with_her_loss():
    data = {"name": "import", "factory": ((X.float(), Y), (X.float(), Y))}
    parts = {
        "architecture": {"name": "import", "factory": lambda: network().float()},
        "dataset": data,
        "split": "train",
        "training": {"steps": 3, "loss": "test_losses:cross_entropy"},
        "executor": "serial",
    }
    own = penchant.measure("hessian-spectrum", **parts, matrices=["hessian"])
    parts["training"] = {"steps": 3}
    ours = penchant.measure("hessian-spectrum", **parts, matrices=["hessian"])
    for name in ("trace-hessian", "largest-hessian"):
        if name in own.quantities:
            value = ours.quantities[name].value
            assert own.quantities[name].value == pytest.approx(value, rel=1e-5)
    assert own.quantities.keys() == ours.quantities.keys()
    parts["training"] = {"steps": 3, "loss": "test_losses:cross_entropy"}
    own = penchant.measure("hessian-spectrum", **parts).quantities
    parts["training"] = {"steps": 3}
    ours = penchant.measure("hessian-spectrum", **parts).quantities
    # G by the Hessian of her loss in the outputs is that in closed form
    for name in ("trace-gauss-newton", "largest-gauss-newton"):
        assert own[name].value == pytest.approx(ours[name].value, rel=1e-4)
        assert own[name].stderr == pytest.approx(ours[name].stderr, rel=1e-3)


def test_a_training_with_cross_entropy_refuses_numbers_that_are_no_probabilities():
    recipe = penchant.Training(steps=1)
    numbers = Samples(X, torch.linspace(-3, 5, len(X), dtype=X.dtype, device="cpu"))
    network = nn.Linear(X.shape[1], 1).to(X.dtype)
    message = "classes or probabilities, found numbers from -3 to 5"
    with pytest.raises(ValueError, match=message):
        Trainer(network, numbers, recipe, seed=0)
    with pytest.raises(ValueError, match=message):
        Stacked([network], [numbers], recipe, seeds=[0])
    Trainer(network, Samples(X, numbers.labels.clamp(0, 1)), recipe, seed=0).run()
    Trainer(network, numbers, penchant.Training(steps=0), seed=0)
