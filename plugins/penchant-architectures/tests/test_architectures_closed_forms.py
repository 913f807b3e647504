"""Closed forms: what is known exactly about gradients of the simple architectures."""

import importlib
import itertools
import math
from statistics import NormalDist

import penchant_architectures
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.training import ensembles
from torch.func import functional_call, grad, jacfwd, vmap


@pytest.fixture(autouse=True)
def _fixed_points():
    """The points at which gradients are taken, and the networks, are the same in every run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)


COMPONENTS = {each.name: each for each in penchant_architectures.penchant_architectures()}


def target_of(component):
    module, _, function = component.target.partition(":")
    return getattr(importlib.import_module(module), function)


def build(name, shape, outputs=1, **options):
    component = COMPONENTS[name]
    return target_of(component)(component.bind(options), shape, outputs).eval()


def drawn(name, shape, count, **options):
    """A network, and the stacked parameters of many draws, in float64."""
    bound = testing.architecture({"name": name, **options}, shape=shape, outputs=1)
    ensemble = ensembles.draw(bound, range(count))
    network = build(name, shape, **options).double()
    names = [key for key, _ in network.named_parameters()]
    return network, {key: ensemble.state[key].double() for key in names}


def gradients(name, shape, x, count, **options):
    """Input gradients of many draws, one row each."""
    network, stacked = drawn(name, shape, count, **options)

    def output(parameters, point):
        return functional_call(network, parameters, (point[None],)).sum()

    return vmap(lambda parameters: grad(output, argnums=1)(parameters, x))(stacked).flatten(1)


def check_second_moment(samples, expected):
    """Every entry lies within the two-sided 1 % point, corrected for the number of entries."""
    T, D = samples.shape
    products = samples[:, :, None] * samples[:, None, :]
    mean, error = products.mean(0), products.std(0) / math.sqrt(T)
    random = error > 0
    bound = NormalDist().inv_cdf(1 - 0.005 / (D * (D + 1) / 2))
    assert ((mean - expected).abs()[random] < bound * error[random]).all()
    torch.testing.assert_close(mean[~random], expected[~random])


# ---- linear-pooling


def aliasing_matrix(D, S):
    """A = [I_M ... I_M] / sqrt(S), the last block cut where the input ends."""
    M = math.ceil(D / S)
    return torch.eye(M, dtype=torch.float64).repeat(1, S)[:, :D] / math.sqrt(S)


@pytest.mark.parametrize(("D", "S"), [(12, 3), (13, 4), (6, 1), (5, 5)])
@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_linear_pooling_is_its_formula_and_so_is_its_gradient(D, S, activation):
    m = torch.rand(D, dtype=torch.float64).float().double()
    network = build(
        "linear-pooling", (D,), outputs=2, stride=S, response=m.numpy(), activation=activation
    ).double()
    x = torch.randn(D, dtype=torch.float64, requires_grad=True)
    theta, phi, A = network.theta.detach(), network.phi.detach(), aliasing_matrix(D, S)
    on = (
        torch.ones(D, dtype=torch.float64)
        if activation == "linear"
        else (phi * x.detach() > 0).double()
    )
    found = network(x[None])[0]
    torch.testing.assert_close(found, theta @ A @ (m * on * phi * x))
    for output in range(2):
        (gradient,) = torch.autograd.grad(found[output], x, retain_graph=True)
        torch.testing.assert_close(gradient, (A.T @ theta[output]) * m * on * phi)


@pytest.mark.parametrize("D", [12, 10])
def test_gradient_covariance_of_linear_pooling(D):
    S, s_t, s_p = 3, 1.5, 0.5
    m = torch.linspace(0, 1, D, dtype=torch.float64)
    options = {"stride": S, "theta_std": s_t, "phi_std": s_p, "response": m.numpy()}
    samples = gradients(
        "linear-pooling", (D,), torch.randn(D, dtype=torch.float64), 1500, **options
    )
    check_second_moment(samples, s_p**2 * s_t**2 / S * torch.diag(m**2))


def test_gradient_covariance_of_relu_pooling():
    D, S, s_t, s_p = 12, 3, 1.5, 0.5
    M = D // S
    m = torch.linspace(0.2, 1, D, dtype=torch.float64)
    x = torch.randn(D, dtype=torch.float64)
    options = {
        "stride": S,
        "theta_std": s_t,
        "phi_std": s_p,
        "response": m.numpy(),
        "activation": "relu",
    }
    samples = gradients("linear-pooling", (D,), x, 1500, **options)
    expected = torch.zeros(D, D, dtype=torch.float64)
    for i, j in itertools.product(range(D), repeat=2):
        if i % M == j % M:
            xi = s_p**2 / 2 if i == j else torch.sign(x[i] * x[j]) * s_p**2 / (2 * math.pi)
            expected[i, j] = s_t**2 / S * m[i] * m[j] * xi
    check_second_moment(samples, expected)


def test_mixed_derivative_of_linear_pooling():
    D, S, s_t, s_p = 8, 2, 1.5, 0.5
    m = torch.linspace(0.2, 1, D, dtype=torch.float64)
    network, stacked = drawn(
        "linear-pooling", (D,), 2000, stride=S, theta_std=s_t, phi_std=s_p, response=m.numpy()
    )
    x = torch.randn(D, dtype=torch.float64)

    def parameter_gradient(parameters, point):
        return grad(lambda p: functional_call(network, p, (point[None],)).sum())(parameters)

    mixed = vmap(lambda parameters: jacfwd(lambda point: parameter_gradient(parameters, point))(x))(
        stacked
    )
    M = torch.cat(
        [part.reshape(2000, -1, D) for part in mixed.values()], dim=1
    )  # (networks, parameters, inputs)
    products = M.transpose(1, 2) @ M
    error = products.std(0).diagonal() / math.sqrt(2000)
    expected = (s_t**2 + s_p**2) / S * m**2
    assert (
        (products.mean(0).diagonal() - expected).abs() < NormalDist().inv_cdf(1 - 0.005 / D) * error
    ).all()


def test_prefilters():
    D, S = 16, 4
    frequency = [min(index, D - index) / D for index in range(D)]
    average = build("linear-pooling", (D,), stride=S, prefilter="average").prefilter
    # the Dirichlet kernel is the spectrum of a window
    kernel = [
        1 if f == 0 else abs(math.sin(math.pi * S * f) / (S * math.sin(math.pi * f)))
        for f in frequency
    ]
    torch.testing.assert_close(average, torch.tensor(kernel), atol=1e-6, rtol=0)
    low = build("linear-pooling", (D,), stride=S, prefilter="low-pass").prefilter
    assert low.tolist() == [float(f < 1 / (2 * S)) for f in frequency]
    assert (low.reshape(S, -1).sum(0) <= 1).all(), (
        "what passes is not folded on anything else that passes"
    )
    assert build("linear-pooling", (D,)).prefilter.tolist() == [1.0] * D


def test_average_prefilter_and_folding_are_an_average_pooling():
    """In the spectral domain A (m * x) is what averaging `S` neighbours and keeping every S-th does to a signal."""
    D, S = 16, 4
    signal = torch.randn(D, dtype=torch.float64)
    window = torch.zeros(D, dtype=torch.float64)
    window[:S] = 1 / S
    averaged = torch.stack([torch.dot(signal, window.roll(shift)) for shift in range(0, D, S)])
    response = torch.fft.fft(window).conj()
    folded = (response * torch.fft.fft(signal)).reshape(S, -1).sum(0) / S
    torch.testing.assert_close(torch.fft.fft(averaged.to(torch.complex128)), folded)
    prefilter = build("linear-pooling", (D,), stride=S, prefilter="average").double().prefilter
    torch.testing.assert_close(prefilter, response.abs(), atol=1e-7, rtol=0)


# ---- linear-conv


def patch_matrix(shape, kernel, stride, padding):
    """P = sum_j M_j, the number of patches, and how often each input is covered; by loops over positions."""
    channels, sides = (shape[0], shape[1:]) if len(shape) == 3 else (1, shape)
    place = torch.arange(math.prod(shape)).reshape(channels, *sides)
    reach = [side if padding == "circular" else side - kernel + 1 for side in sides]
    corners = list(itertools.product(*(range(0, each, stride) for each in reach)))
    offsets = list(itertools.product(range(channels), *(range(kernel) for _ in sides)))
    P = torch.zeros(math.prod(shape), len(offsets), dtype=torch.float64)
    for corner in corners:
        for column, (channel, *offset) in enumerate(offsets):
            position = [(start + step) % side for start, step, side in zip(corner, offset, sides)]
            P[place[(channel, *position)], column] += 1
    return P, len(corners), P.sum(1)


CASES = [
    ((3,), 2, 1, "none"),
    ((9,), 3, 2, "none"),
    ((6,), 3, 1, "circular"),
    ((4, 5), 3, 1, "none"),
    ((2, 4, 4), 2, 2, "circular"),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), CASES)
def test_gradient_of_linear_conv_is_its_formula(shape, kernel, stride, padding):
    network = build(
        "linear-conv", shape, channels=4, kernel=kernel, stride=stride, padding=padding
    ).double()
    P, k, _ = patch_matrix(shape, kernel, stride, padding)
    w, p = network.convolution.weight.detach().flatten(1), network.readout.weight.detach()[0]
    x = torch.randn(2, *shape, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(network(x).sum(), x)
    torch.testing.assert_close(gradient.flatten(1), (P @ (p @ w) / k).expand(2, -1))
    torch.testing.assert_close(network(x)[:, 0], x.flatten(1) @ (P @ (p @ w)) / k)


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), CASES)
@pytest.mark.parametrize("pooling", ["average", "none"])
def test_gradient_covariance_of_linear_conv(shape, kernel, stride, padding, pooling):
    n, s_w, s_p = 3, 0.5, 1.5
    options = {
        "channels": n,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "weight_std": s_w,
        "readout_std": s_p,
    }
    samples = gradients(
        "linear-conv",
        shape,
        torch.randn(shape, dtype=torch.float64),
        1000,
        pooling=pooling,
        **options,
    )
    P, k, coverage = patch_matrix(shape, kernel, stride, padding)
    if pooling == "average":
        check_second_moment(samples, n * s_w**2 * s_p**2 / k**2 * P @ P.T)
    else:
        check_second_moment(samples, n * s_w**2 * s_p**2 * torch.diag(coverage))


def test_two_taps_on_three_inputs():
    P, k, _ = patch_matrix((3,), 2, 1, "none")
    G = P @ P.T / k**2
    assert (4 * G).tolist() == [[1, 1, 0], [1, 2, 1], [0, 1, 1]]
    torch.testing.assert_close(
        torch.linalg.eigvalsh(G), torch.tensor([0, 0.25, 0.75], dtype=torch.float64)
    )
    samples = gradients(
        "linear-conv", (3,), torch.zeros(3, dtype=torch.float64), 1500, channels=1, kernel=2
    )
    check_second_moment(samples, G)


# ---- perceptrons


def test_gradients_of_logistic_regression_are_isotropic():
    D, x = 9, torch.randn(9, dtype=torch.float64)
    check_second_moment(
        gradients("logistic", (9,), x, 1500), torch.eye(D, dtype=torch.float64) / (3 * D)
    )
    gaussian = gradients(
        "logistic", (3, 3), x.reshape(3, 3), 1500, initialization="gaussian", weight_std=0.7
    )
    check_second_moment(gaussian, 0.7**2 * torch.eye(D, dtype=torch.float64))


def test_gradients_of_one_hidden_relu_layer_are_isotropic():
    D, H, s = 8, 6, 0.8
    options = {"widths": [H], "bias": False, "initialization": "gaussian", "weight_std": s}
    samples = gradients("mlp", (D,), torch.randn(D, dtype=torch.float64), 1500, **options)
    check_second_moment(samples, H / 2 * s**4 * torch.eye(D, dtype=torch.float64))
