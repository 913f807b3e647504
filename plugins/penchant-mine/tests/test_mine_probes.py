"""The conformance kit over everything the plugin offers, and what probes say."""

import functools
import math
import subprocess
import sys

import penchant
import pytest
import torch
from penchant import testing
from penchant_mine.mutual_information import activations

measure = functools.partial(penchant.measure, executor="serial")  # no processes to be started
TINY = {
    "name": "mine",
    "network": "statistics-perceptron:widths=[16]",
    "steps": 40,
    "batch": 64,
    "repeats": 2,
    "null_repeats": 1,
    "check_every": 20,
}
PAIRS = {"name": "correlated-gaussians", "rho": 0.8, "samples": 200}
BLOBS = {"name": "twenty-five-gaussians", "samples": 1000}
SMALL_GAN = {"steps": 10, "generator": [16], "discriminator": [16], "repeats": 2, "judged": 100}
SMALL_ALI = {
    "steps": 8,
    "generator": [16],
    "discriminator": [16],
    "repeats": 1,
    "judged": 100,
    "classifier_steps": 10,
}
SMALL_BOTTLENECK = {
    **{
        "widths": [16],
        "code": 4,
        "statistics": 16,
        "epochs": 2,
        "batch": 100,
        "repeats": 2,
        "betas": [0.0, 1.0],
        "draws": 2,
    },
    "estimators": {"mutual-information": "gaussian"},
}
SMALL_BENCHMARK = {
    "estimators": {"mutual-information": ["gaussian", "ksg", TINY]},
    "grid": [-0.5, 0.9],
    "samples": 300,
    "repeats": 3,
}
ALONG_TRAINING = {
    "architecture": {"name": "import", "factory": testing.TINY},
    "estimators": {
        "mutual-information": ["ksg", "gaussian", {"name": "gaussian", "null_repeats": 2}]
    },
    "first": "layer:1",
    "second": "label",
    "steps": [0, 6, 12],
    "training": {"steps": 12, "batch": 30},
}


@pytest.mark.parametrize("offer", testing.offers("penchant-mine"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


def test_declarations_import_no_numerics():
    code = "import penchant_mine, sys; print([m for m in ('torch', 'numpy', 'scipy', 'matplotlib') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("correlated-gaussians", {"samples": 40}),
        ("nonlinear-pair", {"samples": 40, "map": "cube"}),
        ("spiral", {"samples": 40}),
        ("twenty-five-gaussians", {"samples": 100}),
    ],
)
def test_datasets_conform(name, options):
    data = testing.check_dataset(name, **options)
    assert len(data.test.inputs) == len(data.train.inputs) // 4


@pytest.mark.parametrize("name", ["statistics-perceptron", "statistics-conv"])
def test_statistics_networks_conform(name):
    testing.check_architecture(name, shape=(3 * 28 * 28 + 5,), outputs=1)


def test_mutual_information_of_a_dataset(tmp_path):
    result = testing.check_probe(
        "mutual-information",
        tmp_path,
        dataset=PAIRS,
        estimators={"mutual-information": ["ksg", TINY]},
        calibrate=True,
    )
    quantities = result.quantities
    assert set(quantities) == {"ksg", "ksg-train", "ksg-bias", "mine", "mine-train", "mine-bias"}
    assert (
        quantities["ksg"].value == pytest.approx(0.51, abs=0.15)
        and abs(quantities["ksg"].null) < 0.2
    )
    assert quantities["mine"].count == 2 and quantities["mine"].stderr > 0


def test_mutual_information_of_a_layer_along_training(tmp_path):
    result = testing.check_probe("mutual-information", tmp_path, processes=False, **ALONG_TRAINING)
    assert result.arrays["step"].tolist() == [0, 6, 12]
    assert "gaussian-2" in result.quantities
    assert "standard deviations of the layer" in result.conventions["noise on layers"]


def test_mutual_information_refuses_what_it_does_not_know():
    own = {
        "architecture": {"name": "import", "factory": testing.TINY},
        "estimators": {"mutual-information": "gaussian"},
    }
    with pytest.raises(penchant.Error, match="no layer 'fc9'; its layers are 0, 1, 2, 3"):
        measure(
            "mutual-information", dataset=PAIRS, first="layer:fc9", training={"steps": 1}, **own
        )
    with pytest.raises(penchant.Error, match="input, label or layer:NAME, found 'output'"):
        measure(
            "mutual-information",
            dataset=PAIRS,
            first="output",
            estimators={"mutual-information": "gaussian"},
        )


