"""What estimators return: fields and old names."""

import dataclasses

import pytest
import torch
from penchant_numerics.linear_algebra import Dense
from penchant_numerics.roles import Directions, Information, LayerCurvature


def directions(**more):
    eye = torch.eye(2, device="cpu")
    return Directions(eye[0], eye, trace=1.0, trace_stderr=None, networks=3, **more)


def test_directions_cannot_be_changed():
    found = directions()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.networks = 4


def test_parts_are_kept_beside_the_whole_moment():
    groups = torch.ones(2, 2, 2, device="cpu")
    assert directions(groups=groups).groups is groups
    assert directions().groups is None


def test_a_plain_operator_is_not_yet_a_layer_curvature():
    class Curvature(Dense):
        by_class = False
        squared_norm = property(lambda self: self.inner(self))

        def inner(self, other):
            return float((self.dense() * other.dense()).sum())

        def alignment(self, other):
            return self.inner(other) / (self.squared_norm * other.squared_norm) ** 0.5

        def frobenius_distance(self, other, *, relative=False):
            return float((self.dense() - other.dense()).norm())

        def exact_spectrum(self):
            return torch.linalg.eigvalsh(self.matrix).flip(0)

        def eigenpairs(self, count, *, generator=None):
            raise NotImplementedError

    matrix = torch.eye(3, device="cpu")
    assert isinstance(Curvature(matrix), LayerCurvature)
    assert not isinstance(Dense(matrix), LayerCurvature)


def test_information_that_was_not_measured_is_none():
    found = Information(0.5, training=0.6, stderr=None)
    assert found.null is found.null_spread is found.null_stderr is None
    assert found.warnings == () and dict(found.conventions) == {}
