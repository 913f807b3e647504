"""The probe `kernel-spectrum`: a training seen in the eigenvectors of a Gaussian kernel."""

from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.inputs import effective_rank
from penchant_numerics.statistics import null_of, random_rotation
from torch import Tensor, nn

from penchant_spectral_bias.declarations.images import KernelSpectrum
from penchant_spectral_bias.kernel_spectrum.gaussian_kernel import (
    eigenvectors,
    grid_eigenvectors,
    grid_slope,
    grid_spectrum,
    learnt_share,
    rising_noise,
    root_mean_squares,
)
from penchant_spectral_bias.shared.rank_order import correlations, missing, smallest_step
from penchant_spectral_bias.shared.two_classes import (
    check_classes,
    clean_samples,
    evaluated_steps,
    first_outputs,
    followed,
    squared_error,
)
from penchant_spectral_bias.shared.waves import (
    against_control,
    check_loss,
    in_steps,
    warn_above_constant,
)

GRID = 50  # equidistant points of figure 3.6
GRID_DRAWS = 199  # random bases with which its slope is compared
RANK_ONE = 1e-12  # of the largest eigenvalue: what the second of a kernel of rank one is below
FLAT = 0.9  # of all samples: an effective rank above this says that the kernel is too narrow
RANDOM = ("learnt-target", "learnt-noise", "validation-loss")


def run(options: KernelSpectrum, context: penchant.Context) -> penchant.Result:
    """Train networks on targets with noise on late eigenvectors, and on random bases."""
    check_loss(context, "squared-error")
    check_classes(context, options.chosen_classes)
    count = len(clean_samples(context, 0).labels)
    middles = (torch.arange(options.bins, device="cpu") + 0.5) * count / options.bins
    steps = evaluated_steps(context)
    inside = {"step": steps, "eigenvector": middles.tolist(), "number": range(count)}
    # trainings in random bases have samples and networks of their own
    trainings = range(options.trainings)
    others = range(options.trainings, options.trainings + options.random_bases)
    rows, control = (
        context.tables(noisy_training, inside=inside, random=(random,), training=numbers)
        for random, numbers in ((False, trainings), (True, others))
    )
    rows = {name: table.at(random=False) for name, table in rows.items()}
    control = {name: control[name].at(random=True) for name in RANDOM}
    constant = rows.pop("constant-loss").values.mean()

    # figure 3.6 needs no training: the same kernel on a line
    on_grid = grid_eigenvectors(GRID, options.grid_kernel_width, device="cpu")
    arrays = {
        "steps": torch.tensor(steps, device="cpu"),
        "eigenvectors": middles,
        "grid-eigenvectors": on_grid,
        "grid-spectrum": grid_spectrum(on_grid),
    }
    tables = {name: table.mean("training") for name, table in rows.items()}
    tables["random-learnt-target"] = control["learnt-target"].mean("training")
    final = rows["training-loss"].at(step=steps[-1])
    warn_above_constant(context, float(final.values.mean()), float(constant))
    _warn_where_flat(context, tables["eigenvalues"].values, count)
    quantities = _quantities(options, rows, control)
    quantities["grid-slope"] = _grid_slope(context, on_grid)
    return penchant.Result(
        quantities,
        arrays,
        tables=tables,
        conventions={
            "kernel": "exp(-|x - y|^2 / sigma^2), eigenvectors of the Gram matrix, descending "
            "eigenvalues, unit length",
            "noise": "coefficients (n / N)^power on eigenvectors, signs sampled for every training",
            "null": "other trainings with the noise on a random orthonormal basis, seen in that "
            "basis: noise that grows with the number makes an order by itself",
            "validation": "mean squared error on the clean targets of the training samples",
            "coefficients": "root mean square in a bin of eigenvectors",
            "learnt share": "projection on the coefficients of the target (or of the noise) over "
            "their square",
            "grid slope": "least squares, of the frequency with the largest |DFT| by the number of "
            "the eigenvector; null: random orthonormal bases",
        },
        missing=missing(quantities),
    )


