"""The applications: clipping, modes, reconstructions, bottlenecks, MS-SSIM."""

import math
import types
from dataclasses import replace

import numpy as np
import penchant_testing as testing
import pytest
import torch
from penchant_mine.bidirectional_reconstruction.bidirectional import (
    AliRecipe,
    Batch,
    Model,
    _add_information,
    train_models,
)
from penchant_mine.bidirectional_reconstruction.ms_ssim import ms_ssim, scales_for
from penchant_mine.bidirectional_reconstruction.probe import _modes as counted_modes
from penchant_mine.bidirectional_reconstruction.probe import _point_makers
from penchant_mine.declarations.generative import BidirectionalReconstruction, GanModes
from penchant_mine.gan_modes.gan_networks import gan_players
from penchant_mine.gan_modes.mode_judges import curve_judge, image_nulls
from penchant_mine.information_bottleneck.bottleneck import (
    ROWS,
    BottleneckRecipe,
    Classifier,
    NoisyStatistics,
    _Average,
    information_from_density,
    information_upper_bound,
    misclassified,
    train_rows,
)
from penchant_mine.shared import samples as sample_figures
from penchant_mine.shared.generative import networks as adversaries
from penchant_mine.shared.generative.gan import (
    GanRecipe,
    Players,
    adaptively_clipped,
    norms,
    train_gans,
)
from penchant_mine.shared.generative.modes import (
    coverage,
    digit_judge,
    normal_judge,
    train_digit_network,
)
from penchant_numerics.training import constructed


def generator(seed=0):
    return torch.Generator(device="cpu").manual_seed(seed)


def tensors(*values):
    return [torch.tensor(value, device="cpu") for value in values]


def test_adaptive_clip_on_gradients_made_by_hand():
    adversarial, informative = (
        tensors([3.0, 0.0], [[4.0]]),
        tensors([0.0, 6.0], [[8.0]]),
    )  # lengths 5 and 10
    clipped = adaptively_clipped(adversarial, informative)
    assert float(norms(clipped)) == pytest.approx(5.0)
    assert torch.allclose(clipped[0], torch.tensor([0.0, 3.0], device="cpu")) and float(
        clipped[1]
    ) == pytest.approx(4.0)
    shorter = adaptively_clipped(informative, adversarial)
    assert all(torch.equal(a, b) for a, b in zip(shorter, adversarial))  # never made longer
    nothing = adaptively_clipped(adversarial, tensors([0.0, 0.0], [[0.0]]))
    broken = adaptively_clipped(adversarial, tensors([math.inf, 1.0], [[math.nan]]))
    assert norms(nothing) == 0 and norms(broken) == 0
    assert norms(adaptively_clipped(tensors([0.0, 0.0], [[0.0]]), informative)) == 0


def test_norm_is_over_the_whole_generator_not_layer_by_layer():
    clipped = adaptively_clipped(tensors([1.0], [1.0]), tensors([10.0], [0.0]))
    assert float(clipped[0]) == pytest.approx(math.sqrt(2)) and float(clipped[1]) == 0


def test_modes_and_kl_by_hand():
    share = torch.full((4,), 0.25, device="cpu", dtype=torch.float64)
    half = torch.tensor([0, 0, 1, 1, -1, -1, -1, -1], device="cpu")
    assert coverage(half, share, captured=0.25) == {
        "modes": 2.0,
        "modes-covered": 2.0,
        "modes-seen": 2.0,
        "kl": pytest.approx(math.log(2)),
        "quality": 0.5,
        "fullest": 0.5,
    }
    none = torch.full((5,), -1, device="cpu")
    assert coverage(none, share, captured=0.25)["kl"] == pytest.approx(math.log(4))
    all_four = coverage(torch.arange(4, device="cpu"), share, captured=1.0)
    assert all_four["kl"] == pytest.approx(0) and all_four["modes"] == 4


def test_a_cloud_that_touches_every_mode_captures_none():
    share = torch.full((25,), 0.04, device="cpu", dtype=torch.float64)
    touched = torch.full((2000,), -1, device="cpu")
    touched[:250] = torch.arange(250, device="cpu") % 25  # 10 of the 80 that are due
    found = coverage(touched, share, captured=0.25)
    assert found["modes-seen"] == 25 and found["modes"] == 0
    assert found["modes-covered"] == 25  # evenly spread where there are any: not sharp
    assert found["kl"] == pytest.approx(0) and found["quality"] == 0.125


