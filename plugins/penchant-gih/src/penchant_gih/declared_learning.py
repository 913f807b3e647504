"""Probes of what the geometry predicts: networks are trained; no code behind them is imported here."""

from __future__ import annotations

from typing import Any

import attrs
import penchant

# The recipe of Ortiz-Jimenez et al. (2020); the clipping is in their published code only.
_RECIPE = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}
_MOMENTUM = {"batch": 128, "learning_rate": 0.1, "momentum": 0.9}
_QUICK = {
    "batch": 64,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "schedule": "linear",
    "epochs": 12,
}  # fits few samples in seconds
_PRUNING = {"batch": 128, "learning_rate": 0.2, "momentum": 0.9, "weight_decay": 5e-4, "epochs": 50}
_PUBLISHED = {"samples": 10000, "scale": 1e-3, "repeats": 5}
_SCALE = "standard deviation s of the probing distribution N(0, s^2 I); small, 1e-3, with GELU"
_GEOMETRY = "stored G instead of drawing networks"
_INDICES = "eigen-indices, the leading direction is 0, negative ones count from the end; none: every so many"


@attrs.frozen
class _FromGeometry(penchant.Probe):
    """What these probes share: where G comes from, and how often they train."""

    samples: int = penchant.option(2000, "networks drawn for G", at_least=4)
    scale: float = penchant.option(1.0, _SCALE, above=0)
    geometry: Any = penchant.option(None, _GEOMETRY, array=True)
    repeats: int = penchant.option(1, "networks trained for each setting", at_least=1)


@attrs.frozen
class DirectionGeneralization(_FromGeometry):
    """Accuracy where one direction decides the labels, by the index of that direction.

    Labels sgn(u.x + b), sgn((u.x)^2 + b) or sgn(sin(u.x) + b), u an eigenvector of G or of G S G, on the inputs of a dataset or on
    isotropic ones. An isotropic architecture would generalise alike in all directions. Quick: `-a lenet --shape 1,16,16`.

    Reference: Geometric Inductive Biases of Deep Networks, figures 4, 10, 11, 14.
    """

    name = "direction-generalization"
    needs = ("architecture", "training")
    accepts = ("dataset",)
    target = "penchant_gih.direction_generalization:run"
    quantities = {
        "mean-accuracy": "test accuracy over directions",
        "drop": "mean test accuracy over the leading half of the indices minus the trailing half",
        "rank-correlation": "Spearman correlation of test accuracy with minus the index",
    }
    arrays = {
        "index": "eigen-indices",
        "train-accuracy": "by index",
        "test-accuracy": "by index",
        "eigenvalue": "by index",
    }
    presets = {
        "quick": {
            "indices": (0, 1, 2, -3, -2, -1),
            "samples": 1000,
            "train": 4000,
            "test": 2000,
            "training": _QUICK,
        },
        "fig-4": {
            **_PUBLISHED,
            "data": "dataset",
            "basis": "gsg",
            "every": 64,
            "training": {**_RECIPE, "epochs": 20},
        },
        "fig-10": {**_PUBLISHED, "every": 64, "training": {**_RECIPE, "epochs": 20}},
        "fig-11": {
            **_PUBLISHED,
            "every": 64,
            "train": 50000,
            "training": {**_RECIPE, "epochs": 20},
        },
        "fig-14": {
            **_PUBLISHED,
            "every": 64,
            "training": {**_RECIPE, "learning_rate": 0.1, "epochs": 20},
        },
    }

    labels: str = penchant.option(
        "linear", "how the direction decides", choices=("linear", "quadratic", "sinusoid")
    )
    basis: str = penchant.option("g", "eigenvectors of G, or of G S G", choices=("g", "gsg"))
    indices: tuple[int, ...] = penchant.option((), _INDICES)
    every: int = penchant.option(
        64, "take every so manieth direction where no indices are given", at_least=1
    )
    data: str = penchant.option(
        "isotropic", "where inputs come from", choices=("dataset", "isotropic")
    )
    epsilon: float = penchant.option(
        0.9,
        "standard deviation of isotropic inputs along u; 0.9 linear, 2 quadratic, 2.1 sinusoid",
        above=0,
    )
    label_noise: float = penchant.option(
        0.2, "variance of the noise while labelling, in units of the channel's", at_least=0
    )
    train: int = penchant.option(10000, "isotropic training samples", at_least=2)
    test: int = penchant.option(10000, "isotropic test samples", at_least=2)


