"""Standard errors against the spread over repetitions; what is missing is said to be."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_gih.average_geometry import figures as average_geometry_figures
from penchant_gih.average_geometry.probe import _isotropy, condition_stderr
from penchant_gih.decision_plane.probe import one_axis_accuracy
from penchant_gih.geometry_training.probe import velocities
from penchant_gih.input_curvature.probe import second_share
from penchant_gih.shared.containment import inner_products
from penchant_gih.shared.geometry import Geometry
from penchant_gih.shared.projected import Projected
from penchant_numerics.statistics import p_value, statistics

CPU = {"device": "cpu", "dtype": torch.float64}
FAST = {"executor": "serial", "figures": False}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator(device="cpu").manual_seed(seed), **CPU)


def test_error_of_corr_isotropic_matches_its_spread():
    """Norms that differ much between networks, and fewer than two networks an input."""
    scale = torch.linspace(0.3, 1.0, 40, **CPU)
    found = []
    for seed in range(30):
        sizes = normal(90, 1, seed=1000 + seed).exp()
        geometry = Geometry(40, device="cpu")
        geometry.add((normal(90, 40, seed=seed) * scale * sizes)[:, None])
        quantity = _isotropy(geometry.directions())
        found.append((quantity.value, quantity.stderr))
    values, errors = np.array(found).T
    assert 0.5 < np.median(errors) / values.std(ddof=1) < 2


@pytest.mark.parametrize(("size", "networks"), [(4, 40), (16, 48), (24, 36)])
def test_error_of_the_condition_matches_its_spread(size, networks):
    """Isotropic, and hardly more networks than inputs: a group left out would change the edges."""
    found, left_out = [], []
    for seed in range(40):
        geometry = Geometry(size, device="cpu")
        geometry.add(normal(networks, size, seed=seed)[:, None])
        answer = geometry.directions()
        value = float(answer.eigenvalues[0] / answer.eigenvalues[-1])
        found.append((value, condition_stderr(answer)))
        ratios = answer.jackknife[:, 0] / answer.jackknife[:, -1]
        left_out.append(statistics.jackknife(ratios))
    values, errors = np.array(found).T
    assert 0.5 < np.sqrt(np.mean(errors**2)) / values.std(ddof=1) < 2
    if size > 4:
        assert np.sqrt(np.mean(np.square(left_out))) / values.std(ddof=1) > 2


def linear_convolution(networks, seed):
    """G and Delta of six groups of linear convolutions with three channels, 12 inputs."""
    taps = torch.zeros(12, 5, **CPU)
    for place in range(8):
        taps[place : place + 5] += torch.eye(5, **CPU)
    second_moment = torch.diag(torch.linspace(1, 0.2, 12, **CPU))
    kernels, readout = normal(networks, 3, 5, seed=seed), normal(networks, 3, seed=10**6 + seed)
    g = torch.einsum("tn,tnk->tk", readout, kernels) @ taps.T
    along = g @ second_moment @ taps
    turned = torch.einsum("tnk,tk->tn", kernels, along)
    v = (torch.einsum("tn,tnk->tk", turned, kernels) + (readout**2).sum(1, True) * along) @ taps.T
    groups = [slice(number, None, 6) for number in range(6)]
    geometry = torch.stack([g[own].T @ g[own] / len(g[own]) for own in groups])
    changes = [v[own].T @ g[own] / len(g[own]) for own in groups]
    return geometry, [-(each + each.T) for each in changes], second_moment


@pytest.mark.parametrize("networks", [60, 600, 3000])
def test_error_of_corr_gsg_matches_its_spread_where_noise_cancels(networks):
    """A linear convolution evolves along G S G: the noise of both is the same."""
    found = []
    for seed in range(16):
        geometry, changes, second_moment = linear_convolution(networks, seed)
        projected = Projected(geometry, second_moment)
        corr = projected.corr_of_same(projected.against(changes), inner_products(changes))
        found.append(corr)
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(-1, abs=0.03)
    # leaving out one group of the plain value claims five times the spread of 3000 networks
    assert 0.5 < np.median(errors) / values.std(ddof=1) < 2.4


CROSSED = ("training", "sample")


def table_of(right):
    names = ("training", "setting", "sample")
    return penchant.Table(right, {name: range(count) for name, count in zip(names, right.shape)})


def advantage(ours, others):
    first, second = (table_of(right).reduced(np.mean, "setting") for right in (ours, others))
    return first.minus(second).mean(CROSSED, null=0.0).quantity()


def test_an_advantage_of_few_trainings_that_agree_is_not_certain():
    rng = np.random.default_rng(0)
    right = rng.random((1, 3, 300)) < 0.8
    other = rng.random((1, 3, 300)) < 0.8
    # the second pair of trainings is right just where the first is
    found = advantage(right.repeat(2, 0), other.repeat(2, 0))
    assert found.value == pytest.approx(right.mean() - other.mean())
    assert found.stderr > 0.01 and found.df >= 1


def test_no_advantage_is_seldom_significant():
    """Two trainings of networks that are better or worse, on a test set with hard samples."""
    rng = np.random.default_rng(1)
    significant, significant_as_known = 0, 0
    for _ in range(400):
        hard = rng.random(200) * 0.9
        skill = 0.05 * rng.standard_normal((2, 2, 3, 1))
        ours, others = rng.random((2, 2, 3, 200)) < (1 - hard) + skill
        found = advantage(ours, others)
        significant += p_value(found.value, found.stderr, found.df) <= 0.01
        significant_as_known += p_value(found.value, found.stderr) <= 0.01
    # two trainings do not know their error
    assert significant <= 11 and significant_as_known >= 25


@pytest.mark.parametrize(("trainings", "most"), [(2, 1.33), (5, 1.2)])
def test_the_error_of_an_advantage_is_its_spread_where_trainings_do_not_differ(trainings, most):
    """What trainings and samples share was counted twice: 1.4 times too large."""
    rng = np.random.default_rng(2)
    values, errors = [], []
    for _ in range(300):
        ours, others = rng.random((2, trainings, 3, 200)) < 0.7
        found = advantage(ours, others)
        values.append(found.value)
        errors.append(found.stderr)
    ratio = np.sqrt(np.mean(np.square(errors))) / np.std(values, ddof=1)
    assert 0.9 < ratio < most


def test_advantages_by_setting_are_the_pairs_of_each():
    rng = np.random.default_rng(3)
    ours, others = rng.random((2, 3, 4, 50)) < 0.7
    by_setting = table_of(ours).minus(table_of(others)).mean(CROSSED)
    for number in range(4):
        alone = advantage(ours[:, [number]], others[:, [number]])
        found = by_setting.at(setting=number).quantity()
        assert found.value == pytest.approx(alone.value)
        assert found.stderr == pytest.approx(alone.stderr)
        assert found.df == pytest.approx(alone.df)


def test_one_axis_of_two_circles_has_its_closed_form():
    """Against a histogram of one coordinate of many samples, and the published facts."""
    angles = 2 * np.pi * np.random.default_rng(4).random((2, 10**6))
    for radii, expected in {(3.0, 0.25): 0.973, (6.0, 1.0): 0.947, (1.5, 3.0): 0.833}.items():
        edges = np.linspace(-6, 6, 2401)
        counts = [
            np.histogram(radius * np.cos(own), edges)[0] for radius, own in zip(radii, angles)
        ]
        best = np.maximum(*counts).sum() / angles.size
        assert one_axis_accuracy(radii) == pytest.approx(expected, abs=5e-4)
        assert one_axis_accuracy(radii) == pytest.approx(best, abs=3e-3)


def test_a_second_part_without_anything_in_common_has_an_error():
    noise = normal(8, 30, seed=3)
    inner = noise @ noise.T
    inner -= torch.diag(inner.diagonal()) + 5.0  # products of different networks are negative
    whole = torch.full((8, 8), 400.0, **CPU)
    share = second_share(inner, whole)
    assert share.value == 0 and 0.02 < share.stderr < 1
    nothing = second_share(torch.zeros(8, 8, **CPU), whole)
    assert nothing == (0.0, 0.0)


def test_too_few_networks_give_missing_values_and_a_warning():
    """Trainings are not thrown away because an unbiased norm is not positive at any step."""
    result = penchant.measure(
        "geometry-training",
        architecture={"name": "mlp", "widths": [16]},
        shape=(1, 16, 16),
        data="flipped",
        trainings=4,
        networks=12,
        inputs=1,
        train=20,
        test=10,
        training={"steps": 1, "batch": 10},
        **FAST,
    )
    assert result.status == "done"
    assert math.isnan(result.quantities["peak-corr-gsg"].value)
    assert "peak-corr-gsg" in result.missing and "corr-gsg" in result.missing
    assert any("not positive" in text for text in result.warnings)


def test_directions_are_drawn_in_the_shape_of_the_input():
    """Colour images that are not square: one panel a direction, each with its own sides."""
    from penchant_numerics.pictures.pictures import Figure

    result = penchant.measure(
        "average-geometry",
        architecture={"name": "mlp", "widths": [4]},
        shape=(3, 2, 5),
        networks=24,
        **FAST,
    )
    figure = average_geometry_figures.draw(result)["directions"]
    assert isinstance(figure, Figure)
    shown = [panel.images[0].get_array().shape for panel in figure.axes if panel.images]
    assert set(shown) == {(2, 5, 3)}


def to_and_fro(seed, looks=8, networks=14):
    """Gradients (looks, networks, 1, 6) of networks between two geometries."""
    scale = torch.linspace(1.0, 0.2, 6, **CPU)
    here = normal(networks, 1, 6, seed=seed) * scale
    there = normal(networks, 1, 6, seed=1000 + seed) * scale.flip(0)
    return torch.stack([here, there] * (looks // 2))


def test_the_error_of_a_path_is_that_of_all_its_velocities_together():
    """Each way back repeats the way there: their errors add up, their squares do not."""
    values, errors, squares = [], [], []
    for seed in range(20):
        found = velocities(to_and_fro(seed))
        assert found.path.value == pytest.approx(sum(found.values), abs=1e-9)
        values.append(found.path.value)
        errors.append(found.path.stderr)
        squares.append(np.square(found.errors).sum())
    spread = np.std(values, ddof=1)
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) / spread < 2
    assert np.sqrt(np.mean(squares)) / spread < 0.5


def test_the_whole_space_contains_everything_exactly():
    """Rounding was a difference from the null of infinitely many standard errors."""
    result = penchant.measure(
        "geometry-evolution",
        architecture={"name": "mlp", "widths": [4]},
        dataset={"name": "two-circles", "input_shape": [4], "train": 20, "test": 10},
        networks=60,
        leading=4,
        **FAST,
    )
    found = result.quantities["containment"]
    assert found.value == found.null == 1 and found.exact
