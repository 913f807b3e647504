"""Sequences with a label at every position, against plain torch."""

import copy

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_landscape.shared.line_losses import Landscape, quadratic_model
from penchant_landscape.shared.network_energy import NetworkEnergy, sample_losses
from penchant_numerics.data import Samples
from torch import nn
from torch.nn import functional

IGNORED = -100


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def tagger(classes=4):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = nn.Sequential(nn.Embedding(6, 3), nn.Tanh(), nn.Linear(3, classes))
    return network.double().eval()


def sequences(count=20, positions=5, classes=4):
    """Tokens and labels; sequences have from one to all positions that count."""
    tokens = torch.randint(6, (count, positions), generator=generator(2), device="cpu")
    labels = torch.randint(classes, (count, positions), generator=generator(3), device="cpu")
    lengths = torch.randint(1, positions + 1, (count, 1), generator=generator(4), device="cpu")
    labels[torch.arange(positions, device="cpu") >= lengths] = IGNORED
    return Samples(tokens, labels)


def plain_loss(network, samples):
    """Torch's own cross-entropy over all positions that count."""
    outputs = network(samples.inputs).flatten(0, 1)
    return functional.cross_entropy(outputs, samples.labels.flatten(), ignore_index=IGNORED)


def plain_accuracy(network, samples):
    counted = samples.labels != IGNORED
    return (network(samples.inputs).argmax(-1) == samples.labels)[counted].double().mean()


def moved(network, row):
    other = copy.deepcopy(network).requires_grad_(False)
    nn.utils.vector_to_parameters(row, other.parameters())
    return other


def landscape_of(network, samples):
    return Landscape(
        network, samples, loss="cross-entropy", batch_norm="running", calibration=samples.inputs
    )


def test_points_have_the_loss_and_accuracy_over_positions():
    network, samples = tagger(), sequences()
    landscape = landscape_of(network, samples)
    shape = (3, len(landscape.centre))
    rows = landscape.centre + torch.randn(
        shape, generator=generator(5), device="cpu", dtype=torch.float64
    )
    found = landscape.measure(rows)
    for row, losses, right in zip(rows, found.losses, found.right):
        other = moved(network, row)
        assert float(losses.mean()) == pytest.approx(float(plain_loss(other, samples)), abs=1e-12)
        assert float(right.mean()) == pytest.approx(float(plain_accuracy(other, samples)))


@pytest.mark.parametrize("what", ["losses", "right"])
def test_errors_are_those_of_leaving_out_sequences(what):
    network, samples = tagger(), sequences(count=300)
    landscape = landscape_of(network, samples)
    each = getattr(landscape.measure([landscape.centre]), what)[0]
    stated = float(each.std()) / len(each) ** 0.5
    plain = {"losses": plain_loss, "right": plain_accuracy}[what]
    left_out = []
    for number in range(len(each)):
        others = [other for other in range(len(each)) if other != number]
        left_out.append(plain(network, samples.select(torch.tensor(others, device="cpu"))).item())
    spread = torch.tensor(left_out, device="cpu", dtype=torch.float64).var(correction=0)
    assert stated == pytest.approx(float((len(each) - 1) * spread) ** 0.5, rel=0.01)


def test_the_quadratic_model_is_that_of_dense_derivatives():
    network, samples = tagger(), sequences()
    landscape = landscape_of(network, samples)

    def loss(row):
        named = landscape.layout.named(row)
        outputs = torch.func.functional_call(network, named, (samples.inputs,)).flatten(0, 1)
        return functional.cross_entropy(outputs, samples.labels.flatten(), ignore_index=IGNORED)

    shape = (2, len(landscape.centre))
    rows = torch.randn(shape, generator=generator(5), device="cpu", dtype=torch.float64)
    model = quadratic_model(0.5, landscape.gradient(), landscape.hessian(), rows)
    gradient = torch.func.grad(loss)(landscape.centre)
    H = torch.func.hessian(loss)(landscape.centre)
    assert torch.allclose(model.slopes, rows @ gradient, atol=1e-12)
    assert torch.allclose(model.curvatures, ((rows @ H) * rows).sum(1), atol=1e-12)


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("batch", [None, 20])
def test_the_energy_of_chains_is_the_excess_of_the_plain_loss(chains, batch):
    network, samples = tagger(), sequences()
    energy = NetworkEnergy(
        network, samples, loss="cross-entropy", batch=batch, generator=generator(7)
    )
    shape = (chains, len(energy.centre))
    weights = energy.centre + 0.5 * torch.randn(
        shape, generator=generator(6), device="cpu", dtype=torch.float64
    )
    # twice: the second call takes what the first has traced
    for _ in range(2):
        excess, gradient = energy(weights)
    here = plain_loss(network, samples)
    for number, row in enumerate(weights):
        other = moved(network, row).requires_grad_()
        loss = plain_loss(other, samples)
        plain = torch.autograd.grad(loss, list(other.parameters()))
        rise = float((loss - here).detach())
        assert float(excess[:, number].mean()) == pytest.approx(rise, abs=1e-12)
        flat = torch.cat([each.flatten() for each in plain])
        assert torch.allclose(gradient[number], flat, atol=1e-12)


def test_squared_errors_of_positions_are_those_of_unit_vectors():
    network, samples = tagger(), sequences()
    outputs = network(samples.inputs).detach()
    total = 0.0
    for row, labels in zip(outputs, samples.labels):
        for output, label in zip(row, labels.tolist()):
            if label != IGNORED:
                target = torch.zeros_like(output)
                target[label] = 1.0
                total += 0.5 * float((output - target).square().sum())
    assert float(sample_losses(outputs, samples.labels, "squared-error").sum()) == pytest.approx(
        total
    )


def tables(shape, outputs):
    """Logits of every token, without anything between: a regular model but for shifts of logits."""
    return nn.Embedding(2, outputs)


def coins(generator):
    """Labels of each position with chances of its token; every other sequence is shorter."""
    tokens = torch.randint(2, (400, 4), generator=generator, device="cpu")
    chances = torch.tensor([0.3, 0.6], device="cpu")[tokens]
    labels = (torch.rand(tokens.shape, generator=generator, device="cpu") < chances).long()
    labels[::2, 2:] = IGNORED
    return (tokens, labels), (tokens[:20], labels[:20])


def test_a_regular_model_of_sequences_has_half_its_free_parameters():
    result = penchant.measure(
        "learning-coefficient",
        architecture={"name": "import", "factory": tables},
        dataset={"name": "import", "factory": coins},
        training={"steps": 200, "learning_rate": 2.0, "batch": 0},
        chains=8,
        chain_steps=1500,
        warmup=500,
        localisation=0.1,
    )
    found = result.quantities["localised-coefficient"]
    # four logits, of which a shift of both of a token changes nothing
    assert found.value == pytest.approx(1.0, abs=4 * found.stderr + 0.05)
    assert "400 sequences" in result.conventions["temperature"]
    assert result.quantities["loss"].over == "sequences"


def test_a_plane_of_sequences_says_what_its_errors_are_over():
    result = penchant.measure(
        "loss-plane",
        architecture={"name": "import", "factory": testing.tiny.TAGGER},
        dataset={"name": "import", "factory": testing.tiny.SEQUENCES},
        training={"steps": 6, "learning_rate": 0.3},
        samples=20,
        grid_points=5,
        plane_points=3,
        random_directions=3,
    )
    assert result.quantities["barrier"].over == "sequences, paired"
    assert "positions" in result.conventions["loss"]
