"""Class and cross-class structure in the spectra of deep classifiers (Papyan, JMLR 2020)."""

import attrs
import penchant

# Training of the paper: rates are tried on a logarithmic scale, the one with the smallest final test error is kept.
_RATES = tuple(round(0.25 * (1e-4 / 0.25) ** (number / 99), 8) for number in range(100))
RECIPE = {
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "batch": 128,
    "schedule": "thirds",
    "epochs": 200,
    "learning_rates": _RATES,
}
CIFAR = {**RECIPE, "epochs": 350}
PERCEPTRON = {
    **CIFAR,
    "learning_rates": tuple(
        round(0.25 * (1e-4 / 0.25) ** (number / 24), 8) for number in range(25)
    ),
}

# The same on a small scale, with one rate.
QUICK = {
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "batch": 128,
    "schedule": "thirds",
    "epochs": 60,
    "learning_rate": 0.05,
}
SIZES = (
    10,
    14,
    19,
    27,
    37,
    51,
    71,
    99,
    136,
    189,
    262,
    363,
    504,
    699,
    968,
    1343,
    1863,
    2583,
    3581,
    4966,
)  # 20, log-spaced

_BATCH_NORM = (
    "statistics of batch-norm: those of the training, or of one pass over the training samples"
)
_PER_CLASS = "samples of each class that are looked at, the first in order; nothing: all"


@attrs.frozen
class HessianSpectrum(penchant.Probe):
    """Spectra of the Hessian and of its parts: Hess = G + E, on training and test samples.

    G is the Gauss-Newton matrix (true Fisher), E = Hess - G. Leading eigenvalues are found one by one and their mass in the density is
    exact; the rest comes from Lanczos. Eigenvalues are exact where the network has few parameters. The tail of E is fitted with a
    power law; beside it the same fit of a semicircle. Names are of the training samples, those of test samples begin with `test-`.
    Quick: `-a mlp:widths=[32],normalization=batch -d digits:per_class=30`.

    Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020, figures 3, 4, 14, 16 and 17. Log
    densities are densities in the logarithm: the factor 1/theta printed there is left out.
    """

    name = "hessian-spectrum"
    needs = ("architecture", "dataset")
    target = "penchant_class_structure.hessian_spectrum:run"
    quantities = {
        "trace-hessian": "trace of the Hessian of the mean loss",
        "trace-gauss-newton": "trace of G",
        "largest": "largest eigenvalue of the Hessian",
        "largest-gauss-newton": "largest eigenvalue of G",
        "negative-mass": "share of negative eigenvalues of the Hessian",
        "tail-exponent": "slope of log density against log |eigenvalue| of E; null: a semicircle of the same range",
        "tail-fit": "R squared of that line",
        "loss": "mean loss",
        "test-<quantity>": "the same on test samples",
    }
    arrays = {
        "density-grid": "eigenvalues at which densities are given",
        "density-hessian": "of the Hessian's eigenvalues",
        "density-gauss-newton": "of G's",
        "density-residual": "of E's, E = Hess - G",
        "top-eigenvalues": "leading eigenvalues of the Hessian, descending",
        "top-residuals": "|Hess x - lambda x| of each",
        "top-eigenvalues-gauss-newton": "leading eigenvalues of G, descending",
        "top-residuals-gauss-newton": "|G x - lambda x| of each",
        "log-grid": "log(|eigenvalue| + epsilon) at which the log density of E is given",
        "log-density-residual": "of E, in the logarithm of |eigenvalue|",
        "tail-grid": "log |eigenvalue| in the middle of the bins that the power law is fitted to",
        "tail-density": "density of |eigenvalue| of E in these bins",
        "tail-line": "slope and intercept of the line through their logarithms",
        "bulk-grid": "eigenvalues in the range of E",
        "bulk-density-hessian": "of the Hessian there",
        "bulk-density-gauss-newton": "of G there",
        "bulk-density-residual": "of E there",
        "test-<array>": "the same on test samples",
    }
    presets = {
        "quick": {"steps": 48, "starts": 3, "training": QUICK},
        "fig-3": {"steps": 128, "starts": 1, "method": "subspace", "training": RECIPE},
        "fig-4": {
            "per_class": 5000,
            "steps": 256,
            "starts": 1,
            "method": "subspace",
            "training": RECIPE,
        },
        "fig-14": {"steps": 128, "starts": 1, "deflate": False, "training": RECIPE},
        "fig-16": {"samples": "test", "steps": 256, "starts": 1, "training": RECIPE},
        "fig-17": {
            "samples": "train",
            "steps": 128,
            "starts": 1,
            "method": "subspace",
            "training": RECIPE,
        },
    }

    samples: str = penchant.option(
        "both", "which samples; both: those of the test besides", choices=("train", "test", "both")
    )
    per_class: int | None = penchant.option(None, _PER_CLASS, at_least=1)
    deflate: bool = penchant.option(
        True, "find leading eigenvalues one by one and give them their exact mass"
    )
    leading: int | None = penchant.option(
        None, "how many of them; nothing: one for each class", at_least=1
    )
    method: str = penchant.option(
        "lanczos",
        "how they are found; subspace: the paper's iteration",
        choices=("lanczos", "subspace"),
    )
    iterations: int = penchant.option(
        128, "iterations at most: of the subspace, or tens of products of Lanczos", at_least=1
    )
    steps: int = penchant.option(128, "Lanczos steps M of a density", at_least=2)
    starts: int = penchant.option(2, "random start vectors; one has no standard error", at_least=1)
    points: int = penchant.option(1024, "points K of a density", at_least=16)
    kappa: float = penchant.option(
        3.0,
        "kappa of the width of a bump, 2 / ((M - 1) sqrt(8 ln kappa)) of half the range",
        above=1,
    )
    epsilon: float = penchant.option(1e-5, "added to |eigenvalue| before the logarithm", above=0)
    tail_low: float = penchant.option(
        0.01,
        "the power law is fitted from this share of the largest |eigenvalue| of E",
        above=0,
        below=1,
    )
    tail_high: float = penchant.option(0.5, "to this share", above=0, at_most=1)
    trace_samples: int = penchant.option(32, "random vectors of an estimated trace", at_least=2)
    exact_limit: int = penchant.option(
        1024, "parameters up to which matrices are made and all eigenvalues computed", at_least=0
    )
    batch_norm: str = penchant.option("running", _BATCH_NORM, choices=("running", "calibrated"))


