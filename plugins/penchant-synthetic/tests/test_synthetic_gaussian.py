"""Normal inputs against their covariance, and labels against independence."""

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_synthetic.datasets.gaussian import load
from penchant_synthetic.declarations import Gaussian
from scipy import stats


def draw(seed=0, **options):
    return as_data(
        load(
            Gaussian.bind({"train": 2000, "test": 2000, **options}),
            torch.Generator(device="cpu").manual_seed(seed),
        )
    )


def normal_quantile(comparisons):
    """The two-sided 1 % point, corrected for the number of comparisons."""
    return stats.norm.isf(0.01 / (2 * comparisons))


def wishart(points, rank, seed=0):
    factor = np.random.default_rng(seed).normal(size=(points, rank))
    return factor @ factor.T


@pytest.mark.parametrize(
    "covariance", [None, wishart(8, 8), wishart(8, 3)], ids=["identity", "full", "rank 3"]
)
def test_inputs_have_the_covariance_asked_for(covariance):
    count, scale = 20000, 0.3
    data = draw(covariance=covariance, input_shape=(2, 2, 2), scale=scale, train=count, test=2)
    x = data.train.inputs.flatten(1).double().numpy()
    expected = scale**2 * (np.eye(8) if covariance is None else covariance)
    error = np.sqrt((np.outer(expected.diagonal(), expected.diagonal()) + expected**2) / count)
    assert np.abs((x.T @ x / count - expected) / error).max() < normal_quantile(36)
    assert np.abs(x.mean(0) / np.sqrt(expected.diagonal() / count)).max() < normal_quantile(8)
    assert data.shape == (2, 2, 2) and data.classes == 2


def test_singular_covariance_leaves_its_null_space_empty():
    covariance = wishart(8, 3)
    _, vectors = np.linalg.eigh(covariance)
    x = draw(covariance=covariance, input_shape=(8,)).train.inputs.double().numpy()
    assert np.abs(x @ vectors[:, :5]).max() < 1e-5


def test_whitened_inputs_are_normal():
    covariance = wishart(5, 5, seed=1)
    x = draw(covariance=covariance, input_shape=(5,), train=20000).train.inputs.double().numpy()
    white = np.linalg.solve(np.linalg.cholesky(covariance), x.T)
    assert min(stats.kstest(row, "norm").pvalue for row in white) > 0.01 / 5


def test_labels_are_balanced_and_say_nothing():
    data = draw(input_shape=(16,), train=20000, test=1000)
    assert data.train.labels.bincount().tolist() == [
        10000,
        10000,
    ] and data.test.labels.bincount().tolist() == [500, 500]
    signs = 2.0 * data.train.labels - 1
    z = (signs[:, None] * data.train.inputs).mean(0) * len(signs) ** 0.5
    assert z.abs().max() < normal_quantile(16)
    first_of_pairs = data.train.labels[::2].double().mean()
    assert abs(first_of_pairs - 0.5) / (0.5 / 100) < normal_quantile(1)


def test_more_samples_extend_fewer_and_the_seed_decides():
    covariance = wishart(50, 50)
    few, many = (
        draw(covariance=covariance, input_shape=(50,), train=100),
        draw(covariance=covariance, input_shape=(50,), train=200),
    )
    assert torch.equal(few.train.inputs, many.train.inputs[:100])
    assert torch.equal(few.train.labels, many.train.labels[:100]) and torch.equal(
        few.test.inputs, many.test.inputs
    )
    assert torch.equal(draw(input_shape=(5,)).train.inputs, draw(input_shape=(5,)).train.inputs)
    assert not torch.equal(
        draw(input_shape=(5,)).train.inputs, draw(input_shape=(5,), seed=1).train.inputs
    )


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.eye(3), r"covariance must be 4 x 4, as input_shape is \[4\], found shape \[3, 3\]"),
        (np.ones(4), r"found shape \[4\]"),
        (np.zeros((4, 4)), "covariance must not be zero"),
        (np.triu(np.ones((4, 4))), "covariance must be symmetric, found entries that differ by 1"),
        (np.diag([1.0, 1.0, 1.0, -0.5]), "positive semi-definite, found the eigenvalue -0.5"),
    ],
)
def test_what_is_no_covariance_is_refused(covariance, message):
    with pytest.raises(penchant.Error, match=message):
        draw(covariance=covariance, input_shape=(4,))
