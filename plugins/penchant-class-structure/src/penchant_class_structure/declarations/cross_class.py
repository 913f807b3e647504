"""The components of the Gauss-Newton matrix, as data."""

import attrs
import penchant

from penchant_class_structure.declarations.recipes import (
    BATCH_NORM,
    CIFAR,
    CLASSES,
    DEVICES,
    KAPPA,
    LOSS,
    PARAMETERS,
    PER_CLASS,
    QUICK,
    RECIPE,
    SIZES,
    STARTS,
)


@attrs.frozen
class CrossClass(penchant.Probe):
    r"""Class and cross-class components of the Gauss-Newton matrix, and their eigenvalues.

    The Gauss-Newton matrix $G$ is a weighted second moment of the gradients that each example would
    have with each label. Means over the examples of a class, and over the labels, define its
    components, $G = G_\text{class} + G_\text{cross} + G_\text{within} + G_{c=c'}$. Removing a
    component (a knockout) shows which eigenvalues it causes. The null uses means of permuted
    classes. For ratios to the bulk it uses untrained networks, because clustered data raise these
    ratios before training. Spectra are exact for few samples x classes, else they come from Lanczos
    in sample space. Classes may be unbalanced.

    `parameters` names modules, whose diagonal blocks have traces of all components, leading
    eigenvalues and a density each.

    All numbers are for this network on these samples. The standard error reflects resampling within
    classes (first order). Counts have none. If G is only available through matrix-vector products,
    the traces of components have none either.

    Reference: Papyan, JMLR 2020, section 6, figures 5 and 6. G_cross is taken around g_c (the paper
    prints g_c' once).
    """

    name = "cross-class"
    example = (
        "penchant probe cross-class -a 'mlp:widths=[64,64],normalization=batch' "
        "-d digits:per_class=20"
    )
    question = "Do class means cause the largest eigenvalues of the curvature?"
    target = "penchant_class_structure.cross_class.probe:run"
    figures = "penchant_class_structure.cross_class.figures:draw"
    needs = ("architecture", "dataset", "classes")
    takes = ("fresh", "trained")
    quantities = {
        "trace-total": "trace of G",
        "trace-class": "trace of G_class, of these samples; null: permuted classes",
        "trace-cross": "trace of G_cross, of these samples; null: permuted classes",
        "trace-within": "trace of G_within, of these samples; null: permuted classes",
        "trace-diagonal": "trace of G_{c=c'}, of these samples; null: permuted classes",
        "outliers": "eigenvalues of these samples' G in front of the largest gap, searched after 2 "
        "to 2 C of them; C are expected",
        "gap": "ratio of the eigenvalues on its two sides",
        "gap-margin": "that ratio over the next largest in the window",
        "outliers-runner-up": "eigenvalues of these samples' G in front of that next largest gap; "
        "an alternative to outliers if the margin is near 1",
        "outliers-cross": "eigenvalues of these samples' G in front of the largest gap after "
        "2 C + 1 to 2 C^2 of them; C (C - 1) are expected",
        "outliers-cross-gap": "ratio of the eigenvalues of these samples on its two sides",
        "outliers-to-bulk": "mean eigenvalue of G_class over Tr G_within, of these samples; null: "
        "untrained networks",
        "mini-bulk-to-bulk": "mean eigenvalue of G_cross over Tr G_within, of these samples; null: "
        "untrained networks",
        "class-share": "share of the C leading eigenvectors of these samples' G in the span of the "
        "class means; null: means of permuted classes",
        "largest-gauss-newton": "largest eigenvalue of G",
        "largest-without-class": "largest eigenvalue without G_class; null: without the means of "
        "permuted classes",
        "loss": "mean loss on these samples; null: the best constant outputs",
        "{split}-accuracy": "accuracy of the network on these samples",
    }
    headline = penchant.Headline(
        "class-share",
        above="The leading eigenvectors of the curvature lie in the span of the class means "
        "more than for permuted classes, share",
        below="The leading eigenvectors of the curvature lie in the span of the class means "
        "less than for permuted classes, share",
        neither="The leading eigenvectors of the curvature do not lie in the span of the class "
        "means significantly more than for permuted classes, share",
    )
    arrays = {
        "eigenvalues-class": "of G_class (C), descending",
        "eigenvalues-cross": "of G_cross (C (C - 2))",
        "eigenvalues-diagonal": "of G_{c=c'} (C)",
        "eigenvalues-means": "of G_class + G_cross + G_{c=c'} (C (C - 1))",
        "within-average": "Tr G_within,c / n_c, by class (C)",
        "top-eigenvalues": "leading eigenvalues of G (2 C + 1)",
        "top-residuals": "|K y - lambda y| of each, in sample space",
        "spectrum": "all non-zero eigenvalues of G, descending, if exact",
        "density-grid": "log(eigenvalue + epsilon) at which log densities are given",
        "density-total": "of G",
        "density-without-mean": "without the global mean of gradients",
        "density-without-class": "without G_class",
        "density-without-cross": "without G_cross",
        "density-without-diagonal": "without G_{c=c'}",
        "density-without-within": "without G_within",
        "panel-sizes": "training samples of each class, for each panel",
        "panel-samples": "samples used",
        "panel-steps": "optimiser steps",
        "panel-top": "leading eigenvalues of G (panels, C)",
        "panel-means": "eigenvalues of class + cross + diagonal (panels, C (C - 1))",
        "panel-within": "within-average (panels, C)",
        "panel-grid": "log grid of each panel",
        "panel-density": "log density of G of each panel",
    }
    tables = {
        "trace-by-module[component, module]": "traces of each module's diagonal block of G and of "
        "its components; modules that hold every parameter once add up to the whole; null: "
        "permuted classes",
        "top-eigenvalues-by-module[module, rank]": "leading eigenvalues (C) of the block",
        "density-by-module[module, log-eigenvalue]": "of log(eigenvalue + epsilon) of the block",
    }
    card = penchant.Card(
        31,
        ("class-share",),
        {"per_class": 10, "lanczos_steps": 32, "starts": 1, "permutations": 3},
        family="class structure",
    )
    presets = {
        "quick": {"training": QUICK},
        "fig-5": {"per_class": 136, "lanczos_steps": 2048, "starts": 1, "training": CIFAR},
        "fig-6": {
            "lanczos_steps": 2048,
            "starts": 1,
            "fractions": (0.0, 0.02, 0.1, 0.34, 0.67),
            "sizes": SIZES,
            "training": RECIPE,
        },
    }

    split: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(None, PER_CLASS, at_least=1)
    classes: int | None = penchant.option(None, CLASSES, at_least=2)
    loss: str = penchant.option(
        "training",
        f"{LOSS}, which must be cross-entropy; cross-entropy: whatever the training loss",
        choices=("training", "cross-entropy"),
    )
    knockout: str = penchant.option(
        "subtraction",
        "A - B, or A with the range of B projected out",
        choices=("subtraction", "projection"),
    )
    exact_limit: int = penchant.option(
        8192, "samples x classes up to which the spectrum is exact (Gram matrix)", at_least=0
    )
    lanczos_steps: int = penchant.option(256, "Lanczos steps M of a density", at_least=2)
    starts: int = penchant.option(2, STARTS, at_least=1)
    grid_points: int = penchant.option(1024, "points K of a density", at_least=16)
    kappa: float = penchant.option(3.0, KAPPA, above=1)
    epsilon: float = penchant.option(1e-5, "added to eigenvalues before the logarithm", above=0)
    products: int = penchant.option(
        1000, "matrix-vector products to find the leading eigenvalues, at most", at_least=1
    )
    permutations: int = penchant.option(
        5, "permutations of the labels, and untrained networks, of the nulls", at_least=0
    )
    fractions: tuple[float, ...] = penchant.option(
        (), "shares of the training at which to evaluate, besides its end", at_least=0, at_most=1
    )
    sizes: tuple[int, ...] = penchant.option(
        (), "training samples of each class of further trainings", at_least=1
    )
    devices: int = penchant.option(1, f"{DEVICES}; not used for a Gram matrix", at_least=1)
    parameters: tuple[str, ...] = penchant.option((), PARAMETERS)
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