@attrs.frozen
class FeaturePreference(_FromGeometry):
    """Does a network that could learn either rely on a linear feature or on a ring?

    The ring is on two leading directions of G, the linear feature goes through the others. Accuracy on one feature alone: the other one is
    that of a random label. Simplicity alone would always prefer the linear feature. Quick: `-a lenet --shape 1,16,16`.

    Reference: Geometric Inductive Biases of Deep Networks, section 4.3 and figure 5.
    """

    name = "feature-preference"
    needs = ("architecture", "training")
    uses = ("linear-and-ring",)
    target = "penchant_gih.feature_preference:run"
    quantities = {
        "first-linear-accuracy": "on the linear feature alone, at the smallest index",
        "last-linear-accuracy": "on the linear feature alone, at the largest index",
        "first-ring-accuracy": "on the ring alone, at the smallest index",
        "last-ring-accuracy": "on the ring alone, at the largest index",
    }
    arrays = {
        "index": "eigen-indices of the linear feature's direction",
        "eigenvalue": "by index",
        "train-accuracy": "by index",
        "both-accuracy": "test samples with both features, by index",
        "linear-accuracy": "on the linear feature alone, by index",
        "ring-accuracy": "on the ring alone, by index",
    }
    presets = {
        "quick": {
            "indices": (2, 20, -10, -1),
            "samples": 1000,
            "epsilon": 3.0,
            "radii": (3.0, 0.25),
            "train": 4000,
            "test": 2000,
            "training": _QUICK,
        },
        "fig-5": {**_PUBLISHED, "every": 64, "training": {**_RECIPE, "epochs": 20}},
    }

    indices: tuple[int, ...] = penchant.option((), _INDICES)
    every: int = penchant.option(
        64, "take every so manieth direction where no indices are given", at_least=1
    )
    ring: tuple[int, int] = penchant.option((0, 1), "eigen-indices of the ring's plane", at_least=0)
    epsilon: float = penchant.option(
        1.0, "distance of the classes along the linear feature", above=0
    )
    radii: tuple[float, float] = penchant.option(
        (1.5, 0.25), "radius of class 0 and of class 1; 3, 0.25 for ResNet18", at_least=0
    )
    sigma: float = penchant.option(
        1.0, "standard deviation of the noise on every other direction", at_least=0
    )
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)


@attrs.frozen
class FeatureElimination(_FromGeometry):
    """Accuracy after taking out of the data the directions that an architecture is least aligned with.

    Generalised eigenvectors of (G, S), smallest G-energy per S-energy first, orthonormalised in their order; against random directions that
    explain as much of the data. Quick: `-a mlp:widths=[100,100] -d digits`.

    Reference: Geometric Inductive Biases of Deep Networks, section 5 and figure 6.
    """

    name = "feature-elimination"
    needs = ("architecture", "dataset")
    target = "penchant_gih.feature_elimination:run"
    quantities = {
        "advantage": "mean accuracy minus that with random directions, over all counts but the first"
    }
    arrays = {
        "removed": "directions taken out",
        "accuracy": "test accuracy without them",
        "random-removed": "random directions of equal explained variance",
        "random-accuracy": "test accuracy without those",
        "explained": "share of the trace of S that was taken out",
    }
    presets = {
        "quick": {
            "removed": (0, 16, 32, 48),
            "samples": 1000,
            "repeats": 2,
            "training": {**_MOMENTUM, "epochs": 5},
        },
        "fig-6": {**_PUBLISHED, "training": {**_MOMENTUM, "epochs": 50}},
    }

    removed: tuple[int, ...] = penchant.option(
        (), "how many directions are taken out; nothing: eight steps to all but one", at_least=0
    )
    ridge: float = penchant.option(
        1e-6, "added to S, in units of its mean eigenvalue, as S of real data is singular", above=0
    )


