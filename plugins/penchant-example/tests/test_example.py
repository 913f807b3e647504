import numpy as np
import penchant_testing as testing
import pytest

SMALL = {"architecture": "perceptron", "dataset": "two-blobs", "networks": 70}

test_conforms = testing.conformance(
    "penchant-example",
    small={
        "output-spread": SMALL,
        "perceptron": {"shape": (4,), "width": 3},
        "standard-deviation": {
            "architecture": "perceptron",
            "shape": (4,),
            "call": {"values": np.arange(8.0)},
        },
    },
    without_null={"output-spread": {"spread": "a standard deviation has no value by chance"}},
)


def test_the_spread_is_the_standard_deviation_of_the_means(tmp_path):
    result = testing.check_probe("output-spread", tmp_path, **SMALL)
    expected = result.arrays["means"].std(ddof=1)
    assert result.quantities["spread"].value == pytest.approx(expected, rel=1e-5)
