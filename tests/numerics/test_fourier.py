"""Real Fourier bases against torch.fft, orthonormality and completeness; spectra against closed forms."""

import math

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.inputs import fourier

CPU = {"device": "cpu", "dtype": torch.float64}
SHAPES = [
    (1,),
    (2,),
    (7,),
    (8,),
    (128,),
    (4, 4),
    (5, 5),
    (4, 6),
    (6, 5),
    (1, 8),
    (32, 32),
    (2, 3, 4),
]


def transform(vectors, shape):
    return torch.fft.fftn(vectors.reshape(-1, *shape), dim=tuple(range(1, len(shape) + 1)))


def real_basis(shape, **like):
    """An orthonormal basis of R^D: the cosines, then the sines."""
    families = (fourier.cosine_family, fourier.sine_family)
    return torch.cat([family(shape, **like).vectors for family in families])


def random_values(*shape):
    return torch.randn(*shape, generator=torch.Generator(device="cpu").manual_seed(0), **CPU)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_basis_is_orthonormal_and_complete(shape):
    vectors = real_basis(shape, **CPU)
    points = math.prod(shape)
    assert vectors.shape == (points, points)
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(points, **CPU), atol=1e-13, rtol=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_wave_has_only_its_own_bins(shape):
    for family, wanted in ((fourier.cosine_family, "real"), (fourier.sine_family, "imag")):
        waves = family(shape, **CPU)
        if not len(waves.vectors):
            continue
        spectrum = transform(waves.vectors, shape)
        expected = torch.zeros_like(spectrum)
        for row, k in enumerate(waves.frequencies.tolist()):
            here, there = (
                tuple(each % n for each, n in zip(k, shape)),
                tuple(-each % n for each, n in zip(k, shape)),
            )
            half = math.sqrt(math.prod(shape) * (1 if here == there else 2)) / (
                1 if here == there else 2
            )
            expected[(row, *here)] = half if wanted == "real" else -1j * half
            expected[(row, *there)] = half if wanted == "real" else 1j * half
        torch.testing.assert_close(spectrum, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_frequency_stands_for_itself_and_its_mirror_once(shape):
    cosines, sines = fourier.cosine_frequencies(shape), fourier.sine_frequencies(shape)
    bins = {tuple(each % n for each, n in zip(k, shape)) for k in cosines}
    bins |= {tuple(-each % n for each, n in zip(k, shape)) for k in cosines}
    assert len(bins) == math.prod(shape) == len(cosines) + len(sines)
    own = [k for k in cosines if all(2 * each % n == 0 for each, n in zip(k, shape))]
    assert set(cosines) - set(own) == set(sines)
    assert len(own) == 2 ** sum(n % 2 == 0 for n in shape)


def test_frequencies_come_slowest_first():
    assert fourier.cosine_frequencies((8,)) == [(0,), (1,), (2,), (3,), (4,)]
    norms = [sum(each**2 for each in k) for k in fourier.cosine_frequencies((32, 32))]
    assert norms == sorted(norms)
    assert fourier.cosine_frequencies((4, 8))[:3] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]  # two cycles in eight are one cycle in four
    assert all(
        -n / 2 < each <= n / 2
        for k in fourier.cosine_frequencies((6, 5))
        for each, n in zip(k, (6, 5))
    )


@pytest.mark.parametrize("shape", [(9,), (8,), (6, 5)], ids=str)
def test_single_waves_are_rows_of_their_family(shape):
    for single, family in (
        (fourier.cosine, fourier.cosine_family),
        (fourier.sine, fourier.sine_family),
    ):
        waves = family(shape, **CPU)
        for k, vector in zip(waves.frequencies.tolist(), waves.vectors):
            torch.testing.assert_close(single(k, shape, **CPU), vector, atol=1e-15, rtol=0)
            sign = 1 if single is fourier.cosine else -1
            torch.testing.assert_close(
                single([-each for each in k], shape, **CPU), sign * vector, atol=1e-14, rtol=0
            )
            torch.testing.assert_close(
                single([each + n for each, n in zip(k, shape)], shape, **CPU),
                vector,
                atol=1e-15,
                rtol=0,
            )


def test_sine_of_dc_and_nyquist_is_refused():
    for k in ((0, 0), (4, 0), (0, 3), (4, -3)):
        with pytest.raises(ValueError, match=r"has no sine"):
            fourier.sine(k, (8, 6), **CPU)
    with pytest.raises(ValueError, match="expected frequencies with 2 components"):
        fourier.cosine((1,), (8, 6), **CPU)


def test_a_frequency_with_too_few_components_is_the_one_that_is_named():
    with pytest.raises(ValueError, match=r"found \(3,\)$"):
        fourier._waves(torch.cos, [(1, 2), (3,)], (8, 6), **CPU)


