"""Frobenius cosines from samples: unbiased, with errors that are their spread, and nulls."""

import math

import numpy as np
import pytest
import torch
from penchant_numerics.inputs import correlation
from penchant_numerics.statistics import random_rotation


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def gaussian_groups(scales, *, groups, vectors, stream):
    """Second moments (groups, D, D) of independent Gaussian vectors with these standard deviations."""
    rows = torch.randn(
        groups, vectors, len(scales), generator=stream, device="cpu", dtype=torch.float64
    )
    rows = rows * scales
    return rows.mT @ rows / vectors


SCALES = torch.tensor([2.0, 1.5, 1.0, 0.5], device="cpu", dtype=torch.float64)
OTHERS = torch.tensor([1.0, 1.0, 2.0, 2.0], device="cpu", dtype=torch.float64)


def true_corr():
    a, b = SCALES.square(), OTHERS.square()
    return float((a @ b) / (a.norm() * b.norm()))


def test_the_unbiased_square_is_the_mean_over_pairs_of_different_parts():
    groups = gaussian_groups(SCALES, groups=3, vectors=5, stream=generator())
    products = [(groups[a] * groups[b]).sum() for a in range(3) for b in range(3) if a != b]
    expected = torch.stack(products).mean()
    torch.testing.assert_close(correlation.unbiased_square(groups), expected)


def test_the_norm_of_few_samples_is_unbiased_where_the_plain_one_is_not():
    stream = generator()
    draws = [gaussian_groups(SCALES, groups=4, vectors=2, stream=stream) for _ in range(2000)]
    squares = torch.stack([correlation.unbiased_square(each) for each in draws])
    plain = torch.stack([each.mean(0).square().sum() for each in draws])
    truth = float(SCALES.pow(4).sum())
    error = float(squares.std()) / math.sqrt(2000)
    assert abs(float(squares.mean()) - truth) < 4 * error
    assert float(plain.mean()) - truth > 20 * error


def test_corr_of_equal_matrices_is_one_and_of_means_is_their_cosine():
    groups = torch.diag(SCALES).expand(3, 4, 4)
    others = torch.diag(OTHERS).expand(3, 4, 4)
    assert float(correlation.corr_of_means(groups, groups)) == pytest.approx(1)
    expected = float(SCALES @ OTHERS / (SCALES.norm() * OTHERS.norm()))
    assert float(correlation.corr_of_means(groups, others)) == pytest.approx(expected)


@pytest.mark.parametrize("sampled", [True, False])
def test_the_error_of_corr_is_its_spread_over_repetitions(sampled):
    stream, found = generator(), []
    fixed = torch.diag(OTHERS.square())
    for _ in range(200):
        a = gaussian_groups(SCALES, groups=10, vectors=20, stream=stream)
        table = torch.einsum("iab,jab->ij", a, a)
        if sampled:
            b = gaussian_groups(OTHERS, groups=10, vectors=20, stream=stream)
            cross, second = (torch.einsum("iab,jab->ij", each, b) for each in (a, b))
            found.append(correlation.corr_of_sampled(cross, table, second))
        else:
            products = (a * fixed).sum((1, 2))
            square = float(fixed.square().sum())
            found.append(correlation.corr_with_fixed(products, table, square))
    values, errors = np.array(found).T
    assert abs(values.mean() - true_corr()) < 4 * values.std(ddof=1) / math.sqrt(200)
    assert 0.8 < errors.mean() / values.std(ddof=1) < 1.25


def test_a_rotated_corr_has_the_mean_and_spread_of_random_rotations():
    size = 5
    values = torch.randn(2, size, size, generator=generator(), device="cpu", dtype=torch.float64)
    a, b = values @ values.mT
    squares = [float(each.square().sum()) for each in (a, b)]

    def corr(rotated):
        return correlation.cosine(float((a * rotated).sum()), *squares)

    draws = generator(1)
    rotations = (random_rotation(size, generator=draws) for _ in range(4000))
    drawn = np.array([corr(turn @ b @ turn.T) for turn in rotations])
    found = correlation.rotated(float(a.trace()), float(b.trace()), *squares, size)
    assert found.null == pytest.approx(drawn.mean(), abs=4 * found.null_spread / math.sqrt(4000))
    assert found.null_spread == pytest.approx(drawn.std(), rel=0.05)
    groups = [each.expand(2, size, size) for each in (a, b)]
    assert float(correlation.rotated_corr_of_means(*groups)) == pytest.approx(found.null)


def test_rotating_both_changes_nothing():
    a = gaussian_groups(SCALES, groups=3, vectors=9, stream=generator())
    b = gaussian_groups(OTHERS, groups=3, vectors=9, stream=generator(1))
    turn = random_rotation(4, generator=generator(2))
    turned = [turn @ each @ turn.T for each in (a, b)]
    torch.testing.assert_close(correlation.corr_of_means(*turned), correlation.corr_of_means(a, b))


def test_too_little_signal_is_not_a_number():
    assert math.isnan(correlation.cosine(1.0, -1.0, 1.0))
    assert math.isnan(correlation.cosine(1.0, 1.0, -1.0))
    assert all(map(math.isnan, correlation.rotated(1.0, 1.0, -1.0, 1.0, 3)))
