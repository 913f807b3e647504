"""Declaration of the probe that compares measures of complexity with the generalisation gap."""

import attrs
import penchant

MEASURES = {
    "complexity": "sum over steps of |update| sqrt(tr K)",
    "spectral-product": "product of the largest singular values of all weights",
    "spectral-stable-rank": "product of spectral norms times the root of the sum of stable ranks",
    "spectral-margin": "minus the margin over spectral-stable-rank, as in the bound of Neyshabur "
    "et al. 2018",
    "path-norm": "root of the sum over paths of products of squared weights",
    "fisher-rao": "root of the mean over samples of (w . grad loss)^2",
    "distance": "distance of the parameters from their initial values",
    "margin": "minus the 10 % quantile of the margin over training samples",
}


@attrs.frozen
class Complexity(penchant.Probe):
    r"""Rank correlation of complexity measures with the gap, over widths and label noise.

    Networks of each width are trained with each share of random labels. The measure of the thesis
    is $\sum_t |\delta w_t| \sqrt{\operatorname{tr} K_t}$, the length of the parameter path in units
    of the change of the outputs. $K_t$ is the tangent kernel on some training samples, computed
    every `eval_every` steps. Other measures depend on the final parameters $w$: the product of
    spectral norms, the same times the root of the sum of stable ranks, that with the margin which
    the bound of Neyshabur et al. 2018 divides it by, the path norm, the Fisher-Rao norm, the
    distance from the initialisation, and the margin. The gap is training minus test accuracy, on
    the labels used for training and on clean ones.

    Only networks trained to the same loss are comparable (`until_loss`): random labels that are not
    fitted give a short path and no gap. The probe warns about trainings that end before.

    The rank correlation is over all settings; each setting is the mean of its trainings. Null:
    permuted settings.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    section 4.2 and figure 6 (thesis: 4.6); Liang et al., "Fisher-Rao Metric, Geometry, and
    Complexity of Neural Networks", 2019; Neyshabur et al., "Exploring Generalization in Deep
    Learning", 2017; Neyshabur, Bhojanapalli and Srebro, "A PAC-Bayesian Approach to
    Spectrally-Normalized Margin Bounds for Neural Networks", ICLR 2018.
    """

    name = "complexity"
    example = (
        "penchant probe complexity -a 'mlp:widths=[64]' -d mnist:per_class=50,test_per_class=100"
    )
    question = "Which measure of complexity predicts the generalisation gap?"
    target = "penchant_tangent.complexity.probe:run"
    figures = "penchant_tangent.complexity.figures:draw"
    # Its widths are options of architectures that take features, not tokens.
    needs = ("architecture", "dataset", "training", "classes", "continuous-inputs")
    quantities = {
        **{
            f"rank-correlation-{name}": f"of the gap with the {about}"
            for name, about in MEASURES.items()
        }
    }
    headline = penchant.Headline(
        "rank-correlation-complexity",
        above="The sum of updates correlates with the generalisation gap, rank correlation",
        below="The sum of updates anticorrelates with the generalisation gap, rank correlation",
        neither="The sum of updates does not correlate significantly with the generalisation gap,"
        " rank correlation",
    )
    tables = {
        "gap[width, share]": "training minus test accuracy",
        "train-accuracy[width, share]": "accuracy on training labels",
        "test-accuracy[width, share]": "accuracy on test labels",
        "error-bound[width, share]": "bound of the error on the labels trained on that follows "
        "from the complexity, (38) with (60); vacuous from 1 on",
        "steps[width, share]": "steps of the training, on average",
        **{f"{name}[width, share]": about for name, about in MEASURES.items()},
    }
    arrays = {"widths": "units of hidden layers", "shares": "shares of random labels"}
    presets = {
        "quick": {
            "widths": (8, 32, 128),
            "noise_shares": (0.0, 0.5),
            "trainings": 2,
            "samples": 50,
            "training": {
                "epochs": 150,
                "batch": 50,
                "learning_rate": 0.05,
                "momentum": 0.9,
                "until_loss": 0.01,
            },
        },
        "fig-4-6": {
            "widths": (16, 32, 64, 128, 256, 512, 1024, 2048),
            "noise_shares": (0.0,),
            "trainings": 5,
            "training": {
                "epochs": 500,
                "batch": 100,
                "learning_rate": 0.01,
                "momentum": 0.9,
                "until_loss": 0.01,
            },
        },
    }

    widths: tuple[int, ...] = penchant.option(
        (16, 64, 256), "units of hidden layers, or the `width` of an architecture", at_least=1
    )
    noise_shares: tuple[float, ...] = penchant.option(
        (0.0,), "shares of training labels replaced by uniformly random ones", at_least=0, at_most=1
    )
    trainings: int = penchant.option(3, "trainings of each setting", at_least=2)
    samples: int = penchant.option(100, "training samples for the trace of the kernel", at_least=2)
    eval_every: int = penchant.option(20, "steps between traces of the kernel", at_least=1)

    def __attrs_post_init__(self) -> None:
        settings = len(set(self.widths)) * len(set(self.noise_shares))
        if settings < 3:
            raise penchant.Error(
                f"a correlation needs 3 or more settings (widths x noise_shares), found {settings}"
            )
