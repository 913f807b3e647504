"""The probes as a user runs them: conformance, names, refusals, other estimators."""

import os
from pathlib import Path

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch

HERE = str(Path(__file__).parent)
TINY = {"name": "import", "factory": testing.TINY}
IMAGES = {"name": "import", "factory": "nad_test_images:images"}
FEW_IMAGES = {"name": "import", "factory": "nad_test_images:few"}
LEADING = {"directions": {"name": "mixed-derivative", "leading": 2, "iterations": 3}}
IMPULSES_AND_GRADIENTS = {
    "directions": [
        {"name": "gradient-covariance", "method": "impulse"},
        {"name": "gradient-covariance", "method": "autograd"},
    ]
}
NADS = {"shape": (1, 6, 6), "outputs": 1, "networks": 40}
TRAINED = {"train": 64, "test": 64, "training": {"epochs": 2, "batch": 8}, "loss_target": 0.4}
WAVES = {"basis": "dft-cosine", "every": 7, "train_sizes": [32, 64], "trainings": 2}
FEW = {"networks": 40, "training": {"epochs": 2}}
# The runs of all other properties: what comes out of them, not how near it is to anything.
DRAWN = {"shape": (1, 3, 3), "outputs": 1, "networks": 11}
BRIEF = {"train": 16, "test": 16, "training": {"steps": 2, "batch": 8}, "loss_target": 0.7}
TWO_WAVES = {"basis": "dft-cosine", "every": 3, "train_sizes": [8], "trainings": 2}
BRIEFLY = {
    "dataset": FEW_IMAGES,
    "networks": 16,
    "trainings": 1,
    "training": {"steps": 1, "batch": 16},
}
PREFERRING_NOTHING = {
    "architecture": {"name": "import", "factory": "nad_test_images:isotropic"},
    "shape": (1, 3, 4),
    "outputs": 1,
}
GRADIENTS = {"directions": {"name": "gradient-covariance", "method": "autograd"}}
ON_RANDOM_LABELS = {
    "architecture": TINY,
    "dataset": FEW_IMAGES,
    "directions": np.eye(16).tolist(),
    "trainings": 3,
    "training": {"steps": 20, "batch": 16, "learning_rate": 0.1},
}
LEARNT_BY_HEART = "labels at random are learnt by heart"
STORED = {**BRIEFLY, "directions": np.eye(16).tolist(), "trainings": 2}


@pytest.fixture(autouse=True)
def _images(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]))