def noisy_training(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """One training, its outputs projected on the eigenvectors at every recorded step.

    In the control (`random`), a random orthonormal basis takes the position of the eigenvectors.
    """
    options = context.options
    training = item["training"]
    clean = clean_samples(context, training)
    points = clean.inputs.flatten(1)
    values, vectors = eigenvectors(points, options.kernel_width)
    if float(values[1]) <= RANK_ONE * float(values[0]):
        raise penchant.Error(
            "the kernel matrix has rank one, expected eigenvectors to see a training in: all "
            "inputs are equal, or far nearer to each other than kernel_width"
        )
    if item["random"]:
        generator = context.generator("basis", training)
        vectors = random_rotation(len(vectors), generator=generator).to(vectors)

    # clean targets, and the same with noise on late eigenvectors
    noise = _noise(context, training, len(vectors))
    targets = clean.labels.double()
    noisy = targets + noise @ vectors
    samples = Samples(clean.inputs, noisy.to(clean.labels.dtype))
    outputs: list[Tensor] = []

    def evaluate(network: nn.Module) -> None:
        outputs.append(first_outputs(network, samples.inputs))

    followed(context, training, samples, evaluated_steps(context), evaluate)

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
        "constant-loss": noisy.var(correction=0),
        "eigenvalues": values.clamp(min=0),
    }


def _noise(context: penchant.Context, training: int, count: int) -> Tensor:
    """Coefficients of the noise on the eigenvectors, with random signs."""
    options = context.options
    generator = context.generator("signs", training)
    sampled = torch.randint(2, (count,), generator=generator, device="cpu")
    # 0 and 1 are the signs -1 and 1
    signs = (sampled * 2 - 1).to(context.device)
    sizes = rising_noise(count, options.power, device=context.device)
    noise: Tensor = sizes * signs
    return noise


def _losses(functions: Tensor, targets: Tensor) -> Tensor:
    """Mean squared errors of functions (steps, samples)."""
    losses = []
    for function in functions:
        losses.append(squared_error(function, targets))
    return torch.stack(losses)


def _warn_where_flat(context: penchant.Context, eigenvalues: np.ndarray, count: int) -> None:
    rank = effective_rank(torch.tensor(eigenvalues, device="cpu"))
    if rank > FLAT * count:
        context.warn(
            f"the kernel is close to the identity (effective rank {rank:.0f} of {count}): its "
            "eigenvectors say little; use a larger kernel_width"
        )


def _quantities(
    options: KernelSpectrum, rows: dict[str, penchant.Table], control: dict[str, penchant.Table]
) -> dict[str, penchant.Quantity]:
    quantities = {}
    of_control = _numbers(control)
    for name, values in _numbers(rows).items():
        quantities[name] = against_control(values, of_control[name], paired=False)

    # the step where the loss on the clean target is smallest
    losses = rows["validation-loss"]
    best = losses.coordinates("step")[losses.values.argmin(1)]
    quantities["dip-step"] = in_steps(best, options.eval_every)

    # where all samples are equally far apart
    eigenvalues = torch.tensor(rows["eigenvalues"].values, device="cpu")
    identity = eigenvalues.shape[1]
    ranks = [effective_rank(each) for each in eigenvalues]
    quantities["effective-rank"] = penchant.Quantity.of(
        ranks, over="choices of samples", null=identity
    )
    quantities["rank-correlation"] = _order(rows["learnt-target"], control["learnt-target"])
    return quantities


def _numbers(rows: dict[str, penchant.Table]) -> dict[str, np.ndarray]:
    """How far the loss on the clean target rises again, and how much noise is learnt by then."""
    losses = rows["validation-loss"].values
    noise = rows["learnt-noise"].values
    best = losses.argmin(1)
    return {
        "dip": losses[:, -1] - losses.min(1),
        "noise-at-dip": noise[np.arange(len(noise)), best],
        "noise-at-end": noise[:, -1],
    }


def _order(learnt: penchant.Table, control: penchant.Table) -> penchant.Quantity:
    """In which order bins of eigenvectors are learnt, beside bins of random bases."""
    bins = len(learnt.axes["eigenvector"])
    positions = torch.arange(bins, device="cpu", dtype=torch.float64)
    replicates = []
    for each in (learnt, control):
        share = torch.tensor(each.values, device="cpu").clamp(max=1).mean(1)  # (trainings, bins)
        ranked = correlations(-share, positions)
        if ranked is None:
            return penchant.Quantity(float("nan"), null=0.0)
        replicates.append(ranked)
    return against_control(replicates[0], replicates[1], paired=False, step=smallest_step(bins))


def _grid_slope(context: penchant.Context, vectors: Tensor) -> penchant.Quantity:
    """Cycles per number of an eigenvector on equidistant points, beside random bases."""
    generator = context.generator("grid")
    draws = []
    for _ in range(GRID_DRAWS):
        basis = random_rotation(len(vectors), generator=generator)
        draws.append(grid_slope(basis))
    slope = grid_slope(vectors)
    return penchant.Quantity(slope, exact=True, **null_of(draws, value=slope))
