"""Probes on sequences: a small language model of transformers on a text, through the kernel."""

import math
from pathlib import Path

import penchant
import pytest
import torch

pytest.importorskip("penchant_huggingface", reason="penchant-huggingface is missing")

GPT = {
    "name": "huggingface",
    "model_type": "gpt2",
    "config": ["n_layer=1", "n_head=1", "n_embd=4", "n_positions=8"],
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("abcab bacca acab " * 60)
    return {
        "name": "huggingface",
        "path": str(path),
        "tokenizer": "characters",
        "length": 6,
        "train": 12,
        "test": 6,
    }


def test_the_spectrum_of_the_hessian_is_that_of_the_operator(text):
    result = penchant.measure(
        "hessian-spectrum",
        architecture=GPT,
        dataset=text,
        split="train",
        training={"steps": 20, "batch": 4, "optimizer": "adam", "learning_rate": 0.01},
        leading=1000,
    )
    values = result.quantities
    assert values["trace-gauss-newton"].over == "sequences" and values["loss"].over == "sequences"
    assert values["trace-gauss-newton"].count == 12
    assert "mean over positions whose label is not -100" in result.conventions["loss"]
    assert result.conventions["trace of G (train)"].startswith("all ")
    # all eigenvalues of the operator, and the trace by gradients of sequences
    eigenvalues = result.arrays["top-eigenvalues-gauss-newton"]
    assert math.isclose(eigenvalues.sum(), values["trace-gauss-newton"].value, rel_tol=1e-5)
    # the loss of an untrained network is about that of equal probabilities; the null is lower
    assert 0.5 < values["loss"].value < math.log(4) + 0.3
    assert 0.9 < values["loss"].null < math.log(4)


def test_the_kernel_of_a_language_model_is_that_of_its_loss_gradients(text):
    result = penchant.measure(
        "tangent-kernel",
        architecture=GPT,
        dataset=text,
        samples=12,
        groups=4,
        ratios=(4,),
        permutations=20,
        store_kernel=True,
        training={"steps": 0},
    )
    assert result.arrays["kernel"].shape == (12, 12)
    assert "loss gradients" in result.conventions["outputs"]
    assert 1 < result.quantities["effective-rank"].value < 12
    assert math.isclose(
        result.arrays["layer-trace"].sum(), result.quantities["trace"].value, rel_tol=1e-9
    )


def test_information_is_taken_at_one_position_of_each_sequence(tmp_path):
    # the class of a position is its token, which the embedding tells: all of its entropy
    tokens = torch.arange(600).reshape(100, 6) % 4
    labels = tokens.clone()
    labels[:, ::2] = -100  # tokens 1 and 3 of 0..3 are left
    result = penchant.measure(
        "mutual-information",
        architecture=Tagger(),
        dataset=((tokens, labels), (tokens, labels)),
        first="layer:0",
        second="label",
        estimators={"mutual-information": "gaussian"},
        noise_std=0.01,
    )
    value = result.quantities["gaussian"]
    assert "one of each sequence" in result.conventions["positions"]
    assert value.count == 100 and value.value > 1 > 10 * abs(value.null)


class Tagger(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Embedding(4, 3), torch.nn.Linear(3, 4))


def curvature_of(text, **options):
    return penchant.measure(
        "curvature-proxies",
        architecture=GPT,
        dataset=text,
        training={"steps": 30, "batch": 4, "optimizer": "adam", "learning_rate": 0.02},
        estimators={"curvature": ["ggn", {"name": "kfac", "uncovered": "accept"}]},
        last=2,
        lanczos_steps=8,
        grid_points=16,
        **options,
    )


def test_proxies_of_sequences_have_an_error_over_sequences(text):
    result = curvature_of(text, per_class=12)
    error = result.quantities["last-error-kfac"]
    assert error.over == "sequences" and error.count == 12 and error.df == 3
    assert 0 < error.stderr < error.value < 1
    assert result.conventions["curvature: columns"].startswith("all ")
    assert "positions" in result.conventions["curvature: reduction"]
    assert result.arrays["layer-alignment-kfac-stderr"].shape == (2,)
    assert list(result.figures()) == ["errors", "spectra-last", "spectra", "leading"]


def test_proxies_of_sequences_are_compared_by_labels_that_are_drawn(text, monkeypatch):
    every = curvature_of(text, per_class=12).quantities["mean-error-kfac"].value
    for module in (
        "penchant_curvature.curvature_proxies.layer_comparison",
        "penchant_numerics.curvature.sequence_columns",
    ):
        monkeypatch.setattr(f"{module}.MOST_OUTPUTS", 1)
    drawn = curvature_of(text, per_class=12)
    # with all positions and classes, as the test above has it
    assert abs(drawn.quantities["mean-error-kfac"].value - every) < 0.05
    assert "16 draws" in drawn.conventions["curvature: columns"]


@pytest.mark.parametrize("probe", ["cross-class", "layer-structure"])
def test_probes_of_classes_refuse_sequences(text, probe):
    with pytest.raises(
        penchant.Error, match="needs one label per sample, found 6 labels per sample"
    ):
        penchant.measure(probe, architecture=GPT, dataset=text, training={"steps": 0})


@pytest.mark.slow  # half a minute: it trains, and measures every checkpoint with five probes
def test_the_example_runs_small(root, command):
    done = command(root / "examples" / "language_model.py", "--quick", script=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    states = [line.split()[-1] for line in lines if "-text-s0-" in line]
    assert states == ["done"] * 5, done.stdout
    report = Path(lines[-1].removeprefix("report: ")).read_text()
    assert "Quantities at 4 checkpoints of the training" in report
