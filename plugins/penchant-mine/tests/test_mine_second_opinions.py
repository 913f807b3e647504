"""What one estimator misses another sees: the error covers it and a warning says so.

Exact values are closed forms, and the samples are ones that no benchmark has.
"""

import math

import numpy as np
import penchant_testing as testing
import pytest
import torch
from penchant_mine.shared.information.column_products import telling_columns
from penchant_mine.shared.information.cross_cumulants import cross_scores, skewness_score
from penchant_mine.shared.information.dependent_samples import copied_rows, inflation
from penchant_mine.shared.information.fine_structure import information_along_columns
from penchant_mine.shared.information.gaussian import far_from_normal
from penchant_mine.shared.information.known_information import correlated_gaussians, sign_plus_noise
from penchant_mine.shared.information.repeated_values import information_of_atoms, largest_atom
from scipy import signal

NEURAL = ("mine", "mine-f", "nwj", "info-nce", "smile")
ALL = ("ksg", "gaussian", "binned", *NEURAL)
SHORT = {
    "network": "statistics-perceptron:widths=[16]",
    "steps": 20,
    "batch": 64,
    "check_every": 10,
    "trainings": 2,
    "null_trainings": 0,
}
FEWER = {"info-nce": {"batch": 32, "shifts": 3, "marginals": 15}}
SAMPLES = 800


def estimate(name, x, z, **options):
    short = {**SHORT, **FEWER.get(name, {})} if name in NEURAL else {"shuffles": 0}
    chosen = {"mutual-information": [{"name": name, **short, **options}]}
    context = testing.context("mutual-information", estimators=chosen, seed=0)
    x, z = (torch.from_numpy(np.asarray(each, dtype=np.float64)) for each in (x, z))
    return context.estimators("mutual-information")[0](x, z)


def says(found, text):
    return any(text in each for each in found.warnings)


def covers(found, truth):
    return abs(found.value - truth) <= 2 * found.stderr


def series(samples, memory, rng, count):
    noise = math.sqrt(1 - memory**2) * rng.standard_normal((count, samples))
    return signal.lfilter([1.0], [1.0, -memory], noise)


@pytest.mark.parametrize("name", ["mine", "info-nce"])
def test_fine_structure_that_networks_miss_is_found_by_neighbours(name):
    """25 cycles of a sine."""
    rng = np.random.default_rng(0)
    x = rng.random((SAMPLES, 1))
    z = np.sin(2 * math.pi * 25 * x) + 0.3 * rng.standard_normal((SAMPLES, 1))
    found = estimate(name, x, z)
    assert found.value < 0.1 and covers(found, 0.862)
    assert says(found, "neighbours along one column give")


@pytest.mark.parametrize("name", ["mine-f", "smile"])
def test_heavy_tails_that_networks_miss_are_found_by_neighbours(name):
    """z = x + noise, both Cauchy, in 3 + 3 dimensions: columns add up."""
    rng = np.random.default_rng(0)
    x, noise = rng.standard_cauchy((2, SAMPLES, 3))
    found = estimate(name, x, x + 0.2 * noise)
    assert says(found, "nearest neighbours of normal scores give")
    assert found.value < 3 * math.log(6) / 2 < found.value + 2 * found.stderr


def half_atoms(rng, samples):
    x, noise = rng.standard_normal((2, samples, 1))
    closed = rng.random((samples, 1)) < 0.5
    z = 0.8 * x + 0.6 * noise
    return np.where(closed, 0, x), np.where(closed, 0, z)


@pytest.mark.parametrize("name", NEURAL)
def test_atoms_are_warned_of_and_their_information_is_in_the_error(name):
    """Closed in half of the samples, together: log 2, and half of that of a normal pair."""
    x, z = half_atoms(np.random.default_rng(0), SAMPLES)
    truth = math.log(2) + correlated_gaussians(1, 0.8) / 2
    found = estimate(name, x, z)
    assert says(found, "have one value in a column of x") and says(found, "equal values alone give")
    assert covers(found, truth)


def test_information_of_atoms_is_a_table_of_counts():
    x, z = (torch.from_numpy(each) for each in half_atoms(np.random.default_rng(0), 4000))
    value, error = information_of_atoms(x, z)
    share = float((x == 0).double().mean())
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    # Which half is closed is known from either, so that the information is an entropy.
    assert value == pytest.approx(entropy, abs=1e-3) and error < 0.01
    assert largest_atom(x) == share
    # Labels and continuous values are none.
    for values in (torch.arange(4000) % 10, torch.randn(4000)):
        assert largest_atom(values[:, None].double()) == 0


def signs(samples, rng):
    """Three normal columns, any two of them independent, whose product is positive."""
    values = rng.standard_normal((samples, 3))
    values[:, 2] *= np.sign(values.prod(1))
    return values