def test_a_layer_without_noise_is_called_deterministic():
    found = measure(
        "mutual-information",
        architecture={"name": "import", "factory": testing.TINY},
        dataset=PAIRS,
        estimators={"mutual-information": "ksg"},
        second="layer:1",
        noise=0.0,
        training={"steps": 0},
    )
    assert any("infinite" in text for text in found.warnings)


def test_information_benchmark(tmp_path):
    result = testing.check_probe(
        "information-benchmark", tmp_path, processes=False, **SMALL_BENCHMARK
    )
    assert result.arrays["parameter"].tolist() == [-0.5, 0.9]
    assert result.arrays["estimate-gaussian"] == pytest.approx(result.arrays["truth"], abs=0.15)
    assert {"bias-mine", "spread-mine", "coverage-mine", "warned-mine"} <= set(result.quantities)


@pytest.mark.parametrize("family", ["nonlinear", "mixture", "student", "discrete", "spiral"])
def test_families_of_the_benchmark(family):
    grid = [0.3, 0.6] if family != "student" else [2.0, 5.0]
    found = measure(
        "information-benchmark",
        family=family,
        dimension=2,
        grid=grid,
        samples=2000,
        repeats=1,
        estimators={
            "mutual-information": "binned"
            if family == "discrete"
            else {"name": "ksg", "subsets": 5}
        },
    )
    name = "binned" if family == "discrete" else "ksg"
    assert found.arrays[f"estimate-{name}"] == pytest.approx(found.arrays["truth"], abs=0.25)


def test_calibration_takes_the_sizes_of_a_dataset():
    dataset = {"name": "correlated-gaussians", "dimension": 3, "samples": 150}
    found = measure(
        "information-benchmark",
        dataset=dataset,
        grid=[0.5],
        repeats=2,
        estimators={"mutual-information": "gaussian"},
        samples=999,
    )
    assert found.arrays["truth"][0] == pytest.approx(3 * 0.143841, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": [1.0]}, "correlations between -1 and 1"),
        ({"family": "student", "grid": [-1.0]}, "must be above 0"),
        (
            {"family": "spiral", "dimension": 1, "grid": [0.5]},
            "dimension must be at least 2, found 1",
        ),
        ({"family": "mixture", "dimension_z": 2, "grid": [0.5]}, "for normal pairs only"),
    ],
)
def test_benchmark_refuses_impossible_grids(options, message):
    with pytest.raises(penchant.Error, match=message):
        measure("information-benchmark", estimators={"mutual-information": "gaussian"}, **options)


def test_gan_modes(tmp_path):
    result = testing.check_probe("gan-modes", tmp_path, processes=False, dataset=BLOBS, **SMALL_GAN)
    assert (
        result.quantities["modes-gan"].null == 25
        and result.quantities["kl-mine"].stderr is not None
    )
    found = measure(
        "gan-modes", dataset={"name": "spiral", "samples": 1000}, **{**SMALL_GAN, "repeats": 1}
    )
    assert found.quantities["modes-mine"].null == 20


