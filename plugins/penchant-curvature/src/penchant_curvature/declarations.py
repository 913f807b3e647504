"""Every component as data; imports penchant and attrs only."""

import attrs
import penchant

# Training of the paper; the rate with the smallest test error of 25 is used.
RECIPE = {"batch": 128, "momentum": 0.9, "weight_decay": 5e-4, "schedule": "thirds"}
RATES = tuple(float(f"{1e-4 * 2500 ** (number / 24):.4g}") for number in range(25))
PAPER = {**RECIPE, "epochs": 350, "learning_rates": RATES}

# Batch-norm has no Kronecker factors: only layers that have them are compared.
ACCEPTING = [
    {"name": "ggn"},
    {"name": "kfac", "uncovered": "accept"},
    {"name": "cfac", "uncovered": "accept"},
    {"name": "empirical-fisher"},
]
WEIGHTS = [{**each, "bias": False} for each in ACCEPTING[:3]]


@attrs.frozen
class Curvature(penchant.Estimator):
    """Options that all curvatures share."""

    role = "curvature"

    loss: str = penchant.option(
        "training",
        "loss whose curvature is measured; training: the training loss",
        choices=("training", "cross-entropy", "squared-error"),
    )
    blocks: str = penchant.option(
        "layers",
        "layers: one operator per layer; all: one over all layers (Khatri-Rao), named all",
        choices=("layers", "all"),
    )
    bias: bool = penchant.option(True, "include the biases of linear layers and convolutions")
    batch: int | None = penchant.option(
        None, "samples per pass; None: depends on the device", at_least=1
    )


@attrs.frozen
class Factored(Curvature):
    """Options that Kronecker-factored curvatures share."""

    uncovered: str = penchant.option(
        "refuse",
        "other layers than linear ones and convolutions: refuse them, or accept and skip them",
        choices=("refuse", "accept"),
    )
    positions: str = penchant.option(
        "expand",
        "positions of a convolution, or tokens; expand: each is a sample (blocks = layers only); "
        "reduce: inputs are averaged and errors summed over them first",
        choices=("expand", "reduce"),
    )


class GaussNewton(Curvature):
    r"""Exact Gauss-Newton matrix of every layer: the true Fisher matrix of softmax cross-entropy.

    It is represented as $V V^\top$ with one column for every sample and class. Each column is an
    outer product, so neither the matrix nor $V$ is formed. Every parameter is represented.
    Eigenvalues come from $V^\top V$.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR
    2020.
    """

    name = "ggn"
    target = "penchant_curvature.estimators.ggn:estimate"


class Kfac(Factored):
    """Kronecker-factored curvature: assumes that inputs and errors are independent.

    Errors are weighted by the network's probabilities (no sampled labels). Convolutions are
    expanded over positions, or reduced. Exact for one sample, for equal inputs, and for deep linear
    networks with squared error.

    Reference: Martens and Grosse, ICML 2015; Grosse and Martens, ICML 2016; Eschenhagen et al.,
    NeurIPS 2023; Papyan, JMLR 2020, definition 7.1.
    """

    name = "kfac"
    target = "penchant_curvature.estimators.kfac:estimate"


class Cfac(Factored):
    r"""Class-distinct factorised curvature: assumes independence within each class.

    The matrix is $\operatorname{Ave}_c H_c \otimes \Delta_c$. Unbalanced classes are weighted by
    their size. It is exact with one sample per class.

    Reference: Papyan, JMLR 2020, definition 7.2.
    """

    name = "cfac"
    target = "penchant_curvature.estimators.cfac:estimate"


class EmpiricalFisher(Curvature):
    r"""Exact second moment of the loss gradients at the labels, which is not the Fisher matrix.

    Every parameter is represented. The matrix is stored as $V V^\top$ with one column per sample.

    Reference: Kunstner, Balles and Hennig, Limitations of the empirical Fisher approximation,
    NeurIPS 2019.
    """

    name = "empirical-fisher"
    target = "penchant_curvature.estimators.empirical_fisher:estimate"