@attrs.frozen
class SamplePruning(_FromGeometry):
    """Accuracy after taking out training samples: lowest Score of each class first, against random ones.

    Score(x) = x^T G x / |x|^2, in the order of the training samples. Quick: `-a mlp:widths=[100,100] -d digits`.

    Reference: Geometric Inductive Biases of Deep Networks, section 5 and tables 1, 2. The published code applies scores of shuffled samples
    in the order of the dataset.
    """

    name = "sample-pruning"
    needs = ("architecture", "dataset")
    target = "penchant_gih.sample_pruning:run"
    quantities = {"advantage": "mean accuracy minus that of random pruning, over fractions"}
    arrays = {
        "fraction": "share of every class that was taken out",
        "accuracy": "test accuracy, lowest scores taken out",
        "random-accuracy": "test accuracy, random samples taken out",
        "score": "of every training sample, in their order",
    }
    presets = {
        "quick": {
            "fractions": (0.5, 0.9),
            "samples": 500,
            "repeats": 2,
            "training": {**_PRUNING, "epochs": 5},
        },
        "table-1": {**_PUBLISHED, "fractions": (0.3, 0.5, 0.7, 0.9), "training": _PRUNING},
        "table-2": {
            **_PUBLISHED,
            "fractions": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
            "training": _PRUNING,
        },
    }

    fractions: tuple[float, ...] = penchant.option(
        (0.3, 0.5, 0.7, 0.9), "shares taken out", at_least=0, below=1
    )


@attrs.frozen
class DecisionPlane(_FromGeometry):
    """The boundary that networks learn between two circles, drawn in the plane of the circles.

    The plane is spanned by a leading direction of G and another one; along a direction that G hardly sees, the boundary is no
    circle. Quick: `-a lenet --shape 1,16,16`.

    Reference: Geometric Inductive Biases of Deep Networks, figure 1.
    """

    name = "decision-plane"
    needs = ("architecture", "training")
    uses = ("two-circles",)
    target = "penchant_gih.decision_plane:run"
    quantities = {
        "best-aligned-accuracy": "test accuracy in the plane of the smallest second index",
        "worst-aligned-accuracy": "test accuracy in the plane of the largest second index",
    }
    arrays = {
        "second": "eigen-index of each plane's second direction",
        "eigenvalue": "of that direction",
        "train-accuracy": "by plane",
        "test-accuracy": "by plane",
        "axis": "coordinates of the grid along both directions",
        "plane": "output by plane, repeat, coordinate along the first direction, along the second",
        "points": "test samples in the plane, by plane",
        "labels": "their classes",
    }
    presets = {
        "quick": {
            "samples": 1000,
            "repeats": 2,
            "radii": (6.0, 1.0),
            "train": 4000,
            "test": 2000,
            "training": _QUICK,
        },
        "fig-1": {**_PUBLISHED, "training": {**_RECIPE, "epochs": 20}},
    }

    first: int = penchant.option(
        0, "eigen-index of the direction that all planes share", at_least=0
    )
    seconds: tuple[int, ...] = penchant.option(
        (1, -1), "eigen-indices of the other direction, one plane each"
    )
    radii: tuple[float, float] = penchant.option(
        (3.0, 0.25), "radius of class 0 and of class 1", at_least=0
    )
    sigma: float = penchant.option(
        1.0, "standard deviation of the noise outside the plane", at_least=0
    )
    grid: int = penchant.option(61, "points along each direction of the picture", at_least=2)
    extent: float = penchant.option(
        1.6, "half side of the picture, in units of the larger radius", above=0
    )
    train: int = penchant.option(10000, "training samples", at_least=2)
    test: int = penchant.option(10000, "test samples", at_least=2)
