"""Exact values of the second set of tasks, each by another route than the one in the code.

Most are means of the log ratio of densities over the task's own draws, which checks the draw too;
the densities are scipy's, or integrals that the code does not take. No estimator is called here.
"""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats
from second_tasks import ALL, KEPT, OPEN

SAMPLES = 20000


def normal(values, mean=0.0, sigma=1.0):
    return -0.5 * ((values - mean) / sigma) ** 2 - np.log(sigma) - 0.5 * math.log(2 * math.pi)


def averaged(values, weights):
    """Log of the mean density (points, nodes) under weights that add up to 1."""
    return special.logsumexp(values, b=weights, axis=1)


def table_information(joint):
    joint = np.asarray(joint, dtype=float)
    independent = np.outer(joint.sum(1), joint.sum(0))
    return float(special.rel_entr(joint, independent).sum())


def erased_symbol(x, z):
    joint = np.zeros((8, 9))
    joint[range(8), range(8)], joint[:, 8] = 0.7 / 8, 0.3 / 8
    return table_information(joint)


def rectified_channel(x, z):
    x, z, grid = x[:4000], z[:4000], np.linspace(0, 8, 201)
    chances = stats.norm.pdf(grid) * np.r_[0.5, np.ones(199), 0.5] * 0.04
    chances[0] += 0.5
    return normal(z, x, 0.3)[:, 0] - averaged(normal(z, grid, 0.3), chances / chances.sum())


def rectified_pair(x, z):
    x, z = x[:, 0], z[:, 0]
    both = stats.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]])
    given = (normal(a, 0.8 * b, 0.6) - normal(a) for a, b in ((x, z), (z, x)))
    ratio = next(given)
    ratio = np.where((x > 0) & (z == 0), stats.norm.logcdf(-0.8 * x / 0.6) + math.log(2), ratio)
    ratio = np.where((z > 0) & (x == 0), stats.norm.logcdf(-0.8 * z / 0.6) + math.log(2), ratio)
    return np.where((x == 0) & (z == 0), math.log(4 * both.cdf([0, 0])), ratio)


def shared_gates(x, z):
    assert np.array_equal(x == 0, z == 0)
    return 3 * table_information([[0.5, 0], [0, 0.5]])


def photon_counts(x, z):
    rate = np.linspace(0.005, 90, 9000)
    weights = stats.gamma.pdf(rate, 2, scale=3)
    values, inverse = np.unique(z, return_inverse=True)
    marginal = averaged(stats.poisson.logpmf(values[:, None], rate), weights / weights.sum())
    return stats.poisson.logpmf(z, x)[:, 0] - marginal[inverse.ravel()]


def cauchy_channel(x, z):
    middles = np.tan(np.pi * ((np.arange(1000) + 0.5) / 1000 - 0.5))
    ratio = stats.cauchy.logpdf(z, x, 0.5)
    for number in range(2):
        some = z[:2500, number, None]
        ratio[:2500, number] -= averaged(stats.cauchy.logpdf(some, middles, 0.5), 1 / 1000)
    return ratio[:2500].sum(1)


def clayton(uniform, shape):
    """Log density of the copula: a product, and a power of a sum."""
    size, theta = uniform.shape[1], 1 / shape
    rising = np.log1p(theta * np.arange(size)).sum()
    powers = -(1 + theta) * np.log(uniform).sum(1)
    return rising + powers - (size + shape) * np.log((uniform**-theta).sum(1) - size + 1)


def lomax_halves(x, z):
    return clayton(np.hstack([(1 + x) ** -0.25, (1 + z) ** -0.25]), 0.25)


def clayton_five(x, z):
    return clayton(np.hstack([x, z]), 0.5) - clayton(x, 0.5) - clayton(z, 0.5)


def volatility(x, z):
    count = 3000 if x.shape[1] > 1 else SAMPLES
    x, z, logs = x[:count], z[:count], np.linspace(-6, 6, 81)
    weights = stats.norm.pdf(logs) / stats.norm.pdf(logs).sum()
    of_x, of_z = (normal(each[:, None], 0, np.exp(logs)[:, None]).sum(2) for each in (x, z))
    return averaged(of_x + of_z, weights) - averaged(of_x, weights) - averaged(of_z, weights)


def checkerboard(x, z):
    assert not ((np.floor(10 * x) + np.floor(10 * z)) % 2).any()
    return table_information(
        [[(a + b) % 2 == 0 for a in range(10)] for b in range(10)] / np.array(50)
    )


