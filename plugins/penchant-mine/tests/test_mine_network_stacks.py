"""Trainings side by side give the numbers of each alone, and those of loops written by hand."""

from dataclasses import replace

import penchant
import pytest
import torch
from penchant_mine.bidirectional_reconstruction.bidirectional import AliRecipe, Model, train_models
from penchant_mine.information_bottleneck.bottleneck import (
    ROWS,
    BottleneckRecipe,
    Classifier,
    NoisyStatistics,
    train_rows,
)
from penchant_mine.shared.generative.gan import (
    GanRecipe,
    Players,
    adaptively_clipped,
    draw_prior,
    train_gans,
)
from penchant_mine.shared.generative.network_stacks import stack_networks, write_back
from penchant_mine.shared.generative.networks import Joined, perceptron
from penchant_numerics.training import constructed
from torch import nn
from torch.nn import functional

STEPS = 12
RECIPE = GanRecipe(
    steps=STEPS,
    batch=20,
    learning_rate=1e-3,
    beta=1.0,
    noise_inputs=2,
    code=1,
    prior="uniform",
    ema=0.1,
)
ALI = AliRecipe(STEPS, 20, 1e-3, 1.0, 1.0, 2, 1, 0.1, "encoder")
CLOSE = {"rtol": 1e-8, "atol": 1e-8}  # rounding, after a dozen steps of Adam


@pytest.fixture(autouse=True)
def double_precision():
    """Adam divides by the size of a gradient, and so enlarges the rounding of single precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def generator(seed):
    return torch.Generator(device="cpu").manual_seed(seed)


def points():
    return torch.randn(200, 2, generator=generator(99), device="cpu")


def gan(seed, *, informed, batch_norm):
    makers = (
        lambda: perceptron([3, 16, 16, 2], batch_norm=batch_norm),
        lambda: perceptron([2, 16, 1], activation="relu"),
        lambda: Joined([3, 16, 1], activation="elu"),
    )
    made = [constructed(make, seed + number) for number, make in enumerate(makers)]
    return Players(*made[: 2 + informed], *([] if informed else [None]))


def state(*networks):
    """Parameters and running statistics; without counts of batches."""
    tensors = {}
    for number, network in enumerate(networks):
        for name, tensor in network.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                tensors[f"{number}.{name}"] = tensor.clone()
    return tensors


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("information", ["none", "code", "independent"])
def test_stacked_gans_are_each_as_if_alone(information, batch_norm):
    informed = information != "none"
    recipe = replace(RECIPE, information_with=information if informed else "code")

    def make():
        return [gan(10 * n, informed=informed, batch_norm=batch_norm) for n in range(3)]

    def networks(players):
        return [each for each in vars(players).values() if each is not None]

    begun = make()
    before = [state(*networks(each)) for each in begun]
    together = train_gans(begun, points(), recipe, [generator(n) for n in range(3)])
    for number, alone in enumerate(make()):
        (information_alone,) = train_gans([alone], points(), recipe, [generator(number)])
        found = state(*networks(begun[number]))
        expected = state(*networks(alone))
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], **CLOSE)
            # A bias before a batch norm has no gradient but rounding.
            if name.endswith("weight"):
                assert not torch.allclose(found[name], before[number][name], **CLOSE)
        assert together[number] == pytest.approx(information_alone, rel=1e-8)


def test_a_stacked_gan_is_the_loop_written_by_hand():
    """The thesis's algorithm with torch alone: no stack, no passes shared, no fused Adam."""
    data = points()
    begun = [gan(10 * n, informed=True, batch_norm=False) for n in range(2)]
    train_gans(begun, data, RECIPE, [generator(n) for n in range(2)])
    own = gan(10, informed=True, batch_norm=False)
    stream = generator(1)
    optimizers = {
        name: torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.5, 0.999))
        for name, network in vars(own).items()
    }
    average = None
    for _ in range(STEPS):
        real = data[torch.randint(200, (20,), generator=stream, device="cpu")]
        latent = draw_prior(20, 3, "uniform", stream, torch.device("cpu"))
        fake, code = own.generator(latent), latent[:, 2:]
        one, zero = torch.ones(20, 1, device="cpu"), torch.zeros(20, 1, device="cpu")
        judged = functional.binary_cross_entropy_with_logits
        loss = judged(own.discriminator(real), one) + judged(own.discriminator(fake.detach()), zero)
        optimizers["discriminator"].zero_grad()
        loss.backward()
        optimizers["discriminator"].step()

        joint = own.statistics(fake.detach(), code)
        denominator = own.statistics(fake.detach(), code.roll(1, 0)).exp().mean()
        newest = denominator.detach()
        average = newest if average is None else 0.9 * average + 0.1 * newest
        optimizers["statistics"].zero_grad()
        (denominator / average - joint.mean()).backward()
        optimizers["statistics"].step()

        parameters = list(own.generator.parameters())
        loss = judged(own.discriminator(fake), one)
        adversarial = torch.autograd.grad(loss, parameters, retain_graph=True)
        lower = own.statistics(fake, code).mean()
        lower = lower - own.statistics(fake, code.roll(1, 0)).exp().mean().log()
        informative = torch.autograd.grad(-lower, parameters)
        lengths = [
            torch.cat([each.flatten() for each in gradients]).norm()
            for gradients in (adversarial, informative)
        ]
        factor = min(lengths) / lengths[1]
        for parameter, first, second in zip(parameters, adversarial, informative):
            parameter.grad = first + factor * second
        optimizers["generator"].step()
    for name, network in vars(own).items():
        found = getattr(begun[1], name)
        for a, b in zip(found.parameters(), network.parameters()):
            torch.testing.assert_close(a, b, **CLOSE)


