"""Fine structure: many periods, cells or turns within the range of a variable."""

from __future__ import annotations

import math

import numpy as np
from penchant_mine.shared.information import known_information as known

from second_tasks.task import Array, Task, column, entropy, nodes, normal_density

CYCLES, SINE_NOISE = 40, 0.3
TEETH, TOOTH_NOISE = 15, 0.1
CELLS = 10  # along a side of the board
TURNS, ARM_NOISE = 2.0, 0.08
GRATING_SIZE, GRATING_CYCLES = 6, 3


def sine_forty(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Forty cycles of a sine, and noise."""
    x = rng.random(samples)
    z = np.sin(2 * math.pi * CYCLES * x) + SINE_NOISE * rng.standard_normal(samples)
    return column(x), column(z)


def sine_truth() -> float:
    """Entropy of sine + noise minus that of noise; the number of cycles does not matter.

    Points of the sine at equal distances are a rule for its phase that converges exponentially.
    """
    phases = np.sin(2 * math.pi * (np.arange(4000) + 0.5) / 4000)
    z, weights = nodes(-1 - 12 * SINE_NOISE, 1 + 12 * SINE_NOISE, 20)
    density = normal_density(z[:, None] - phases, SINE_NOISE).mean(1)
    return entropy(density, weights) - known.gaussian_entropy(SINE_NOISE)


def sawtooth(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Where in its tooth x is, and bounded noise."""
    x = rng.random(samples)
    z = (TEETH * x) % 1 + TOOTH_NOISE * (2 * rng.random(samples) - 1)
    return column(x), column(z)


def sawtooth_truth() -> float:
    """The place in a tooth is uniform, whatever their number."""
    return known.uniform_noise(TOOTH_NOISE)


def checkerboard(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform on the black cells of a board."""
    row = rng.integers(CELLS, size=samples)
    black = 2 * rng.integers(CELLS // 2, size=samples) + row % 2
    x, z = (np.stack([row, black]) + rng.random((2, samples))) / CELLS
    return column(x), column(z)


def checkerboard_truth() -> float:
    """Twice the density of the whole board on half of it."""
    return math.log(2)


def spiral_arm(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A number, and its place on a spiral in the plane with noise."""
    x = rng.random(samples)
    return column(x), _arm(x) + ARM_NOISE * rng.standard_normal((samples, 2))


def _arm(along: Array) -> Array:
    """The point of a spiral whose radius grows from 0.2 to 1."""
    angle = 2 * math.pi * TURNS * along
    radius = 0.2 + 0.8 * along
    points: Array = column(radius) * np.stack([np.cos(angle), np.sin(angle)], 1)
    return points


def spiral_arm_truth() -> float:
    """Entropy in the plane, by sums on a grid, minus that of two noises."""
    side = np.linspace(-1.6, 1.6, 321)
    points = _arm((np.arange(3000) + 0.5) / 3000)
    # The noise of both coordinates is independent.
    first, second = (normal_density(side[:, None] - each, ARM_NOISE) for each in points.T)
    density = first @ second.T / len(points)
    cell = np.full(density.shape, (side[1] - side[0]) ** 2)
    return entropy(density, cell) - 2 * known.gaussian_entropy(ARM_NOISE)


def grating(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Six columns each, of which only the first are related, by three cycles of a sine."""
    x = rng.random((samples, GRATING_SIZE))
    z = rng.standard_normal((samples, GRATING_SIZE))
    z[:, 0] = np.sin(2 * math.pi * GRATING_CYCLES * x[:, 0]) + SINE_NOISE * z[:, 0]
    return x, z


TASKS = {
    "sine forty": Task(sine_forty, sine_truth),
    "sawtooth": Task(sawtooth, sawtooth_truth),
    "checkerboard": Task(checkerboard, checkerboard_truth),
    "spiral arm": Task(spiral_arm, spiral_arm_truth),
    "grating": Task(grating, sine_truth),
}
