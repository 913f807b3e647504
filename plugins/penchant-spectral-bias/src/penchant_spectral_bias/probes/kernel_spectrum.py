"""The probe `kernel-spectrum`: a training seen in the eigenvectors of a Gaussian kernel."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.moments import effective_rank
from torch import Tensor

from penchant_spectral_bias.numerics.gaussian_kernel import (
    eigenvectors,
    grid_spectrum,
    learnt_share,
    rising_noise,
)
from penchant_spectral_bias.numerics.rank_correlation import (
    jackknife,
    mean_and_error,
    permutation_null,
    spearman,
)
from penchant_spectral_bias.numerics.side_by_side import recorded_steps
from penchant_spectral_bias.probes.curves import check_regression
from penchant_spectral_bias.probes.images import (
    check_classes,
    first_outputs,
    followed,
    squared_error,
    two_classes,
)

GRID = 50  # equidistant points of figure 3.6


def run(options: Any, context: Any) -> penchant.Result:
    """Train one network a draw on targets with noise on the late eigenvectors."""
    check_regression(context, "kernel-spectrum")
    check_classes(context, options.classes)
    count = len(_samples(context, options.classes, options.samples, 0).labels)
    steps = recorded_steps(context.training.total_steps(count), options.every)
    names = ("classes", "samples", "sigma", "noise", "power", "bins")
    base = {name: getattr(options, name) for name in names}
    rows = list(
        context.map(
            noisy_training,
            [{**base, "draw": draw, "steps": steps} for draw in range(options.draws)],
        )
    )
    found = {
        name: torch.stack([torch.as_tensor(row[name], device="cpu") for row in rows])
        for name in rows[0]
    }
    arrays: dict[str, Any] = {
        "steps": torch.tensor(steps, device="cpu"),
        "eigenvector": (torch.arange(options.bins, device="cpu") + 0.5) * count / options.bins,
        "grid-spectrum": grid_spectrum(GRID, options.grid_sigma, device="cpu"),
    }
    for name in (
        "spectrum",
        "clean-spectrum",
        "noised-spectrum",
        "learnt-target",
        "learnt-noise",
        "training",
        "validation",
        "eigenvalues",
    ):
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(found[name])
    _warn_where_flat(context, arrays["eigenvalues"], count)
    conventions = {
        "kernel": "exp(-|x - y|^2 / sigma^2), eigenvectors of the Gram matrix, descending eigenvalues, unit length",
        "noise": "coefficients (n / N)^power on eigenvectors, signs drawn anew for every draw",
        "validation": "mean squared error on the clean targets of the training samples",
        "spectrum": "root mean square of the coefficients in a bin of eigenvectors",
        "learnt share": "projection on the coefficients of the target (or of the noise) over their square",
    }
    return penchant.Result(
        _quantities(context, found, steps, count), arrays, conventions=conventions
    )


def _samples(context: Any, classes: Any, count: int, draw: int) -> Samples:
    return two_classes(context.data.train, classes, count, context.generator("samples", draw))


def noisy_training(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """One training, its outputs projected on the eigenvectors at every recorded step."""
    draw = item["draw"]
    clean = _samples(context, item["classes"], item["samples"], draw)
    values, vectors = eigenvectors(clean.inputs.flatten(1), item["sigma"])
    signs = (
        torch.randint(2, (len(vectors),), generator=context.generator("signs", draw), device="cpu")
        * 2
        - 1
    )
    noise = (
        item["noise"]
        * rising_noise(len(vectors), item["power"], device=vectors.device)
        * signs.to(vectors.device)
    )
    samples = Samples(
        clean.inputs, (clean.labels.double() + noise @ vectors).to(clean.labels.dtype)
    )
    outputs: list[Tensor] = []
    seed = context.generator("training", draw).initial_seed()
    look = outputs.append
    network = context.network(draw, outputs=1)
    followed(
        context,
        network,
        samples,
        item["steps"],
        seed,
        lambda each: look(first_outputs(each, samples.inputs)),
    )
    functions = torch.stack(outputs).double()  # (steps, samples)
    targets = clean.labels.double()
    coefficients = torch.stack([targets, targets + noise @ vectors, *functions]) @ vectors.T
    binned = _binned(coefficients, item["bins"])
    return {
        "spectrum": binned[2:],
        "clean-spectrum": binned[0],
        "noised-spectrum": binned[1],
        "learnt-target": learnt_share(coefficients[2:], coefficients[1], item["bins"]),
        "learnt-noise": learnt_share(coefficients[2:] - coefficients[0], noise, 1)[..., 0],
        "training": torch.stack([squared_error(each, samples.labels) for each in functions]),
        "validation": torch.stack([squared_error(each, targets) for each in functions]),
        "eigenvalues": values.clamp(min=0),
    }


def _binned(coefficients: Tensor, bins: int) -> Tensor:
    """Root mean square of neighbouring coefficients, (..., bins)."""
    edges = (
        torch.linspace(0, coefficients.shape[-1], bins + 1, device="cpu").round().long().tolist()
    )
    return torch.stack(
        [coefficients[..., a:b].square().mean(-1).sqrt() for a, b in zip(edges[:-1], edges[1:])],
        dim=-1,
    )


def _warn_where_flat(context: Any, eigenvalues: Tensor, count: int) -> None:
    rank = effective_rank(eigenvalues)
    if rank > 0.9 * count:
        context.warn(
            f"the kernel is close to the identity (effective rank {rank:.0f} of {count}): its eigenvectors say little; use a larger sigma"
        )


def _quantities(
    context: Any, found: dict[str, Tensor], steps: list[int], count: int
) -> dict[str, penchant.Quantity]:
    validation, learnt, draws = (
        found["validation"],
        found["learnt-target"],
        len(found["validation"]),
    )
    over = {"over": "networks", "count": draws}

    def quantity(values: Tensor, **more: Any) -> penchant.Quantity:
        mean, error = mean_and_error(values.double())
        return penchant.Quantity(
            float(mean), stderr=float(error) if draws > 1 else None, **over, **more
        )

    def correlation(mean: Tensor) -> float:
        return spearman(-mean.clamp(max=1).mean(0), places)

    places = torch.arange(learnt.shape[-1], device="cpu", dtype=torch.float64)
    best = validation.argmin(1)
    quantities = {
        "dip": quantity(validation[:, -1] - validation.amin(1), null=0.0),
        "dip-step": quantity(torch.tensor(steps, device="cpu")[best]),
        "noise-at-dip": quantity(found["learnt-noise"][torch.arange(draws, device="cpu"), best]),
        "noise-at-end": quantity(found["learnt-noise"][:, -1]),
        "effective-rank": quantity(
            torch.tensor([effective_rank(each) for each in found["eigenvalues"]], device="cpu")
        ),
    }
    value = correlation(learnt.mean(0))
    if len(places) > 2 and math.isfinite(value):
        null = permutation_null(
            -learnt.mean((0, 1)), places, generator=context.generator("permutations")
        )
        error = jackknife(learnt, correlation)
        quantities["order-correlation"] = penchant.Quantity(
            value, stderr=error, null=null[0], null_stderr=null[1], **over
        )
    return quantities
