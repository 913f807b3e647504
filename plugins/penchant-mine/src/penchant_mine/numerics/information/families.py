"""Pairs of variables whose mutual information is known, by one parameter each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from penchant_mine.numerics.information import known_information as known

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


@dataclass(frozen=True)
class Family:
    """`draw(setting, parameter, samples, generator)` on the CPU, and the truth in nats."""

    parameter: str
    draw: Callable[[Setting, float, int, Generator], Pair]
    truth: Callable[[Setting, float], float]


def normal(
    samples: int,
    size: int,
    generator: Generator,
) -> Tensor:
    """Independent standard normal rows."""
    return torch.randn(
        samples,
        size,
        generator=generator,
        device="cpu",
    )


def correlated(
    setting: Setting,
    rho: float,
    samples: int,
    generator: Generator,
) -> Pair:
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


def noisy_map(
    setting: Setting,
    sigma: float,
    samples: int,
    generator: Generator,
) -> Pair:
    """Uniform x on [-1, 1]^d, and z = f(x) + sigma e."""
    uniform = torch.rand(
        samples,
        setting.x_size,
        generator=generator,
        device="cpu",
    )
    x = 2 * uniform - 1
    noise = normal(samples, setting.x_size, generator)
    return x, MAPS[setting.map](x) + sigma * noise


def student(
    setting: Setting,
    freedom: float,
    samples: int,
    generator: Generator,
) -> Pair:
    """Halves of a Student t vector.

    Correlated normals over one common root of chi-squared / freedom.
    """
    x, z = correlated(setting, setting.rho, samples, generator)
    shape = torch.full(
        (samples, 1),
        freedom / 2,
        device="cpu",
        dtype=torch.float64,
    )
    # A gamma variable of half the degrees of freedom, doubled.
    chi_squared = 2 * torch._standard_gamma(shape, generator=generator)
    scale = torch.sqrt(freedom / chi_squared).to(x.dtype)
    return x * scale, z * scale


def shared_sign(
    setting: Setting,
    sigma: float,
    samples: int,
    generator: Generator,
) -> Pair:
    """One sign, two noises: a mixture of two normal pairs in every component."""
    sign = _signs(samples, setting.x_size, generator)
    x = sign + sigma * normal(samples, setting.x_size, generator)
    z = sign + sigma * normal(samples, setting.x_size, generator)
    return x, z


def sign_plus_noise(
    setting: Setting,
    sigma: float,
    samples: int,
    generator: Generator,
) -> Pair:
    """Discrete x = +-1, continuous z = x + sigma e, in every component."""
    sign = _signs(samples, setting.x_size, generator)
    return sign, sign + sigma * normal(samples, setting.x_size, generator)


def _signs(
    samples: int,
    size: int,
    generator: Generator,
) -> Tensor:
    bits = torch.randint(
        2,
        (samples, size),
        generator=generator,
        device="cpu",
    )
    return 2.0 * bits - 1


def spiral(
    setting: Setting,
    rho: float,
    samples: int,
    generator: Generator,
) -> Pair:
    """Correlated normals, the first two components of x turned by an angle.

    It grows with their length, so the map is invertible.
    """
    x, z = correlated(setting, rho, samples, generator)
    first, second = x[:, 0], x[:, 1]
    # The angle depends on the length, which a turn does not change.
    angle = setting.turns * math.pi * x[:, :2].norm(dim=1)
    cosine, sine = angle.cos(), angle.sin()
    turned = [
        cosine * first - sine * second,
        sine * first + cosine * second,
    ]
    others = x[:, 2:]
    return torch.cat([torch.stack(turned, 1), others], 1), z


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


FAMILIES = {
    "gaussian": Family("rho", correlated, _normal_truth),
    "nonlinear": Family("sigma", noisy_map, _noisy_map_truth),
    "mixture": Family("sigma", shared_sign, _shared_sign_truth),
    "student": Family("degrees of freedom", student, _student_truth),
    "discrete": Family("sigma", sign_plus_noise, _sign_truth),
    "spiral": Family("rho", spiral, _normal_truth),
}
