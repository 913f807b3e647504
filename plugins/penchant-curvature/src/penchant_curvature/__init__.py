"""Curvature layer by layer: Gauss-Newton, its proxies, and how well they agree (Papyan, JMLR 2020, sections 7.10 to 7.12)."""

from __future__ import annotations

import attrs
import penchant

# Training of the paper; its rates are 25 between these, the one with the smallest test error is kept.
RECIPE = {"batch": 128, "momentum": 0.9, "weight_decay": 5e-4, "schedule": "thirds"}
RATES = tuple(float(f"{1e-4 * 2500 ** (number / 24):.4g}") for number in range(25))
PAPER = {**RECIPE, "epochs": 350, "learning_rates": RATES}

# Batch-norm has no Kronecker factors: compared are the layers that have.
ACCEPTING = [
    {"name": "ggn"},
    {"name": "kfac", "uncovered": "accept"},
    {"name": "cfac", "uncovered": "accept"},
    {"name": "empirical-fisher"},
]
WEIGHTS = [{**each, "bias": False} for each in ACCEPTING[:3]]

_BLOCKS = "layers: one operator a layer; all: one over all layers (Khatri-Rao), named all"


@attrs.frozen
class _Curvature(penchant.Estimator):
    """What all curvatures share."""

    role = "curvature"

    loss: str = penchant.option(
        "training",
        "whose curvature; training: the loss trained with",
        choices=("training", "cross-entropy", "squared-error"),
    )
    blocks: str = penchant.option("layers", _BLOCKS, choices=("layers", "all"))
    bias: bool = penchant.option(
        True, "biases of linear layers and convolutions, with their weights; else they are left out"
    )
    batch: int | None = penchant.option(None, "samples a pass; nothing: by device", at_least=1)


@attrs.frozen
class _Factored(_Curvature):
    """What Kronecker-factored curvatures share."""

    uncovered: str = penchant.option(
        "refuse",
        "layers that are neither linear nor convolutions: refuse, or accept that they are left out",
        choices=("refuse", "accept"),
    )


@attrs.frozen
class GaussNewton(_Curvature):
    """The Gauss-Newton matrix of every layer, exactly; for softmax cross-entropy the true Fisher information.

    Held as V V^T with a column for every sample and class that is an outer product itself, so that neither the matrix nor V is formed.
    Every parameter is represented. Eigenvalues come from V^T V.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020.
    """

    name = "ggn"
    target = "penchant_curvature.estimators:ggn"


@attrs.frozen
class Kfac(_Factored):
    """Kronecker-factored curvature H x Delta: second moments of inputs and of errors, as if independent.

    Errors are weighted by the network's probabilities (no sampled labels) and convolutions are expanded over positions. Exact for one
    sample, for equal inputs, and for deep linear networks with squared error.

    Reference: Martens and Grosse, ICML 2015; Grosse and Martens, ICML 2016; Papyan, JMLR 2020, definition 7.1.
    """

    name = "kfac"
    target = "penchant_curvature.estimators:kfac"


@attrs.frozen
class Cfac(_Factored):
    """Class-distinct factorised curvature Ave_c H_c x Delta_c: inputs and errors as if independent in each class.

    Unbalanced classes weigh what they hold. Exact with one sample a class.

    Reference: Papyan, JMLR 2020, definition 7.2.
    """

    name = "cfac"
    target = "penchant_curvature.estimators:cfac"


@attrs.frozen
class EmpiricalFisher(_Curvature):
    """Second moment of the gradients of the loss at the labels, exactly: not the Fisher information.

    Every parameter is represented; held as V V^T with a column for every sample.

    Reference: Kunstner, Balles and Hennig, Limitations of the empirical Fisher approximation, NeurIPS 2019.
    """

    name = "empirical-fisher"
    target = "penchant_curvature.estimators:empirical_fisher"


