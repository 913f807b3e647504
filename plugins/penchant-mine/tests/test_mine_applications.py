"""Parts of the applications: clipping, modes, reconstructions, bottlenecks, MS-SSIM."""

import math
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import penchant
import pytest
import torch
from penchant_mine import _adversaries as adversaries
from penchant_mine import celeba
from penchant_mine._adaptive_clip import adaptively_clipped, norm
from penchant_mine._bidirectional import AliRecipe, Batch, Model, train_model
from penchant_mine._bottleneck import (
    ROWS,
    BottleneckRecipe,
    Classifier,
    error_rate,
    information_from_density,
)
from penchant_mine._gan import GanRecipe, Players, train_gan
from penchant_mine._modes import coverage, digit_judge, normal_judge
from penchant_mine._msssim import ms_ssim, scales_for
from penchant_mine.datasets import load_spiral, load_twenty_five_gaussians
from penchant_mine.stacked_mnist import load, read, stack


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
    assert norm(clipped) == pytest.approx(5.0)
    assert torch.allclose(clipped[0], torch.tensor([0.0, 3.0], device="cpu")) and float(
        clipped[1]
    ) == pytest.approx(4.0)
    shorter = adaptively_clipped(informative, adversarial)
    assert all(torch.equal(a, b) for a, b in zip(shorter, adversarial))  # never made longer
    nothing = adaptively_clipped(adversarial, tensors([0.0, 0.0], [[0.0]]))
    broken = adaptively_clipped(adversarial, tensors([math.inf, 1.0], [[math.nan]]))
    assert norm(nothing) == 0 and norm(broken) == 0
    assert norm(adaptively_clipped(tensors([0.0, 0.0], [[0.0]]), informative)) == 0


def test_norm_is_over_the_whole_generator_not_layer_by_layer():
    clipped = adaptively_clipped(tensors([1.0], [1.0]), tensors([10.0], [0.0]))
    assert float(clipped[0]) == pytest.approx(math.sqrt(2)) and float(clipped[1]) == 0


def test_modes_and_kl_by_hand():
    share = torch.full((4,), 0.25, device="cpu", dtype=torch.float64)
    found = coverage(torch.tensor([0, 0, 1, 1, -1, -1, -1, -1], device="cpu"), 4, share)
    assert found == {"modes": 2.0, "kl": pytest.approx(math.log(2)), "quality": 0.5}
    assert coverage(torch.full((5,), -1, device="cpu"), 4, share)["kl"] == pytest.approx(
        math.log(4)
    )
    assert coverage(torch.arange(4, device="cpu"), 4, share)["kl"] == pytest.approx(0)


def test_twenty_five_gaussians_are_all_found_and_what_lies_between_is_not():
    data = load_twenty_five_gaussians(
        SimpleNamespace(samples=5000, sigma=0.05, spacing=1.0), generator()
    )
    judge = normal_judge(data.train.inputs, data.train.labels, 25)
    found = judge(data.test.inputs)
    inside = found >= 0
    assert inside.double().mean() > 0.995 and torch.equal(found[inside], data.test.labels[inside])
    assert (judge(data.test.inputs + 0.5) == -1).all()


def test_spiral_lies_on_its_arm():
    data = load_spiral(SimpleNamespace(samples=400, sigma=0.0, turns=1.5), generator())
    along = data.train.labels[:, 0]
    assert torch.allclose(data.train.inputs.norm(dim=1), 2 * along, atol=1e-5)
    assert data.classes == 0


def test_gan_learns_one_blob_and_only_its_generator_hears_of_information():
    recipe = GanRecipe(
        steps=150, batch=64, learning_rate=2e-3, beta=1.0, noise=1, code=1, prior="normal", ema=0.05
    )
    makers = (
        lambda: adversaries.perceptron([2, 32, 2], batch_norm=True),
        lambda: adversaries.perceptron([2, 32, 1]),
        lambda: adversaries.Joined([3, 32, 1]),
    )
    players = Players(
        *(
            adversaries.seeded(number, make, torch.device("cpu"))
            for number, make in enumerate(makers)
        )
    )
    data = torch.randn(500, 2, generator=generator(), device="cpu") * 0.5 + 1
    before = torch.random.get_rng_state()
    information = train_gan(players, data, recipe, generator(1))
    assert torch.equal(before, torch.random.get_rng_state())
    with torch.no_grad():
        made = players.generator(torch.randn(1000, 2, generator=generator(2), device="cpu"))
    assert float((made.mean(0) - 1).norm()) < 0.7
    assert information > 0.1


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
    inferred, again = model.reconstruct(x, generator(2), 1)
    batch = Batch(x, z, inferred, model.decoder(z), again)
    score = model.statistics(*batch.informed(side)).sum()
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
    assert not any(each.requires_grad for each in vars(batch.detached()).values())


