"""Declarations of the image datasets: valid, cheap to import, and strict about their options."""

import penchant
import penchant_testing as testing
import pytest
from penchant_vision.declarations import Cifar10, Digits, Mnist

CHOSEN = {"per_class": 10, "random_labels": 0.5, "resize": 16, "standardize": True}

# Those that read files are loaded where their files are made, or are there.
test_conforms = testing.conformance(
    "penchant-vision",
    small={
        "digits": {**CHOSEN, "grayscale": True},
        "mnist": None,
        "fashion-mnist": None,
        "kmnist": None,
        "stacked-mnist": None,
        "cifar10": None,
        "cifar100": None,
        "cifar2": None,
        "celeba": None,
    },
)


def test_nothing_is_drawn_where_all_samples_are_taken():
    testing.check_dataset("digits", random=False, pad=9)


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
