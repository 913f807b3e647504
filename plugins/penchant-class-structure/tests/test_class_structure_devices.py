"""Products over two devices: the same bytes as on one, and as a plain operator's."""

import pytest
import torch
from penchant_class_structure.shared.multi_device import OverDevices, multi_device, neighbours
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_testing import emulated_device
from torch import nn

SAMPLES, BATCH = 15, 4  # one does not count: four batches, the last of two


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(18, 3)).eval()


def data():
    generator = torch.Generator("cpu").manual_seed(1)
    inputs = torch.randn(SAMPLES, 1, 8, 8, generator=generator, device="cpu")
    labels = torch.arange(SAMPLES, device="cpu") % 3
    labels[3] = -100  # a sample that does not count
    return inputs, labels


def vectors(size):
    generator = torch.Generator("cpu").manual_seed(2)
    return torch.randn(2, size, generator=generator, device="cpu")


@pytest.mark.parametrize("cache", [0, 2**30])
@pytest.mark.parametrize("kind", [GaussNewton, Hessian])
def test_products_have_the_same_bytes_on_one_and_two_devices(kind, cache):
    plain = kind(network(), data(), batch=BATCH, cache=cache)
    rows = vectors(plain.size)
    expected = [plain.multiply_rows(rows), plain.multiply_rows(rows[:1])]
    alone = []
    with emulated_device() as counts:
        for count in (1, 2):
            devices = [torch.device("emulated", place) for place in range(count)]
            there = tuple(each.to(devices[0]) for each in data())
            given = rows.to(devices[0])
            moved = network().to(devices[0])
            options = {"batch": BATCH, "cache": cache}
            operator = multi_device(kind, moved, there, devices=devices, **options)
            assert isinstance(operator, OverDevices) == (count == 2)
            found = [operator.multiply_rows(given), operator.multiply_rows(given[:1])]
            alone = alone or found
            for ours, one, on_cpu in zip(found, alone, expected):
                assert ours.device == devices[0]
                assert torch.equal(ours.cpu(), one.cpu())
                # a device takes both vectors in one product, which rounds otherwise
                torch.testing.assert_close(ours.cpu(), on_cpu, rtol=1e-5, atol=1e-6)
        moved_between = counts.by_kind()["between devices"]
    # vectors go to the other device once a product, two products of batches come back
    assert moved_between >= 2 * (1 + 2)


@pytest.mark.parametrize("cache", [0, 2**30])
def test_sample_space_is_the_same_on_two_devices(cache):
    plain = GaussNewton(network(), data(), batch=BATCH, cache=cache)
    factor = plain.factor()
    rows = vectors(plain.size)
    forth = factor.adjoint(rows)
    back = factor.apply(forth)
    with emulated_device():
        devices = [torch.device("emulated", place) for place in range(2)]
        there = tuple(each.to(devices[0]) for each in data())
        operator = multi_device(
            GaussNewton, network().to(devices[0]), there, devices=devices, batch=BATCH, cache=cache
        )
        split = operator.factor()
        assert split.samples == factor.samples
        found = split.adjoint(rows.to(devices[0]))
        assert torch.equal(found.cpu(), forth)
        assert torch.equal(split.apply(found).cpu(), back)


def test_a_batch_follows_from_the_budget_and_devices_do_not_change_it():
    with emulated_device():
        devices = [torch.device("emulated", place) for place in range(2)]
        there = tuple(each.to(devices[0]) for each in data())
        operator = multi_device(Hessian, network().to(devices[0]), there, devices=devices)
        assert operator.batch == 1024
        assert len(operator.operators) == 1  # one batch needs one device


def test_tensors_of_two_devices_do_not_mix():
    with emulated_device():
        first = torch.ones(2, device="emulated:0")
        second = torch.ones(2, device="emulated:1")
        assert str(second.device) == "emulated:1"
        with pytest.raises(RuntimeError, match="emulated:0 and emulated:1"):
            first + second
        assert (first + second.to("emulated:0")).cpu().tolist() == [2, 2]


def test_neighbours_follow_the_first_device_and_are_not_invented():
    first = torch.device("emulated:1")
    found = neighbours(first, 2)
    assert [str(each) for each in found] == ["emulated:1", "emulated:0"]
    with pytest.raises(ValueError, match="at most 2, the number available, found 3"):
        neighbours(first, 3)
    with pytest.raises(ValueError, match="at most 1, the number available, found 2"):
        neighbours(torch.device("cpu"), 2)


def test_devices_share_the_products_of_sequences():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokens, labels = torch.randint(0, 5, (6, 4)), torch.randint(0, 5, (6, 4))
        network = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 5))
    labels[0, 1:] = -100  # a shorter sequence
    network = network.double().eval()
    two = [torch.device("cpu"), torch.device("cpu")]
    for kind in (Hessian, GaussNewton):
        shared = OverDevices(kind, network, (tokens, labels), devices=two, batch=2)
        expected = kind(network, (tokens, labels)).dense()
        torch.testing.assert_close(shared.dense(), expected, rtol=1e-10, atol=1e-12)
