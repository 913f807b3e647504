"""Probes that use information: generative models and the information bottleneck."""

from __future__ import annotations

import attrs
import penchant

from penchant_mine.declared.estimators import ACTIVATIONS

PLANE = {"steps": 5000, "batch": 100, "learning_rate": 1e-4, "repeats": 5, "judged": 10000}
STACKED = {
    "noise": 50,
    "code": 50,
    "prior": "uniform",
    "steps": 64000,
    "batch": 100,
    "judged": 26000,
    "classifier_steps": 4000,
    "repeats": 5,
}


@attrs.frozen
class GanModes(penchant.Probe):
    """Modes of the data that a GAN captures, with and without a term for the information between samples and code.

    The generator's input is [noise, code]; with MINE it also maximises I(sample; code), its gradient clipped to the length of the
    adversarial one. Points are judged by one normal a mode, stacked digits by a classifier trained in the run. The null is test
    data. Quick, and with networks a quarter as wide and fewer steps than published: `-d twenty-five-gaussians` or `-d spiral`;
    published scale: `-p fig-5-4`. Stacked MNIST wants a GPU.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018 (thesis: section 5.1, appendix C.1).
    """

    name = "gan-modes"
    needs = ("dataset",)
    target = "penchant_mine.gan_modes:run"
    quantities = {
        "modes-gan": "modes among the samples of the GAN; null: among as many of the test data",
        "modes-mine": "the same with the term for information",
        "kl-gan": "KL of the samples' modes to the data's; null: of test data",
        "kl-mine": "the same with the term for information",
        "quality-gan": "share of samples that belong to a mode; null: of test data",
        "quality-mine": "the same with the term for information",
        "information-mine": "I(sample; code) at the end of training, on training batches",
    }
    arrays = {
        "samples-data": "test data",
        "samples-gan": "samples of the first training",
        "samples-mine": "the same with the term for information",
        "modes-by-training-<variant>": "modes captured, by training",
        "kl-by-training-<variant>": "KL, by training",
        "quoted": "modes and KL of other methods, quoted, for stacked MNIST",
    }
    presets = {
        "quick": {
            "steps": 1000,
            "generator": (128, 128),
            "discriminator": (128, 128, 128),
            "learning_rate": 1e-3,
            "repeats": 2,
            "judged": 2000,
            "channels": (8, 16, 32, 64),
            "hidden": 64,
        },
        "fig-5-3": PLANE,
        "fig-5-4": PLANE,
        "fig-5-5": STACKED,
        "table-5-1": STACKED,
    }

    beta: float = penchant.option(1.0, "weight of the information", at_least=0)
    steps: int = penchant.option(5000, "training steps", at_least=1)
    batch: int = penchant.option(100, "samples a step", at_least=2)
    learning_rate: float = penchant.option(1e-4, "of Adam, for every network", above=0)
    generator: tuple[int, ...] = penchant.option(
        (500, 500), "hidden layers of the generator of points, batch-normalised", at_least=1
    )
    discriminator: tuple[int, ...] = penchant.option(
        (400, 400, 400), "hidden layers of discriminator and statistics network", at_least=1
    )
    channels: tuple[int, ...] = penchant.option(
        (64, 128, 256, 512), "feature maps for images, as the discriminator meets them", at_least=1
    )
    hidden: int = penchant.option(
        1024, "linear layer of the statistics network for images", at_least=0
    )
    noise: int = penchant.option(2, "components of the noise", at_least=1)
    code: int = penchant.option(2, "components of the code", at_least=1)
    prior: str = penchant.option("normal", "of noise and code", choices=("normal", "uniform"))
    ema: float = penchant.option(
        0.01, "weight of the newest batch in the average of the denominator", above=0, at_most=1
    )
    repeats: int = penchant.option(5, "independent trainings of each variant", at_least=1)
    judged: int = penchant.option(10000, "samples judged", at_least=10)
    segments: int = penchant.option(
        20, "modes that unlabelled data (spiral) is cut into along its label", at_least=2
    )
    classifier_steps: int = penchant.option(
        500, "training steps of the classifier for images", at_least=1
    )


ROWS = (
    "baseline",
    "dropout",
    "confidence-penalty",
    "label-smoothing",
    "variational",
    "variational-noise",
    "mine-gaussian",
    "mine-propagated",
    "mine-additive",
)
JUDGE = {"name": "mine", "scaling": "whole"}


