"""Input gradients of one network at samples: a closed form, one by one, and their nulls."""

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import Samples
from penchant_numerics.inputs import directions_of_gradients, scrambled_phases, shuffled_pixels
from penchant_numerics.inputs.sample_input_gradients import sample_input_gradients
from torch import nn

G = torch.Generator().manual_seed(0)
SHAPE = (2, 6, 6)
X = torch.randn(96, *SHAPE, generator=G)
Y = torch.arange(96) % 3


def mlp(outputs):
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(72, 10), nn.Tanh(), nn.Linear(10, outputs))


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_gradients_equal_those_of_one_sample_after_another(outputs):
    network = mlp(outputs).double()
    samples = Samples(X.double(), Y)
    found = sample_input_gradients(network, samples, batch=7)

    def value(logits, number):
        if outputs == 3:
            return logits[Y[number]]
        return logits[0] if outputs == 1 else logits[1] - logits[0]

    for number in range(5):
        x = samples.inputs[number : number + 1].clone().requires_grad_()
        (expected,) = torch.autograd.grad(value(network(x)[0], number), x)
        torch.testing.assert_close(found[number], expected.flatten())
    # And by differences along a direction.
    direction = torch.randn(SHAPE, generator=G).double()
    with torch.no_grad():
        above, below = (network(samples.inputs[:1] + s * 1e-6 * direction)[0] for s in (1, -1))
    slope = value((above - below) / 2e-6, 0)
    assert float(found[0] @ direction.flatten()) == pytest.approx(float(slope), rel=1e-6)


def test_numbers_choose_no_output():
    with pytest.raises(ValueError, match="labels are not classes and select none of 3 outputs"):
        sample_input_gradients(mlp(3), Samples(X, X[:, 0, 0, 0]))


def test_shuffled_pixels_keep_lengths_and_spread_waves_evenly():
    rows = X.flatten(1).double() + 1
    found = shuffled_pixels(rows, SHAPE, G)
    torch.testing.assert_close(found.sort(1)[0], rows.sort(1)[0])
    # Zero frequency stays, all others have the same mean: for many shufflings of one row.
    one = rows[:1].expand(4000, -1)
    images = shuffled_pixels(one, SHAPE, G).reshape(-1, *SHAPE)
    energies = torch.fft.fftn(images, dim=(-2, -1), norm="ortho").abs().square().sum(1)
    mean, stderr = energies.mean(0), energies.std(0) / 4000**0.5
    constant = float(mean[0, 0])
    rest = (float(rows[0].square().sum()) - constant) / 35
    others = (mean - rest).flatten()[1:].abs() / stderr.flatten()[1:]
    assert float(others.max()) < 4.5
    assert float(stderr[0, 0]) < 1e-9


def test_scrambled_phases_keep_the_amplitude_of_every_wave():
    rows = X.flatten(1).double()
    found = scrambled_phases(rows, SHAPE, G)

    def amplitudes(of):
        return torch.fft.fftn(of.reshape(-1, *SHAPE), dim=(-2, -1)).abs()

    torch.testing.assert_close(amplitudes(found), amplitudes(rows))
    assert not torch.allclose(found, rows)


def wave(shape):
    """One long wave across the image."""
    channels, height, width = shape
    return torch.cos(2 * torch.pi * torch.arange(width) / width).expand(channels, height, width)


