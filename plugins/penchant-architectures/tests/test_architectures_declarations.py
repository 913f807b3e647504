"""Declarations: light to import, valid, and refused when options contradict each other."""

import numpy as np
import penchant
import penchant_architectures
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.training import ensembles

COMPONENTS = {each.name: each for each in penchant_architectures.penchant_architectures()}

SMALL = {
    "vgg11": {"width": 4, "classifier": [16]},
    "vgg19": {"width": 8},
    "resnet18": {"width": 4},
    "vit": {"layers": 2},
}


def shape_of(name):
    if name == "linear-pooling":
        return (128,)
    return (1, 8, 8) if name in ("resnet18", "resnet20", "densenet121") else (1, 32, 32)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_all_architectures_are_offered():
    expected = "logistic mlp lenet vgg11 vgg19 resnet18 resnet20 densenet121 vit linear-pooling linear-conv"
    assert sorted(COMPONENTS) == sorted(expected.split())


test_conforms = testing.conformance(
    "penchant-architectures",
    small={name: {"shape": shape_of(name), **SMALL.get(name, {})} for name in COMPONENTS},
)


@pytest.mark.parametrize("name", COMPONENTS)
def test_summary_is_a_sentence(name):
    assert COMPONENTS[name].summary().endswith(".")


# What conformance draws in full is drawn here with fewer blocks.
SMALLER = {"densenet121": ("densenet121.BLOCKS", (2, 3, 2, 2))}
DRAWN = [
    *((name, "default") for name in COMPONENTS),
    # One function draws Gaussian weights of all of them: each family is shown by its smallest.
    *((name, "gaussian") for name in ("logistic", "mlp", "lenet", "vgg19", "resnet20", "vit")),
]


@pytest.mark.parametrize(("name", "initialization"), DRAWN)
def test_ensembles_are_drawn_the_quick_way(name, initialization, monkeypatch):
    """Drawing replays the operations that fill parameters; an initialisation it cannot replay would be far slower."""
    if name in SMALLER:
        constant, value = SMALLER[name]
        monkeypatch.setattr(f"penchant_architectures.architectures.{constant}", value)
    options = {
        **SMALL.get(name, {}),
        **({} if initialization == "default" else {"initialization": initialization}),
    }
    bound = testing.architecture({"name": name, **options}, shape=shape_of(name))
    ensemble = ensembles.draw(bound, [0, 3])
    assert ensemble.sampler == "replayed"
    network = dict(bound(3).named_parameters())
    assert all(torch.equal(ensemble.state[key][1], value) for key, value in network.items())


def test_weight_std_without_gaussian_weights_is_refused():
    with pytest.raises(
        penchant.Error,
        match="weight_std belongs to initialization = gaussian, found 0.5 with default",
    ):
        COMPONENTS["mlp"].bind({"weight_std": 0.5})
    assert (
        COMPONENTS["mlp"].bind({"weight_std": 0.5, "initialization": "gaussian"}).weight_std == 0.5
    )


def test_prefilter_and_response_together_are_refused():
    with pytest.raises(penchant.Error, match="a prefilter or a response, found both"):
        COMPONENTS["linear-pooling"].bind({"prefilter": "average", "response": np.ones(8)})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lenet", {"pooling": "mean"}, "pooling must be one of max, average, none, found 'mean'"),
        ("lenet", {"activations": "relu"}, "did you mean 'activation'"),
        ("mlp", {"widths": [500, 0]}, "widths must be at least 1, found 0"),
        ("mlp", {"widths": [10.5]}, "widths must be a list, each a whole number"),
        ("vit", {"normalization": "batch"}, "normalization must be one of layer, none"),
        ("vit", {"heads": 5}, "found width 192 with 5 heads"),
        ("vgg11", {"dropout": 1.0}, "dropout must be below 1"),
    ],
)
def test_wrong_options_say_what_is_allowed(name, options, message):
    with pytest.raises(penchant.Error, match=message):
        COMPONENTS[name].bind(options)