def test_single_precision_is_as_good_as_its_rounding():
    exact = real_basis((64,), **CPU)
    single = real_basis((64,), device="cpu", dtype=torch.float32)
    assert single.dtype == torch.float32
    assert (single.double() - exact).abs().max() < 1e-7


def test_amplitudes_of_a_sum_of_sines_are_its_amplitudes():
    z = torch.arange(200, **CPU) / 200
    wanted = {k: 0.1 * k for k in range(5, 55, 5)}
    values = sum(a * torch.sin(2 * math.pi * k * z + k) for k, a in wanted.items())
    found = fourier.amplitudes(values, torch.arange(101, device="cpu")[:, None])
    expected = torch.tensor([wanted.get(k, 0.0) for k in range(101)], **CPU)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", [(7,), (8,), (4, 6), (5, 6)], ids=str)
def test_amplitudes_agree_with_the_basis_and_give_parseval(shape):
    values = random_values(3, *shape)
    cosines, sines = fourier.cosine_family(shape, **CPU), fourier.sine_family(shape, **CPU)
    power = (values.flatten(1) @ cosines.vectors.T) ** 2  # (functions, frequencies)
    with_sine = [cosines.frequencies.tolist().index(k) for k in sines.frequencies.tolist()]
    power[:, with_sine] += (values.flatten(1) @ sines.vectors.T) ** 2
    scale = torch.tensor(
        [2.0 if row in with_sine else 1.0 for row in range(len(cosines.vectors))], **CPU
    ) / math.prod(shape)
    found = fourier.amplitudes(values, cosines.frequencies)
    torch.testing.assert_close(found, (scale * power).sqrt())
    torch.testing.assert_close((found**2 / scale).sum(1), (values**2).flatten(1).sum(1))


def test_amplitudes_of_dc_and_nyquist_are_not_doubled():
    values = torch.tensor([3.0, 1.0, 3.0, 1.0], **CPU)  # 2 + cos(pi n)
    assert fourier.amplitudes(
        values, torch.tensor([[0], [1], [2], [-2]], device="cpu")
    ).tolist() == [2.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("shape", [(7,), (8,), (4, 6), (5, 6)], ids=str)
def test_layout_is_the_shifted_spectrum(shape):
    values = random_values(*shape)
    frequencies = fourier.cosine_family(shape, **CPU).frequencies
    filled, mirrored = fourier.layout(fourier.amplitudes(values, frequencies), frequencies, shape)
    magnitudes = torch.fft.fftshift(torch.fft.fftn(values)).abs() / math.prod(shape)
    own = torch.zeros(shape, device="cpu", dtype=torch.bool)
    for k in set(fourier.cosine_frequencies(shape)) - set(fourier.sine_frequencies(shape)):
        own[tuple((each + n // 2) % n for each, n in zip(k, shape))] = True
    torch.testing.assert_close(filled, torch.where(own, magnitudes, 2 * magnitudes))
    assert mirrored.sum() == math.prod(shape) - len(frequencies)
    assert not (mirrored & own).any()


def test_layout_marks_what_is_missing_and_prefers_what_was_given():
    waves = fourier.sine_family((4, 4), **CPU)
    filled, mirrored = fourier.layout(
        torch.ones(len(waves.vectors), **CPU), waves.frequencies, (4, 4)
    )
    assert (
        filled.isnan().sum() == 4
        and math.isnan(filled[2, 2])
        and not mirrored[filled.isnan()].any()
    )
    both = torch.tensor([[1], [-1]], device="cpu")
    filled, mirrored = fourier.layout(torch.tensor([5.0, 6.0], device="cpu"), both, (5,))
    assert filled[3] == 5 and filled[1] == 6 and not mirrored.any()
    with pytest.raises(ValueError, match=r"\(n, 1\) frequencies"):
        fourier.layout(torch.ones(2, device="cpu"), waves.frequencies, (5,))


@pytest.mark.parametrize("device", ["cpu", "meta", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_everything_stays_on_its_device(device, request):
    if device == "cuda":
        device = request.getfixturevalue("gpu")
    with testing.strict_devices():
        waves = fourier.cosine_family((4, 6), device=device, dtype=torch.float32)
        sines = fourier.sine_family((4, 6), device=device, dtype=torch.float32)
        found = fourier.amplitudes(waves.vectors.reshape(-1, 4, 6), waves.frequencies)
        filled, mirrored = fourier.layout(found[0], waves.frequencies, (4, 6))
    assert all(each.device.type == device for each in (*waves, *sines, found, filled, mirrored))
    assert found.dtype == filled.dtype == torch.float32