@attrs.frozen
class InformationBottleneck(penchant.Probe):
    """Classification with a representation Z that keeps little information about X: nine ways to regularise, side by side.

    `mine-*` add beta I(X; Z), estimated by a statistics network that is trained along, for three noisy encoders; the others are no
    regulariser, dropout, confidence penalty, label smoothing, and the variational bottleneck without and with noise on the input.
    I(X; Z) of what was learnt is measured afterwards on test samples: by an estimator, and for Gaussian encoders also from their
    density. A lower bound is minimised, so an encoder may only hide information from the statistics network. Reduced (samples,
    width, epochs; errors are larger than published): quick, `-d digits` or `-d mnist:per_class=200,test_per_class=100`. Published
    scale: `-p table-5-3 -d mnist`, on a GPU.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018; Alemi et al. 2017 (thesis: table 5.3).
    """

    name = "information-bottleneck"
    needs = ("dataset",)
    roles = {"mutual-information": "mine"}
    target = "penchant_mine.information_bottleneck:run"
    quantities = {
        "error-<row>": "misclassified share of the test samples; null: always the commonest class",
        "information-<row>": "I(X; Z) on test samples, by the chosen estimator; null: shuffled pairs",
        "information-density-<row>": "the same from the density of a Gaussian encoder, over the test inputs",
    }
    arrays = {
        "beta": "weights of the information in the sweep",
        "information-by-beta": "I(X; Z) of the Gaussian encoder, by the chosen estimator",
        "density-by-beta": "the same from its density",
        "error-by-beta": "misclassified share",
    }
    presets = {
        "quick": {
            "widths": (128, 128),
            "code": 16,
            "statistics": 128,
            "epochs": 10,
            "learning_rate": 1e-3,
            "repeats": 2,
            "betas": (0.0, 0.1, 1.0, 3.0),
            "estimators": {
                "mutual-information": {
                    **JUDGE,
                    "steps": 300,
                    "batch": 128,
                    "repeats": 2,
                    "null_repeats": 1,
                }
            },
        },
        "table-5-3": {"repeats": 10, "estimators": {"mutual-information": JUDGE}},
    }

    rows: tuple[str, ...] = penchant.option(ROWS, "which rows of the table", choices=ROWS)
    betas: tuple[float, ...] = penchant.option(
        (), "weights of the information to try with the Gaussian encoder", at_least=0
    )
    beta_mine: float = penchant.option(1e-3, "weight of the information", at_least=0)
    beta_variational: float = penchant.option(
        1e-3, "weight of the KL of the variational bottleneck", at_least=0
    )
    beta_confidence: float = penchant.option(0.1, "weight of the confidence penalty", at_least=0)
    smoothing: float = penchant.option(0.1, "label smoothing", at_least=0, below=1)
    dropout: float = penchant.option(0.5, "share of hidden units dropped", at_least=0, below=1)
    noise: float = penchant.option(
        0.3, "standard deviation of noise on the input, of pixels in [-1, 1]", at_least=0
    )
    propagated: int = penchant.option(
        64, "components of the noise that the propagated encoder is given", at_least=1
    )
    widths: tuple[int, ...] = penchant.option(
        (1024, 1024), "hidden layers of the encoder", at_least=1
    )
    code: int = penchant.option(256, "components of the representation", at_least=1)
    statistics: int = penchant.option(
        512, "units of the statistics network's two layers", at_least=1
    )
    epochs: int = penchant.option(200, "passes over the training samples", at_least=0)
    batch: int = penchant.option(100, "samples a step", at_least=2)
    learning_rate: float = penchant.option(1e-4, "of Adam", above=0)
    decay: float = penchant.option(
        0.97, "factor of the learning rate every two epochs", above=0, at_most=1
    )
    ema: float = penchant.option(
        0.01, "weight of the newest batch in the average of the denominator", above=0, at_most=1
    )
    draws: int = penchant.option(
        12, "draws of the representation that class probabilities are averaged over", at_least=1
    )
    repeats: int = penchant.option(10, "independent trainings", at_least=1)


VARIANTS = ("ali", "alice-l2", "alice-adversarial", "mine")


