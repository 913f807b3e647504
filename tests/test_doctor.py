"""The doctor: a healthy machine, a broken plugin, a network without second derivatives."""

import penchant_testing as testing
import pytest
import torch
from click.testing import CliRunner
from penchant import cli
from torch import nn


def doctor(*arguments):
    done = CliRunner().invoke(cli.main, ["doctor", *arguments])
    lines = {}
    for line in done.output.splitlines():
        what, _, found = line[2:].partition("  ")
        lines[what.strip()] = (line[:1], found.strip())
    return done.exit_code, lines


class Once(torch.autograd.Function):
    """A square whose derivative cannot be differentiated again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class OnlyOnce(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.norm = nn.BatchNorm1d(shape[0])
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(shape[0], outputs)

    def forward(self, x):
        return Once.apply(self.linear(self.drop(self.norm(x))))


class Healthy(OnlyOnce):
    def forward(self, x):
        return self.linear(torch.relu(self.norm(x))).square()


@pytest.fixture
def networks(monkeypatch, tmp_path):
    """A module that the command can import networks from."""
    import sys
    import types

    module = types.ModuleType("doctors_networks")
    module.OnlyOnce, module.Healthy = OnlyOnce, Healthy
    monkeypatch.setitem(sys.modules, "doctors_networks", module)


def test_a_healthy_machine_is_well():
    code, lines = doctor()
    assert code == 0
    assert lines["torch"][1].startswith(torch.__version__)
    assert "free" in lines["memory"][1]
    assert lines["example 0.1.0"] == (" ", "4 components")
    assert "fits" not in str(lines)


def test_a_broken_plugin_is_named_with_its_reason(install):
    install("broken", "raise RuntimeError('half installed')")
    code, lines = doctor()
    assert code == 1
    sign, found = lines["broken 1.0"]
    assert sign == "!" and "half installed" in found
    assert lines["example 0.1.0"][0] == " "


def test_a_network_without_second_derivatives_is_told(networks):
    shape = ("--shape", "4", "--outputs", "3")
    code, lines = doctor("-a", "import:factory=doctors_networks:OnlyOnce", *shape)
    assert code == 1
    assert lines["gradients"] == (" ", "works")
    sign, found = lines["second derivatives"]
    assert sign == "!" and found.startswith("wrong, and torch does not say so: ")
    assert lines["1 x BatchNorm1d"][1].startswith("uses running statistics")
    assert lines["1 x Dropout"][1].startswith("drops nothing")
    assert lines["average-geometry"][1] == "fits"
    assert lines["hessian-spectrum"][1] == "does not fit: it needs a dataset"


def test_probes_that_need_what_a_network_lacks_do_not_fit(networks):
    data = ("-d", f"import:factory={testing.SAMPLES}")
    code, lines = doctor("-a", "import:factory=doctors_networks:OnlyOnce", *data)
    assert code == 1
    reason = "does not fit: it needs second derivatives, which this network does not have"
    assert lines["curvature-proxies"][1] == lines["hessian-spectrum"][1] == reason
    code, lines = doctor("-a", "import:factory=doctors_networks:Healthy", *data)
    assert code == 0
    for what in ("gradients", "second derivatives", "forward mode", "samples side by side (vmap)"):
        assert lines[what] == (" ", "works")
    assert lines["curvature-proxies"][1] == lines["hessian-spectrum"][1] == "fits"
    assert "needs one output or two logits, found 3" in lines["nad"][1]


@pytest.mark.parametrize("network", ["lenet:pooling=max", "mlp:widths=[256,256]"])
def test_kinks_of_a_healthy_network_are_not_taken_for_an_illness(network):
    code, lines = doctor("-a", network, "--shape", "1,32,32", "--outputs", "10")
    assert code == 0
    for what in ("gradients", "second derivatives", "forward mode", "samples side by side (vmap)"):
        assert lines[what] == (" ", "works")


def test_a_network_that_does_not_fit_the_data_is_told(networks):
    code, lines = doctor("-a", "lenet", "-d", "digits")
    assert code == 1
    assert lines["lenet"] == ("!", "lenet needs images of at least 16 x 16, found 1 x 8 x 8")
    assert lines["nad"][1].endswith("it needs an architecture, and this one cannot be used")
