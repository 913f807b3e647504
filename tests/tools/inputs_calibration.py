"""Errors and nulls of what probes take beside networks and data, and of numbers by module.

Arrays, functions on R^d, differences of two files, modules and steps of a training: the stated
error beside the spread over 24 seeds, and how often a null is called significant at the 1 % level
of 100 seeds. `python tests/tools/inputs_calibration.py [NAME ...]` prints a row for each quantity.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penchant
import torch
from penchant import Quantity, Result
from safetensors.torch import save_file
from torch import nn

SEEDS, NULLS = 24, 100
SIMPLEX = 2 * np.eye(3, 8)  # class means, here with equal norms and angles
UNEVEN = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [2.0, 2.0, 1.0]]) @ np.eye(3, 8)
Run = Callable[[int], Result]


def normal(*shape: int, seed: int) -> torch.Tensor:
    """Gaussian numbers in double precision."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float64)


def network(seed: int, *widths: int) -> nn.Sequential:
    """Linear layers with tanh between them, drawn by a seed of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*layers[:-1])


# ---- steps of a training


def samples(seed: int, count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Three classes along axes of their own, each sample of a class that is drawn, too."""
    generator = torch.Generator("cpu").manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator, device="cpu")
    inputs = torch.randn(count, 4, generator=generator, device="cpu")
    inputs[torch.arange(count), labels] += 3.0
    return inputs, labels


def critical(seed: int, **options: Any) -> Result:
    """One network, whose gradient is that of samples that stay."""
    return penchant.measure(
        "critical-sharpness",
        architecture=network(5, 4, 8, 3),
        dataset=(samples(1000, 90), samples(seed)),
        split="test",
        dtype="float64",
        seed=seed,
        **options,
    )


def critical_null(seed: int) -> Result:
    """A random direction among random directions."""
    return critical(seed, along="random", exact_limit=0)


# ---- by module


def of_modules(probe: str, drawn: int, **options: Any) -> Result:
    """Samples are drawn by a number, which is the seed as well where options name no other."""
    return penchant.measure(
        probe,
        architecture=network(5, 4, 8, 3),
        dataset=(samples(drawn), samples(drawn)),
        parameters=["0", "2"],
        dtype="float64",
        split="train",
        **{"seed": drawn, **options},
    )


def shuffled(seed: int) -> Result:
    """The same with labels that know nothing of the inputs."""
    inputs, _ = samples(seed)
    labels = torch.randint(3, (200,), generator=torch.Generator("cpu").manual_seed(seed + 7))
    data = (inputs, labels)
    return penchant.measure(
        "cross-class",
        architecture=network(seed, 4, 8, 3),
        dataset=(data, data),
        parameters=["0", "2"],
        dtype="float64",
        split="train",
        seed=seed,
        permutations=20,
    )


def linear(seed: int) -> Result:
    """Chains around the minimum of a linear model of two layers' worth of parameters."""
    inputs = normal(200, 4, seed=1)
    model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 2, bias=False)).double()
    for layer, weight in zip(model, (normal(3, 4, seed=2), normal(2, 3, seed=3)), strict=True):
        layer.weight.data = weight
    data = (inputs, model(inputs).detach())
    return penchant.measure(
        "learning-coefficient",
        architecture=model,
        dataset=(data, data),
        parameters=["0", "1"],
        training={"loss": "squared-error"},
        dtype="float64",
        localisation=1.0,
        chain_steps=300,
        warmup=200,
        seed=seed,
    )


# ---- arrays


def similarity(seed: int, **options: Any) -> Result:
    """Features, and the same with noise."""
    X = normal(200, 4, seed=seed)
    Y = X + normal(200, 4, seed=seed + 500)
    return _similar(X, Y, seed)


def unrelated(seed: int) -> Result:
    """Features that have nothing in common."""
    return _similar(normal(200, 4, seed=seed), normal(200, 4, seed=seed + 500), seed)


def _similar(X: torch.Tensor, Y: torch.Tensor, seed: int) -> Result:
    features = {"x": X, "y": Y}
    return penchant.measure("representation-similarity", features=features, samples=200, seed=seed)


