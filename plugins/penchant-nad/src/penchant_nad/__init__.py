"""Neural anisotropy directions (Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard, NeurIPS 2020)."""

from typing import Any

import attrs
import penchant

# Training recipe of the paper; the clipping is in its published code only.
RECIPE = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}


@attrs.frozen
class GradientCovariance(penchant.Estimator):
    """Second moment of input gradients over networks drawn from the initialisation.

    `finite-difference` is the published method: central differences with a step of 100 at a Gaussian point shared by all
    networks. That is not a derivative at the point; as the step grows it tends to `impulse`, the answer of the bias-free
    network to single pixels. `autograd` is the local gradient. They answer different questions.

    Reference: Neural Anisotropy Directions, supplement, algorithm 1. The definition is uncentred; the published code
    centres.
    """

    name = "gradient-covariance"
    role = "directions"
    target = "penchant_nad.gradient_covariance:estimate"

    method: str = penchant.option("finite-difference", "how gradients are taken", choices=("finite-difference", "impulse", "autograd"))
    step: float = penchant.option(100.0, "step h of the finite differences", above=0)
    point: str = penchant.option("gaussian", "where gradients are taken", choices=("gaussian", "zero"))
    point_scale: float = penchant.option(1.0, "standard deviation of the Gaussian point", above=0)
    centred: bool = penchant.option(False, "subtract the mean gradient")


@attrs.frozen
class Nad(penchant.Probe):
    """Directions of its input that an architecture prefers before it has seen data (NADs).

    NADs are the eigenvectors of the second moment of input gradients over fresh networks, in the order of their
    eigenvalues. The null is an isotropic architecture with the same gradient norms. Quick: `-a lenet`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020.
    """

    name = "nad"
    needs = ("architecture",)
    roles = {"directions": "gradient-covariance"}
    target = "penchant_nad.nad:run"
    quantities = {
        "trace": "mean squared norm of the gradient",
        "effective-rank": "exp of the entropy of the eigenvalues",
        "directions-90": "how many directions carry 90 % of the trace",
    }
    arrays = {
        "eigenvalues": "of the second moment, descending",
        "directions": "NADs: orthonormal rows, in the order of eigenvalues",
        "null-edges": "smallest and largest eigenvalue of an isotropic architecture with the same gradient norms",
        "second-moment": "the matrix itself, with keep_matrix",
    }
    presets = {"quick": {"samples": 200}, "fig-5": {"samples": 10000}}

    samples: int = penchant.option(200, "networks drawn", at_least=2)
    keep_matrix: bool = penchant.option(False, "store the second moment itself")


@attrs.frozen
class DirectionalAccuracy(penchant.Probe):
    """Test accuracy on linearly separable data, one direction of the input after another.

    For each direction v of a basis, a fresh network learns x = +-epsilon v + noise orthogonal to v. A network without a
    preference would learn every direction alike. Quick: `-a lenet`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figures 1 and 6.
    """

    name = "directional-accuracy"
    needs = ("architecture", "training")
    roles = {"directions": "gradient-covariance"}
    uses = ("linearly-separable",)
    target = "penchant_nad.directional_accuracy:run"
    quantities = {
        "mean-accuracy": "test accuracy over directions",
        "rank-correlation": "Spearman correlation of test accuracy with minus the index",
    }
    arrays = {
        "index": "indices of the directions in their basis",
        "train-accuracy": "after training, by direction",
        "test-accuracy": "after training, by direction",
        "test-accuracy-stderr": "binomial, over test samples",
        "train-accuracy-stderr": "binomial, over training samples",
        "final-loss": "mean training loss at the end",
        "frequency": "of each direction, for DFT bases",
        "eigenvalue": "of each direction, for the basis nad",
    }
    presets = {
        "quick": {"every": 40, "samples": 200, "train": 2000, "test": 2000, "training": {**RECIPE, "epochs": 5}},
        "fig-1": {"basis": "dft-cosine", "every": 1, "sigma": 3.0, "training": {**RECIPE, "epochs": 20}},
        "fig-6": {"basis": "nad", "every": 10, "samples": 10000, "sigma": 1.0, "training": {**RECIPE, "epochs": 20}},
    }

    basis: str = penchant.option("nad", "which directions", choices=("dft-cosine", "dft-sine", "random", "canonical", "nad"))
    indices: tuple[int, ...] = penchant.option((), "which of the basis; none: every so many", at_least=0)
    every: int = penchant.option(64, "take every so manieth direction, from the first", at_least=1)
    samples: int = penchant.option(2000, "networks drawn for the basis nad", at_least=2)
    directions: Any = penchant.option(None, "stored directions (rows) instead of drawing networks for the basis nad", array=True)
    epsilon: float = penchant.option(1.0, "distance of the classes from the plane between them", above=0)
    margin: str = penchant.option("paper", "paper: +-epsilon, code: +-epsilon / 2", choices=("paper", "code"))
    sigma: float = penchant.option(1.0, "standard deviation of the noise orthogonal to the direction", at_least=0)
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    return [GradientCovariance]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [Nad, DirectionalAccuracy]
