"""Whole probes on small problems: does each measure what it says?"""

import math

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_gih.datasets import linear_and_ring, two_circles
from penchant_gih.declarations.datasets import LinearAndRing, TwoCircles
from penchant_gih.direction_generalization.probe import labelled_samples
from penchant_gih.sample_pruning.probe import highest_scores, random_choice
from torch import nn

SERIAL = {"executor": "serial", "figures": False}


def generator(seed=0):
    return torch.Generator(device="cpu").manual_seed(seed)


class Colour(nn.Module):
    """A linear network that sees the second of three channels only, in one pixel more than in the others."""

    def __init__(self, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4))
        self.readout = nn.Parameter(torch.empty(outputs))
        nn.init.normal_(self.weight)
        nn.init.normal_(self.readout)

    def forward(self, x):
        scale = torch.tensor([1.0, 1.0, 1.0, 3.0], device=x.device, dtype=x.dtype)
        return (x[:, 1].flatten(1) * scale) @ self.weight[:, None] * self.readout


def coloured_samples():
    """Images of 3 x 2 x 2 pixels: half of every class is bright in the second channel, the other half in the first."""
    inputs, labels = torch.zeros(80, 3, 2, 2), torch.arange(80) % 2
    bright = (torch.arange(80) // 2) % 2
    inputs[torch.arange(80), bright] = 1.0
    inputs += 0.01 * torch.randn(80, 3, 2, 2, generator=generator(1))
    return (inputs, labels), (inputs[:20], labels[:20])


def test_directions_of_a_colour_are_in_channel_first_order():
    """With channel-last pixels the energy would be in entries 1, 4, 7, 10 instead of 4 to 7."""
    result = penchant.measure(
        "average-geometry",
        architecture=lambda outputs: Colour(outputs),
        shape=(3, 2, 2),
        networks=400,
        **SERIAL,
    )
    diagonal = np.diag(result.arrays["geometry"])
    assert (diagonal[4:8] > 0).all() and np.delete(diagonal, [4, 5, 6, 7]).max() == 0
    assert np.abs(result.arrays["directions"][0]).argmax() == 7
    assert result.quantities["rank"].value == 4


def test_scores_see_the_colour_that_the_network_sees():
    options = {"networks": 400, "fractions": (0.5,), "training": {"steps": 0}, **SERIAL}
    result = penchant.measure(
        "sample-pruning",
        architecture=lambda outputs: Colour(outputs),
        dataset=coloured_samples,
        **options,
    )
    bright = ((np.arange(80) // 2) % 2).astype(bool)
    score = result.arrays["scores"]
    assert score[bright].min() > 10 * score[~bright].max()
    chosen = highest_scores(torch.as_tensor(score), torch.arange(80) % 2, 0.5)
    assert bright[chosen].all()


def shuffled_samples():
    """The same training samples in another order."""
    order = torch.randperm(80, generator=generator(2))
    (inputs, labels), test = coloured_samples()
    return (inputs[order], labels[order]), test


def test_each_score_belongs_to_its_sample():
    """Permuting the dataset permutes the scores, and the same samples are chosen."""
    order = torch.randperm(80, generator=generator(2))
    options = {"networks": 100, "fractions": (0.7,), "training": {"steps": 0}, **SERIAL}
    found = [
        torch.as_tensor(
            penchant.measure(
                "sample-pruning",
                architecture=lambda outputs: Colour(outputs),
                dataset=data,
                **options,
            ).arrays["scores"]
        )
        for data in (coloured_samples, shuffled_samples)
    ]
    assert torch.allclose(found[0][order], found[1], rtol=1e-9)
    labels = torch.arange(80) % 2
    chosen = highest_scores(found[0], labels, 0.7)
    of_shuffled = order[highest_scores(found[1], labels[order], 0.7)]
    assert torch.equal(chosen, of_shuffled.sort().values)
    assert not torch.equal(
        chosen, highest_scores(found[1], labels, 0.7)
    )  # scores of shuffled samples in the order of the dataset


def test_pruning_is_per_class_and_drops_the_lowest():
    labels = torch.tensor([0] * 10 + [1] * 20)
    score = torch.arange(30.0).flip(0)
    chosen = highest_scores(score, labels, 0.5)
    assert chosen.tolist() == [*range(5), *range(10, 20)]
    chance = [random_choice(labels, share, generator(3)) for share in (0.2, 0.5)]
    assert [int((labels[each] == 0).sum()) for each in chance] == [8, 5]
    assert set(chance[1].tolist()) < set(chance[0].tolist())


def directions(count, size, seed=0):
    return torch.linalg.qr(
        torch.randn(size, count, generator=generator(seed), dtype=torch.float64)
    ).Q.T


def test_circles_are_where_they_are_asked_to_be():
    rows = directions(2, 12)
    options = TwoCircles(
        directions=rows.numpy(), input_shape=(12,), radii=(3.0, 0.5), train=4000, test=10
    )
    train = two_circles.load(options, generator()).train
    radius = (train.inputs.double() @ rows.T).norm(dim=1)
    assert torch.allclose(radius, torch.where(train.labels == 0, 3.0, 0.5).double(), atol=1e-5)
    rest = train.inputs.double() - train.inputs.double() @ rows.T @ rows
    assert float(rest.square().mean()) == pytest.approx(10 / 12, rel=0.03)
    assert float(train.labels.double().mean()) == 0.5


@pytest.mark.parametrize("tested", ["both", "linear", "ring"])
def test_only_the_tested_feature_tells_the_class(tested):
    rows = directions(3, 8)
    data = linear_and_ring.load(
        LinearAndRing(
            directions=rows.numpy(), input_shape=(8,), train=100, test=4000, tested=tested
        ),
        generator(),
    )
    along = data.test.inputs.double() @ rows.T
    linear = (along[:, 0] > 0).long()
    ring = (along[:, 1:].norm(dim=1) < 0.8).long()
    agreement = {
        "linear": float((linear == data.test.labels).double().mean()),
        "ring": float((ring == data.test.labels).double().mean()),
    }
    for name, share in agreement.items():
        assert share == 1.0 if tested in ("both", name) else abs(share - 0.5) < 0.04
    trained = data.train.inputs.double() @ rows.T
    assert ((trained[:, 0] > 0).long() == data.train.labels).all() and float(
        trained[:, 0].abs().max()
    ) == pytest.approx(0.5, abs=1e-5)


def test_directions_that_are_not_orthogonal_are_refused():
    with pytest.raises(penchant.Error, match="must be orthogonal"):
        two_circles.load(
            TwoCircles(directions=[[1.0, 0, 0], [1.0, 1.0, 0]], input_shape=(3,), train=4, test=4),
            generator(),
        )


class FirstCoordinates(nn.Module):
    """Sees the first two of four inputs only: an architecture with an exactly invariant subspace."""

    def __init__(self, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.GELU(), nn.Linear(32, outputs))

    def forward(self, x):
        return self.layers(x[:, :2])


def blind(outputs):
    return FirstCoordinates(outputs)


TRAINING = {"epochs": 6, "batch": 50, "learning_rate": 0.05, "momentum": 0.9}


def test_only_visible_directions_are_generalised():
    options = {
        "shape": (4,),
        "networks": 48,
        "indices": (0, 1, 2, 3),
        "train": 300,
        "test": 1000,
        "label_noise": 0.0,
    }
    result = penchant.measure(
        "direction-generalization", architecture=blind, training=TRAINING, **options, **SERIAL
    )
    test = result.arrays["test-accuracy"]
    assert test[:2].min() > 0.9 and np.abs(test[2:] - 0.5).max() < 0.06
    assert result.quantities["drop"].value > 10 * result.quantities["drop"].stderr


def test_the_ring_is_preferred_where_the_linear_feature_is_invisible():
    options = {
        "shape": (4,),
        "networks": 48,
        "indices": (2, 3),
        "train": 300,
        "test": 1000,
        "noise_std": 0.5,
    }
    result = penchant.measure(
        "feature-preference", architecture=blind, training=TRAINING, **options, **SERIAL
    )
    assert result.arrays["ring-accuracy"].min() > 0.95
    assert np.abs(result.arrays["linear-accuracy"] - 0.5).max() < 0.06


def test_boundary_is_a_circle_only_in_a_visible_plane():
    options = {
        "shape": (4,),
        "networks": 48,
        "seconds": (1, 3),
        "train": 300,
        "test": 1000,
        "grid_points": 21,
    }
    result = penchant.measure(
        "decision-plane", architecture=blind, training=TRAINING, **options, **SERIAL
    )
    visible, hidden = result.arrays["planes"][:, 0]
    assert result.arrays["test-accuracy"][0] > 0.95 > result.arrays["test-accuracy"][1]
    assert np.ptp(hidden, axis=1).max() < 1e-4 * np.ptp(
        hidden
    )  # nothing changes along the second direction
    centre, corner = visible[10, 10], visible[0, 0]
    assert centre > 0 > corner  # class 1 is the inner circle


def visible_samples():
    """Two of four inputs decide; the network sees only these, and the data vary more along the others."""
    inputs = torch.randn(600, 4, generator=generator(4)) * torch.tensor([1.0, 1.0, 2.0, 2.0])
    labels = (inputs[:, 0] > 0).long()
    return (inputs[:400], labels[:400]), (inputs[400:], labels[400:])


def test_eliminating_what_a_network_cannot_see_costs_nothing():
    options = {"networks": 48, "removed": (0, 2), "trainings": 1, "training": TRAINING}
    result = penchant.measure(
        "feature-elimination", architecture=blind, dataset=visible_samples, **options, **SERIAL
    )
    assert result.arrays["explained"][1] == pytest.approx(0.8, abs=0.05)
    assert result.arrays["test-accuracy"][1] == pytest.approx(
        result.arrays["test-accuracy"][0], abs=0.02
    )
    assert result.arrays["random-test-accuracy"][1] < result.arrays["test-accuracy"][1] - 0.05


def test_evolution_stays_in_the_visible_subspace():
    result = penchant.measure(
        "geometry-evolution",
        architecture=blind,
        dataset=visible_samples,
        networks=300,
        samples=20,
        leading=2,
        **SERIAL,
    )
    contained = result.quantities["containment"]
    assert contained.value == pytest.approx(1, abs=1e-6) and contained.null < 0.8
    assert np.abs(result.arrays["evolution"][2:]).max() == 0


def test_evolution_along_training_and_widths_has_one_row_each():
    common = {"dataset": visible_samples, "networks": 36, "samples": 12, **SERIAL}
    steps = penchant.measure(
        "geometry-evolution", architecture=blind, eval_steps=(0, 1), training=TRAINING, **common
    )
    assert steps.arrays["corr-s"].shape == (2,) and steps.arrays["steps"].tolist() == [0, 1]
    start = penchant.measure("geometry-evolution", architecture=blind, **common)
    assert steps.arrays["corr-s"][0] == pytest.approx(
        start.arrays["corr-s"][0], rel=1e-5
    )  # step 0 is the initialisation
    perceptron = {"name": "mlp", "widths": [4]}
    widths = penchant.measure(
        "geometry-evolution", architecture=perceptron, widths=(2, 8), **common
    )
    single = penchant.measure(
        "geometry-evolution", architecture={"name": "mlp", "widths": [8]}, **common
    )
    assert widths.arrays["widths"].tolist() == [2, 8]
    assert widths.arrays["corr-gsg"][1] == pytest.approx(single.arrays["corr-gsg"][0], rel=1e-9)


def test_an_architecture_without_width_is_refused():
    with pytest.raises(penchant.Error, match="has no width"):
        penchant.measure(
            "geometry-evolution",
            architecture={"name": "logistic"},
            dataset=visible_samples,
            networks=24,
            widths=(2,),
            **SERIAL,
        )


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_second_part_of_the_hessian_vanishes_for_piecewise_linear_networks(activation):
    circles = {
        "name": "two-circles",
        "input_shape": [4],
        "radii": [2.0, 0.5],
        "train": 200,
        "test": 10,
    }
    options = {
        "dataset": circles,
        "trainings": 4,
        "training": TRAINING,
        "eval_steps": (24,),
        **SERIAL,
    }
    architecture = {"name": "mlp", "widths": [8], "activation": activation}
    share = penchant.measure("input-curvature", architecture=architecture, **options).arrays[
        "second-share"
    ]
    assert (share == 0).all() if activation == "relu" else share[-1] > 0.05


def test_isotropic_network_has_no_eigenvalue_beyond_its_null():
    options = {"shape": (1, 6, 6), "networks": 600, "null_draws": 50}
    architecture = {"name": "mlp", "widths": [64], "bias": False, "initialization": "gaussian"}
    result = penchant.measure("average-geometry", architecture=architecture, **options, **SERIAL)
    isotropy = result.quantities["corr-isotropic"]
    assert isotropy.value > 0.99 and abs(isotropy.value - 1) < 4 * isotropy.stderr
    assert result.quantities["beyond-null"].value == 0


@pytest.mark.parametrize("probing", ["gaussian", "zero", "data"])
def test_more_networks_extend_fewer(probing):
    """The first gradients, and so the entries of G that come from them, do not depend on how many follow."""
    found = []
    for samples in (40, 80):
        options = {
            "networks": samples,
            "estimators": {"directions": {"name": "average-geometry", "probing": probing}},
            "architecture": {"name": "mlp", "widths": [5], "activation": "gelu"},
        }
        found.append(
            penchant.measure(
                "average-geometry", dataset=visible_samples, **options, **SERIAL
            ).arrays["geometry"]
        )
    rest = 2 * found[1] - found[0]  # G of networks 40 to 79
    assert np.linalg.eigvalsh(rest).min() > -1e-12
    assert not np.allclose(found[0], found[1])


def coloured_noise():
    """Two hundred images of three channels."""
    images = torch.randn(200, 3, 2, 2, generator=generator(5))
    labels = torch.arange(200) % 2
    return (images, labels), (images, labels)


def test_labels_come_from_the_inputs_that_are_trained_on():
    """Dataset inputs are not changed by labelling; the direction decides which pixels matter."""
    context = testing.context(
        "direction-generalization", dataset=coloured_noise, data="dataset", label_noise=0.0
    )
    direction = torch.zeros(12)
    direction[7] = 1.0  # channel 1, last pixel
    train, _ = labelled_samples(context, direction, 0)
    assert torch.equal(train.inputs, context.data.train.inputs)
    pixel = train.inputs[:, 1, 1, 1]
    assert ((pixel > pixel.median()).long() == train.labels).all()


def test_sinusoid_on_isotropic_inputs_is_that_of_the_coefficient_before_it_is_scaled():
    """sin(pi a), a = u.x / epsilon, without noise, as in the published code."""
    context = testing.context(
        "direction-generalization", shape=(6,), labels="sinusoid", epsilon=5.0, train=400, test=50
    )
    direction = torch.zeros(6)
    direction[2] = 1.0
    train, test = labelled_samples(context, direction, 0)
    score = torch.sin(math.pi * train.inputs[:, 2].double() / 5.0)
    assert ((score > score.median()).long() == train.labels).all()
    assert float(train.inputs[:, 2].std()) == pytest.approx(5.0, rel=0.15)
    assert len(test.labels) == 50


def test_indices_beyond_the_rank_are_refused_before_networks_are_trained():
    with pytest.raises(penchant.Error, match="networks must be at least 60"):
        penchant.measure(
            "direction-generalization",
            architecture=blind,
            shape=(64,),
            networks=20,
            indices=(0, 59),
            **SERIAL,
        )


def test_three_classes_are_refused_where_one_output_is_needed():
    with pytest.raises(penchant.Error, match="two classes"):
        penchant.measure(
            "geometry-evolution",
            architecture={"name": "logistic"},
            dataset=lambda: testing.tiny_samples(generator()),
            **SERIAL,
        )


@pytest.mark.parametrize("inputs", [1, 2])
def test_few_networks_of_large_inputs_are_measured_by_their_gradients(monkeypatch, inputs):
    from penchant_gih.average_geometry import probe as average_geometry
    from penchant_numerics.inputs import row_moments

    estimators = {"directions": {"name": "average-geometry", "inputs": inputs}}
    arguments = {
        "architecture": {"name": "import", "factory": testing.TINY},
        "shape": (1, 6, 6),
        "networks": 15,
        "estimators": estimators,
        **SERIAL,
    }
    matrix = penchant.measure("average-geometry", **arguments)
    # Inputs beyond which rows are kept, and beyond which the matrix is not stored.
    monkeypatch.setattr(row_moments, "LARGEST_MATRIX", 30)
    formed = penchant.measure("average-geometry", **arguments)
    monkeypatch.setattr(average_geometry, "LARGEST_STORED", 30)
    rows = penchant.measure("average-geometry", store_directions=4, **arguments)
    assert "geometry" not in rows.arrays and rows.arrays["directions"].shape == (4, 36)
    assert "36 x 36 numbers" in rows.conventions["geometry stored"]
    for name in ("geometry", "geometry-stderr", "eigenvalues", "directions"):
        np.testing.assert_allclose(
            formed.arrays[name], matrix.arrays[name], rtol=1e-4, atol=1e-7, err_msg=name
        )
    shares = rows.arrays["frequency-shares"]
    np.testing.assert_allclose(shares, matrix.arrays["frequency-shares"], rtol=1e-5)
    np.testing.assert_allclose(
        rows.arrays["eigenvalues-stderr"], matrix.arrays["eigenvalues-stderr"], rtol=1e-4, atol=1e-7
    )
    # The nulls are of the same norms in another order: their draws differ.
    for name in ("trace", "effective-rank", "corr-isotropic", "low-frequencies"):
        for other in (formed, rows):
            found, expected = other.quantities[name], matrix.quantities[name]
            assert found.value == pytest.approx(expected.value, rel=1e-5)
            assert found.stderr == pytest.approx(expected.stderr, rel=1e-4)


@pytest.mark.slow
def test_the_quick_preset_of_sample_pruning_trains_lenet():
    """At a rate of 0.2 without clipping it stayed at chance, 0.10."""
    pytest.importorskip("penchant_architectures")
    result = penchant.measure(
        "sample-pruning",
        preset="quick",
        architecture="lenet",
        dataset={"name": "digits", "resize": 16},
        networks=12,
        fractions=[0.5],
        trainings=1,
        executor="serial",
        figures=False,
    )
    assert result.arrays["random-test-accuracy"][0] > 0.8
