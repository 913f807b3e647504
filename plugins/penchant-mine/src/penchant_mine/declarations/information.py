"""Probes that measure information, and how well it is measured."""

from typing import Any

import attrs
import penchant

# Grids of figures 5.1 and 5.2.
RHOS = (-0.99, -0.9, -0.7, -0.5, -0.3, 0.0, 0.3, 0.5, 0.7, 0.9, 0.99)
SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MAPS = ("identity", "cube", "sine")
FAMILIES = (
    *("gaussian", "nonlinear", "mixture", "student", "discrete", "spiral"),
    *("uniform", "dense", "sparse", "asinh", "half-cube", "wiggly", "bimodal", "asinh-student"),
)


@attrs.frozen
class MutualInformation(penchant.Probe):
    """Mutual information between two variables: input, label, or a layer with added noise.

    `first` and `second` are `input`, `label` or `layer:NAME`. A layer of a network is a function of
    the input, so their mutual information is infinite unless noise is added (`noise_std`). With an
    architecture, `eval_steps` measures the information during training. Several estimators can be
    compared. The null is the estimate for shuffled pairs. All samples are used unless `samples` is
    set. From a sequence with a label at every position, one random position is taken, so that
    pairs are independent. `x` and `z` are arrays in place of a dataset.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018.

    Another quick form: `-a mlp -d digits -o first=layer:1 -o second=label`.
    """

    name = "mutual-information"
    example = "penchant probe mutual-information -d correlated-gaussians"
    question = "How much information does a layer carry about the input or the label?"
    target = "penchant_mine.mutual_information.probe:run"
    figures = "penchant_mine.mutual_information.figures:draw"
    needs = ("dataset",)
    instead = ("x", "z")
    accepts = ("architecture", "sequences")
    takes = ("fresh", "trained", "trajectory")
    roles = {"mutual-information": ("mine", "ksg")}
    quantities = {
        "{mutual-information}": (
            "held-out mutual information at the last step; null: shuffled pairs"
        ),
        "{mutual-information}-train": (
            "the same on the samples that the estimator was trained on; null: shuffled pairs"
        ),
        "{mutual-information}-bias": (
            "with calibrate: its bias for normal pairs of the same number and dimensions; null: 0"
        ),
    }
    tables = {
        "information-{mutual-information}[step]": "held-out value",
        "null-{mutual-information}[step]": "the same for shuffled pairs",
    }
    arrays = {"steps": "training steps at which information was measured"}
    card = penchant.Card(
        80,
        ("ksg",),
        {
            "first": "layer:{last-layer}",
            "second": "label",
            "samples": 300,
            "estimators": {"mutual-information": ["ksg"]},
        },
        family="information",
    )
    presets = {"quick": {"training": {"epochs": 5, "learning_rate": 0.1}}}

    # Arrays, or which variables, of which samples.
    x: Any = penchant.option(
        None, "first variable (pairs, ...), an array instead of a dataset", array=True
    )
    z: Any = penchant.option(None, "second variable, as x", array=True)
    sample_ids: Any = penchant.option(
        None, "numbers that identify the rows of x and z, by these names", arrays=True
    )
    first: str = penchant.option("input", "first variable: input, label or layer:NAME")
    second: str = penchant.option("label", "second variable: input, label or layer:NAME")
    noise_std: float = penchant.option(
        0.1,
        "standard deviation of normal noise on a layer, in units of that of its activations",
        at_least=0,
    )
    samples: int | None = penchant.option(
        None, "number of pairs, the first ones; None: all", at_least=2
    )
    split: str | None = penchant.option(
        None,
        "samples of the dataset; None: train if a variable is a layer, else both",
        choices=("train", "test", "both"),
    )
    # When to measure during training.
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, "training steps at which to measure; None: the end", at_least=0
    )
    calibrate: bool = penchant.option(
        False,
        "measure the bias of each estimator for normal pairs with the same information, number and "
        "dimensions",
    )


