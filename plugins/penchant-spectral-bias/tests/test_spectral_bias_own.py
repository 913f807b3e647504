"""Networks of one's own as functions on lines, planes and grids, against closed forms."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_spectral_bias.frequency_robustness.perturbations import unit_vector
from penchant_spectral_bias.shared.band_spectra import band_products, transforms
from torch import nn

BANDS = (1, 2, 3, 4, 5)
# powers of two: a network of one's own is built in single precision
GOAL = [1.0, 0.75, 0.5, 0.375, 0.25]
OWN = [0.875, 0.5, 0.25, 0.125, 0.0]


class Waves(nn.Module):
    """A sum of sines of known amplitudes along the first input, times 1 + the second, if any."""

    def __init__(self, amplitudes, inputs=1, outputs=1):
        super().__init__()
        self.amplitudes = nn.Parameter(torch.tensor(amplitudes, dtype=torch.float64))
        self.inputs, self.outputs = inputs, outputs

    def forward(self, x):
        k = torch.arange(1, len(self.amplitudes) + 1, device=x.device)
        waves = torch.sin(2 * math.pi * x[:, :1] * k + k)
        value = waves @ self.amplitudes.to(x)
        if self.inputs > 1:
            value = value * (1 + x[:, 1])
        return torch.stack([value * (n + 1) for n in range(self.outputs)], 1)


def target(points):
    return Waves(GOAL).double()(points)[:, 0]


def learning(network, inputs=1, **options):
    given = {"frequencies": BANDS, "dtype": "float64", "window": "none", "shuffles": 3, **options}
    return penchant.measure("frequency-learning", architecture=network, shape=(inputs,), **given)


# ---- spectra


def test_products_are_those_of_sums_over_points():
    generator = torch.Generator("cpu").manual_seed(0)
    f, t = torch.randn(2, 12, 10, 3, generator=generator, dtype=torch.float64)
    for window in ("hann", "none"):
        F, T = (transforms(each, 2, window) for each in (f, t))
        found = band_products(F, T, 2, [1, 2, 3])
        # the same by the definition, frequency by frequency
        w = np.ones((12, 10))
        if window == "hann":
            w = np.outer(*[np.sin(np.pi * np.arange(n) / n) ** 2 for n in (12, 10)])
        expected = np.zeros(4)
        for k1 in range(-6, 6):
            for k2 in range(-5, 5):
                wave = np.exp(
                    -2j * np.pi * (k1 * np.arange(12)[:, None] / 12 + k2 * np.arange(10) / 10)
                )
                band = round(math.hypot(k1, k2))
                if not 1 <= band <= 3:
                    continue
                for output in range(3):
                    each = []
                    for values in (f, t):
                        v = values[..., output].numpy()
                        each.append((wave * w * (v - (v * w).sum() / w.sum())).sum() / w.sum())
                    expected[band] += (each[0] * each[1].conj()).real
        np.testing.assert_allclose(found, expected[1:], rtol=1e-9, atol=1e-12)


def test_a_constant_leaks_nowhere_and_parseval_holds():
    assert float(transforms(torch.ones(16, 1), 1, "hann").abs().max()) < 1e-15
    values = torch.randn(16, 1, generator=torch.Generator("cpu").manual_seed(0))
    F = transforms(values, 1, "none")
    total = band_products(F, F, 1, range(9)).sum()
    assert float(total) == pytest.approx(float(values.double().var(correction=0)))


# ---- a known sum of sines


def test_shares_of_a_known_sum_are_its_amplitudes():
    result = learning(Waves(OWN), target_function=target)
    expected = np.array(OWN) / np.array(GOAL)
    np.testing.assert_allclose(result.arrays["learnt-share"][0], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.arrays["amplitude"][0], np.abs(expected), atol=1e-7)
    # a decreasing order of five is perfect
    assert result.quantities["rank-correlation"].value == pytest.approx(1)
    squares = np.square(OWN)
    mean = (squares * np.arange(1, 6)).sum() / squares.sum()
    assert result.quantities["mean-frequency"].value == pytest.approx(mean)
    loss = np.square(np.array(OWN) - np.array(GOAL)).sum() / 2
    assert result.quantities["final-loss"].value == pytest.approx(loss)
    assert result.quantities["final-loss"].null == pytest.approx(np.square(GOAL).sum() / 2)


def test_planes_grids_outputs_and_values_give_the_same(tmp_path):
    expected = np.array(OWN) / np.array(GOAL)

    def two(points):
        return torch.stack([target(points) * (1 + points[:, 1]) * (n + 1) for n in (0, 1)], 1)

    network = Waves(OWN, inputs=2, outputs=2)
    lines = learning(
        network, 2, outputs=2, wave_inputs=[0], target_function=two, slices=4, grid_points=32
    )
    np.testing.assert_allclose(lines.arrays["learnt-share"][0], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(lines.arrays["learnt-share-stderr"], 0, atol=1e-12)
    # a grid of points, with the target's values
    x = torch.arange(32, dtype=torch.float64) / 32
    points = torch.stack([x, torch.full_like(x, 0.3)], 1)
    grid = learning(network, 2, outputs=2, coordinates=points, target_values=two(points))
    np.testing.assert_allclose(grid.arrays["learnt-share"][0], expected, rtol=0, atol=1e-12)
    # in a plane without a window, waves along the first input have others across it
    plane = learning(network, 2, outputs=2, target_function=two, grid_points=16)
    assert np.all(np.diff(plane.arrays["learnt-share"][0]) < 0)


def test_corners_set_the_cycles():
    shifted = learning(
        Waves([0.0, 1.0, 0.0, 0.0, 0.0]), corners=[[0.0], [2.0]], frequencies=[2, 4, 6]
    )
    # two cycles per unit are four in a domain of two
    assert shifted.quantities["mean-frequency"].value == pytest.approx(4)


def test_a_window_hides_what_differs_between_the_ends():
    class Slope(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x):
            return self.slope * x + torch.sin(2 * math.pi * 5 * x) / 5

    def energy(window):
        found = learning(Slope(), window=window, frequencies=[3, 4, 5])
        return found.arrays["spectrum"][20:].sum()

    assert energy("hann") < 1e-4 * energy("none")


# ---- a training in closed form


def closed_form(rates, steps, tmp_path, seed=0):
    """Gradient flow on amplitudes: the share of wave k is 1 - exp(-rate_k t)."""
    files = []
    goal = torch.tensor(GOAL, dtype=torch.float64)
    for step in steps:
        states = goal * (1 - torch.exp(-torch.tensor(rates, dtype=torch.float64) * step))
        path = tmp_path / f"step-{step}.pt"
        torch.save({"amplitudes": states}, path)
        files.append(str(path))
    return files


class FiveWaves(Waves):
    def __init__(self):
        super().__init__([0.0] * 5)


def test_a_training_in_closed_form_has_its_shares_and_order(tmp_path):
    rates, steps = [1.0, 0.5, 0.25, 0.125, 0.06], [0, 1, 2, 4, 8, 16]
    files = closed_form(rates, steps, tmp_path)
    for given in ({"target_function": target}, {}):
        result = learning(FiveWaves, weights=files, **given)
        expected = 1 - np.exp(-np.outer(steps, rates))
        if not given:
            # against the last state
            expected = expected / expected[-1]
        np.testing.assert_allclose(result.arrays["learnt-share"], expected, rtol=0, atol=1e-12)
        assert tuple(result.arrays["steps"]) == tuple(steps)
        assert result.quantities["rank-correlation"].value == pytest.approx(1)
    first = [next((s for s in steps if 1 - np.exp(-r * s) >= 0.8), np.nan) for r in rates]
    found = learning(FiveWaves, weights=files, target_function=target)
    np.testing.assert_array_equal(found.arrays["first-fit"], first)


def test_the_order_of_trainings_without_one_is_that_of_chance(tmp_path):
    p, values, errors = [], [], []
    for seed in range(16):
        rates = np.random.default_rng(seed).permutation([1.0, 0.5, 0.25, 0.125, 0.06]).tolist()
        files = closed_form(rates, [0, 1, 2, 4, 8], tmp_path)
        found = learning(FiveWaves, weights=files, target_function=target, seed=seed)
        quantity = found.quantities["rank-correlation"]
        p.append(quantity.p)
        values.append(quantity.value)
        errors.append(quantity.stderr)
    assert abs(np.mean(values)) < 3 * 0.5 / 16**0.5
    assert 0.35 < np.mean(p) < 0.8 and min(p) >= 1 / 120
    assert 0.5 < np.mean(errors) / np.std(values, ddof=1) < 2


def test_a_network_fitted_in_closed_form_has_the_shares_of_its_solution():
    # random features by ridge regression: the solution is a matrix times the target
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(1, 60), nn.Tanh(), nn.Linear(60, 1, bias=False)).double()
    network[0].weight.data *= 15
    x = torch.arange(64, dtype=torch.float64)[:, None] / 64
    with torch.no_grad():
        features = network[:2](x)
        K, y = features @ features.T, target(x)
        smoother = K @ torch.linalg.inv(K + 0.1 * torch.eye(64))
        network[2].weight.copy_((features.T @ torch.linalg.solve(K + 0.1 * torch.eye(64), y))[None])
    found = learning(network, target_function=target, grid_points=64)
    # in single precision, in which networks are built; projections by sums over points, not by a transform
    shares = []
    for k in BANDS:
        waves = np.exp(-2j * np.pi * k * np.arange(64) / 64)
        f, t = waves @ (smoother @ y).numpy(), waves @ y.numpy()
        shares.append((f * t.conj()).real / abs(t) ** 2)
    np.testing.assert_allclose(found.arrays["learnt-share"][0], shares, atol=1e-6)


# ---- errors and nulls


def random_network(seed, inputs=2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 40), nn.Tanh(), nn.Linear(40, 1))


def test_errors_over_slices_are_the_spread_over_other_slices():
    network, found = random_network(1, 3), []
    network[0].weight.data *= 6

    def goal(points):
        return torch.sin(2 * math.pi * (points[:, 0] * 2 + points[:, 1])) + points[:, 2]

    for seed in range(16):
        options = {
            "wave_inputs": [0],
            "slices": 15,
            "seed": seed,
            "grid_points": 32,
            "window": "hann",
        }
        result = learning(network, 3, target_function=goal, dtype="float32", **options)
        found.append(
            [
                (result.quantities[name].value, result.quantities[name].stderr)
                for name in ("mean-frequency", "final-loss")
            ]
            + [(result.arrays["learnt-share"][0, 1], result.arrays["learnt-share-stderr"][0, 1])]
        )
    for values, errors in np.array(found).transpose(1, 2, 0):
        assert 0.5 < errors.mean() / values.std(ddof=1) < 2


def test_an_untrained_network_is_as_fast_as_its_null():
    scores = []
    for seed in range(16):
        result = learning(
            random_network(seed), 2, seed=seed, shuffles=20, grid_points=16, dtype="float32"
        )
        quantity = result.quantities["mean-frequency"]
        scores.append((quantity.value - quantity.null) / quantity.null_spread)
    assert abs(np.mean(scores)) < 0.8
    assert sum(abs(score) > 2.9 for score in scores) <= 2


# ---- robustness


def robustness(network, inputs=1, **options):
    given = {
        "frequencies": (1, 2, 3),
        "dtype": "float64",
        "window": "none",
        "slices": 4,
        "perturbations": 6,
        "deltas": (0.0, 0.1, 0.2),
        **options,
    }
    return penchant.measure("frequency-robustness", architecture=network, shape=(inputs,), **given)


def test_amplitudes_move_as_their_parameters():
    # the amplitudes are the parameters: a move of them is a move of the spectrum
    result = robustness(Waves([1.0, 0.75, 0.5]), perturbations=200, slices=3)
    relative = result.tables["relative-amplitude"].values
    assert relative.shape == (3, 3)
    np.testing.assert_allclose(relative[0], 1, atol=1e-12)
    np.testing.assert_allclose(
        result.tables["amplitude"].values, np.array([1.0, 0.75, 0.5]) / 2**0.5, atol=1e-12
    )
    # the mean over directions moves by delta / sqrt(3 * 200) in each amplitude
    floor = result.tables["noise-floor"].values[2]
    np.testing.assert_allclose(floor, 0.2 / np.sqrt(600) / np.array([1.0, 0.75, 0.5]), rtol=0.15)


def test_moved_functions_are_those_of_moved_parameters():
    network = random_network(0).double()
    result = robustness(network, 2, wave_inputs=[0], perturbations=3, slices=2, grid_points=16)
    # one by one, with the directions and lines of the seed
    from penchant.seeds import derive

    def generator(*keys):
        return torch.Generator("cpu").manual_seed(derive(0, "frequency-robustness", *keys))

    places = torch.rand(2, 2, generator=generator("slices"), dtype=torch.float64)
    found = []
    for number in range(2):
        x = torch.arange(16, dtype=torch.float64) / 16
        points = torch.stack([x, places[number, 1].expand(16)], 1)
        functions = []
        for index in range(3):
            moved = random_network(0).double()
            vector = unit_vector(network, generator("perturbation", number, index))
            for name, parameter in moved.named_parameters():
                parameter.data += 0.2 * vector[name]
            functions.append(moved(points)[:, 0].detach().numpy())
        own = network(points)[:, 0].detach().numpy()
        mean = np.mean(functions, axis=0)
        found.append([abs(np.fft.fft(mean)[k]) / abs(np.fft.fft(own)[k]) for k in (1, 2, 3)])
    expected = np.mean(found, axis=0)
    np.testing.assert_allclose(result.tables["relative-amplitude"].values[2], expected, rtol=1e-9)


def test_errors_over_slices_of_moves_are_the_spread_over_others():
    network, found = random_network(1), []
    for seed in range(16):
        result = robustness(
            network, 2, wave_inputs=[0], seed=seed, slices=8, grid_points=16, deltas=(0.0, 1.0, 2.0)
        )
        names = ("robustness-gap", "rank-correlation")
        found.append(
            [(result.quantities[name].value, result.quantities[name].stderr) for name in names]
        )
    for values, errors in np.array(found).transpose(1, 2, 0):
        assert 0.5 < errors.mean() / values.std(ddof=1) < 2


def test_an_untrained_network_is_as_robust_as_with_mixed_weights():
    scores = []
    for seed in range(16):
        result = robustness(
            random_network(seed),
            2,
            wave_inputs=[0],
            seed=seed,
            slices=8,
            perturbations=4,
            grid_points=16,
        )
        quantity = result.quantities["rank-correlation"]
        scores.append((quantity.value - quantity.null) / quantity.null_spread)
    assert abs(np.mean(scores)) < 0.8
    assert sum(abs(score) > 2.5 for score in scores) <= 2


# ---- refusals


def test_what_does_not_fit_is_refused():
    network = Waves([1.0, 0.5])

    def refused(message, inputs=1, network=network, **options):
        with pytest.raises(penchant.Error, match=message):
            learning(network, inputs, **options)

    refused("describe a network of your own", network="mlp", corners=[[0.0], [1.0]])
    refused(r"lowest and the highest value of 1 inputs, \(2, 1\)", corners=[[0.0, 1.0]])
    refused("wave_inputs must be 1 to 3 different inputs of 0..0, found", wave_inputs=[1])
    refused(
        r"points \(N_1, ..., 1\) along 1 to 3 axes, found the shape \(8, 2\)",
        coordinates=np.ones((8, 2)),
    )
    refused("found corners or wave_inputs", coordinates=np.ones((16, 1)), wave_inputs=[0])
    refused("at most 7 for 16 points, found 8", frequencies=[1, 8], grid_points=16)
    refused("found no coordinates", target_values=np.ones(64))
    refused(
        r"finite values on \(64,\) points", coordinates=np.ones((64, 1)), target_values=np.ones(63)
    )
    refused("a value for each of 64 points", target_function=lambda x: x[:5])
    refused(
        "as many outputs, found 1 and 2",
        target_function=lambda x: torch.cat([x, x], 1) + target(x)[:, None],
    )
    refused("the target 'no:one' of target_function cannot be loaded", target_function="no:one")
    refused("a function of points, found 3", target_function=3)
    refused("the target has none of the frequencies", target_function=lambda x: torch.ones(len(x)))
    refused("constant on the grid", network=Waves([0.0, 0.0]))


def test_a_function_that_is_faster_than_its_points_is_warned_of():
    fast = learning(Waves([0.0] * 14 + [1.0]), grid_points=32)
    assert any("upper quarter" in text for text in fast.warnings)


def test_frequencies_that_the_target_lacks_are_left_out():
    result = learning(Waves([0.5, 0.5]), target_function=lambda x: Waves([1.0, 1.0]).double()(x))
    assert any("frequencies 3, 4, 5" in text for text in result.warnings)
    assert result.arrays["frequencies"].tolist() == [1, 2]
