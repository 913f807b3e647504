"""Estimators of the role `mutual-information`, and the statistics networks of the neural ones."""

import attrs
import penchant

ACTIVATIONS = ("relu", "elu", "leaky-relu", "tanh", "gelu")
# Where every estimator can be compared with the truth.
EXAMPLE = "penchant probe mutual-information -d correlated-gaussians -e mutual-information"


@attrs.frozen
class StatisticsPerceptron(penchant.Architecture):
    """Statistics network T(x, z): a perceptron over the flattened pair.

    All networks of an estimate are evaluated in one batch.
    """

    name = "statistics-perceptron"
    target = "penchant_mine.architectures.statistics_perceptron:build"

    widths: tuple[int, ...] = penchant.option((128, 128), "units of the hidden layers", at_least=1)
    activation: str = penchant.option("relu", "activation", choices=ACTIVATIONS)


@attrs.frozen
class StatisticsConv(penchant.Architecture):
    """Statistics network T(x, z) for images x: strided convolutions, conditioned on z.

    A linear map of z is added to every layer's feature maps. The input is the flattened pair, first
    the image, then z. Defaults: table C.3 (stacked MNIST); table C.7 (MNIST) has channels 64, 128,
    256, leaky ReLU and no hidden layer.

    Reference: Some Phenomenological Investigations in Deep Learning, appendix C.
    """

    name = "statistics-conv"
    target = "penchant_mine.architectures.statistics_conv:build"
    example = "penchant doctor -a 'statistics-conv:image=[1,28,28]' --shape 794"

    image: tuple[int, int, int] = penchant.option(
        (3, 28, 28), "channels, height and width of x", at_least=1
    )
    channels: tuple[int, ...] = penchant.option(
        (16, 32, 64), "feature maps of the 5 x 5 convolutions of stride 2", at_least=1
    )
    hidden: int | None = penchant.option(
        1024, "units of the linear layer before the score; None: no such layer", at_least=1
    )
    activation: str = penchant.option("elu", "activation", choices=ACTIVATIONS)


@attrs.frozen
class Neural(penchant.Estimator):
    """Options of every estimator that trains statistics networks.

    All networks are trained as one stack, then those on shuffled pairs for the null. Each has its
    own held-out samples for the value and others for stopping. The evaluated weights are a running
    average.
    """

    role = "mutual-information"
    uses = ("{network}",)

    network: str = penchant.option(
        "statistics-perceptron",
        "architecture of the statistics network, name or name:option=value,...; "
        "its input is x, z flattened",
    )
    trainings: int = penchant.option(
        4, "independent networks, over which the standard error is taken", at_least=2
    )
    null_trainings: int = penchant.option(2, "networks on shuffled pairs; 0: no null", at_least=0)
    steps: int = penchant.option(2000, "most training steps", at_least=1)
    batch: int = penchant.option(256, "pairs per step", at_least=2)
    learning_rate: float = penchant.option(1e-3, "learning rate of Adam", above=0)
    # A shifted batch pairs no sample with its own partner, unlike a random order.
    shifts: int = penchant.option(
        1, "cyclic shifts of a random batch for the marginals, in training", at_least=1
    )
    marginals: int = penchant.option(
        16, "shifts for the marginals when a value is computed", at_least=1
    )
    # Averaged weights move less than the last ones, and overfit later.
    average: float = penchant.option(
        0.99,
        "decay of the running average of the weights; 0: use the last weights",
        at_least=0,
        below=1,
    )
    # Samples are split: for the value, for stopping, and the rest for training.
    held_out: float = penchant.option(
        0.2, "share of the samples for the value", above=0, at_most=0.5
    )
    stopping: float = penchant.option(
        0.1, "share of the samples for early stopping", above=0, at_most=0.4
    )
    check_every: int = penchant.option(50, "steps between checks for stopping", at_least=1)
    smoothed: int = penchant.option(
        3, "number of checks to average before the best is chosen", at_least=1
    )
    patience: int = penchant.option(
        4,
        "checks without a gain of the mean over networks, of a quarter of its standard error, "
        "before training stops",
        at_least=1,
    )
    # Information is invariant under all of these; what a network sees is not.
    scaling: str | None = penchant.option(
        None,
        "each column separately (standard), all by one number (whole: pixels), or normal scores "
        "(rank: heavy tails); None: rank for a variable with heavy tails, else standard",
        choices=("standard", "whole", "rank"),
    )


@attrs.frozen
class Mine(Neural):
    r"""Mutual information neural estimation: the Donsker-Varadhan bound.

    $\mathbb{E}_{xz} T - \log \mathbb{E}_{x} \mathbb{E}_{z} e^T$ is maximised over a network $T$.
    The gradient of a batch is biased; a moving average of the denominator reduces the bias. The
    value is a lower bound, up to sampling, and too low in high dimensions; the probe
    `information-benchmark` measures by how much.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018.
    """

    name = "mine"
    target = "penchant_mine.estimators.neural:mine"
    example = f"{EXAMPLE}=mine"

    ema: float = penchant.option(
        0.01,
        "weight of the newest batch in the average of the denominator; 1: no correction",
        above=0,
        at_most=1,
    )


