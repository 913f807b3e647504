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

    It looks at the end of the training: `steps = 0` is the network as drawn, and a module or
    `weights` of your own are taken as they are. Errors are over samples, of this one network.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    section 3; the text centres all n C features around one mean (`all`), the published code each
    output's own (`outputs`, the default here).

    Quick: `-a 'mlp:widths=[80,80,80,80,80,80]' -d mnist:per_class=100`.
    """

    name = "tangent-kernel"
    target = "penchant_tangent.probes.tangent_kernel:run"
    figures = "penchant_tangent.figures.tangent_kernel:draw"
    needs = ("architecture", "dataset", "training")
    one_network = True
    quantities = {
        "effective-rank": "exponential of the entropy of the kernel's normalised eigenvalues",
        "cka": "alignment of the centred kernel with the labels",
        "cka-uncentred": "alignment of the kernel with the labels, neither centred",
        "trace": "trace of the kernel, the sum over samples and outputs",
        "trace-ratio-{ratios}": "share of the {ratios} largest eigenvalues in the trace",
    }
    arrays = {
        "eigenvalues": "eigenvalues of the kernel, descending",
        "trace-ratios": "share of the k largest eigenvalues in the trace, for k = 1, 2, ...",
        "layer-cka": "alignment of every layer's part of the kernel with the labels",
        "layer-cka-null": "the same with labels in random order, on average",
        "layer-trace": "trace of every layer's part; they add up to the trace",
        "kernel": "the kernel, not centred, with row i C + y; only with keep_kernel",
    }
    presets = {
        "quick": {
            "samples": 60,
            "training": {"epochs": 8, "batch": 50, "learning_rate": 0.02, "momentum": 0.9},
        },
    }

    samples: int = penchant.option(100, "samples of the kernel, drawn from `part`", at_least=8)
    part: str = penchant.option("train", "where samples are from", choices=("train", "test"))
    centring: str = penchant.option(
        "outputs", "around each output's mean, one mean of all, or not", choices=CENTRINGS
    )
    ratios: tuple[int, ...] = penchant.option(
        (40, 80, 160), "k of the trace ratios T_k that are quantities", at_least=1
    )
    permutations: int = penchant.option(200, "random orders of labels for the null", at_least=2)
    groups: int = penchant.option(10, "groups of samples that the jackknife leaves out", at_least=2)
    keep_kernel: bool = penchant.option(False, "keep the kernel as an array")

    def __attrs_post_init__(self) -> None:
        if self.groups * 2 > self.samples:
            raise penchant.Error(
                f"groups of at least two samples are needed: {self.samples} samples make at most "
                f"{self.samples // 2} groups, found {self.groups}"
            )
