"""Neural anisotropy directions (Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard, NeurIPS 2020)."""

from typing import Any

import attrs
import penchant

# Training recipe of the paper; the clipping is in its published code only.
RECIPE = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}
TWENTY = {**RECIPE, "epochs": 20}

# Recipe of its experiments on CIFAR-10.
IMAGES = {
    "batch": 128,
    "learning_rate": 0.21,
    "schedule": "linear",
    "momentum": 0.9,
    "weight_decay": 5e-4,
}

# Like methods: the derivative at a point, and the coarse differences of the paper.
LOCAL = [
    {"name": "gradient-covariance", "method": "autograd"},
    {"name": "mixed-derivative", "method": "exact"},
]
COARSE = [
    {"name": "gradient-covariance"},
    {"name": "mixed-derivative", "method": "finite-difference"},
]
BASES = ("dft-cosine", "dft-sine", "random", "canonical", "nad")


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

    method: str = penchant.option(
        "finite-difference",
        "how gradients are taken",
        choices=("finite-difference", "impulse", "autograd"),
    )
    step: float = penchant.option(100.0, "step h of the finite differences", above=0)
    point: str = penchant.option(
        "gaussian", "where gradients are taken", choices=("gaussian", "zero")
    )
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
        "residuals": "|G u - lambda u| of each pair, where pairs were found without the matrix",
        "null-edges": "smallest and largest eigenvalue of an isotropic architecture with the same gradient norms",
        "second-moment": "the matrix itself, with keep_matrix",
    }
    presets = {
        "quick": {"samples": 200},
        "fig-5": {"samples": 10000},
        "fig-s9": {"samples": 1000, "estimators": {"directions": COARSE[1]}},
    }

    samples: int = penchant.option(200, "networks drawn", at_least=2)
    keep_matrix: bool = penchant.option(False, "store the second moment itself")


@attrs.frozen
class DirectionalAccuracy(penchant.Probe):
    """Test accuracy on linearly separable data, one direction of the input after another.

    For each direction v of a basis, a fresh network learns x = +-epsilon v + noise orthogonal to v. A network without a
    preference would learn every direction alike. Beside the accuracy: the loss while training, the steps to a small loss, and
    the accuracy with fewer or more training samples. Quick: `-a lenet`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figures 1 to 3, 6 and S2 to S4, S12 to S14. What a
    small training loss is, is not said there: 0.01.
    """

    name = "directional-accuracy"
    needs = ("architecture", "training")
    roles = {"directions": "gradient-covariance"}
    uses = ("linearly-separable",)
    target = "penchant_nad.directional_accuracy:run"
    quantities = {
        "mean-accuracy": "test accuracy over directions",
        "rank-correlation": "Spearman correlation of test accuracy with minus the index",
        "reached": "share of trainings that reached the loss asked for",
    }
    arrays = {
        "index": "indices of the directions in their basis",
        "train-accuracy": "after training, by direction",
        "test-accuracy": "after training, by direction",
        "test-accuracy-stderr": "over test samples (binomial), and over repeats where there are any",
        "train-accuracy-stderr": "over training samples (binomial), and over repeats where there are any",
        "final-loss": "mean training loss at the end",
        "loss-curves": "training loss of every step, (directions, steps)",
        "steps-to-loss": "steps until the mean loss of a window of steps is below loss_target; missing where it never was",
        "train-sizes": "training samples of accuracy-by-size",
        "accuracy-by-size": "test accuracy, (sizes, directions)",
        "frequency": "of each direction, for DFT bases",
        "grid": "height and width of the input, for DFT bases",
        "eigenvalue": "of each direction, for the basis nad",
    }
    presets = {
        "quick": {
            "every": 40,
            "samples": 200,
            "train": 4000,
            "test": 2000,
            "training": {**RECIPE, "epochs": 5},
        },
        "fig-1": {"basis": "dft-cosine", "every": 1, "sigma": 3.0, "training": TWENTY},
        "fig-2": {"basis": "dft-cosine", "every": 1, "sigma": 0.5, "training": TWENTY},
        "fig-3": {"basis": "dft-cosine", "every": 1, "sigma": 3.0, "training": TWENTY},
        "fig-6": {"basis": "nad", "every": 10, "samples": 10000, "sigma": 1.0, "training": TWENTY},
        "fig-s2": {"basis": "dft-sine", "every": 1, "sigma": 3.0, "training": TWENTY},
        "fig-s3a": {"basis": "dft-cosine", "every": 1, "sigma": 0.0, "training": TWENTY},
        "fig-s3b": {"basis": "dft-cosine", "every": 1, "sigma": 1.0, "training": TWENTY},
        "fig-s3c": {"basis": "dft-cosine", "every": 1, "sigma": 3.0, "training": TWENTY},
        "fig-s4": {"basis": "random", "every": 10, "sigma": 3.0, "training": TWENTY},
        "fig-s12": {
            "basis": "nad",
            "every": 10,
            "samples": 10000,
            "sigma": 3.0,
            "training": TWENTY,
        },
        "fig-s13": {
            "basis": "nad",
            "indices": (0, 100, 500, 1000),
            "samples": 10000,
            "sigma": 1.0,
            "repeats": 5,
            "training": TWENTY,
        },
        "fig-s14": {
            "basis": "nad",
            "indices": (0, 10, 50, 100, 500, 1000),
            "samples": 10000,
            "sigma": 3.0,
            "train_sizes": (1000, 2000, 5000, 10000, 20000, 50000),
            "training": TWENTY,
        },
    }

    basis: str = penchant.option("nad", "which directions", choices=BASES)
    indices: tuple[int, ...] = penchant.option(
        (), "which of the basis; none: every so many", at_least=0
    )
    every: int = penchant.option(64, "take every so manieth direction, from the first", at_least=1)
    samples: int = penchant.option(2000, "networks drawn for the basis nad", at_least=2)
    directions: Any = penchant.option(
        None, "stored directions (rows) instead of drawing networks for the basis nad", array=True
    )
    epsilon: float = penchant.option(
        1.0, "distance of the classes from the plane between them", above=0
    )
    margin: str = penchant.option(
        "paper", "paper: +-epsilon, code: +-epsilon / 2", choices=("paper", "code")
    )
    sigma: float = penchant.option(
        1.0, "standard deviation of the noise orthogonal to the direction", at_least=0
    )
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)
    loss_target: float = penchant.option(0.01, "the small training loss of steps-to-loss", above=0)
    train_sizes: tuple[int, ...] = penchant.option(
        (), "further numbers of training samples, for accuracy-by-size", at_least=2
    )
    repeats: int = penchant.option(1, "networks trained for each direction", at_least=1)


