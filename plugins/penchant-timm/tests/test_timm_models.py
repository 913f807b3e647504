"""Ten families of timm: built at small inputs, drawn, and differentiated twice."""

import copy

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.training import ensembles
from penchant_timm import fitting
from penchant_timm.architectures.timm import build as build_timm
from penchant_timm.declarations import Timm
from penchant_timm.importing import import_timm
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

timm = import_timm()

FAMILIES = {  # a small model of each family, and the smallest square image it takes; 16 where any size will do
    "test_resnet": 16,  # residual
    "densenet121": 29,  # dense
    "vgg11": 32,
    "test_convnext": 32,
    "test_vit": 16,
    "mixer_s32_224": 32,
    "test_efficientnet": 16,
    "mobilenetv3_small_050": 16,
    "regnetx_002": 16,
    "maxvit_rmlp_pico_rw_256": 32,
}
LIMITED = {  # a side that is too small, and the next one that is not
    "test_convnext": (31, 32),
    "mixer_s32_224": (31, 32),
}
UNLIMITED = ("resnet18", "efficientnet_b0", "mobilenetv3_small_050", "regnetx_002")
OTHERS = {"swin_tiny_patch4_window7_224": 32, "levit_128s": 64, "nest_tiny_jx": 32}
HEAVY = {"vgg11", "swin_tiny_patch4_window7_224", "nest_tiny_jx"}  # 129, 27 and 16 million weights


def marked(names):
    return [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in names]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(model, side=32, outputs=1, seed=0, channels=1, **options):
    component = Timm.bind({"model": model, **options})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_timm(component, (channels, side, side), outputs)


# ---- declaration


test_conforms = testing.conformance(
    "penchant-timm", small={"timm": {"shape": (1, 32, 32), "model": "test_resnet"}}
)


def test_a_model_must_be_named():
    with pytest.raises(penchant.Error, match="timm needs the option 'model'"):
        Timm.bind({})


@pytest.mark.parametrize("model", ["test_vit", "mobilenetv3_small_050"])
def test_architecture_conforms(model):
    with testing.strict_devices("penchant_timm"):
        testing.check_architecture("timm", shape=(1, 32, 32), model=model)


@pytest.mark.parametrize("model", ["test_resnet", "test_vit"])
def test_ensembles_equal_networks_built_one_by_one(model):
    bound = testing.architecture({"name": "timm", "model": model}, shape=(1, 32, 32))
    ensemble = ensembles.draw(bound, [0, 3])
    x = torch.randn(2, 1, 32, 32)
    found = ensemble.map(lambda network: network(x))
    torch.testing.assert_close(found[1], bound(3)(x))


# ---- families


@pytest.mark.parametrize("model", marked([*FAMILIES, *OTHERS]))
def test_family_is_built_drawn_and_differentiated_twice(model):
    side = {**FAMILIES, **OTHERS}[model]
    network = build(model, side, outputs=2)
    assert network.training
    check_drawing(model, side, network)
    check_derivatives(network.double().eval(), side)


def check_drawing(model, side, network):
    again, other = build(model, side, outputs=2), build(model, side, outputs=2, seed=1)
    assert all(
        torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True)
    )
    assert any(
        not torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True)
    )


