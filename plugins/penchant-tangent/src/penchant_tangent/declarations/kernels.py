"""Declarations of the probes of the tangent kernel itself."""

import attrs
import penchant

CENTRINGS = ("outputs", "all", "none")


@attrs.frozen
class TangentKernel(penchant.Probe):
    r"""Spectrum of a network's tangent kernel, and its alignment with the labels.

    The kernel on some samples is
    $K_{(i,y),(j,y')} = \langle \nabla f_y(x_i), \nabla f_{y'}(x_j) \rangle$, with features centred
    by `centring`. Its effective rank is the exponential of the entropy of the normalised
    eigenvalues. The trace ratio $T_k$ is the share of the $k$ largest eigenvalues in the trace. The
    alignment with the labels is $\mathrm{CKA} = y^\top K y / (|K| |y|^2)$, where $y$ holds the
    centred one-hot labels of all samples. The same is reported per layer. Null: labels in random
    order.

    For sequences with a loss at every position it is the kernel of the sequences' loss gradients,
    and the alignment is with their losses.

    The kernel is computed after training. `steps = 0` measures the network at initialisation; your
    own module or `weights` are measured without training. Standard errors are over samples, for
    this one network.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    section 3; the text centres all n C features around one mean (`all`), the published code each
    output's own (`outputs`, the default here).
    """

    name = "tangent-kernel"
    example = (
        "penchant probe tangent-kernel -a 'mlp:widths=[80,80,80,80,80,80]' -d mnist:per_class=100"
    )
    question = "Which functions can the network learn fastest, and are the labels among them?"
    target = "penchant_tangent.tangent_kernel.probe:run"
    figures = "penchant_tangent.tangent_kernel.figures:draw"
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
    headline = penchant.Headline(
        "cka",
        above="The tangent kernel is aligned with the labels more than with labels in random order",
        below="The tangent kernel is aligned with the labels less than with labels in random order",
        neither="The tangent kernel is not significantly more aligned with the labels than with "
        "labels in random order",
    )
    arrays = {
        "eigenvalues": "eigenvalues of the kernel, descending",
        "trace-ratios": "share of the k largest eigenvalues in the trace, for k = 1, 2, ...",
        "time-constants": "steps -1 / log(1 - lambda_j / lambda_1) in which gradient descent with "
        "rate 1 / lambda_1 learns along each eigenvector; missing if an eigenvalue is zero",
        "kernel": "the kernel, not centred, with row i C + y; only with store_kernel",
        "kernel-samples": "numbers of its samples in `split`, from 0; only with store_kernel",
        "kernel-labels": "their labels; only with store_kernel",
    }
    tables = {
        "layer-cka[layer]": "alignment of every layer's kernel with the labels; null: labels in "
        "random order, on average",
        "layer-trace[layer]": "trace of every layer's kernel; they add up to the trace",
    }
    card = penchant.Card(
        50,
        ("cka", "effective-rank", "trace"),
        {"samples": 60, "ratios": (10,), "permutations": 100},
        family="tangent kernel",
    )
    presets = {
        "quick": {
            "samples": 60,
            "training": {"epochs": 40, "batch": 50, "learning_rate": 0.02, "momentum": 0.9},
        }
    }

    samples: int = penchant.option(
        100, "samples of the kernel, a random subset of `split`", at_least=8
    )
    split: str = penchant.option("train", "source of the samples", choices=("train", "test"))
    centring: str = penchant.option(
        "outputs",
        "centre around the mean of each output, one mean of all, or not",
        choices=CENTRINGS,
    )
    ratios: tuple[int, ...] = penchant.option(
        (40, 80, 160), "k of the trace ratios T_k that are quantities", at_least=1
    )
    permutations: int = penchant.option(200, "random orders of labels for the null", at_least=2)
    groups: int = penchant.option(10, "groups of samples that the jackknife leaves out", at_least=2)
    store_kernel: bool = penchant.option(False, "store the kernel as an array")

    def __attrs_post_init__(self) -> None:
        if self.groups * 2 > self.samples:
            raise penchant.Error(
                f"groups of at least two samples are needed: {self.samples} samples make at most "
                f"{self.samples // 2} groups, found groups = {self.groups}"
            )


@attrs.frozen
class ParameterDirections(penchant.Probe):
    r"""Change of the outputs along singular vectors of the Jacobian and along random directions.

    The singular vectors are $v_j = J^\top u_j / \sqrt{\lambda_j}$, for the Jacobian $J$ on some
    samples. To first order, a step of length $\epsilon$ along $v_j$ changes the outputs by
    $\epsilon \sqrt{\lambda_j}$, and along a random direction of $P$ parameters by
    $\epsilon \sqrt{\operatorname{tr} K / P}$. A change is the root mean square over samples of
    $|f(w + \epsilon v) - f(w)|$, on the samples of the Jacobian and on test samples.

    Reference: Baratin, thesis, appendix B.1.4 and figure B.1.
    """

    name = "parameter-directions"
    example = (
        "penchant probe parameter-directions -a 'mlp:widths=[80,80,80]' -d mnist:per_class=100"
    )
    question = "Which directions in parameter space change the outputs?"
    target = "penchant_tangent.parameter_directions.probe:run"
    figures = "penchant_tangent.parameter_directions.figures:draw"
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
    headline = penchant.Headline(
        "leading-ratio",
        above="The first singular vector changes the outputs more than random directions, ratio",
        below="The first singular vector changes the outputs less than random directions, ratio",
        neither="No significant difference between the first singular vector and random "
        "directions, ratio",
    )
    tables = {
        "singular-changes[vector]": "change of test outputs along each singular vector",
        "singular-changes-train[vector]": "the same on the samples of the Jacobian",
        "expected-changes[vector]": "epsilon sqrt(lambda_j / n), the first order of these",
        "random-changes[direction]": "change of test outputs along each random direction",
        "random-changes-train[direction]": "the same on the samples of the Jacobian",
    }
    arrays = {"eigenvalues": "eigenvalues of the tangent kernel, descending"}
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
    test_samples: int = penchant.option(500, "test samples at most", at_least=2)
    vectors: int = penchant.option(50, "singular vectors, and random directions", at_least=3)
    step: float = penchant.option(0.01, "epsilon, relative to the norm of all parameters", above=0)
