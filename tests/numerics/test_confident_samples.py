"""Gauss-Newton matrices in single precision where a probability rounds to one."""

import pytest
import torch
from penchant_numerics.curvature import GaussNewton, closed_form
from penchant_numerics.curvature.gauss_newton_gram import gauss_newton_gram
from torch import nn

# 1 - p of 5e-9 and less: in single precision p is one
GAPS = (3.0, 19.0, 40.0, 60.0)
CROSS_ENTROPY = closed_form("cross-entropy")


def hessian(outputs):
    """diag p - p p^T at (n, C) in double precision: no number is a difference from one."""
    p = outputs.double().softmax(-1)
    H = -p[:, :, None] * p[:, None]
    others = H.clone()
    others.diagonal(dim1=1, dim2=2).zero_()
    H.diagonal(dim1=1, dim2=2).copy_(-others.sum(2))
    return H


def confident(gap, classes=4, n=5):
    draws = torch.Generator().manual_seed(0)
    outputs = torch.randn(n, classes, generator=draws)
    outputs[:, 1] += gap
    return outputs, torch.randn(3, n, classes, generator=draws) + 1.0


def relative(made, expected):
    return float((made.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("gap", GAPS)
def test_the_loss_hessian_and_its_root_do_not_cancel(gap):
    outputs, vectors = confident(gap)
    H = hessian(outputs)
    expected = torch.einsum("ncd,knd->knc", H, vectors.double())
    made = CROSS_ENTROPY.hessian_times(outputs, vectors)
    assert relative(made, expected) < 1e-5
    # of each sample and each class, the likeliest too
    assert ((made.double() - expected).abs() <= 1e-4 * expected.abs().amax(2, keepdim=True)).all()
    # L L^T u = H u, and the entries of L
    half = CROSS_ENTROPY.factor_times(outputs, vectors, transposed=True)
    assert relative(CROSS_ENTROPY.factor_times(outputs, half), expected) < 1e-5
    units = torch.eye(4).expand(5, 4, 4).transpose(0, 1)
    root = CROSS_ENTROPY.factor_times(outputs, units).double()
    squared = torch.einsum("knc,knd->ncd", root, root)
    assert relative(squared, H) < 1e-5


@pytest.mark.parametrize("gap", GAPS)
def test_one_logit_is_the_closed_form(gap):
    made = CROSS_ENTROPY.hessian_times(torch.tensor([[gap]]), torch.ones(1, 1))
    expected = 1 / (2 + 2 * torch.tensor(gap, dtype=torch.float64).cosh())
    assert float(made) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("gap", GAPS)
def test_the_matrix_of_a_confident_network_is_that_in_double_precision(gap):
    """At 1 - p = 5e-9 the trace was 5 % off, at saturation 38 %."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
    network[2].bias.data[1] += gap
    inputs = torch.randn(7, 3)
    G = GaussNewton(network, (inputs, None))
    gram = gauss_newton_gram(network, (inputs, torch.zeros(7, dtype=torch.long)))
    wide = network.double()
    rows = torch.stack(
        [
            torch.cat(
                [
                    g.flatten()
                    for g in torch.autograd.grad(out, wide.parameters(), retain_graph=True)
                ]
            )
            for out in wide(inputs.double()).flatten()
        ]
    ).reshape(7, 4, -1)
    expected = (
        torch.einsum("ncp,ncd,ndq->pq", rows, hessian(wide(inputs.double()).detach()), rows) / 7
    )
    network.float()
    assert relative(G.dense(), expected) < 1e-4
    assert float(G.factor().gram().dense().trace()) == pytest.approx(
        float(expected.trace()), rel=1e-4
    )
    assert float(gram.trace()) == pytest.approx(float(expected.trace()), rel=1e-4)
