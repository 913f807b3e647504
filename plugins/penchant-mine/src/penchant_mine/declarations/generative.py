"""Probes that use information: generative models and the information bottleneck."""

import attrs
import penchant

from penchant_mine.declarations.estimators import ACTIVATIONS

# Published recipes: figures 5.3 and 5.4, and table 5.1 with figure 5.5.
PLANE = {"steps": 5000, "batch": 100, "learning_rate": 1e-4, "trainings": 5, "samples": 10000}
STACKED = {
    "learning_rate": 1e-4,
    "noise_inputs": 50,
    "code": 50,
    "prior": "uniform",
    "steps": 64000,
    "batch": 100,
    "samples": 26000,
    "classifier_steps": 4000,
    "trainings": 5,
}


@attrs.frozen
class GanModes(penchant.Probe):
    """Number of modes of the data that a GAN captures, with and without an information term.

    The generator's input is [noise, code]. With MINE it also maximises I(sample; code), with the
    gradient clipped to the length of the adversarial one. The control is the same program with a
    code that is independent of the sample, `-o information_with=independent`. Samples are assigned
    to modes by one normal distribution per mode for points, by the distance to the arm for a
    spiral, and by a classifier trained in the run for stacked digits. A mode is captured if it has
    at least the share `captured` of its expected samples, because a diffuse cloud touches every
    mode; it is covered if it has that share of the samples near a mode, so that coverage does not
    depend on sharpness. The null is test data. A uniform cloud over the box of the data, which
    touches every mode and has a small KL, is given for comparison; if samples are hardly nearer to
    modes than this cloud, their KL is missing. Of images, white noise, permuted pixels and the mean
    of two digits are given. A GAN collapses on the spiral with 2.5 turns and without batch norm; a
    batch-normalised discriminator sees the spread of a batch, and then stacked digits do not
    collapse. With the thesis's learning rate
    of 1e-4, after 5000 steps three quarters of the samples of 25 Gaussians lie between the modes,
    with and without information; with 1e-3 they do not. Images need a smaller rate: with 1e-3 one
    mode is left. The preset quick has a quarter of the published width and fewer steps. Published
    scale: `-p fig-5-4`; stacked MNIST needs a GPU.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018 (thesis: section
    5.1, appendix C.1).

    Another quick form: `-d spiral`.
    """

    name = "gan-modes"
    example = "penchant probe gan-modes -d twenty-five-gaussians"
    question = "Does maximising mutual information help a GAN to cover all modes?"
    target = "penchant_mine.gan_modes.probe:run"
    figures = "penchant_mine.gan_modes.figures:draw"
    needs = ("dataset", "continuous-inputs")
    quantities = {
        "modes-gan": "modes with enough of the GAN's samples; null: the same number of test data",
        "modes-mine": "the same with the term for information",
        "modes-covered-gan": "modes with enough of the GAN's samples near one; null: of test data",
        "modes-covered-mine": "the same with the term for information",
        "modes-seen-gan": "modes with at least one of the GAN's samples; null: of test data",
        "modes-seen-mine": "the same with the term for information",
        "kl-gan": (
            "KL divergence of the modes of samples near one to those of the data, if quality is at "
            "least twice that of a uniform cloud; null: of test data"
        ),
        "kl-mine": "the same with the term for information",
        "quality-gan": "share of samples near a mode, for points; null: of test data",
        "quality-mine": "the same with the term for information",
        "kl-uniform": "KL of points spread evenly over the box of the data, for points",
        "quality-uniform": "share of these points near a mode, for points",
        "sure-gan": (
            "share of the GAN's images in which the classifier is sure of all digits; null: of "
            "test data"
        ),
        "sure-mine": "the same with the term for information",
        "modes-noise": "modes with enough of as much white noise, for images",
        "modes-permuted": "modes with enough of as many images with permuted pixels",
        "modes-mean-of-two": "modes with enough of as many means of two images",
        "sure-noise": "share of white noise in which the classifier is sure of all digits",
        "sure-permuted": "the same of images with permuted pixels",
        "sure-mean-of-two": "the same of means of two images",
        "information-mine": "I(sample; code) at the end of training, on training batches; null: 0",
    }
    tables = {
        "modes-by-step[variant, step]": "modes with enough samples, along training",
        "modes-covered-by-step[variant, step]": "the same, if only samples near a mode count",
        "kl-by-step[variant, step]": "KL of the modes of samples near one, along training",
    }
    arrays = {
        "samples-data": "test data",
        "samples-gan": "samples of the first training",
        "samples-mine": "the same with the term for information",
        "samples-by-step-gan": "samples of the first training, along training",
        "samples-by-step-mine": "the same with the term for information",
        "modes-by-training-gan": "modes with their share of samples, by training",
        "modes-by-training-mine": "the same with the term for information",
        "kl-by-training-gan": "KL, by training",
        "kl-by-training-mine": "the same with the term for information",
        "quoted": "modes and KL of other methods, quoted, for stacked MNIST",
    }
    presets = {
        "quick": {
            "steps": 1000,
            "generator": (128, 128),
            "discriminator": (128, 128, 128),
            "trainings": 2,
            "samples": 2000,
            "channels": (8, 16, 32, 64),
            "hidden": 64,
        },
        "fig-5-3": PLANE,
        "fig-5-4": PLANE,
        "fig-5-5": STACKED,
        "table-5-1": STACKED,
    }

    # Training.
    beta: float = penchant.option(1.0, "weight of the information", at_least=0)
    information_with: str = penchant.option(
        "code",
        "what samples are to have information with; independent: a fresh draw, as a control",
        choices=("code", "independent"),
    )
    steps: int = penchant.option(5000, "training steps", at_least=1)
    eval_every: int | None = penchant.option(
        None, "steps between evaluations of samples; None: only at the end", at_least=1
    )
    batch: int = penchant.option(100, "samples per step", at_least=2)
    learning_rate: float | None = penchant.option(
        None, "learning rate of Adam, all networks; None: 1e-3 for points, 2e-4 for images", above=0
    )
    # Networks.
    activation: str | None = penchant.option(
        None,
        "activation of generator and discriminator, of points also of the statistics network; "
        "None: leaky-relu for points, relu for images",
        choices=ACTIVATIONS,
    )
    generator_normalization: str = penchant.option(
        "batch", "normalisation in the generator", choices=("batch", "none")
    )
    discriminator_normalization: str | None = penchant.option(
        None,
        "normalisation in the discriminator; None: none for points, batch for images",
        choices=("batch", "none"),
    )
    # Networks for points.
    generator: tuple[int, ...] = penchant.option(
        (500, 500), "hidden layers of the generator of points", at_least=1
    )
    discriminator: tuple[int, ...] = penchant.option(
        (400, 400, 400), "hidden layers of the discriminator of points", at_least=1
    )
    statistics: tuple[int, ...] | None = penchant.option(
        None,
        "hidden layers of the statistics network of points; None: as discriminator",
        at_least=1,
    )
    # Networks for images.
    channels: tuple[int, ...] = penchant.option(
        (64, 128, 256, 512),
        "feature maps for images, in the order of the discriminator",
        at_least=1,
    )
    generator_channels: tuple[int, ...] | None = penchant.option(
        None,
        "feature maps of the generator of images, in the same order; None: channels",
        at_least=1,
    )
    statistics_channels: tuple[int, ...] | None = penchant.option(
        None,
        "feature maps of the statistics network of images; None: a quarter of the first three",
        at_least=1,
    )
    hidden: int | None = penchant.option(
        1024, "linear layer of the statistics network for images; None: no such layer", at_least=1
    )
    # The generator's input; samples should determine the code.
    noise_inputs: int = penchant.option(2, "components of the noise", at_least=1)
    code: int = penchant.option(2, "components of the code", at_least=1)
    prior: str = penchant.option(
        "normal", "distribution of noise and code", choices=("normal", "uniform")
    )
    ema: float = penchant.option(
        0.01, "weight of the newest batch in the average of the denominator", above=0, at_most=1
    )
    # Evaluation of samples.
    trainings: int = penchant.option(5, "independent trainings of each variant", at_least=1)
    samples: int = penchant.option(10000, "samples evaluated", at_least=10)
    captured: float = penchant.option(
        0.25,
        "a mode counts as captured from this share of its expected samples on",
        above=0,
        at_most=1,
    )
    classifier_steps: int = penchant.option(
        500, "training steps of the classifier for images", at_least=1
    )