test_conforms = testing.conformance(
    "penchant-nad",
    small={
        "nad": [
            {**DRAWN, "store_matrix": True},
            {"shape": (6,), "outputs": 1, "networks": 5, "estimators": LEADING},
        ],
        "nad-agreement": {
            "networks": 12,
            "groups": 4,
            "shape": (1, 2, 3),
            "outputs": 1,
            "estimators": IMPULSES_AND_GRADIENTS,
        },
        "directional-accuracy": [
            {**DRAWN, "networks": 8, "indices": [0, 2, 5], "train_sizes": [8], **BRIEF},
            {"shape": (1, 3, 3), **TWO_WAVES, **BRIEF},
        ],
        "poisoned-accuracy": [{"carriers": [0, 10], **BRIEFLY}, {"carriers": [0], **STORED}],
        "flipped-accuracy": [BRIEFLY, STORED],
        "dipole": {
            "shape": (1, 3, 3),
            "outputs": 1,
            "basis": "nad",
            "every": 4,
            "basis_networks": 16,
            "networks": 8,
            "beta": 0.5,
        },
        "pooling-theory": {
            "inputs": 32,
            "simulations": 100,
            "every": 4,
            "curves": 3,
            "steps": 5,
            "trainings": 2,
            "batch": 4,
        },
    },
    claims={
        "nad": [
            {**NADS, "store_matrix": True},
            {"shape": (12,), "outputs": 1, "networks": 9, "estimators": LEADING},
        ],
        "nad-agreement": {
            "networks": 40,
            "shape": (1, 3, 4),
            "outputs": 1,
            "estimators": IMPULSES_AND_GRADIENTS,
        },
        "directional-accuracy": [
            {**NADS, "indices": [0, 2, 5], "train_sizes": [32], **TRAINED},
            {"shape": (1, 6, 6), **WAVES, **TRAINED},
        ],
        "poisoned-accuracy": [
            {"dataset": IMAGES, "carriers": [0, 30], "trainings": 1, **FEW},
            {"dataset": IMAGES, "carriers": [0], "trainings": 2, **FEW},
        ],
        "flipped-accuracy": [
            {"dataset": IMAGES, "trainings": 1, **FEW},
            {"dataset": IMAGES, "trainings": 2, **FEW},
        ],
        "dipole": {
            "shape": (1, 4, 4),
            "outputs": 1,
            "basis": "nad",
            "every": 5,
            "basis_networks": 20,
            "networks": 8,
            "beta": 0.5,
        },
        "pooling-theory": {
            "inputs": 32,
            "simulations": 200,
            "every": 3,
            "curves": 3,
            "steps": 20,
            "trainings": 2,
            "batch": 8,
        },
    },
    without_null={
        "nad": {"trace": "a trace has no value by chance"},
        "directional-accuracy": {"reached-share": "as the loss that is asked for makes it"},
        "dipole": {"tightness": "how near a bound is to equality, not a chance"},
    },
    no_effect={
        "nad": {**PREFERRING_NOTHING, "networks": 60, "estimators": GRADIENTS},
        "nad-agreement": {
            **PREFERRING_NOTHING,
            "networks": 60,
            "estimators": IMPULSES_AND_GRADIENTS,
        },
        # An untrained network.
        "directional-accuracy": {
            "architecture": TINY,
            "shape": (1, 4, 4),
            "basis": "canonical",
            "every": 3,
            "train": 64,
            "test": 200,
            "training": {"steps": 0},
        },
        # Images that say nothing about their labels.
        "poisoned-accuracy": {**ON_RANDOM_LABELS, "carriers": [0, 10]},
        "flipped-accuracy": ON_RANDOM_LABELS,
        "dipole": {**PREFERRING_NOTHING, "basis": "canonical", "every": 1, "networks": 32},
        # The corrected theory itself.
        "pooling-theory": {
            "inputs": 32,
            "simulations": 5000,
            "every": 2,
            "steps": 10,
            "trainings": 4,
            "batch": 8,
        },
    },
    effects={
        "poisoned-accuracy": {"clean-train-accuracy": LEARNT_BY_HEART},
        "flipped-accuracy": {
            "original-train-accuracy": LEARNT_BY_HEART,
            "flipped-train-accuracy": LEARNT_BY_HEART,
        },
        "dipole": {"largest-markov-excess": "Markov's bound is not reached by normal numbers"},
        "pooling-theory": {"text-deviation": "the theorem as printed is wrong"},
    },
)


def measure(name, **arguments):
    return penchant.measure(name, architecture=TINY, executor="serial", **arguments)


@pytest.mark.parametrize("method", ["impulse", "autograd"])
def test_nad_takes_every_method(method):
    point = "zero" if method == "autograd" else "gaussian"
    estimators = {"directions": {"method": method, "point": point}}
    result = measure("nad", estimators=estimators, **NADS)
    assert method in result.conventions["gradient"]