@attrs.frozen
class PoisonedAccuracy(penchant.Probe):
    """Test accuracy on clean images after training on images with a carrier along a NAD that gives the class away.

    If a network learns what its first NADs show before anything else, a carrier at a low index hides the images from it and
    one at a high index does not. The same network and order of samples serve every carrier. Quick: `-a lenet -d digits:resize=16`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figure 7 and supplement E. In K channels the pair
    of classes d = floor(y/2) uses NAD i + floor(d/K) in channel d mod K; the printed channel floor(y/2) does not exist for y > 5.
    """

    name = "poisoned-accuracy"
    needs = ("architecture", "dataset")
    roles = {"directions": "gradient-covariance"}
    target = "penchant_nad.poisoned_accuracy:run"
    quantities = {
        "clean-accuracy": "test accuracy after training on clean images",
        "clean-train-accuracy": "training accuracy there",
    }
    arrays = {
        "carrier": "index of the carrier's first NAD",
        "test-accuracy": "on clean test images, by carrier",
        "train-accuracy": "on the poisoned training images, by carrier",
        "eigenvalue": "of the carrier's first NAD, where NADs were computed",
    }
    presets = {
        "quick": {
            "carriers": (0, 40, 200),
            "samples": 300,
            "epsilon": 0.5,
            "training": {**IMAGES, "epochs": 40, "learning_rate": 0.05},
        },
        "fig-7": {
            "carriers": tuple(range(0, 1000, 50)),
            "samples": 10000,
            "training": {**IMAGES, "epochs": 50},
        },
    }

    carriers: tuple[int, ...] = penchant.option(
        (0, 100, 500, 900), "indices of the first NAD that carries the class", at_least=0
    )
    epsilon: float = penchant.option(0.05, "size of the carrier; pixels are in [0, 1]", above=0)
    samples: int = penchant.option(2000, "networks drawn for the NADs", at_least=2)
    directions: Any = penchant.option(
        None, "stored single-channel NADs (rows) instead of drawing networks", array=True
    )
    repeats: int = penchant.option(1, "networks trained for each carrier", at_least=1)


