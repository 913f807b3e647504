"""`penchant_numerics.curvature.losses`: every entry of LOSSES against automatic differentiation."""

import pytest
import torch
from penchant_numerics import Refusal
from penchant_numerics.curvature import LOSSES, closed_form, has_closed_form, loss_named
from penchant_numerics.curvature.convex_losses import output_hessians

KNOWN = [name for name in LOSSES if has_closed_form(name)]


def outputs_and_labels(name, width=3, n=12):
    draws = torch.Generator().manual_seed(0)
    outputs = torch.randn(n, width, generator=draws, dtype=torch.float64)
    labels = torch.randint(0, max(width, 2), (n,), generator=draws)
    if name == "squared-error" and width > 1:
        labels = torch.nn.functional.one_hot(labels, width).double()
    if name == "binary-cross-entropy":
        labels = torch.randint(0, 2, (n, width), generator=draws).double()
    return outputs, labels


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", KNOWN)
def test_the_closed_form_is_the_hessian_of_autodiff(name, width):
    outputs, labels = outputs_and_labels(name, width)
    H = output_hessians(LOSSES[name].mean, outputs, labels)
    vectors = torch.randn(4, *outputs.shape, generator=torch.Generator().manual_seed(1)).double()
    expected = torch.einsum("nab,knb->kna", H, vectors)
    loss = closed_form(name)
    torch.testing.assert_close(loss.hessian_times(outputs, vectors), expected)
    half = loss.factor_times(outputs, vectors, transposed=True)
    torch.testing.assert_close(loss.factor_times(outputs, half), expected)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_no_constant_outputs_are_better_than_the_best(name, width):
    if name == "cross-entropy" and width == 1:
        pytest.skip("its two classes are those of two outputs")
    outputs, labels = outputs_and_labels(name, width)
    constant = torch.zeros(width, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([constant], max_iter=100, tolerance_grad=1e-12)

    def step():
        search.zero_grad()
        value = LOSSES[name].mean(constant.expand_as(outputs), labels)
        value.backward()
        return value.detach()

    search.step(step)
    best = LOSSES[name].best_constant(labels, width)
    assert float(step()) == pytest.approx(best, rel=1e-6)


def test_what_is_no_loss_is_refused_with_those_that_are():
    with pytest.raises(Refusal, match=r"cross-entropy or squared-error .*, found 'hinge'"):
        loss_named("hinge")
    with pytest.raises(Refusal, match="one of cross-entropy, squared-error, found 'binary-"):
        closed_form("binary-cross-entropy")
