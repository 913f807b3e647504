"""What networks learn along the directions they prefer: probes that train."""

from typing import Any

import attrs
import penchant

# Fixed bases of the input, and the architecture's own.
BASES = ("dft-cosine", "dft-sine", "random", "canonical", "nad")

# Training recipe of the paper; the clipping is in its published code only.
RECIPE = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}
TWENTY = {**RECIPE, "epochs": 20}

# Recipe of its experiments on CIFAR-10, whose pixels are standardised; clipped as well.
IMAGES = {
    "epochs": 50,
    "batch": 128,
    "learning_rate": 0.21,
    "schedule": "linear",
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "clip": 0.5,
}

# Some hundred small digits want a smaller rate, and then no clipping.
DIGITS = {
    "epochs": 40,
    "batch": 128,
    "learning_rate": 0.05,
    "schedule": "linear",
    "momentum": 0.9,
    "weight_decay": 5e-4,
}

# What figures have in common: every direction of a wave basis, or NADs of many networks.
COSINES = {"basis": "dft-cosine", "every": 1, "training": TWENTY}
NADS = {"basis": "nad", "networks": 10000, "training": TWENTY}


@attrs.frozen
class DirectionalAccuracy(penchant.Probe):
    r"""Test accuracy on linearly separable data, by the direction that separates the classes.

    For each direction $v$ of a basis, a fresh network learns $x = \pm\epsilon v + w$ with noise $w$
    orthogonal to $v$. A network without a preference would learn every direction equally well. The
    probe also reports the training loss, the number of steps to a small loss, and the accuracy for
    other numbers of training samples. With one training per direction, accuracies have no standard
    error over trainings, only its contribution from the test samples.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figures 1 to 3, 6
    and S2 to S4, S12 to S14. The paper does not define a small training loss; here it is 0.01.
    """

    name = "directional-accuracy"
    example = "penchant probe directional-accuracy -a lenet"
    question = "Along which directions of its input can a network learn to separate data?"
    target = "penchant_nad.directional_accuracy.probe:run"
    figures = "penchant_nad.directional_accuracy.figures:draw"
    needs = ("architecture", "training", "scalar-output", "continuous-inputs")
    roles = {"directions": "gradient-covariance"}
    uses = ("linearly-separable",)
    quantities = {
        "test-accuracy": "mean over directions",
        "rank-correlation": "Spearman correlation of test accuracy with minus the index",
        "reached-share": "share of trainings that reached `loss_target`",
    }
    arrays = {
        "indices": "of the directions in their basis",
        "train-sizes": "training samples of accuracy-by-size",
        "frequencies": "of each direction, for DFT bases",
        "grid": "height and width of the input, for DFT bases",
        "eigenvalues": "of each direction, for the basis nad",
    }
    tables = {
        "train-accuracy[index]": "after training, by direction",
        "test-accuracy[index]": "after training, by direction",
        "final-loss[index]": "mean training loss at the end",
        "loss-curves[index, step]": "training loss of every step",
        "steps-to-loss[index]": "steps until the mean loss of a window of steps is below "
        "loss_target; missing if never",
        "accuracy-by-size[train, index]": "test accuracy by the number of training samples",
    }
    presets = {
        "quick": {
            "every": 40,
            "networks": 200,
            "train": 4000,
            "test": 2000,
            "training": {**RECIPE, "epochs": 5},
        },
        "fig-1": {**COSINES, "sigma": 3.0},
        "fig-2": {**COSINES, "sigma": 0.5},
        "fig-3": {**COSINES, "sigma": 3.0},
        "fig-6": {**NADS, "every": 10, "sigma": 1.0},
        "fig-s2": {**COSINES, "basis": "dft-sine", "sigma": 3.0},
        "fig-s3a": {**COSINES, "sigma": 0.0},
        "fig-s3b": {**COSINES, "sigma": 1.0},
        "fig-s3c": {**COSINES, "sigma": 3.0},
        "fig-s4": {"basis": "random", "every": 10, "sigma": 3.0, "training": TWENTY},
        "fig-s12": {**NADS, "every": 10, "sigma": 3.0},
        "fig-s13": {**NADS, "indices": (0, 100, 500, 1000), "sigma": 1.0, "trainings": 5},
        "fig-s14": {
            **NADS,
            "indices": (0, 10, 50, 100, 500, 1000),
            "sigma": 3.0,
            "train_sizes": (1000, 2000, 5000, 10000, 20000, 50000),
        },
    }

    # Which directions.
    basis: str = penchant.option("nad", "which directions", choices=BASES)
    indices: tuple[int, ...] | None = penchant.option(
        None, "indices of the directions in the basis; None: see `every`", at_least=0
    )
    every: int = penchant.option(
        64, "take every n-th direction, starting with the first", at_least=1
    )
    networks: int = penchant.option(2000, "fresh networks for the basis nad", at_least=2)
    directions: Any = penchant.option(
        None, "stored directions (rows) for the basis nad, instead of fresh networks", array=True
    )
    # The data along each of them.
    epsilon: float = penchant.option(
        1.0, "distance of each class from the separating plane", above=0
    )
    margin: str = penchant.option(
        "paper", "paper: +-epsilon, code: +-epsilon / 2", choices=("paper", "code")
    )
    sigma: float = penchant.option(
        1.0, "standard deviation of the noise orthogonal to the direction", at_least=0
    )
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)
    # Measurements.
    loss_target: float = penchant.option(0.01, "the small training loss of steps-to-loss", above=0)
    train_sizes: tuple[int, ...] | None = penchant.option(
        None, "further numbers of training samples, for accuracy-by-size", at_least=2
    )
    trainings: int = penchant.option(1, "trainings of each direction", at_least=1)


