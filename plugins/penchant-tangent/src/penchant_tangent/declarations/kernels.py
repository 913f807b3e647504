"""Declarations of the probes that look at the tangent kernel itself."""

from __future__ import annotations

import attrs
import penchant

CENTRINGS = ("outputs", "all", "none")


@attrs.frozen
class TangentKernel(penchant.Probe):
    """The tangent kernel of a network: its spectrum, and how well it points to the labels.

    K[(i,y),(j,y')] = <grad f_y(x_i), grad f_y'(x_j)> on some samples, with features centred as
    `centring` says. Its effective rank is exp(entropy of the normalised eigenvalues), its trace
    ratio T_k the share of the k largest in the trace, and its alignment with the labels
    CKA = y^T K y / (|K| |y|^2), y the centred one-hot labels of all samples, one after another.
    The same is told of every layer's part of K. Labels in random order are the null.

    Of sequences with a loss at every position it is the kernel of the sequences' loss gradients,
    and the alignment that with their losses.

    It looks at the end of the training: `steps = 0` is the network as drawn, and a module or
    `weights` of your own are taken as they are. Errors are over samples, of this one network.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    section 3; the text centres all n C features around one mean (`all`), the published code each
    output's own (`outputs`, the default here).
    """

    name = "tangent-kernel"
    example = (
        "penchant probe tangent-kernel -a 'mlp:widths=[80,80,80,80,80,80]' -d mnist:per_class=100"
    )
    question = (
        "Which directions of function space is a network ready to learn, and do labels lie there?"
    )
    target = "penchant_tangent.probes.tangent_kernel:run"
    figures = "penchant_tangent.figures.tangent_kernel:draw"
    needs = ("architecture", "dataset", "training")
    takes = ("fresh", "trained")
    accepts = ("sequences",)
    quantities = {
        "effective-rank": "exponential of the entropy of the kernel's normalised eigenvalues; "
        "null: all equal",
        "cka": "alignment of the centred kernel with the labels",
        "cka-uncentred": "alignment of the kernel with the labels, neither centred",
        "trace": "trace of the kernel, the sum over samples and outputs",
        "trace-ratio-{ratios}": "share of the {ratios} largest eigenvalues in the trace; null: all "
        "equal",
    }
    arrays = {
        "eigenvalues": "eigenvalues of the kernel, descending",
        "trace-ratios": "share of the k largest eigenvalues in the trace, for k = 1, 2, ...",
        "layer-cka": "alignment of every layer's part of the kernel with the labels",
        "layer-cka-null": "the same with labels in random order, on average",
        "layer-trace": "trace of every layer's part; they add up to the trace",
        "time-constants": "steps -1 / log(1 - lambda_j / lambda_1) in which gradient descent with "
        "rate 1 / lambda_1 learns along each eigenvector; missing where an eigenvalue is zero",
        "kernel": "the kernel, not centred, with row i C + y; only with store_kernel",
        "kernel-samples": "numbers of its samples in `split`, from 0; only with store_kernel",
        "kernel-labels": "their labels; only with store_kernel",
    }
    presets = {
        "quick": {
            "samples": 60,
            "training": {"epochs": 40, "batch": 50, "learning_rate": 0.02, "momentum": 0.9},
        },
    }

    samples: int = penchant.option(100, "samples of the kernel, drawn from `part`", at_least=8)
    split: str = penchant.option("train", "where samples are from", choices=("train", "test"))
    centring: str = penchant.option(
        "outputs", "around each output's mean, one mean of all, or not", choices=CENTRINGS
    )
    ratios: tuple[int, ...] = penchant.option(
        (40, 80, 160), "k of the trace ratios T_k that are quantities", at_least=1
    )
    permutations: int = penchant.option(200, "random orders of labels for the null", at_least=2)
    groups: int = penchant.option(10, "groups of samples that the jackknife leaves out", at_least=2)
    store_kernel: bool = penchant.option(False, "keep the kernel as an array")

    def __attrs_post_init__(self) -> None:
        if self.groups * 2 > self.samples:
            raise penchant.Error(
                f"groups of at least two samples are needed: {self.samples} samples make at most "
                f"{self.samples // 2} groups, found groups = {self.groups}"
            )


@attrs.frozen
class ParameterDirections(penchant.Probe):
    """How much the outputs of a network change when its parameters move in some direction.

    Along the right singular vectors v_j = J^T u_j / sqrt(lambda_j) of its Jacobian on some samples,
    and along random directions. To first order a step of length epsilon along v_j changes outputs
    by epsilon sqrt(lambda_j), and along a random direction by epsilon sqrt(tr K / P) of P
    parameters: most directions do almost nothing. A change is the root of the mean square over
    samples of |f(w + epsilon v) - f(w)|, on the samples of the Jacobian and on test samples.

    Reference: Baratin, thesis, appendix B.1.4 and figure B.1.
    """

    name = "parameter-directions"
    example = (
        "penchant probe parameter-directions -a 'mlp:widths=[80,80,80]' -d mnist:per_class=100"
    )
    question = "How much do outputs change when parameters move in some direction?"
    target = "penchant_tangent.probes.parameter_directions:run"
    figures = "penchant_tangent.figures.parameter_directions:draw"
    needs = ("architecture", "dataset", "training")
    takes = ("fresh", "trained")
    quantities = {
        "leading-change": "change of test outputs along the first singular vector; null: along "
        "random directions",
        "random-change": "change of test outputs along random directions, on average",
        "leading-ratio": "change along the first singular vector over that of random directions",
        "random-change-train": "root of the mean square of changes along random directions on the "
        "Jacobian's samples; null: to first order",
        "random-change-expected": "the same to first order, epsilon sqrt(tr K / (n P))",
        "first-order-error": "relative difference of change and first order on these samples",
    }
    arrays = {
        "eigenvalues": "eigenvalues of the tangent kernel, descending",
        "singular-changes": "change of test outputs along each singular vector",
        "singular-changes-train": "the same on the samples of the Jacobian",
        "expected-changes": "epsilon sqrt(lambda_j / n), the first order of these",
        "random-changes": "change of test outputs along each random direction",
        "random-changes-train": "the same on the samples of the Jacobian",
    }
    presets = {
        "quick": {
            "samples": 60,
            "vectors": 30,
            "training": {"epochs": 8, "batch": 50, "learning_rate": 0.02, "momentum": 0.9},
        },
        "fig-b-1": {
            "samples": 100,
            "vectors": 50,
            "training": {"epochs": 10, "batch": 100, "learning_rate": 0.01, "momentum": 0.9},
        },
    }

    samples: int = penchant.option(100, "training samples of the Jacobian", at_least=2)
    test_samples: int = penchant.option(500, "test samples, all where there are fewer", at_least=2)
    vectors: int = penchant.option(50, "singular vectors, and random directions", at_least=3)
    step: float = penchant.option(
        0.01, "epsilon, over the length of the vector of all parameters", above=0
    )