def sine(x, z, cycles):
    x, z, middles = x[:4000], z[:4000], np.cos(np.pi * (np.arange(100) + 0.5) / 100)
    wave = np.sin(2 * np.pi * cycles * x[:, 0])
    return normal(z[:, 0], wave, 0.3) - averaged(normal(z[:, :1], middles, 0.3), 1 / 100)


def sawtooth(x, z):
    density = (np.clip(z + 0.1, 0, 1) - np.clip(z - 0.1, 0, 1)) / 0.2
    assert (np.abs(z - (15 * x) % 1) <= 0.1).all()
    return -np.log(0.2) - np.log(density)


def spiral_arm(x, z):
    positions, weights = np.polynomial.legendre.leggauss(600)

    def arm(along):
        return [(0.2 + 0.8 * along) * f(4 * np.pi * along) for f in (np.cos, np.sin)]

    some, ratio = z[:4000], 0.0
    ratio = sum(normal(some[:, k], arm(x[:4000, 0])[k], 0.08) for k in range(2))
    nodes = arm((positions + 1) / 2)
    both = sum(normal(some[:, k, None], nodes[k], 0.08) for k in range(2))
    return ratio - averaged(both, weights / 2)


def four_signs(x, z):
    assert (x.prod(1) * z.prod(1) > 0).all()
    return table_information([[1 / 8 * (a == b) for b in (1, -1, -1, 1)] for a in (1, -1, -1, 1)])


def three_signs(x, z):
    assert (x[:, 3] * x[:, 4] * z[:, 0] > 0).all()
    return table_information([[1 / 4 * (a == b) for b in (1, -1)] for a in (1, -1, -1, 1)])


def sign_of_three(x, z):
    sign = np.sign(x[:, :3].prod(1))
    both = np.logaddexp(normal(z[:, 0], 1, 0.5), normal(z[:, 0], -1, 0.5)) - math.log(2)
    return normal(z[:, 0], sign, 0.5) - both


def noisy_product(x, z):
    """The density of the sum from its characteristic function."""
    some = z[:3000, 1]
    t = np.linspace(0, 30, 2001)
    wave = np.exp(-0.5 * (0.3 * t) ** 2) / np.sqrt(1 + t**2)
    wave[0] /= 2
    density = np.cos(np.outer(some, t)) @ wave * (t[1] / math.pi)
    return normal(some, x[:3000, 2] * x[:3000, 4], 0.3) - np.log(density)


def switch(x, z):
    chosen = np.where(x[:, 0] > 0, x[:, 1], x[:, 2])
    return normal(z[:, 0], chosen, 0.4) - normal(z[:, 0], 0, math.hypot(1, 0.4))


def modular_sum(x, z):
    ahead = (z[:, 0] - x.sum(1)) % 1
    assert ahead.max() < 0.25
    for values, scale in ((ahead, 0.25), (z[:, 0], 1.0), (x[:, 0], 1.0)):
        assert stats.kstest(values, stats.uniform(0, scale).cdf).pvalue > 1e-3
    return stats.uniform(0, 1).entropy() - stats.uniform(0, 0.25).entropy()


def loud_length(x, z):
    grid = np.linspace(0.02, 60, 3000)
    weights = stats.chi2.pdf(grid, 4)
    some = z[:500]
    marginal = averaged(normal(some, np.log(grid), 0.5), weights / weights.sum())
    given = normal(z[:500, 0], np.log((x[:500] ** 2).sum(1)), 0.5)
    return given - marginal


def frank(x, z):
    """The density as a mixed difference of the copula."""

    def copula(u, v):
        return -np.log1p(np.expm1(-8 * u) * np.expm1(-8 * v) / np.expm1(-8)) / 8

    u, v, h = np.clip(x, 1e-4, 1 - 1e-4), np.clip(z, 1e-4, 1 - 1e-4), 1e-4
    ends = copula(u + h, v + h) + copula(u - h, v - h) - copula(u + h, v - h) - copula(u - h, v + h)
    return np.log(ends / (4 * h**2))


def morgenstern(x, z):
    """The series of (1 + w) log(1 + w), term by term."""
    k = np.arange(1, 100000)
    assert abs(np.corrcoef(x[:, 0], z[:, 0])[0, 1] - 1 / 3) < 0.03
    return float((1 / (2 * k * (2 * k - 1) * (2 * k + 1) ** 2)).sum())


def crossed_lines(x, z):
    x, z = x[:, 0], z[:, 0]
    both = np.logaddexp(normal(z, x, 0.3), normal(z, -x, 0.3)) - math.log(2)
    return both - normal(z, 0, math.hypot(1, 0.3))


