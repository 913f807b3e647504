"""Declarations of the probes about linear models: SuperNat, and norms as capacity."""

from __future__ import annotations

import attrs
import penchant


@attrs.frozen
class SuperNat(penchant.Probe):
    """Gradient descent against SuperNat, which stretches features along what is left to learn.

    A linear model f = <w, Phi> is fitted by gradient descent on L = |f - y|^2 / (2 n). SuperNat
    rescales the eigenvalues of its kernel after every step,
    lambda_j <- |u_j . grad_f L| lambda_j / kappa (proposition 4.3), which freezes directions in
    which little is left to learn: noise. kappa is free in the paper; here it is the largest
    |u_j . grad_f L|, so that no direction is stretched beyond its first scale and steps stay
    stable.

    Without architecture and dataset: the noisy linear problem, one signal feature N(0, 1) and d
    noise features N(0, 1/d), y = phi + P eps, eps of variance `noise`; the test error is that of
    the whole distribution, exactly. With both: the tangent features of networks as they are drawn,
    with normal noise of the same variance on the training labels; the test error is on test
    samples. Errors are over trainings; the difference is paired.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    section 4.1 and figure 5 (thesis: 4.5). Its P_noise = phi phi^T is no projection; this one is
    phi (phi^T phi)^-1 phi^T.
    """

    name = "supernat"
    question = "Does stretching features along what is left to learn help gradient descent?"
    target = "penchant_tangent.probes.supernat:run"
    figures = "penchant_tangent.figures.supernat:draw"
    accepts = ("architecture", "dataset")
    quantities = {
        "final-error-gradient-descent": "test error of gradient descent after the last step; null: "
        "of zero",
        "final-error-supernat": "test error of SuperNat after the last step; null: of zero",
        "final-difference": "SuperNat minus gradient descent, after the last step, paired",
        "lowest-error-gradient-descent": "lowest test error of gradient descent on its way; null: "
        "of zero",
        "lowest-error-supernat": "lowest test error of SuperNat on its way; null: of zero",
        "lowest-difference": "SuperNat minus gradient descent, each at its best, paired",
        "wins": "share of trainings in which SuperNat ends with the lower error",
    }
    arrays = {
        "steps": "steps",
        "test-error-gradient-descent": "test error of gradient descent, (steps,)",
        "test-error-supernat": "test error of SuperNat, (steps,)",
        "train-error-gradient-descent": "training error of gradient descent, (steps,)",
        "train-error-supernat": "training error of SuperNat, (steps,)",
        "eigenvalues-first": "eigenvalues of the first training's kernel, before training",
        "eigenvalues-last": "the same directions after SuperNat's last step",
    }
    presets = {"quick": {"trainings": 20}, "fig-4-5": {"trainings": 20}}

    trainings: int = penchant.option(20, "problems drawn, each trained both ways", at_least=2)
    inputs: int = penchant.option(10, "noise features d of the linear problem", at_least=1)
    train: int = penchant.option(50, "training samples n", at_least=4)
    noise: float = penchant.option(0.1, "variance of the noise in the labels", at_least=0)
    descent_steps: int = penchant.option(200, "steps of both", at_least=1)
    rate: float = penchant.option(
        0.5, "learning rate times the largest eigenvalue over n, at first", above=0, below=2
    )