# Rows of table 5.3, and noise alone: the last three with beta = 0.
ROWS = (
    "baseline",
    "dropout",
    "confidence-penalty",
    "label-smoothing",
    "variational",
    "variational-noise",
    "noise-gaussian",
    "noise-propagated",
    "noise-additive",
    "mine-gaussian",
    "mine-propagated",
    "mine-additive",
)
# Pixels keep their relative sizes, so that dark borders stay unimportant.
JUDGE = {"name": "mine", "scaling": "whole"}


@attrs.frozen
class InformationBottleneck(penchant.Probe):
    """Test error and information I(X; Z) of classifiers with a regularised representation Z.

    Nine regularisers are compared. `mine-*` add beta I(X; Z), estimated by a statistics
    network that is trained along, for three noisy encoders; `noise-*` are these with beta = 0; the
    others are no regulariser, dropout, confidence penalty, label smoothing, and the variational
    bottleneck without and with noise on the input. Rows are compared in pairs: the same test
    samples, and trainings from the same seeds. I(X; Z) is measured after training on test samples.
    A lower bound that is minimised during training can become too low, so the number of a row is an
    upper bound: the mean KL divergence of the Gaussian encoder's density to one normal. An estimate
    is given as a lower bound, and the exact information over the test inputs, which cannot exceed
    the log of their number. The preset quick has fewer samples, epochs and units, so test errors
    are larger than published. Published scale: `-p table-5-3 -d mnist`, on a GPU.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018; Alemi et al. 2017
    (thesis: table 5.3).

    Another quick form: `-d mnist:per_class=200,test_per_class=100`.
    """

    name = "information-bottleneck"
    example = "penchant probe information-bottleneck -d digits"
    question = "Does limiting the information about the input improve a classifier?"
    target = "penchant_mine.information_bottleneck.probe:run"
    figures = "penchant_mine.information_bottleneck.figures:draw"
    needs = ("dataset", "classes", "continuous-inputs")
    roles = {"mutual-information": "mine"}
    quantities = {
        "error-{rows}": "misclassified share of test samples; null: the most frequent class",
        "error-against-baseline-{rows}": (
            "misclassified share less that of the baseline, in pairs; null: 0"
        ),
        "error-against-variational-{rows}": (
            "misclassified share less that of the variational bottleneck, in pairs; null: 0"
        ),
        "error-against-noise-{rows}": (
            "misclassified share less that of the same encoder with beta = 0, in pairs; null: 0"
        ),
        "information-{rows}": (
            "upper bound of I(X; Z), from the density of a Gaussian encoder: KL to one normal; "
            "null: of the untrained encoder"
        ),
        "information-against-noise-{rows}": (
            "upper bound of I(X; Z) less that of the same encoder with beta = 0, in pairs; null: 0"
        ),
        "information-density-{rows}": (
            "I(X; Z) over the test inputs only, from the density; at most the log of their "
            "number; null: of the untrained encoder"
        ),
        "information-lower-{rows}": (
            "lower bound of I(X; Z) by the chosen estimator, of noisy encoders; null: shuffled"
        ),
    }
    arrays = {
        "betas": "weights of the information in the sweep",
        "information-by-beta": "upper bound of I(X; Z) of the Gaussian encoder",
        "density-by-beta": "I(X; Z) over the test inputs only",
        "lower-by-beta": "lower bound by the chosen estimator",
        "error-by-beta": "misclassified share",
    }
    presets = {
        "quick": {
            "widths": (128, 128),
            "code": 16,
            "statistics_width": 128,
            "epochs": 10,
            "learning_rate": 1e-3,
            "trainings": 2,
            "betas": (0.0, 0.1, 1.0, 3.0),
            "estimators": {
                "mutual-information": {
                    **JUDGE,
                    "steps": 300,
                    "batch": 128,
                    "trainings": 2,
                    "null_trainings": 1,
                }
            },
        },
        "table-5-3": {
            "trainings": 10,
            "polyak": 0.999,
            "estimators": {"mutual-information": JUDGE},
        },
    }

    rows: tuple[str, ...] = penchant.option(ROWS, "which rows of the table", choices=ROWS)
    betas: tuple[float, ...] | None = penchant.option(
        None,
        "weights of the information for a sweep with the Gaussian encoder; None: no sweep",
        at_least=0,
    )
    # Strength of every regulariser.
    beta_mine: float = penchant.option(
        0.1,
        "weight of the information, which MINE sees up to the log of a batch: not that of the KL",
        at_least=0,
    )
    dropout: float = penchant.option(0.5, "share of hidden units dropped", at_least=0, below=1)
    noise_std: float = penchant.option(
        0.3, "standard deviation of noise on the input, of pixels in [-1, 1]", at_least=0
    )
    # Networks.
    widths: tuple[int, ...] = penchant.option(
        (1024, 1024), "hidden layers of the encoder", at_least=1
    )
    code: int = penchant.option(256, "components of the representation", at_least=1)
    statistics_width: int = penchant.option(
        512, "units of the statistics network's two layers", at_least=1
    )
    # Training and evaluation of a row.
    epochs: int = penchant.option(200, "passes over the training samples", at_least=0)
    batch: int = penchant.option(100, "samples per step", at_least=2)
    learning_rate: float = penchant.option(1e-4, "learning rate of Adam", above=0)
    decay: float = penchant.option(
        0.97, "factor of the learning rate every two epochs", above=0, at_most=1
    )
    ema: float = penchant.option(
        0.01, "weight of the newest batch in the average of the denominator", above=0, at_most=1
    )
    polyak: float | None = penchant.option(
        None,
        "decay of the average of all weights over steps, which is evaluated; None: the last ones",
        at_least=0,
        below=1,
    )
    code_draws: int = penchant.option(
        12, "samples of the representation over which class probabilities are averaged", at_least=1
    )
    trainings: int = penchant.option(10, "independent trainings", at_least=1)


