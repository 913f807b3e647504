"""Live bytes: what a computation holds, and held at most."""

import torch
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_numerics.device import LiveBytes, fitting_batch, memory
from penchant_numerics.device.sample_bytes import pass_bytes
from penchant_testing import emulated_device
from torch import nn


def test_what_autograd_keeps_is_counted_and_goes_with_the_graph():
    network = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 5))
    x = torch.ones(10, 30, device="cpu")
    with LiveBytes(peaks=True) as live:
        y = network(x)
    assert live.alive() == 4 * (10 * 40 + 10 * 5)  # the activation and the output
    del y
    assert live.alive() == 0
    assert live.peak >= 4 * (10 * 40 + 10 * 5)


def test_views_and_older_tensors_are_not_counted():
    older = torch.ones(100, device="cpu")
    with LiveBytes() as live:
        view = older.view(10, 10)
        older.add_(1)
    assert live.alive() == 0
    assert view.shape == (10, 10)


def test_a_device_is_measured_as_the_host_is_and_its_batches_follow_the_budget():
    """Bytes of a pass, batches and what is cached: on the emulated device the numbers of the CPU."""
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 5)).eval()
    inputs = torch.ones(12, 1, 8, 8, device="cpu")
    labels = torch.arange(12, device="cpu") % 5
    found = {}
    with emulated_device():
        for device in ("cpu", "emulated"):
            moved = network.to(device)
            given = (inputs.to(device), labels.to(device))
            own = [pass_bytes(moved, given[0])]
            with memory.budget(80_000):
                for kind in (GaussNewton, Hessian):
                    operator = kind(moved, given, check=False)
                    own.append((operator.batch, operator.cached, operator.cached_bytes))
            found[device] = own
    assert found["emulated"] == found["cpu"]
    for batch, cached, _ in found["cpu"][1:]:
        assert 1 < batch < 12 and cached


def test_two_samples_are_not_passed_where_one_takes_more_than_a_pass_may():
    """Of 60 bytes a pass may take 30, and a sample takes 40: two would be more than all."""
    passed = []

    def work(batch):
        passed.append(len(batch))
        return batch * 2

    x = torch.ones(4, 10, device="cpu")
    with memory.budget(60):
        assert fitting_batch(work, x, largest=8) == 1
    assert passed == [1]
    with memory.budget(400):
        assert fitting_batch(work, x, largest=8) == 5
    assert passed == [1, 1, 2]
