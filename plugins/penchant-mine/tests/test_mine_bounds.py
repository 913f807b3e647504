"""The bounds: order, optimal scores, gradients with and without correction, stacked against one by one."""

import math

import penchant_testing as testing
import pytest
import torch
from penchant_mine.shared.information.bounds import (
    DonskerVaradhan,
    FDivergence,
    InfoNce,
    Smile,
    both_roles,
)
from penchant_mine.shared.information.known_information import correlated_gaussians
from penchant_mine.shared.information.stacked_training import Pairing, Recipe, split, train
from penchant_mine.shared.information.statistics_stack import (
    StatisticsStack,
    held_out_scores,
    plain_layers,
)
from penchant_numerics.training import ensembles
from torch import nn

RHO, TRUTH = 0.8, correlated_gaussians(1, 0.8)


def generator(seed):
    return torch.Generator(device="cpu").manual_seed(seed)


def pairs(samples, seed=0, rho=RHO):
    x, noise = torch.randn(2, samples, generator=generator(seed), dtype=torch.float64, device="cpu")
    return x, rho * x + math.sqrt(1 - rho**2) * noise


def log_ratio(x, z, rho=RHO):
    """log p(x, z) / p(x) p(z) of standard normals with correlation rho."""
    return -0.5 * math.log(1 - rho**2) - (rho**2 * (x**2 + z**2) - 2 * rho * x * z) / (
        2 * (1 - rho**2)
    )


def scores(function, x, z, shifts=range(1, 33)):
    return function(x, z)[None], torch.stack([function(x, z.roll(-shift)) for shift in shifts])[
        None
    ]


@pytest.mark.parametrize("seed", range(5))
def test_donsker_varadhan_is_at_least_the_f_bound_for_every_network(seed):
    x, z = pairs(500, seed)
    weights = torch.randn(6, generator=generator(100 + seed), dtype=torch.float64, device="cpu")
    joint, marginal = scores(
        lambda a, b: weights[0] + weights[1] * a * b + weights[2] * torch.tanh(a + weights[3] * b),
        x,
        z,
    )
    assert DonskerVaradhan().value(joint, marginal) >= FDivergence().value(joint, marginal) - 1e-12
    assert DonskerVaradhan().value(joint, marginal) < TRUTH + 6 / math.sqrt(500)


def test_optimal_scores_give_the_truth_and_the_constant_matters_for_the_f_bound_only():
    x, z = pairs(50000)
    value = {}
    for constant in (0.0, 1.0, 3.0):
        joint, marginal = scores(
            lambda a, b, c=constant: log_ratio(a, b) + c, x, z, shifts=range(1, 5)
        )
        value[constant] = (
            float(DonskerVaradhan().value(joint, marginal)),
            float(FDivergence().value(joint, marginal)),
        )
    error = DonskerVaradhan().contributions(joint, marginal, range(1, 5)).std() / math.sqrt(len(x))
    for constant, (dv, f) in value.items():
        assert abs(dv - TRUTH) < 4 * error
        assert abs(f - TRUTH) < 4 * error if constant == 1 else f < dv - 0.1


def test_stated_error_is_the_spread_of_values():
    draws = [scores(log_ratio, *pairs(1000, seed), shifts=range(1, 9)) for seed in range(100)]
    values = torch.cat([DonskerVaradhan().value(*each) for each in draws])
    stated = torch.cat(
        [DonskerVaradhan().contributions(*each, range(1, 9)).std(1) for each in draws]
    ).mean() / math.sqrt(1000)
    assert float(stated / values.std()) == pytest.approx(1, abs=4 / math.sqrt(2 * 100))


def test_weights_count_both_parts_of_a_pair():
    weights = torch.rand(1, 2, 5, generator=generator(0), device="cpu")
    expected = [
        sum(weights[0, k, i] + weights[0, k, (i - s) % 5] for k, s in enumerate((1, 3))) / 2
        for i in range(5)
    ]
    assert torch.allclose(both_roles(weights, (1, 3))[0], torch.stack(expected))


def test_info_nce_never_exceeds_the_log_of_its_contrasts_and_smile_without_clip_is_donsker_varadhan():
    x, z = pairs(300)
    joint, marginal = scores(lambda a, b: 50 * log_ratio(a, b), x, z, shifts=range(1, 8))
    assert InfoNce().value(joint, marginal) <= math.log(8) + 1e-12
    joint, marginal = scores(log_ratio, x, z)
    assert torch.allclose(
        Smile(1e3).value(joint, marginal), DonskerVaradhan().value(joint, marginal)
    )
    clipped = joint.mean() - torch.log(
        torch.exp(marginal).clamp(math.exp(-0.5), math.exp(0.5)).mean()
    )
    assert float(Smile(0.5).value(joint, marginal)) == pytest.approx(float(clipped))


THETA = 0.4


def batch_gradients(ema, streams=400, batches=300, settling=200, batch=16):
    """Mean gradient of the loss of T = theta x z over batches of independent streams, once the average has settled, and its error."""
    source, bound, found = generator(7), DonskerVaradhan(ema), []
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True, device="cpu")
    for number in range(batches):
        x, noise = torch.randn(
            2, streams, batch, generator=source, dtype=torch.float64, device="cpu"
        )
        z = RHO * x + math.sqrt(1 - RHO**2) * noise
        marginal = theta * x * z.roll(1, 1)
        if number < settling:
            bound.loss(theta.detach() * x * z, marginal.detach()[:, None])
            continue
        loss = bound.loss(theta * x * z, marginal[:, None])
        found.append(torch.autograd.grad(loss.sum(), theta)[0] / streams)
    gradients = torch.stack(found)
    return float(gradients.mean()), float(gradients.std() / math.sqrt(len(gradients)))


