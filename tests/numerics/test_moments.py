"""Moments: streamed equals stacked, nulls follow their law."""

import math

import pytest
import torch
from penchant_numerics.inputs import (
    GroupedMoment,
    SecondMoment,
    directions_of,
    effective_rank,
    isotropic_spectra,
)
from penchant_numerics.linear_algebra import descending_eigh


def rows(count=100, size=7, seed=0):
    return (
        torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        + 0.5
    )


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_streaming_equals_the_matrix_of_all_rows(chunk):
    g = rows()
    moment = SecondMoment(7, device="cpu")
    for some in g.split(chunk):
        moment.add(some)
    torch.testing.assert_close(moment.matrix(), g.T @ g / 100, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(
        moment.matrix(centred=True), torch.cov(g.T, correction=0), rtol=1e-12, atol=1e-13
    )
    torch.testing.assert_close(moment.norms(), g.square().sum(1))


def test_merging_shards_adds():
    g = rows()
    whole, merged = SecondMoment(7, device="cpu"), SecondMoment(7, device="cpu")
    whole.add(g)
    for chunk in (g[:30], g[30:]):
        shard = SecondMoment(7, device="cpu")
        shard.add(chunk)
        merged.merge({name: array.numpy() for name, array in shard.arrays().items()})
    torch.testing.assert_close(merged.matrix(), whole.matrix(), rtol=1e-13, atol=1e-13)
    assert merged.count == 100


def test_directions_are_the_singular_vectors_of_the_rows():
    g = rows(20, 7)
    groups = GroupedMoment(7, device="cpu")
    for chunk in g.split(3):
        groups.add(chunk)
    found = directions_of(groups)
    _, singular, right = torch.linalg.svd(g, full_matrices=False)
    torch.testing.assert_close(found.eigenvalues, singular.square() / 20)
    torch.testing.assert_close(
        (found.vectors @ right.T).abs(), torch.eye(7, dtype=torch.float64), rtol=0, atol=1e-8
    )
    assert found.trace == pytest.approx(float(g.square().sum(1).mean()))
    assert found.trace_stderr == pytest.approx(float(g.square().sum(1).std() / math.sqrt(20)))


def test_fewer_networks_than_inputs_give_as_many_directions():
    groups = GroupedMoment(7, device="cpu")
    groups.add(rows(3, 7))
    assert directions_of(groups).vectors.shape == (3, 7)
    assert directions_of(groups, centred=True).vectors.shape == (2, 7)


def test_jackknife_leaves_each_group_out():
    g = rows(40, 5)
    groups = GroupedMoment(5, device="cpu", groups=4)
    for chunk in g.split(10):
        groups.add(chunk)
    found = directions_of(groups)
    others = g[torch.arange(40) % 4 != 0]
    torch.testing.assert_close(
        found.jackknife[0], torch.linalg.eigvalsh(others.T @ others / 30).flip(0)
    )
    torch.testing.assert_close(found.matrix, g.T @ g / 40)
    assert [group.count for group in groups.groups] == [10] * 4


def test_the_jackknife_tells_the_spread_over_repetitions():
    """The standard error of the largest eigenvalue against its spread over 300 independent ensembles."""
    generator, largest, errors = torch.Generator().manual_seed(0), [], []
    for _ in range(300):
        groups = GroupedMoment(3, device="cpu")
        groups.add(
            torch.randn(160, 3, generator=generator, dtype=torch.float64)
            * torch.tensor([3.0, 1.0, 1.0], dtype=torch.float64)
        )
        found = directions_of(groups)
        left = found.jackknife[:, 0]
        largest.append(float(found.eigenvalues[0]))
        errors.append(float(7 / 8 * (left - left.mean()).square().sum()) ** 0.5)
    assert sum(errors) / 300 == pytest.approx(float(torch.tensor(largest).std()), rel=0.15)


def test_effective_rank_is_between_one_and_the_rank():
    assert effective_rank(torch.tensor([1.0, 0, 0])) == pytest.approx(1)
    assert effective_rank(torch.ones(6)) == pytest.approx(6, rel=1e-6)
    assert 1 < effective_rank(torch.tensor([3.0, 1.0, -0.1])) < 2


def test_eigenvectors_have_definite_signs_and_order():
    values, vectors = descending_eigh(rows(50, 4).T @ rows(50, 4))
    assert (values.diff() <= 0).all()
    assert (vectors.gather(1, vectors.abs().argmax(1, keepdim=True)) > 0).all()


def test_the_null_of_equal_norms_is_marchenko_pastur():
    count, size = 4000, 200
    spectra = isotropic_spectra(
        torch.full((count,), float(size), dtype=torch.float64),
        size,
        generator=torch.Generator().manual_seed(0),
    )
    ratio = math.sqrt(size / count)
    assert spectra[:, 0].mean() == pytest.approx((1 + ratio) ** 2, rel=0.03)
    assert spectra[:, -1].mean() == pytest.approx((1 - ratio) ** 2, rel=0.03)


def test_the_null_widens_where_norms_vary():
    even = torch.full((500,), 1.0, dtype=torch.float64)
    uneven = torch.cat(
        [torch.full((450,), 0.1, dtype=torch.float64), torch.full((50,), 9.1, dtype=torch.float64)]
    )
    one, other = (
        isotropic_spectra(norms, 50, generator=torch.Generator().manual_seed(0))
        for norms in (even, uneven)
    )
    torch.testing.assert_close(one.sum(1), other.sum(1))
    assert other[:, 0].min() > 1.5 * one[:, 0].max()


def test_fewer_networks_than_inputs_use_the_gram_matrix():
    spectra = isotropic_spectra(
        torch.ones(20, dtype=torch.float64), 300, generator=torch.Generator().manual_seed(0)
    )
    assert spectra.shape == (4, 20)
    torch.testing.assert_close(spectra.sum(1), torch.ones(4, dtype=torch.float64))