@attrs.frozen
class CurvatureProxies(penchant.Probe):
    """How well proxies stand for the Gauss-Newton matrix of each layer: KFAC, CFAC, the empirical Fisher.

    Relative Frobenius error, trace, overlap of the first C eigenvectors, leading eigenvalues and spectra on one grid, all from factors and
    Gram matrices of samples x classes rows. CFAC has a null: classes permuted, because any groups bring a proxy nearer. Beside it whether
    class means of gradients are products of means of features and errors, with the features of other classes as null. Exact for the given
    samples and network, so there are no standard errors but those of permutations and of Lanczos. Where a few uncertain samples carry
    most of the curvature (a warning says so), CFAC's norm is too large and its error may exceed KFAC's; the alignment, which no factor
    changes, tells. Quick: `-a mlp:widths=[64,64,64],normalization=batch -d digits`.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020, figures 11 and 12. How many samples
    these used is not said there: 80 a class, as many as an exact spectrum allows. Delta of KFAC is a weighted sum, without another 1/(NC).
    """

    name = "curvature-proxies"
    needs = ("architecture", "dataset")
    roles = {"curvature": ("ggn", "kfac", "cfac", "empirical-fisher")}
    target = "penchant_curvature.curvature_proxies:run"
    quantities = {
        "last-error-<proxy>": "relative error in the last layer; null: classes permuted",
        "mean-error-<proxy>": "mean of the relative error over layers",
        "cfac-better": "share of layers in which CFAC's error is below KFAC's",
        "cosine-class": "cos(g_c, h_c x delta_c) over all layers, mean over classes; null: features of another class",
        "cosine-cross": "cos(g_cc', h_c x delta_cc') over all layers, mean over c != c'; null: features of another class",
        "effective-samples": "how many samples carry the curvature: (sum w)^2 / sum w^2 of w = 1 - sum p^2",
        "covered": "share of the network's parameters that KFAC and CFAC represent",
    }
    arrays = {
        "layer-parameters": "how many each layer has; layers are named in the conventions",
        "layer-error-<proxy>": "|proxy - exact| / |exact|, Frobenius, by layer",
        "layer-error-kfac": "the same for KFAC",
        "layer-error-cfac": "the same for CFAC",
        "layer-error-<proxy>-null": "with labels permuted, mean over permutations",
        "layer-alignment-<proxy>": "Tr(proxy exact) / (|proxy| |exact|): 1 for multiples of the exact matrix",
        "layer-trace-exact": "trace of the Gauss-Newton matrix by layer",
        "layer-trace-<proxy>": "trace of the proxy by layer",
        "layer-trace-kfac": "the same for KFAC",
        "layer-trace-cfac": "the same for CFAC",
        "layer-overlap-<proxy>": "share of the first C eigenvectors' space that the proxy's contains",
        "layer-overlap-null": "the same for random vectors",
        "layer-shift-<proxy>": "mean distance of the first C eigenvalues from the exact ones, in decades",
        "layer-outliers-<exact or proxy>": "eigenvalues before the largest gap in 2..2C",
        "layer-gap-<exact or proxy>": "ratio of the eigenvalues on both sides of that gap",
        "leading-<exact or proxy>": "leading eigenvalues, (layers, count)",
        "spectrum-grid": "log10(eigenvalue + floor), (layers, points)",
        "spectrum-<exact or proxy>": "density in log10 of the eigenvalue, integrates to 1, (layers, points)",
        "cosine-class": "cos(g_c, h_c x delta_c), (layers, C)",
        "cosine-cross": "cos(g_cc', h_c x delta_cc'), (layers, C, C)",
        "cosine-class-all": "over all layers, (C,)",
        "cosine-cross-all": "over all layers, (C, C)",
        "cosine-<kind>-null": "each of these with the features of another class, mean over these",
    }
    presets = {
        "quick": {
            "per_class": 25,
            "estimators": {"curvature": ACCEPTING},
            "training": {**RECIPE, "epochs": 15, "learning_rate": 0.02},
        },
        "fig-11": {
            "last": 1,
            "per_class": 80,
            "steps": 256,
            "estimators": {"curvature": WEIGHTS},
            "training": PAPER,
        },
        "fig-12": {
            "per_class": 80,
            "steps": 256,
            "estimators": {"curvature": WEIGHTS},
            "training": PAPER,
        },
    }

    part: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(
        25, "samples of each class at most, the first ones; nothing: all", at_least=1
    )
    last: int = penchant.option(0, "only so many layers, the last ones; 0: all", at_least=0)
    leading: int = penchant.option(0, "leading eigenvalues; 0: 2 C + 1", at_least=0)
    permutations: int = penchant.option(3, "permutations of the labels for the null", at_least=0)
    steps: int = penchant.option(
        128, "Lanczos steps where a spectrum is not exact; also sets the width of bumps", at_least=2
    )
    starts: int = penchant.option(2, "start vectors of Lanczos", at_least=1)
    points: int = penchant.option(512, "grid points of the spectra", at_least=16)
    floor: float = penchant.option(
        1e-10,
        "smallest eigenvalue that is told from zero, relative to the largest",
        above=0,
        below=1,
    )


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [CurvatureProxies]


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    return [GaussNewton, Kfac, Cfac, EmpiricalFisher]
