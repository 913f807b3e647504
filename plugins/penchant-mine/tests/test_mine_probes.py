"""What probes say."""

import functools
import math
from pathlib import Path

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_mine.gan_modes import probe as gan_modes
from penchant_mine.gan_modes.probe import _warn_if_collapsed
from penchant_mine.mutual_information import calibration
from penchant_mine.mutual_information.probe import activations
from penchant_mine.shared.recipes import recipe_from
from penchant_numerics.roles import Information

measure = functools.partial(penchant.measure, executor="serial")  # no processes to be started
GAUSSIAN = {"mutual-information": "gaussian"}
PAIRS = {"name": "correlated-gaussians", "rho": 0.8, "train": 200}
BLOBS = {"name": "twenty-five-gaussians", "train": 1000}
SMALL_GAN = {"steps": 10, "generator": [16], "discriminator": [16], "trainings": 2, "samples": 250}
TINY_NETWORK = {"name": "import", "factory": "penchant_testing:tiny_network"}


def pairs(count, rho=0.8, seed=0):
    generator = torch.Generator(device="cpu").manual_seed(seed)
    x, noise = torch.randn(2, count, generator=generator, device="cpu")
    return x, rho * x + math.sqrt(1 - rho**2) * noise


def test_all_samples_that_a_user_gives_are_used():
    x, z = pairs(5000)
    # The first fifth is dependent, the rest is not: looking at some of them only would show much.
    z[1000:] = pairs(5000, seed=1)[0][1000:]
    found = measure("mutual-information", dataset=(x[:, None], z[:, None]), estimators=GAUSSIAN)
    assert found.quantities["gaussian"].count == 5000
    assert found.conventions["pairs"].startswith("5000 of the dataset's 5000")
    rho = 0.8 / 5
    expected = -0.5 * math.log(1 - rho**2)
    assert found.quantities["gaussian"].value == pytest.approx(expected, abs=0.02)
    some = measure(
        "mutual-information", dataset=(x[:, None], z[:, None]), estimators=GAUSSIAN, samples=500
    )
    assert some.conventions["pairs"].startswith("500 of the dataset's 5000")


def test_arrays_with_one_axis_are_variables():
    found = measure("mutual-information", dataset=pairs(1000), estimators=GAUSSIAN)
    assert found.quantities["gaussian"].value == pytest.approx(0.51, abs=0.1)


def test_training_value_has_an_error_of_its_own_and_says_over_what():
    tiny = {
        "name": "mine",
        "network": "statistics-perceptron:widths=[16]",
        "steps": 60,
        "trainings": 2,
        "null_trainings": 1,
    }
    found = measure("mutual-information", dataset=PAIRS, estimators={"mutual-information": tiny})
    value, training = found.quantities["mine"], found.quantities["mine-train"]
    assert training.stderr > 0 and training.stderr != value.stderr
    assert value.over.startswith("independent networks") and value.count == 2
    assert value.null is not None and value.null_spread is None  # of one null there is no spread


def test_what_is_said_of_calibration_pairs_is_not_said_of_the_samples():
    dataset = {"name": "correlated-gaussians", "inputs": 3, "rho": 0.7, "train": 400}
    found = {}
    for calibrate in (False, True):
        found[calibrate] = measure(
            "mutual-information",
            dataset=dataset,
            estimators={"mutual-information": "ksg"},
            calibrate=calibrate,
        )
    assert found[True].warnings == found[False].warnings  # calibration pairs rise otherwise
    value, bias = found[True].quantities["ksg"], found[True].quantities["ksg-bias"]
    assert bias.value < 0 and bias.stderr > value.stderr