def test_twenty_five_gaussians_are_all_found_and_what_lies_between_is_not():
    data = testing.dataset("twenty-five-gaussians:train=5000")
    judge = normal_judge(data.train.inputs, data.train.labels, 25)
    found = judge(data.test.inputs)
    inside = found >= 0
    assert inside.double().mean() > 0.995 and torch.equal(found[inside], data.test.labels[inside])
    assert (judge(data.test.inputs + 0.5) == -1).all()


def test_pieces_of_a_spiral_are_found_by_the_distance_to_its_arm():
    data = testing.dataset("spiral:train=20000,test=4000,turns=2.5")
    judge = curve_judge(data.train.inputs, data.train.labels[:, 0], 20)
    found = judge(data.test.inputs)
    inside = found >= 0
    # Three standard deviations of a normal distance.
    assert float(inside.double().mean()) == pytest.approx(0.9973, abs=0.004)
    piece = data.test.labels[:, 0].argsort().argsort() * 20 // 4000
    away = (found - piece).abs()[inside]
    # Noise moves some over the end of a piece, the most where these are short.
    assert float((away == 0).double().mean()) > 0.8 and int(away.max()) <= 1
    # Half-way between two turns of the arm, and with the exact distance in the closed form.
    along = torch.linspace(0.5, 0.85, 50, device="cpu")
    angle = 2 * math.pi * 2.5 * along
    between = (2 * along + 0.4)[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    assert (judge(between) == -1).all()
    on_arm = 2 * along[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    assert (judge(on_arm) >= 0).all()


def test_a_curve_needs_samples_in_every_piece():
    points = torch.rand(50, 2, generator=generator(), device="cpu")
    with pytest.raises(ValueError, match="expected at least 100 samples along the curve, found 50"):
        curve_judge(points, points[:, 0], 20)


def test_images_without_digits():
    images = torch.rand(30, 2, 5, 5, generator=generator(), device="cpu") * 2 - 1
    nulls = image_nulls(images, 12, generator(1))
    assert set(nulls) == {"noise", "permuted", "mean-of-two"}
    assert all(each.shape == (12, 2, 5, 5) and each.abs().max() <= 1 for each in nulls.values())
    # The pixels of a channel stay those of one image.
    whole = {tuple(each.flatten().sort().values.tolist()) for each in images.flatten(0, 1)}
    for each in nulls["permuted"].flatten(0, 1):
        assert tuple(each.flatten().sort().values.tolist()) in whole
    sums = (images[:, None] + images) / 2
    distances = (sums.flatten(0, 1)[None] - nulls["mean-of-two"][:, None]).abs().amax((2, 3, 4))
    assert float(distances.amin(1).max()) < 1e-6


@pytest.mark.parametrize("where", ["generator", "discriminator"])
def test_normalisation_of_each_network_is_an_option(where):
    for shape in ((2,), (3, 8, 8)):
        options = {
            "channels": (4, 4),
            "generator": (8,),
            "discriminator": (8,),
            "statistics": (6,),
            "statistics_channels": (3,),
            "generator_channels": (5, 7),
            "hidden": None,
        }
        counts = []
        for kind in ("batch", "none"):
            bound = GanModes(**options, **{f"{where}_normalization": kind})
            players = gan_players(bound, shape, 0, torch.device("cpu"), informed=True)
            norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
            network = getattr(players, where)
            counts.append(sum(isinstance(each, norms) for each in network.modules()))
        assert counts[0] > 0 and counts[1] == 0
        widths = [each.shape[0] for each in players.statistics.parameters() if each.ndim > 1]
        assert widths[0] == (6 if len(shape) == 1 else 3)


@pytest.mark.parametrize("kind", ["batch", "none"])
def test_networks_of_points_of_a_bidirectional_model_have_the_chosen_layers(kind):
    options = BidirectionalReconstruction(
        activation="relu", generator_normalization=kind, generator=(4,), discriminator=(4,)
    )
    made = {name: make() for name, make in _point_makers(options, (2,), 2).items()}
    layers = {name: [*network.modules()] for name, network in made.items()}
    for found in layers.values():
        assert any(isinstance(each, torch.nn.ReLU) for each in found)
        assert not any(isinstance(each, torch.nn.LeakyReLU) for each in found)
    norms = [each for each in layers["decoder"] if isinstance(each, torch.nn.BatchNorm1d)]
    assert len(norms) == (kind == "batch")


def test_spiral_lies_on_its_arm():
    data = testing.dataset("spiral:train=400,noise_std=0.0")
    along = data.train.labels[:, 0]
    assert torch.allclose(data.train.inputs.norm(dim=1), 2 * along, atol=1e-5)
    assert data.classes == 0


def test_gan_learns_one_blob_and_only_its_generator_hears_of_information():
    recipe = GanRecipe(
        steps=150,
        batch=64,
        learning_rate=2e-3,
        beta=1.0,
        noise_inputs=1,
        code=1,
        prior="normal",
        ema=0.05,
    )
    makers = (
        lambda: adversaries.perceptron([2, 32, 2], batch_norm=True),
        lambda: adversaries.perceptron([2, 32, 1]),
        lambda: adversaries.Joined([3, 32, 1]),
    )
    players = Players(*(constructed(make, number) for number, make in enumerate(makers)))
    data = torch.randn(500, 2, generator=generator(), device="cpu") * 0.5 + 1
    before = torch.random.get_rng_state()
    (information,) = train_gans([players], data, recipe, [generator(1)])
    assert torch.equal(before, torch.random.get_rng_state())
    with torch.no_grad():
        made = players.generator(torch.randn(1000, 2, generator=generator(2), device="cpu"))
    assert float((made.mean(0) - 1).norm()) < 0.7
    assert information > 0.1


def trained_gan(device, steps):
    recipe = GanRecipe(
        steps=steps,
        batch=16,
        learning_rate=2e-3,
        beta=1.0,
        noise_inputs=1,
        code=1,
        prior="uniform",
        ema=0.05,
    )
    makers = (
        lambda: adversaries.perceptron([2, 8, 2]),
        lambda: adversaries.perceptron([2, 8, 1]),
        lambda: adversaries.Joined([3, 8, 1]),
    )
    made = [constructed(make, number).to(device) for number, make in enumerate(makers)]
    data = torch.randn(50, 2, generator=generator(), device="cpu").to(device)
    (information,) = train_gans([Players(*made)], data, recipe, [generator(1)])
    return information


def test_information_of_a_short_training_is_that_of_its_last_step():
    """The last tenth of three steps is no step, and was reported as 0 without an error."""
    assert trained_gan("cpu", 3) != 0


def test_a_step_of_a_gan_waits_for_nothing():
    """The budget of the loop: neither a number is read nor noise is sent in any step."""
    waits = []
    for steps in (3, 6):
        with testing.emulated_device() as counts:
            found = trained_gan("emulated", steps)
        waits.append(counts.by_kind())
        assert found == pytest.approx(trained_gan("cpu", steps), rel=1e-4)
    assert waits[0] == waits[1]


@pytest.mark.parametrize("name", ["dropout", "variational-noise", "mine-propagated"])
def test_a_step_of_a_bottleneck_waits_for_nothing(name):
    recipe = BottleneckRecipe(1, 10, 1e-3, 0.97, 1e-3, 0.5, 0.1, 0.1)

    def trained(device, samples):
        row = ROWS[name]
        make = lambda: Classifier(row, 4, [6], 3, 2, propagated=2)  # noqa: E731
        network = constructed(make, 0).to(device)
        informant = None
        if row.regulariser == "mine":
            informant = [constructed(lambda: NoisyStatistics(7, 5), 1).to(device)]
        x = torch.randn(samples, 4, generator=generator(), device="cpu").to(device)
        labels = (torch.arange(samples, device="cpu") % 2).to(device)
        train_rows([network], informant, x, labels, recipe, [generator(2)])
        return torch.cat([each.detach().cpu().flatten() for each in network.parameters()])

    waits = []
    for samples in (20, 40):
        with testing.emulated_device() as counts:
            found = trained("emulated", samples)
        waits.append(counts.by_kind())
        assert torch.allclose(found, trained("cpu", samples), atol=1e-5)
    assert waits[0] == waits[1]


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_information_is_of_the_pairs_of_the_chosen_side(side):
    makers = (
        adversaries.Joined([3, 8, 1]),
        adversaries.perceptron([1, 8, 2]),
        adversaries.Joined([3, 8, 1]),
        adversaries.Joined([3, 8, 1]),
    )
    model = Model(*makers)
    x, z = (
        torch.randn(6, 2, generator=generator(), device="cpu"),
        torch.randn(6, 1, generator=generator(1), device="cpu"),
    )
    batch = Batch(x[None], z[None], model.infer(x, generator(2), 1)[None], model.decoder(z)[None])
    recipe = AliRecipe(1, 6, 1e-3, 1.0, 1.0, 1, 1, 0.1, side)
    score = model.statistics(*(each[0] for each in batch.informed(recipe))).sum()
    moved = {
        name: any(
            g is not None
            for g in torch.autograd.grad(
                score, list(network.parameters()), allow_unused=True, retain_graph=True
            )
        )
        for name, network in (("encoder", model.encoder), ("decoder", model.decoder))
    }
    assert moved == {"encoder": side == "encoder", "decoder": side == "decoder"}
    kept = [each for each in vars(batch.detached()).values() if each is not None]
    assert len(kept) == 4 and not any(each.requires_grad for each in kept)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_information_is_clipped_to_the_gradient_of_the_side_that_it_is_of(side):
    """The other network's gradient, a hundred times as long here, has nothing to do with it."""
    model = Model(
        *(
            constructed(make, number)
            for number, make in enumerate(
                (
                    lambda: adversaries.Joined([3, 8, 1]),
                    lambda: adversaries.perceptron([1, 8, 2]),
                    lambda: adversaries.Joined([3, 8, 1]),
                    lambda: adversaries.Joined([3, 8, 1]),
                )
            )
        )
    )
    informed, other = model.encoder, model.decoder
    if side == "decoder":
        informed, other = other, informed
    for network, length in ((informed, 1e-3), (other, 1.0)):
        for parameter in network.parameters():
            parameter.grad = torch.full_like(parameter, length)
    before = float(norms([each.grad for each in informed.parameters()]))
    x = torch.randn(6, 2, generator=generator(), device="cpu")
    z = torch.randn(6, 1, generator=generator(1), device="cpu")
    batch = Batch(x[None], z[None], model.infer(x, generator(2), 1)[None], model.decoder(z)[None])
    recipe = AliRecipe(1, 6, 1e-3, 1.0, 1.0, 1, 1, 0.1, side)
    scores = model.statistics(*(each[0] for each in batch.informed(recipe)))
    _add_information(model, recipe, 100 * scores.sum())
    added = [each.grad - 1e-3 for each in informed.parameters()]
    assert float(norms(added)) == pytest.approx(before, rel=1e-3)
    assert all((each.grad == 1).all() for each in other.parameters())


def test_the_weight_of_the_information_changes_what_the_encoder_learns():
    recipe = AliRecipe(
        steps=3,
        batch=20,
        learning_rate=1e-3,
        beta=1.0,
        weight=1.0,
        latent=1,
        noise_inputs=1,
        ema=0.1,
        information_of="encoder",
    )
    networks = (lambda: adversaries.Joined([3, 8, 1]), lambda: adversaries.perceptron([1, 8, 2]))
    data = torch.randn(100, 2, generator=generator(), device="cpu")
    trained = {}
    for beta in (0.0, 1.0):
        model = Model(*(constructed(networks[number == 1], number) for number in range(4)))
        train_models([model], "mine", data, replace(recipe, beta=beta), [generator(5)])
        trained[beta] = model.encoder.layers[0].weight.detach()
    assert not torch.equal(trained[0.0], trained[1.0])


@pytest.mark.parametrize("side", [8, 28, 64])
def test_image_networks_fit_together(side):
    shape, channels = (3, side, side), (4, 8, 16)
    z = torch.randn(2, 5, generator=generator(), device="cpu")
    image = adversaries.Upwards(5, shape, channels)(z)
    assert image.shape == (2, *shape) and image.abs().max() <= 1
    assert adversaries.Downwards(shape, channels, 1)(image).shape == (2, 1)
    assert adversaries.Downwards(shape, channels, 7, maps=5, hidden=6)(image, z).shape == (2, 7)
    assert adversaries.Downwards(shape, channels, 1, joined=5, hidden=6)(image, z).shape == (2, 1)
    assert adversaries.ConditionedScores(shape, 5, channels, 4, "elu")(image, z).shape == (2, 1)


def test_published_networks_have_the_published_maps():
    up = adversaries.Upwards(100, (3, 28, 28), (64, 128, 256, 512))
    sizes, x = [], up.project(torch.zeros(2, 100, device="cpu")).reshape(-1, *up.start)
    sizes.append(tuple(x.shape[1:]))
    for layer in up.layers:
        x = layer(x)
        if isinstance(layer, torch.nn.ConvTranspose2d):
            sizes.append(tuple(x.shape[1:]))
    assert sizes == [(512, 2, 2), (256, 4, 4), (128, 7, 7), (64, 14, 14), (3, 28, 28)]  # table C.1


def test_ms_ssim():
    image = torch.rand(3, 1, 28, 28, generator=generator(), device="cpu", dtype=torch.float64)
    same, scales = ms_ssim(image, image, span=1.0)
    assert scales == 2 and torch.allclose(same, torch.ones_like(same))
    noisy = [
        float(
            ms_ssim(
                image,
                image + s * torch.randn(image.shape, generator=generator(1), device="cpu"),
                span=1.0,
            )[0].mean()
        )
        for s in (0.05, 0.2, 0.8)
    ]
    assert 1 > noisy[0] > noisy[1] > noisy[2] > 0
    assert [scales_for(side) for side in (8, 11, 28, 64, 176)] == [0, 1, 2, 3, 5]
    with pytest.raises(ValueError, match="at least 11 x 11, found 8 x 8"):
        ms_ssim(image[..., :8, :8], image[..., :8, :8], span=1.0)


def test_similarity_in_one_window_is_the_textbook_formula():
    a, b = torch.rand(2, 1, 1, 11, 11, generator=generator(), device="cpu", dtype=torch.float64)
    offsets = torch.arange(11, device="cpu", dtype=torch.float64) - 5
    w = torch.exp(-(offsets[:, None] ** 2 + offsets**2) / (2 * 1.5**2))
    w = w / w.sum()
    ma, mb = (w * a).sum(), (w * b).sum()
    va, vb, cab = (
        (w * (a - ma) ** 2).sum(),
        (w * (b - mb) ** 2).sum(),
        (w * (a - ma) * (b - mb)).sum(),
    )
    expected = (2 * ma * mb + 1e-4) * (2 * cab + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))
    found, scales = ms_ssim(a, b, span=1.0)
    assert scales == 1 and float(found) == pytest.approx(max(0.0, float(expected)), abs=1e-9)


def test_information_from_density_of_a_normal_channel():
    x = torch.randn(2000, 1, generator=generator(), device="cpu", dtype=torch.float64)
    sigma = torch.full_like(x, 0.7)
    z = x + sigma * torch.randn(2000, 1, generator=generator(1), device="cpu", dtype=torch.float64)
    value, error = information_from_density(z, x, sigma)
    assert abs(value - 0.5 * math.log(1 + 1 / 0.49)) < 4 * error + 0.01
    apart = torch.linspace(-1, 1, 2000, device="cpu", dtype=torch.float64)[:, None]
    certain, error = information_from_density(apart, apart, torch.full_like(apart, 1e-6))
    assert certain == pytest.approx(math.log(2000), abs=1e-3)
    assert error > 1e-4  # at its ceiling, too, it is not known to the last digit


def test_upper_bound_of_a_normal_channel_is_its_information_and_else_above_it():
    x = torch.randn(4000, 2, generator=generator(), device="cpu", dtype=torch.float64)
    sigma = torch.full_like(x, 0.7)
    truth = math.log(1 + 1 / 0.49)  # of two channels
    value, error = information_upper_bound(x, sigma)
    assert abs(value - truth) < 4 * error
    signs = x[:2000].sign()  # a mixture of normals, whose information is at most log 4
    bound, _ = information_upper_bound(signs, torch.full_like(signs, 0.1))
    noise = torch.randn(2000, 2, generator=generator(1), device="cpu", dtype=torch.float64)
    exact, _ = information_from_density(signs + 0.1 * noise, signs, torch.full_like(signs, 0.1))
    assert exact == pytest.approx(math.log(4), abs=0.01) and bound > 2 * exact


def test_classifier_of_stacked_digits_counts_them():
    images = torch.zeros(400, 2, 8, 8, device="cpu")
    digits = torch.randint(10, (400, 2), generator=generator(), device="cpu")
    for number, pair in enumerate(digits.tolist()):
        for channel, digit in enumerate(pair):
            images[number, channel, :, digit % 8] = 1.0 if digit < 8 else -1.0
    labels = digits[:, 0] * 10 + digits[:, 1]
    network, accuracy = train_digit_network(
        images, labels, steps=60, channels=(8, 8), generator=generator(1)
    )
    assert accuracy > 0.9
    assert (digit_judge(network)(images) == labels).double().mean() > 0.9


@pytest.mark.parametrize("name", list(ROWS))
def test_every_encoder_draws_as_it_says(name):
    recipe = BottleneckRecipe(1, 10, 1e-3, 1.0, 1e-3, 0.5, 0.3, 0.01)
    row = ROWS[name]
    classifier = constructed(lambda: Classifier(row, 6, (8,), 3, 4, propagated=2), 0)
    x = torch.randn(5, 6, generator=generator(), device="cpu")
    draws = [classifier.encode(x, recipe, generator(seed))[0] for seed in (1, 2)]
    noisy = row.encoder != "plain"
    assert draws[0].shape == (5, 3) and torch.equal(*draws) == (not noisy)
    trained = [classifier.encode(x, recipe, generator(seed), training=True)[0] for seed in (1, 2)]
    assert torch.equal(*trained) == (not noisy and name != "dropout")
    labels = classifier.decoder(draws[0]).argmax(1)
    if not noisy:
        assert not misclassified(classifier, x, labels, recipe, 1, generator()).any()


def test_averaged_weights_are_the_weighted_mean_of_those_of_every_step():
    network = torch.nn.Linear(1, 1, bias=False)
    average = _Average(network, 0.5)
    for value in (1.0, 4.0, 8.0):
        network.weight.data.fill_(value)
        average.add()
    average.apply()
    expected = (0.25 * 1.0 + 0.5 * 4.0 + 1.0 * 8.0) / (0.25 + 0.5 + 1.0)
    assert float(network.weight.detach()) == pytest.approx(expected)


def test_a_bottleneck_may_end_with_averaged_weights():
    recipe = BottleneckRecipe(1, 10, 1e-3, 0.97, 1e-3, 0.5, 0.1, 0.1)
    x = torch.randn(40, 4, generator=generator(), device="cpu")
    labels = torch.arange(40, device="cpu") % 2
    weights = {}
    for decay in (None, 0.0, 0.9):
        classifier = constructed(
            lambda: Classifier(ROWS["baseline"], 4, [6], 3, 2, propagated=2), 0
        )
        train_rows([classifier], None, x, labels, replace(recipe, polyak=decay), [generator(2)])
        weights[decay] = classifier.decoder.weight.detach()
    assert torch.allclose(weights[0.0], weights[None])  # of the last step alone
    assert not torch.allclose(weights[0.9], weights[None])


def test_modes_of_what_a_decoder_makes_are_those_of_the_data_or_fewer():
    data = testing.dataset({"name": "twenty-five-gaussians", "train": 1000, "test": 500})
    messages = []
    context = types.SimpleNamespace(
        data=data,
        device="cpu",
        options=BidirectionalReconstruction(),
        shared=classifier_weights(25),
        warn=messages.append,
    )
    test = data.test.inputs
    whole = counted_modes(context, test, data.train.inputs[:500])
    assert whole == {
        "modes": 25.0,
        "null-modes": 25.0,
        "modes-covered": 25.0,
        "null-modes-covered": 25.0,
        "quality": pytest.approx(1.0, abs=0.01),
        "null-quality": pytest.approx(1.0, abs=0.01),
    }
    one = counted_modes(context, test, data.train.inputs[:1].expand(500, -1))
    assert one["modes"] == 1.0 and not messages
    # a mode without samples has no normal
    absent = data.train._replace(labels=data.train.labels.clamp(max=23))
    context.data = types.SimpleNamespace(train=absent, classes=25, shape=(2,))
    assert counted_modes(context, test, test) == {}
    assert "not counted: expected more than 2 samples of every mode, found 0" in messages[0]


def classifier_weights(classes):
    network = adversaries.perceptron([2, 128, 128, classes])
    return network.state_dict()


def test_stray_samples_do_not_shrink_the_data():
    data = np.array([[-1.0, 1.0], [1.0, -1.0]] * 50)
    away = np.concatenate([data, [[40.0, 0.0]] * 25])
    figure = sample_figures.samples({"data": data, "near": data, "away": away})
    assert {axes.get_xlim() for axes in figure.axes} == {(-2.3, 2.3)}
    said = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert said == [[], [], ["20% outside"]]
    # Without stray points the panels reach as far as all of them.
    figure = sample_figures.samples({"data": data, "wider": 1.5 * data})
    assert figure.axes[0].get_xlim()[1] == pytest.approx(1.15 * 1.5)
