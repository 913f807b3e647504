"""tangent-training along checkpoints of the user's, beside kernels taken by hand."""

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import Samples
from penchant_numerics.training import evaluate
from torch import nn

G = torch.Generator().manual_seed(3)
Y = torch.arange(120) % 2
X = torch.randn(120, 3, generator=G) + 2 * Y[:, None] * torch.tensor([1.0, 0.0, 0.0])


class Net(nn.Sequential):
    """A small network."""

    def __init__(self):
        super().__init__(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


@pytest.fixture
def run(tmp_path):
    """Checkpoints of a plain training of torch, and the networks."""
    torch.manual_seed(0)
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), 0.5)
    states = {}
    for step in range(41):
        if step in (0, 10, 40):
            states[step] = {k: v.clone() for k, v in network.state_dict().items()}
            torch.save(states[step], tmp_path / f"step-{step}.pt")
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(X), Y).backward()
        optimizer.step()
    return tmp_path, states


def measured(folder, **options):
    arguments = {"architecture": Net, "dataset": ((X, Y), (X, Y)), "executor": "serial"}
    return penchant.measure(
        "tangent-training", **arguments, weights=folder, **{"samples": 20, **options}
    )


def test_it_follows_the_users_training(run):
    folder, states = run
    found = measured(folder)
    assert list(found.arrays["steps"]) == [0, 10, 40]
    for number, step in enumerate(states):
        network = Net()
        network.load_state_dict(states[step])
        _, accuracy = evaluate(network, Samples(X, Y), loss="cross-entropy")
        assert found.arrays["train-accuracy"][0, number] == pytest.approx(accuracy)
    assert found.quantities["cka-final-0"].over == "batches of samples"
    assert found.quantities["train-accuracy-0"].over == "samples"
    assert found.quantities["cka-change-0"].value > 0


def test_batches_of_all_samples_have_the_trace_of_all(run):
    """Two batches of half of the samples: their mean trace, from the Jacobian of all samples."""
    folder, states = run
    found = measured(folder, trainings=2, centring="none", eval_steps=(40,), samples=60)
    network = Net().double()
    network.load_state_dict(states[40])
    names = {name: each.detach() for name, each in network.named_parameters()}

    def outputs(parameters, x):
        return torch.func.functional_call(network, parameters, (x,))

    jacobian = torch.func.jacrev(outputs)(names, X.double())
    trace = sum(float(each.square().sum()) for each in jacobian.values())
    assert found.arrays["train-mean-eigenvalue"][0, 0] == pytest.approx(trace / 240, rel=1e-5)
    assert found.arrays["train-mean-eigenvalue-stderr"][0, 0] > 0


def test_other_labels_than_hers_are_refused(run):
    with pytest.raises(penchant.Error, match="trained on labels of its own, found noise_shares"):
        measured(run[0], noise_shares=(0.0, 0.5))


def test_batches_have_no_sample_in_common(run):
    with pytest.raises(penchant.Error, match="found 120 samples for 40 batches"):
        measured(run[0], trainings=40)
    found = measured(run[0], trainings=6)
    assert np.isfinite(found.arrays["train-cka"]).all()