def ring(x, z):
    x, z, t = x[:4000], z[:4000], 2 * np.pi * np.arange(100) / 100
    of_x, of_z = normal(x, np.cos(t), 0.2), normal(z, np.sin(t), 0.2)
    return averaged(of_x + of_z, 1 / 100) - averaged(of_x, 1 / 100) - averaged(of_z, 1 / 100)


def normal_pair(x, z):
    x, z = x[:, 0], z[:, 0]
    return normal(z, 0.6 * x, 0.8) - normal(z)


def telegraph(x, z):
    x, z = x[:, 0], z[:, 0]
    of_x, of_z = ([normal(each, sign, 0.5) for sign in (1, -1)] for each in (x, z))
    together = np.logaddexp(of_x[0] + of_z[0], of_x[1] + of_z[1]) - math.log(2)
    return together - np.logaddexp(*of_x) - np.logaddexp(*of_z) + 2 * math.log(2)


def ball(x, z):
    def entropy(density, low, high):
        return integrate.quad(lambda v: special.entr(density(v)), low, high)[0]

    line = entropy(lambda v: 0.75 * (1 - v**2), -1, 1)
    plane = integrate.quad(
        lambda r: 2 * np.pi * r * special.entr(1.5 / np.pi * math.sqrt(1 - r**2)), 0, 1
    )[0]
    points = np.hstack([x, z])
    assert stats.kstest((points**2).sum(1) ** 1.5, "uniform").pvalue > 1e-3
    return line + plane - math.log(4 * np.pi / 3)


def exponential_delay(x, z):
    return stats.expon.logpdf(z - x) - stats.gamma.logpdf(z, 2)


def angle(x, z):
    turn = np.arctan2(x[:, 0] * z[:, 1] - x[:, 1] * z[:, 0], (x * z).sum(1))
    assert stats.kstest(turn, stats.uniform(-0.4, 0.8).cdf).pvalue > 1e-3
    return stats.uniform(0, 2 * np.pi).entropy() - stats.uniform(0, 0.8).entropy()


def triangular_noise(x, z):
    noise = stats.triang(0.5, -0.2, 0.4)
    return noise.logpdf(z - x) - np.log(noise.cdf(z) - noise.cdf(z - 1))


def strangers(x, z):
    return 0.0


# Of series the mean converges slowly: their effective number of samples is far smaller.
SLOW = {"slow pair": 40, "telegraph": 10, "volatility clusters": 60, "repeated rows": 3}
ROUTES = {
    **{"erased symbol": erased_symbol, "rectified channel": rectified_channel},
    **{"rectified pair": rectified_pair, "shared gates": shared_gates},
    **{"photon counts": photon_counts, "cauchy channel": cauchy_channel},
    **{"lomax halves": lomax_halves, "clayton five": clayton_five},
    **{"shared volatility": volatility, "volatility clusters": volatility},
    **{"checkerboard": checkerboard, "sawtooth": sawtooth, "spiral arm": spiral_arm},
    **{"sine forty": lambda x, z: sine(x, z, 40), "grating": lambda x, z: sine(x, z, 3)},
    **{"four signs": four_signs, "three signs": three_signs, "sign of three": sign_of_three},
    **{"noisy product": noisy_product, "switch": switch, "modular sum": modular_sum},
    **{"loud length": loud_length, "frank": frank, "morgenstern": morgenstern},
    **{"crossed lines": crossed_lines, "ring": ring, "ball": ball, "angle": angle},
    **{"slow pair": normal_pair, "repeated rows": normal_pair, "telegraph": telegraph},
    **{"slow strangers": strangers, "strange tails": strangers, "strange counts": strangers},
    **{"exponential delay": exponential_delay, "triangular noise": triangular_noise},
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_exact_value_of_a_task_is_that_of_another_route(name):
    task = ALL[name]
    x, z = task.draw(SAMPLES, np.random.default_rng(5))
    assert x.shape[0] == z.shape[0] == SAMPLES and x.ndim == z.ndim == 2
    found = ROUTES[name](x, z)
    if isinstance(found, float):
        assert found == pytest.approx(task.truth(), abs=1e-8)
        return
    error = np.std(found) / math.sqrt(np.size(found) / SLOW.get(name, 1))
    assert error < 0.06
    assert abs(np.mean(found) - task.truth()) < 4 * error


def test_halves_are_disjoint_and_equal():
    assert set(OPEN) | set(KEPT) == set(ALL) and not set(OPEN) & set(KEPT)
    assert len(OPEN) == len(KEPT) == 18