def collapse(seed: int, means: np.ndarray = UNEVEN) -> Result:
    """Classes around known means; which class a sample has is drawn."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(3, size=150)
    features = generator.normal(size=(150, 8)) + means[labels]
    return penchant.measure("neural-collapse", features=features, labels=labels, seed=seed)


def no_classes(seed: int) -> Result:
    """Labels of chance."""
    generator = np.random.default_rng(seed)
    labels, features = generator.integers(3, size=150), generator.normal(size=(150, 8))
    return penchant.measure("neural-collapse", features=features, labels=labels, seed=seed)


def information(seed: int, rho: float = 0.8) -> Result:
    """Normal pairs of known correlation."""
    x = normal(300, 1, seed=seed)
    z = rho * x + math.sqrt(1 - rho**2) * normal(300, 1, seed=seed + 500)
    estimators = {"mutual-information": ["ksg"]}
    return penchant.measure("mutual-information", x=x, z=z, estimators=estimators, seed=seed)


def independent(seed: int) -> Result:
    """Pairs that know nothing of each other."""
    return information(seed, rho=0.0)


# ---- functions


def goal(points: torch.Tensor) -> torch.Tensor:
    """Two waves along the first input, one of which the others move."""
    return torch.sin(4 * math.pi * points[:, 0] + points[:, 1]) + torch.sin(6 * points[:, 0])


def learning(seed: int) -> Result:
    """A function of three inputs along lines, which are drawn again."""
    function = network(1, 3, 40, 1)
    function[0].weight.data *= 6
    return _function("frequency-learning", function, 3, seed, target_function=goal, slices=15)


def fresh_learning(seed: int) -> Result:
    """A network at initialisation."""
    return _function("frequency-learning", network(seed, 2, 40, 1), 2, seed)


MOVES = {"slices": 8, "perturbations": 6, "grid_points": 16}


def robustness(seed: int) -> Result:
    """A network whose weights are moved, along lines that are drawn again, as the moves are."""
    function = network(1, 2, 40, 1)
    return _function("frequency-robustness", function, 2, seed, deltas=(0.0, 1.0, 2.0), **MOVES)


def fresh_robustness(seed: int) -> Result:
    """A network at initialisation."""
    return _function("frequency-robustness", network(seed, 2, 40, 1), 2, seed, **MOVES)


def _function(probe: str, function: nn.Module, inputs: int, seed: int, **options: Any) -> Result:
    given = {"frequencies": (1, 2, 3), "grid_points": 32, **options}
    return penchant.measure(
        probe, architecture=function, shape=(inputs,), wave_inputs=[0], seed=seed, **given
    )


# ---- two files


def difference(seed: int) -> Result:
    """A difference in random directions."""
    before = {"a.weight": normal(40, 30, seed=1), "b.weight": normal(25, 36, seed=2)}
    after = {
        name: each + 0.01 * normal(*each.shape, seed=100 + seed + 500 * number)
        for number, (name, each) in enumerate(before.items())
    }
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("base.safetensors", "tuned.safetensors")]
        for file, tensors in zip(files, (before, after), strict=True):
            save_file(tensors, file)
        return penchant.measure(
            "weight-spectra", file=files[1], base=files[0], shuffles=20, seed=seed
        )


PLANE = {"grid_points": 5, "plane_points": 0, "random_directions": 10}
# What to measure, where there is no effect, and the beginning of the names of what is compared.
ROWS: dict[str, tuple[Run | None, Run | None, str]] = {
    "critical-sharpness": (critical, critical_null, ""),
    "hessian-spectrum by module": (
        lambda seed: of_modules("hessian-spectrum", seed, lanczos_steps=16, grid_points=16),
        None,
        "trace-by-module[train,gauss-newton",
    ),
    "cross-class by module": (
        lambda seed: of_modules("cross-class", seed, permutations=2),
        shuffled,
        "trace-by-module",
    ),
    "loss-plane by module, other samples": (
        lambda seed: of_modules("loss-plane", seed, **PLANE),
        None,
        "sharpness-by-module",
    ),
    "loss-plane by module, other directions": (
        lambda seed: of_modules("loss-plane", 0, **{**PLANE, "seed": seed}),
        None,
        "random-rise-by-module",
    ),
    "learning-coefficient by module": (linear, None, "localised-coefficient-by-module"),
    "arrays: representation-similarity": (similarity, unrelated, ""),
    "arrays: neural-collapse": (collapse, no_classes, ""),
    "arrays: neural-collapse of a simplex": (lambda seed: collapse(seed, SIMPLEX), None, "nc2"),
    "arrays: mutual-information": (information, independent, ""),
    "function: frequency-learning": (learning, fresh_learning, ""),
    "function: frequency-robustness": (robustness, fresh_robustness, ""),
    "difference: weight-spectra": (None, difference, ""),
}


def numbers(result: Result) -> Iterator[tuple[str, Quantity]]:
    """Quantities, and the numbers of tables by module."""
    yield from result.quantities.items()
    for name, table in result.tables.items():
        if "by-module" not in name or table.values.size > 60:
            continue
        for row in np.ndindex(table.values.shape):
            axes = list(table.axes.items())
            place = {axis: each[number] for (axis, each), number in zip(axes, row, strict=True)}
            label = ",".join(map(str, place.values()))
            yield f"{name}[{label}]", table.at(**place).quantity()


def gathered(run: Run | None, seeds: range, beginning: str) -> dict[str, list[Quantity]]:
    """Every number of the runs by its name."""
    found: dict[str, list[Quantity]] = defaultdict(list)
    for seed in seeds if run else ():
        assert run is not None
        for name, quantity in numbers(run(seed)):
            if not name.startswith(beginning):
                continue
            if not quantity.missing and math.isfinite(quantity.value):
                found[name].append(quantity)
    return found


def lines(name: str, seeds: int, nulls: int) -> Iterator[str]:
    """One row for each number that has an error or a null."""
    effect, null, beginning = ROWS[name]
    runs = gathered(effect, range(seeds), beginning)
    chance = gathered(null, range(2000, 2000 + nulls), beginning)
    for quantity in dict.fromkeys([*runs, *chance]):
        cells = [_errors(runs.get(quantity, [])), _share(chance.get(quantity, []))]
        if any(cells):
            yield f"| {name} | {quantity} | {cells[0] or '| | |'} | {cells[1] or '|'} |"


def _errors(found: list[Quantity]) -> str:
    errors = [float(each.stderr) for each in found if each.stderr is not None]
    if len(errors) < 2:
        return ""
    stated = math.sqrt(statistics.fmean(error**2 for error in errors))
    spread = statistics.stdev(float(each.value) for each in found)
    # what is exact for its samples, and what is the same for all seeds
    if not stated or not spread:
        return ""
    return f"{stated:.3g} | {spread:.3g} | {stated / spread:.2f}"


def _share(found: list[Quantity]) -> str:
    judged = [each for each in found if each.null is not None]
    significant = sum(bool(each.is_significant) for each in judged)
    return f"{significant} | {len(judged)}" if judged else ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only rows whose name has one of these")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--nulls", type=int, default=NULLS)
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    print("| what | quantity | stated | spread | ratio | significant | nulls |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name in ROWS:
        if not chosen.names or any(each in name for each in chosen.names):
            for line in lines(name, chosen.seeds, chosen.nulls):
                print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