@attrs.frozen
class CrossClass(penchant.Probe):
    """Class and cross-class structure of the Gauss-Newton matrix: G = G_class + G_cross + G_within + G_{c=c'}.

    G is a weighted second moment of the gradients that each example would have with each label; means over the examples of a class
    (and over the labels) make its components. Knockouts tell which component makes which eigenvalues; the null are means of
    permuted classes. Exact where samples x classes are few, else by Lanczos in sample space. Classes may be unbalanced. Quick:
    `-a mlp:widths=[64,64],normalization=batch -d digits:per_class=20`.

    Reference: Papyan, JMLR 2020, section 6, figures 5 and 6. G_cross is taken around g_c (the paper prints g_c' once).
    """

    name = "cross-class"
    needs = ("architecture", "dataset")
    target = "penchant_class_structure.cross_class:run"
    quantities = {
        "trace-total": "trace of G",
        "trace-class": "trace of G_class",
        "trace-cross": "trace of G_cross",
        "trace-within": "trace of G_within",
        "trace-diagonal": "trace of G_{c=c'}",
        "outliers": "eigenvalues in front of the largest gap, searched after 2 to 2 C of them; C are expected",
        "gap": "ratio of the eigenvalues on its two sides",
        "gap-margin": "that ratio over the next largest in the window",
        "outliers-cross": "eigenvalues in front of the largest gap after 2 C + 1 to 2 C^2 of them; C (C - 1) are expected",
        "outliers-cross-gap": "ratio of the eigenvalues on its two sides",
        "outliers-to-bulk": "mean eigenvalue of G_class over the mean of within-average",
        "mini-bulk-to-bulk": "mean eigenvalue of G_cross over the mean of within-average",
        "class-share": "share of the C leading eigenvectors of G in the span of the class means; null: means of permuted classes",
        "largest": "largest eigenvalue of G",
        "largest-without-class": "largest eigenvalue without G_class; null: without the means of permuted classes",
        "loss": "mean loss on these samples",
        "accuracy": "on these samples",
    }
    arrays = {
        "eigenvalues-class": "of G_class (C), descending",
        "eigenvalues-cross": "of G_cross (C (C - 2))",
        "eigenvalues-diagonal": "of G_{c=c'} (C)",
        "eigenvalues-means": "of G_class + G_cross + G_{c=c'} (C (C - 1))",
        "within-average": "Tr G_within,c / n_c, by class (C)",
        "top-eigenvalues": "leading eigenvalues of G (2 C + 1)",
        "top-residuals": "|K y - lambda y| of each, in sample space; zero where all pairs were computed",
        "spectrum": "all non-zero eigenvalues of G, descending, where exact",
        "density-grid": "log(eigenvalue + epsilon) at which log densities are given",
        "density-total": "of G",
        "density-without-mean": "without the global mean of gradients",
        "density-without-class": "without G_class",
        "density-without-cross": "without G_cross",
        "density-without-within": "without G_within",
        "panel-size": "training samples of each class, for each panel; 0: all",
        "panel-samples": "samples looked at",
        "panel-step": "optimiser step",
        "panel-top": "leading eigenvalues of G (panels, C)",
        "panel-means": "eigenvalues of class + cross + diagonal (panels, C (C - 1))",
        "panel-within": "within-average (panels, C)",
        "panel-grid": "log grid of each panel",
        "panel-density": "log density of G of each panel",
    }
    presets = {
        "quick": {"training": QUICK},
        "fig-5": {"per_class": 136, "steps": 2048, "starts": 1, "training": CIFAR},
        "fig-6": {
            "steps": 2048,
            "starts": 1,
            "fractions": (0.0, 0.02, 0.1, 0.34, 0.67),
            "sizes": SIZES,
            "training": RECIPE,
        },
    }

    samples: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(None, _PER_CLASS, at_least=1)
    knockout: str = penchant.option(
        "subtraction",
        "A - B, or A with the range of B taken out",
        choices=("subtraction", "projection"),
    )
    exact_limit: int = penchant.option(
        8192,
        "samples x classes up to which the Gram matrix is made and the spectrum is exact",
        at_least=0,
    )
    steps: int = penchant.option(256, "Lanczos steps M of a density", at_least=2)
    starts: int = penchant.option(2, "random start vectors; one has no standard error", at_least=1)
    points: int = penchant.option(1024, "points K of a density", at_least=16)
    kappa: float = penchant.option(
        3.0,
        "kappa of the width of a bump, 2 / ((M - 1) sqrt(8 ln kappa)) of half the range",
        above=1,
    )
    epsilon: float = penchant.option(1e-5, "added to eigenvalues before the logarithm", above=0)
    products: int = penchant.option(
        1000, "products of the search for leading eigenvalues, at most", at_least=1
    )
    permutations: int = penchant.option(5, "permutations of the labels for the null", at_least=0)
    fractions: tuple[float, ...] = penchant.option(
        (), "shares of the training at which to look besides its end", at_least=0, at_most=1
    )
    sizes: tuple[int, ...] = penchant.option(
        (), "training samples of each class of further trainings", at_least=1
    )
    batch_norm: str = penchant.option("running", _BATCH_NORM, choices=("running", "calibrated"))


