"""Every component as data; imports penchant and attrs only."""

from __future__ import annotations

import attrs
import penchant

# Training of the paper; of 25 rates the one with the smallest test error is kept.
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


@attrs.frozen
class Curvature(penchant.Estimator):
    """What all curvatures share."""

    role = "curvature"

    loss: str = penchant.option(
        "training",
        "whose curvature; training: the loss trained with",
        choices=("training", "cross-entropy", "squared-error"),
    )
    blocks: str = penchant.option(
        "layers",
        "layers: one operator a layer; all: one over all layers (Khatri-Rao), named all",
        choices=("layers", "all"),
    )
    bias: bool = penchant.option(
        True, "biases of linear layers and convolutions, with their weights; else they are left out"
    )
    batch: int | None = penchant.option(None, "samples a pass; None: by device", at_least=1)


@attrs.frozen
class Factored(Curvature):
    """What Kronecker-factored curvatures share."""

    uncovered: str = penchant.option(
        "refuse",
        "layers that are neither linear nor convolutions: refuse, or accept that they are left out",
        choices=("refuse", "accept"),
    )
    positions: str = penchant.option(
        "expand",
        "positions of a convolution, or tokens; expand: samples of their own, layer by layer only; "
        "reduce: inputs averaged and errors summed over them first",
        choices=("expand", "reduce"),
    )


class GaussNewton(Curvature):
    """The Gauss-Newton matrix of every layer, exactly: the true Fisher of softmax cross-entropy.

    Held as V V^T with a column for every sample and class that is an outer product itself, so that
    neither the matrix nor V is formed. Every parameter is represented. Eigenvalues come from V^T V.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR
    2020.
    """

    name = "ggn"
    target = "penchant_curvature.estimators.ggn:estimate"


class Kfac(Factored):
    """Kronecker-factored curvature H x Delta: moments of inputs and errors, as if independent.

    Errors are weighted by the network's probabilities (no sampled labels). Convolutions are
    expanded over positions, or reduced. Exact for one sample, for equal inputs, and for deep linear
    networks with squared error.

    Reference: Martens and Grosse, ICML 2015; Grosse and Martens, ICML 2016; Eschenhagen et al.,
    NeurIPS 2023; Papyan, JMLR 2020, definition 7.1.
    """

    name = "kfac"
    target = "penchant_curvature.estimators.kfac:estimate"


class Cfac(Factored):
    """Class-distinct factorised curvature Ave_c H_c x Delta_c: as if independent in each class.

    Unbalanced classes weigh what they hold. Exact with one sample a class.

    Reference: Papyan, JMLR 2020, definition 7.2.
    """

    name = "cfac"
    target = "penchant_curvature.estimators.cfac:estimate"


class EmpiricalFisher(Curvature):
    """Second moment of the gradients of the loss at the labels, exactly: not the Fisher.

    Every parameter is represented; held as V V^T with a column for every sample.

    Reference: Kunstner, Balles and Hennig, Limitations of the empirical Fisher approximation,
    NeurIPS 2019.
    """

    name = "empirical-fisher"
    target = "penchant_curvature.estimators.empirical_fisher:estimate"


