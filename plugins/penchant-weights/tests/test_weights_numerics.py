"""Marchenko-Pastur, tails and files against closed forms, scipy, numpy and simulations."""

import json
import weakref

import numpy as np
import penchant
import pytest
import scipy.integrate
import scipy.stats
import torch
from penchant_weights.weight_spectra import probe as weight_spectra
from penchant_weights.weight_spectra import weight_spectrum
from penchant_weights.weight_spectra.stored_tensors import stored_tensors
from penchant_weights.weight_spectra.tail_exponent import _exponent, _vuong, tail
from penchant_weights.weight_spectra.weight_spectrum import as_matrix, shuffled, spectrum
from safetensors.torch import save_file
from torch import nn

pytestmark = pytest.mark.usefixtures("without_report")


def normal(*shape, seed=0, std=1.0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return std * torch.randn(*shape, generator=generator, dtype=torch.float64)


# ---- Marchenko and Pastur


def density(x, c, v):
    low, high = v * (1 - c**0.5) ** 2, v * (1 + c**0.5) ** 2
    return np.sqrt((high - x) * (x - low)) / (2 * np.pi * v * c * x)


@pytest.mark.parametrize(("rows", "columns"), [(300, 100), (100, 300), (120, 100)])
def test_the_law_is_the_integral_of_its_density(rows, columns):
    c, v = min(rows, columns) / max(rows, columns), 0.7
    low, high = weight_spectrum.edges(rows, columns, v)
    for share in (0.1, 0.5, 0.95):
        x = low + share * (high - low)
        expected, _ = scipy.integrate.quad(density, low, x, args=(c, v))
        found = weight_spectrum.distribution(np.array([x]), rows, columns, v)
        assert found[0] == pytest.approx(expected, abs=1e-6)


def test_a_square_matrix_has_the_quarter_circle():
    # singular values of a square matrix: density sqrt(4 - s^2) / pi on [0, 2]
    for s in (0.2, 1.0, 1.9):
        expected = (s * np.sqrt(4 - s**2) / 2 + 2 * np.arcsin(s / 2)) / np.pi
        found = weight_spectrum.distribution(np.array([s**2]), 50, 50, 1.0)
        assert found[0] == pytest.approx(expected, abs=1e-4)


def test_random_matrices_follow_the_law_and_exceed_its_edge_in_one_of_a_hundred():
    distances, above = [], 0
    for seed in range(400):
        sigma = torch.linalg.svdvals(normal(60, 40, seed=seed)).numpy()
        eigenvalues = sigma**2 / 60
        distances.append(weight_spectrum.distance(eigenvalues, 60, 40, 1.0))
        above += eigenvalues[0] > weight_spectrum.largest_by_chance(60, 40, 1.0)
    # in proportion to 1 / size, where independent values would have its root
    larger = []
    for seed in range(30):
        sigma = torch.linalg.svdvals(normal(240, 160, seed=seed)).numpy()
        larger.append(weight_spectrum.distance(sigma**2 / 240, 240, 160, 1.0))
    assert 3 < np.mean(distances) / np.mean(larger) < 5
    assert 0 <= above <= 11  # 4 expected; more than 11 has a probability of 0.001


# ---- tails


def pareto(alpha, count=500, seed=0):
    return 3 * (1 + np.random.default_rng(seed).pareto(alpha - 1, count))


@pytest.mark.parametrize("alpha", [1.8, 2.5, 4.0])
def test_exponents_are_recovered_with_their_errors(alpha):
    found = [tail(pareto(alpha, seed=s), generator=np.random.default_rng(s)) for s in range(12)]
    values = np.array([each.exponent for each in found])
    errors = np.array([each.stderr for each in found])
    z = (values - alpha) / errors
    assert np.abs(z).max() < 3.5
    assert abs(values.mean() - alpha) < 4 * values.std() / 12**0.5 + 0.05 * alpha
    assert 0.5 < errors.mean() / values.std(ddof=1) < 2
    # steep tails of few values look like exponentials
    least = {1.8: 12, 2.5: 7, 4.0: 0}
    assert sum(each.accepted for each in found) >= least[alpha]


def test_the_exponent_and_the_likelihoods_are_those_of_scipy():
    inside = np.sort(pareto(2.3, count=80))[::-1]
    above, begin = inside[:-1], inside[-1]
    shape, _, _ = scipy.stats.pareto.fit(above, floc=0, fscale=begin)
    assert _exponent(inside) == pytest.approx(shape + 1, rel=1e-6)
    one = scipy.stats.pareto.logpdf(above, shape, scale=begin)
    two = scipy.stats.expon.logpdf(above, loc=begin, scale=above.mean() - begin)
    away = one - two
    expected = away.mean() / away.std(ddof=1) * len(away) ** 0.5
    assert _vuong(inside) == pytest.approx(expected, rel=1e-5)


def test_a_power_law_is_refused_where_an_exponential_fits():
    accepted = 0
    for seed in range(100):
        values = np.random.default_rng(seed).exponential(size=300)
        accepted += tail(values).accepted
    assert accepted <= 4
    sigma = torch.linalg.svdvals(normal(200, 150)).numpy()
    assert not tail(sigma**2).accepted


def test_heavy_entries_have_the_exponent_of_their_tail():
    # entries with density |w|^-(1 + a): eigenvalues with density x^-(1 + a/2)
    a, found = 1.2, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        entries = (1 - rng.random((300, 200))) ** (-1 / a) * rng.choice([-1, 1], (300, 200))
        each = spectrum(torch.from_numpy(entries), random=rng)
        assert each.tail.accepted
        found.append(each.tail.exponent)
    assert np.mean(found) == pytest.approx(1 + a / 2, abs=0.15)


# ---- spectra


def test_a_spectrum_is_that_of_numpy():
    weight = normal(30, 4, 3, 3, std=0.1)
    matrix = as_matrix(weight)
    found = spectrum(matrix, random=np.random.default_rng(0))
    sigma = np.linalg.svd(weight.numpy().reshape(30, 36), compute_uv=False)
    np.testing.assert_allclose(found.singular_values, sigma, rtol=1e-10)
    assert found.values["stable-rank"] == pytest.approx((sigma**2).sum() / sigma[0] ** 2)
    v = float((weight**2).mean())
    test = scipy.stats.kstest(sigma**2 / 36, lambda x: weight_spectrum.distribution(x, 30, 36, v))
    assert found.values["mp-distance"] == pytest.approx(test.statistic, abs=1e-12)


def test_spikes_are_counted_and_gone_in_random_order():
    matrix = normal(100, 80)
    for number in range(3):
        u, v = normal(100, seed=5 + number), normal(80, seed=9 + number)
        matrix += 60 * torch.outer(u / u.norm(), v / v.norm())
    random = np.random.default_rng(0)
    assert spectrum(matrix, random=random).values["spikes"] == 3
    mixed = shuffled(matrix, generator=torch.Generator("cpu").manual_seed(0))
    assert sorted(mixed.flatten().tolist()) == sorted(matrix.flatten().tolist())
    assert spectrum(mixed, random=random).values["spikes"] == 0


# ---- files


@pytest.fixture
def state():
    return {
        "a.weight": normal(25, 30).float(),
        "a.bias": normal(25).float(),
        "b.weight": normal(22, 3, 3, 3, seed=1).bfloat16(),
    }


def sharded(folder, state):
    """Two shards and their index."""
    folder.mkdir()
    shards = {"one.safetensors": ["a.weight", "a.bias"], "two.safetensors": ["b.weight"]}
    for file, names in shards.items():
        save_file({name: state[name] for name in names}, folder / file)
    index = {"weight_map": {name: file for file, names in shards.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_all_ways_to_store_weights_give_the_same(tmp_path, state):
    folder = sharded(tmp_path / "sharded", state)
    save_file(state, tmp_path / "whole.safetensors")
    torch.save({"step": 3, "network": state}, tmp_path / "nested.pt")
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    index = folder / "model.safetensors.index.json"
    for path in (
        folder,
        index,
        tmp_path / "whole.safetensors",
        tmp_path / "nested.pt",
        tmp_path / "old.pth",
    ):
        found = {name.removeprefix("network."): t for name, t in stored_tensors(path)}
        assert found.keys() - {"step"} == state.keys(), path
        assert all(torch.equal(found[name], state[name]) for name in state)


def test_a_file_gives_what_the_network_gives(tmp_path):
    network = nn.Sequential(nn.Linear(30, 25), nn.Linear(25, 40))
    torch.save(network.state_dict(), tmp_path / "own.pt")
    of_file = penchant.measure("weight-spectra", file=str(tmp_path / "own.pt"), shuffles=2)
    of_network = penchant.measure(
        "weight-spectra", architecture=network, shape=(30,), outputs=40, shuffles=2
    )
    assert of_file.tables["edges"].axes["layer"] == ("0.weight", "1.weight")
    for name, values in of_file.arrays.items():
        np.testing.assert_array_equal(values, of_network.arrays[name])
    sigma = np.linalg.svd(network[0].weight.detach().double().numpy(), compute_uv=False)
    np.testing.assert_allclose(of_file.arrays["singular-values"][0], sigma, rtol=1e-9)


def test_one_tensor_is_held_at_a_time(monkeypatch, tmp_path):
    alive = []

    def tensors(path):
        for number in range(4):
            assert all(each() is None for each in alive), "an earlier tensor is still held"
            weight = normal(24, 20, seed=number)
            alive.append(weakref.ref(weight))
            yield f"layer{number}", weight
            del weight

    monkeypatch.setattr(weight_spectra, "stored_tensors", tensors)
    torch.save({}, tmp_path / "own.pt")
    result = penchant.measure("weight-spectra", file=str(tmp_path / "own.pt"), shuffles=2)
    assert len(result.tables["edges"].axes["layer"]) == 4


def test_a_file_that_changes_is_measured_again(tmp_path):
    path, values = tmp_path / "own.safetensors", []
    for seed in (0, 1):
        save_file({"w": normal(24, 20, seed=seed)}, path)
        result = penchant.measure(
            "weight-spectra", file=str(path), shuffles=2, out=tmp_path / "run", figures=False
        )
        values.append(result.quantities["stable-rank"].value)
    assert values[0] != values[1]


def test_refusals_name_what_was_found(tmp_path, state):
    def refused(message, **options):
        with pytest.raises(penchant.Error, match=message):
            penchant.measure("weight-spectra", shuffles=2, **options)

    folder = sharded(tmp_path / "sharded", state)
    (folder / "two.safetensors").unlink()
    refused("names shards that do not exist: two.safetensors", file=str(folder))
    index = folder / "model.safetensors.index.json"
    save_file(state, tmp_path / "outside.safetensors")
    index.write_text(json.dumps({"weight_map": {"a.weight": "../outside.safetensors"}}))
    refused("'../outside.safetensors', expected a file of the same folder", file=str(folder))
    refused("there is no file", file=str(tmp_path / "none.pt"))
    refused("must be a folder or end in", file=__file__)
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    refused("cannot be read", file=str(tmp_path / "bad.pt"))
    torch.save(state, tmp_path / "own.pt")
    refused("no tensor is called", file=str(tmp_path / "own.pt"), layer_names=["c*"])
    refused("two axes of at least 100", file=str(tmp_path / "own.pt"), smallest=100)
    refused("found neither")
    torch.save({"w": torch.zeros(30, 30)}, tmp_path / "zero.pt")
    refused("tensor 'w' is zero everywhere", file=str(tmp_path / "zero.pt"))
    torch.save({"w": torch.full((30, 30), torch.nan)}, tmp_path / "nan.pt")
    refused("tensor 'w' has entries that are not finite", file=str(tmp_path / "nan.pt"))
