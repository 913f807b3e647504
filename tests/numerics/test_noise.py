"""Noise where it is used: on the CPU and on the emulated device the numbers of the generator."""

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.inputs import noise

CPU = torch.device("cpu")


def generator():
    return torch.Generator(device="cpu").manual_seed(7)


def drawn(device):
    stream = noise.own_generator(generator(), device)
    found = [
        noise.normal((3, 2), stream, device),
        noise.uniform((4,), stream, device),
        noise.integers(9, (5,), stream, device),
        noise.permutation(6, stream, device),
        noise.normal((2,), stream, device),
    ]
    return [each.cpu() for each in found]


def test_on_the_cpu_it_is_what_the_generator_draws():
    stream = generator()
    expected = [
        torch.randn(3, 2, generator=stream),
        torch.rand(4, generator=stream),
        torch.randint(9, (5,), generator=stream),
        torch.randperm(6, generator=stream),
        torch.randn(2, generator=stream),
    ]
    assert all(map(torch.equal, drawn(CPU), expected))


def test_a_device_draws_by_itself_and_leaves_the_global_numbers_alone():
    before = torch.random.get_rng_state()
    with testing.emulated_device() as counts:
        device = torch.device("emulated")
        stream = noise.own_generator(generator(), device)
        for _ in range(10):
            noise.normal((3, 2), stream, device)
        assert not counts.syncs
        found = drawn(device)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(map(torch.equal, found, drawn(CPU)))


@pytest.mark.cuda
def test_a_gpu_has_a_generator_of_its_own_seeded_from_the_given_one(gpu):
    if gpu != "cuda":
        pytest.skip("this device has no generators")
    device = torch.device(gpu)
    stream = noise.own_generator(generator(), device)
    assert stream.device.type == "cuda"
    assert all(map(torch.equal, drawn(device), drawn(device)))