def check_derivatives(network, side):
    """Input gradient, and derivative of the parameter gradient along an input direction, against central differences."""
    x, u = torch.randn(
        2, 1, 1, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    parameters = list(network.parameters())

    def slopes(point):
        """Output and parameter gradient."""
        output = network(point)[:, 0].sum()
        return [output.detach(), *torch.autograd.grad(output, parameters, materialize_grads=True)]

    point = x.clone().requires_grad_(True)
    (input_gradient,) = torch.autograd.grad(network(point)[:, 0].sum(), point, create_graph=True)
    assert input_gradient.any()
    along = (input_gradient * u).sum()
    exact = [along.detach(), *torch.autograd.grad(along, parameters, materialize_grads=True)]
    found = []
    for h in (
        1e-5,
        1e-6,
        1e-4,
    ):  # a step that crosses a kink of a piecewise linear network is no derivative: another one is
        quotients = [(a - b) / (2 * h) for a, b in zip(slopes(x + h * u), slopes(x - h * u))]
        found.append(
            (relative_error(quotients[:1], exact[:1]), relative_error(quotients[1:], exact[1:]))
        )
        if max(found[-1]) < 1e-5:
            return
    pytest.fail(f"relative errors of first and second derivative: {found}")


def relative_error(found, expected):
    wrong = sum((a - b).square().sum() for a, b in zip(found, expected, strict=True))
    return (wrong / sum(b.square().sum() for b in expected)).sqrt().item()


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("model", LIMITED)
def test_image_below_the_smallest_is_refused(model):
    side, fitting_side = LIMITED[model]
    assert FAMILIES[model] == side + 1
    check_told(model, side, fitting_side)


def test_sides_between_that_do_not_fit_are_passed_over():
    """A transformer takes multiples of its patch, 16: not 24."""
    check_told("test_vit", 20, 32)


def check_told(model, side, fitting_side):
    found = f"timm's {model} does not take images of 1 x {side} x {side}: .*"
    with pytest.raises(
        penchant.Error, match=f"{found}; it takes {fitting_side} x {fitting_side}, "
    ):
        build(model, side)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("model", ["densenet121", "maxvit_rmlp_pico_rw_256", "test_vit"])
def test_smallest_image_is_the_true_limit(model):
    """One try each: which size would do is looked for in the same way for all models."""
    side = FAMILIES[model] - 1
    assert fitting._refusal(timm, model, (1, side, side))


@pytest.mark.parametrize("model", UNLIMITED)
def test_one_pixel_is_enough(model):
    assert build(model, 1).eval()(torch.randn(2, 1, 1, 1)).shape == (2, 1)


def test_channels_outputs_and_size_are_adapted():
    network = build("test_vit", side=48, outputs=5, channels=2)
    assert network(torch.randn(3, 2, 48, 48)).shape == (3, 5)
    assert network.pos_embed.shape[1] == 1 + 9
    tagged = build("test_resnet.r160_in1k", side=40, outputs=7, channels=4)
    assert tagged(torch.randn(2, 4, 40, 40)).shape == (2, 7)


def test_images_need_not_be_square():
    component = Timm(model="vit_tiny_patch16_224")
    network = build_timm(component, (1, 16, 48), 2)
    assert network(torch.randn(2, 1, 16, 48)).shape == (2, 2)


# ---- safety


def test_fused_attention_is_off_on_the_network_only():
    network = build("test_vit")
    assert timm.layers.use_fused_attn()
    switches = [module for module in network.modules() if hasattr(module, "fused_attn")]
    assert [module.fused_attn for module in switches] == [False] * 6
    plain = timm.create_model("test_vit", img_size=32, in_chans=1, num_classes=1)
    assert plain.blocks[0].attn.fused_attn
    plain.load_state_dict(network.state_dict())
    x = torch.randn(2, 1, 32, 32)
    torch.testing.assert_close(network.eval()(x), plain.eval()(x))


@pytest.mark.parametrize("model", ["resnet10t", "mobilenetv3_small_050"])
def test_safe_network_computes_what_the_plain_one_does(model):
    network = build(model)
    plain = timm.create_model(model, in_chans=1, num_classes=1)
    assert any(getattr(module, "inplace", False) for module in plain.modules())
    assert not any(getattr(module, "inplace", False) for module in network.modules())
    plain.load_state_dict(network.state_dict())
    x = 10 * torch.randn(4, 1, 32, 32)
    torch.testing.assert_close(network.eval()(x), plain.eval()(x))


def test_hardsigmoid_is_replaced_by_an_equal_one():
    from penchant_numerics.device.safety import TwiceDifferentiableHardsigmoid

    assert not any(
        isinstance(module, nn.Hardsigmoid) for module in build("mobilenetv3_small_050").modules()
    )
    x = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    torch.testing.assert_close(TwiceDifferentiableHardsigmoid()(x), nn.functional.hardsigmoid(x))


def test_cached_attention_biases_follow_the_parameters():
    """LeViT keeps its attention biases while it evaluates; stacked and changed networks must not see old ones."""
    first, second = (build("levit_128s", 64, seed=seed).double().eval() for seed in (0, 1))
    for network, value in ((first, 0.5), (second, -0.5)):
        for name, parameter in network.named_parameters():
            if "attention_biases" in name:
                nn.init.normal_(parameter, value)
    x = torch.randn(2, 1, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        expected = torch.stack([copy.deepcopy(network)(x) for network in (first, second)])
        first(x)
        state = stack_module_state([first, second])
        found = vmap(
            lambda parameters, buffers: functional_call(first, (parameters, buffers), (x,))
        )(*state)
    torch.testing.assert_close(found, expected)


def test_batch_norm_of_one_image_has_right_gradients_where_maps_become_tokens():
    from penchant_timm.differentiability import make_twice_differentiable

    norm = nn.BatchNorm2d(3).double().eval()
    make_twice_differentiable(norm)
    nn.init.normal_(norm.weight)
    weights = torch.randn(16, 3, dtype=torch.float64)

    def by_formula(image):
        return image / (1 + norm.eps) ** 0.5 * norm.weight[:, None, None]

    def loss(function, images):
        return (function(images).flatten(2).transpose(1, 2).tanh() * weights).sum()

    def gradients(function, images):
        images = images.clone().requires_grad_(True)
        return torch.autograd.grad(loss(function, images), [images, norm.weight])

    images = torch.randn(5, 1, 3, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(gradients(norm, images[0]), gradients(by_formula, images[0]))
    stacked = vmap(torch.func.grad(lambda image: loss(norm, image)))(images)
    torch.testing.assert_close(stacked[:, 0], gradients(by_formula, images[:, 0])[0])


def test_zero_head_is_drawn_unless_the_original_is_wanted():
    assert build("mixer_s32_224").head.weight.any()
    assert not build("mixer_s32_224", head="original").head.weight.any()


def test_drawing_leaves_other_heads_alone():
    drawn, original = build("resnet10t"), build("resnet10t", head="original")
    assert all(
        torch.equal(a, b) for a, b in zip(drawn.parameters(), original.parameters(), strict=True)
    )


# ---- mistakes


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("resnet81", "timm has no model 'resnet81'; did you mean 'resnet18'"),
        ("resnet8.tag", "timm has no model 'resnet8.tag'; did you mean 'resnet"),
        ("qqqqqq", r"timm has no model 'qqqqqq'; timm.list_models\(\) names all \d+"),
    ],
)
def test_unknown_model_names_close_ones(model, message):
    with pytest.raises(penchant.Error, match=message):
        build(model)


def test_shapes_that_are_no_images_are_refused():
    component = Timm(model="resnet18")
    with pytest.raises(
        penchant.Error,
        match="timm's models need images .channels x height x width., found the shape 1024",
    ):
        build_timm(component, (1024,), 1)


# ---- further arguments


def reached(network, side):
    """The share of inputs whose gradient is not exactly zero."""
    x = torch.randn(1, 1, side, side, generator=torch.Generator().manual_seed(0))
    point = x.requires_grad_(True)
    (gradient,) = torch.autograd.grad(network.eval()(point)[:, 0].sum(), point)
    return (gradient != 0).float().mean().item()


def test_residual_branches_start_at_zero_unless_an_argument_says_otherwise():
    """Only the shortcuts of a fresh ResNet reach the output: strided, they skip most pixels."""
    shares = []
    for arguments in ((), ("zero_init_last=false",)):
        torch.manual_seed(0)
        options = Timm(model="resnet18", arguments=arguments)
        network = build_timm(options, (1, 32, 32), 1)
        shares.append(reached(network, 32))
        zeros = [each for each in network.modules() if getattr(each, "weight", None) is not None]
        constant = [not each.weight.any() for each in zeros]
        assert any(constant) == (not arguments)
    assert shares[0] < 0.05 and shares[1] > 0.9


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["zero_init_last"], "must be name=value, such as zero_init_last=false, found 'zero_init"),
        (["num_classes=3"], "must not hold 'num_classes', which is set from the data"),
        (["zero_init=false"], "cannot be made .*unexpected keyword argument 'zero_init'"),
    ],
)
def test_arguments_that_timm_cannot_be_given_are_refused(arguments, message):
    options = Timm(model="test_resnet", arguments=arguments)
    with pytest.raises(penchant.Error, match=message):
        build_timm(options, (1, 32, 32), 1)


