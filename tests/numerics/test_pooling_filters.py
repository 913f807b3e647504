"""Prefilters of pooling against their definitions, in space and in frequency."""

import doctest
import math

import pytest
import torch
from penchant_numerics.data import shapes
from penchant_numerics.inputs import pooling_filters
from penchant_numerics.inputs.pooling_filters import PREFILTERS, response, taps


@pytest.mark.parametrize("module", [pooling_filters, shapes])
def test_examples_of_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("prefilter", PREFILTERS)
@pytest.mark.parametrize(("inputs", "stride"), [(16, 4), (15, 3), (12, 1), (7, 7)])
def test_the_response_is_the_size_of_the_spectrum(prefilter, inputs, stride):
    spectrum = torch.fft.fft(taps(prefilter, inputs=inputs, stride=stride)).abs()
    found = response(prefilter, inputs=inputs, stride=stride)
    torch.testing.assert_close(found, spectrum, atol=1e-12, rtol=0)


def test_the_average_has_the_dirichlet_kernel():
    inputs, stride = 16, 4
    for index, size in enumerate(response("average", inputs=inputs, stride=stride).tolist()):
        angle = math.pi * index / inputs
        kernel = abs(math.sin(stride * angle) / (stride * math.sin(angle))) if index else 1
        assert size == pytest.approx(kernel, abs=1e-12)


@pytest.mark.parametrize(("inputs", "stride"), [(16, 4), (15, 3), (12, 2)])
def test_what_the_low_pass_keeps_is_folded_on_nothing_else_it_keeps(inputs, stride):
    kept = response("low-pass", inputs=inputs, stride=stride)
    assert kept.reshape(stride, -1).sum(0).max() == 1
    assert kept.sum() == sum(min(k, inputs - k) / inputs < 1 / (2 * stride) for k in range(inputs))


def test_an_unknown_prefilter_is_refused():
    for function in (response, taps):
        with pytest.raises(ValueError, match="prefilter must be one of none, average, low-pass"):
            function("mean", inputs=4, stride=2)
