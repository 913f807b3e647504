"""Probes of the geometry on a network, or a training, of the user's own."""

import numpy as np
import penchant
import pytest
import torch
from torch import nn

G = torch.Generator().manual_seed(0)
Y = torch.arange(80) % 2
X = torch.randn(80, 4, generator=G) + 2.0 * Y[:, None] * torch.tensor([1.0, 0, 0, 0])
DATA = {"name": "import", "factory": ((X, Y), (X, Y))}


class Net(nn.Sequential):
    """Two logits of four inputs, with a second derivative."""

    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), 0.3)
    for step in range(31):
        if step in (0, 30):
            torch.save(network.state_dict(), tmp_path / f"step-{step}.pt")
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(X), Y).backward()
        optimizer.step()
    return tmp_path, network


def test_the_input_hessian_of_a_trained_network_is_that_by_autodiff(run):
    """The share of the second term without noise: mean Hessians of all samples, in one go."""
    folder, _ = run
    network = Net().double()
    network.load_state_dict(torch.load(folder / "step-30.pt"))
    found = penchant.measure(
        "input-curvature", architecture=network.float(), dataset=DATA, samples=80, executor="serial"
    )
    network.double()

    def loss(x, y):
        return nn.functional.cross_entropy(network(x[None]), y[None])

    def margin(x):
        logits = network(x[None])[0]
        return logits[1] - logits[0]

    hessians = torch.stack([torch.func.hessian(loss)(x, y) for x, y in zip(X.double(), Y)]).detach()
    gradients = torch.stack([torch.func.grad(margin)(x) for x in X.double()]).detach()
    rows = torch.einsum("na,nb->nab", gradients, gradients).flatten(1)
    whole = hessians.flatten(1)

    def distinct(a, b):
        table = a @ b.T
        return float(table.sum() - table.trace()) / (len(a) * (len(a) - 1))

    def cosine(a, b):
        return distinct(a, b) / np.sqrt(distinct(a, a) * distinct(b, b))

    # The bias of a ratio of means is taken away by leaving out each sample once.
    others = [np.delete(np.arange(80), number) for number in range(80)]
    replicates = [cosine(whole[keep], rows[keep]) for keep in others]
    expected = 80 * cosine(whole, rows) - 79 * np.mean(replicates)
    assert found.quantities["corr-g"].value == pytest.approx(expected, rel=1e-4)
    assert found.quantities["corr-g"].over == "samples"


def test_too_few_samples_for_a_jackknife_are_refused(run):
    """An empty group would be a moment of nothing: not a number."""
    _, network = run
    few = {"name": "import", "factory": ((X[:15], Y[:15]), (X, Y))}
    arguments = {"architecture": network, "executor": "serial"}
    with pytest.raises(penchant.Error, match="at least 16 samples, the train split has 15"):
        penchant.measure("average-geometry", **arguments, dataset=few)
    enough = {"name": "import", "factory": ((X[:16], Y[:16]), (X, Y))}
    result = penchant.measure("average-geometry", **arguments, dataset=enough)
    assert result.quantities["trace"].stderr


def test_curvature_and_geometry_follow_the_users_training(run):
    folder, network = run
    arguments = {"architecture": Net, "dataset": DATA, "executor": "serial", "weights": folder}
    curvature = penchant.measure("input-curvature", **arguments, samples=20)
    assert list(curvature.arrays["steps"]) == [0, 30]
    small = {"networks": 24, "inputs": 12}
    geometry = penchant.measure("geometry-training", **arguments, **small, data="dataset")
    assert list(geometry.arrays["steps"]) == [0, 30]
    assert geometry.quantities["peak-corr-s"].over == "probing inputs"
    last = Net()
    last.load_state_dict(torch.load(folder / "step-30.pt"))
    right = (last(X).argmax(1) == Y).float().mean()
    assert geometry.quantities["train-accuracy"].value == pytest.approx(float(right))
    with pytest.raises(penchant.Error, match="a trajectory was trained on its dataset"):
        penchant.measure("geometry-training", **arguments, **small)


def test_errors_of_waves_are_the_spread_over_new_samples():
    """A network of the user's own: conformance compares errors of fresh ones."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 2))
    found = {"rank-over-scrambled": [], "low-frequencies": []}
    for seed in range(24):
        generator = torch.Generator().manual_seed(seed)
        data = (torch.randn(60, 1, 6, 6, generator=generator), torch.arange(60) % 2)
        result = penchant.measure(
            "average-geometry", architecture=network, dataset=data, seed=seed, executor="serial"
        )
        for name, quantities in found.items():
            quantities.append(result.quantities[name])
    for name, quantities in found.items():
        spread = np.std([each.value for each in quantities], ddof=1)
        claimed = np.sqrt(np.mean([each.stderr**2 for each in quantities]))
        assert 0.5 < claimed / spread < 2, (name, claimed, spread)
