"""The probe `kernel-spectrum`: a training seen in the eigenvectors of a Gaussian kernel."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.moments import effective_rank
from torch import Tensor, nn

from penchant_spectral_bias.declarations.images import KernelSpectrum
from penchant_spectral_bias.numerics import resolution
from penchant_spectral_bias.numerics.gaussian_kernel import (
    eigenvectors,
    grid_eigenvectors,
    grid_spectrum,
    learnt_share,
    rising_noise,
    root_mean_squares,
)
from penchant_spectral_bias.probes.averages import averages, missing, order, stacked
from penchant_spectral_bias.probes.regression import check_loss
from penchant_spectral_bias.probes.two_classes import (
    check_classes,
    clean_samples,
    first_outputs,
    followed,
    looked_at,
    squared_error,
)

GRID = 50  # equidistant points of figure 3.6
FLAT = 0.9  # of all samples: an effective rank above this says that the kernel is too narrow
ROWS = (
    "coefficients",
    "clean-coefficients",
    "noisy-coefficients",
    "learnt-target",
    "learnt-noise",
    "training-loss",
    "validation-loss",
    "eigenvalues",
)


def run(options: KernelSpectrum, context: penchant.Context) -> penchant.Result:
    """Train networks on targets with noise on the late eigenvectors."""
    check_loss(context, "squared-error")
    check_classes(context, options.chosen_classes)
    items = list(range(options.trainings))
    rows = stacked(list(context.map(noisy_training, items)), ROWS)
    count = rows["eigenvalues"].shape[1]

    # figure 3.6 needs no training: the same kernel on a line
    on_grid = grid_eigenvectors(GRID, options.grid_kernel_width, device="cpu")
    middles = torch.arange(options.bins, device="cpu") + 0.5
    arrays = {
        "steps": torch.tensor(looked_at(context), device="cpu"),
        "eigenvectors": middles * count / options.bins,
        "grid-eigenvectors": on_grid,
        "grid-spectrum": grid_spectrum(on_grid),
        **averages(rows),
    }
    _warn_where_flat(context, rows["eigenvalues"].mean(0), count)
    quantities = _quantities(options, context, rows)
    return penchant.Result(
        quantities,
        arrays,
        conventions={
            "kernel": "exp(-|x - y|^2 / sigma^2), eigenvectors of the Gram matrix, descending "
            "eigenvalues, unit length",
            "noise": "coefficients (n / N)^power on eigenvectors, signs drawn for every training",
            "validation": "mean squared error on the clean targets of the training samples",
            "coefficients": "root mean square in a bin of eigenvectors",
            "learnt share": "projection on the coefficients of the target (or of the noise) over "
            "their square",
        },
        missing=missing(quantities),
    )


def noisy_training(context: penchant.Context, training: int) -> dict[str, Any]:
    """One training, its outputs projected on the eigenvectors at every recorded step."""
    options = context.options
    clean = clean_samples(context, training)
    points = clean.inputs.flatten(1)
    values, vectors = eigenvectors(points, options.kernel_width)

    # clean targets, and the same with noise on late eigenvectors
    noise = _noise(context, training, len(vectors))
    targets = clean.labels.double()
    noisy = targets + noise @ vectors
    samples = Samples(clean.inputs, noisy.to(clean.labels.dtype))
    outputs: list[Tensor] = []

    def look(network: nn.Module) -> None:
        outputs.append(first_outputs(network, samples.inputs))

    followed(context, training, samples, looked_at(context), look)

    # everything in the eigenvectors: both targets, then the network at every step
    functions = torch.stack(outputs).double()  # (steps, samples)
    coefficients = torch.stack([targets, noisy, *functions]) @ vectors.T
    of_target = coefficients[0]
    of_noisy = coefficients[1]
    of_network = coefficients[2:]
    binned = root_mean_squares(coefficients, options.bins)
    return {
        "coefficients": binned[2:],
        "clean-coefficients": binned[0],
        "noisy-coefficients": binned[1],
        "learnt-target": learnt_share(of_network, of_noisy, options.bins),
        "learnt-noise": learnt_share(of_network - of_target, noise, 1)[..., 0],
        "training-loss": _losses(functions, samples.labels),
        "validation-loss": _losses(functions, targets),
        "eigenvalues": values.clamp(min=0),
    }


def _noise(
    context: penchant.Context,
    training: int,
    count: int,
) -> Tensor:
    """Coefficients of the noise on the eigenvectors, with random signs."""
    options = context.options
    generator = context.generator("signs", training)
    drawn = torch.randint(2, (count,), generator=generator, device="cpu")
    # 0 and 1 are the signs -1 and 1
    signs = (drawn * 2 - 1).to(context.device)
    sizes = rising_noise(count, options.power, device=context.device)
    return options.noise_scale * sizes * signs


def _losses(functions: Tensor, targets: Tensor) -> Tensor:
    """Mean squared errors of functions (steps, samples)."""
    losses = []
    for function in functions:
        losses.append(squared_error(function, targets))
    return torch.stack(losses)


def _warn_where_flat(context: penchant.Context, eigenvalues: Tensor, count: int) -> None:
    rank = effective_rank(eigenvalues)
    if rank > FLAT * count:
        context.warn(
            f"the kernel is close to the identity (effective rank {rank:.0f} of {count}): its "
            "eigenvectors say little; use a larger kernel_width"
        )


def _quantities(
    options: KernelSpectrum,
    context: penchant.Context,
    rows: dict[str, Tensor],
) -> dict[str, penchant.Quantity]:
    losses = rows["validation-loss"]
    learnt = rows["learnt-target"]
    steps = torch.tensor(looked_at(context), device="cpu")
    # where the loss on the clean target is smallest
    best = losses.argmin(1)
    at_dip = rows["learnt-noise"].gather(1, best[:, None])[:, 0]
    ranks = [effective_rank(each) for each in rows["eigenvalues"]]
    dip_step, stderr = resolution.mean_and_stderr(steps[best], options.look_every)
    values = {
        "dip": losses[:, -1] - losses.amin(1),
        "noise-at-dip": at_dip,
        "noise-at-end": rows["learnt-noise"][:, -1],
    }
    found = {}
    for name, each in values.items():
        found[name] = penchant.Quantity.of(each, over="trainings", null=0.0)
    found["dip-step"] = penchant.Quantity(
        dip_step,
        stderr=stderr,
        over="trainings",
        count=options.trainings,
    )
    # where all samples are equally far apart
    identity = rows["eigenvalues"].shape[1]
    found["effective-rank"] = penchant.Quantity.of(ranks, over="choices of samples", null=identity)

    # the order in which bins of eigenvectors are learnt
    places = torch.arange(learnt.shape[-1], device="cpu", dtype=torch.float64)
    share = learnt.clamp(max=1).mean(1)  # (trainings, bins)
    generator = context.generator("permutations")
    found["rank-correlation"] = order(-share, places, generator=generator)
    return found
