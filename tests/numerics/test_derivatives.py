"""Input gradients: three methods against closed forms and each other; device-clean on the meta device."""

import pytest
import torch
from penchant_numerics.inputs import (
    SecondMoment,
    finite_differences,
    first_output,
    impulse_responses,
    input_gradients,
)
from penchant_numerics.inputs.derivatives import Displaced, central_differences
from penchant_numerics.training import Ensemble, draw
from penchant_testing import strict_devices
from torch import nn


class Drawn:
    def __init__(self, factory):
        self.factory = factory

    def seed_of(self, index):
        return index

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.factory().eval()


def network(activation=nn.GELU, bias=True):
    return lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=bias), activation(), nn.Flatten(), nn.Linear(4 * 16, 1, bias=bias)
    )


def drawn(factory, count=3):
    return draw(Drawn(factory), range(count)).to("cpu", torch.float64)


POINT = torch.randn(1, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_autograd_equals_backpropagation_network_by_network():
    ensemble, point = drawn(network()), POINT.clone().requires_grad_()
    found = input_gradients(ensemble, POINT[None])[:, 0]
    for position, module in enumerate(ensemble.each()):
        (expected,) = torch.autograd.grad(module(point[None])[0, 0], point)
        torch.testing.assert_close(found[position], expected.flatten())


def test_gradients_at_several_points_do_not_mix():
    ensemble, points = drawn(network()), torch.stack([POINT, 2 * POINT, -POINT])
    together = input_gradients(ensemble, points)
    for position, point in enumerate(points):
        torch.testing.assert_close(
            together[:, position], input_gradients(ensemble, point[None])[:, 0]
        )


def test_finite_differences_converge_to_autograd_at_second_order():
    ensemble = drawn(network())
    exact = input_gradients(ensemble, POINT[None])[:, 0]
    errors = [
        float((finite_differences(ensemble, POINT, step=step) - exact).norm())
        for step in (0.04, 0.02)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize("chunk", [2, 10, 1000])
def test_finite_differences_do_not_depend_on_the_chunk(chunk):
    ensemble = drawn(network())
    torch.testing.assert_close(
        finite_differences(ensemble, POINT, step=0.5, chunk=chunk),
        finite_differences(ensemble, POINT, step=0.5),
        rtol=1e-10,
        atol=1e-12,
    )


def test_a_single_difference_is_what_its_definition_says():
    module = drawn(network(), 1)
    (function,) = module.each()
    found = central_differences(function, Displaced(POINT, 3.0, chunk=8))
    for pixel in (0, 17, 35):
        step = torch.zeros(36, dtype=torch.float64)
        step[pixel] = 3.0
        step = step.reshape(1, 6, 6)
        expected = (function((POINT + step)[None]) - function((POINT - step)[None]))[0, 0] / 6
        assert float(found[pixel]) == pytest.approx(float(expected), rel=1e-12)


def test_impulse_is_the_limit_of_growing_steps_and_exact_without_biases():
    homogeneous = drawn(network(nn.ReLU, bias=False))
    impulse = impulse_responses(homogeneous, (1, 6, 6), like=POINT)
    torch.testing.assert_close(
        finite_differences(homogeneous, torch.zeros_like(POINT), step=7.0), impulse
    )
    biased = drawn(network(nn.ReLU))
    limit = impulse_responses(biased, (1, 6, 6), like=POINT)
    distances = [
        float((finite_differences(biased, POINT, step=step) - limit).norm())
        for step in (1e2, 1e3, 1e4)
    ]
    assert distances[0] > 5 * distances[1] > 25 * distances[2]


def test_two_logits_are_taken_as_their_difference():
    assert first_output(torch.tensor([[1.0, 5.0]])).tolist() == [4.0]
    assert first_output(torch.tensor([[3.0]])).tolist() == [3.0]


def test_numerics_run_on_the_meta_device_where_mixing_devices_is_an_error():
    ensemble = draw(Drawn(network()), range(2))
    meta = Ensemble(
        ensemble.module.to("meta"),
        {name: tensor.to("meta") for name, tensor in ensemble.state.items()},
        "",
    )
    point = torch.empty(1, 6, 6, device="meta")
    moment = SecondMoment(36, device="meta")
    for found in (
        input_gradients(meta, point[None])[:, 0],
        finite_differences(meta, point, step=1.0),
        impulse_responses(meta, (1, 6, 6), like=point),
    ):
        assert found.shape == (2, 36)
        moment.add(found)
    assert moment.matrix(centred=True).device.type == "meta"


def test_numerics_name_the_device_of_every_tensor():
    with strict_devices():
        ensemble = drawn(network())
        finite_differences(ensemble, POINT, step=1.0)
        impulse_responses(ensemble, (1, 6, 6), like=POINT)
    with pytest.raises(AssertionError, match="without device="), strict_devices():
        exec("import torch; torch.zeros(3)", {"__name__": "penchant_something"})


@pytest.mark.cuda
def test_the_same_networks_on_cuda(gpu):
    cpu, cuda = drawn(network()), draw(Drawn(network()), range(3)).to(gpu, torch.float64)
    torch.testing.assert_close(
        input_gradients(cuda, POINT[None].to(gpu)).cpu(), input_gradients(cpu, POINT[None])
    )
