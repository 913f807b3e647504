"""The linearly separable family against its law: exact along v, N(0, sigma^2) across it."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_numerics.inputs import fourier
from penchant_synthetic.datasets.linearly_separable import load
from penchant_synthetic.declarations import LinearlySeparable
from scipy import stats

HOST = {"device": "cpu", "dtype": torch.float64}


def draw(seed=0, **options):
    return as_data(
        load(
            LinearlySeparable.bind({"train": 2000, "test": 2000, **options}),
            torch.Generator(device="cpu").manual_seed(seed),
        )
    )


def flat(samples):
    return samples.inputs.flatten(1).double()


def normal_quantile(comparisons):
    """The two-sided 1 % point, corrected for the number of comparisons."""
    return stats.norm.isf(0.01 / (2 * comparisons))


@pytest.mark.parametrize(("margin", "distance"), [("paper", 0.7), ("code", 0.35)])
def test_projection_on_the_direction_is_exactly_the_margin(margin, distance):
    v = torch.linspace(-1, 2, 48, **HOST)
    v /= v.norm()
    data = draw(direction=v.numpy(), input_shape=(3, 4, 4), epsilon=0.7, sigma=3.0, margin=margin)
    for samples in (data.train, data.test):
        signs = 2.0 * samples.labels - 1
        torch.testing.assert_close(flat(samples) @ v, distance * signs.double(), atol=1e-6, rtol=0)
    assert data.conventions["margin"].startswith(margin)
    assert (
        data.shape == (3, 4, 4) and data.classes == 2 and data.train.inputs.dtype == torch.float32
    )


def test_noise_has_the_covariance_of_the_law():
    count, sigma, points = 20000, 3.0, 12
    v = torch.linspace(-1, 2, points, **HOST)
    v /= v.norm()
    data = draw(direction=v.numpy(), input_shape=(points,), sigma=sigma, train=count, test=2)
    noise = flat(data.train) - (flat(data.train) @ v)[:, None] * v
    expected = sigma**2 * (torch.eye(points, **HOST) - torch.outer(v, v))
    # the variance of w_i w_j is C_ii C_jj + C_ij^2
    error = ((expected.diagonal()[:, None] * expected.diagonal() + expected**2) / count).sqrt()
    z = (noise.T @ noise / count - expected) / error
    assert z.abs().max() < normal_quantile(points * (points + 1) // 2)
    z = noise.mean(0) / (expected.diagonal() / count).sqrt()
    assert z.abs().max() < normal_quantile(points)


def test_noise_is_normal_and_independent_of_the_label():
    data = draw(basis="canonical", index=0, input_shape=(6,), sigma=2.0, train=20000, test=2)
    across = flat(data.train)[:, 1:] / 2.0
    worst = min(stats.kstest(column.numpy(), "norm").pvalue for column in across.T)
    assert worst > 0.01 / across.shape[1]
    signs = 2.0 * data.train.labels.double() - 1
    z = (signs[:, None] * across).mean(0) * math.sqrt(len(across))
    assert z.abs().max() < normal_quantile(across.shape[1])


def test_without_noise_there_are_two_points():
    data = draw(input_shape=(1, 4, 4), sigma=0.0, epsilon=2.0, train=10, test=10)
    assert torch.equal(
        data.train.inputs.abs(), torch.full((10, 1, 4, 4), 0.5, device="cpu")
    )  # 2 / sqrt(16)


def test_classes_are_exactly_balanced_in_both_parts():
    data = draw(input_shape=(8,), train=1000, test=500)
    assert data.train.labels.bincount().tolist() == [500, 500]
    assert data.test.labels.bincount().tolist() == [250, 250]
    assert data.train.labels.dtype == torch.int64
    assert data.train.labels[:100].tolist() != [0, 1] * 50


def test_the_seed_decides_everything():
    one, two, other = (
        draw(seed=3, input_shape=(8,)),
        draw(seed=3, input_shape=(8,)),
        draw(seed=4, input_shape=(8,)),
    )
    assert torch.equal(one.train.inputs, two.train.inputs) and torch.equal(
        one.test.inputs, two.test.inputs
    )
    assert not torch.equal(one.train.inputs, other.train.inputs)
    assert not torch.equal(one.train.inputs, one.test.inputs)


@pytest.mark.parametrize("width", [(5,), (1, 6, 7), (3, 32, 32)])
def test_more_samples_extend_fewer(width):
    few, many = (
        draw(input_shape=width, train=100, test=60),
        draw(input_shape=width, train=200, test=90),
    )
    assert torch.equal(few.train.inputs, many.train.inputs[:100]) and torch.equal(
        few.train.labels, many.train.labels[:100]
    )
    assert torch.equal(few.test.inputs, many.test.inputs[:60])
    assert torch.equal(draw(input_shape=width, train=2, test=60).test.inputs, few.test.inputs)


def test_directions_share_their_labels_and_noise():
    one, two = (
        draw(basis="canonical", index=0, input_shape=(9,)),
        draw(basis="canonical", index=1, input_shape=(9,)),
    )
    assert torch.equal(one.train.labels, two.train.labels)
    torch.testing.assert_close(one.train.inputs[:, 2:], two.train.inputs[:, 2:])


def found_direction(data):
    """Without noise, every sample of class 1 is epsilon v."""
    return flat(data.train)[data.train.labels == 1][0]


@pytest.mark.parametrize(
    ("basis", "family"), [("dft-cosine", fourier.cosine_family), ("dft-sine", fourier.sine_family)]
)
@pytest.mark.parametrize("size", [(7,), (4, 5), (1, 4, 5)])
def test_fourier_directions_are_those_of_the_family(basis, family, size):
    waves = family(size[-2:], **HOST)
    for index in (0, len(waves.vectors) - 1):
        data = draw(basis=basis, index=index, input_shape=size, sigma=0.0, train=2, test=2)
        torch.testing.assert_close(found_direction(data), waves.vectors[index], atol=1e-7, rtol=0)
        assert str(waves.frequencies[index].tolist()) in data.conventions["direction"]


def test_fourier_direction_is_in_its_channel():
    data = draw(
        basis="dft-sine", index=1, channel=2, input_shape=(3, 4, 4), sigma=0.0, train=2, test=2
    )
    found = found_direction(data).reshape(3, 16)
    torch.testing.assert_close(
        found[2], fourier.sine_family((4, 4), **HOST).vectors[1], atol=1e-7, rtol=0
    )
    assert not found[:2].any()


def test_random_directions_are_an_orthonormal_basis_of_the_seed():
    data = [
        draw(basis="random", index=index, input_shape=(6,), sigma=0.0, train=2, test=2)
        for index in range(6)
    ]
    vectors = torch.stack([found_direction(each) for each in data])
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(6, **HOST), atol=1e-6, rtol=0)
    other = found_direction(
        draw(seed=1, basis="random", index=0, input_shape=(6,), sigma=0.0, train=2, test=2)
    )
    assert not torch.allclose(other, vectors[0])


def test_random_directions_are_isotropic():
    draws = 400
    first = [
        found_direction(
            draw(seed=s, basis="random", index=1, input_shape=(4,), sigma=0.0, train=2, test=2)
        )
        for s in range(draws)
    ]
    second_moment = torch.stack(first).T @ torch.stack(first) / draws
    # on the sphere in D dimensions E v_i^4 = 3 / (D (D + 2)), E v_i^2 v_j^2 = 1 / (D (D + 2))
    error = torch.where(torch.eye(4, **HOST).bool(), 3 / 24 - 1 / 16, 1 / 24).sqrt() / math.sqrt(
        draws
    )
    assert ((second_moment - torch.eye(4, **HOST) / 4) / error).abs().max() < normal_quantile(10)


def test_given_directions_are_normalised_and_of_any_shape():
    data = draw(direction=np.full((2, 2), 3.0), input_shape=(1, 2, 2), sigma=0.0, train=2, test=2)
    torch.testing.assert_close(found_direction(data), torch.full((4,), 0.5, **HOST))
    assert data.conventions["direction"] == "given, normalised from length 6"
    assert draw(direction=[0.0, 1.0], input_shape=(2,)).conventions["direction"] == "given"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"direction": np.ones(5), "input_shape": (4,)},
            r"direction must have 4 values, as input_shape is \[4\], found 5",
        ),
        ({"direction": np.zeros(4), "input_shape": (4,)}, "direction must not be zero"),
        (
            {"basis": "dft-cosine", "index": 514},
            r"index must be below 514, the vectors of dft-cosine at input_shape \[1, 32, 32\], found 514",
        ),
        ({"basis": "dft-sine", "index": 510}, "index must be below 510"),
        ({"basis": "canonical", "index": 8, "input_shape": (8,)}, "index must be below 8"),
        ({"basis": "dft-sine", "input_shape": (2, 2)}, "index must be below 0"),
        ({"channel": 1, "input_shape": (1, 4, 4)}, "channel must be below 1"),
        (
            {"basis": "random", "channel": 1, "input_shape": (2, 4, 4)},
            "channel is for Fourier bases",
        ),
    ],
)
def test_directions_that_do_not_fit_are_refused(options, message):
    with pytest.raises(penchant.Error, match=message):
        draw(**options)


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    draw(input_shape=(8,), basis="random", index=2)
    assert torch.equal(before, torch.random.get_rng_state())