def test_gan_modes_of_stacked_digits(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    digits = torch.arange(30, device="cpu", dtype=torch.uint8) % 10
    images = torch.zeros(30, 28, 28, device="cpu", dtype=torch.uint8)
    for number, digit in enumerate(digits.tolist()):
        images[number, 2 * digit : 2 * digit + 8] = 255
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", images), ("labels-idx1", digits)):
            head = bytes((0, 0, 8, values.ndim)) + b"".join(
                int(n).to_bytes(4, "big") for n in values.shape
            )
            (folder / f"{part}-{kind}-ubyte").write_bytes(head + values.numpy().tobytes())
    small = {
        "steps": 2,
        "batch": 4,
        "channels": [4, 4, 4, 4],
        "hidden": 4,
        "repeats": 1,
        "judged": 20,
        "classifier_steps": 2,
    }
    dataset = {"name": "stacked-mnist", "root": str(tmp_path), "samples": 100, "test": 50}
    found = measure("gan-modes", dataset=dataset, **small)
    assert (
        found.arrays["quoted"].shape == (5, 2)
        and "quoted from table 5.1" in found.conventions["quoted"]
    )
    assert found.arrays["samples-gan"].shape[1:] == (3, 28, 28)


def test_bidirectional_reconstruction(tmp_path):
    two = {**SMALL_ALI, "variants": ["ali", "mine"]}
    result = testing.check_probe(
        "bidirectional-reconstruction", tmp_path, processes=False, dataset=BLOBS, **two
    )
    assert (
        "reconstruction-error-mine" in result.quantities and "ms-ssim-ali" not in result.quantities
    )


def test_bidirectional_reconstruction_of_images():
    inputs = torch.rand(
        60, 1, 12, 12, generator=torch.Generator(device="cpu").manual_seed(0), device="cpu"
    )
    labels = torch.arange(60, device="cpu") % 3
    small = {
        "channels": [4, 4],
        "statistics": [4, 4],
        "hidden": 4,
        "latent": 3,
        "noise": 2,
        "repeats": 1,
        "classifier_steps": 2,
    }
    found = measure(
        "bidirectional-reconstruction", dataset=(inputs, labels), steps=2, batch=8, **small
    )
    assert len([name for name in found.quantities if name.startswith("ms-ssim")]) == 4
    assert found.quantities["ms-ssim-alice-adversarial"].null is not None and found.conventions[
        "ms-ssim"
    ].startswith("1 of 5 scales")


def test_information_bottleneck(tmp_path):
    result = testing.check_probe(
        "information-bottleneck", tmp_path, processes=False, dataset=BLOBS, **SMALL_BOTTLENECK
    )
    assert len([name for name in result.quantities if name.startswith("error-")]) == 9
    assert (
        "information-baseline" not in result.quantities
        and "information-density-variational" in result.quantities
    )
    assert (
        result.arrays["information-by-beta"].shape == (2,)
        and (result.arrays["error-by-beta-stderr"] > 0).all()
    )
    assert (
        0.9 < result.quantities["error-dropout"].null < 0.97
    )  # always the commonest of 25 equally likely classes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mutual-information", ALONG_TRAINING),
        ("information-benchmark", SMALL_BENCHMARK),
        ("gan-modes", {"dataset": BLOBS, **SMALL_GAN}),
        ("bidirectional-reconstruction", {"dataset": BLOBS, **SMALL_ALI}),
        (
            "information-bottleneck",
            {"dataset": BLOBS, **SMALL_BOTTLENECK, "estimators": {"mutual-information": TINY}},
        ),
    ],
)
def test_every_probe_gives_the_same_in_processes(tmp_path, name, parts):
    testing.check_probe(name, tmp_path, **parts)


@pytest.mark.parametrize("joined", [False, True])
def test_activations_of_a_layer(joined):
    inner = torch.nn.Tanh()
    network = torch.nn.Sequential(
        torch.nn.Linear(3, 4), inner, torch.nn.Linear(4, 4), *([inner] if joined else [])
    )
    x = torch.randn(5, 3, generator=torch.Generator(device="cpu").manual_seed(0), device="cpu")
    expected = (
        network(x) if joined else torch.tanh(network[0](x))
    )  # of the last call where there are several
    assert torch.equal(activations(network, "1", x), expected)


def test_activations_that_are_no_rows_are_refused():
    network = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Unflatten(0, (4, 3)))
    with pytest.raises(penchant.Error, match=r"layer '0' gives \(12,\) for 4 samples"):
        activations(network, "0", torch.zeros(4, 3, device="cpu"))


@pytest.mark.slow
def test_calibration_says_by_how_much_an_estimate_in_twenty_dimensions_is_low():
    dataset = {"name": "correlated-gaussians", "dimension": 20, "rho": 0.5, "samples": 3000}
    found = measure(
        "mutual-information",
        dataset=dataset,
        samples=0,
        calibrate=True,
        estimators={"mutual-information": ["mine", "ksg"]},
    )
    truth = -10 * math.log(1 - 0.25)
    for name in ("mine", "ksg"):
        value, bias = found.quantities[name], found.quantities[f"{name}-bias"]
        assert value.value < 0.95 * truth
        assert (
            abs(value.value - bias.value - truth)
            < 3 * math.hypot(value.stderr, bias.stderr) + 0.05 * truth
        )