@pytest.mark.parametrize("basis", ["dft-sine", "random", "canonical"])
def test_directional_accuracy_takes_every_basis(basis):
    options = {"basis": basis, "every": 9, "train": 32, "test": 32, "training": {"epochs": 1}}
    result = measure("directional-accuracy", shape=(1, 6, 6), **options)
    assert ("frequencies" in result.arrays) == basis.startswith("dft")
    if basis.startswith("dft"):
        assert result.arrays["frequencies"].shape == (len(result.arrays["indices"]), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"indices": [40], "networks": 30}, "the input has 36 directions, found index 40"),
        (
            {"indices": [35], "networks": 30},
            "30 networks give 30 directions, found index 35; networks must be at least 36",
        ),
        (
            {"indices": [99], "basis": "dft-cosine"},
            "the basis dft-cosine has 20 directions, found index 99",
        ),
        ({"indices": [1, 1], "basis": "canonical"}, r"indices must differ, found \[1, 1\]"),
        ({"indices": [], "basis": "canonical"}, "at least one direction, found none"),
        (
            {"directions": [[1.0, 2.0]]},
            r"directions must be rows of 36 numbers, found an array of shape \[1, 2\]",
        ),
    ],
)
def test_directions_that_do_not_exist_are_refused(options, message):
    with pytest.raises(penchant.Error, match=message):
        measure("directional-accuracy", shape=(1, 6, 6), **options)


def test_out_of_memory_halves_the_networks_a_pass_and_says_so(monkeypatch):
    from penchant_nad.estimators import gradient_covariance

    whole = gradient_covariance.input_gradients
    together = []

    def small(ensemble, points):
        together.append(len(ensemble))
        if len(ensemble) > 5:
            raise torch.OutOfMemoryError("no memory")
        return whole(ensemble, points)

    monkeypatch.setattr(gradient_covariance, "input_gradients", small)
    autograd = {"directions": {"name": "gradient-covariance", "method": "autograd"}}
    options = {"shape": (6,), "networks": 12, "estimators": autograd}
    result = measure("nad", **options)
    assert together == [12, 12, 8, 4, 4, 4]
    texts = [text for text in result.warnings if "out of memory" in text]
    assert "4 networks per pass instead of 8" in texts[-1] and "`memory`" in texts[-1]


def test_few_networks_of_large_inputs_are_measured_by_their_gradients(monkeypatch):
    from penchant_numerics.inputs import row_moments

    options = {"shape": (1, 6, 6), "networks": 19, "store_directions": 5}
    matrix = measure("nad", **options)
    monkeypatch.setattr(row_moments, "LARGEST_MATRIX", 30)
    rows = measure("nad", **options)
    assert rows.arrays["directions"].shape == (5, 36)
    assert rows.arrays.keys() == matrix.arrays.keys()
    for name, array in matrix.arrays.items():
        # The null has the same norms in another order: its draws differ.
        if name.startswith("null"):
            continue
        np.testing.assert_allclose(rows.arrays[name], array, rtol=1e-5, atol=1e-7, err_msg=name)
    for name, quantity in matrix.quantities.items():
        if name == "directions-above-null":
            continue
        assert rows.quantities[name].value == pytest.approx(quantity.value, rel=1e-6)
        assert rows.quantities[name].stderr == pytest.approx(quantity.stderr, rel=1e-5)


def test_agreement_and_the_stored_matrix_form_it_from_gradients(monkeypatch):
    from penchant_numerics.inputs import row_moments

    monkeypatch.setattr(row_moments, "LARGEST_MATRIX", 30)
    result = measure("nad", shape=(1, 6, 6), networks=12, store_matrix=True)
    values = np.linalg.eigvalsh(result.arrays["second-moment"])[::-1][:12]
    np.testing.assert_allclose(values, result.arrays["eigenvalues"], rtol=1e-6, atol=1e-10)


def test_more_networks_extend_fewer():
    few, many = (
        measure("nad", shape=(4,), networks=networks, store_matrix=True).arrays["second-moment"]
        for networks in (32, 64)
    )
    rest = 2 * many - few
    assert few.shape == rest.shape == (4, 4)
    assert rest.diagonal().min() > 0, "the first 32 networks are part of the 64"


def test_data_of_more_classes_can_be_left_away():
    with pytest.raises(
        penchant.Error, match=r"found 10 outputs; measure it without data \(datasets = \["
    ):
        penchant.measure("nad", architecture="logistic", dataset="digits")


def test_several_outputs_are_refused():
    with pytest.raises(penchant.Error, match="needs one output or two logits, found 3 outputs"):
        measure("nad", shape=(4,), outputs=3, networks=4)
    carrier = {"shape": (4,), "outputs": 3, "call": {"networks": 4}}
    with pytest.raises(penchant.Error, match="needs one output or two logits, found 3 outputs"):
        testing.check_estimator("gradient-covariance", **carrier)