@attrs.frozen
class CurvatureProxies(penchant.Probe):
    """Relative error, trace and spectrum of cheap approximations of the Gauss-Newton matrix.

    For each layer the probe reports the relative Frobenius error, the trace, the overlap of the
    first C eigenvectors, the leading eigenvalues and spectra on one grid, all from factors and Gram
    matrices of samples x classes rows. Any estimator of the role `curvature` can be compared, also
    of other plugins. The null of CFAC uses permuted classes, because any grouping reduces the
    error. The probe also tests whether class means of gradients are products of class means of
    features and errors; the null uses the features of other classes.

    All numbers are exact for the given samples and network; standard errors come from permutations
    and from Lanczos only. If a few uncertain samples carry most of the curvature (a warning
    appears), the norm of CFAC is too large and its error may exceed that of KFAC; the alignment
    does not depend on the norm. If the exact matrix of a layer does not fit into memory, proxies
    are measured without it and comparisons are missing.

    For sequences with a label at every position, `per_class` counts all sequences, CFAC and
    cosines of classes are left out, and errors of proxies have a standard error over sequences;
    beyond 1,000 positions x classes the matrices use labels that the network samples.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR
    2020, figures 11 and 12. The paper does not give the number of samples; here it is 80 per class,
    the most that an exact spectrum allows. Delta of KFAC is a weighted sum, without another 1/(NC).
    """

    name = "curvature-proxies"
    example = "penchant probe curvature-proxies -a 'mlp:widths=[64,64,64]' -d digits"
    question = "How well do KFAC and other approximations describe the curvature of each layer?"
    target = "penchant_curvature.curvature_proxies.probe:run"
    figures = "penchant_curvature.curvature_proxies.figures:draw"
    needs = ("architecture", "dataset", "classes")
    takes = ("fresh", "trained")
    accepts = ("sequences",)
    roles = {"curvature": ("ggn", "kfac", "cfac", "empirical-fisher")}
    quantities = {
        "last-error-{curvature}": "relative error of the proxy in the last layer, on these "
        "samples; null: classes permuted, or zeros",
        "mean-error-{curvature}": "mean of the relative error over layers, on these samples; null: "
        "classes permuted, or zeros",
        "cfac-better": "share of layers in which CFAC's error, on these samples, is below KFAC's; "
        "null: classes permuted",
        "cosine-class": "cos(g_c, h_c x delta_c) of these samples over all layers, mean over "
        "classes; null: features of classes in random order",
        "cosine-cross": "cos(g_cc', h_c x delta_cc') of these samples over all layers, mean over "
        "c != c'; null: features of classes in random order",
        "effective-samples": "effective number of samples that carry the curvature: (sum w)^2 / "
        "sum w^2 "
        "of w = 1 - sum p^2",
        "covered": "share of the network's parameters that KFAC and CFAC represent",
    }
    headline = penchant.Headline(
        "cfac-better",
        above="CFAC is nearer to the Gauss-Newton matrix than KFAC, share of layers",
        below="KFAC is nearer to the Gauss-Newton matrix than CFAC, share of layers",
        neither="No significant difference between KFAC and CFAC, share of layers where CFAC is "
        "nearer",
    )
    tables = {
        "layer-parameters[layer]": "number of parameters per layer",
        "layer-error-{curvature}[layer]": "|proxy - exact| / |exact|, Frobenius; null: labels "
        "permuted, mean over permutations",
        "layer-alignment-{curvature}[layer]": "Tr(proxy exact) / (|proxy| |exact|): 1 for "
        "multiples of the exact matrix",
        "layer-trace-exact[layer]": "trace of the Gauss-Newton matrix",
        "layer-trace-{curvature}[layer]": "trace of the proxy",
        "layer-overlap-{curvature}[layer]": "share of the first C eigenvectors' space that the "
        "proxy's contains",
        "layer-overlap-null[layer]": "the same for random vectors",
        "layer-shift-{curvature}[layer]": "mean distance of the first C eigenvalues from the exact "
        "ones, in decades",
        "layer-outliers-exact[layer]": "eigenvalues of the Gauss-Newton matrix before the largest "
        "gap in 2..2C",
        "layer-outliers-{curvature}[layer]": "the same of the proxy",
        "layer-gap-exact[layer]": "ratio of the eigenvalues on both sides of that gap",
        "layer-gap-{curvature}[layer]": "the same of the proxy",
        "cosine-class[layer, class]": "cos(g_c, h_c x delta_c); null: with the features of another "
        "class, mean over these",
        "cosine-cross[layer, class, other-class]": "cos(g_cc', h_c x delta_cc'); null: with the "
        "features of another class, mean over these",
        "cosine-class-all[class]": "the same over all layers",
        "cosine-cross-all[class, other-class]": "the same over all layers",
    }
    arrays = {
        "leading-exact": "leading eigenvalues of the Gauss-Newton matrix (layers, count)",
        "leading-{curvature}": "the same of the proxy",
        "spectrum-grid": "log10(eigenvalue + floor), (layers, points)",
        "spectrum-exact": "density in log10 of the eigenvalue of the Gauss-Newton matrix, "
        "integrates to 1, (layers, points)",
        "spectrum-{curvature}": "the same of the proxy",
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
        None, "measure only this many layers, the last ones; None: all", at_least=1
    )
    leading: int | None = penchant.option(None, "leading eigenvalues; None: 2 C + 1", at_least=1)
    permutations: int = penchant.option(3, "permutations of the labels for the null", at_least=0)
    lanczos_steps: int = penchant.option(
        128, "Lanczos steps if a spectrum is not exact; also sets the width of bumps", at_least=2
    )
    starts: int = penchant.option(2, "start vectors of Lanczos", at_least=1)
    grid_points: int = penchant.option(512, "grid points of the spectra", at_least=16)
    floor: float = penchant.option(
        1e-10,
        "smallest eigenvalue that counts as non-zero, relative to the largest",
        above=0,
        below=1,
    )