def test_mutual_information_of_a_layer_along_training():
    found = measure(
        "mutual-information",
        architecture=TINY_NETWORK,
        dataset=PAIRS,
        estimators={"mutual-information": ["gaussian", {"name": "gaussian", "shuffles": 0}]},
        first="layer:1",
        second="label",
        eval_steps=[0, 6, 12],
        training={"steps": 12, "batch": 30, "loss": "squared-error"},
    )
    assert found.arrays["steps"].tolist() == [0, 6, 12]
    assert "gaussian-2" in found.quantities and "null-gaussian-2" not in found.arrays
    assert found.quantities["gaussian-2"].null is None
    assert "standard deviations of the layer" in found.conventions["noise on layers"]
    assert "200 of the dataset's 250, train" in found.conventions["pairs"]


def test_mutual_information_refuses_what_it_does_not_know():
    with pytest.raises(penchant.Error, match="no layer 'fc9'; its layers are 0, 1, 2, 3"):
        measure(
            "mutual-information",
            architecture=TINY_NETWORK,
            dataset=PAIRS,
            first="layer:fc9",
            training={"steps": 1, "loss": "squared-error"},
            estimators=GAUSSIAN,
        )
    with pytest.raises(penchant.Error, match="input, label or layer:NAME, found 'output'"):
        measure("mutual-information", dataset=PAIRS, first="output", estimators=GAUSSIAN)


def test_a_layer_without_noise_is_called_deterministic():
    found = measure(
        "mutual-information",
        architecture=TINY_NETWORK,
        dataset=PAIRS,
        estimators={"mutual-information": "ksg"},
        second="layer:1",
        noise_std=0.0,
        training={"steps": 0},
    )
    assert any("infinite" in text for text in found.warnings)


@pytest.mark.parametrize("family", ["nonlinear", "mixture", "student", "discrete", "spiral"])
def test_families_of_the_benchmark(family):
    name = "binned" if family == "discrete" else "ksg"
    found = measure(
        "information-benchmark",
        family=family,
        inputs=2,
        grid=[2.0, 5.0] if family == "student" else [0.3, 0.6],
        samples=1000,
        repeats=1,
        estimators={"mutual-information": name},
    )
    assert found.arrays[f"estimate-{name}"] == pytest.approx(found.arrays["truth"], abs=0.3)


def test_every_map_of_the_benchmark_has_the_whole_grid():
    found = measure(
        "information-benchmark",
        family="nonlinear",
        maps=["identity", "cube", "sine"],
        grid=[0.3, 0.6],
        samples=500,
        repeats=1,
        estimators=GAUSSIAN,
    )
    assert found.arrays["parameters"].tolist() == [0.3, 0.6] * 3
    assert found.arrays["maps"].tolist() == [0, 0, 1, 1, 2, 2]
    assert len(np.unique(found.arrays["truth"])) == 6
    assert found.labels["maps"] == ("identity", "cube", "sine")


def test_calibration_takes_the_sizes_of_a_dataset():
    found = measure(
        "information-benchmark",
        dataset={"name": "correlated-gaussians", "inputs": 3, "train": 150},
        grid=[0.5],
        repeats=2,
        estimators=GAUSSIAN,
        samples=999,
    )
    assert found.arrays["truth"][0] == pytest.approx(3 * 0.143841, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": [1.0]}, "correlations between -1 and 1"),
        ({"family": "student", "grid": [-1.0]}, "must be above 0"),
        ({"family": "spiral", "inputs": 1, "grid": [0.5]}, "inputs must be at least 2, found 1"),
        ({"family": "mixture", "inputs_z": 2, "grid": [0.5]}, "for normal pairs only"),
    ],
)
def test_benchmark_refuses_impossible_grids(options, message):
    with pytest.raises(penchant.Error, match=message):
        measure("information-benchmark", estimators=GAUSSIAN, **options)


def test_a_diffuse_gan_is_called_one_and_full_counts_have_an_error():
    found = measure("gan-modes", dataset=BLOBS, **SMALL_GAN)
    modes = found.quantities["modes-gan"]
    assert modes.null == 25 and modes.stderr > 0 and modes.df == 1
    assert any("only 0." in text and "near a mode" in text for text in found.warnings)


