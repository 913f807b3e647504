"""Networks under random changes of their parameters: unit vectors, and stacked against single."""

import pytest
import torch
from penchant_numerics.device.vectorisation import NotVectorisedWarning
from penchant_spectral_bias.frequency_robustness.perturbations import perturbed_outputs, unit_vector
from torch import nn

HOST = {"device": "cpu", "dtype": torch.float64}


def small_network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)).double()


def generator(index):
    return torch.Generator(device="cpu").manual_seed(index)


def test_perturbations_are_unit_vectors_in_all_parameters():
    network = small_network()
    noise = unit_vector(network, generator(0))
    assert float(sum(each.square().sum() for each in noise.values())) == pytest.approx(
        1.0, rel=1e-12
    )
    rows = torch.stack(
        [
            torch.cat([p.flatten() for p in unit_vector(network, generator(i)).values()])
            for i in range(1000)
        ]
    )
    size = rows.shape[1]
    moment = rows.T @ rows / len(rows) * size
    # on the sphere in D dimensions D v_i v_j has the variance D^2 (3 or 1) / (D (D + 2)) minus the square of its mean
    spread = (
        torch.where(torch.eye(size, **HOST).bool(), 3 * size / (size + 2) - 1, size / (size + 2))
        .div(len(rows))
        .sqrt()
    )
    z = (moment - torch.eye(size, **HOST)) / spread
    assert z.abs().max() < torch.distributions.Normal(0, 1).icdf(
        torch.tensor(1 - 0.005 / (size * (size + 1) / 2), device="cpu")
    )


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_stacked_perturbations_are_single_ones(chunk):
    network, inputs = small_network(), torch.randn(20, 2, generator=generator(9), **HOST)
    found = perturbed_outputs(network, inputs, [0.0, 0.5], generator, 7, chunk=chunk)
    assert found.shape == (7, 2, 20)
    before = network(inputs)[:, 0].detach()
    for index in range(7):
        moves = unit_vector(network, generator(index))
        moved = {
            name: each.detach() + 0.5 * moves[name] for name, each in network.named_parameters()
        }
        torch.testing.assert_close(
            found[index, 1], torch.func.functional_call(network, moved, (inputs,))[:, 0]
        )
        torch.testing.assert_close(found[index, 0], before)


class Recurrent(nn.Module):
    """An LSTM, which torch cannot stack."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(1, 3, batch_first=True)

    def forward(self, x):
        states, _ = self.cell(x.unsqueeze(-1))
        return states[:, -1]


def test_what_cannot_be_stacked_is_moved_one_by_one():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Recurrent().double()
    inputs = torch.randn(5, 2, generator=generator(9), **HOST)
    with pytest.warns(NotVectorisedWarning, match="outputs of moved networks are taken one by one"):
        found = perturbed_outputs(network, inputs, [0.5], generator, 3, chunk=2)
    for index in range(3):
        moves = unit_vector(network, generator(index))
        moved = {
            name: each.detach() + 0.5 * moves[name] for name, each in network.named_parameters()
        }
        expected = torch.func.functional_call(network, moved, (inputs,))[:, 0]
        torch.testing.assert_close(found[index, 0], expected)
