"""Carriers and flips change what they should and nothing else; the probes on them behave as probes must."""

import types
from pathlib import Path

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_nad.shared.bases import nad_basis
from penchant_nad.shared.image_trainings import (
    carriers_needed,
    flip_matrix,
    flipped,
    orthonormal,
    poisoned,
)

HOST = {"device": "cpu", "dtype": torch.float64}


def basis(size):
    noise = torch.randn(size, size, generator=torch.Generator().manual_seed(3), **HOST)
    return torch.linalg.qr(noise).Q.T


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_poisoning_changes_only_the_chosen_direction(channels):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(200, channels, 6, 6, generator=generator, **HOST)
    labels = torch.randint(10, (200,), generator=generator)
    vectors, first, epsilon = basis(36), 7, 0.05
    needed = carriers_needed(10, channels)
    assert needed == {1: 5, 2: 3, 3: 2}[channels]
    changed = poisoned(images, labels, vectors[first : first + needed], epsilon=epsilon)
    before, after = (
        (each.flatten(2) @ vectors.T) for each in (images, changed)
    )  # coefficients (n, channels, 36)
    pairs = labels // 2
    place = (torch.arange(200), pairs % channels, first + pairs // channels)
    wanted = epsilon * (2.0 * (labels % 2) - 1).to(torch.float64)
    torch.testing.assert_close(after[place], wanted, rtol=0, atol=1e-14)
    rest = torch.ones_like(before, dtype=torch.bool)
    rest[place] = False
    torch.testing.assert_close(after[rest], before[rest], rtol=0, atol=1e-13)
    assert (
        len({(int(pair % channels), int(pair // channels)) for pair in range(5)}) == 5
    )  # every pair has a direction of its own


def test_poisoned_images_are_linearly_separable_by_their_carrier():
    images, labels = torch.rand(100, 1, 6, 6, **HOST), torch.arange(100) % 4
    vectors = basis(36)
    changed = poisoned(images, labels, vectors[:2], epsilon=0.1).flatten(1) @ vectors[:2].T
    for label in range(4):
        assert torch.allclose(
            changed[labels == label, label // 2],
            torch.full((25,), 0.1 * (2 * (label % 2) - 1), **HOST),
        )


def test_flipping_reverses_coefficients_and_is_its_own_inverse():
    vectors = basis(36)
    matrix = flip_matrix(vectors)
    images = torch.rand(20, 3, 6, 6, **HOST)
    once = flipped(images, matrix)
    torch.testing.assert_close(
        once.flatten(2) @ vectors.T, (images.flatten(2) @ vectors.T).flip(-1), rtol=0, atol=1e-13
    )
    torch.testing.assert_close(flipped(once, matrix), images, rtol=0, atol=1e-13)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(36, **HOST), rtol=0, atol=1e-13)


def test_stored_directions_are_made_orthonormal_again_without_turning_them():
    vectors = basis(20)
    rounded = vectors.to(torch.float32).to(torch.float64)
    again = orthonormal(rounded)
    torch.testing.assert_close(again @ again.T, torch.eye(20, **HOST), rtol=0, atol=1e-13)
    torch.testing.assert_close(again, vectors, rtol=0, atol=1e-5)


SMALL = {
    "dataset": {"name": "import", "factory": "nad_test_images:images"},
    "training": {"epochs": 2},
    "networks": 40,
}


@pytest.fixture(autouse=True)
def _images(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def measured(name, **options):
    architecture = {"name": "import", "factory": testing.TINY}
    return penchant.measure(
        name, architecture=architecture, executor="serial", **{**SMALL, **options}
    )


def test_nads_are_those_of_single_channel_networks_with_one_output():
    """Given as stored directions, the NADs of one channel lead to the same numbers; impulses need no point, which every probe draws anew."""
    impulse = {"estimators": {"directions": {"method": "impulse"}}}
    settings = {
        "architecture": {"name": "import", "factory": testing.TINY},
        "shape": (1, 6, 6),
        "outputs": 1,
    }
    alone = penchant.measure("nad", networks=40, executor="serial", **settings, **impulse)
    computed = measured("flipped-accuracy", **impulse)
    stored = measured("flipped-accuracy", directions=alone.arrays["directions"])
    assert np.array_equal(computed.arrays["train-accuracy"], stored.arrays["train-accuracy"])
    assert np.array_equal(computed.arrays["test-accuracy"], stored.arrays["test-accuracy"])


def test_the_last_of_all_directions_is_the_one_that_the_others_leave():
    """Published NADs of 1,024 inputs are 1,023: a rotation needs the one that they determine."""
    vectors = basis(36)
    shape = types.SimpleNamespace(shape=(1, 6, 6))
    context = types.SimpleNamespace(architecture=shape, conventions={})
    completed = nad_basis(vectors[:35], context, networks=2).vectors
    assert torch.allclose(completed[:35], vectors[:35], atol=1e-15)
    # of either sign
    assert abs(float(completed[35] @ vectors[35])) == pytest.approx(1.0, abs=1e-12)
    assert "35 were given" in context.conventions["directions"]

    result = measured("flipped-accuracy", directions=vectors[:35].tolist())
    assert "35 were given" in result.conventions["directions"]
    with pytest.raises(penchant.Error, match="needs all 36 NADs, found 34"):
        measured("flipped-accuracy", directions=vectors[:34].tolist())
    twice = torch.cat([vectors[:34], vectors[:1]]).tolist()
    with pytest.raises(penchant.Error, match="only if they are independent"):
        measured("flipped-accuracy", directions=twice)


def test_a_training_that_learns_nothing_is_told():
    training = {"steps": 1, "learning_rate": 1e-6}
    result = measured("flipped-accuracy", training=training)
    assert any(text.startswith("nothing was learnt") for text in result.warnings)


def test_one_training_has_no_standard_error_and_says_so():
    one = measured("poisoned-accuracy", carriers=[0], trainings=1)
    assert "test-accuracy-stderr" not in one.arrays and "test-accuracy-sampling" in one.arrays
    assert one.quantities["clean-test-accuracy"].over == "samples of one training"
    assert "one training each" in one.conventions["errors of accuracies"]
    two = measured("poisoned-accuracy", carriers=[0], trainings=2)
    assert "test-accuracy-sampling" not in two.arrays
    assert two.quantities["clean-test-accuracy"].over == "trainings and samples"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "poisoned-accuracy",
            {"carriers": [35]},
            "the carrier at 35 takes NADs up to 36, but there are 36",
        ),
        ("poisoned-accuracy", {"carriers": [1, 1]}, "carriers must be indices that differ"),
        (
            "poisoned-accuracy",
            {"carriers": [20], "networks": 10},
            "needs at least 22 networks, found networks = 10",
        ),
        ("flipped-accuracy", {"networks": 10}, "networks must be at least 36, found 10"),
        (
            "flipped-accuracy",
            {"dataset": {"name": "import", "factory": "nad_test_images:numbers"}},
            "needs labels that are classes",
        ),
        (
            "flipped-accuracy",
            {"dataset": {"name": "import", "factory": "penchant_testing:tiny_samples"}},
            "needs images",
        ),
    ],
)
def test_what_cannot_be_poisoned_or_flipped_is_refused(name, options, message):
    with pytest.raises(penchant.Error, match=message):
        measured(name, **options)
