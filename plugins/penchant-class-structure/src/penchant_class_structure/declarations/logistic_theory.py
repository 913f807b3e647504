"""Theorem 8.1 against samples, as data."""

import attrs
import penchant


@attrs.frozen
class LogisticTheory(penchant.Probe):
    r"""Gauss-Newton spectrum of logistic regression on a Gaussian mixture, and its closed form.

    Inputs are $x = t e_c + N(0, I)$. If the probability of the right class is $1 - a$ and that of
    every other class $a / (C - 1)$, the expected $G$ has $C$ outliers, a mini-bulk of $C (C - 2)$,
    a bulk, and zeros. The probe measures the trace of the sample's $G$ on each of these eigenspaces
    over its dimension, for these probabilities and for a trained classifier, whose $a$ is its mean
    error probability. It also measures how $a$, the test error and the ratio of outliers to bulk
    change with $t$. Standard errors are over samples, with the trained classifier held fixed. No
    architecture is needed: `penchant probe logistic-theory`.

    Reference: Papyan, JMLR 2020, theorem 8.1.
    """

    name = "logistic-theory"
    question = "Does theory predict the outliers in the curvature of logistic regression?"
    target = "penchant_class_structure.logistic_theory.probe:run"
    figures = "penchant_class_structure.logistic_theory.figures:draw"
    needs = ("training",)
    uses = ("gaussian-mixture",)
    quantities = {
        "largest-deviation": "largest |z| of the measured means against theory, probabilities set; "
        "null: the largest of three standard normal numbers",
        "critical-deviation": "two-sided 1 % point of the largest |z| of three",
        "error-probability": "mean error probability a of the trained classifier, on training "
        "samples; null: guessing",
        "test-error": "of the trained classifier; null: guessing",
        "trained-difference": "largest relative difference of the trained classifier to theory "
        "with its own a; null: 0",
        "outliers-to-bulk": "of the trained classifier; null: before training, on these samples",
    }
    arrays = {"separations": "lengths t of the sweep"}
    tables = {
        "multiplicity[eigenspace]": "dimension of the outliers, mini-bulk, bulk and zeros",
        "theory[eigenspace]": "eigenvalue of each",
        "measured[eigenspace]": "trace on each eigenspace over its dimension, probabilities set to "
        "1 - a and a / (C - 1)",
        "trained[eigenspace]": "the same of a trained classifier",
        "trained-theory[eigenspace]": "theory with that classifier's a",
        "spectrum[rank]": "eigenvalues of the sample's G, probabilities set, descending",
        "trained-spectrum[rank]": "of the trained classifier",
        "sweep-error-probability[separation]": "a of classifiers trained at each t",
        "sweep-test-error[separation]": "their test error",
        "sweep-ratio[separation]": "their ratio of outliers to bulk, measured",
        "sweep-ratio-theory[separation]": "by theory with their own a",
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
    inputs: int = penchant.option(
        12, "input dimension D, larger than the number of classes", at_least=4
    )
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
        if self.inputs <= self.classes:
            raise penchant.Error(
                f"inputs must be more than the number of classes, {self.classes}, "
                f"found {self.inputs}"
            )
        most = 1 - 1 / self.classes
        if self.alpha > most:
            raise penchant.Error(
                f"alpha must be at most 1 - 1 / classes = {most:.4g}, found {self.alpha}"
            )