class Filter(nn.Module):
    """f(x) = w . x, with a wave for w: G is w w^T."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(wave((1, 8, 8)).clone())

    def forward(self, x):
        return (x * self.weight).sum((1, 2, 3))[:, None]


def test_the_geometry_of_a_filter_is_the_filter():
    inputs = torch.randn(64, 1, 8, 8, generator=G)
    found = penchant.measure(
        "average-geometry",
        architecture=Filter(),
        dataset=(inputs, inputs[:, 0, 0, :1]),
        samples=40,
        executor="serial",
    )
    w = wave((1, 8, 8)).flatten().numpy()
    np.testing.assert_allclose(found.arrays["geometry"], np.outer(w, w), atol=1e-6)
    assert found.quantities["trace"].value == pytest.approx(32)
    assert found.quantities["effective-rank"].value == pytest.approx(1, abs=1e-4)
    assert found.quantities["low-frequencies"].value == pytest.approx(1)
    shares = found.arrays["radial-shares"]
    assert shares[1] == pytest.approx(1)
    # Shuffled pixels have no long waves: 5 of the 63 that are not constant.
    low = found.quantities["low-frequencies"]
    assert low.null == pytest.approx(4 / 63, abs=0.05)
    assert low.over == "samples"
    assert low.value - low.null > 10 * low.null_spread


def test_nads_of_a_trained_network_are_eigenvectors_of_its_gradients():
    network = mlp(3)
    found = penchant.measure(
        "nad", architecture=network, dataset=((X, Y), (X, Y)), samples=96, executor="serial"
    )
    rows = sample_input_gradients(network, Samples(X, Y)).double()
    expected = torch.linalg.eigvalsh(rows.T @ rows / 96).flip(0)[:5]
    np.testing.assert_allclose(found.arrays["eigenvalues"][:5], expected, rtol=1e-4)
    assert found.quantities["trace"].over == "samples"
    assert found.conventions["output"] == "the logit of the sample's class"
    direct = directions_of_gradients(rows)
    assert found.quantities["trace"].value == pytest.approx(direct.trace, rel=1e-5)
    with pytest.raises(penchant.Error, match="taken at samples: give it a dataset"):
        penchant.measure("nad", architecture=mlp(1), shape=SHAPE)
    with pytest.raises(penchant.Error, match="NADs of fresh networks need no data"):
        penchant.measure("nad", architecture=lambda: mlp(1), dataset=(X, Y.float()[:, None]))


def test_errors_over_samples_are_the_spread_over_samples():
    """The stated error of the trace, beside the spread over sixty disjoint draws of samples."""
    network = mlp(1)
    inputs = torch.randn(60 * 50, *SHAPE, generator=G) * 3
    labels = torch.zeros(50, 1)
    values, errors = [], []
    for some in inputs.split(50):
        found = directions_of_gradients(sample_input_gradients(network, Samples(some, labels)))
        values.append(found.trace)
        errors.append(found.trace_stderr)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.35)


@pytest.mark.parametrize("probe", ["nad", "average-geometry"])
def test_all_samples_count_in_whatever_order_they_come(probe):
    """Of 47 samples, 7 beyond equal groups of the jackknife were dropped."""
    network = mlp(3)
    rows = sample_input_gradients(network, Samples(X[:47], Y[:47])).double()
    expected = torch.linalg.eigvalsh(rows.T @ rows / 47).flip(0)
    order = torch.randperm(47, generator=torch.Generator().manual_seed(3))
    for chosen in (torch.arange(47), order):
        samples = (X[chosen], Y[chosen])
        found = penchant.measure(
            probe, architecture=network, dataset=(samples, samples), executor="serial"
        )
        trace = found.quantities["trace"]
        assert trace.value == pytest.approx(float(rows.square().sum(1).mean()), rel=1e-5)
        assert trace.count == 47
        np.testing.assert_allclose(found.arrays["eigenvalues"][:5], expected[:5], rtol=1e-4)
        assert found.quantities["effective-rank"].value == pytest.approx(
            entropy_rank(expected), rel=1e-4
        )
        if probe == "average-geometry":
            isotropy = found.quantities["corr-isotropic"]
            assert isotropy.value == pytest.approx(corr_with_identity(rows), rel=1e-5)


def entropy_rank(eigenvalues):
    shares = eigenvalues[eigenvalues > 1e-12 * eigenvalues[0]] / eigenvalues.sum()
    return float(torch.exp(-(shares * shares.log()).sum()))


def corr_with_identity(rows):
    """By the definition: unbiased squared norms, the jackknife by leaving out each row."""

    def corr(some):
        n, size = some.shape
        moments = torch.einsum("na,nb->nab", some, some)
        squared = (moments.sum(0).square().sum() - moments.square().sum()) / (n * (n - 1))
        return float(some.square().sum(1).mean() / (size * squared).sqrt())

    without = [corr(torch.cat([rows[:i], rows[i + 1 :]])) for i in range(len(rows))]
    return len(rows) * corr(rows) - (len(rows) - 1) * np.mean(without)
