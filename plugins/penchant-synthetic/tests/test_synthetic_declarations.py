"""Declarations of the synthetic datasets: valid, cheap to import, and strict about their options."""

import penchant
import penchant_testing as testing
import pytest
from penchant_synthetic.declarations import BASES, Gaussian, GaussianMixture, LinearlySeparable

test_conforms = testing.conformance(
    "penchant-synthetic",
    small={
        "linearly-separable": {
            "direction": [1.0, 2.0],
            "input_shape": (2,),
            "train": 100,
            "test": 100,
        },
        "gaussian": {"input_shape": (4,), "train": 100, "test": 100},
        "gaussian-mixture": {"classes": 3, "inputs": 5, "train": 90, "test": 30},
        "sinusoids": {"input_shape": (3, 4)},
        "flower": {"petals": 3, "binary": True, "input_shape": (7,)},
        "peak": {"input_shape": (1, 4, 4)},
    },
)


@pytest.mark.parametrize("basis", BASES)
def test_linearly_separable_conforms(basis):
    testing.check_dataset(
        "linearly-separable", basis=basis, index=2, input_shape=(1, 4, 4), train=100, test=100
    )


def test_other_forms_conform():
    testing.check_dataset(
        "gaussian", covariance=[[2.0, 1.0], [1.0, 2.0]], input_shape=(2,), train=100, test=100
    )
    testing.check_dataset("peak", random=False, embedding="coordinates", input_shape=(1, 4, 4))


@pytest.mark.parametrize(
    ("component", "values", "message"),
    [
        (LinearlySeparable, {"train": 101}, "train must be a multiple of 2"),
        (LinearlySeparable, {"basis": "dft"}, "basis must be one of dft-cosine"),
        (LinearlySeparable, {"margin": "half"}, "margin must be one of paper, code"),
        (LinearlySeparable, {"epsilon": 0.0}, "epsilon must be above 0"),
        (LinearlySeparable, {"sigma": -1.0}, "sigma must be at least 0"),
        (
            LinearlySeparable,
            {"input_shape": (2, 2, 2, 2)},
            "input_shape must have one, two or three numbers",
        ),
        (LinearlySeparable, {"input_shape": (1, 1)}, "at least 2 input values"),
        (LinearlySeparable, {"direction": "v.npy", "index": 3}, "takes a direction, or basis"),
        (LinearlySeparable, {"direction": [1.0, float("nan")]}, "direction must be finite"),
        (LinearlySeparable, {"shape": (8,)}, "has no option 'shape'"),
        (Gaussian, {"scale": 0}, "scale must be above 0"),
        (Gaussian, {"test": 7}, "test must be a multiple of 2"),
        (Gaussian, {"labels": "true"}, "labels must be one of random"),
        (GaussianMixture, {"classes": 1}, "classes must be at least 2"),
        (
            GaussianMixture,
            {"classes": 10, "inputs": 9},
            "inputs must be at least the number of classes",
        ),
        (GaussianMixture, {"classes": 3, "train": 100}, "train must be a multiple of 3"),
    ],
)
def test_bad_options_are_refused_before_anything_is_drawn(component, values, message):
    with pytest.raises(penchant.Error, match=message):
        component.bind(values)
