"""The noise of drawn labels is taken off distances and alignments."""

import math

import pytest
import torch
from penchant_curvature.curvature_proxies.layer_comparison import _distance


class Matrix:
    """What is asked of a curvature, of a matrix."""

    def __init__(self, *diagonal):
        self.matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))

    @property
    def squared_norm(self):
        return float(self.matrix.square().sum())

    def frobenius_distance(self, other, *, relative=False):
        away = float((self.matrix - other.matrix).norm())
        return away / math.sqrt(self.squared_norm) if relative else away

    def alignment(self, other):
        inner = float((self.matrix * other.matrix).sum())
        return inner / math.sqrt(self.squared_norm * other.squared_norm)


def test_the_noise_of_two_draws_is_taken_off():
    # G = 3 e1 with noise of norm 1 in a direction of its own in each draw; the proxy is 1 e1
    first, again, proxy = Matrix(3, 1, 0), Matrix(3, 0, 1), Matrix(1, 0, 0)
    error, alignment = _distance(first, proxy, again)
    assert error == pytest.approx(2 / 3) and alignment == pytest.approx(1)
    # as they are, the noise is in both
    error, alignment = _distance(first, proxy, None)
    assert error == pytest.approx(math.sqrt(5 / 10)) and alignment < 0.95


def test_a_proxy_nearer_than_the_noise_has_a_negative_error_by_how_much():
    error, _ = _distance(Matrix(3, 0.1, 0), Matrix(3, 0.1, 0), Matrix(3, 0, 0.1))
    assert error == pytest.approx(-0.1 / 3)


def test_draws_that_are_noise_only_are_missing():
    error, alignment = _distance(Matrix(1, 0), Matrix(1, 0), Matrix(0, 2))
    assert math.isnan(error) and math.isnan(alignment)
