"""Inner products of a layer's gradients: every route against the gradients themselves."""

import dataclasses

import pytest
import torch
from penchant_numerics.layers import Factored
from penchant_numerics.layers.layer_features import Rows
from penchant_numerics.layers.layer_grams import (
    LayerSize,
    add_gram,
    mirror,
    put_features,
    room_for,
    smaller_form,
)


def normal(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def layer(samples, *, positions, width=7, units=5, outputs=3, weight=True, bias=True, seed=0):
    return Factored(
        normal(samples, positions, width, seed=seed),
        normal(samples, outputs, positions, units, seed=seed + 1),
        weight=weight,
        bias=bias,
    )


def gradients(feature):
    """All gradients (n C, parameters), by definition."""
    gradients = []
    if feature.weight:
        gradients.append(torch.einsum("ncto,ntd->ncod", feature.errors, feature.inputs).flatten(2))
    if feature.bias:
        gradients.append(feature.errors.sum(2))
    return torch.cat(gradients, dim=2).flatten(0, 1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("positions", "route"), [(1, "one position"), (2, "positions"), (30, "gradients")]
)
def test_every_route_gives_the_inner_products_of_gradients(positions, route, bias):
    left = layer(6, positions=positions, bias=bias)
    right = layer(4, positions=positions, bias=bias, seed=5)
    assert LayerSize.of(left).by_positions == (route != "gradients")
    for other in (left, right):
        expected = gradients(left) @ gradients(other).T
        total = torch.ones_like(expected)  # it is added to
        add_gram(total, left, other, chunk_bytes=1000)
        if other is left:
            mirror(total, 3)
        torch.testing.assert_close(total, expected + 1)


def test_biases_alone_need_no_inputs():
    left = layer(6, positions=2, weight=False)
    total = torch.zeros(18, 18, dtype=torch.float64)
    add_gram(total, left, left)
    mirror(total, 3)
    torch.testing.assert_close(total, gradients(left) @ gradients(left).T)


@pytest.mark.parametrize(
    "feature", [Rows(normal(13, 3, 15)), layer(13, positions=1)], ids=["rows", "factors"]
)
def test_half_of_a_batch_with_itself_is_computed_and_mirrored(feature):
    copy = dataclasses.replace(feature)
    totals = [torch.zeros(39, 39, dtype=torch.float64) for _ in range(2)]
    add_gram(totals[0], feature, feature)
    assert float(totals[0][36:, :36].abs().max()) == 0
    mirror(totals[0], 3)
    add_gram(totals[1], feature, copy)  # the whole product
    torch.testing.assert_close(*totals)


def test_the_smaller_form_is_taken_where_gradients_are_formed_anyway():
    few, many = layer(6, positions=1), layer(6, positions=30)
    assert smaller_form(few) is few
    small = smaller_form(many)
    assert isinstance(small, Rows)
    assert small.bytes < many.bytes
    assert small.bytes == 8 * 6 * LayerSize.of(many).stored
    torch.testing.assert_close(small.rows.flatten(0, 1), gradients(many))


@pytest.mark.parametrize("make", [lambda each: each, smaller_form])
def test_features_of_parts_are_collected(make):
    whole = make(layer(6, positions=30))
    features = []
    for own in (slice(0, 4), slice(4, 6)):
        feature = layer(6, positions=30)
        features.append(make(Factored(feature.inputs[own], feature.errors[own], True, True)))
    collected = room_for(features[0], 6)
    put_features(collected, 0, features[0])
    put_features(collected, 4, features[1])
    for name in ("rows",) if isinstance(whole, Rows) else ("inputs", "errors"):
        torch.testing.assert_close(getattr(collected, name), getattr(whole, name))