def test_corrected_gradient_approaches_the_full_one_as_the_average_slows_and_the_naive_one_does_not():
    full = (
        THETA / (1 - THETA**2) - RHO
    )  # of log E e^(theta x z) = -1/2 log(1 - theta^2) for independent normals, minus E x z
    bias, error = {}, {}
    for ema in (1.0, 0.2, 0.02):
        mean, error[ema] = batch_gradients(ema)
        bias[ema] = abs(mean - full)
    assert bias[1.0] > 10 * error[1.0]
    assert bias[0.2] < bias[1.0] / 2
    assert bias[0.02] < max(3 * error[0.02], bias[1.0] / 10)


@pytest.mark.parametrize("bound", [DonskerVaradhan(0.01), FDivergence(), InfoNce(), Smile()])
def test_losses_and_gradients_are_finite_for_enormous_scores(bound):
    joint = torch.full((2, 8), 3e4, requires_grad=True, device="cpu")
    marginal = (
        torch.tensor([-3e4, 3e4], device="cpu")[:, None, None]
        .expand(2, 1, 8)
        .clone()
        .requires_grad_()
    )
    loss = bound.loss(joint, marginal)
    loss.sum().backward()
    assert (
        torch.isfinite(loss).all()
        and torch.isfinite(joint.grad).all()
        and torch.isfinite(marginal.grad).all()
    )


class Wrapped(nn.Module):
    """The same perceptron, hidden from the fast path."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pairs):
        return self.inner(pairs)


@pytest.mark.parametrize(
    "network",
    [
        "statistics-perceptron:widths=[7,5],activation=elu",
        "statistics-conv:image=[1,6,6],channels=[3,4],hidden=5",
    ],
)
def test_stacked_scores_are_those_of_single_networks(network):
    size_x, size_z = 36, 3
    architecture = testing.architecture(network, shape=(size_x + size_z,), seed=5)
    with testing.strict_devices():
        stack = StatisticsStack(ensembles.draw(architecture, range(3)))
    x = torch.randn(3, 11, size_x, generator=generator(1), device="cpu")
    z = torch.randn(3, 11, size_z, generator=generator(2), device="cpu")
    found = stack.scores(x, z, (1, 4))
    for number in range(3):
        for place, shift in enumerate((0, 1, 4)):
            single = architecture(number)(torch.cat([x[number], z[number].roll(-shift, 0)], 1))[
                :, 0
            ]
            assert torch.allclose(found[number, place], single, atol=1e-5)
    joint, marginal = held_out_scores(stack, stack.state, x, z, (1, 4))
    assert torch.allclose(torch.cat([joint[:, None], marginal], 1).float(), found, atol=1e-5)


def test_only_plain_perceptrons_take_the_fast_path():
    plain = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    assert [name for name, _ in plain_layers(plain)] == ["1", "3"]
    assert plain_layers(Wrapped(plain)) is None
    assert plain_layers(nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 1))) is None


class WithBuffers:
    """Networks with batch-norm, whose running statistics are no parameters."""

    def seed_of(self, index):
        return index

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(
                nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)
            ).eval()


def test_buffers_of_a_statistics_network_stay_and_shuffled_partners_have_no_information():
    x, z = (each.float()[:, None] for each in pairs(600))
    stack = StatisticsStack(ensembles.draw(WithBuffers(), range(2)))
    before = {name: tensor.clone() for name, tensor in stack.state.items()}
    order = torch.randperm(600, generator=generator(3), device="cpu")
    partners = torch.stack([torch.arange(600, device="cpu"), order])
    recipe = Recipe(100, 64, 1e-2, 1, 20, 20, 0.9, 0.2, 0.1, 8)
    found = train(
        stack,
        DonskerVaradhan(0.1),
        recipe,
        Pairing(x, z, partners),
        split(600, 2, recipe, order),
        generator(4),
    )
    assert float(found.held_out[0]) > 0.3 and abs(float(found.held_out[1])) < 0.1
    assert all(torch.equal(before[name], stack.state[name]) for name in before)


def test_a_step_of_stacked_networks_waits_for_nothing():
    """Between checks, nothing is read; a check reads whether any network has gained."""
    waits = []
    for steps in (5, 10):
        with testing.emulated_device() as counts:
            x, z = (each.float()[:, None].to("emulated") for each in pairs(60))
            stack = StatisticsStack(ensembles.draw(WithBuffers(), range(2)).to("emulated", x.dtype))
            order = torch.arange(60, device="cpu")
            partners = torch.stack([order, order]).to("emulated")
            recipe = Recipe(steps, 8, 1e-2, 1, 5, steps, 0.9, 0.2, 0.1, 8)
            rows = split(60, 2, recipe, order.to("emulated"))
            pairing = Pairing(x, z, partners)
            train(stack, DonskerVaradhan(0.1), recipe, pairing, rows, generator(4))
        waits.append(counts.by_kind())
    # Five steps more: one order of samples is sent, as in every pass, and one check reads an answer.
    waits[1]["to device"] -= 1
    waits[1]["item"] -= 1
    assert waits[0] == waits[1]


def test_what_is_scored_at_once_follows_from_the_budget():
    from penchant_mine.shared.information import statistics_stack
    from penchant_numerics.device import memory

    assert memory.fitting(statistics_stack.A_ROW_TOGETHER, "cpu") == 256
    assert memory.fitting(statistics_stack.A_ROW_SCORED, "cpu") == 2048
    with memory.budget(2**28):
        assert memory.fitting(statistics_stack.A_ROW_SCORED, "cpu") == 512
