"""Networks: their sizes, the inputs they take, and that every option does what it says."""

import importlib
import itertools
import math

import penchant
import penchant_architectures
import pytest
import torch
from penchant_architectures.architectures import densenet121, lenet, vgg_stages
from penchant_architectures.architectures.residual import PaddedShortcut
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

COMPONENTS = {each.name: each for each in penchant_architectures.penchant_architectures()}
IMAGES = ("lenet", "vgg11", "vgg19", "resnet18", "resnet20", "densenet121", "vit")
ACTIVATION_COUNTS = {
    "mlp": 3,
    "lenet": 2 + 2,
    "vgg11": 8 + 2,
    "vgg19": 16,
    "resnet18": 1 + 8 * 2,
    "resnet20": 1 + 9 * 2,
    "densenet121": 2 * (6 + 12 + 24 + 16) + 3 + 1,
    "vit": 9,
}
OPERATORS = {
    "relu": "aten.relu",
    "gelu": "aten.gelu",
    "tanh": "aten.tanh",
    "sine": "aten.sin",
    "linear": None,
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def target_of(component):
    module, _, function = component.target.partition(":")
    return getattr(importlib.import_module(module), function)


def build(name, shape=(1, 32, 32), outputs=1, seed=0, **options):
    component = COMPONENTS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return target_of(component)(component.bind(options), shape, outputs).eval()


def outline(name, shape=(1, 32, 32), outputs=1, **options):
    """The network without its numbers, which takes no time to build or call."""
    with torch.device("meta"):
        return build(name, shape, outputs, **options)


def size(network):
    return sum(parameter.numel() for parameter in network.parameters())


def layers_of(network, kind):
    return [module for module in network.modules() if isinstance(module, kind)]


# ---- sizes: published ones, and recounts by formulas that know nothing of the code


def convolution(inputs, outputs, kernel, bias=0):
    return inputs * outputs * kernel**2 + bias * outputs


def linear(*widths):
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


def vgg_convolutions(widths, channels=3):
    return sum(convolution(a, b, 3, bias=1) for a, b in itertools.pairwise((channels, *widths)))


VGG11 = (64, 128, 256, 256, 512, 512, 512, 512)


def resnet_size(widths, blocks, outputs, projections, channels=3):
    total = convolution(channels, widths[0], 3) + 2 * widths[0]
    previous = widths[0]
    for width in widths:
        total += (
            convolution(previous, width, 3)
            + (2 * blocks - 1) * convolution(width, width, 3)
            + 2 * blocks * 2 * width
        )
        if previous != width and projections:
            total += convolution(previous, width, 1) + 2 * width
        previous = width
    return total + linear(previous, outputs)


def densenet_size(outputs, channels=3, growth=32):
    width, bottleneck = 2 * growth, 4 * growth
    total = convolution(channels, width, 3)
    for index, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            total += 2 * width + convolution(width, bottleneck, 1)
            total += 2 * bottleneck + convolution(bottleneck, growth, 3)
            width += growth
        if index < 3:
            total += 2 * width + convolution(width, width // 2, 1)
            width //= 2
    return total + 2 * width + linear(width, outputs)


def vit_size(outputs, channels=3, width=192, hidden=768, patches=16):
    layer = (
        2 * 2 * width
        + linear(width, 3 * width)
        + linear(width, width)
        + linear(width, hidden, width)
    )
    return (
        convolution(channels, width, 8, bias=1)
        + width
        + (patches + 1) * width
        + 9 * layer
        + 2 * width
        + linear(width, outputs)
    )


@pytest.mark.parametrize(
    ("name", "options", "recount", "published"),
    [
        ("logistic", {}, linear(3072, 10), 30_730),
        ("mlp", {}, linear(3072, 500, 500, 500, 10), None),
        (
            "lenet",
            {},
            convolution(3, 6, 5, 1) + convolution(6, 16, 5, 1) + linear(400, 120, 84, 10),
            62_006,
        ),
        (
            "lenet",
            {"widths": [96, 67]},
            convolution(3, 6, 5, 1) + convolution(6, 16, 5, 1) + linear(400, 96, 67, 10),
            None,
        ),
        ("vgg11", {}, vgg_convolutions(VGG11) + linear(512, 512, 512, 10), 9_750_922),
        (
            "vgg11",
            {"classifier": [4096, 4096]},
            vgg_convolutions((64, 128, 256, 256) + (512,) * 4) + linear(512, 4096, 4096, 10),
            28_144_010,
        ),
        (
            "vgg19",
            {},
            vgg_convolutions((64, 64, 128, 128) + (256,) * 4 + (512,) * 8) + linear(512, 10),
            20_029_514,
        ),
        (
            "vgg19",
            {"width": 8},
            vgg_convolutions((8, 8, 16, 16) + (32,) * 4 + (64,) * 8) + linear(64, 10),
            None,
        ),
        ("resnet18", {}, resnet_size((64, 128, 256, 512), 2, 10, True), 11_173_962),
        (
            "vgg11",
            {"width": 8},
            vgg_convolutions((8, 16, 32, 32, 64, 64, 64, 64)) + linear(64, 512, 512, 10),
            None,
        ),
        ("resnet18", {"width": 5}, resnet_size((5, 10, 20, 40), 2, 10, True), None),
        ("densenet121", {"width": 8}, densenet_size(10, growth=4), None),
        ("densenet121", {"width": 2}, densenet_size(10, growth=1), None),
        ("resnet20", {}, resnet_size((16, 32, 64), 3, 10, False), 269_722),
        ("resnet20", {"shortcut": "convolution"}, resnet_size((16, 32, 64), 3, 10, True), 272_474),
        ("densenet121", {}, densenet_size(10), 6_956_298),
        ("vit", {}, vit_size(10), None),
    ],
)
def test_parameter_count(name, options, recount, published):
    found = size(outline(name, (3, 32, 32), 10, **options))
    assert found == recount
    assert published in (None, found)


# ---- inputs


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *itertools.product(("logistic", "mlp"), [(7,), (3, 5), (2, 4, 6)]),
        *itertools.product(IMAGES, [(3, 40, 32)]),
        ("linear-pooling", (128,)),
        ("linear-pooling", (1, 128)),
        ("linear-pooling", (13,)),
        *itertools.product(("linear-conv",), [(7,), (5, 6), (3, 5, 6)]),
    ],
)
def test_output_has_one_row_a_sample_and_one_column_an_output(name, shape):
    with torch.no_grad():
        assert build(name, shape, 3)(torch.randn(2, *shape)).shape == (2, 3)