def model(seed, variant):
    makers = {
        "encoder": lambda: Joined([3, 16, 2]),
        "decoder": lambda: perceptron([2, 16, 2], batch_norm=True),
        "discriminator": lambda: Joined([4, 16, 1]),
        "statistics": lambda: Joined([4, 16, 1]),
        "pair_discriminator": lambda: Joined([4, 16, 1]),
    }
    if variant != "mine":
        del makers["statistics"]
    if variant != "alice-adversarial":
        del makers["pair_discriminator"]
    return Model(**{name: constructed(make, seed) for name, make in makers.items()})


@pytest.mark.parametrize("variant", ["ali", "alice-l2", "alice-adversarial", "mine"])
def test_stacked_models_are_each_as_if_alone(variant):
    begun = [model(number, variant) for number in range(3)]
    train_models(begun, variant, points(), ALI, [generator(n) for n in range(3)])
    for number in range(3):
        alone = model(number, variant)
        train_models([alone], variant, points(), ALI, [generator(number)])
        expected, found = state(*alone.networks()), state(*begun[number].networks())
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], **CLOSE)


def bottleneck(seed, row):
    classifier = constructed(lambda: Classifier(row, 4, [8], 3, 2, propagated=2), seed)
    statistics = constructed(lambda: NoisyStatistics(7, 5), seed + 1)
    return classifier, statistics if row.regulariser == "mine" else None


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("polyak", [None, 0.5])
def test_stacked_bottlenecks_are_each_as_if_alone(name, polyak):
    """The last batch of an epoch is a smaller one."""
    recipe = BottleneckRecipe(2, 15, 1e-3, 0.97, 0.1, 0.5, 0.3, 0.1, polyak=polyak)
    x = torch.randn(70, 4, generator=generator(98), device="cpu")
    labels = (x[:, 0] > 0).long()

    def trained(seeds):
        classifiers, statistics = zip(*(bottleneck(seed, ROWS[name]) for seed in seeds))
        judges = statistics if statistics[0] is not None else None
        streams = [generator(seed) for seed in seeds]
        train_rows(classifiers, judges, x, labels, recipe, streams)
        return [state(*filter(None, pair)) for pair in zip(classifiers, statistics)]

    together = trained([0, 10, 20])
    begun = state(bottleneck(10, ROWS[name])[0])
    assert not torch.allclose(together[1]["0.decoder.weight"], begun["0.decoder.weight"], **CLOSE)
    for seed, found in zip([0, 10, 20], together):
        (expected,) = trained([seed])
        for key in expected:
            torch.testing.assert_close(found[key], expected[key], **CLOSE)