class MineF(Neural):
    r"""The f-divergence bound, with marginals from one shift of the batch.

    $\mathbb{E}_{xz} T - \mathbb{E}_{x} \mathbb{E}_{z} e^{T - 1}$ is below the bound of `mine` for
    the same $T$.

    Reference: Belghazi et al., "Mutual Information Neural Estimation", ICML 2018; Nguyen,
    Wainwright, Jordan 2010.
    """

    name = "mine-f"
    target = "penchant_mine.estimators.neural:mine_f"
    example = f"{EXAMPLE}=mine-f"


@attrs.frozen
class Nwj(Neural):
    """The bound of Nguyen, Wainwright and Jordan: that of `mine-f`, with more marginal pairs.

    Several per sample, as in Poole et al.

    Reference: Nguyen, Wainwright, Jordan 2010; Poole et al., "On Variational Bounds of Mutual
    Information", ICML 2019.
    """

    name = "nwj"
    target = "penchant_mine.estimators.neural:nwj"
    example = f"{EXAMPLE}=nwj"

    batch: int = penchant.option(128, "pairs per step", at_least=2)
    shifts: int = penchant.option(
        4, "cyclic shifts of a random batch for the marginals, in training", at_least=1
    )


@attrs.frozen
class InfoNceEstimator(Neural):
    """Contrastive bound: distinguish a pair from `shifts` others.

    It is at most log(1 + contrasts) and has a small variance.

    Reference: van den Oord, Li, Vinyals, "Representation Learning with Contrastive Predictive
    Coding", 2018.
    """

    name = "info-nce"
    target = "penchant_mine.estimators.neural:info_nce"
    example = f"{EXAMPLE}=info-nce"

    batch: int = penchant.option(64, "pairs per step", at_least=2)
    shifts: int = penchant.option(31, "contrasts of a pair in training", at_least=1)
    marginals: int = penchant.option(
        127, "contrasts of a pair when a value is computed", at_least=1
    )
    steps: int = penchant.option(1000, "most training steps", at_least=1)


@attrs.frozen
class SmileEstimator(Neural):
    """Donsker-Varadhan with clipped density ratios; T learns by logistic regression.

    Less variance, and not a bound.

    Reference: Song, Ermon, "Understanding the Limitations of Variational Mutual Information
    Estimators", ICLR 2020.
    """

    name = "smile"
    target = "penchant_mine.estimators.neural:smile"
    example = f"{EXAMPLE}=smile"

    batch: int = penchant.option(128, "pairs per step", at_least=2)
    shifts: int = penchant.option(
        4, "cyclic shifts of a random batch for the marginals, in training", at_least=1
    )
    clip: float = penchant.option(
        5.0, "largest and smallest log of the density ratio in the denominator", above=0
    )


@attrs.frozen
class Ksg(penchant.Estimator):
    """Kraskov's estimator from nearest neighbours: accurate in few dimensions.

    It is far too low in many. Columns are scaled to variance 1; noise of 1e-9 separates equal
    values.

    Reference: Kraskov, Stögbauer, Grassberger, "Estimating mutual information", Phys. Rev. E 69,
    2004.
    """

    name = "ksg"
    role = "mutual-information"
    target = "penchant_mine.estimators.ksg:estimate"
    example = f"{EXAMPLE}=ksg"

    # The k of the k-th neighbour, whose distance sets the scale of each sample.
    neighbours: int = penchant.option(
        3, "k: fewer have less bias, more have less variance", at_least=1
    )
    # Subsets give the standard error and the bias.
    subsets: int = penchant.option(10, "disjoint subsets for the standard error", at_least=2)
    shuffles: int = penchant.option(2, "shuffles of the pairs for the null", at_least=0)


@attrs.frozen
class GaussianInformation(penchant.Estimator):
    r"""Information of normal variables: exact under normality, and without bias.

    $-\frac{1}{2} \sum_r \log(1 - r^2)$ over canonical correlations $r$.
    """

    name = "gaussian"
    role = "mutual-information"
    target = "penchant_mine.estimators.gaussian:estimate"
    example = f"{EXAMPLE}=gaussian"

    shuffles: int = penchant.option(10, "shuffles of the pairs for the null", at_least=0)


@attrs.frozen
class Binned(penchant.Estimator):
    """Information of binned variables, with the Miller-Madow correction.

    For one or two dimensions, or discrete variables.
    """

    name = "binned"
    role = "mutual-information"
    target = "penchant_mine.estimators.binned:estimate"
    example = f"{EXAMPLE}=binned"

    bins: int | None = penchant.option(
        None, "bins of equal frequency per column; None: the cube root of the samples", at_least=2
    )
    shuffles: int = penchant.option(10, "shuffles of the pairs for the null", at_least=0)


# Registered by the hooks.
ARCHITECTURES: list[type[penchant.Architecture]] = [StatisticsPerceptron, StatisticsConv]
ESTIMATORS: list[type[penchant.Estimator]] = [
    Mine,
    MineF,
    Nwj,
    InfoNceEstimator,
    SmileEstimator,
    Ksg,
    GaussianInformation,
    Binned,
]
