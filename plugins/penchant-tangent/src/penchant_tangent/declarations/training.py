"""Declaration of the probe that follows the tangent kernel along a training."""

from __future__ import annotations

import attrs
import penchant

from penchant_tangent.declarations.kernels import CENTRINGS

MLP = {"batch": 100, "momentum": 0.9}
VGG = {"batch": 100, "momentum": 0.9, "epochs": 100}


@attrs.frozen
class TangentTraining(penchant.Probe):
    """How the tangent kernel changes while a network learns: fewer directions, towards the labels.

    At log-spaced steps of every training, on a batch of training samples (with the labels they are
    trained on) and a batch of test samples: eigenvalues, effective rank, trace ratios T_k and
    alignment with the labels (CKA), of the whole kernel and of every layer's part, beside the
    accuracies. `noise_shares` trains once for each share of labels that are drawn anew.

    With `difficult_samples`, as many samples with random labels, or with images and labels of
    another dataset (`difficult_data`), are put among `easy_samples` ordinary ones; alignment is
    then told of both. True labels align with the kernel of an untrained network, too, so the lead
    of easy samples counts from the first look on, above what labels in random order align by.

    Standard errors are over trainings: other networks, orders of samples, batches, random labels.
    Along a trajectory of your own, `trainings` batches without a common sample are looked at, and
    standard errors are over these. The null of an alignment is its mean over all orders of the
    labels, exactly. Kernels are taken in double precision on the CPU, because centring leaves
    little of those of deep networks.

    Reference: Baratin et al., "Implicit Regularization via Neural Feature Alignment", AISTATS 2021,
    figures 2 to 4 (thesis: 4.2 to 4.4 and B.5 to B.8). Several depths are several architectures
    (B.7).
    """

    name = "tangent-training"
    example = (
        "penchant probe tangent-training -a 'mlp:widths=[80,80,80]' "
        "-d mnist:per_class=200,test_per_class=100"
    )
    question = "Does the tangent kernel turn towards the labels while a network learns?"
    target = "penchant_tangent.probes.tangent_training:run"
    figures = "penchant_tangent.figures.tangent_training:draw"
    needs = ("architecture", "dataset", "training", "classes")
    takes = ("fresh", "trajectory")
    uses = ("{difficult_data}",)
    quantities = {
        "effective-rank-initial-{noise_shares}": "effective rank on training samples, as drawn; "
        "null: all eigenvalues equal",
        "effective-rank-lowest-{noise_shares}": "lowest of all looks; chance makes it lower still; "
        "null: at the first look",
        "effective-rank-final-{noise_shares}": "effective rank on training samples, in the end; "
        "null: at the first look",
        "effective-rank-change-{noise_shares}": "final minus initial effective rank",
        "cka-final-{noise_shares}": "alignment with the labels on training samples, in the end",
        "cka-uncentred-final-{noise_shares}": "alignment on training samples in the end, neither "
        "kernel nor labels centred",
        "cka-change-{noise_shares}": "final minus initial alignment on training samples",
        "test-cka-final-{noise_shares}": "alignment with the labels on test samples, in the end",
        "test-cka-change-{noise_shares}": "final minus initial alignment on test samples",
        "train-accuracy-{noise_shares}": "accuracy on training samples and labels, in the end; "
        "null: the commonest class",
        "test-accuracy-{noise_shares}": "accuracy on test samples, in the end; null: the commonest "
        "class",
        "easy-lead-{noise_shares}": "alignment above that of labels in random order, on easy minus "
        "difficult samples, since the first look, mean of the looks",
        "easy-ratio-{noise_shares}": "highest alignment on easy over highest on difficult samples; "
        "null: the ratio at the first look",
        "rank-correlation": "of the share of random labels with the alignment that training adds "
        "above that of labels in random order; null: shares in random order",
    }
    arrays = {
        "steps": "steps looked at",
        "train-accuracy": "accuracy on training samples, (shares, looks)",
        "test-accuracy": "accuracy on test samples, (shares, looks)",
        "difficult-accuracy": "accuracy on difficult samples, (shares, looks)",
        **{
            f"{part}-{name}": f"{about} on {part} samples, (shares, looks{axis})"
            for part in ("train", "test", "difficult")
            for name, about, axis in (
                ("effective-rank", "effective rank", ""),
                ("largest-eigenvalue", "largest eigenvalue", ""),
                ("mean-eigenvalue", "mean eigenvalue", ""),
                ("median-eigenvalue", "median eigenvalue", ""),
                ("trace-ratios", "share of the k largest eigenvalues", ", ratios"),
                ("cka", "alignment with the labels", ""),
                ("cka-null", "the same for labels in random order", ""),
                ("cka-uncentred", "alignment without centring", ""),
                ("cka-uncentred-null", "the same for labels in random order", ""),
                ("layer-cka", "alignment of every layer's part", ", layers"),
            )
        },
    }
    presets = {
        "quick": {
            "samples": 40,
            "looks": 6,
            "trainings": 3,
            "training": {**MLP, "epochs": 10, "learning_rate": 0.02},
        },
        "fig-4-2": {
            "noise_shares": (0.0, 0.5, 1.0),
            "looks": 30,
            "training": {**VGG, "learning_rate": 0.01},
        },
        "fig-4-4": {
            "easy_samples": 10000,
            "difficult_samples": 1000,
            "looks": 30,
            "training": {**MLP, "epochs": 100, "learning_rate": 0.02},
        },
        "fig-b-5": {"looks": 30, "training": {**VGG, "learning_rate": 0.01}},
        "fig-b-7": {
            "easy_samples": 10000,
            "difficult_samples": 1000,
            "looks": 30,
            "trainings": 5,
            "training": {**MLP, "epochs": 100, "learning_rate": 0.01},
        },
        "fig-b-8": {
            "noise_shares": (0.0, 0.5),
            "looks": 30,
            "training": {**VGG, "learning_rate": 0.003},
        },
    }

    trainings: int = penchant.option(
        3, "trainings for each share of random labels; batches of a trajectory", at_least=2
    )
    samples: int = penchant.option(100, "samples of each batch", at_least=4)
    looks: int = penchant.option(12, "log-spaced steps looked at, the first included", at_least=2)
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, "steps looked at instead of log-spaced ones", at_least=0
    )
    noise_shares: tuple[float, ...] = penchant.option(
        (0.0,),
        "shares of training labels drawn anew, uniformly over all classes",
        at_least=0,
        at_most=1,
    )
    easy_samples: int | None = penchant.option(
        None, "training samples that are used; nothing: all", at_least=4
    )
    difficult_samples: int | None = penchant.option(
        None, "difficult samples put among the others; nothing: none", at_least=4
    )
    difficult_data: str | None = penchant.option(
        None, "a dataset that difficult samples are from; nothing: random labels instead"
    )
    centring: str = penchant.option(
        "outputs", "around each output's mean, one mean of all, or not", choices=CENTRINGS
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
