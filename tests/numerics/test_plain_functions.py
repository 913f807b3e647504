"""Second derivatives in all four orders of differentiation, against float64 finite differences."""

import pytest
import torch
from penchant_numerics.device import plain_kernels, safe
from penchant_numerics.device.plain_functions import PlainFunctions
from torch import nn
from torch.func import functional_call, grad, jvp
from torch.nn import functional

DOUBLE = {"device": "cpu", "dtype": torch.float64}
INPUTS = 12


class Call(nn.Module):
    """A function without parameters as a layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(3, 4, batch_first=True)

    def forward(self, x):
        states, _ = self.layer(x.unflatten(1, (4, 3)))
        return states[:, -1]


class Attention(nn.Module):
    """Two heads of fused attention over four tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 12)

    def forward(self, x):
        split = self.embed(x.unflatten(1, (4, 3))).unflatten(-1, (3, 2, 2))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(queries, keys, values).flatten(1)


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, x):
        tokens = torch.arange(4, device=x.device)
        return (self.table(tokens) * x.unflatten(1, (4, 3))).flatten(1)


def image(layer):
    return nn.Sequential(nn.Unflatten(1, (3, 2, 2)), layer)


def sequence(layer):
    return nn.Sequential(nn.Unflatten(1, (3, 4)), layer)


def tokens(layer):
    return nn.Sequential(nn.Unflatten(1, (4, 3)), layer)


def weight_norm(layer):
    return nn.utils.parametrizations.weight_norm(layer)


LAYERS = {
    "layer-norm": lambda: nn.LayerNorm(12),
    "layer-norm-two-axes": lambda: tokens(nn.LayerNorm((4, 3))),
    "layer-norm-function": lambda: Call(lambda x: functional.layer_norm(x, (12,))),
    "layer-norm-torch": lambda: Call(lambda x: torch.layer_norm(x, (12,))),
    "group-norm": lambda: image(nn.GroupNorm(1, 3)),
    "instance-norm-1d": lambda: sequence(nn.InstanceNorm1d(3, affine=True)),
    "instance-norm-2d": lambda: image(nn.InstanceNorm2d(3)),
    "batch-norm-1d": lambda: nn.BatchNorm1d(12),
    "batch-norm-2d": lambda: image(nn.BatchNorm2d(3)),
    "batch-norm-1d of the batch": lambda: nn.BatchNorm1d(12),
    "batch-norm-2d of the batch": lambda: image(nn.BatchNorm2d(3, affine=False)),
    "rms-norm": lambda: nn.RMSNorm(12),
    "attention": Attention,
    "encoder": lambda: tokens(nn.TransformerEncoderLayer(3, 1, 8, batch_first=True)),
    "gelu": nn.GELU,
    "glu": nn.GLU,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "max-pool": lambda: image(nn.MaxPool2d(2)),
    "average-pool": lambda: image(nn.AvgPool2d(2)),
    "embedding": Embedded,
    "weight-norm": lambda: weight_norm(nn.Linear(12, 12)),
    "weight-norm-whole": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(12, 12), dim=None),
    "weight-norm-convolution": lambda: image(weight_norm(nn.Conv2d(3, 3, 2))),
}


def drawn(name, *, train=False):
    """A layer between linear ones, with random parameters, not prepared in any way."""
    generator = torch.Generator("cpu").manual_seed(0)
    layer = LAYERS[name]()
    with torch.no_grad():
        width = layer.eval()(torch.ones(2, INPUTS, device="cpu")).flatten(1).shape[1]
    network = nn.Sequential(
        nn.Linear(INPUTS, INPUTS), layer, nn.Tanh(), nn.Flatten(), nn.Linear(width, 1)
    )
    network = network.double().train(train)
    with torch.no_grad():
        for value in network.parameters():
            value.copy_(torch.randn(value.shape, generator=generator, **DOUBLE) / 2)
    return network


class Curve:
    """A scalar function z -> f of parameters and inputs z, and a direction d."""

    def __init__(self, network):
        generator = torch.Generator("cpu").manual_seed(1)
        self.network = network
        self.names = [name for name, _ in network.named_parameters()]
        values = [value.detach() for value in network.parameters()]
        inputs = torch.randn(5, INPUTS, generator=generator, **DOUBLE)
        self.point = (*values, inputs)
        self.weights = torch.randn(5, generator=generator, **DOUBLE)
        self.direction = tuple(
            torch.randn(value.shape, generator=generator, **DOUBLE) for value in self.point
        )

    def __call__(self, point):
        *values, inputs = point
        outputs = functional_call(self.network, dict(zip(self.names, values)), (inputs,))
        return outputs[:, 0] @ self.weights

    def at(self, step):
        return tuple(value + step * along for value, along in zip(self.point, self.direction))

    def difference(self, function, step=1e-4):
        """The derivative of a function along d, by four points: its error is of fourth order."""
        near = function(self.at(step)) - function(self.at(-step))
        far = function(self.at(2 * step)) - function(self.at(-2 * step))
        return (8 * near - far) / (12 * step)

    def gradient(self, point):
        return flat(grad(self)(point))

    def slope(self, point):
        return jvp(self, (point,), (self.direction,))[1]

    def orders(self):
        """The Hessian times d; forward over forward has only <d, H d>."""
        along = flat(self.direction)
        return {
            "reverse over reverse": flat(grad(lambda z: self.gradient(z) @ along)(self.point)),
            "forward over reverse": jvp(self.gradient, (self.point,), (self.direction,))[1],
            "reverse over forward": flat(grad(self.slope)(self.point)),
            "forward over forward": jvp(self.slope, (self.point,), (self.direction,))[1],
        }


