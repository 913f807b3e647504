"""Spectra of the Hessian and of its terms, as data."""

import attrs
import penchant

from penchant_class_structure.declarations.recipes import (
    BATCH_NORM,
    CLASSES,
    DEVICES,
    KAPPA,
    LOSS,
    PARAMETERS,
    PER_CLASS,
    QUICK,
    RECIPE,
    STARTS,
)

MATRICES = ("hessian", "gauss-newton", "residual")

_QUANTITIES = {
    "trace-hessian": "trace of the Hessian of the mean loss, of these samples",
    "trace-gauss-newton": "trace of G",
    "largest": "largest eigenvalue of the Hessian of these samples",
    "largest-gauss-newton": "largest eigenvalue of G",
    "negative-mass": "share of eigenvalues of these samples' Hessian below minus the resolution",
    "negative-mass-least": "lower bound of that share from Lanczos, for its start vectors",
    "negative-mass-most": "upper bound of that share from Lanczos, for its start vectors",
    "resolution": "smallest |eigenvalue| at which these bounds differ by at most 0.1; "
    "signs of smaller eigenvalues are not known",
    "tail-exponent": "slope of log density against log |eigenvalue| of these samples' E; null: a "
    "semicircle of the same range",
    "tail-fit": "R squared of that line",
    "tail-fit-exponential": "R squared of an exponential through the same bins; if it is above "
    "tail-fit, the tail is not a power law",
    "loss": "mean loss; null: the best constant outputs",
}
_ARRAYS = {
    "density-grid": "eigenvalues at which densities are given",
    "density-hessian": "of the Hessian's eigenvalues",
    "density-gauss-newton": "of G's",
    "density-residual": "of E's, E = Hess - G",
    "density-undeflated": "of the Hessian's, without deflation",
    "top-eigenvalues": "leading eigenvalues of the Hessian, descending",
    "top-residuals": "|Hess x - lambda x| of each",
    "top-eigenvalues-gauss-newton": "leading eigenvalues of G, descending",
    "top-residuals-gauss-newton": "|G x - lambda x| of each",
    "log-grid": "log(|eigenvalue| + epsilon) at which the log density of E is given",
    "log-density-residual": "of E, in the logarithm of |eigenvalue|",
    "log-density-positive": "contribution of positive eigenvalues",
    "log-density-negative": "contribution of negative eigenvalues",
    "tail-grid": "log |eigenvalue| in the middle of the bins that the power law is fitted to",
    "tail-window": "smallest and largest |eigenvalue| of the fit",
    "tail-density": "density of |eigenvalue| of E in these bins",
    "tail-line": "slope and intercept of the line through their logarithms",
    "bulk-grid": "eigenvalues in the range of E, or of the bulk without leading eigenvalues",
    "bulk-density-hessian": "of the Hessian there",
    "bulk-density-gauss-newton": "of G there",
    "bulk-density-residual": "of E there",
}


def _also_on_test(names: dict[str, str]) -> dict[str, str]:
    """Names of the training samples, and the same of test samples."""
    both = dict(names)
    for name, about in names.items():
        both[f"test-{name}"] = f"{about}; on test samples"
    return both


