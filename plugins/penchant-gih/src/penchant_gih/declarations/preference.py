"""Probes of what the geometry predicts: networks are trained."""

from typing import Any

import attrs
import penchant

from penchant_gih.declarations.geometry import CLIPPED, MOMENTUM, SMALL_SCALE

# The recipe of Ortiz-Jimenez et al. (2020); the clipping is in their published code only.
RECIPE = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}
# Fits few samples in seconds.
QUICK = {"batch": 64, "learning_rate": 0.05, "momentum": 0.9, "schedule": "linear", "epochs": 12}
# Tables 1 and 2.
PRUNING = {**CLIPPED, "learning_rate": 0.2, "weight_decay": 5e-4}
CIFAR_EPOCH = 391  # steps of 128 samples of 50000
PUBLISHED = {"networks": 10000, "estimators": SMALL_SCALE, "trainings": 5}

NOISE_STD = "standard deviation of the noise on every other direction"
INDICES = "eigen-indices from 0; negative ones count from the end; None: see `every`"
EVERY = "take every n-th direction if no indices are given"


@attrs.frozen
class FromGeometry(penchant.Probe):
    """Shared options: the source of G and the number of trainings."""

    networks: int = penchant.option(2000, "fresh networks for G", at_least=12)
    geometry: Any = penchant.option(None, "stored G, instead of fresh networks", array=True)
    trainings: int = penchant.option(1, "networks trained for each setting", at_least=1)


@attrs.frozen
class DirectionGeneralization(FromGeometry):
    r"""Test accuracy when one direction determines the labels, by the index of that direction.

    Labels are $\operatorname{sgn}(u \cdot x + b)$, $\operatorname{sgn}((u \cdot x)^2 + b)$ or
    $\operatorname{sgn}(\sin(u \cdot x) + b)$, where $u$ is an eigenvector of $G$ or of $G S G$.
    Inputs come from a dataset or are isotropic. An isotropic architecture would generalise equally
    well in all directions.

    Reference: Geometric Inductive Biases of Deep Networks, figures 4, 10, 11, 14.
    """

    name = "direction-generalization"
    example = "penchant probe direction-generalization -a lenet --shape 1,16,16"
    question = "Does a network generalise better if a preferred direction determines the labels?"
    needs = ("architecture", "training", "continuous-inputs")
    accepts = ("dataset",)
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.direction_generalization.probe:run"
    figures = "penchant_gih.direction_generalization.figures:draw"
    quantities = {
        "test-accuracy": "accuracy on test samples, mean over directions",
        "drop": "mean test accuracy over the leading half of the indices minus the trailing half",
        "rank-correlation": "Spearman correlation of test accuracy with minus the index",
    }
    headline = penchant.Headline(
        "drop",
        above="Networks generalise better if a preferred direction determines the labels, "
        "difference in test accuracy",
        below="Networks generalise worse if a preferred direction determines the labels, "
        "difference in test accuracy",
        neither="Preferred and other directions make no significant difference in test accuracy",
    )
    tables = {
        "train-accuracy[index]": "accuracy on training samples",
        "test-accuracy[index]": "accuracy on test samples",
    }
    arrays = {"indices": "eigen-indices", "eigenvalues": "by index"}
    presets = {
        "quick": {
            "indices": (0, 1, 2, -3, -2, -1),
            "networks": 1000,
            "train": 4000,
            "test": 2000,
            "training": QUICK,
        },
        "fig-4": {
            **PUBLISHED,
            "data": "dataset",
            "basis": "gsg",
            "training": {**RECIPE, "epochs": 20},
        },
        "fig-10": {**PUBLISHED, "training": {**RECIPE, "epochs": 20}},
        "fig-11": {**PUBLISHED, "train": 50000, "training": {**RECIPE, "epochs": 20}},
        "fig-14": {**PUBLISHED, "training": {**RECIPE, "learning_rate": 0.1, "epochs": 20}},
    }

    labels: str = penchant.option(
        "linear",
        "how the labels depend on the direction",
        choices=("linear", "quadratic", "sinusoid"),
    )
    basis: str = penchant.option("g", "eigenvectors of G, or of G S G", choices=("g", "gsg"))
    indices: tuple[int, ...] | None = penchant.option(None, INDICES)
    every: int = penchant.option(64, EVERY, at_least=1)
    data: str = penchant.option(
        "isotropic", "source of the inputs", choices=("dataset", "isotropic")
    )
    epsilon: float = penchant.option(
        0.9,
        "standard deviation of isotropic inputs along u; 0.9 linear, 2 quadratic, 2.1 sinusoid",
        above=0,
    )
    label_noise: float | None = penchant.option(
        None,
        "variance of the noise in the labelling, in units of the channel's variance; "
        "None: 0.2 on a dataset, 0 on isotropic inputs",
        at_least=0,
    )
    train: int = penchant.option(10000, "isotropic training samples", at_least=2)
    test: int = penchant.option(10000, "isotropic test samples", at_least=2)

    def __attrs_post_init__(self) -> None:
        if self.basis == "gsg" and self.data != "dataset":
            raise penchant.Error(
                "basis = gsg needs the second moment of a dataset; found data = isotropic"
            )


