"""The numerics without the runner: three lines of Python on a loader or on tensors."""

import subprocess
import sys

import penchant_numerics
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def samples():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    return inputs, torch.arange(50) % 3


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()


def by_definition(net, inputs):
    """Mean of J^T (diag p - p p^T) J, from Jacobians of one sample at a time."""
    values = dict(net.named_parameters())
    total = 0
    for x in inputs:

        def of_parameters(state, x=x):
            return torch.func.functional_call(net, state, (x[None],))[0]

        parts = torch.func.jacrev(of_parameters)(values)
        J = torch.cat([part.reshape(3, -1) for part in parts.values()], dim=1)
        p = of_parameters(values).softmax(0)
        total = total + J.T @ (torch.diag(p) - torch.outer(p, p)) @ J
    return total.detach() / len(inputs)


@pytest.mark.parametrize("shuffle", [False, True])
def test_gauss_newton_of_a_loader_is_that_of_its_samples(shuffle):
    net, (inputs, labels) = network(), samples()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=7, shuffle=shuffle)
    found = penchant_numerics.GaussNewton(net, loader).dense()
    assert torch.equal(found, penchant_numerics.GaussNewton(net, (inputs, labels)).dense())
    torch.testing.assert_close(found, by_definition(net, inputs))


def test_a_loader_of_two_batches_is_not_taken_for_inputs_and_labels():
    net, (inputs, labels) = network(), samples()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=25)
    assert penchant_numerics.GaussNewton(net, loader).samples == 50


def test_the_hessian_of_a_loader_is_that_of_autodiff():
    net, (inputs, labels) = network(), samples()
    found = penchant_numerics.Hessian(net, DataLoader(TensorDataset(inputs, labels))).dense()
    names = [name for name, _ in net.named_parameters()]
    sizes = [each.numel() for each in net.parameters()]
    flat = torch.cat([each.detach().flatten() for each in net.parameters()])

    def loss(vector):
        parts = vector.split(sizes)
        state = {
            name: part.view_as(each) for name, part, each in zip(names, parts, net.parameters())
        }
        outputs = torch.func.functional_call(net, state, (inputs,))
        return nn.functional.cross_entropy(outputs, labels)

    torch.testing.assert_close(found, torch.func.hessian(loss)(flat))


def test_the_library_is_light_until_it_is_used():
    code = "import sys, penchant_numerics; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert {"GaussNewton", "Hessian"} <= set(dir(penchant_numerics))
    with pytest.raises(AttributeError, match="has no attribute 'Newton'"):
        _ = penchant_numerics.Newton