LIMITS = [
    ("lenet", {}, 16),
    ("lenet", {"pooling": "average"}, 16),
    ("lenet", {"pooling": "none"}, 9),
    ("vgg11", {}, 32),
    ("vgg19", {"width": 4}, 32),
    ("densenet121", {}, 8),
]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("name", "options", "limit"), LIMITS)
def test_smallest_image_is_the_true_limit(name, options, limit, monkeypatch):
    with torch.no_grad():
        assert build(name, (1, limit, limit), **options)(torch.randn(2, 1, limit, limit)).shape == (
            2,
            1,
        )
    for shape in ((1, limit - 1, limit + 8), (1, limit + 8, limit - 1)):
        found = " x ".join(map(str, shape))
        with pytest.raises(
            penchant.Error,
            match=f"^{name} needs images of at least {limit} x {limit}, found {found}$",
        ):
            build(name, shape, **options)
    checked_in = {
        "vgg11": vgg_stages,
        "vgg19": vgg_stages,
        "lenet": lenet,
        "densenet121": densenet121,
    }
    monkeypatch.setattr(checked_in[name], "image", lambda shape, name, at_least=1: shape)
    too_small = (1, limit - 1, limit - 1)
    with (
        torch.device("meta"),
        pytest.raises(RuntimeError),
    ):  # without the check, no such network works
        outline(name, too_small, **options)(torch.empty(2, *too_small))


@pytest.mark.parametrize("name", ["vgg11", "resnet18", "resnet20", "densenet121"])
def test_without_halving_poolings_one_pixel_is_enough(name):
    with torch.no_grad():
        assert build(name, (1, 1, 1), pooling="none")(torch.randn(2, 1, 1, 1)).shape == (2, 1)


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        *(
            (
                name,
                (32, 32),
                {},
                f"{name} needs images .channels x height x width., found the shape 32 x 32",
            )
            for name in IMAGES
        ),
        ("vit", (1, 32, 30), {}, "sides are multiples of its patch 8, found 1 x 32 x 30"),
        ("vit", (1, 32, 32), {"heads": 5}, "found width 192 with 5 heads"),
        ("linear-pooling", (1, 32, 32), {}, "one dimension, such as 128, found 1 x 32 x 32"),
        ("linear-pooling", (3,), {}, "at least as many inputs as its stride 4, found 3"),
        (
            "linear-pooling",
            (8,),
            {"response": [1.0] * 7},
            "response must have 8 numbers, one per input, found the shape 7",
        ),
        ("linear-conv", (4, 2), {}, "no side shorter than its kernel 3, found 4 x 2"),
    ],
)
def test_shape_that_does_not_fit_is_refused(name, shape, options, message):
    with pytest.raises(penchant.Error, match=message):
        build(name, shape, **options)


