"""Networks made safe: attention of every kind, copies, batch-norm, and what torch gets wrong."""

import copy
import math

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.data.streamed import ArraySource, StreamedInputs
from penchant_numerics.device import memory, plain_kernels, safe
from penchant_numerics.device.safety import PlainKernels
from penchant_numerics.inputs import MixedDerivative, first_output
from penchant_numerics.training import constructed, state_of
from torch import nn
from torch.func import functional_call, grad, jacfwd, jvp, vmap
from torch.nn import functional

DOUBLE = {"device": "cpu", "dtype": torch.float64}


class Attention(nn.Module):
    """Attention on (batch, heads, tokens, width), by torch's function or written out."""

    def __init__(self, *, fused):
        super().__init__()
        self.fused = fused
        self.mix = nn.Linear(6, 18)

    def forward(self, tokens):
        split = self.mix(tokens).unflatten(-1, (3, 2, 3))  # (batch, tokens, kind, heads, width)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        if self.fused:
            found = functional.scaled_dot_product_attention(queries, keys, values)
        else:
            weights = (queries @ keys.mT / math.sqrt(3)).softmax(-1)
            found = weights @ values
        return found.transpose(1, 2).flatten(2)


def attending(*, fused):
    def make():
        return nn.Sequential(
            nn.Unflatten(1, (4, 6)),
            Attention(fused=fused),
            nn.Flatten(),
            nn.Tanh(),
            nn.Linear(24, 1),
        )

    return constructed(make, 1).eval()


def encoder(*, layers=2):
    def make():
        layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        return nn.Sequential(
            nn.Unflatten(1, (4, 6)),
            nn.TransformerEncoder(layer, layers),
            nn.Flatten(),
            nn.Linear(24, 1),
        )

    return constructed(make, 2).eval()


class OneHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.last = nn.Linear(24, 1)

    def forward(self, x):
        tokens = x.unflatten(1, (4, 6))
        found, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return self.last(found.flatten(1))


NETWORKS = {
    "function": lambda: attending(fused=True),
    "encoder": encoder,
    "multihead": lambda: constructed(OneHead, 3).eval(),
}


def point(dtype=torch.float64):
    stream = torch.Generator("cpu").manual_seed(0)
    return torch.randn(24, generator=stream, device="cpu", dtype=torch.float64).to(dtype)


