"""Declarations of the probes about linear models: SuperNat, and norms as capacity."""

import attrs
import penchant


@attrs.frozen
class SuperNat(penchant.Probe):
    r"""Test error of gradient descent and of SuperNat, which rescales features along the residual.

    A linear model $f = \langle w, \Phi \rangle$ is fitted by gradient descent on
    $L = |f - y|^2 / (2 n)$. After every step, SuperNat rescales the eigenvalues of the kernel,
    $\lambda_j \leftarrow |u_j \cdot \nabla_f L| \lambda_j / \kappa$ (proposition 4.3). This freezes
    directions with a small residual, which are mostly noise. $\kappa$ is free in the paper; here it
    is the largest $|u_j \cdot \nabla_f L|$, so no eigenvalue grows and steps remain stable.

    Without architecture and dataset, the problem is linear: one signal feature $N(0, 1)$, $d$ noise
    features $N(0, 1/d)$, and $y = \phi + P \epsilon$ with $\epsilon$ of variance `noise`. The test
    error is then exact, over the whole distribution. With both, the features are the tangent
    features of fresh networks, with normal noise of the same variance on the training labels; the
    test error is on test samples. Standard errors are over trainings; the difference is paired.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    section 4.1 and figure 5 (thesis: 4.5). Its $P_\text{noise} = \phi \phi^\top$ is not a
    projection; this one is $\phi (\phi^\top \phi)^{-1} \phi^\top$.
    """

    name = "supernat"
    question = "Does rescaling features along the residual make gradient descent robust to noise?"
    target = "penchant_tangent.supernat.probe:run"
    figures = "penchant_tangent.supernat.figures:draw"
    accepts = ("architecture", "dataset")
    quantities = {
        "final-error-gradient-descent": "test error of gradient descent after the last step; null: "
        "prediction 0",
        "final-error-supernat": "test error of SuperNat after the last step; null: prediction 0",
        "final-difference": "SuperNat minus gradient descent, after the last step, paired",
        "lowest-error-gradient-descent": "lowest test error of gradient descent over all steps; "
        "null: prediction 0",
        "lowest-error-supernat": "lowest test error of SuperNat over all steps; null: prediction 0",
        "lowest-difference": "SuperNat minus gradient descent, lowest errors, paired",
        "wins": "share of trainings in which SuperNat ends with the lower error",
    }
    headline = penchant.Headline(
        "final-difference",
        above="SuperNat ends with a larger test error than gradient descent",
        below="SuperNat ends with a smaller test error than gradient descent",
        neither="No significant difference between the test errors of SuperNat and gradient "
        "descent",
    )
    tables = {
        "test-error-gradient-descent[step]": "test error of gradient descent",
        "test-error-supernat[step]": "test error of SuperNat",
        "train-error-gradient-descent[step]": "training error of gradient descent",
        "train-error-supernat[step]": "training error of SuperNat",
    }
    arrays = {
        "steps": "steps",
        "eigenvalues-first": "eigenvalues of the first training's kernel, before training",
        "eigenvalues-last": "the same directions after SuperNat's last step",
    }
    presets = {"quick": {"trainings": 20}, "fig-4-5": {"trainings": 20}}

    trainings: int = penchant.option(
        20, "random problems, each trained with both methods", at_least=2
    )
    inputs: int = penchant.option(10, "noise features d of the linear problem", at_least=1)
    train: int = penchant.option(50, "training samples n", at_least=4)
    noise: float = penchant.option(0.1, "variance of the noise in the labels", at_least=0)
    descent_steps: int = penchant.option(200, "steps of both", at_least=1)
    rate: float = penchant.option(
        0.5, "learning rate times the largest eigenvalue over n, at first", above=0, below=2
    )


