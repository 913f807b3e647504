"""Probes that measure information, and how well it is measured."""

from __future__ import annotations

import attrs
import penchant

RHOS = (-0.99, -0.9, -0.7, -0.5, -0.3, 0.0, 0.3, 0.5, 0.7, 0.9, 0.99)
SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@attrs.frozen
class MutualInformation(penchant.Probe):
    """Mutual information between two variables: input and label of a dataset, or a layer of a network with declared noise.

    `first` and `second` are `input`, `label` or `layer:NAME`. A layer of a network is a function of the input, so their information
    is infinite unless noise is added: `noise` says how much. With an architecture, `steps` follows the information along its training.
    Several estimators may be given side by side. The null is the estimate for shuffled pairs. Quick: `-d correlated-gaussians`, or
    `-a mlp -d digits -o first=layer:1 -o second=label`.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018.
    """

    name = "mutual-information"
    needs = ("dataset",)
    accepts = ("architecture",)
    roles = {"mutual-information": ("mine", "ksg")}
    target = "penchant_mine.mutual_information:run"
    quantities = {
        "<estimator>": "held-out mutual information at the last step; null: shuffled pairs",
        "<estimator>-train": "the same on the samples that the estimator was trained on",
        "<estimator>-bias": "with calibrate: the estimator's error for normal pairs of as many samples and dimensions",
    }
    arrays = {
        "step": "training steps at which information was measured",
        "information-<estimator>": "held-out value at every step",
        "information-<estimator>-stderr": "its standard error",
        "null-<estimator>": "for shuffled pairs, at every step",
    }
    presets = {"quick": {"samples": 2000, "training": {"epochs": 5, "learning_rate": 0.1}}}

    first: str = penchant.option("input", "first variable: input, label or layer:NAME")
    second: str = penchant.option("label", "second variable: input, label or layer:NAME")
    noise: float = penchant.option(
        0.1,
        "normal noise on a layer, in units of the standard deviation of its activations",
        at_least=0,
    )
    samples: int = penchant.option(0, "pairs used; 0: all", at_least=0)
    part: str = penchant.option("train", "which samples of the dataset", choices=("train", "test"))
    steps: tuple[int, ...] = penchant.option(
        (), "training steps at which to measure; none: the end", at_least=0
    )
    calibrate: bool = penchant.option(
        False,
        "measure each estimator's error for normal pairs with as much information, samples and dimensions",
    )


@attrs.frozen
class InformationBenchmark(penchant.Probe):
    """Estimators of mutual information against the truth: bias, spread, and how often two standard errors cover it.

    Families: `gaussian` (parameter rho), `nonlinear` (x uniform, z = f(x) + sigma e; parameter sigma), `mixture` (one sign, two
    noises; sigma), `student` (degrees of freedom), `discrete` (sign and sign plus noise; sigma), `spiral` (turned normals; rho). Give
    your own `dimension` and `samples`, or a dataset, whose numbers are then used with normal pairs: that is the bias to expect of
    an estimate on it. Equal noise does not mean equal information (f = x, x^3, sin x differ): truth is integrated.
    Quick: no architecture, no dataset.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018, figures 1 and 2 (thesis: 5.1 and 5.2).
    """

    name = "information-benchmark"
    accepts = ("dataset",)
    roles = {"mutual-information": ("mine", "mine-f", "ksg", "gaussian")}
    target = "penchant_mine.information_benchmark:run"
    quantities = {
        "bias-<estimator>": "estimate minus truth, mean over the grid",
        "spread-<estimator>": "standard deviation of estimates over independent samples, mean over the grid",
        "coverage-<estimator>": "how often two standard errors cover the truth; null: 0.954 for normal errors",
        "warned-<estimator>": "share of estimates that came with a warning",
    }
    arrays = {
        "parameter": "the grid: rho, sigma or degrees of freedom",
        "truth": "mutual information in nats",
        "estimate-<estimator>": "mean estimate over independent samples",
        "estimate-<estimator>-stderr": "its standard error over independent samples, at least that which the estimator states",
        "train-<estimator>": "mean value on training samples",
        "error-<estimator>": "what the estimator states as its standard error, mean",
        "warned-<estimator>": "share of estimates that came with a warning",
    }
    presets = {
        "quick": {
            "grid": (0.0, 0.5, 0.9),
            "samples": 2000,
            "repeats": 2,
            "estimators": {"mutual-information": ("mine", "ksg", "gaussian")},
        },
        "fig-5-1": {"grid": RHOS, "dimension": 20, "samples": 100000, "repeats": 5},
        "fig-5-2": {
            "family": "nonlinear",
            "dimension": 2,
            "grid": SIGMAS,
            "samples": 100000,
            "repeats": 5,
        },
    }

    family: str = penchant.option(
        "gaussian",
        "pairs of variables",
        choices=("gaussian", "nonlinear", "mixture", "student", "discrete", "spiral"),
    )
    dimension: int = penchant.option(1, "components of x", at_least=1)
    dimension_z: int = penchant.option(
        0, "components of z, for normal pairs; 0: as many as x", at_least=0
    )
    grid: tuple[float, ...] = penchant.option(RHOS, "values of the family's parameter")
    map: str = penchant.option(
        "identity", "f of the family nonlinear", choices=("identity", "cube", "sine")
    )
    rho: float = penchant.option(0.5, "correlation for the family student", above=-1, below=1)
    turns: float = penchant.option(
        1.0, "half turns a unit of length, for the family spiral", at_least=0
    )
    samples: int = penchant.option(10000, "pairs", at_least=10)
    repeats: int = penchant.option(5, "independent samples", at_least=1)


INFORMATION_PROBES = [MutualInformation, InformationBenchmark]