@attrs.frozen
class CurvatureProxies(penchant.Probe):
    """How well proxies stand for the Gauss-Newton matrix of each layer: KFAC, CFAC, others.

    Relative Frobenius error, trace, overlap of the first C eigenvectors, leading eigenvalues and
    spectra on one grid, all from factors and Gram matrices of samples x classes rows. Any estimator
    of the role `curvature` can be compared, whoever offers it. CFAC has a null: classes permuted,
    because any groups bring a proxy nearer. Beside it whether class means of gradients are products
    of means of features and errors, with the features of other classes as null.

    All numbers are exact for the given samples and network: standard errors are those of
    permutations and of Lanczos only. Where a few uncertain samples carry most of the curvature (a
    warning says so), CFAC's norm is too large and its error may exceed KFAC's; the alignment, which
    no factor changes, tells. Where the exact matrix of a layer does not fit in memory, proxies are
    measured without it and comparisons are missing.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR
    2020, figures 11 and 12. How many samples these used is not said there: 80 a class, as many as
    an exact spectrum allows. Delta of KFAC is a weighted sum, without another 1/(NC).
    """

    name = "curvature-proxies"
    example = "penchant probe curvature-proxies -a 'mlp:widths=[64,64,64]' -d digits"
    question = "How well do cheap proxies stand for the Gauss-Newton matrix of each layer?"
    target = "penchant_curvature.probes.curvature_proxies:run"
    figures = "penchant_curvature.figures.curvature_proxies:draw"
    needs = ("architecture", "dataset", "classes")
    takes = ("fresh", "trained")
    roles = {"curvature": ("ggn", "kfac", "cfac", "empirical-fisher")}
    quantities = {
        "last-error-{curvature}": "relative error of the proxy in the last layer, on these "
        "samples; null: classes permuted, or zeros",
        "mean-error-{curvature}": "mean of the relative error over layers, on these samples; null: "
        "classes permuted, or zeros",
        "cfac-better": "share of layers in which CFAC's error, on these samples, is below KFAC's; "
        "null: half",
        "cosine-class": "cos(g_c, h_c x delta_c) of these samples over all layers, mean over "
        "classes; null: features of classes in random order",
        "cosine-cross": "cos(g_cc', h_c x delta_cc') of these samples over all layers, mean over "
        "c != c'; null: features of classes in random order",
        "effective-samples": "how many of these samples carry the curvature: (sum w)^2 / sum w^2 "
        "of w = 1 - sum p^2",
        "covered": "share of the network's parameters that KFAC and CFAC represent",
    }
    arrays = {
        "layer-parameters": "how many each layer has",
        "layer-error-{curvature}": "|proxy - exact| / |exact|, Frobenius, by layer",
        "layer-error-{curvature}-null": "with labels permuted, mean over permutations",
        "layer-alignment-{curvature}": "Tr(proxy exact) / (|proxy| |exact|): 1 for multiples of "
        "the exact matrix",
        "layer-trace-exact": "trace of the Gauss-Newton matrix by layer",
        "layer-trace-{curvature}": "trace of the proxy by layer",
        "layer-overlap-{curvature}": "share of the first C eigenvectors' space that the proxy's "
        "contains",
        "layer-overlap-null": "the same for random vectors",
        "layer-shift-{curvature}": "mean distance of the first C eigenvalues from the exact ones, "
        "in decades",
        "layer-outliers-exact": "eigenvalues of the Gauss-Newton matrix before the largest gap in "
        "2..2C",
        "layer-outliers-{curvature}": "the same of the proxy",
        "layer-gap-exact": "ratio of the eigenvalues on both sides of that gap",
        "layer-gap-{curvature}": "the same of the proxy",
        "leading-exact": "leading eigenvalues of the Gauss-Newton matrix (layers, count)",
        "leading-{curvature}": "the same of the proxy",
        "spectrum-grid": "log10(eigenvalue + floor), (layers, points)",
        "spectrum-exact": "density in log10 of the eigenvalue of the Gauss-Newton matrix, "
        "integrates to 1, (layers, points)",
        "spectrum-{curvature}": "the same of the proxy",
        "cosine-class": "cos(g_c, h_c x delta_c), (layers, C)",
        "cosine-cross": "cos(g_cc', h_c x delta_cc'), (layers, C, C)",
        "cosine-class-all": "over all layers, (C,)",
        "cosine-cross-all": "over all layers, (C, C)",
        "cosine-class-null": "with the features of another class, mean over these",
        "cosine-cross-null": "with the features of another class, mean over these",
        "cosine-class-all-null": "with the features of another class, mean over these",
        "cosine-cross-all-null": "with the features of another class, mean over these",
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
            "lanczos_steps": 256,
            "estimators": {"curvature": WEIGHTS},
            "training": PAPER,
        },
        "fig-12": {
            "per_class": 80,
            "lanczos_steps": 256,
            "estimators": {"curvature": WEIGHTS},
            "training": PAPER,
        },
    }

    split: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(
        25, "samples of each class at most, the first ones; None: all", at_least=1
    )
    last: int | None = penchant.option(
        None, "only so many layers, the last ones; None: all", at_least=1
    )
    leading: int | None = penchant.option(None, "leading eigenvalues; None: 2 C + 1", at_least=1)
    permutations: int = penchant.option(3, "permutations of the labels for the null", at_least=0)
    lanczos_steps: int = penchant.option(
        128,
        "Lanczos steps where a spectrum is not exact; also sets the width of bumps",
        at_least=2,
    )
    starts: int = penchant.option(2, "start vectors of Lanczos", at_least=1)
    grid_points: int = penchant.option(512, "grid points of the spectra", at_least=16)
    floor: float = penchant.option(
        1e-10,
        "smallest eigenvalue that is told from zero, relative to the largest",
        above=0,
        below=1,
    )
