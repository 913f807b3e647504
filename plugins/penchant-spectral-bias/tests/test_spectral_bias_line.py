"""Exact Fourier analysis in one dimension: against the DFT, quadrature, closed forms and finite differences."""

import math

import numpy as np
import pytest
import torch
from penchant_spectral_bias.exact_spectrum.spectral_gradients import spectral_gradients
from penchant_spectral_bias.shared import piecewise_linear as line
from penchant_spectral_bias.shared.band_spectra import decay_exponent, in_windows
from penchant_spectral_bias.shared.spectral_norms import lipschitz_bounds, spectral_norms
from penchant_testing import strict_devices
from scipy import integrate, special
from torch import nn

HOST = {"device": "cpu", "dtype": torch.float64}


def network(*widths, inputs=1, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = (inputs, *widths)
        hidden = [layer for a, b in zip(sizes, widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        return (
            nn.Sequential(nn.Flatten(), *hidden, nn.Linear(sizes[-1], 1))
            .double()
            .requires_grad_(False)
        )


def along(net, start=0.0, end=1.0):
    return line.on_segment(
        line.chain_of(net), torch.tensor([start], **HOST), torch.tensor([end], **HOST)
    )


def tent():
    return line.PiecewiseLinear(
        torch.tensor([-1.0, 0.0, 1.0], **HOST), torch.tensor([0.0, 1.0, 0.0], **HOST)
    )


def test_tent_has_its_closed_form_with_the_right_sign():
    k = torch.tensor([0.3, 1.0, 4.0, 50.0], **HOST)
    expected = (2 - 2 * torch.cos(k)) / k**2
    for found in (line.transform(tent(), k), line.lemma_sum(tent(), k)):
        torch.testing.assert_close(found.real, expected, atol=1e-12, rtol=1e-12)
        assert found.imag.abs().max() < 1e-12
    assert (
        line.transform(tent(), k).real >= 0
    ).all()  # with the printed sign of the lemma it would be negative


def test_transform_at_zero_is_the_integral():
    assert float(line.transform(tent(), torch.zeros(1, **HOST)).real) == pytest.approx(
        1.0, abs=1e-15
    )


@pytest.mark.parametrize("k", [0.01, 3.0, 40.0])
def test_transform_is_the_quadrature_of_the_network(k):
    net = network(6, 5, seed=1)
    function = along(net, -1.0, 2.0)

    def value(x):
        return float(net(torch.tensor([[x]], **HOST)))

    points = (function.knots[1:-1] - 1).tolist()
    real = integrate.quad(
        lambda x: value(x) * math.cos(k * (x + 1)), -1, 2, points=points, limit=400
    )[0]
    imaginary = integrate.quad(
        lambda x: -value(x) * math.sin(k * (x + 1)), -1, 2, points=points, limit=400
    )[0]
    found = complex(line.transform(function, torch.tensor([k], **HOST))[0])
    assert found == pytest.approx(complex(real, imaginary), abs=1e-9)


@pytest.mark.parametrize("widths", [(16,), (32, 32), (24, 24, 24, 24)])
def test_knots_reproduce_the_network_everywhere(widths):
    net = network(*widths, seed=2)
    function = along(net)
    x = np.random.default_rng(0).uniform(size=2000)
    expected = net(torch.as_tensor(x, **HOST)[:, None])[:, 0].numpy()
    np.testing.assert_allclose(
        np.interp(x, function.knots.numpy(), function.values.numpy()), expected, atol=1e-14
    )
    assert (function.knots.diff() > 0).all()


def test_pieces_are_those_that_a_fine_grid_finds():
    net = network(20, 20, seed=3)
    x = torch.linspace(0, 1, 100001, **HOST)
    slopes = net(x[:, None])[:, 0].diff() / x.diff()
    bends = torch.nonzero(slopes.diff().abs() > 1e-7 * slopes.abs().max()).flatten()
    counted = (
        1 + int((bends.diff() > 1).sum()) + int(len(bends) > 0)
    )  # a bend inside a cell shows in two differences
    assert along(net).pieces() == counted


@pytest.mark.parametrize("samples", [64, 256, 4096])
def test_transform_is_the_dft_within_the_aliasing_bound(samples):
    net = network(32, 32, seed=4)
    function = along(net).without_line()
    z = torch.arange(samples, **HOST) / samples
    ends = net(torch.tensor([[0.0], [1.0]], **HOST))[:, 0]
    values = net(z[:, None])[:, 0] - ends[0] * (1 - z) - ends[1] * z
    n = torch.arange(0, samples // 2, **HOST)
    difference = (
        (
            torch.fft.fft(values)[: samples // 2] / samples
            - line.transform(function, 2 * math.pi * n)
        )
        .abs()
        .max()
    )
    # The DFT adds the transforms at n + m samples; with |f~(k)| <= bend / k^2 they are at most this.
    bound = float(line.bend(function)) * (math.pi**2 - 4) / (2 * math.pi * samples) ** 2
    assert difference <= bound
    assert difference > bound / 1000  # the bound is one that sampling comes near


def test_bend_bounds_the_spectrum():
    function = along(network(32, 32, seed=4)).without_line()
    k = 2 * math.pi * torch.arange(1, 5000, **HOST)
    assert (line.transform(function, k).abs() * k**2 <= line.bend(function) * (1 + 1e-9)).all()


def test_spectrum_falls_like_the_square_and_its_gradient_like_the_first_power():
    net = network(12, 12, seed=0)
    function = along(net).without_line()
    k = torch.logspace(3, 6, 4000, **HOST)
    assert decay_exponent(k, line.transform(function, k).abs()) == pytest.approx(-2, abs=0.1)
    some = torch.logspace(3, 5, 24, **HOST)
    norms = spectral_gradients(
        line.chain_of(net), torch.zeros(1, **HOST), torch.ones(1, **HOST), some
    ).norms
    assert decay_exponent(some, norms) == pytest.approx(-1, abs=0.1)


def test_gradient_of_the_transform_is_its_finite_difference():
    net = network(5, 4, seed=1)
    k = torch.tensor([2.0, 17.0], **HOST)
    start, end = torch.zeros(1, **HOST), torch.ones(1, **HOST)
    exact = spectral_gradients(line.chain_of(net), start, end, k).norms
    squares = torch.zeros(2, **HOST)
    for parameter in net.parameters():
        flat = parameter.view(-1)
        for index in range(len(flat)):
            moved = []
            for step in (1e-6, -1e-6):
                flat[index] += step
                moved.append(line.transform(along(net).without_line(), k))
                flat[index] -= step
            squares += ((moved[0] - moved[1]) / 2e-6).abs().square()
    torch.testing.assert_close(exact, squares.sqrt(), rtol=1e-6, atol=0)


def test_square_is_its_quadrature():
    function = along(network(6, 5, seed=1))
    x = torch.linspace(0, 1, 200001, **HOST)
    values = torch.as_tensor(np.interp(x, function.knots, function.values), **HOST)
    expected = float(values.square().mean()) / 2
    assert float(function.half_square()) == pytest.approx(expected, rel=1e-5)


def test_rate_of_learning_is_the_change_over_a_small_step():
    """Gradient descent itself, on samples of the target, moves the transform at the stated rate."""
    net = network(5, 4, seed=1)
    start, end = torch.zeros(1, **HOST), torch.ones(1, **HOST)
    cycles, eta = 3, 1e-5
    k = torch.tensor([2 * math.pi * cycles], **HOST)
    rate = float(spectral_gradients(line.chain_of(net), start, end, k).rates)
    before = line.transform(along(net).without_line(), k)
    z = (torch.arange(20000, **HOST) + 0.5) / 20000
    net.requires_grad_(True)
    ends = net(torch.tensor([[0.0], [1.0]], **HOST))[:, 0]
    values = net(z[:, None])[:, 0] - ends[0] * (1 - z) - ends[1] * z
    loss = (values - torch.sin(2 * math.pi * cycles * z)).square().mean() / 2
    gradients = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    net.requires_grad_(False)
    for parameter, gradient in zip(net.parameters(), gradients):
        if gradient is not None:
            parameter -= eta * gradient
    after = line.transform(along(net).without_line(), k)
    assert float((after - before).abs()) / eta == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_rate_of_a_single_frequency_falls_at_least_like_the_first_power(seed):
    net = network(12, 12, seed=seed)
    start, end = torch.zeros(1, **HOST), torch.ones(1, **HOST)
    k = 2 * math.pi * torch.logspace(2, 4, 24, **HOST).round()
    rates = spectral_gradients(line.chain_of(net), start, end, k).rates
    assert decay_exponent(k, rates) < -0.9


def test_windows_take_oscillations_away():
    k = torch.logspace(1, 3, 4000, **HOST)
    places, sizes = in_windows(k, (torch.sin(k) / k).abs(), windows=8)
    torch.testing.assert_close(sizes, 1 / places / math.sqrt(2), rtol=0.1, atol=0)


def test_lipschitz_is_below_both_bounds_and_attained():
    for seed in range(5):
        net = network(16, 16, seed=seed)
        exact = float(line.lipschitz(along(net, -3.0, 3.0)))
        product, largest = lipschitz_bounds([weight for weight, _ in line.chain_of(net)])
        assert exact <= product * (1 + 1e-12) and product <= largest * (1 + 1e-12)
        x = torch.linspace(-3, 3, 20001, **HOST)
        assert exact == pytest.approx(
            float((net(x[:, None])[:, 0].diff() / x.diff()).abs().max()), rel=1e-6
        )


def test_product_of_norms_is_attained_by_a_line():
    layers = (
        nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double().requires_grad_(False)
    )
    for layer, weight in ((layers[0], 3.0), (layers[2], -2.0)):
        layer.weight.fill_(weight)
        layer.bias.fill_(0.5)
    assert float(line.lipschitz(along(layers))) == pytest.approx(6.0, rel=1e-12)
    assert lipschitz_bounds([weight for weight, _ in line.chain_of(layers)])[0] == pytest.approx(
        6.0, rel=1e-12
    )


def test_spectral_norms_are_the_largest_singular_values():
    generator = torch.Generator(device="cpu").manual_seed(0)
    dense = torch.randn(3, 5, 7, generator=generator, **HOST)
    kernel = torch.randn(3, 4, 2, 3, 3, generator=generator, **HOST)
    found = spectral_norms({"dense": dense, "kernel": kernel}, like=dense)
    for number in range(3):
        assert float(found[number, 0]) == pytest.approx(
            np.linalg.svd(dense[number].numpy())[1][0], rel=1e-12
        )
        assert float(found[number, 1]) == pytest.approx(
            np.linalg.svd(kernel[number].reshape(4, -1).numpy())[1][0], rel=1e-12
        )


def test_network_without_matrices_has_no_norms():
    assert spectral_norms({}, like=torch.zeros(3, 5, **HOST)).shape == (3, 0)


def test_segment_of_a_larger_input_is_the_network_along_it():
    net = network(10, 10, inputs=6, seed=5)
    start, end = torch.zeros(6, **HOST), torch.linspace(-1, 2, 6, **HOST)
    function = line.on_segment(line.chain_of(net), start, end)
    length = float(end.norm())
    share = torch.rand(200, generator=torch.Generator(device="cpu").manual_seed(0), **HOST)
    expected = net(start + share[:, None] * (end - start))[:, 0].numpy()
    np.testing.assert_allclose(
        np.interp(share.numpy() * length, function.knots.numpy(), function.values.numpy()),
        expected,
        atol=1e-13,
    )


def test_only_chains_have_a_chain():
    assert line.chain_of(network(4)) is not None
    assert line.chain_of(nn.Linear(2, 1)) is not None
    for other in (nn.Tanh(), nn.Conv2d(1, 1, 1), nn.ReLU()):
        assert line.chain_of(
            nn.Sequential(nn.Linear(1, 3), other, nn.Linear(3, 1))
        ) is None or isinstance(other, nn.ReLU)
    assert line.chain_of(nn.Sequential(nn.Linear(1, 3), nn.Linear(3, 1))) is None

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))

        def forward(self, x):
            return x + self.inner(x)

    assert line.chain_of(Residual()) is None


def test_bessel_function_is_scipys():
    x = torch.cat([torch.logspace(-8, 3, 400, **HOST), torch.zeros(1, **HOST)])
    np.testing.assert_allclose(
        line.spherical_bessel(x).numpy(), special.spherical_jn(1, x.numpy()), atol=2e-13
    )


def test_numerics_choose_their_device():
    with strict_devices():
        function = along(network(4, 4))
        line.transform(function, torch.ones(2, **HOST))
        spectral_gradients(
            line.chain_of(network(4)),
            torch.zeros(1, **HOST),
            torch.ones(1, **HOST),
            torch.ones(2, **HOST),
        )
        decay_exponent(torch.arange(1, 50, **HOST), torch.ones(49, **HOST))