@attrs.frozen
class InformationBenchmark(penchant.Probe):
    """Bias, spread and coverage of estimators of mutual information for pairs with a known value.

    Coverage is how often two standard errors cover the true value. Families: `gaussian` (parameter
    rho), `nonlinear` (x uniform, z = f(x) + sigma e; parameter sigma), `mixture` (one sign, two
    noises; sigma), `student` (degrees of freedom), `discrete` (sign and sign plus noise; sigma),
    `spiral` (turned normals; rho), `uniform` (uniform x plus uniform noise; its width), `dense` and
    `sparse` (normals with all components correlated, or two; rho), `asinh`, `half-cube`, `wiggly`
    and `bimodal` (normals after a map that can be undone; rho), `asinh-student` (degrees of
    freedom). With your own `inputs` and `samples`, or with a dataset (whose numbers are then used
    with normal pairs), the probe measures the bias to expect for an estimate on such data. Equal
    noise does not mean equal information (f = x, x^3, sin x differ); true values are numerical
    integrals.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018, figures 1 and 2
    (thesis: 5.1 and 5.2).
    """

    name = "information-benchmark"
    question = "How far are estimates of mutual information from the true value?"
    target = "penchant_mine.information_benchmark.probe:run"
    figures = "penchant_mine.information_benchmark.figures:draw"
    needs = ("continuous-inputs",)
    accepts = ("dataset",)
    roles = {"mutual-information": ("mine", "mine-f", "ksg", "gaussian")}
    quantities = {
        "bias-{mutual-information}": "estimate minus truth, mean over the grid; null: 0",
        "spread-{mutual-information}": (
            "standard deviation of estimates over independent samples, mean over the grid; null: "
            "their standard errors"
        ),
        "coverage-{mutual-information}": (
            "how often two standard errors cover the truth; null: 0.954 for normal errors"
        ),
        "warned-{mutual-information}": "share of estimates that came with a warning",
    }
    arrays = {
        "parameters": "the grid: rho, sigma or degrees of freedom, once for every map",
        "maps": "number of the map of every value of the grid",
        "truth": "mutual information in nats",
        "estimate-{mutual-information}": (
            "mean estimate over independent samples; its error is at least the stated one"
        ),
        "train-{mutual-information}": "mean value on training samples",
        "error-{mutual-information}": "standard error stated by the estimator, mean",
        "warned-{mutual-information}": "share of estimates that came with a warning",
    }
    presets = {
        "quick": {
            "grid": (0.0, 0.5, 0.9),
            "samples": 2000,
            "repeats": 2,
            "estimators": {"mutual-information": ("mine", "ksg", "gaussian")},
        },
        "fig-5-1": {"grid": RHOS, "inputs": 20, "samples": 100000, "repeats": 5},
        "fig-5-2": {
            "family": "nonlinear",
            "maps": MAPS,
            "inputs": 2,
            "grid": SIGMAS,
            "samples": 100000,
            "repeats": 5,
        },
    }

    # Pairs.
    family: str = penchant.option("gaussian", "pairs of variables", choices=FAMILIES)
    inputs: int = penchant.option(1, "components of x", at_least=1)
    inputs_z: int | None = penchant.option(
        None, "components of z, for normal pairs; None: as many as x", at_least=1
    )
    # Parameters of the family.
    grid: tuple[float, ...] = penchant.option(RHOS, "values of the family's parameter")
    maps: tuple[str, ...] = penchant.option(
        ("identity",), "functions f of the family nonlinear, each with the whole grid", choices=MAPS
    )
    rho: float = penchant.option(
        0.5, "correlation for the families student and asinh-student", above=-1, below=1
    )
    turns: float = penchant.option(
        1.0, "half turns per unit of length, for the family spiral", at_least=0
    )
    # Number of pairs and repeats.
    samples: int = penchant.option(10000, "pairs", at_least=10)
    repeats: int = penchant.option(5, "independent sets of samples", at_least=1)


INFORMATION_PROBES = [MutualInformation, InformationBenchmark]
