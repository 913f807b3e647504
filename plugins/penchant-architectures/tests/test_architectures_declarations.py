"""Declarations: light to import, valid, and refused when options contradict each other."""

import subprocess
import sys

import numpy as np
import penchant
import penchant_architectures
import pytest
import torch
from penchant import testing
from penchant.execution.networks import BoundArchitecture
from penchant_numerics import ensembles

COMPONENTS = {each.name: each for each in penchant_architectures.penchant_architectures()}

SMALL = {"vgg11": {"classifier": [16]}, "vgg19": {"width": 8}, "vit": {"layers": 2}}


def shape_of(name):
    return (128,) if name == "linear-pooling" else (1, 32, 32)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_all_architectures_are_offered():
    expected = "logistic mlp lenet vgg11 vgg19 resnet18 resnet20 densenet121 vit linear-pooling linear-conv"
    assert sorted(COMPONENTS) == sorted(expected.split())


@pytest.mark.parametrize("offer", testing.offers("penchant-architectures"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)
    assert offer.component.summary().endswith(".")


@pytest.mark.parametrize("name", COMPONENTS)
def test_architecture_conforms(name):
    with testing.strict_devices():
        testing.check_architecture(name, shape=shape_of(name), **SMALL.get(name, {}))


DRAWN = [
    *((name, "default") for name in COMPONENTS),
    *((name, "gaussian") for name in COMPONENTS if not name.startswith("linear-")),
]


@pytest.mark.parametrize(("name", "initialization"), DRAWN)
def test_ensembles_are_drawn_the_quick_way(name, initialization):
    """Drawing replays the operations that fill parameters; an initialisation it cannot replay would be far slower."""
    options = {
        **SMALL.get(name, {}),
        **({} if initialization == "default" else {"initialization": initialization}),
    }
    bound = BoundArchitecture(COMPONENTS[name].bind(options), name, shape_of(name), 1, seed=0)
    ensemble = ensembles.draw(bound, [0, 3])
    assert ensemble.drawer == "replayed"
    network = dict(bound(3).named_parameters())
    assert all(torch.equal(ensemble.state[key][1], value) for key, value in network.items())


def test_declarations_do_not_import_torch():
    code = "import penchant_architectures, sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    ],
)
def test_wrong_options_say_what_is_allowed(name, options, message):
    with pytest.raises(penchant.Error, match=message):
        COMPONENTS[name].bind(options)
