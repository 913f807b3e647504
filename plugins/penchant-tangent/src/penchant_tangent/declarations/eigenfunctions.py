"""Declarations of the disk, and of the probe that draws a tangent kernel's eigenfunctions."""

import attrs
import penchant


@attrs.frozen
class Disk(penchant.Dataset):
    """Points of the square [-1, 1]^2; those in the disk of half its area are class 1.

    The radius is sqrt(2 / pi), so that both classes are equally likely.

    Reference: Baratin, thesis, appendix B.3.1 and figure B.4.
    """

    name = "disk"
    target = "penchant_tangent.datasets.disk:load"

    train: int = penchant.option(500, "training samples", at_least=1)
    test: int = penchant.option(500, "test samples", at_least=1)


@attrs.frozen
class TangentEigenfunctions(penchant.Probe):
    r"""Eigenfunctions of the tangent kernel of a network with one output, during training.

    The kernel is computed on a grid over the range of the training inputs, which have one or two
    components. Its leading eigenvectors are pictures in the plane, or have a Fourier spectrum on
    the line. Each evaluation reports the ratio $\lambda_k / \lambda_1$ and the share of the
    (centred) training labels in the $k$ leading eigenfunctions. These are evaluated at the training
    samples by $u_j(x) = K(x, \text{grid})\, u_j / \lambda_j$ and orthonormalised there.

    Lemma 4.1 predicts how fast each function is learnt: a small gradient step changes the outputs
    by $-\eta \lambda_j (u_j \cdot \nabla L)$ along $u_j$. `speed-error` compares this with the
    actual change on the training samples, at the last evaluation.

    Standard errors are over trainings. The null of the label share is labels in random order.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    figure 1 and lemma 1 (thesis: 4.1, B.2). The ratio lambda_10 / lambda_1 of 4 % printed with
    figure B.2 is not that of PyTorch's initialisation.
    """

    name = "tangent-eigenfunctions"
    example = "penchant probe tangent-eigenfunctions -a 'mlp:widths=[64,64,64]' -d disk:train=200"
    question = (
        "Which functions does a network learn fastest, and how do they change during training?"
    )
    target = "penchant_tangent.tangent_eigenfunctions.probe:run"
    figures = "penchant_tangent.tangent_eigenfunctions.figures:draw"
    needs = ("architecture", "dataset", "training", "scalar-output", "continuous-inputs")
    quantities = {
        "decay-{eval_steps}": "eigenvalue number `leading` over the first, at step {eval_steps}; "
        "null: all equal",
        "label-share-{eval_steps}": "share of the labels in the leading functions, at step "
        "{eval_steps}",
        "speed-error": "relative error of the first-order change of outputs in a small step",
        "frequency-correlation": "rank correlation of index and frequency, first evaluation, on "
        "a line; "
        "null: functions in random order",
    }
    tables = {
        "eigenvalues[step, index]": "of the kernel on the grid, first training",
        "eigenfunctions[step, index, point]": "on the grid, first training",
        "amplitudes[step, index, frequency]": "Fourier amplitudes on a line, first training",
        "measured-speeds[eigenvector]": "change along each eigenvector over the step's rate, first "
        "training",
        "expected-speeds[eigenvector]": "-lambda_j u_j . grad L, first training",
    }
    arrays = {
        "steps": "training steps of the evaluations",
        "grid": "coordinates of the grid, (points, components)",
    }
    presets = {
        "quick": {
            "grid_points": 16,
            "trainings": 2,
            "eval_steps": (0, 200),
            "training": {"steps": 200, "batch": 0, "learning_rate": 0.5},
        },
        "fig-4-1": {
            "grid_points": 50,
            "eval_steps": (0, 100, 500, 1000, 2000),
            "training": {"steps": 2000, "batch": 0, "learning_rate": 0.1},
        },
        "fig-b-2": {
            "grid_points": 50,
            "leading": 40,
            "trainings": 5,
            "eval_steps": (0,),
            "training": {"steps": 0, "loss": "squared-error"},
        },
    }

    grid_points: int = penchant.option(50, "points along each component", at_least=4)
    leading: int = penchant.option(20, "leading eigenfunctions", at_least=2)
    trainings: int = penchant.option(3, "independent trainings", at_least=2)
    eval_steps: tuple[int, ...] = penchant.option(
        (0,), "training steps at which to evaluate", at_least=0
    )
    centring: str = penchant.option(
        "outputs", "centre around the mean over the grid, or not", choices=("outputs", "none")
    )
    step: float = penchant.option(
        1e-3, "rate of the gradient step, times the largest eigenvalue over n", above=0
    )