@attrs.frozen
class PoisonedAccuracy(penchant.Probe):
    """Test accuracy on clean images after training on images with a carrier that encodes the class.

    The carrier lies along a NAD. If a network learns first along its leading NADs, it learns a
    carrier at a low index instead of the images, and ignores one at a high index. Every carrier is
    trained with the same initial network and order of samples.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figure 7 and
    supplement E. In K channels the pair of classes d = floor(y/2) uses NAD i + floor(d/K) in
    channel d mod K; the printed channel floor(y/2) does not exist for y > 5.
    """

    name = "poisoned-accuracy"
    example = "penchant probe poisoned-accuracy -a lenet -d digits:resize=16"
    question = "Does a network still learn the images if another cue also predicts the class?"
    target = "penchant_nad.poisoned_accuracy.probe:run"
    figures = "penchant_nad.poisoned_accuracy.figures:draw"
    needs = ("architecture", "dataset", "training", "classes", "images", "continuous-inputs")
    roles = {"directions": "gradient-covariance"}
    quantities = {
        "clean-test-accuracy": "after training on clean images",
        "clean-train-accuracy": "on the clean images it was trained on",
        "rise": "test accuracy with the carrier of the largest index minus that with the smallest, "
        "in pairs of the same initial network and test images",
    }
    headline = penchant.Headline(
        "rise",
        above="A carrier along a weak direction reduces clean accuracy less",
        below="A carrier along a weak direction reduces clean accuracy more",
        neither="The direction of the carrier makes no significant difference to clean accuracy",
    )
    tables = {
        "test-accuracy[carrier]": "on clean test images",
        "test-accuracy-change[carrier]": "test-accuracy minus that after training on clean images, "
        "in pairs of the same initial network and test images",
        "train-accuracy[carrier]": "on the poisoned training images",
    }
    arrays = {
        "carriers": "index of each carrier's first NAD",
        "eigenvalues": "of the carriers' first NADs, where NADs were computed",
    }
    presets = {
        "quick": {
            "carriers": (0, 40, 200),
            "networks": 300,
            "epsilon": 0.5,
            "trainings": 3,
            "training": DIGITS,
        },
        "fig-7": {"carriers": tuple(range(0, 1000, 50)), "networks": 10000, "training": IMAGES},
    }

    carriers: tuple[int, ...] = penchant.option(
        (0, 100, 500, 900), "index of the first NAD of each carrier", at_least=0
    )
    epsilon: float = penchant.option(
        0.05, "amplitude of the carrier, in units of the pixels", above=0
    )
    networks: int = penchant.option(2000, "fresh networks for the NADs", at_least=2)
    directions: Any = penchant.option(
        None, "stored single-channel NADs (rows), instead of fresh networks", array=True
    )
    trainings: int = penchant.option(1, "trainings of each carrier", at_least=1)


@attrs.frozen
class FlippedAccuracy(penchant.Probe):
    r"""Test accuracy on images, and on the same images with their NAD coefficients reversed.

    The map $x' = U \operatorname{flip}(U^\top x)$ is orthogonal: it loses no information, but moves
    the content of the first NADs to the last ones. A network whose preferences fit the images has a
    lower accuracy on the flipped ones.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, figure 8.
    """

    name = "flipped-accuracy"
    example = "penchant probe flipped-accuracy -a lenet -d digits:resize=16"
    question = "Does a network need images whose energy lies along its preferred directions?"
    target = "penchant_nad.flipped_accuracy.probe:run"
    figures = "penchant_nad.flipped_accuracy.figures:draw"
    needs = ("architecture", "dataset", "training", "classes", "images", "continuous-inputs")
    roles = {"directions": "gradient-covariance"}
    quantities = {
        "original-test-accuracy": "on the original images",
        "flipped-test-accuracy": "on flipped images",
        "original-train-accuracy": "on the original images",
        "flipped-train-accuracy": "on flipped images",
        "fall": "test accuracy on original images minus that on flipped ones, in pairs of the "
        "same initial network and test images",
    }
    headline = penchant.Headline(
        "fall",
        above="Test accuracy falls when preferred and weak directions of the data are exchanged",
        below="Test accuracy rises when preferred and weak directions of the data are exchanged",
        neither="Exchanging preferred and weak directions makes no significant difference in test"
        " accuracy",
    )
    tables = {
        "test-accuracy[variant]": "original, flipped",
        "train-accuracy[variant]": "original, flipped",
    }
    presets = {
        "quick": {"networks": 300, "trainings": 3, "training": DIGITS},
        "fig-8": {"networks": 10000, "training": IMAGES},
    }

    networks: int = penchant.option(
        2000, "fresh networks for the NADs; at least as many as pixels", at_least=2
    )
    directions: Any = penchant.option(
        None, "all single-channel NADs (rows), stored, instead of fresh networks", array=True
    )
    trainings: int = penchant.option(1, "trainings of each representation", at_least=1)
