"""Declaration of the probe that follows the tangent kernel along a training."""

import attrs
import penchant

from penchant_tangent.declarations.kernels import CENTRINGS

MLP = {"batch": 100, "momentum": 0.9}
VGG = {"batch": 100, "momentum": 0.9, "epochs": 100}


@attrs.frozen
class TangentTraining(penchant.Probe):
    r"""Effective rank of the tangent kernel and its alignment with the labels, during training.

    The kernel is computed at log-spaced training steps, on a batch of training samples (with their
    training labels) and on a batch of test samples. The probe reports eigenvalues, effective rank,
    trace ratios $T_k$ and alignment with the labels (CKA), of the whole kernel and per layer, and
    the accuracies. `noise_shares` trains once for each share of random labels.

    With `difficult_samples`, that many samples with random labels, or samples of another dataset
    (`difficult_data`), are mixed with `easy_samples` ordinary ones; the alignment is then reported
    for both. True labels align with the kernel of an untrained network, too. So the lead of easy
    samples is measured relative to the first evaluation, above the alignment of permuted labels.

    Standard errors are over trainings, with other networks, orders of samples, batches and random
    labels. The null of an alignment is its exact mean over all permutations of the labels. Kernels
    are computed in double precision on the CPU, because centring cancels most of the kernel of a
    deep network.
    Along your own trajectory, `trainings` disjoint batches are measured, and standard errors are
    over these. For sequences with a label at every position, the kernel is that of the gradients of
    each sequence's loss, its alignment is with these losses, and accuracies are over positions.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    figures 2 to 4 (thesis: 4.2 to 4.4 and B.5 to B.8). Several depths are several architectures
    (B.7).
    """

    name = "tangent-training"
    example = (
        "penchant probe tangent-training -a 'mlp:widths=[80,80,80]' "
        "-d mnist:per_class=200,test_per_class=100"
    )
    question = "Do the features of a network turn towards the labels as it learns?"
    target = "penchant_tangent.tangent_training.probe:run"
    figures = "penchant_tangent.tangent_training.figures:draw"
    needs = ("architecture", "dataset", "training", "classes")
    takes = ("fresh", "trajectory")
    accepts = ("sequences",)
    uses = ("{difficult_data}",)
    quantities = {
        "effective-rank-initial-{noise_shares}": "effective rank on training samples at "
        "initialisation; "
        "null: all eigenvalues equal",
        "effective-rank-lowest-{noise_shares}": "lowest effective rank of all evaluations (biased "
        "downwards); null: at the first evaluation",
        "effective-rank-final-{noise_shares}": "effective rank on training samples at the end; "
        "null: at the first evaluation",
        "effective-rank-change-{noise_shares}": "final minus initial effective rank",
        "cka-final-{noise_shares}": "alignment with the labels on training samples at the end",
        "cka-uncentred-final-{noise_shares}": "alignment on training samples at the end, neither "
        "kernel nor labels centred",
        "cka-change-{noise_shares}": "final minus initial alignment on training samples",
        "test-cka-final-{noise_shares}": "alignment with the labels on test samples at the end",
        "test-cka-change-{noise_shares}": "final minus initial alignment on test samples",
        "train-accuracy-{noise_shares}": "accuracy on training samples and labels at the end; "
        "null: the most frequent class",
        "test-accuracy-{noise_shares}": "accuracy on test samples at the end; null: the most "
        "frequent class",
        "easy-lead-{noise_shares}": "alignment above that of labels in random order, on easy minus "
        "difficult samples, since the first evaluation, mean of the evaluations",
        "easy-ratio-{noise_shares}": "highest alignment on easy over highest on difficult samples; "
        "null: the ratio at the first evaluation",
        "rank-correlation": "of the share of random labels with the alignment that training adds "
        "above that of labels in random order; null: shares in random order",
    }
    tables = {
        "train-accuracy[share, step]": "accuracy on training samples",
        "test-accuracy[share, step]": "accuracy on test samples",
        "difficult-accuracy[share, step]": "accuracy on difficult samples",
        **{
            f"{split}-{name}[share, step{axis}]": f"{about} on {split} samples"
            for split in ("train", "test", "difficult")
            for name, about, axis in (
                ("effective-rank", "effective rank", ""),
                ("largest-eigenvalue", "largest eigenvalue", ""),
                ("mean-eigenvalue", "mean eigenvalue", ""),
                ("median-eigenvalue", "median eigenvalue", ""),
                ("trace-ratios", "share of the k largest eigenvalues", ", ratio"),
                ("cka", "alignment with the labels; null: labels in random order", ""),
                ("cka-uncentred", "alignment without centring; null: labels in random order", ""),
                ("layer-cka", "alignment of every layer's kernel", ", layer"),
            )
        },
    }
    arrays = {"steps": "training steps of the evaluations"}
    presets = {
        "quick": {
            "samples": 40,
            "evaluations": 6,
            "trainings": 3,
            "training": {**MLP, "epochs": 10, "learning_rate": 0.02},
        },
        "fig-4-2": {
            "noise_shares": (0.0, 0.5, 1.0),
            "evaluations": 30,
            "training": {**VGG, "learning_rate": 0.01},
        },
        "fig-4-4": {
            "easy_samples": 10000,
            "difficult_samples": 1000,
            "evaluations": 30,
            "training": {**MLP, "epochs": 100, "learning_rate": 0.02},
        },
        "fig-b-5": {"evaluations": 30, "training": {**VGG, "learning_rate": 0.01}},
        "fig-b-7": {
            "easy_samples": 10000,
            "difficult_samples": 1000,
            "evaluations": 30,
            "trainings": 5,
            "training": {**MLP, "epochs": 100, "learning_rate": 0.01},
        },
        "fig-b-8": {
            "noise_shares": (0.0, 0.5),
            "evaluations": 30,
            "training": {**VGG, "learning_rate": 0.003},
        },
    }

    trainings: int = penchant.option(
        3, "trainings for each share of random labels; batches of a trajectory", at_least=2
    )
    samples: int = penchant.option(100, "samples of each batch", at_least=4)
    evaluations: int = penchant.option(
        12, "number of log-spaced evaluations, including step 0", at_least=2
    )
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, "training steps at which to evaluate, instead of log-spaced ones", at_least=0
    )
    noise_shares: tuple[float, ...] = penchant.option(
        (0.0,), "shares of training labels replaced by uniformly random ones", at_least=0, at_most=1
    )
    easy_samples: int | None = penchant.option(
        None, "ordinary training samples; None: all", at_least=4
    )
    difficult_samples: int | None = penchant.option(
        None, "difficult samples mixed with the others; None: no such samples", at_least=4
    )
    difficult_data: str | None = penchant.option(
        None, "dataset of the difficult samples; None: random labels"
    )
    centring: str = penchant.option(
        "outputs",
        "centre around the mean of each output, one mean of all, or not",
        choices=CENTRINGS,
    )
    ratios: tuple[int, ...] = penchant.option(
        (40, 80, 160), "k of the trace ratios T_k", at_least=1
    )

    def __attrs_post_init__(self) -> None:
        if self.difficult_data is not None and self.difficult_samples is None:
            raise penchant.Error(
                f"difficult_data needs difficult_samples, found only {self.difficult_data!r}"
            )
        if not self.noise_shares:
            raise penchant.Error("noise_shares must have at least one share, such as 0.0")
