"""Waves and peaks against their Fourier transform, and curves against their geometry in any input."""

import math

import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_numerics.inputs import fourier
from penchant_synthetic.datasets import flower, peak, sinusoids
from penchant_synthetic.declarations import Flower, Peak, Sinusoids
from scipy import stats

LOADERS = {Sinusoids: sinusoids.load, Flower: flower.load, Peak: peak.load}


def draw(component, seed=0, **options):
    return as_data(
        LOADERS[component](component.bind(options), torch.Generator(device="cpu").manual_seed(seed))
    )


def spectrum(values):
    """Amplitudes at every frequency 0..N/2 of values on a grid."""
    k = torch.arange(len(values) // 2 + 1, device="cpu")
    return fourier.amplitudes(values.double(), k[:, None])


@pytest.mark.parametrize("component", [Sinusoids, Flower])
@pytest.mark.parametrize("amplitudes", [None, (0.1, 0.4, 1.0)])
def test_spectrum_is_the_amplitudes_and_nothing_else(component, amplitudes):
    frequencies = (3, 8, 21)
    found = spectrum(
        draw(component, frequencies=frequencies, amplitudes=amplitudes, train=64).train.labels
    )
    expected = torch.zeros(33, device="cpu", dtype=torch.float64)
    expected[list(frequencies)] = torch.tensor(
        amplitudes or (1.0, 1.0, 1.0), device="cpu", dtype=torch.float64
    )
    assert (found - expected).abs().max() < 1e-6


def test_test_samples_lie_half_way_on_the_same_wave():
    data = draw(Sinusoids, frequencies=(3, 8), train=64)
    both = torch.stack(
        [data.train.labels, data.test.labels], dim=1
    ).flatten()  # the same wave, sampled twice as finely
    assert spectrum(both)[[3, 8]].sub(1).abs().max() < 1e-6 and spectrum(both).sum() < 2 + 1e-4
    torch.testing.assert_close(
        data.test.inputs - data.train.inputs, torch.full((64, 1), 1 / 128, device="cpu")
    )
    assert data.train.inputs[0] == 0 and data.train.inputs[-1] == 63 / 64


def test_phases_are_uniform_and_differ_between_draws():
    turns = []
    for number in range(300):
        values = draw(Sinusoids, frequencies=(2, 5), train=16, draw=number).train.labels.double()
        turns += torch.fft.rfft(values)[[2, 5]].angle().div(2 * math.pi).remainder(1).tolist()
    assert stats.kstest(turns, "uniform").pvalue > 0.01
    assert abs(stats.pearsonr(turns[::2], turns[1::2]).statistic) < stats.norm.isf(
        0.005
    ) / math.sqrt(300)
    first, more = (
        draw(Sinusoids, frequencies=(2, 5), train=16),
        draw(Sinusoids, frequencies=(2, 5, 7), train=16),
    )
    angles = [torch.fft.rfft(each.train.labels.double())[[2, 5]].angle() for each in (first, more)]
    torch.testing.assert_close(*angles, atol=1e-6, rtol=0)


def test_flower_has_its_radius_and_wave_at_every_angle():
    data = draw(Flower, petals=4, frequencies=(7,), train=100)
    z = torch.atan2(data.train.inputs[:, 1], data.train.inputs[:, 0]).div(2 * math.pi).remainder(1)
    torch.testing.assert_close(z, torch.arange(100, device="cpu") / 100, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        data.train.inputs.norm(dim=1), 1 + torch.sin(2 * math.pi * 4 * z) / 2, atol=1e-5, rtol=0
    )
    circle = draw(Flower, petals=0, frequencies=(7,), train=100)
    assert circle.train.inputs.norm(dim=1).sub(1).abs().max() < 1e-6
    assert torch.equal(circle.train.labels, data.train.labels)  # petals change where, not what


def test_binary_flower_is_the_sign_of_its_wave():
    wave, classes = (
        draw(Flower, frequencies=(7,), train=100),
        draw(Flower, frequencies=(7,), train=100, binary=True),
    )
    assert (
        torch.equal(classes.train.labels, (wave.train.labels > 0).long()) and classes.classes == 2
    )
    high = draw(Flower, frequencies=(7,), train=100, binary=True, threshold=0.5)
    assert torch.equal(high.test.labels, (wave.test.labels > 0.5).long())
    assert high.conventions["labels"] == "1 where the wave is above 0.5"


def test_peak_has_the_same_amplitude_everywhere():
    labels = draw(Peak, train=200).train.labels
    assert labels[100] == 1 and labels.sum() == 1
    two_sided = torch.fft.fft(labels.double()).abs() / 200
    torch.testing.assert_close(
        two_sided, torch.full((200,), 0.005, device="cpu", dtype=torch.float64), atol=1e-15, rtol=0
    )
    assert not draw(Peak).test.labels.any()


@pytest.mark.parametrize("embedding", ["random", "coordinates"])
@pytest.mark.parametrize("component", [Sinusoids, Flower, Peak])
def test_embedding_keeps_distances(component, embedding):
    plain = draw(component, train=64, **({} if component is Peak else {"frequencies": (3,)}))
    placed = draw(
        component,
        train=64,
        input_shape=(2, 3, 5),
        embedding=embedding,
        **({} if component is Peak else {"frequencies": (3,)}),
    )
    assert placed.shape == (2, 3, 5) and torch.equal(placed.train.labels, plain.train.labels)
    flat = placed.train.inputs.flatten(1)
    torch.testing.assert_close(
        torch.cdist(flat, flat),
        torch.cdist(plain.train.inputs, plain.train.inputs),
        atol=1e-3,
        rtol=0,
    )
    used = (flat.abs().amax(0) > 0).sum()
    assert used == (30 if embedding == "random" else plain.train.inputs.shape[1])


@pytest.mark.parametrize(
    ("component", "options", "message"),
    [
        (
            Sinusoids,
            {"frequencies": (100,)},
            "frequencies must be below half the points, 100, found 100",
        ),
        (Sinusoids, {"frequencies": ()}, "frequencies must name at least one"),
        (Sinusoids, {"amplitudes": (1.0,)}, "amplitudes must be one per frequency, 10; found 1"),
        (Sinusoids, {"frequencies": (0,)}, "frequencies must be at least 1"),
        (Flower, {"input_shape": (1,)}, "input_shape must have at least 2 input values"),
        (Peak, {"position": 1.0}, "position must be below 1"),
    ],
)
def test_what_does_not_fit_is_refused(component, options, message):
    with pytest.raises(penchant.Error, match=message):
        draw(component, **options)