def test_a_model_without_weights_is_told():
    # Small ones first: resnet50_mlp has no weights, either.
    names = [*timm.list_models("test_*"), *timm.list_models("resnet*")]
    without = next(name for name in names if not timm.models.is_model_pretrained(name))
    told = f"timm's {without} cannot be made with published weights: RuntimeError: No pretrained"
    with pytest.raises(penchant.Error, match=told):
        build(without, pretrained=True)


def test_weights_out_of_reach_are_told_with_the_cure(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("no route to host\nand more")

    build("resnet18")
    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(penchant.Error) as caught:
        build("resnet18", pretrained=True)
    text = str(caught.value)
    assert "timm/resnet18.a1_in1k is neither in the cache" in text
    assert "HF_HOME" in text and "HF_HUB_OFFLINE=1" in text
    assert text.endswith("(OSError: no route to host)")


def test_fitting_leaves_no_trace_in_what_the_caller_records():
    """Whether a model fits is tried while networks are drawn; drawing must not see it."""
    fitting.check_fit.cache_clear()
    bound = testing.architecture({"name": "timm", "model": "test_resnet"}, shape=(1, 32, 32))
    first = ensembles.draw(bound, [0, 3])
    again = ensembles.draw(bound, [0, 3])
    assert first.sampler == again.sampler == "replayed"
    before = torch.random.get_rng_state()
    fitting.check_fit.cache_clear()
    fitting.check_fit("test_vit", (1, 32, 32))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_model_that_cannot_be_tried_without_numbers_is_left_to_the_kernel(monkeypatch):
    fitting.check_fit.cache_clear()
    monkeypatch.setattr(fitting, "_refusal", lambda *_: "it reads a number")
    fitting.check_fit("resnet10t", (1, 32, 32))
    fitting.check_fit.cache_clear()