@attrs.frozen
class FlippedAccuracy(penchant.Probe):
    """Test accuracy on images, and on the same images with their NAD coefficients in reverse order.

    x' = U flip(U^T x) is a rotation: it loses nothing, but moves what is in the first NADs to the last. A network whose
    preferences fit the images is worse on the flipped ones. Quick: `-a lenet -d digits:resize=16`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figure 8.
    """

    name = "flipped-accuracy"
    needs = ("architecture", "dataset")
    roles = {"directions": "gradient-covariance"}
    target = "penchant_nad.flipped_accuracy:run"
    quantities = {
        "original": "test accuracy on images as they are",
        "flipped": "test accuracy on flipped images",
        "original-train": "training accuracy on images as they are",
        "flipped-train": "training accuracy on flipped images",
    }
    arrays = {"test-accuracy": "original, flipped", "train-accuracy": "original, flipped"}
    presets = {
        "quick": {"samples": 300, "training": {**IMAGES, "epochs": 40, "learning_rate": 0.05}},
        "fig-8": {"samples": 10000, "training": {**IMAGES, "epochs": 50}},
    }

    samples: int = penchant.option(
        2000, "networks drawn for the NADs; at least as many as pixels", at_least=2
    )
    directions: Any = penchant.option(
        None,
        "stored single-channel NADs (rows), all of them, instead of drawing networks",
        array=True,
    )
    repeats: int = penchant.option(1, "networks trained for each representation", at_least=1)


@attrs.frozen
class NadAgreement(penchant.Probe):
    """Do two estimators find the same directions? Subspace overlap and correlation of the two second moments.

    Each estimator has networks of its own, in groups, so that the correlation is not biased by sampling; the nulls are random
    subspaces and a random rotation of one matrix. Compare like methods: on networks with kinks a derivative at a point and a
    large step answer different questions. Quick: `-a lenet:activation=gelu --shape 1,16,16`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 3.1 and figures S5 to S11.
    """

    name = "nad-agreement"
    needs = ("architecture",)
    roles = {"directions": ("gradient-covariance", "mixed-derivative")}
    target = "penchant_nad.nad_agreement:run"
    quantities = {
        "corr": "Frobenius cosine of the two second moments, norms from independent networks",
        "mean-overlap": "overlap, averaged over k",
    }
    arrays = {
        "overlap": "share of the first k directions of one that lies in the first k of the other, k = 1, 2, ...",
        "overlap-null": "the same for random subspaces, k/D",
        "eigenvalues": "of both moments, one row each, descending",
    }
    presets = {
        "quick": {"samples": 80, "estimators": {"directions": LOCAL}},
        "fig-s9": {"samples": 1000, "estimators": {"directions": COARSE}},
    }

    samples: int = penchant.option(200, "networks drawn for each estimator", at_least=4)
    groups: int = penchant.option(4, "independent groups that they are in", at_least=2)


@attrs.frozen
class Dipole(penchant.Probe):
    """How fast a network learns to tell x from x + v: measured, and as bounded by its gradients and mixed derivative.

    E|grad_theta q(v)| for q(v) = g(|v.grad f|), g(t) = alpha t^2/2 + beta t, beside alpha sqrt(v^T C v) sqrt(v^T E[M^T M] v) + beta E|M v|
    (the paper's lemma 2 prints alpha^2, which is wrong), and P((v.grad f)^2 >= eta) beside v^T C v / eta (6). Measured side and
    bound come from different networks. Quick: `-a lenet:activation=gelu --shape 1,32,32`.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 3.
    """

    name = "dipole"
    needs = ("architecture",)
    roles = {"directions": "gradient-covariance"}
    target = "penchant_nad.dipole:run"
    quantities = {
        "largest-excess": "of the measured side over the bound; the null is the corrected 1 % point",
        "largest-markov-excess": "of the share of networks over the Markov bound; the null is the corrected 1 % point",
        "tightness": "measured side over the bound",
        "rank-correlation": "Spearman correlation of the measured side with the bound, over directions",
    }
    arrays = {
        "index": "indices of the directions in their basis",
        "gradient-norm": "E|grad_theta q(v)|",
        "bound": "right side of lemma 2",
        "exceedance": "share of networks with (v.grad f)^2 >= eta",
        "markov-bound": "v^T C v / eta",
        "eigenvalue": "of each direction, for the basis nad",
    }
    presets = {
        "quick": {"every": 32, "networks": 64},
        "lemma-2": {"basis": "nad", "every": 8, "samples": 10000, "networks": 1000},
    }

    basis: str = penchant.option("dft-cosine", "which directions", choices=BASES)
    indices: tuple[int, ...] = penchant.option(
        (), "which of the basis; none: every so many", at_least=0
    )
    every: int = penchant.option(32, "take every so manieth direction, from the first", at_least=1)
    samples: int = penchant.option(2000, "networks drawn for the basis nad", at_least=2)
    directions: Any = penchant.option(
        None, "stored directions (rows) instead of drawing networks for the basis nad", array=True
    )
    networks: int = penchant.option(64, "networks measured, half of them for the bound", at_least=8)
    alpha: float = penchant.option(2.0, "alpha of g(t) = alpha t^2/2 + beta t", at_least=0)
    beta: float = penchant.option(0.0, "beta of g", at_least=0)
    eta: float = penchant.option(
        1.0, "threshold of the Markov bound, in means of v^T C v over the directions", above=0
    )
    point_scale: float = penchant.option(1.0, "standard deviation of the Gaussian point x", above=0)