@attrs.frozen
class HessianSpectrum(penchant.Probe):
    r"""Spectra of the loss Hessian, its Gauss-Newton term and the rest, on train and test samples.

    $\mathrm{Hess} = G + E$, where $G$ is the Gauss-Newton matrix (the true Fisher matrix for
    cross-entropy). Leading eigenvalues are computed one by one, and their mass in the density is
    exact; the rest comes from Lanczos. All eigenvalues are exact if the network has few parameters.
    The tail of $E$ is fitted with a power law; the null is the same fit to a semicircle. Quantities
    of test samples have names that begin with `test-`.

    Lanczos cannot determine the sign of the many eigenvalues near zero. So the probe reports the
    share of eigenvalues below minus a resolution, the resolution itself, and the bounds of
    Chebyshev, Markov and Stieltjes. The tail is fitted in the range that the steps resolve, in at
    least six bins over one decade; an exponential fit is given for comparison.

    For sequences with a loss at every position, the mean is over positions and errors are over
    sequences; beyond 1,000 positions x classes the trace of G uses labels that the network samples.

    `parameters` names modules, whose diagonal blocks have a trace, leading eigenvalues and a
    density each. All modules together take as many products as the whole, so each has fewer Lanczos
    steps than it; what couples modules is in no block.

    For regression, `per_class` counts all samples. A loss of one's own must be convex in the
    outputs for $G$, which is checked on the samples.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR
    2020, figures 3, 4, 14, 16 and 17. Log densities are densities in the logarithm: the factor
    1/theta printed there is left out.
    """

    name = "hessian-spectrum"
    example = (
        "penchant probe hessian-spectrum -a 'mlp:widths=[32],normalization=batch' "
        "-d digits:per_class=30"
    )
    question = (
        "Where do the outliers, the bulk and the negative eigenvalues of the Hessian come from?"
    )
    target = "penchant_class_structure.hessian_spectrum.probe:run"
    figures = "penchant_class_structure.hessian_spectrum.figures:draw"
    needs = ("architecture", "dataset", "second-derivatives")
    takes = ("fresh", "trained")
    accepts = ("sequences",)
    quantities = _also_on_test(_QUANTITIES)
    arrays = _also_on_test(_ARRAYS)
    tables = {
        "trace-by-module[split, matrix, module]": "trace of each module's diagonal block; modules "
        "that hold every parameter once add up to the whole",
        "top-eigenvalues-by-module[split, matrix, module, rank]": "leading eigenvalues of the "
        "block, descending; with products they are lower bounds",
        "density-by-module[split, matrix, module, eigenvalue]": "of the block's eigenvalues",
    }
    card = penchant.Card(
        40,
        ("trace-hessian", "largest", "negative-mass"),
        {
            "split": "train",
            "per_class": 10,
            "matrices": ("hessian",),
            "lanczos_steps": 32,
            "leading": 10,
        },
        family="curvature",
    )
    presets = {
        "quick": {"lanczos_steps": 150, "starts": 3, "training": QUICK},
        "fig-3": {
            "matrices": ("hessian",),
            "lanczos_steps": 128,
            "starts": 1,
            "method": "subspace",
            "training": RECIPE,
        },
        "fig-4": {
            "split": "train",
            "per_class": 5000,
            "lanczos_steps": 256,
            "starts": 1,
            "method": "subspace",
            "training": RECIPE,
        },
        "fig-14": {
            "matrices": ("hessian",),
            "lanczos_steps": 128,
            "starts": 1,
            "deflate": False,
            "training": RECIPE,
        },
        "fig-16": {
            "split": "test",
            "matrices": ("residual",),
            "lanczos_steps": 2048,
            "starts": 1,
            "training": RECIPE,
        },
        "fig-17": {
            "split": "train",
            "matrices": ("hessian",),
            "undeflated": True,
            "lanczos_steps": 128,
            "starts": 1,
            "method": "subspace",
            "training": RECIPE,
        },
    }

    split: str = penchant.option(
        "both", "samples to use; both: train and test", choices=("train", "test", "both")
    )
    per_class: int | None = penchant.option(None, PER_CLASS, at_least=1)
    classes: int | None = penchant.option(None, CLASSES, at_least=2)
    matrices: tuple[str, ...] = penchant.option(
        MATRICES, "matrices to measure; the cost of each is the same", choices=MATRICES
    )
    loss: str = penchant.option(
        "training",
        f"{LOSS}, squared-error where labels are numbers; cross-entropy, squared-error, "
        "binary-cross-entropy or module:function",
    )
    deflate: bool = penchant.option(
        True, "compute leading eigenvalues one by one and give them their exact mass"
    )
    undeflated: bool = penchant.option(
        False, "also compute the density of the Hessian without deflation (figure 17)"
    )
    leading: int | None = penchant.option(
        None, "number of leading eigenvalues; None: one per class, at most 20", at_least=1
    )
    method: str = penchant.option(
        "lanczos",
        "method for leading eigenvalues; subspace: the iteration of the paper",
        choices=("lanczos", "subspace"),
    )
    iterations: int = penchant.option(
        128, "iterations at most: of the subspace, or tens of products of Lanczos", at_least=1
    )
    lanczos_steps: int = penchant.option(128, "Lanczos steps M of a density", at_least=2)
    starts: int = penchant.option(2, STARTS, at_least=1)
    grid_points: int = penchant.option(1024, "points K of a density", at_least=16)
    kappa: float = penchant.option(3.0, KAPPA, above=1)
    epsilon: float = penchant.option(1e-5, "added to |eigenvalue| before the logarithm", above=0)
    trace_samples: int = penchant.option(32, "random vectors of an estimated trace", at_least=2)
    exact_limit: int = penchant.option(
        1024, "number of parameters up to which all eigenvalues are computed exactly", at_least=0
    )
    devices: int = penchant.option(1, DEVICES, at_least=1)
    parameters: tuple[str, ...] = penchant.option((), PARAMETERS)
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