# ---- options


class OperatorCounts(TorchDispatchMode):
    """Counts the operators that really run, whatever modules they come from."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func.overloadpacket)
        self.counts[name] = self.counts.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


# No architecture has tanh of itself, and relu could be done in place; the others are made where
# these are, so that small networks show them.
ACTIVATED = [
    *itertools.product(("relu", "tanh"), ACTIVATION_COUNTS),
    *itertools.product(("gelu", "sine", "linear"), ("mlp", "lenet", "vit")),
]


@pytest.mark.parametrize(("activation", "name"), ACTIVATED)
def test_activation_reaches_every_activation(name, activation):
    network = outline(name, activation=activation)
    with torch.no_grad(), OperatorCounts() as operators:
        network(torch.empty(1, 1, 32, 32, device="meta"))
    found = {
        each: operators.counts[operator]
        for each, operator in OPERATORS.items()
        if operators.counts.get(operator)
    }
    assert found == ({} if activation == "linear" else {activation: ACTIVATION_COUNTS[name]})
    assert not any(operator.endswith("_") for operator in operators.counts), (
        "nothing happens in place"
    )


@pytest.mark.parametrize("name", ["mlp", *IMAGES[:-1]])  # attention is not linear
def test_networks_of_linear_activations_are_affine(name):
    options = {"pooling": "average"} if name in IMAGES else {}
    if name == "vgg19":
        options["width"] = 8
    # Five poolings need 32 pixels, the other networks fewer.
    side = 32 if name in ("vgg11", "vgg19") else 16
    network = build(name, (1, side, side), activation="linear", **options).double()
    x, y = torch.randn(2, 1, 1, side, side, dtype=torch.float64)
    with torch.no_grad():
        middle = (network(x) + network(y)) / 2
        torch.testing.assert_close(network((x + y) / 2), middle, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ACTIVATION_COUNTS)
def test_normalization(name):
    kind, word = (
        (nn.LayerNorm, "layer") if name == "vit" else ((nn.BatchNorm1d, nn.BatchNorm2d), "batch")
    )
    assert not layers_of(
        outline(name, normalization="none"), (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)
    )
    projections = 3 if name == "resnet18" else 0  # shortcuts have a norm and no activation
    expected = 2 * 9 + 1 if name == "vit" else ACTIVATION_COUNTS[name] + projections
    assert len(layers_of(outline(name, normalization=word), kind)) == expected


@pytest.mark.parametrize("name", ["logistic", *ACTIVATION_COUNTS])
def test_bias(name):
    weighted = (nn.Linear, nn.Conv2d)
    plain = {} if name == "logistic" else {"normalization": "none"}
    assert all(layer.bias is not None for layer in layers_of(outline(name, **plain), weighted))
    assert all(layer.bias is None for layer in layers_of(outline(name, bias=False), weighted))


@pytest.mark.parametrize("name", [name for name in ACTIVATION_COUNTS if name != "vit"])
def test_no_bias_in_front_of_a_batch_norm(name):
    layers = layers_of(outline(name, normalization="batch"), (nn.Linear, nn.Conv2d))
    assert [layer.bias is not None for layer in layers] == [False] * (len(layers) - 1) + [True]


def test_batch_norm_of_convolutions_leaves_the_classifier_alone():
    network = outline("vgg11", normalization="convolutions")
    assert len(layers_of(network, nn.BatchNorm2d)) == 8
    assert not layers_of(network, nn.BatchNorm1d)
    assert all(layer.bias is None for layer in layers_of(network, nn.Conv2d))
    assert all(layer.bias is not None for layer in layers_of(network, nn.Linear))


def test_dropout_is_in_front_of_every_hidden_linear_layer_while_training_only():
    network = build("vgg11", classifier=[32, 16], dropout=0.5)
    kinds = [type(module) for module in network][-7:]
    hidden = [nn.Dropout, nn.Linear, nn.ReLU]
    assert kinds == [*hidden, *hidden, nn.Linear]
    # The same networks are drawn, and they measure the same.
    plain = build("vgg11", classifier=[32, 16])
    assert not layers_of(plain, nn.Dropout)
    pairs = zip(plain.parameters(), network.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    x = torch.randn(2, 1, 32, 32)
    with torch.no_grad():
        assert torch.equal(network(x), plain(x))
        torch.manual_seed(0)
        assert not torch.equal(network.train()(x), plain(x))


@pytest.mark.parametrize("name", ["lenet", "vgg11", "vgg19"])
@pytest.mark.parametrize(("pooling", "kind"), [("max", nn.MaxPool2d), ("average", nn.AvgPool2d)])
def test_kind_of_pooling(name, pooling, kind):
    network = outline(name, pooling=pooling)
    assert (
        len(layers_of(network, kind))
        == len(layers_of(network, (nn.MaxPool2d, nn.AvgPool2d)))
        == (2 if name == "lenet" else 5)
    )


def test_without_pooling_feature_maps_keep_their_size():
    def inputs_of_first_linear(name, **options):
        network = outline(name, pooling="none", **options)
        assert not layers_of(network, (nn.MaxPool2d, nn.AvgPool2d))
        return layers_of(network, nn.Linear)[0].in_features

    assert inputs_of_first_linear("lenet") == 16 * 24 * 24
    assert inputs_of_first_linear("vgg11") == 512 * 32 * 32
    assert inputs_of_first_linear("vgg19", width=8) == 64 * 32 * 32
    assert inputs_of_first_linear("resnet18") == 512 * 4 * 4
    assert inputs_of_first_linear("resnet20") == 64 * 8 * 8
    assert inputs_of_first_linear("densenet121") == 1024


@pytest.mark.parametrize("shape", [(1, 32, 32), (1, 13, 21)])
def test_resnet_without_pooling_knows_the_size_of_its_last_maps(shape):
    with torch.no_grad():
        assert build("resnet20", shape, pooling="none")(torch.randn(2, *shape)).shape == (2, 1)


def test_padded_shortcut_keeps_even_positions_and_adds_zeros():
    x = torch.randn(2, 4, 5, 7)
    y = PaddedShortcut(2, 4)(x)
    assert y.shape == (2, 8, 3, 4)
    torch.testing.assert_close(y[:, 2:6], x[:, :, ::2, ::2])
    assert not y[:, :2].any()
    assert not y[:, 6:].any()


# ---- drawing


def check_std(layer, std):
    """The sample's standard deviation lies within 4.5 of its standard errors; a bias is zero."""
    count = layer.weight.numel()
    assert abs(layer.weight.std().item() / std - 1) < 4.5 / math.sqrt(2 * count)
    assert layer.bias is None or not layer.bias.any()