@attrs.frozen
class Capacity(penchant.Probe):
    r"""Rademacher complexity of norm balls, compared with the test error of linear models.

    The models use random features of the kernel $\exp(-\gamma |x - x'|^2)$. Its eigenvalues are
    rescaled, $l_j \to 1 + c (l_j - 1)$, from white ($c = 0$) to unchanged ($c = 1$). For each
    training set of $n$ points, the interpolator $w$ of least norm lies in a ball of the norm
    $|w|_A$. The Rademacher complexity of the ball is
    $(|w|_A / n)\, \mathbb{E} \sqrt{\sigma^\top K_A \sigma}$, which is simulated, and at most
    $(|w|_A / n) \sqrt{\operatorname{tr} K_A}$. $A = 1$ gives the usual bound. The best rescaling of
    singular values, $\nu_j = \lambda_j / |u_j \cdot y|$ (proposition B.7), gives
    $\sum_j |u_j \cdot y| / n$, which is never larger. The probe also reports the bounds on the test
    error that follow, at the interpolator's margin of 1.

    Labels are the signs of the first eigenvector that has both signs. At $c = 1$ most eigenvalues
    are zero up to rounding and there is no interpolator; the bound diverges before that. The paper
    does not give its points or its values of $c$; here points are in $[-5, 5]$ and $c$ comes close
    to 1. Features are the same for every seed; standard errors are over training sets.

    Reference: Baratin, thesis, appendix B.2.5 and figure B.3.
    """

    name = "capacity"
    question = "Which norm gives a bound on capacity that follows the test error?"
    target = "penchant_tangent.capacity.probe:run"
    figures = "penchant_tangent.capacity.figures:draw"
    quantities = {
        "bound-l2": "bound of the ball of the usual norm, at the largest scaling",
        "bound-optimal": "bound of the ball of the best norm, at the largest scaling",
        "bound-ratio": "usual bound over best bound, at the largest scaling",
        "tightness-l2": "simulated complexity over its bound, usual norm, at the largest scaling",
        "tightness-optimal": "the same for the best norm",
        "error-bound-l2": "bound of the test error by the usual norm, (38) with (40), at the "
        "largest scaling; vacuous from 1 on",
        "error-bound-optimal": "the same for the best norm",
        "test-error": "share of other points with the wrong sign, at the largest scaling",
        "rank-correlation-l2": "of usual bound and test error over scalings, mean of the draws; "
        "null: scalings in random order",
        "rank-correlation-optimal": "of best bound and test error over scalings, mean of the "
        "draws; null: scalings in random order",
    }
    headline = penchant.Headline(
        "rank-correlation-optimal",
        above="The bound of the best norm follows the test error, rank correlation",
        below="The bound of the best norm moves against the test error, rank correlation",
        neither="The bound of the best norm does not follow the test error significantly, rank "
        "correlation",
    )
    tables = {
        "bound-l2[scaling]": "bound of the usual norm",
        "bound-optimal[scaling]": "bound of the best norm",
        "error-bound-l2[scaling]": "bound of the test error by the usual norm",
        "error-bound-optimal[scaling]": "bound of the test error by the best norm",
        "rademacher-l2[scaling]": "simulated complexity of the usual norm's ball",
        "rademacher-optimal[scaling]": "simulated complexity of the best norm's ball",
        "test-error[scaling]": "share of other points with the wrong sign",
    }
    arrays = {
        "scalings": "c",
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
    training_sets: int = penchant.option(100, "random training sets", at_least=2)
    train: int = penchant.option(50, "points n of a training set", at_least=4)
    features: int = penchant.option(1000, "random features P", at_least=4)
    grid_points: int = penchant.option(1000, "equally spaced points in all", at_least=8)
    gamma: float = penchant.option(1.0, "of the kernel exp(-gamma |x - x'|^2)", above=0)
    eigenvector: int | None = penchant.option(
        None,
        "index of the eigenvector whose signs are the labels; None: the first with both",
        at_least=0,
    )
    signs: int = penchant.option(1000, "random sign vectors per complexity", at_least=2)

    def __attrs_post_init__(self) -> None:
        if self.train >= self.grid_points:
            raise penchant.Error(
                f"train must be below grid_points, {self.grid_points}, found {self.train}"
            )
        if self.features < self.grid_points:
            raise penchant.Error(
                f"features must be at least grid_points, {self.grid_points}, so that white "
                f"features can separate all points; found {self.features}"
            )