@attrs.frozen
class FeaturePreference(FromGeometry):
    """Accuracy on a linear feature alone and on a ring alone, after training with both.

    The ring lies on two leading directions of G; the linear feature lies on one of the others. To
    test one feature alone, the other one follows a random label. A network that prefers simple
    features would always learn the linear one.

    Reference: Geometric Inductive Biases of Deep Networks, section 4.3 and figure 5.
    """

    name = "feature-preference"
    example = "penchant probe feature-preference -a lenet --shape 1,16,16"
    question = (
        "Does a network learn a simple feature along a weak direction, or a complex strong one?"
    )
    needs = ("architecture", "training", "continuous-inputs")
    uses = ("linear-and-ring",)
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.feature_preference.probe:run"
    figures = "penchant_gih.feature_preference.figures:draw"
    quantities = {
        "first-linear-accuracy": "test samples, linear feature alone, at the smallest index",
        "last-linear-accuracy": "test samples, linear feature alone, at the largest index",
        "first-ring-accuracy": "test samples, ring alone, at the smallest index",
        "last-ring-accuracy": "test samples, ring alone, at the largest index",
    }
    tables = {
        "train-accuracy[index]": "accuracy on training samples",
        "test-accuracy[index]": "accuracy on test samples with both features",
        "linear-accuracy[index]": "test samples, linear feature alone",
        "ring-accuracy[index]": "test samples, ring alone",
    }
    arrays = {
        "indices": "eigen-indices of the linear feature's direction",
        "eigenvalues": "by index",
    }
    presets = {
        "quick": {
            "indices": (2, 20, -10, -1),
            "networks": 1000,
            "epsilon": 3.0,
            "radii": (3.0, 0.25),
            "train": 4000,
            "test": 2000,
            "training": QUICK,
        },
        "fig-5": {**PUBLISHED, "training": {**RECIPE, "epochs": 20}},
    }

    indices: tuple[int, ...] | None = penchant.option(None, INDICES)
    every: int = penchant.option(64, EVERY, at_least=1)
    ring: tuple[int, int] = penchant.option((0, 1), "eigen-indices of the ring's plane", at_least=0)
    epsilon: float = penchant.option(
        1.0, "distance between the classes along the linear feature", above=0
    )
    radii: tuple[float, float] = penchant.option(
        (1.5, 0.25), "radius of class 0 and of class 1; 3, 0.25 for ResNet18", at_least=0
    )
    noise_std: float = penchant.option(1.0, NOISE_STD, at_least=0)
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)


@attrs.frozen
class FeatureElimination(FromGeometry):
    """Test accuracy after removing the least sensitive directions from the data.

    Directions are generalised eigenvectors of (G, S), smallest G-energy per S-energy first,
    orthonormalised in that order. They are compared with random directions that explain the same
    variance.

    Reference: Geometric Inductive Biases of Deep Networks, section 5 and figure 6.
    """

    name = "feature-elimination"
    example = "penchant probe feature-elimination -a 'mlp:widths=[100,100]' -d digits"
    question = (
        "Can the directions to which an architecture is least sensitive be removed from the data?"
    )
    needs = ("architecture", "dataset", "classes", "continuous-inputs")
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.feature_elimination.probe:run"
    figures = "penchant_gih.feature_elimination.figures:draw"
    quantities = {
        "advantage": "mean test accuracy minus that with random directions, over all counts but "
        "the first"
    }
    headline = penchant.Headline(
        "advantage",
        above="Removing the least sensitive directions costs less accuracy than removing random"
        " ones",
        below="Removing the least sensitive directions costs more accuracy than removing random"
        " ones",
        neither="No significant difference between removing the least sensitive directions and "
        "random ones",
    )
    tables = {
        "test-accuracy[removed]": "accuracy on test samples without so many directions",
        "random-removed[removed]": "random directions of equal explained variance",
        "random-test-accuracy[removed]": "accuracy on test samples without those",
        "advantage[removed]": "test accuracy minus that with random directions, in pairs of the "
        "same initial network and test samples",
    }
    arrays = {
        "removed": "number of directions removed",
        "explained": "share of the trace of S that was removed",
    }
    presets = {
        "quick": {
            "removed": (0, 16, 32, 48),
            "networks": 1000,
            "trainings": 2,
            "training": {**MOMENTUM, "epochs": 5},
        },
        "fig-6": {**PUBLISHED, "training": {**CLIPPED, "epochs": 50}},
    }

    removed: tuple[int, ...] | None = penchant.option(
        None, "numbers of directions to remove; None: eight steps to all but one", at_least=0
    )
    ridge: float = penchant.option(
        1e-6,
        "added to S, in units of its mean eigenvalue, because S of real data is singular",
        above=0,
    )