@pytest.mark.parametrize("name", ["gaussian", "nwj"])
def test_parity_of_three_signs_is_not_missed_silently(name):
    values = signs(SAMPLES, np.random.default_rng(1))
    found = estimate(name, values[:, :2], values[:, 2:])
    assert found.value < 0.3
    assert covers(found, math.log(2)) and says(found, "products or totals of columns give")


@pytest.mark.parametrize("name", ["ksg", "gaussian", "mine"])
def test_an_interaction_of_two_of_twelve_columns_is_not_missed_silently(name):
    """8 + 4 columns; one of z is the sign of a product of two, with noise."""
    rng = np.random.default_rng(2)
    x, z = rng.standard_normal((SAMPLES, 8)), rng.standard_normal((SAMPLES, 4))
    z[:, 0] = np.sign(x[:, 2] * x[:, 5]) + 0.5 * z[:, 0]
    found = estimate(name, x, z)
    truth = sign_plus_noise(0.5)
    assert found.value < truth / 2 and covers(found, truth)
    assert says(found, "products or totals of columns give")


@pytest.mark.parametrize("sizes", [(2, 1), (8, 4)])
def test_normal_columns_with_a_fixed_product_of_signs_are_not_called_normal(sizes):
    """Every column is normal, any two are independent."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        values = signs(SAMPLES, rng)
        x, z = (rng.standard_normal((SAMPLES, size)) for size in sizes)
        x[:, :2], z[:, :1] = values[:, :2], values[:, 2:]
        assert far_from_normal(torch.from_numpy(x), torch.from_numpy(z))


def test_four_columns_that_are_independent_three_by_three_are_not_called_normal():
    values = np.random.default_rng(0).standard_normal((SAMPLES, 4))
    values[:, 3] *= np.sign(values.prod(1))
    x, z = torch.from_numpy(values).split(2, 1)
    assert far_from_normal(x, z)


def test_normal_columns_are_called_normal():
    called = 0
    for seed in range(30):
        generator = torch.Generator(device="cpu").manual_seed(seed)
        x = torch.randn(300, 3, generator=generator, device="cpu", dtype=torch.float64)
        noise = torch.randn(300, 3, generator=generator, device="cpu", dtype=torch.float64)
        called += far_from_normal(x, 0.6 * x + 0.8 * noise)
    # At 1 %: more than 2 of 30 have a chance of 3 in 1000.
    assert called <= 2


def test_skewness_of_all_columns_is_mardias_in_both_ways():
    generator = torch.Generator(device="cpu").manual_seed(0)
    values = torch.randn(60, 3, generator=generator, device="cpu", dtype=torch.float64).exp()
    values = values - values.mean(0)
    basis = torch.linalg.svd(values, full_matrices=False)[0]
    # His double sum over samples, and his correction for few of them.
    products = 60 * basis @ basis.T
    share = 4 * 61 * 63 / (60 * (61 * 4 - 6)) * 60 * float(products.pow(3).mean()) / 6 / 10
    expected = (share ** (1 / 3) - (1 - 2 / 90)) / math.sqrt(2 / 90)
    assert float(skewness_score(basis)) == pytest.approx(expected, rel=1e-9)


def test_cross_cumulants_are_those_of_a_plain_sum():
    generator = torch.Generator(device="cpu").manual_seed(0)
    x, z = torch.randn(2, 50, 2, generator=generator, device="cpu", dtype=torch.float64)
    z[:, 0] += x[:, 0]
    columns = torch.cat([x, z], 1)
    y = ((columns - columns.mean(0)) / columns.std(0, correction=0)).T
    products = [y[a] * y[b] * y[c] for a, b, c in ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))]
    expected = [float(each.mean() / each.std(correction=0) * 50**0.5) for each in products]
    r = y @ y.T / 50
    four = y.prod(0)
    normal = r[0, 1] * r[2, 3] + r[0, 2] * r[1, 3] + r[0, 3] * r[1, 2]
    expected.append(float((four.mean() - normal) / four.std(correction=0) * 50**0.5))
    assert sorted(cross_scores(x, z).tolist()) == pytest.approx(sorted(expected), rel=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_rows_of_a_series_are_warned_of(name):
    """Two correlated series, each 0.97 of the one before and noise."""
    x, other = series(SAMPLES, 0.97, np.random.default_rng(0), 2)
    found = estimate(name, x[:, None], (0.6 * x + 0.8 * other)[:, None])
    assert says(found, "neighbouring rows are alike")


def test_the_inflation_of_a_series_is_bartletts_and_sorted_rows_have_none():
    x, z = (
        torch.from_numpy(each)[:, None] for each in series(20000, 0.9, np.random.default_rng(0), 2)
    )
    # 1 + 2 sum 0.81^k
    assert inflation(x, z) == pytest.approx((1 + 0.81) / (1 - 0.81), rel=0.1)
    apart = torch.randperm(20000, generator=torch.Generator().manual_seed(0))
    assert inflation(x[apart], z[apart]) < 1.05
    # Independent pairs in another order are independent pairs.
    order = x[apart][:, 0].argsort()
    assert inflation(x[apart][order], z[order]) == 1
    labels = (torch.arange(20000) // 2000)[:, None]
    assert inflation(x + labels, labels) == 1
    assert inflation(torch.nn.functional.one_hot(labels[:, 0]).double(), x + labels) == 1
    # One variable's series does not matter where the other is none.
    assert inflation(x, z[apart]) < 1.05


@pytest.mark.parametrize("name", ["ksg", "gaussian", "mine"])
def test_copies_of_rows_are_warned_of(name):
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, SAMPLES // 2, 1))
    order = rng.permutation(np.repeat(np.arange(SAMPLES // 2), 2))
    found = estimate(name, x[order], (0.6 * x + 0.8 * noise)[order])
    assert says(found, f"{SAMPLES // 2} of {SAMPLES} rows are copies of others")


def test_labels_counts_and_atoms_are_no_copies():
    rng = np.random.default_rng(0)
    counts = torch.from_numpy(rng.poisson(3.0, (2, 500, 1)).astype(float))
    atoms = [torch.from_numpy(each) for each in half_atoms(rng, 500)]
    labels = torch.from_numpy(rng.integers(10, size=(500, 1)))
    for x, z in (counts, atoms, (labels, labels), (labels, labels + torch.randn(500, 1))):
        assert copied_rows(x, z) == 0
    x = torch.randn(500, 1, dtype=torch.float64)
    assert copied_rows(torch.cat([x, x[:50]]), torch.cat([2 * x, 2 * x[:50]])) == 50


@pytest.mark.parametrize("cycles", [5, 10])
def test_neighbours_in_many_columns_do_not_miss_fine_structure_of_one_silently(cycles):
    rng = np.random.default_rng(0)
    x, z = rng.random((1500, 3)), rng.standard_normal((1500, 3))
    z[:, 1] = np.sin(2 * math.pi * cycles * x[:, 2]) + 0.3 * z[:, 1]
    found = estimate("ksg", x, z)
    assert found.value < 0.1 and covers(found, 0.862)
    assert says(found, "neighbours along one column give")


def test_what_neighbours_along_a_column_share_is_a_bound_with_the_stated_error():
    """Equal to the information for a normal pair."""
    values, errors = [], []
    for seed in range(60):
        generator = torch.Generator(device="cpu").manual_seed(seed)
        x, noise = torch.randn(2, 500, 1, generator=generator, device="cpu", dtype=torch.float64)
        value, error = information_along_columns(x, 0.8 * x + 0.6 * noise)
        values.append(value)
        errors.append(error)
        assert information_along_columns(x, noise) == (0.0, 0.0)
    values = torch.tensor(values)
    assert float(values.mean()) == pytest.approx(correlated_gaussians(1, 0.8), abs=0.02)
    assert 0.7 < float(values.std()) / np.mean(errors) < 1.4


def clayton(samples, shape, rng):
    """Six uniform columns: exponential variables over a gamma variable, by their distribution."""
    values = rng.exponential(size=(samples, 6)) / rng.gamma(shape, 1.0, (samples, 1))
    return (1 + values) ** -shape


def test_neighbours_in_six_dimensions_do_not_miss_tails_silently():
    """From the entropy -log (a)_d + (a + d) (psi(a + d) - psi(a)) of d Lomax variables, a = 1/2."""

    def entropy(size):
        more = torch.tensor([0.5 + size, 0.5], dtype=torch.float64)
        upper, lower = more.digamma().tolist()
        return math.lgamma(0.5) - math.lgamma(0.5 + size) + (0.5 + size) * (upper - lower)

    truth = 2 * entropy(3) - entropy(6)
    assert truth == pytest.approx(0.883, abs=5e-4)
    values = clayton(1500, 0.5, np.random.default_rng(0))
    found = estimate("ksg", values[:, :3], values[:, 3:])
    assert found.value < truth - 0.1
    assert covers(found, truth) or found.warnings


@pytest.mark.parametrize(
    ("name", "options"), [("ksg", {}), ("gaussian", {}), ("mine", {"steps": 60})]
)
def test_independent_and_normal_pairs_get_no_second_opinion(name, options):
    texts = ("neighbours", "columns give", "equal values", "rows", "one value", "lengths")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        normal, other, uniform = (*rng.standard_normal((2, SAMPLES, 2)), rng.random((SAMPLES, 2)))
        for x, z in ((normal, other), (uniform, other), (normal[:, :1], uniform[:, :1])):
            found = estimate(name, x, z, **options)
            assert not any(says(found, text) for text in texts), found.warnings


def test_nothing_is_told_by_columns_of_independent_variables():
    told = 0
    for seed in range(30):
        generator = torch.Generator(device="cpu").manual_seed(seed)
        x, z = torch.rand(2, 400, 3, generator=generator, device="cpu", dtype=torch.float64)
        told += telling_columns(x, z.exp()) is not None
    # One in a thousand: two of thirty have a chance of 4 in 10000.
    assert told <= 1