def flat(tensors):
    return torch.cat([each.flatten() for each in tensors])


def differences(name):
    """Relative differences of every order from finite differences."""
    statistics = "batch" if name.endswith("of the batch") else "running"
    curve = Curve(safe(drawn(name), batch_norm=statistics))
    product = curve.difference(curve.gradient)
    expected = dict.fromkeys(curve.orders(), product)
    expected["forward over forward"] = product @ flat(curve.direction)
    found = {}
    for order, value in curve.orders().items():
        found[order] = float((value - expected[order]).norm() / expected[order].norm())
    slope = curve.difference(curve)
    found["gradient"] = float(abs(curve.gradient(curve.point) @ flat(curve.direction) / slope - 1))
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives_are_right_in_every_order(name):
    found = differences(name)
    assert max(found.values()) < 1e-9, found


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("train", [False, True])
def test_values_are_those_of_torch(name, train):
    network = drawn(name, train=train)
    if name == "encoder" and train:
        pytest.skip("drops at random")
    if not train and name.endswith("of the batch"):
        pytest.skip("evaluation mode has running statistics only")
    generator = torch.Generator("cpu").manual_seed(2)
    inputs = torch.randn(5, INPUTS, generator=generator, **DOUBLE)
    expected = network(inputs)
    with plain_kernels():
        torch.testing.assert_close(network(inputs), expected, rtol=1e-12, atol=1e-12)


def test_running_statistics_are_updated_as_by_torch():
    inputs = torch.arange(24.0, **DOUBLE).reshape(4, 3, 2).sin()
    for kind in (nn.BatchNorm1d, nn.InstanceNorm1d):
        own = kind(3, track_running_stats=True).double().train()
        plain = kind(3, track_running_stats=True).double().train()
        own(inputs)
        with PlainFunctions():
            plain(inputs)
        torch.testing.assert_close(plain.running_mean, own.running_mean)
        torch.testing.assert_close(plain.running_var, own.running_var)


def test_statistics_of_one_sample_are_refused_as_by_torch():
    norm = safe(nn.Sequential(nn.BatchNorm1d(3)), batch_norm="batch")
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(torch.ones(1, 3, device="cpu"))


def test_a_network_that_is_one_norm_is_safe_as_well():
    norm = safe(nn.LayerNorm(INPUTS)).double()
    x = torch.arange(12.0, **DOUBLE).sin()
    along = torch.arange(12.0, **DOUBLE).cos()

    def value(y):
        return norm(y).pow(3).sum()

    reverse = grad(lambda y: jvp(value, (y,), (along,))[1])(x)
    forward = jvp(grad(value), (x,), (along,))[1]
    torch.testing.assert_close(reverse, forward)


class AsksForCudnn(nn.Module):
    """Notes whether cuDNN is on while torch's kernel of recurrent layers is called."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 4, batch_first=True)
        self.seen = []

    def forward(self, x):
        hook = NoteCudnn(self.seen)
        with hook:
            states, _ = self.layer(x)
        return states[:, -1]


class NoteCudnn(torch.utils._python_dispatch.TorchDispatchMode):
    """Sees every kernel that a layer runs."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func), torch.backends.cudnn.enabled))
        return func(*args, **(kwargs or {}))


def test_recurrent_layers_run_without_cudnn_and_leave_it_as_it_was():
    network = safe(AsksForCudnn())
    before = torch.backends.cudnn.enabled
    network(torch.ones(2, 5, 3, device="cpu"))
    products = [on for name, on in network.seen if "mm" in name or "lstm" in name or "rnn" in name]
    assert products and not any(products)
    assert torch.backends.cudnn.enabled == before


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_have_tangents_in_single_precision(kind):
    network = Recurrent(kind)
    generator = torch.Generator("cpu").manual_seed(0)
    with torch.no_grad():
        for value in network.parameters():
            value.copy_(torch.randn(value.shape, generator=generator, device="cpu") / 2)
    x, along = torch.randn(2, 1, INPUTS, generator=generator, device="cpu")
    single, double = safe(network), safe(network).double()
    before = torch.backends.mkldnn.enabled

    _, tangent = jvp(single, (x,), (along,))
    assert torch.backends.mkldnn.enabled == before

    x, along = x.double(), along.double()
    _, by_double = jvp(double, (x,), (along,))
    by_differences = (double(x + 1e-5 * along) - double(x - 1e-5 * along)) / 2e-5
    torch.testing.assert_close(tangent.double(), by_double, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(tangent.double(), by_differences, rtol=1e-5, atol=1e-6)