def test_a_cloud_has_no_kl_and_a_uniform_one_stands_beside_it():
    """Points spread evenly have a KL of about 0, which is no merit."""
    found = measure("gan-modes", dataset=BLOBS, **{**SMALL_GAN, "samples": 2000})
    uniform = {key: found.quantities[f"{key}-uniform"].value for key in ("kl", "quality")}
    # 25 circles of four standard deviations 0.05, on a square that reaches from -2.15 to 2.15.
    assert uniform["quality"] == pytest.approx(25 * math.pi * 0.2**2 / 4.3**2, abs=0.03)
    assert uniform["kl"] < 0.15
    for name in ("gan", "mine"):
        assert found.quantities[f"quality-{name}"].value < 2 * uniform["quality"]
        assert found.quantities[f"kl-{name}"].missing
        assert f"kl-{name}" in found.missing
        assert any(f"{name}: " in text and "KL" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("uniform", "quality", "missing"),
    [(0.124, 0.151, True), (0.124, 0.25, False), (0.8, 0.85, True), (0.8, 0.95, False)],
)
def test_a_kl_counts_where_samples_are_well_nearer_to_modes_than_a_cloud(uniform, quality, missing):
    quantities = {
        "kl-gan": penchant.Quantity(0.1, stderr=0.01, null=0.0),
        "quality-gan": penchant.Quantity(quality),
        "quality-uniform": penchant.Quantity(uniform),
    }
    context = testing.context("gan-modes", dataset=BLOBS)
    assert gan_modes._trusted_kl(context, "gan", quantities).missing == missing


def test_equal_samples_have_no_modes():
    equal = (torch.ones(40, 2, device="cpu"), torch.arange(40, device="cpu") % 2)
    with pytest.raises(penchant.Error, match="needs samples that differ"):
        measure("gan-modes", dataset=equal, **SMALL_GAN)


def test_a_gan_with_one_mode_left_is_called_so():
    rows = [{"fullest": share} for share in (0.99, 0.5, 0.96)]
    context = testing.context("gan-modes", dataset=BLOBS)
    _warn_if_collapsed(context, "gan", rows)
    assert "2 of 3 trainings have one mode left" in context.warnings[-1]
    _warn_if_collapsed(context, "mine", rows[1:2])
    assert len(context.warnings) == 1


def test_images_are_learnt_at_a_smaller_rate_than_points(monkeypatch):
    rates = []

    def recorded(kind, options, **replaced):
        rates.append(replaced["learning_rate"])
        return recipe_from(kind, options, **replaced)

    monkeypatch.setattr(gan_modes, "recipe_from", recorded)
    measure("gan-modes", dataset=BLOBS, **{**SMALL_GAN, "steps": 1})
    of_points = set(rates)
    rates.clear()

    def stacked(generator):
        images = torch.rand(60, 1, 12, 12, generator=generator, device="cpu")
        return images, torch.arange(60, device="cpu") % 10

    small = {"channels": [4, 4], "hidden": 4, "classifier_steps": 1, "samples": 20, "batch": 4}
    measure(
        "gan-modes",
        dataset={"name": "import", "factory": stacked},
        **{**SMALL_GAN, "steps": 1, **small},
    )
    assert of_points == {1e-3} and set(rates) == {2e-4}


def test_a_mode_with_too_few_samples_is_refused():
    with pytest.raises(penchant.Error, match="more than 2 samples of every mode, found"):
        measure("gan-modes", dataset={**BLOBS, "train": 100}, **SMALL_GAN)


def test_modes_of_the_spiral_are_segments():
    dataset = {"name": "spiral", "train": 2000}
    found = measure("gan-modes", dataset=dataset, **{**SMALL_GAN, "samples": 500})
    assert found.quantities["modes-mine"].null == 20
    assert "20 pieces" in found.conventions["modes"]