def test_a_shard_of_dipole_does_not_carry_the_directions(tmp_path, monkeypatch):
    """They are sent once and enter a shard's name as a hash; a shard keeps its own numbers only."""
    from penchant_nad.dipole import probe as dipole

    context = testing.context(
        "dipole", tmp_path, shape=(1, 6, 6), basis="canonical", every=1, networks=16
    )
    dipole.run(context.options, context)
    sizes = [path.stat().st_size for path in tmp_path.rglob("shards/*.npz")]
    assert len(sizes) == 2
    numbers = 8 * 2 * 8 * 36  # slopes and sizes of eight networks and 36 directions
    assert max(sizes) < numbers + 4096


def test_an_estimator_without_norms_or_jackknife_serves(tmp_path):
    """Answers of other estimators may have groups instead, or neither: then there is no error."""
    import torch
    from penchant_nad.nad import probe as nad
    from penchant_numerics.linear_algebra import descending_eigh
    from penchant_numerics.roles import Directions

    rows = torch.randn(6, 20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    groups = rows.mT @ rows / 20
    values, vectors = descending_eigh(groups.mean(0))
    known = {"trace": float(values.sum()), "trace_stderr": None, "networks": 120}
    bare = Directions(values, vectors, **known)
    with_groups = Directions(values, vectors, groups=groups, matrix=groups.mean(0), **known)
    assert bare.left_out_spectra() is None
    left_out = with_groups.left_out_spectra()
    assert left_out.shape == (6, 5)
    np.testing.assert_allclose(left_out.mean(0), values, rtol=0.2)
    quantities = nad._quantities(with_groups, left_out, None, torch.Generator())
    assert quantities["effective-rank"].stderr > 0
    assert quantities["effective-rank"].null is None


@pytest.mark.parametrize(("method", "reports"), [("finite-difference", 5), ("autograd", 1)])
def test_networks_of_a_shard_are_reported_where_each_takes_long(method, reports, monkeypatch):
    from penchant.execution.queue.progress import JobProgress

    told = []
    monkeypatch.setattr(JobProgress, "tell", lambda self, *message: told.append(message))
    estimators = {"directions": {"method": method}}
    measure("nad", shape=(6,), outputs=1, networks=5, estimators=estimators)
    own = [message for message in told if message[0] == "networks of a shard"]
    assert len(own) == reports and own[-1] == ("networks of a shard", 5, 5)


def test_pairs_that_no_network_estimates_are_left_out(monkeypatch):
    """Three networks of six inputs: an estimator may return six pairs, of which three are zero."""
    import dataclasses

    from penchant.execution.job import context as job
    from penchant_numerics.linear_algebra import descending_eigh

    options = {"shape": (6,), "outputs": 1, "networks": 3}
    expected = measure("nad", **options)
    scale = 0.0

    def with_all_pairs(self, role):
        estimate = original(self, role)

        def answer(**given):
            found = estimate(**given)
            matrix = found.moment() + scale * torch.eye(6, device="cpu", dtype=torch.float64)
            values, vectors = descending_eigh(matrix)
            return dataclasses.replace(found, eigenvalues=values, vectors=vectors)

        return answer

    original = job.Context.estimator
    monkeypatch.setattr(job.Context, "estimator", with_all_pairs)
    found = measure("nad", **options)
    assert found.arrays["eigenvalues"].shape == (3,)
    for name in ("eigenvalues", "null-eigenvalues"):
        np.testing.assert_allclose(found.arrays[name], expected.arrays[name], rtol=1e-9)
    for name, quantity in expected.quantities.items():
        assert found.quantities[name].value == pytest.approx(quantity.value, rel=1e-9)
    scale = 1.0
    with pytest.raises(penchant.Error, match="found 6 eigenvalues above zero of the moment of 3"):
        measure("nad", **options)