@attrs.frozen
class BidirectionalReconstruction(penchant.Probe):
    """Reconstructions by models that infer and generate: ALI, ALICE (l2), ALICE (adversarial), and ALI with information.

    Measured on test samples: squared reconstruction error, whether a classifier trained in the run still sees the label, and
    MS-SSIM for images (with as many scales as fit). The null pairs reconstructions with other samples. Reduced: quick,
    `-d twenty-five-gaussians`; published scale: `-p fig-5-6 -d twenty-five-gaussians`, and on a GPU `-p table-5-2 -d mnist` and
    `-p table-5-2-celeba -d celeba`.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018 (thesis: table 5.2, figures 5.6 and C.1).
    """

    name = "bidirectional-reconstruction"
    needs = ("dataset",)
    target = "penchant_mine.bidirectional_reconstruction:run"
    quantities = {
        "reconstruction-error-<variant>": "squared distance to the reconstruction; null: to that of another sample",
        "reconstruction-accuracy-<variant>": "share of reconstructions with the label of their sample; null: of another sample",
        "ms-ssim-<variant>": "structural similarity of sample and reconstruction, for images; null: with another sample",
    }
    arrays = {
        "samples-data": "test data",
        "labels": "their labels",
        "samples-<variant>": "what the decoder makes of the prior, first training",
        "reconstructions-<variant>": "of the test data, first training",
        "embeddings-<variant>": "first two components of z of the test data, first training",
    }
    presets = {
        "quick": {
            "steps": 600,
            "generator": (128, 128),
            "discriminator": (128, 128, 128),
            "learning_rate": 1e-3,
            "repeats": 2,
            "judged": 1000,
            "channels": (8, 16, 32),
            "statistics": (8, 16, 32),
            "hidden": 64,
            "classifier_steps": 300,
        },
        "fig-5-6": {},
        "fig-c-1": {},
        "table-5-2": {"latent": 128, "noise": 128, "steps": 50000, "classifier_steps": 5000},
        "table-5-2-celeba": {
            "channels": (64, 128, 256, 512),
            "statistics": (16, 32, 64, 128),
            "statistics_activation": "elu",
            "latent": 256,
            "noise": 256,
            "steps": 35000,
            "classifier_steps": 5000,
        },
    }

    variants: tuple[str, ...] = penchant.option(VARIANTS, "which models", choices=VARIANTS)
    beta: float = penchant.option(1.0, "weight of the information", at_least=0)
    informed: str = penchant.option(
        "encoder",
        "whose pairs (x, z) have their information raised",
        choices=("encoder", "decoder"),
    )
    weight: float = penchant.option(1.0, "weight of the reconstruction terms of ALICE", at_least=0)
    steps: int = penchant.option(5000, "training steps", at_least=1)
    batch: int = penchant.option(100, "samples a step", at_least=2)
    learning_rate: float = penchant.option(1e-4, "of Adam, for every network", above=0)
    latent: int = penchant.option(2, "components of z", at_least=1)
    noise: int = penchant.option(2, "components of the encoder's noise", at_least=1)
    generator: tuple[int, ...] = penchant.option(
        (500, 500), "hidden layers of encoder and decoder of points", at_least=1
    )
    discriminator: tuple[int, ...] = penchant.option(
        (400, 400, 400), "hidden layers of the networks that judge points", at_least=1
    )
    channels: tuple[int, ...] = penchant.option(
        (64, 128, 256), "feature maps for images, as the discriminator meets them", at_least=1
    )
    hidden: int = penchant.option(1024, "linear layer of discriminators of images", at_least=1)
    statistics: tuple[int, ...] = penchant.option(
        (64, 128, 256), "feature maps of the statistics network for images", at_least=1
    )
    statistics_activation: str = penchant.option(
        "leaky-relu", "its activation", choices=ACTIVATIONS
    )
    ema: float = penchant.option(
        0.01, "weight of the newest batch in the average of the denominator", above=0, at_most=1
    )
    repeats: int = penchant.option(3, "independent trainings of each model", at_least=1)
    judged: int = penchant.option(10000, "test samples judged, where there are as many", at_least=2)
    classifier_steps: int = penchant.option(1000, "training steps of the classifier", at_least=1)


GENERATIVE_PROBES = [GanModes, InformationBottleneck, BidirectionalReconstruction]
