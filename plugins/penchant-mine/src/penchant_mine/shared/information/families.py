"""Pairs of variables whose mutual information is known, by one parameter each.

Invertible maps of numbers: under one for each variable, information stays what it was.

Reference: Czyż, Grabowski, Vogt, Beerenwinkel, Marx, "Beyond Normal: On the Evaluation of Mutual
Information Estimators", NeurIPS 2023.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from penchant_mine.shared.information import known_information as known

MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "cube": lambda x: x**3,
    "sine": torch.sin,
}


@dataclass(frozen=True)
class Setting:
    """What a family may depend on besides its parameter.

    Sizes of x and z differ only for normal pairs.
    """

    x_size: int = 1
    z_size: int = 1
    map: str = "identity"
    rho: float = 0.5
    turns: float = 1.0


Pair = tuple[Tensor, Tensor]
Draw = Callable[[Setting, float, int, Generator], Pair]
INFORMATIVE = 2  # components of the family sparse


@dataclass(frozen=True)
class Family:
    """`draw(setting, parameter, samples, generator)` on the CPU, and the truth in nats."""

    parameter: str
    draw: Draw
    truth: Callable[[Setting, float], float]


def normal(samples: int, size: int, generator: Generator) -> Tensor:
    """Independent standard normal rows."""
    return torch.randn(samples, size, generator=generator, device="cpu")


def correlated(setting: Setting, rho: float, samples: int, generator: Generator) -> Pair:
    """Normal x and z; their first min(sizes) components have correlation rho, one with one."""
    x = normal(samples, setting.x_size, generator)
    noise = normal(samples, setting.z_size, generator)
    # Components that have no partner are independent noise.
    shared = min(setting.x_size, setting.z_size)
    rest = math.sqrt(1 - rho**2)
    along = rho * x[:, :shared]
    z = noise.clone()
    z[:, :shared] = along + rest * noise[:, :shared]
    return x, z


def noisy_map(setting: Setting, sigma: float, samples: int, generator: Generator) -> Pair:
    """Uniform x on [-1, 1]^d, and z = f(x) + sigma e."""
    uniform = torch.rand(samples, setting.x_size, generator=generator, device="cpu")
    x = 2 * uniform - 1
    noise = normal(samples, setting.x_size, generator)
    return x, MAPS[setting.map](x) + sigma * noise


def student(setting: Setting, freedom: float, samples: int, generator: Generator) -> Pair:
    """Halves of a Student t vector.

    Correlated normals over one common root of chi-squared / freedom.
    """
    x, z = correlated(setting, setting.rho, samples, generator)
    shape = torch.full((samples, 1), freedom / 2, device="cpu", dtype=torch.float64)
    # A gamma variable of half the degrees of freedom, doubled.
    chi_squared = 2 * torch._standard_gamma(shape, generator=generator)
    scale = torch.sqrt(freedom / chi_squared).to(x.dtype)
    return x * scale, z * scale


def shared_sign(setting: Setting, sigma: float, samples: int, generator: Generator) -> Pair:
    """One sign, two noises: a mixture of two normal pairs in every component."""
    sign = _signs(samples, setting.x_size, generator)
    x = sign + sigma * normal(samples, setting.x_size, generator)
    z = sign + sigma * normal(samples, setting.x_size, generator)
    return x, z


def sign_plus_noise(setting: Setting, sigma: float, samples: int, generator: Generator) -> Pair:
    """Discrete x = +-1, continuous z = x + sigma e, in every component."""
    sign = _signs(samples, setting.x_size, generator)
    return sign, sign + sigma * normal(samples, setting.x_size, generator)


def _signs(samples: int, size: int, generator: Generator) -> Tensor:
    bits = torch.randint(2, (samples, size), generator=generator, device="cpu")
    return 2.0 * bits - 1


def spiral(setting: Setting, rho: float, samples: int, generator: Generator) -> Pair:
    """Correlated normals, the first two components of x turned by an angle.

    It grows with their length, so the map is invertible.
    """
    x, z = correlated(setting, rho, samples, generator)
    first, second = x[:, 0], x[:, 1]
    # The angle depends on the length, which a turn does not change.
    angle = setting.turns * math.pi * x[:, :2].norm(dim=1)
    cosine, sine = angle.cos(), angle.sin()
    turned = [cosine * first - sine * second, sine * first + cosine * second]
    others = x[:, 2:]
    return torch.cat([torch.stack(turned, 1), others], 1), z


def uniform_noise(setting: Setting, width: float, samples: int, generator: Generator) -> Pair:
    """Uniform x on [0, 1]^d, and z = x + noise that is uniform on [-width, width]^d."""
    shape = (2, samples, setting.x_size)
    x, noise = torch.rand(shape, generator=generator, device="cpu", dtype=torch.float64)
    return x, x + width * (2 * noise - 1)


def dense(setting: Setting, rho: float, samples: int, generator: Generator) -> Pair:
    """Normal x and z, of which any two components have correlation rho, at least 0."""
    size = setting.x_size + setting.z_size
    own = normal(samples, size, generator)
    shared = normal(samples, 1, generator)
    columns = math.sqrt(rho) * shared + math.sqrt(1 - rho) * own
    return columns[:, : setting.x_size], columns[:, setting.x_size :]


def sparse(setting: Setting, rho: float, samples: int, generator: Generator) -> Pair:
    """Independent normals, but for the first two components of x and z, one with one."""
    x, noise = (normal(samples, setting.x_size, generator) for _ in range(2))
    chosen = slice(0, INFORMATIVE)
    z = noise.clone()
    z[:, chosen] = rho * x[:, chosen] + math.sqrt(1 - rho**2) * noise[:, chosen]
    return x, z


Map = Callable[[Tensor], Tensor]


def _mapped(draw: Draw, first: Map, second: Map | None = None) -> Draw:
    """Draws of x and z, each after a map that can be undone: their information stays."""

    def mapped(setting: Setting, parameter: float, samples: int, generator: Generator) -> Pair:
        x, z = draw(setting, parameter, samples, generator)
        return first(x), (second or first)(z)

    return mapped


def _uniform_truth(setting: Setting, width: float) -> float:
    return setting.x_size * known.uniform_noise(width)


def _dense_truth(setting: Setting, rho: float) -> float:
    return known.dense_gaussians(setting.x_size, setting.z_size, rho)


def _sparse_truth(setting: Setting, rho: float) -> float:
    return known.correlated_gaussians(min(INFORMATIVE, setting.x_size), rho)


def _normal_truth(setting: Setting, rho: float) -> float:
    shared = min(setting.x_size, setting.z_size)
    return known.correlated_gaussians(shared, rho)


def _noisy_map_truth(setting: Setting, sigma: float) -> float:
    function = MAPS[setting.map]
    return setting.x_size * known.noisy_map(function, sigma)


def _shared_sign_truth(setting: Setting, sigma: float) -> float:
    return setting.x_size * known.shared_sign(sigma)


def _student_truth(setting: Setting, freedom: float) -> float:
    return known.student(setting.x_size, setting.rho, freedom)


def _sign_truth(setting: Setting, sigma: float) -> float:
    return setting.x_size * known.sign_plus_noise(sigma)


SPACING = 2.0  # standard deviations from either bump of `bimodal` to the middle


def half_cube(values: Tensor) -> Tensor:
    """Longer tails: sign(x) |x|^(3/2)."""
    return values * values.abs().sqrt()


def wiggly_first(values: Tensor) -> Tensor:
    """A line with waves, whose slope is at least 0.16."""
    waves = 0.4 * values.sin() + 0.2 * (1.7 * values + 1).sin() + 0.03 * (3.3 * values - 2.5).sin()
    return values + waves


def wiggly_second(values: Tensor) -> Tensor:
    """Another line with waves, whose slope is at least 0.53."""
    slow = -0.4 * (0.4 * values).sin()
    fast = 0.17 * (1.3 * values + 3.5).sin() + 0.02 * (4.3 * values - 2.5).sin()
    return values + slow + fast


def bimodal(values: Tensor) -> Tensor:
    """Standard normal numbers as draws of two bumps: the quantile of the mixture."""
    reach = SPACING + 8
    grid = np.linspace(-reach, reach, 20001)
    bumps = 0.5 * (_normal_cdf(grid - SPACING) + _normal_cdf(grid + SPACING))
    levels = _normal_cdf(values.double().numpy())
    mapped = np.interp(levels, bumps, grid)
    return torch.from_numpy(mapped).to(values.dtype)


def _normal_cdf(values: np.ndarray) -> np.ndarray:
    levels: np.ndarray = torch.special.ndtr(torch.from_numpy(values)).numpy()
    return levels


FAMILIES = {
    "gaussian": Family("rho", correlated, _normal_truth),
    "nonlinear": Family("sigma", noisy_map, _noisy_map_truth),
    "mixture": Family("sigma", shared_sign, _shared_sign_truth),
    "student": Family("degrees of freedom", student, _student_truth),
    "discrete": Family("sigma", sign_plus_noise, _sign_truth),
    "spiral": Family("rho", spiral, _normal_truth),
    "uniform": Family("width", uniform_noise, _uniform_truth),
    "dense": Family("rho", dense, _dense_truth),
    "sparse": Family("rho", sparse, _sparse_truth),
    # Others under maps that can be undone, which leave information as it is.
    "asinh": Family("rho", _mapped(correlated, torch.asinh), _normal_truth),
    "half-cube": Family("rho", _mapped(correlated, half_cube), _normal_truth),
    "wiggly": Family("rho", _mapped(correlated, wiggly_first, wiggly_second), _normal_truth),
    "bimodal": Family("rho", _mapped(correlated, bimodal), _normal_truth),
    "asinh-student": Family("degrees of freedom", _mapped(student, torch.asinh), _student_truth),
}
