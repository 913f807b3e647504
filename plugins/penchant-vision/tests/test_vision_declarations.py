"""Declarations of the image datasets: valid, cheap to import, and strict about their options."""

import subprocess
import sys

import penchant
import pytest
from penchant import testing
from penchant_vision.declarations import Cifar10, Digits, Mnist


@pytest.mark.parametrize("offer", testing.offers("penchant-vision"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


def test_dataset_conforms():
    testing.check_dataset(
        "digits", per_class=10, random_labels=0.5, grayscale=True, resize=16, standardize=True
    )
    testing.check_dataset("digits", pad=9)


def test_declarations_import_no_numerics():
    code = "import penchant_vision, sys; print([m for m in ('torch', 'numpy', 'sklearn', 'PIL', 'pooch', 'requests') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize(
    ("component", "values", "message"),
    [
        (Mnist, {"per_class": 0}, "per_class must be at least 1, found 0"),
        (Mnist, {"random_labels": 1.5}, "random_labels must be at most 1"),
        (Mnist, {"resize": 32, "pad": 32}, "mnist takes resize or pad, found both"),
        (Cifar10, {"grayscale": "yes"}, "grayscale must be true or false"),
        (Cifar10, {"download": 1}, "download must be true or false"),
        (Digits, {"root": "somewhere"}, "digits has no option 'root'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_read(component, values, message):
    with pytest.raises(penchant.Error, match=message):
        component.bind(values)
