"""`ggn` is `GaussNewton` for every kind of labels; what has no meaning is refused in a sentence."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_testing.checks import _carrier
from torch import nn

N, T = 6, 7
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(N, 4, generator=DRAWS).double()
S = torch.randn(N, T, 4, generator=DRAWS).double()
NUMBERS = torch.randn(N, T, 3, generator=DRAWS).double()
IGNORING = torch.tensor([0, 1, -100, 2, 1, -100])
CASES = {
    "ignored labels": (X, IGNORING, "cross-entropy"),
    "shares": (X, NUMBERS[:, 0].softmax(1), "cross-entropy"),
    "numbers": (X, NUMBERS[:, 0], "squared-error"),
    "numbers at positions": (S, NUMBERS, "squared-error"),
    "shares at positions": (S, NUMBERS.softmax(-1), "cross-entropy"),
    "no labels at positions": (S, None, "squared-error"),
}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def estimated(estimator, x, y, loss):
    scope = testing.context(
        _carrier("curvature", estimator, {"architecture": 1}),
        architecture={"name": "import", "factory": network},
        shape=(4,),
        outputs=3,
        estimators={"curvature": {"name": estimator, "loss": loss}},
    )
    return scope.estimator("curvature")(network=network(), data=(x, y))


def dense_gauss_newton(x, y, loss):
    """The mean over terms of J^T H J, by automatic differentiation."""
    module = network()
    if y is not None and y.dim() == 1:
        x = x[y >= 0]
    rows = [
        torch.cat(
            [g.flatten() for g in torch.autograd.grad(out, module.parameters(), retain_graph=True)]
        )
        for out in module(x).flatten()
    ]
    J = torch.stack(rows).reshape(-1, 3, len(rows[0]))
    p = module(x).detach().flatten(0, -2).softmax(-1)
    H = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    if loss == "squared-error":
        H = torch.eye(3).double().expand(len(J), 3, 3)
    return torch.einsum("ncp,ncd,ndq->pq", J, H, J) / len(J)


@pytest.mark.parametrize("case", CASES)
def test_ggn_is_the_gauss_newton_matrix(case):
    """It was 7 times that of numbers at 7 positions, and counted samples that are ignored."""
    x, y, loss = CASES[case]
    expected = dense_gauss_newton(x, y, loss)
    torch.testing.assert_close(GaussNewton(network(), (x, y), loss=loss).dense(), expected)
    layers = estimated("ggn", x, y, loss)
    trace = sum(float(each.trace().value) for each in layers.values())
    assert trace == pytest.approx(float(expected.trace()), rel=1e-10)
    # and its factors are of as many samples
    factors = estimated("kfac", x, y, loss)
    assert sum(float(each.trace().value) for each in factors.values()) == pytest.approx(
        trace, rel=0.1
    )


@pytest.mark.parametrize("case", ["numbers", "numbers at positions", "shares at positions"])
def test_a_sum_is_over_samples_or_all_positions(case):
    x, y, loss = CASES[case]
    count = len(x) * (T if x.dim() == 3 else 1)
    for operator in (Hessian, GaussNewton):
        mean = operator(network(), (x, y), loss=loss).dense()
        total = operator(network(), (x, y), loss=loss, reduction="sum").dense()
        torch.testing.assert_close(total, count * mean)
    # against the Hessian of the sum itself
    module = network()
    values = torch.nn.utils.parameters_to_vector(module.parameters()).detach()

    def loss_sum(vector):
        state, start = {}, 0
        for name, parameter in module.named_parameters():
            state[name] = vector[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
        outputs = torch.func.functional_call(module, state, (x,))
        if loss == "squared-error":
            return 0.5 * (outputs - y).square().sum()
        return -(y * outputs.log_softmax(-1)).sum()

    total = Hessian(network(), (x, y), loss=loss, reduction="sum").dense()
    torch.testing.assert_close(total, torch.func.hessian(loss_sum)(values))


@pytest.mark.parametrize(
    ("estimator", "case", "message"),
    [
        ("empirical-fisher", "shares", r"one class per sample .* labels \(6, 3\) of float64"),
        ("empirical-fisher", "numbers at positions", "one class for each position"),
        ("cfac", "shares", "labels that are classes, found torch.float64"),
        ("cfac", "no labels at positions", "labels that are classes, found none"),
    ],
)
def test_labels_without_a_meaning_are_refused_in_a_sentence(estimator, case, message):
    with pytest.raises(penchant.Error, match=message):
        estimated(estimator, *CASES[case])


def test_ignored_labels_are_left_out_of_every_curvature():
    known = IGNORING >= 0
    for estimator in ("kfac", "cfac", "empirical-fisher"):
        made = estimated(estimator, X, IGNORING, "cross-entropy")
        fewer = estimated(estimator, X[known], IGNORING[known], "cross-entropy")
        for name, layer in made.items():
            assert float(layer.trace().value) == pytest.approx(float(fewer[name].trace().value))
    with pytest.raises(penchant.Error, match="cfac needs one class per sample, found outputs at"):
        estimated("cfac", S, torch.arange(N) % 3, "cross-entropy")
    with pytest.raises(penchant.Error, match="all 6 labels are -100"):
        estimated("ggn", X, torch.full((N,), -100), "cross-entropy")