def test_modes_are_followed_along_training_without_changing_it():
    """Samples on the way come from streams of their own, so training and result stay the same."""
    plain = measure("gan-modes", dataset=BLOBS, **SMALL_GAN)
    steps = SMALL_GAN["steps"]
    followed = measure("gan-modes", dataset=BLOBS, eval_every=steps // 2, **SMALL_GAN)
    assert followed.tables["modes-by-step"].axes["step"] == (steps // 2, steps)
    for name in ("gan", "mine"):
        assert (followed.arrays[f"samples-{name}"] == plain.arrays[f"samples-{name}"]).all()
        at_end = followed.tables["modes-by-step"].at(variant=name, step=steps)
        assert float(at_end.values) == followed.quantities[f"modes-{name}"].value
    assert "evolution" in followed.figures()


def test_an_independent_code_leaves_no_information():
    """The control: the same program, where the statistics network has nothing to learn."""
    longer = {**SMALL_GAN, "steps": 250, "discriminator": [64], "code": 1}
    found = {
        kind: measure("gan-modes", dataset=BLOBS, information_with=kind, **longer)
        for kind in ("code", "independent")
    }
    code, control = (each.quantities["information-mine"].value for each in found.values())
    assert code > 0.5 and abs(control) < 0.05
    assert "whose truth is 0" in found["independent"].conventions["information"]
    # The GAN without information is the same in both.
    both = [each.arrays["samples-gan"] for each in found.values()]
    assert (both[0] == both[1]).all()


def idx(values):
    lengths = [int(length).to_bytes(4, "big") for length in values.shape]
    return bytes((0, 0, 8, values.ndim)) + b"".join(lengths) + values.numpy().tobytes()


def write_digits(folder: Path):
    folder.mkdir()
    digits = torch.arange(30, device="cpu", dtype=torch.uint8) % 10
    images = torch.zeros(30, 28, 28, device="cpu", dtype=torch.uint8)
    for number, digit in enumerate(digits.tolist()):
        images[number, 2 * digit : 2 * digit + 8] = 255
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx(digits))


def test_gan_modes_of_stacked_digits(tmp_path):
    pytest.importorskip("penchant_vision")
    write_digits(tmp_path / "mnist")
    small = {
        "steps": 2,
        "batch": 4,
        "channels": [4, 4, 4, 4],
        "hidden": 4,
        "trainings": 2,
        "samples": 20,
        "classifier_steps": 2,
    }
    dataset = {"name": "stacked-mnist", "root": str(tmp_path), "train": 100, "test": 50}
    found = measure("gan-modes", dataset=dataset, **small)
    assert found.arrays["quoted"].shape == (5, 2)
    assert "quoted from table 5.1" in found.conventions["quoted"]
    assert found.arrays["samples-gan"].shape[1:] == (3, 28, 28)
    assert "quality-gan" not in found.quantities  # a classifier sees a mode in everything
    for name in ("noise", "permuted", "mean-of-two"):
        assert 0 <= found.quantities[f"modes-{name}"].value <= 1000
        assert 0 <= found.quantities[f"sure-{name}"].value <= 1
    assert "0.9 or more" in found.conventions["sure"]
    assert any("counts are unsure" in text for text in found.warnings)


def test_reconstructions_that_learnt_nothing_are_called_so():
    found = measure(
        "bidirectional-reconstruction",
        dataset=BLOBS,
        **{**SMALL_GAN, "steps": 1, "learning_rate": 1e-6},
        variants=["ali"],
        classifier_steps=50,
    )
    assert any("ali: nothing was learnt" in text for text in found.warnings)
    error, distance = (
        found.quantities[f"reconstruction-{name}-ali"].value for name in ("error", "distance")
    )
    assert distance**2 <= error and distance > 0.5 * math.sqrt(error)


def test_a_minimised_lower_bound_stands_beside_an_upper_one():
    found = measure(
        "information-bottleneck",
        dataset=BLOBS,
        widths=[16],
        code=4,
        statistics_width=16,
        epochs=2,
        trainings=2,
        betas=[0.0, 1.0],
        code_draws=2,
        rows=["baseline", "variational", "mine-gaussian"],
        estimators={"mutual-information": {"name": "gaussian", "shuffles": 2}},
    )
    errors = [name for name in found.quantities if name.startswith("error-")]
    # Three rows, two of them against the baseline, and two against the variational one.
    assert len(errors) == 7
    assert "information-baseline" not in found.quantities
    for row in ("variational", "mine-gaussian"):
        upper = found.quantities[f"information-{row}"]
        exact = found.quantities[f"information-density-{row}"]
        assert upper.value > exact.value - 2 * exact.stderr and upper.null > 0
        assert exact.stderr > 1e-4
    assert found.arrays["information-by-beta"].shape == (2,)
    assert (found.arrays["error-by-beta-stderr"] > 0).all()
    # Always the commonest of 25 equally likely classes.
    assert 0.9 < found.quantities["error-baseline"].null < 0.97


def test_rows_of_the_bottleneck_are_compared_in_pairs():
    """The same samples and seeds: what both rows share is no error of their difference."""
    found = measure(
        "information-bottleneck",
        dataset=BLOBS,
        widths=[16],
        code=4,
        statistics_width=16,
        epochs=3,
        trainings=3,
        code_draws=2,
        rows=["baseline", "label-smoothing", "noise-gaussian", "mine-gaussian"],
        beta_mine=0.0,
        estimators={"mutual-information": {"name": "gaussian", "shuffles": 2}},
    )
    value, stderr = {}, {}
    for row in ("baseline", "label-smoothing"):
        value[row] = found.quantities[f"error-{row}"].value
        stderr[row] = found.quantities[f"error-{row}"].stderr
    change = found.quantities["error-against-baseline-label-smoothing"]
    assert change.value == pytest.approx(value["label-smoothing"] - value["baseline"])
    assert change.stderr < 0.7 * math.hypot(*stderr.values()) and change.df >= 2
    # With beta = 0 a row is noise alone, to the bit.
    for key in ("error", "information"):
        alone = found.quantities[f"{key}-against-noise-mine-gaussian"]
        assert alone.value == 0 and alone.null == 0
    assert "error-against-noise-baseline" not in found.quantities
    # What an untrained encoder passes on is the null.
    upper = found.quantities["information-noise-gaussian"]
    assert upper.null > 1 and upper.null_spread > 0


def test_errors_of_few_trainings_say_how_few_they_are():
    # Long enough that the spread counts beside the difference from what neighbours tell.
    tiny = {"name": "mine", "network": "statistics-perceptron:widths=[16]", "steps": 400}
    found = measure(
        "mutual-information",
        dataset=PAIRS,
        estimators={"mutual-information": [{**tiny, "trainings": 2}, "ksg"]},
    )
    assert 1 <= found.quantities["mine"].df < 50
    assert 1 <= found.quantities["mine-train"].df < 50
    assert found.quantities["ksg"].df >= 9
    found = measure(
        "bidirectional-reconstruction",
        dataset=BLOBS,
        **SMALL_GAN,
        variants=["ali"],
        classifier_steps=2,
    )
    assert all(1 <= each.df < math.inf for each in found.quantities.values())
    found = measure(
        "information-benchmark", grid=[0.0, 0.5], samples=100, repeats=3, estimators=GAUSSIAN
    )
    assert found.quantities["bias-gaussian"].df == 5
    assert found.quantities["spread-gaussian"].df == 4


def test_the_bottleneck_needs_classes():
    with pytest.raises(penchant.Error, match="class"):
        measure("information-bottleneck", dataset=PAIRS)


@pytest.mark.parametrize("joined", [False, True])
def test_activations_of_a_layer(joined):
    inner = torch.nn.Tanh()
    network = torch.nn.Sequential(
        torch.nn.Linear(3, 4), inner, torch.nn.Linear(4, 4), *([inner] if joined else [])
    )
    x = torch.randn(5, 3, generator=torch.Generator(device="cpu").manual_seed(0), device="cpu")
    # Of the last call where there are several.
    expected = network(x) if joined else torch.tanh(network[0](x))
    assert torch.equal(activations(network, "1", x), expected)


def test_activations_that_are_no_rows_are_refused():
    network = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Unflatten(0, (4, 3)))
    with pytest.raises(penchant.Error, match=r"layer '0' gives \(12,\) for 4 samples"):
        activations(network, "0", torch.zeros(4, 3, device="cpu"))