@attrs.frozen
class PoolingTheory(penchant.Probe):
    """What pooling loses and how it bends the loss, frequency by frequency: corrected theory against simulation.

    Best accuracy behind a filter and subsampling by `stride` (theorem 1), mean curvature of the loss of the linear model of pooling
    (lemma 1), and its training loss. Deviations are in standard errors, their null is the corrected 1 % point. The paper's theorem has a
    factor too much, in its text and another in its supplement; both are given beside. Quick: needs no architecture.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 2, figure 4.
    """

    name = "pooling-theory"
    target = "penchant_nad.pooling_theory:run"
    quantities = {
        "deviation": "largest, of the simulated accuracy from the corrected theorem",
        "text-deviation": "from the theorem as printed in the text",
        "supplement-deviation": "from the theorem as printed in the supplement",
        "curvature-deviation": "largest, of the curvature along phi_l from the corrected lemma",
        "theta-curvature-deviation": "the same along theta_(l mod M)",
        "loss-zeta-correlation": "Spearman correlation of the mean loss while training with minus zeta",
    }
    arrays = {
        "frequency": "l, those with 2 l = 0 mod M left out",
        "theory": "best accuracy by the corrected theorem",
        "theory-text": "as printed in the text",
        "theory-supplement": "as printed in the supplement",
        "simulation": "share of samples that the exact discriminant gets right",
        "response": "prefilter m_l",
        "zeta": "eps^2 m_l^2 / (sigma^2 max m^2)",
        "curvature": "mean second derivative of the loss along phi_l, measured",
        "curvature-theory": "by the corrected lemma",
        "theta-curvature": "along theta_(l mod M), measured",
        "theta-curvature-theory": "by the corrected lemma",
        "curve-frequency": "frequencies of the loss curves",
        "loss-curves": "training loss, (frequencies, steps)",
    }
    presets = {
        "quick": {"every": 2},
        "fig-4": {"draws": 100000, "curves": 12, "steps": 2000, "networks": 32},
    }

    size: int = penchant.option(128, "inputs D", at_least=8)
    stride: int = penchant.option(4, "subsampling S", at_least=2)
    prefilter: str = penchant.option(
        "average", "filter before subsampling", choices=("none", "average", "low-pass")
    )
    epsilon: float = penchant.option(
        1.0, "distance of the classes from the plane between them", above=0
    )
    sigma: float = penchant.option(1.0, "standard deviation of the noise", above=0)
    every: int = penchant.option(1, "take every so manieth frequency", at_least=1)
    draws: int = penchant.option(
        10000, "samples (and networks) simulated at each frequency", at_least=100
    )
    curves: int = penchant.option(5, "frequencies whose training is followed", at_least=1)
    curve_sigma: float = penchant.option(
        0.3, "standard deviation of the noise while training", above=0
    )
    networks: int = penchant.option(4, "networks trained at each of them", at_least=2)
    steps: int = penchant.option(300, "steps of training", at_least=1)
    batch: int = penchant.option(64, "samples a step", at_least=1)
    learning_rate: float = penchant.option(0.1, "of SGD", above=0)
    weight_std: float = penchant.option(
        0.5, "standard deviation of theta and phi before training", above=0
    )


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    return [GradientCovariance]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [
        Nad,
        DirectionalAccuracy,
        NadAgreement,
        PoolingTheory,
        Dipole,
        PoisonedAccuracy,
        FlippedAccuracy,
    ]
