"""Centring, alignment and eigenfunctions of kernels, against features and brute force."""

import itertools

import pytest
import torch
from penchant_numerics.inputs import effective_rank
from penchant_numerics.layers import centre, eigenfunctions, kernel_alignment, tangent_kernel
from penchant_numerics.layers.kernel_alignment import CENTRINGS, cka
from penchant_numerics.linear_algebra import trace_ratios
from torch import nn

SAMPLES, OUTPUTS = 9, 3


def normal(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def features(samples=SAMPLES, outputs=OUTPUTS, width=20, seed=0):
    return normal(samples, outputs, width, seed=seed) + 1


def kernel(left, right=None):
    right = left if right is None else right
    return left.flatten(0, 1) @ right.flatten(0, 1).T


def centred(phi, around, centring):
    mean = {"outputs": around.mean(0), "all": around.mean((0, 1)), "none": 0}[centring]
    return phi - mean


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("centring", CENTRINGS)
def test_centring_is_that_of_features(centring):
    phi, new = features(), features(5, seed=1)
    K = kernel(phi)
    inside = centred(phi, phi, centring)
    close(centre(K, outputs=OUTPUTS, centring=centring), kernel(inside))

    # new points are centred around the mean of the old ones
    found = centre(kernel(new, phi), outputs=OUTPUTS, centring=centring, reference=K)
    close(found, kernel(centred(new, phi, centring), inside))


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("centring", CENTRINGS)
def test_alignment_with_itself_is_one_and_neither_turns_nor_scale_matter(centring, unbiased):
    options = {"outputs": OUTPUTS, "centring": centring, "unbiased": unbiased}
    phi, other = features(), features(seed=1)
    turn = torch.linalg.qr(normal(20, 20, seed=2)).Q
    K, L = kernel(phi), kernel(other)
    assert cka(K, K, **options) == pytest.approx(1)
    assert cka(K, kernel(3 * phi @ turn), **options) == pytest.approx(1)
    assert cka(L, K, **options) == pytest.approx(cka(K, L, **options))
    if centring == "outputs":
        shifted = phi + normal(1, OUTPUTS, 20, seed=3)
        assert cka(K, kernel(shifted), **options) == pytest.approx(1)


def test_alignment_of_centred_kernels_is_their_cosine():
    phi, other = features(), features(seed=1)
    left = kernel(centred(phi, phi, "outputs"))
    right = kernel(centred(other, other, "outputs"))
    expected = float((left * right).sum() / left.norm() / right.norm())
    assert cka(kernel(phi), kernel(other), outputs=OUTPUTS) == pytest.approx(expected)


def test_unbiased_inner_products_are_means_over_distinct_samples():
    samples, outputs = 5, 2
    K, L = normal(samples, outputs, samples, outputs), normal(5, 2, 5, 2, seed=1)
    expected = 0.0
    for i, j, q, r in itertools.permutations(range(samples), 4):
        k, own = K[i, :, j], L[i, :, j]
        expected += float((k * (own - L[i, :, q] - L[q, :, j] + L[q, :, r])).sum())
    count = 5 * 4 * 3 * 2
    assert kernel_alignment._over_distinct(K, L) == pytest.approx(expected / count)


def test_independent_features_align_by_nothing_on_average_only_if_unbiased():
    plain, unbiased = [], []
    for seed in range(60):
        K, L = (kernel(features(8, 2, 5, seed=2 * seed + k)) for k in (0, 1))
        plain.append(cka(K, L, outputs=2))
        unbiased.append(cka(K, L, outputs=2, unbiased=True))
    means, errors = [], []
    for values in (torch.tensor(plain), torch.tensor(unbiased)):
        means.append(float(values.mean()))
        errors.append(float(values.std()) / len(values) ** 0.5)
    assert means[0] > 10 * errors[0]
    assert abs(means[1]) < 4 * errors[1]


def test_too_few_samples_and_unknown_centrings_are_refused():
    K = kernel(features(3))
    with pytest.raises(ValueError, match="needs 4 samples, found 3"):
        cka(K, K, outputs=OUTPUTS, unbiased=True)
    with pytest.raises(ValueError, match="found 'rows'"):
        centre(K, outputs=OUTPUTS, centring="rows")


def test_eigenfunctions_at_the_points_of_a_kernel_are_its_eigenvectors():
    K = centre(kernel(features()), outputs=OUTPUTS)
    values, vectors = torch.linalg.eigh(K)
    leading = values[-8:], vectors[:, -8:]
    close(eigenfunctions(K, *leading), leading[1])
    with pytest.raises(ValueError, match="of 27 that are zero to rounding"):
        eigenfunctions(K, values, vectors)


def test_eigenfunctions_of_a_network_are_its_feature_map_along_singular_vectors():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    x, new = normal(7, 2), normal(4, 2, seed=1)
    K, K_new = tangent_kernel(network, x), tangent_kernel(network, new, other=x)
    values, vectors = torch.linalg.eigh(K)
    found = eigenfunctions(K_new, values[-3:], vectors[:, -3:])

    # K = J J^T: with the singular vectors v_j = J^T u_j / s_j, u_j(x) = J(x) v_j / s_j
    phi, phi_new = jacobian(network, x), jacobian(network, new)
    along = phi.T @ vectors[:, -3:] / values[-3:]
    close(found, phi_new @ along)


def jacobian(network, x):
    names = [name for name, _ in network.named_parameters()]
    values = tuple(value.detach() for value in network.parameters())

    def outputs(*given):
        return torch.func.functional_call(network, dict(zip(names, given)), (x,))

    columns = torch.func.jacrev(outputs, argnums=tuple(range(len(values))))(*values)
    return torch.cat([each.flatten(2) for each in columns], dim=2).flatten(0, 1)


def test_effective_rank_and_trace_ratios_say_how_many_directions_matter():
    values = torch.linalg.eigvalsh(kernel(features()))
    rank = int((values > 1e-9 * values[-1]).sum())
    assert 1 <= effective_rank(values.clamp(min=0)) <= rank
    assert effective_rank(torch.ones(7, device="cpu")) == pytest.approx(7)
    ratios = trace_ratios(values)
    assert float(ratios[0]) == pytest.approx(float(values[-1] / values.sum()))
    assert float(ratios[-1]) == pytest.approx(1)
    assert bool((ratios.diff() >= -1e-12).all())