@attrs.frozen
class LayerStructure(penchant.Probe):
    """Class structure layer by layer: what a layer is given (features), its backpropagated errors, and its weights.

    Eigenvalues of each second moment, of its class (and cross-class) part, and of what projection knockouts leave; how far
    the class part stands out (separation) and how equal its eigenvalues are (whitening), with depth. Linear layers, and convolutions with
    every position a sample. Null: permuted classes. Quick:
    `-a mlp:widths=[128,128,128],normalization=batch -d digits:per_class=100`.

    Reference: Papyan, JMLR 2020, section 7, figures 7 to 10 and 13.
    """

    name = "layer-structure"
    needs = ("architecture", "dataset")
    target = "penchant_class_structure.layer_structure:run"
    quantities = {
        "separation-features": "last layer: smallest eigenvalue of the class part over the largest left by its knockout",
        "separation-errors": "the same of backpropagated errors",
        "whitening-features": "last layer: second largest over smallest eigenvalue of the class part",
        "whitening-errors": "the same of backpropagated errors",
        "separated-layers-features": "layers whose separation is above 1",
        "separated-layers-errors": "layers whose separation is above 1",
        "stationarity": "largest relative difference of W and -(1 / weight decay) Ave delta h^T over layers; 0 at a stationary point",
        "loss": "mean loss on these samples",
    }
    arrays = {
        "features": "eigenvalues of Ave h h^T, a row for each layer, descending, filled up with zeros",
        "features-class": "of its class part (layers, C)",
        "features-without-class": "with the class means projected out",
        "features-without-mean": "with the global mean projected out",
        "errors": "eigenvalues of the weighted second moment of backpropagated errors",
        "errors-class": "of its class part (layers, C)",
        "errors-means": "of its class and cross-class parts together (layers, C (C - 1))",
        "errors-without-class": "with the class means projected out",
        "errors-without-class-cross": "with class and cross-class means projected out",
        "errors-without-mean": "with the global mean projected out",
        "weights": "singular values of the weights",
        "weights-class": "of -(1 / weight decay) Ave_c delta_c h_c^T (layers, C); without weight decay without that factor",
        "weights-without-class": "with the class part's singular vectors projected out on both sides",
        "separation-features-by-layer": "smallest eigenvalue of the class part over the largest left by its knockout",
        "separation-errors-by-layer": "the same of backpropagated errors",
        "separation-features-null": "the same for permuted classes, mean over permutations",
        "separation-errors-null": "the same for permuted classes, mean over permutations",
        "whitening-features-by-layer": "second largest over smallest eigenvalue of the class part; missing where that is zero",
        "whitening-errors-by-layer": "the same of backpropagated errors",
        "stationarity-by-layer": "relative difference of W and -(1 / weight decay) Ave delta h^T",
    }
    presets = {
        "quick": {"count": 100, "weights_count": 64, "training": QUICK},
        "fig-7": {"count": 750, "training": PERCEPTRON},
        "fig-8": {"count": 750, "training": PERCEPTRON},
        "fig-9": {"count": 750, "training": PERCEPTRON},
        "fig-10": {"count": 750, "training": PERCEPTRON},
        "fig-13": {"weights_count": 150, "training": PERCEPTRON},
    }

    samples: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(None, _PER_CLASS, at_least=1)
    count: int = penchant.option(
        750, "eigenvalues of features and errors that are kept", at_least=2
    )
    weights_count: int = penchant.option(
        150, "singular values of weights that are kept", at_least=2
    )
    largest: int = penchant.option(
        8192,
        "inputs or outputs of a layer at most; larger layers are left out, with a warning",
        at_least=1,
    )
    permutations: int = penchant.option(3, "permutations of the labels for the null", at_least=0)
    batch_norm: str = penchant.option("running", _BATCH_NORM, choices=("running", "calibrated"))