@pytest.mark.slow
def test_calibration_says_by_how_much_an_estimate_in_twenty_dimensions_is_low():
    dataset = {"name": "correlated-gaussians", "inputs": 20, "rho": 0.5, "train": 3000}
    found = measure(
        "mutual-information",
        dataset=dataset,
        split="train",
        calibrate=True,
        estimators={"mutual-information": ["mine", "ksg"]},
    )
    truth = -10 * math.log(1 - 0.25)
    for name in ("mine", "ksg"):
        value, bias = found.quantities[name], found.quantities[f"{name}-bias"]
        assert value.value < 0.95 * truth
        error = math.hypot(value.stderr, bias.stderr)
        assert abs(value.value - bias.value - truth) < 3 * error + 0.05 * truth


def test_the_bias_of_an_estimator_that_states_no_error_has_none(monkeypatch):
    """The role allows `stderr` None; the bias is measured all the same."""

    def estimate(context, number, turn, information, x, z):
        return Information(information + 0.1, information, stderr=None)

    monkeypatch.setattr(calibration, "_on_normal_pairs", estimate)
    x = torch.zeros(100, 1)
    found = calibration.calibrated_bias(None, 0, x, x, value=0.5, value_stderr=None)
    assert found["bias"] == pytest.approx(0.1) and found["bias-stderr"] is None


