"""Choice of samples, random labels, size, colour and standardisation, on images made for it."""

import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.declarations import Digits
from penchant_vision.preparation import Pixels, Source, prepare
from scipy import stats

CLASSES = 3


def pixels(count, channels=1, side=6, seed=0):
    """Images whose first two pixels tell their number, labels in no order."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    images = torch.randint(
        256, (count, channels, side, side), generator=generator, device="cpu", dtype=torch.uint8
    )
    number = torch.arange(count, device="cpu")
    images[:, 0, 0, 0], images[:, 0, 0, 1] = number // 256, number % 256
    labels = (torch.arange(count, device="cpu") % CLASSES)[
        torch.randperm(count, generator=generator, device="cpu")
    ]
    return Pixels(images, labels)


def made(train=300, test=90, channels=1, **options):
    source = Source(
        pixels(train, channels),
        pixels(test, channels, seed=1),
        CLASSES,
        255,
        {"made": "here"},
        ["made"],
    )
    return source, lambda seed=0: as_data(
        prepare(Digits.bind(options), source, torch.Generator(device="cpu").manual_seed(seed))
    )


def numbers(samples):
    """Which of the stored samples these are."""
    corner = (samples.inputs[:, 0, 0, :2] * 255).round().to(torch.int64)
    return (256 * corner[:, 0] + corner[:, 1]).tolist()


def test_without_options_everything_comes_in_file_order():
    source, load = made()
    data = load()
    torch.testing.assert_close(data.train.inputs, source.train.images / 255.0)
    assert torch.equal(data.train.labels, source.train.labels) and torch.equal(
        data.test.labels, source.test.labels
    )
    assert (
        data.train.inputs.dtype == torch.float32
        and data.classes == CLASSES
        and data.shape == (1, 6, 6)
    )
    assert data.conventions == {"made": "here", "pixels": "in [0, 1]"} and data.warnings == (
        "made",
    )


def test_samples_per_class_are_balanced_distinct_and_chosen_by_the_seed():
    source, load = made(per_class=20, test_per_class=5)
    data = load()
    assert (
        data.train.labels.bincount().tolist() == [20] * 3
        and data.test.labels.bincount().tolist() == [5] * 3
    )
    chosen = numbers(data.train)
    assert len(set(chosen)) == 60 and torch.equal(source.train.labels[chosen], data.train.labels)
    assert numbers(load().train) == chosen and numbers(load(seed=1).train) != chosen


def test_more_per_class_extend_fewer():
    few, many = made(per_class=10, test_per_class=2)[1](), made(per_class=20, test_per_class=4)[1]()
    assert numbers(many.train)[:30] == numbers(few.train) and numbers(many.test)[:6] == numbers(
        few.test
    )
    assert numbers(made(per_class=20)[1]().train) == numbers(many.train)


def test_every_sample_is_as_likely():
    _, load = made(train=30, per_class=2)
    counts = torch.zeros(30, device="cpu")
    for seed in range(500):
        counts[numbers(load(seed).train)] += 1
    z = (counts - 100) / (500 * 0.2 * 0.8) ** 0.5
    assert z.abs().max() < stats.norm.isf(0.01 / (2 * 30))


@pytest.mark.parametrize(
    ("option", "split"), [("per_class", "training"), ("test_per_class", "test")]
)
def test_more_than_there_are_is_refused(option, split):
    _, load = made(train=300, test=300, **{option: 101})
    with pytest.raises(
        penchant.Error,
        match=f"^{option} must be at most 100, the {split} samples of class 0, found 101",
    ):
        load()


def test_random_labels_change_labels_only():
    _, clean = made(per_class=50)
    _, half = made(per_class=50, random_labels=0.5)
    assert torch.equal(clean().train.inputs, half().train.inputs)
    assert torch.equal(clean().test.labels, half().test.labels)
    assert half().conventions["random labels"].startswith("0.5 of the training labels")


def test_random_labels_are_as_many_as_asked_for_and_uniform():
    size = 30000
    truth = pixels(size, side=2)
    source = Source(truth, pixels(3), CLASSES, 255, {})
    generator = torch.Generator(device="cpu").manual_seed(0)
    labels = prepare(Digits(random_labels=0.4), source, generator).train.labels
    changed = (labels != truth.labels).sum().item()
    assert abs(changed - 0.4 * size * 2 / 3) / (0.4 * size * 2 / 9) ** 0.5 < stats.norm.isf(
        0.005 / 2
    )
    full = prepare(
        Digits(random_labels=1.0), source, torch.Generator(device="cpu").manual_seed(0)
    ).train.labels
    table = torch.zeros(CLASSES, CLASSES, device="cpu").index_put_(
        (truth.labels, full), torch.ones(size, device="cpu"), accumulate=True
    )
    assert stats.chi2_contingency(table.numpy()).pvalue > 0.005
    assert stats.chisquare(full.bincount().numpy()).pvalue > 0.005


def test_a_larger_share_of_random_labels_contains_the_smaller():
    truth = made()[1]().train.labels
    quarter, half = (made(random_labels=share)[1]().train.labels for share in (0.25, 0.5))
    assert torch.equal(quarter[quarter != truth], half[quarter != truth])


def test_padding_keeps_the_image_in_the_middle():
    plain, padded = made()[1](), made(pad=9)[1]()
    assert padded.shape == (1, 9, 9)
    assert torch.equal(padded.train.inputs[:, :, 1:7, 1:7], plain.train.inputs)
    torch.testing.assert_close(padded.train.inputs.sum(), plain.train.inputs.sum())
    with pytest.raises(
        penchant.Error, match="pad must be at least the side of the images, 6, found 5"
    ):
        made(pad=5)[1]()


@pytest.mark.parametrize("side", [3, 6, 12])
def test_resizing_keeps_range_and_mean(side):
    plain, resized = made()[1](), made(resize=side)[1]()
    assert resized.shape == (1, side, side)
    assert resized.train.inputs.min() >= 0 and resized.train.inputs.max() <= 1
    assert abs(resized.train.inputs.mean() - plain.train.inputs.mean()) < 0.01


def test_resizing_keeps_constant_images():
    flat = Pixels(
        torch.full((3, 1, 6, 6), 51, device="cpu", dtype=torch.uint8), torch.arange(3, device="cpu")
    )
    data = prepare(
        Digits(resize=11),
        Source(flat, flat, 3, 255, {}),
        torch.Generator(device="cpu").manual_seed(0),
    )
    torch.testing.assert_close(data.train.inputs, torch.full((3, 1, 11, 11), 0.2, device="cpu"))


def test_grayscale_is_luma_and_leaves_gray_alone():
    source, load = made(channels=3, grayscale=True)
    r, g, b = (source.train.images / 255.0).unbind(1)
    torch.testing.assert_close(load().train.inputs[:, 0], 0.299 * r + 0.587 * g + 0.114 * b)
    assert torch.equal(made(grayscale=True)[1]().train.inputs, made()[1]().train.inputs)


def test_standardising_uses_the_training_samples():
    data, plain = (
        made(channels=3, standardize=True, per_class=50)[1](),
        made(channels=3, per_class=50)[1](),
    )
    mean, std = plain.train.inputs.mean((0, 2, 3)), plain.train.inputs.std((0, 2, 3), correction=0)
    torch.testing.assert_close(
        data.train.inputs.mean((0, 2, 3)), torch.zeros(3, device="cpu"), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        data.train.inputs.std((0, 2, 3), correction=0), torch.ones(3, device="cpu")
    )
    torch.testing.assert_close(
        data.test.inputs * std[:, None, None] + mean[:, None, None], plain.test.inputs
    )


def test_standardising_leaves_a_constant_channel_finite():
    flat = Pixels(
        torch.full((3, 1, 2, 2), 7, device="cpu", dtype=torch.uint8), torch.arange(3, device="cpu")
    )
    data = prepare(
        Digits(standardize=True),
        Source(flat, flat, 3, 255, {}),
        torch.Generator(device="cpu").manual_seed(0),
    )
    assert not data.train.inputs.any()


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    made(per_class=10, random_labels=0.5)[1]()
    assert torch.equal(before, torch.random.get_rng_state())