# Models of table 5.2.
VARIANTS = ("ali", "alice-l2", "alice-adversarial", "mine")


@attrs.frozen
class BidirectionalReconstruction(penchant.Probe):
    """Reconstruction error of bidirectional GANs: ALI, ALICE, and ALI with an information term.

    ALICE has an l2 or an adversarial term. The probe measures on test samples the squared and the
    plain distance to the reconstruction, whether a classifier trained in the run still predicts the
    label, and MS-SSIM for images (with as many scales as fit). The null pairs reconstructions with
    other samples. A warning names a variant that does no better. The gradient of the information is
    clipped to the length of the encoder's own. Reconstructions need some 3000 steps; samples of the
    prior become sharp after some 8000 with `-o activation=relu -o generator_normalization=none`. On
    MNIST ALI needs thousands of steps, which `-d mnist:resize=14 -o perceptrons=true` makes cheap.
    Published scale: `-p fig-5-6 -d
    twenty-five-gaussians`, and on a GPU `-p table-5-2 -d mnist` and `-p table-5-2-celeba -d
    celeba`.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018 (thesis: table
    5.2, figures 5.6 and C.1).
    """

    name = "bidirectional-reconstruction"
    example = "penchant probe bidirectional-reconstruction -d twenty-five-gaussians"
    question = (
        "Does maximising mutual information improve the reconstructions of a bidirectional GAN?"
    )
    target = "penchant_mine.bidirectional_reconstruction.probe:run"
    figures = "penchant_mine.bidirectional_reconstruction.figures:draw"
    needs = ("dataset", "continuous-inputs")
    quantities = {
        "reconstruction-error-{variants}": (
            "squared distance to the reconstruction; null: to that of another sample"
        ),
        "reconstruction-distance-{variants}": (
            "Euclidean distance to the reconstruction, as in the thesis; null: as above"
        ),
        "reconstruction-accuracy-{variants}": (
            "share of reconstructions with the label of their sample; null: of another sample"
        ),
        "ms-ssim-{variants}": (
            "structural similarity of image and reconstruction; null: with another sample"
        ),
        "modes-{variants}": (
            "classes of the data that have at least a quarter of their share of the decoder's "
            "samples; null: of as many test data"
        ),
        "modes-covered-{variants}": (
            "the same, if only samples near a class count; null: of as many test data"
        ),
        "quality-{variants}": (
            "share of the decoder's samples near a class, for points; null: of test data"
        ),
    }
    arrays = {
        "samples-data": "test data",
        "labels": "their labels",
        "samples-{variants}": "samples of the decoder from the prior, first training",
        "reconstructions-{variants}": "of the test data, first training",
        "embeddings-{variants}": "first two components of z of the test data, first training",
    }
    presets = {
        "quick": {
            "steps": 600,
            "generator": (128, 128),
            "discriminator": (128, 128, 128),
            "learning_rate": 1e-3,
            "trainings": 2,
            "samples": 1000,
            "channels": (8, 16, 32),
            "statistics_channels": (8, 16, 32),
            "hidden": 64,
            "classifier_steps": 300,
        },
        "fig-5-6": {},
        "fig-c-1": {},
        "table-5-2": {"latent": 128, "noise_inputs": 128, "steps": 50000, "classifier_steps": 5000},
        "table-5-2-celeba": {
            "channels": (64, 128, 256, 512),
            "statistics_channels": (16, 32, 64, 128),
            "statistics_activation": "elu",
            "latent": 256,
            "noise_inputs": 256,
            "steps": 35000,
            "classifier_steps": 5000,
        },
    }

    variants: tuple[str, ...] = penchant.option(VARIANTS, "which models", choices=VARIANTS)
    beta: float = penchant.option(1.0, "weight of the information", at_least=0)
    # The bound on the reconstruction error uses the information of the encoder.
    information_of: str = penchant.option(
        "encoder", "pairs (x, z) whose information is maximised", choices=("encoder", "decoder")
    )
    information_with: str = penchant.option(
        "code",
        "what x is to have information with; independent: z of another x, as a control",
        choices=("code", "independent"),
    )
    weight: float = penchant.option(1.0, "weight of the reconstruction terms of ALICE", at_least=0)
    steps: int = penchant.option(5000, "training steps", at_least=1)
    batch: int = penchant.option(100, "samples per step", at_least=2)
    learning_rate: float = penchant.option(1e-4, "learning rate of Adam, all networks", above=0)
    # Output and noise input of the encoder.
    latent: int | None = penchant.option(
        None, "components of z; None: 2 for points, 32 for images", at_least=1
    )
    noise_inputs: int = penchant.option(2, "components of the encoder's noise", at_least=1)
    # Networks for points, then for images.
    perceptrons: bool = penchant.option(
        False, "images, too, go through the networks for points: quick for small ones"
    )
    activation: str = penchant.option(
        "leaky-relu", "activation of the networks for points", choices=ACTIVATIONS
    )
    generator_normalization: str = penchant.option(
        "batch", "normalisation in the decoder of points", choices=("batch", "none")
    )
    generator: tuple[int, ...] = penchant.option(
        (500, 500), "hidden layers of encoder and decoder of points", at_least=1
    )
    discriminator: tuple[int, ...] = penchant.option(
        (400, 400, 400), "hidden layers of the discriminators of points", at_least=1
    )
    channels: tuple[int, ...] = penchant.option(
        (64, 128, 256), "feature maps for images, in the order of the discriminator", at_least=1
    )
    hidden: int = penchant.option(1024, "linear layer of discriminators of images", at_least=1)
    statistics_channels: tuple[int, ...] = penchant.option(
        (64, 128, 256), "feature maps of the statistics network for images", at_least=1
    )
    statistics_activation: str = penchant.option(
        "leaky-relu", "its activation", choices=ACTIVATIONS
    )
    ema: float = penchant.option(
        0.01, "weight of the newest batch in the average of the denominator", above=0, at_most=1
    )
    trainings: int = penchant.option(3, "independent trainings of each model", at_least=1)
    samples: int = penchant.option(10000, "test samples evaluated, at most", at_least=2)
    classifier_steps: int = penchant.option(1000, "training steps of the classifier", at_least=1)


GENERATIVE_PROBES = [GanModes, InformationBottleneck, BidirectionalReconstruction]