def dense_mixed(module, x):
    """d^2 f / d theta d x by torch.func in double precision, {parameter: (numbers, inputs)}."""
    state = state_of(module)
    parameters = {name: state[name] for name, _ in module.named_parameters()}

    def output(given, y):
        return first_output(functional_call(module, given, (y[None],)))[0]

    with plain_kernels():
        found = jacfwd(grad(output), argnums=1)(parameters, x)
    return {name: value.reshape(-1, x.numel()) for name, value in found.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mixed_derivative_of_fused_attention_is_that_of_attention_written_out(dtype):
    written = dense_mixed(attending(fused=False).double(), point())
    columns = torch.cat(list(written.values()))
    module = safe(attending(fused=True)).to("cpu", dtype)
    mixed = MixedDerivative(module, point(dtype))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12

    gram = mixed.gram(state_of(module)).double()
    expected = columns.T @ columns
    assert (gram - expected).norm() < tolerance * expected.norm()

    unit = torch.eye(24, device="cpu", dtype=dtype)[:3]
    for name, image in mixed.apply(state_of(module), unit).items():
        expected = written[name][:, :3].T
        assert (image.flatten(1).double() - expected).norm() <= tolerance * columns.norm()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_safe_network_has_second_derivatives_outside_of_any_context(name, dtype):
    module = safe(NETWORKS[name]()).to("cpu", dtype).requires_grad_(False)
    x = point(dtype)

    def first(y):
        return grad(lambda z: module(z[None])[0, 0])(y)

    directions = torch.eye(24, device="cpu", dtype=dtype)[:5]
    hessian = vmap(lambda v: jvp(first, (x,), (v,))[1])(directions)
    reference = copy.deepcopy(module).double()
    with plain_kernels():
        exact = torch.autograd.functional.hessian(lambda y: reference(y[None])[0, 0], x.double())
    torch.testing.assert_close(hessian.double(), exact[:5], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_safe_network_computes_what_the_network_computes(name):
    network = NETWORKS[name]()
    inputs = torch.stack([point(torch.float32), -point(torch.float32)])
    with torch.no_grad():
        torch.testing.assert_close(safe(network)(inputs), network(inputs), rtol=1e-5, atol=1e-6)


def test_copies_of_a_safe_network_are_safe_and_have_weights_of_their_own():
    first = safe(attending(fused=True))
    other = copy.deepcopy(first)
    assert isinstance(other, PlainKernels) and isinstance(other, nn.Sequential)
    with torch.no_grad():
        other[-1].weight.zero_()
        other[-1].bias.fill_(3.0)
        x = point(torch.float32)[None]
        assert float(other(x)) == 3.0 != float(first(x))
    state = {name: 2 * value for name, value in state_of(first).items()}
    doubled = functional_call(first, state, (point(torch.float32)[None],))
    assert not torch.equal(doubled, first(point(torch.float32)[None]))


def test_the_network_itself_and_its_class_are_not_changed():
    network = attending(fused=True)
    made = safe(network)
    assert type(network) is nn.Sequential
    assert type(made).__name__ == "Sequential" and made is not network
    assert type(safe(made)) is type(made)
    assert type(safe(nn.Linear(2, 1))) is nn.Linear


def test_switches_are_put_back_also_after_an_error():
    def switches():
        return (
            torch.backends.mha.get_fastpath_enabled(),
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.mem_efficient_sdp_enabled(),
            torch.backends.cuda.math_sdp_enabled(),
        )

    before = switches()
    made = safe(attending(fused=True))
    made(point(torch.float32)[None])
    with pytest.raises(RuntimeError):
        made(torch.ones(1, 5, device="cpu"))
    assert switches() == before


def test_fused_switches_and_work_in_place_are_off():
    class Switched(nn.Module):
        def __init__(self):
            super().__init__()
            self.fused_attn, self.act = True, nn.ReLU(inplace=True)

        def forward(self, x):
            return self.act(x)

    network = Switched()
    made = safe(network)
    assert not made.fused_attn and not made.act.inplace
    assert network.fused_attn and network.act.inplace


def test_safe_networks_are_copies_without_what_breaks_second_derivatives():
    plain = nn.Sequential(
        nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.BatchNorm1d(4)
    )
    made = safe(plain)
    assert plain[1].inplace
    assert not made[1].inplace
    assert made[2].p == 0
    assert not made.training


def test_batch_norm_policies():
    plain = nn.Sequential(nn.BatchNorm1d(4)).train()
    inputs = 3 + 2 * torch.randn(500, 4)
    for policy, centred in (("running", False), ("batch", True), ("calibrated", True)):
        outputs = safe(plain, batch_norm=policy, calibration=inputs)(inputs)
        assert (outputs.mean().abs() < 0.01) == centred
    assert plain[0].num_batches_tracked == 0
    with pytest.raises(ValueError, match="needs calibration inputs"):
        safe(plain, batch_norm="calibrated")
    with pytest.raises(ValueError, match="must be one of running, batch, calibrated, found 'own'"):
        safe(plain, batch_norm="own")


class Residual(nn.Module):
    """Normalised layers behind each other, with a second way round."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 3, 3)
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(3), nn.BatchNorm1d(3)])

    def forward(self, x):
        x = self.norms[1](self.first(x)).relu()
        x = (x + self.norms[0](x)).tanh()
        return self.norms[2](self.second(x).mean((2, 3)))


@pytest.mark.parametrize("samples", [21, 2])
def test_statistics_of_batches_are_those_of_one_pass(samples):
    """Within and between batches, layer by layer: also where the last batch is smaller."""
    network = constructed(Residual, 0).double()
    generator = torch.Generator("cpu").manual_seed(0)
    inputs = torch.randn(samples, 2, 5, 5, generator=generator, **DOUBLE) ** 3
    at_once = safe(network, batch_norm="calibrated", calibration=inputs)
    passed = []
    network.register_forward_pre_hook(lambda module, given: passed.append(len(given[0])))
    with memory.budget(20_000):
        batches = safe(network, batch_norm="calibrated", calibration=inputs)
    assert max(passed) < 10 or samples == 2
    for name, value in at_once.state_dict().items():
        torch.testing.assert_close(batches.state_dict()[name], value, rtol=1e-12, atol=1e-12)
    # an independent oracle: the first layer met has the moments of all its inputs
    seen = network.first(inputs).transpose(0, 1).flatten(1)
    torch.testing.assert_close(batches.norms[1].running_mean, seen.mean(1))
    torch.testing.assert_close(batches.norms[1].running_var, seen.var(1))
    assert not any(module.training for module in batches.modules())
    assert [module.momentum for module in batches.norms] == [0.1] * 3
    assert not any(module._forward_pre_hooks for module in batches.norms)


def test_a_norm_that_is_used_twice_is_calibrated_in_one_pass():
    norm = nn.BatchNorm1d(3)
    network = nn.Sequential(norm, nn.Tanh(), norm).double()
    inputs = torch.arange(60.0, **DOUBLE).reshape(20, 3).sin()
    at_once = safe(network, batch_norm="calibrated", calibration=inputs)
    with memory.budget(100):
        found = safe(network, batch_norm="calibrated", calibration=inputs)
    torch.testing.assert_close(found[0].running_var, at_once[0].running_var, rtol=0, atol=0)


def test_streamed_inputs_are_calibrated_on_without_the_whole_tensor():
    inputs = torch.arange(60.0, **DOUBLE).reshape(20, 3).sin()
    streamed = StreamedInputs(ArraySource(inputs.numpy()), device="cpu", dtype=torch.float64)
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.BatchNorm1d(3)).double()
    expected = safe(network, batch_norm="calibrated", calibration=inputs).state_dict()
    for bytes_allowed in (None, 1000):
        with memory.budget(bytes_allowed):
            made = safe(network, batch_norm="calibrated", calibration=streamed)
        for name, value in made.state_dict().items():
            torch.testing.assert_close(value, expected[name])
    assert streamed._whole is None


def test_batch_norm_elsewhere_than_on_a_cpu_is_left_alone():
    """The mend of a bug on the CPU would take memory of a GPU."""
    norm = safe(nn.Sequential(nn.BatchNorm2d(3)))
    x = torch.arange(12.0, device="cpu").reshape(1, 3, 2, 2)
    expected = norm(x)
    assert expected._base is not None
    with testing.emulated_device():
        there = norm.to("emulated")(x.to("emulated"))
        assert there._base is None
        torch.testing.assert_close(there.cpu(), expected)


def test_batch_norm_behind_tokens_has_the_right_gradient():
    """PyTorch's own is wrong here for one image: the gradient that arrives is transposed."""
    norm, x = (
        safe(nn.Sequential(nn.BatchNorm2d(3))).double(),
        torch.randn(1, 3, 2, 2, dtype=torch.float64, requires_grad=True),
    )
    weight = torch.randn(1, 4, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda y: (norm(y).flatten(2).transpose(1, 2) * weight).sum(), x
    )


def test_hard_sigmoids_can_be_differentiated_twice():
    made, x = (
        safe(nn.Sequential(nn.Hardsigmoid())),
        torch.linspace(-4, 4, 9, dtype=torch.float64, requires_grad=True),
    )
    torch.testing.assert_close(made(x), nn.Hardsigmoid()(x))
    (first,) = torch.autograd.grad(made(x).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].shape == (9,)


def test_attention_can_be_differentiated_twice():
    layer = safe(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).double()
    inputs = torch.randn(1, 3, 8, dtype=torch.float64)

    def first(x):
        return torch.func.grad(lambda y: layer(y).square().sum())(x)

    assert torch.isfinite(torch.func.jvp(first, (inputs,), (torch.ones_like(inputs),))[1]).all()
