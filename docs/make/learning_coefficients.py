"""Learning coefficients of deep linear networks beside their exact values.

`python docs/make/learning_coefficients.py FOLDER` writes `table.json`; the gallery shows it. The
loss is |W_L ... W_1 - T|^2 / 2 around balanced factors of a projection T, whose coefficient is
known (Aoyagi, Entropy 2024, theorem 1). Half the number of parameters, which a regular model would
have, is the control.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from penchant_landscape.learning_coefficient.langevin import Density, langevin
from penchant_landscape.learning_coefficient.learning_coefficient import (
    Coefficient,
    learning_coefficient,
)
from scipy import stats
from torch import Tensor

SCALE = 10_000 / math.log(10_000)  # n beta
CHAINS, STEPS = 8, 8000
LEVEL = 0.01
# Widths from inputs to outputs, and the rank of T.
NETWORKS = (
    ((3, 2, 3), 1),
    ((4, 3, 4), 1),
    ((6, 4, 6), 2),
    ((2, 2, 2), 0),
    ((3, 3, 3, 3), 1),
    ((4, 3, 3, 4), 2),
)


def exact(widths: Sequence[int], rank: int) -> float:
    """The coefficient by Aoyagi's theorem."""
    spare = [width - rank for width in widths]
    for size in range(2, len(widths) + 1):
        for chosen in itertools.combinations(range(len(widths)), size):
            inside = [spare[number] for number in chosen]
            outside = [spare[number] for number in range(len(widths)) if number not in chosen]
            total, layers, least = sum(inside), size - 1, min(outside, default=math.inf)
            if max(inside) < least and layers * max(inside) <= total < layers * least:
                a = total - (math.ceil(total / layers) - 1) * layers
                pairs = sum(x * y for x, y in itertools.combinations(inside, 2))
                value = (rank * (widths[0] + widths[-1]) - rank**2) / 2
                value += a * (layers - a) / (4 * layers) + pairs / 2
                return value - layers * (layers - 1) / 4 * (total / layers) ** 2
    raise ValueError(f"no layers fulfil the theorem for {widths}, rank {rank}")


def estimated(widths: Sequence[int], rank: int) -> tuple[Coefficient, int]:
    """The estimate from chains around balanced factors, and the number of parameters."""
    shapes = [(after, before) for before, after in itertools.pairwise(widths)]
    sizes = [rows * columns for rows, columns in shapes]
    factors = [torch.zeros(shape, dtype=torch.float64, device="cpu") for shape in shapes]
    for factor in factors:
        factor[range(rank), range(rank)] = 1.0
    centre = torch.cat([factor.flatten() for factor in factors])

    def product(weights: Tensor) -> Tensor:
        parts = weights.split(sizes, 1)
        maps = [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]
        found = maps[0]
        for each in maps[1:]:
            found = each @ found
        return found

    target = product(centre[None])

    def energy(weights: Tensor) -> tuple[Tensor, Tensor]:
        leaves = weights.detach().requires_grad_()
        with torch.enable_grad():
            losses = (product(leaves) - target).square().sum((1, 2)) / 2
            (gradient,) = torch.autograd.grad(losses.sum(), leaves)
        return losses.detach()[None], gradient

    chains = langevin(
        Density(energy, centre, SCALE, 1.0),
        chains=CHAINS,
        steps=STEPS,
        warmup=STEPS // 2,
        generator=torch.Generator("cpu").manual_seed(0),
    )
    found = learning_coefficient(
        chains, scale=SCALE, localisation=1.0, parameters=len(centre), corrected=True
    )
    return found, len(centre)


def main(folder: Path) -> None:
    """Estimate every coefficient and write the table."""
    rows = [["widths", "rank", "exact", "estimate", "half the parameters"]]
    counts = {"known": 0, "regular": 0, "refused": 0}
    deviations: dict[str, list[float]] = {"known": [], "regular": []}
    for widths, rank in NETWORKS:
        (found, parameters), truth = estimated(widths, rank), exact(widths, rank)
        shown = "refused: " + "; ".join(found.problems)
        if found.problems:
            counts["refused"] += 1
        else:
            shown = f"{found.limit:.2f} ± {found.limit_stderr:.2f}"
            reach = float(stats.t.ppf(1 - LEVEL / 2, found.limit_df)) * found.limit_stderr
            for name, value in (("known", truth), ("regular", parameters / 2)):
                counts[name] += abs(found.limit - value) > reach
                deviations[name].append(abs(found.limit / value - 1))
        name = "-".join(str(width) for width in widths)
        rows.append([name, str(rank), f"{truth:g}", shown, f"{parameters / 2:g}"])
    quantities: dict[str, dict[str, Any]] = {"refused": {"value": float(counts["refused"])}}
    for name, values in deviations.items():
        quantities[f"outside-{name}"] = {"value": float(counts[name])}
        quantities[f"deviation-{name}"] = {"value": max(values)}
    found_table = {"name": "deep-linear", "probe": "", "quantities": quantities, "rows": rows}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**found_table, "places": {}, "pictures": [], "warnings": []}, indent=1)
    (folder / "table.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