@attrs.frozen
class LogisticTheory(penchant.Probe):
    """Multinomial logistic regression on a Gaussian mixture: the spectrum of G in closed form against measurement.

    With x = t e_c + N(0, I) and probabilities 1 - a of the right class, a / (C - 1) of every other, the expected G has C outliers, a
    mini-bulk of C (C - 2), a bulk, and zeros. Measured is the trace of the sample's G on each of these eigenspaces over its
    dimension: with the probabilities set so, and of a trained classifier, whose a is its mean error probability; also how a, the
    test error and the ratio of outliers to bulk change with t. Needs no architecture: `penchant probe logistic-theory`.

    Reference: Papyan, JMLR 2020, theorem 8.1.
    """

    name = "logistic-theory"
    needs = ("training",)
    uses = ("gaussian-mixture",)
    target = "penchant_class_structure.logistic_theory:run"
    quantities = {
        "largest-deviation": "largest |z| of the measured means against theory, probabilities set",
        "critical-deviation": "two-sided 1 % point of the largest |z| of three",
        "error-probability": "mean error probability a of the trained classifier",
        "test-error": "of the trained classifier",
        "trained-difference": "largest relative difference of the trained classifier to theory with its own a",
        "outliers-to-bulk": "of the trained classifier",
    }
    arrays = {
        "multiplicity": "of the outliers, mini-bulk, bulk and zeros",
        "theory": "eigenvalue of each",
        "measured": "trace on each eigenspace over its dimension, probabilities set to 1 - a and a / (C - 1)",
        "trained": "the same of a trained classifier",
        "trained-theory": "theory with that classifier's a",
        "spectrum": "eigenvalues of the sample's G, probabilities set, descending",
        "trained-spectrum": "of the trained classifier",
        "separations": "lengths t of the sweep",
        "sweep-error-probability": "a of classifiers trained at each t",
        "sweep-test-error": "their test error",
        "sweep-ratio": "their ratio of outliers to bulk, measured",
        "sweep-ratio-theory": "by theory with their own a",
    }
    presets = {
        "quick": {"training": {"epochs": 10, "learning_rate": 0.1}},
        "theorem-8-1": {
            "train": 100000,
            "test": 100000,
            "training": {"epochs": 50, "learning_rate": 0.1, "schedule": "thirds"},
        },
    }

    classes: int = penchant.option(4, "classes C", at_least=3)
    dimension: int = penchant.option(12, "inputs D, more than classes", at_least=4)
    separation: float = penchant.option(2.0, "length t of the class means", above=0)
    alpha: float = penchant.option(
        0.2, "error probability a of the probabilities that are set", above=0, below=1
    )
    train: int = penchant.option(20000, "training samples", at_least=10)
    test: int = penchant.option(20000, "test samples", at_least=10)
    separations: tuple[float, ...] = penchant.option(
        (1.0, 2.0, 3.0, 4.0), "lengths t of the sweep", above=0
    )

    def __attrs_post_init__(self) -> None:
        if self.dimension <= self.classes:
            raise penchant.Error(
                f"dimension must be more than the number of classes, {self.classes}, found {self.dimension}"
            )
        if self.alpha > 1 - 1 / self.classes:
            raise penchant.Error(
                f"alpha must be at most 1 - 1 / classes = {1 - 1 / self.classes:.4g}, found {self.alpha}"
            )


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [HessianSpectrum, CrossClass, LayerStructure, LogisticTheory]