@attrs.frozen
class Capacity(penchant.Probe):
    """Which norm measures capacity? Rademacher complexity of norm balls against test error.

    Linear models on random features of the kernel exp(-gamma |x - x'|^2), whose eigenvalues are
    rescaled, l_j -> 1 + c (l_j - 1), from white (c = 0) to as they are (c = 1). On each draw of n
    points the interpolator w of least norm lies in a ball of the norm |w|_A; the ball's Rademacher
    complexity is (|w|_A / n) E sqrt(sigma^T K_A sigma), simulated, and at most
    (|w|_A / n) sqrt(tr K_A). A = 1 gives the usual bound; the best rescaling of singular values,
    nu_j = lambda_j / |u_j . y| (proposition B.7), gives sum_j |u_j . y| / n, never more. Beside the
    test error stand the bounds of it that follow, at the interpolator's margin of 1.

    Labels are the signs of the first eigenvector of all features that has both: the very first of a
    kernel with positive entries has one sign only. At c = 1 most eigenvalues are zero to rounding,
    and no interpolator is left; the bound grows without limit before that. The paper says neither
    where its points lie nor at which c; here they are in [-5, 5], and c comes close to 1. Features
    are part of the problem (`features_seed`): errors are over draws of training sets.

    Reference: Baratin, thesis, appendix B.2.5 and figure B.3.
    """

    name = "capacity"
    question = "Which norm bounds a network's capacity closely enough to follow its test error?"
    target = "penchant_tangent.probes.capacity:run"
    figures = "penchant_tangent.figures.capacity:draw"
    quantities = {
        "bound-l2": "bound of the ball of the usual norm, at the largest scaling",
        "bound-optimal": "bound of the ball of the best norm, at the largest scaling",
        "bound-ratio": "usual bound over best bound, at the largest scaling",
        "tightness-l2": "simulated complexity over its bound, usual norm, at the largest scaling",
        "tightness-optimal": "the same for the best norm",
        "error-bound-l2": "bound of the test error by the usual norm, (38) with (40), at the "
        "largest scaling; from 1 on it says nothing",
        "error-bound-optimal": "the same for the best norm",
        "test-error": "share of other points with the wrong sign, at the largest scaling",
        "rank-correlation-l2": "of usual bound and test error over scalings, mean of the draws; "
        "null: scalings in random order",
        "rank-correlation-optimal": "of best bound and test error over scalings, mean of the "
        "draws; null: scalings in random order",
    }
    arrays = {
        "scalings": "c",
        "bound-l2": "bound of the usual norm, (scalings,)",
        "bound-optimal": "bound of the best norm, (scalings,)",
        "error-bound-l2": "bound of the test error by the usual norm, (scalings,)",
        "error-bound-optimal": "bound of the test error by the best norm, (scalings,)",
        "rademacher-l2": "simulated complexity of the usual norm's ball, (scalings,)",
        "rademacher-optimal": "simulated complexity of the best norm's ball, (scalings,)",
        "test-error": "share of other points with the wrong sign, (scalings,)",
        "solutions": "interpolators along two eigenvectors, centred, (scalings, draws, 2)",
    }
    presets = {
        "quick": {"features": 300, "grid_points": 300, "training_sets": 20, "signs": 100},
        "fig-b-3": {"features": 1000, "grid_points": 1000, "training_sets": 100, "signs": 1000},
    }

    scalings: tuple[float, ...] = penchant.option(
        (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 0.9999),
        "c, from white features to those of the kernel",
        at_least=0,
        at_most=1,
    )
    training_sets: int = penchant.option(100, "training sets drawn", at_least=2)
    train: int = penchant.option(50, "points n of a training set", at_least=4)
    features: int = penchant.option(1000, "random features P", at_least=4)
    grid_points: int = penchant.option(1000, "equally spaced points in all", at_least=8)
    half_width: float = penchant.option(5.0, "points are in [-a, a]", above=0)
    features_seed: int = penchant.option(
        0, "which random features; the same for every seed of the experiment", at_least=0
    )
    gamma: float = penchant.option(1.0, "of the kernel exp(-gamma |x - x'|^2)", above=0)
    eigenvector: int | None = penchant.option(
        None, "whose signs are the labels, from 0; nothing: the first with both", at_least=0
    )
    signs: int = penchant.option(1000, "draws of random signs a complexity", at_least=2)

    def __attrs_post_init__(self) -> None:
        if self.train >= self.grid_points:
            raise penchant.Error(
                f"train must be below grid_points, {self.grid_points}, found {self.train}"
            )
        if self.features < self.grid_points:
            raise penchant.Error(
                f"features must be at least grid_points, {self.grid_points}, so that white "
                f"features can tell all points apart; found {self.features}"
            )