def test_the_weight_of_the_information_changes_what_the_encoder_learns():
    recipe = AliRecipe(
        steps=3,
        batch=20,
        learning_rate=1e-3,
        beta=1.0,
        weight=1.0,
        latent=1,
        noise=1,
        ema=0.1,
        informed="encoder",
    )
    networks = (lambda: adversaries.Joined([3, 8, 1]), lambda: adversaries.perceptron([1, 8, 2]))
    data = torch.randn(100, 2, generator=generator(), device="cpu")
    trained = {}
    for beta in (0.0, 1.0):
        model = Model(
            *(
                adversaries.seeded(number, networks[number == 1], torch.device("cpu"))
                for number in range(4)
            )
        )
        train_model(model, "mine", data, replace(recipe, beta=beta), generator(5))
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
    certain, _ = information_from_density(apart, apart, torch.full_like(apart, 1e-6))
    assert certain == pytest.approx(math.log(2000), abs=1e-3)


@pytest.mark.parametrize("name", list(ROWS))
def test_every_encoder_draws_as_it_says(name):
    recipe = BottleneckRecipe(1, 10, 1e-3, 1.0, 1e-3, 1e-3, 0.1, 0.1, 0.5, 0.3, 0.01)
    row = ROWS[name]
    classifier = adversaries.seeded(
        0, lambda: Classifier(row, 6, (8,), 3, 4, extra=2), torch.device("cpu")
    )
    x = torch.randn(5, 6, generator=generator(), device="cpu")
    draws = [classifier.encode(x, recipe, generator(seed))[0] for seed in (1, 2)]
    noisy = row.encoder != "plain"
    assert draws[0].shape == (5, 3) and torch.equal(*draws) == (not noisy)
    trained = [classifier.encode(x, recipe, generator(seed), training=True)[0] for seed in (1, 2)]
    assert torch.equal(*trained) == (not noisy and name != "dropout")
    labels = classifier.decoder(draws[0]).argmax(1)
    if not noisy:
        assert error_rate(classifier, x, labels, recipe, 1, generator()) == 0


def idx(folder, name, values):
    head = bytes((0, 0, 8, values.ndim)) + b"".join(int(n).to_bytes(4, "big") for n in values.shape)
    (folder / name).write_bytes(head + values.numpy().tobytes())


def test_stacked_mnist_from_files(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    digits = torch.arange(20, device="cpu", dtype=torch.uint8) % 10
    images = digits[:, None, None].expand(20, 28, 28).contiguous() * 20
    for part in ("train", "t10k"):
        idx(folder, f"{part}-images-idx3-ubyte", images)
        idx(folder, f"{part}-labels-idx1-ubyte", digits)
    data = load(SimpleNamespace(root=str(tmp_path), samples=30, test=10), generator())
    assert data.train.inputs.shape == (30, 3, 28, 28) and data.classes == 1000
    seen = (data.train.inputs[:, :, 0, 0] * 255 / 20).round().long()
    assert torch.equal(data.train.labels, seen[:, 0] * 100 + seen[:, 1] * 10 + seen[:, 2])
    (folder / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + b"\0" * 12 + b"extra")
    with pytest.raises(penchant.Error, match="found 5 values, expected 0"):
        read(folder / "train-images-idx3-ubyte", axes=3)
    with pytest.raises(penchant.Error, match="is not there; looked for"):
        load(SimpleNamespace(root=str(tmp_path / "nowhere"), samples=3, test=3), generator())


def test_celeba_from_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    for number in range(4):
        picture = image.new("RGB", (178, 218), (0, 0, 255))
        picture.paste((255, 0, 0), (0, 20, 178, 198))  # the middle square
        picture.save(folder / f"{number}.png")
    (folder.parent / "list_eval_partition.txt").write_text("0.png 0\n1.png 0\n2.png 1\n3.png 2\n")
    (folder.parent / "list_attr_celeba.txt").write_text(
        "4\nBald Male\n0.png -1 1\n1.png -1 -1\n2.png 1 1\n3.png 1 -1\n"
    )
    options = SimpleNamespace(root=str(tmp_path), attribute="Male", side=16, samples=9, test=9)
    data = celeba.load(options, generator())
    assert (
        data.train.inputs.shape == (2, 3, 16, 16)
        and data.train.labels.tolist() == [1, 0]
        and data.test.labels.tolist() == [0]
    )
    assert torch.allclose(
        data.train.inputs,
        torch.tensor([1.0, 0.0, 0.0], device="cpu")[:, None, None].expand(3, 16, 16),
        atol=1e-6,
    )
    with pytest.raises(penchant.Error, match="no attribute 'Hat'.*there are Bald, Male"):
        celeba.load(SimpleNamespace(**{**vars(options), "attribute": "Hat"}), generator())
    (folder / "3.png").unlink()
    with pytest.raises(penchant.Error, match="3.png cannot be read"):
        celeba.load(options, generator())


@pytest.mark.skipif(
    not Path(os.environ.get("PENCHANT_DATA", ""), "mnist").is_dir(),
    reason="PENCHANT_DATA names no folder with mnist",
)
def test_classifier_of_stacked_digits_learns_real_ones():
    data = load(SimpleNamespace(root=None, samples=2000, test=200), generator())
    inputs, test = 2 * data.train.inputs - 1, 2 * data.test.inputs - 1
    judge, accuracy = digit_judge(
        inputs, data.train.labels, steps=60, channels=(8, 16), generator=generator(1)
    )
    assert accuracy > 0.5 and float((judge(test) == data.test.labels).double().mean()) > 0.5
    assert stack(
        torch.zeros(3, 28, 28, device="cpu"), torch.arange(3, device="cpu"), 2, generator()
    ).inputs.shape == (2, 3, 28, 28)