@pytest.mark.parametrize("name", ["logistic", *ACTIVATION_COUNTS])
def test_gaussian_weights_have_the_standard_deviation_asked_for(name):
    options = {"width": 16} if name == "vgg19" else {}
    network = build(name, initialization="gaussian", weight_std=0.3, **options)
    for layer in layers_of(network, (nn.Linear, nn.Conv2d)):
        check_std(layer, 0.3)


def test_own_rules_of_initialization():
    vgg11 = build("vgg11", outputs=10)
    for layer in layers_of(vgg11, nn.Conv2d):
        check_std(layer, math.sqrt(2 / (9 * layer.out_channels)))
    for layer in layers_of(vgg11, nn.Linear):
        assert layer.weight.abs().max().item() == pytest.approx(
            1 / math.sqrt(layer.in_features), rel=1e-3
        )
    for layer in layers_of(build("vgg19", width=16, outputs=10), (nn.Conv2d, nn.Linear)):
        check_std(layer, math.sqrt(2 / layer.weight[0].numel()))
    vit = build("vit", outputs=10)
    for layer in layers_of(vit, (nn.Conv2d, nn.Linear)):
        bound = math.sqrt(6 / (layer.weight[0].numel() + len(layer.weight)))
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=5e-3)
        assert not layer.bias.any()
    assert vit[0].positions.std().item() == pytest.approx(0.02, rel=0.1)