@attrs.frozen
class SamplePruning(FromGeometry):
    r"""Test accuracy after removing the training samples with the lowest Score, or random ones.

    $\operatorname{Score}(x) = x^\top G x / |x|^2$; samples are removed per class. In the published
    experiments, the number of training steps does not depend on the number of samples, so presets
    give steps, not epochs.

    Reference: Geometric Inductive Biases of Deep Networks, section 5 and tables 1, 2. The published
    code applies scores of shuffled samples in the order of the dataset.
    """

    name = "sample-pruning"
    example = "penchant probe sample-pruning -a 'mlp:widths=[100,100]' -d digits"
    question = "Which training samples can be removed without losing accuracy?"
    needs = ("architecture", "dataset", "classes", "continuous-inputs")
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.sample_pruning.probe:run"
    figures = "penchant_gih.sample_pruning.figures:draw"
    quantities = {"advantage": "mean test accuracy minus that of random pruning, over fractions"}
    headline = penchant.Headline(
        "advantage",
        above="Pruning by this score costs less accuracy than random pruning",
        below="Pruning by this score costs more accuracy than random pruning",
        neither="No significant difference between pruning by this score and random pruning",
    )
    tables = {
        "test-accuracy[fraction]": "accuracy on test samples, lowest scores removed",
        "random-test-accuracy[fraction]": "accuracy on test samples, random samples removed",
        "advantage[fraction]": "test accuracy minus that of random pruning, in pairs of the same "
        "initial network and test samples",
    }
    arrays = {
        "fractions": "share of every class that was removed",
        "scores": "of every training sample, in the order of the dataset",
    }
    presets = {
        "quick": {
            "fractions": (0.5, 0.9),
            "networks": 500,
            "trainings": 2,
            "training": {**PRUNING, "steps": 200},
        },
        "table-1": {
            **PUBLISHED,
            "fractions": (0.3, 0.5, 0.7, 0.9),
            "training": {**PRUNING, "steps": 50 * CIFAR_EPOCH},
        },
        "table-2": {
            **PUBLISHED,
            "fractions": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
            "training": {**PRUNING, "steps": 50 * CIFAR_EPOCH},
        },
    }

    fractions: tuple[float, ...] = penchant.option(
        (0.3, 0.5, 0.7, 0.9), "shares of the samples to remove", at_least=0, below=1
    )


@attrs.frozen
class DecisionPlane(FromGeometry):
    r"""Decision boundary of trained networks in the plane of two concentric circles.

    The plane is spanned by a leading direction of G and another one. If the network is insensitive
    to the second direction, the boundary is not a circle. A network that uses one axis alone has
    the accuracy $1 - \arcsin(r_2 / r_1) / \pi$, so the radii should not differ much.

    Reference: Geometric Inductive Biases of Deep Networks, figure 1.
    """

    name = "decision-plane"
    example = "penchant probe decision-plane -a lenet --shape 1,16,16"
    question = (
        "Can a network learn a circle in a plane with a direction to which it is insensitive?"
    )
    needs = ("architecture", "training", "continuous-inputs")
    uses = ("two-circles",)
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.decision_plane.probe:run"
    figures = "penchant_gih.decision_plane.figures:draw"
    quantities = {
        "best-aligned-test-accuracy": "on test samples, in the plane of the smallest second "
        "index; null: one axis of the plane alone",
        "worst-aligned-test-accuracy": "on test samples, in the plane of the largest second "
        "index; null: one axis of the plane alone",
    }
    headline = penchant.Headline(
        "worst-aligned-test-accuracy",
        above="Along the least preferred direction accuracy is above that of one axis alone",
        below="Along the least preferred direction accuracy is below that of one axis alone",
        neither="Along the least preferred direction accuracy does not differ significantly from "
        "that of one axis alone",
    )
    tables = {
        "train-accuracy[second]": "accuracy on training samples, by the plane's second index",
        "test-accuracy[second]": "accuracy on test samples, by the plane's second index",
    }
    arrays = {
        "seconds": "eigen-index of each plane's second direction",
        "eigenvalues": "of that direction",
        "axis": "coordinates of the grid along both directions",
        "planes": "output by plane, training, coordinate along the first direction, the second",
        "points": "test samples in the plane, by plane",
        "labels": "their classes",
    }
    presets = {
        "quick": {
            "networks": 1000,
            "trainings": 2,
            "radii": (6.0, 3.0),
            "train": 4000,
            "test": 2000,
            "training": QUICK,
        },
        "fig-1": {**PUBLISHED, "training": {**RECIPE, "epochs": 20}},
    }

    seconds: tuple[int, ...] = penchant.option(
        (1, -1), "eigen-index of the other direction, for each plane"
    )
    radii: tuple[float, float] = penchant.option(
        (3.0, 1.5), "radius of class 0 and of class 1", at_least=0
    )
    noise_std: float = penchant.option(1.0, NOISE_STD, at_least=0)
    grid_points: int = penchant.option(61, "points along each direction of the picture", at_least=2)
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)