def write_faces(folder: Path):
    """Forty pictures in the layout of CelebA: bright or dark ovals on noise."""
    image = pytest.importorskip("PIL.Image")
    numpy = pytest.importorskip("numpy")
    pictures = folder / "img_align_celeba"
    pictures.mkdir(parents=True)
    random = numpy.random.default_rng(0)
    rows, columns = numpy.mgrid[-1:1:44j, -1:1:36j]
    inside = (rows**2 + 2 * columns**2 < 0.6)[..., None]
    names, attributes, splits = [], [], []
    for number in range(40):
        level = 200 if number % 2 else 60
        pixels = numpy.where(inside, level, random.integers(0, 255, (44, 36, 3)))
        names.append(f"{number:06d}.jpg")
        image.fromarray(pixels.astype("uint8")).save(pictures / names[-1])
        attributes.append(f"{names[-1]} {1 if number % 2 else -1}")
        splits.append(f"{names[-1]} {0 if number < 30 else 2}")
    attribute_file = "\n".join(["40", "Male", *attributes]) + "\n"
    (folder / "list_attr_celeba.txt").write_text(attribute_file)
    (folder / "list_eval_partition.txt").write_text("\n".join(splits) + "\n")


def test_small_faces_of_a_folder_of_ones_own(tmp_path):
    pytest.importorskip("penchant_vision")
    write_faces(tmp_path / "celeba")
    found = measure(
        "bidirectional-reconstruction",
        dataset={"name": "celeba", "root": str(tmp_path), "resize": 14},
        perceptrons=True,
        variants=["ali", "alice-l2"],
        generator=[32],
        discriminator=[32],
        channels=[4, 4],
        latent=4,
        steps=60,
        batch=16,
        trainings=2,
        classifier_steps=20,
    )
    assert found.arrays["reconstructions-ali"].shape == (10, 3, 14, 14)
    error = found.quantities["reconstruction-error-alice-l2"]
    assert error.value < error.null  # l2 is what it learns
    assert "1 of 5 scales" in found.conventions["ms-ssim"]