def test_a_clip_is_that_of_each_networks_own_gradient():
    generators = [generator(n) for n in (0, 1)]
    sizes = ((2, 3, 4), (2, 5))
    adversarial = [torch.randn(size, generator=generators[0], device="cpu") for size in sizes]
    informative = [torch.randn(size, generator=generators[1], device="cpu") for size in sizes]
    # The first network's is shorter than its adversarial one, the second's a hundred times as long.
    informative = [torch.stack([0.01 * each[0], 100 * each[1]]) for each in informative]
    clipped = adaptively_clipped(adversarial, informative, networks=2)
    for number in (0, 1):
        own = adaptively_clipped(
            [each[number] for each in adversarial], [each[number] for each in informative]
        )
        for a, b in zip(clipped, own):
            torch.testing.assert_close(a[number], b)
    torch.testing.assert_close(clipped[0][0], informative[0][0])
    length = torch.cat([each[1].flatten() for each in clipped]).norm()
    limit = torch.cat([each[1].flatten() for each in adversarial]).norm()
    torch.testing.assert_close(length, limit)


def test_networks_are_given_what_their_stack_has_learnt():
    networks = [constructed(lambda: perceptron([2, 4, 1], batch_norm=True), n) for n in range(2)]
    stack = stack_networks(networks)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.add_(1.0)
    write_back(stack)
    x = torch.randn(2, 6, 2, generator=generator(0), device="cpu")
    expected = torch.stack([network(own) for network, own in zip(networks, x)])
    torch.testing.assert_close(stack(x), expected)


def test_images_of_perceptrons_keep_their_shape():
    networks = [
        nn.Sequential(*perceptron([3, 5, 8]), nn.Tanh(), nn.Unflatten(1, (2, 2, 2)))
        for _ in range(2)
    ]
    z = torch.randn(2, 6, 3, generator=generator(0), device="cpu")
    expected = torch.stack([network(own) for network, own in zip(networks, z)])
    torch.testing.assert_close(stack_networks(networks)(z), expected)


def test_layers_that_cannot_be_stacked_are_named():
    with pytest.raises(TypeError, match="found Conv2d"):
        stack_networks([nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3)])


@pytest.mark.parametrize("probe", ["gan-modes", "bidirectional-reconstruction"])
def test_a_probe_gives_every_training_its_row(probe, monkeypatch):
    """Networks wider than the limit are trained alone, with the same random numbers."""
    torch.set_default_dtype(torch.float32)
    options = {"steps": 3, "trainings": 3, "samples": 200, "generator": [8], "discriminator": [8]}
    found = []
    for widest in (8, 7):
        monkeypatch.setattr("penchant_mine.shared.generative.network_stacks.WIDEST", widest)
        data = {"name": "twenty-five-gaussians", "train": 1000, "test": 200}
        found.append(penchant.measure(probe, dataset=data, executor="serial", **options))
    together, alone = found
    assert together.quantities.keys() == alone.quantities.keys()
    for name, quantity in alone.quantities.items():
        # Rounding moves a sample across a border here and there.
        close = pytest.approx(quantity.value, rel=1e-3, abs=0.01, nan_ok=True)
        assert together.quantities[name].value == close
    for name, array in alone.arrays.items():
        assert together.arrays[name] == pytest.approx(array, rel=1e-2, abs=1e-3)
