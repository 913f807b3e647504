"""Standard errors that were 0 or far too large, and the null of each index."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_nad.nad import participation
from penchant_numerics.inputs import GroupedMoment, effective_rank, left_out_spectra
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.statistics import jackknife

HOST = {"device": "cpu", "dtype": torch.float64}


def gradients(count, size, seed):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), **HOST)


def grouped(rows):
    moment = GroupedMoment(rows.shape[1], device="cpu")
    moment.add(rows)
    moment.whole()
    return moment


def test_the_error_of_the_effective_rank_is_its_spread_over_seeds():
    """Fewer networks than inputs, and groups that differ by one: that difference is no spread."""
    values, equal, unequal = [], [], []
    for seed in range(40):
        rows = gradients(20, 40, seed)
        moment = grouped(rows)
        eigenvalues, _ = descending_eigh(moment.whole().matrix())
        values.append(effective_rank(eigenvalues[:20]))
        spectra = left_out_spectra(moment, rows[-8:], centred=False, rank=20)
        equal.append(jackknife([effective_rank(each) for each in spectra]))
        plain = moment.left_out(centred=False, rank=20)
        unequal.append(jackknife([effective_rank(each) for each in plain]))
    spread = np.std(values, ddof=1)
    assert 0.7 < np.mean(equal) / spread < 1.7
    assert np.mean(unequal) / spread > 2


@pytest.mark.parametrize("centred", [False, True])
def test_what_is_left_out_is_a_part_without_its_surplus(centred):
    rows = gradients(19, 4, 0)  # groups of 3, 3, 3, 2, 2, ...
    spectra = left_out_spectra(grouped(rows), rows[-8:], centred=centred, rank=4)
    for group in range(8):
        kept = [t for t in range(19) if t % 8 != group or t >= 16]
        own = rows[kept] - (rows[kept].mean(0) if centred else 0)
        expected = torch.linalg.eigvalsh(own.T @ own / len(kept)).flip(0)
        torch.testing.assert_close(spectra[group], expected)


def test_the_count_of_directions_has_an_error_although_it_is_a_whole_number():
    result = penchant.measure(
        "nad",
        architecture={"name": "import", "factory": testing.TINY},
        shape=(1, 5, 5),
        networks=48,
        executor="serial",
    )
    count = result.quantities["directions-90"]
    assert count.value == int(count.value)
    assert count.stderr >= 0.28 and count.null_spread >= 0.28


def test_the_position_of_90_is_below_the_count_and_continuous():
    spectrum = torch.linspace(2, 0.1, 30, **HOST)
    position, count = participation.position_of_90(spectrum), participation.directions_90(spectrum)
    assert count - 1 < position <= count
    moved = participation.position_of_90(spectrum + 1e-6)
    assert abs(moved - position) < 1e-3


def test_rank_correlation_of_directions_in_perfect_order_is_not_certain():
    from penchant_nad.directional_accuracy.probe import _quantities

    context = testing.context("directional-accuracy", shape=(4,))
    accuracy = penchant.Table([0.9, 0.8, 0.7, 0.6, 0.5], {"index": range(5)})
    rows = [{"steps-to-loss": np.nan}] * 5
    found = _quantities(accuracy, rows, context)["rank-correlation"]
    assert found.value == pytest.approx(1)
    assert found.stderr > 0.1 and found.null_spread == pytest.approx(0.5, rel=0.1)


def test_one_training_a_direction_has_no_standard_error():
    options = {"basis": "canonical", "indices": [0, 5], "train": 64, "test": 64}
    arguments = {"shape": (1, 6, 6), "training": {"epochs": 1}, "executor": "serial"}
    architecture = {"name": "import", "factory": testing.TINY}
    one, two = (
        penchant.measure(
            "directional-accuracy",
            architecture=architecture,
            trainings=count,
            **options,
            **arguments,
        ).arrays
        for count in (1, 2)
    )
    assert "test-accuracy-stderr" not in one and "test-accuracy-sampling" in one
    assert "test-accuracy-stderr" in two and "test-accuracy-sampling" not in two


def test_every_index_has_a_null_that_isotropic_networks_meet():
    """Logistic regression is isotropic: its spectrum is the null's, index by index."""
    pytest.importorskip("penchant_architectures")
    result = penchant.measure(
        "nad",
        architecture="logistic",
        shape=(1, 8, 8),
        networks=400,
        estimators={"directions": {"method": "autograd"}},
        executor="serial",
    )
    arrays = result.arrays
    low, high = arrays["null-edges"]
    null, spread = arrays["null-eigenvalues"], arrays["null-eigenvalues-spread"]
    assert null.shape == spread.shape == arrays["eigenvalues"].shape
    assert (null[0], null[-1]) == (high, low) and (spread > 0).all()
    away = np.abs(arrays["eigenvalues"] - null) / null
    assert away.max() < 0.12, "a band from the smallest to the largest would be six times as wide"


def test_eigenvalues_that_are_rounding_are_zero():
    """Three inputs that no network looks at."""
    values = torch.tensor([2.0, 1.0, 3e-17, -4e-17, 1e-18], **HOST)
    assert participation.without_rounding(values).tolist() == [2.0, 1.0, 0.0, 0.0, 0.0]
    assert participation.without_rounding(values[:2]).tolist() == [2.0, 1.0]


def test_errors_of_eigenvalues_that_other_networks_would_not_have_are_missing():
    """Leaving out two of 16 networks leaves 14 eigenvalues: of the last two nothing is known."""
    result = penchant.measure(
        "nad",
        architecture={"name": "import", "factory": testing.TINY},
        shape=(1, 6, 6),
        networks=16,
        executor="serial",
    )
    errors = result.arrays["eigenvalues-stderr"]
    assert np.isnan(errors[14:]).all() and np.isfinite(errors[:14]).all()
    assert (errors[:14] > 1e-6 * result.arrays["eigenvalues"][:14]).all()


@pytest.mark.parametrize(
    ("shape", "panels"), [((1, 4, 6), 2), ((3, 4, 4), 2), ((2, 4, 4), 3), ((10,), 2)]
)
def test_directions_are_drawn_in_the_shape_of_the_input(shape, panels):
    """Colour is one picture, other channels one each; the amplitude spectrum stands below."""
    from penchant_nad.nad.figures import draw

    result = penchant.measure(
        "nad",
        architecture={"name": "import", "factory": testing.TINY},
        shape=shape,
        networks=2,
        executor="serial",
    )
    figure = draw(result)["directions"]
    visible = [axes for axes in figure.axes if axes.get_visible()]
    assert len(visible) == panels * 2
    if len(shape) == 3:
        pixels = visible[0].images[0].get_array()
        assert pixels.shape[:2] == shape[1:]
        assert pixels.ndim == (3 if shape[0] == 3 else 2)


def test_fewer_samples_than_groups_are_refused():
    """A group without a sample would have a moment that is not a number."""
    inputs = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(7) % 2
    dataset = {"name": "import", "factory": ((inputs, labels), (inputs, labels))}
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    with pytest.raises(penchant.Error, match="at least 8 of them, found 7"):
        penchant.measure("nad", architecture=network, dataset=dataset, executor="serial")
