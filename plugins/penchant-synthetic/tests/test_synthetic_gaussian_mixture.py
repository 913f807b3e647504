"""The mixture against its means, its covariance and the accuracy of its Bayes classifier."""

import numpy as np
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_synthetic.datasets.gaussian_mixture import load
from penchant_synthetic.declarations import GaussianMixture
from scipy import integrate, stats


def draw(seed=0, **options):
    return as_data(
        load(GaussianMixture.bind(options), torch.Generator(device="cpu").manual_seed(seed))
    )


def normal_quantile(comparisons):
    """The two-sided 1 % point, corrected for the number of comparisons."""
    return stats.norm.isf(0.01 / (2 * comparisons))


def test_classes_have_their_means_and_unit_covariance():
    classes, dimension, separation, count = 4, 6, 2.5, 5000
    data = draw(
        classes=classes,
        inputs=dimension,
        separation=separation,
        train=classes * count,
        test=classes,
    )
    means = separation * torch.eye(classes, dimension, device="cpu", dtype=torch.float64)
    centred = data.train.inputs.double() - means[data.train.labels]
    z = torch.stack([centred[data.train.labels == c].mean(0) for c in range(classes)]) * count**0.5
    assert z.abs().max() < normal_quantile(classes * dimension)
    identity = torch.eye(dimension, device="cpu", dtype=torch.float64)
    z = (centred.T @ centred / len(centred) - identity) / ((1 + identity) / len(centred)).sqrt()
    assert z.abs().max() < normal_quantile(dimension * (dimension + 1) // 2)


@pytest.mark.parametrize(("classes", "separation"), [(2, 1.0), (5, 2.0), (10, 0.0)])
def test_bayes_accuracy_is_that_of_the_closed_form(classes, separation):
    count = 10000 * classes
    data = draw(
        classes=classes, inputs=classes + 3, separation=separation, train=classes, test=count
    )
    exact, _ = integrate.quad(
        lambda z: stats.norm.pdf(z) * stats.norm.cdf(z + separation) ** (classes - 1), -9, 9
    )
    found = (data.test.inputs[:, :classes].argmax(1) == data.test.labels).double().mean().item()
    assert abs(found - exact) / np.sqrt(exact * (1 - exact) / count) < normal_quantile(3)


def test_classes_are_balanced_in_every_block():
    data = draw(classes=5, inputs=5, train=100, test=50)
    assert data.classes == 5 and data.shape == (5,) and data.train.inputs.dtype == torch.float32
    blocks = data.train.labels.reshape(20, 5)
    assert torch.equal(blocks.sort(dim=1).values, torch.arange(5, device="cpu").expand(20, 5))
    assert len({tuple(block) for block in blocks.tolist()}) > 1


def test_more_samples_extend_fewer_and_the_seed_decides():
    few, many = draw(train=100), draw(train=200)
    assert torch.equal(few.train.inputs, many.train.inputs[:100]) and torch.equal(
        few.train.labels, many.train.labels[:100]
    )
    assert torch.equal(few.test.inputs, many.test.inputs)
    assert not torch.equal(few.train.inputs, draw(train=100, seed=1).train.inputs)
