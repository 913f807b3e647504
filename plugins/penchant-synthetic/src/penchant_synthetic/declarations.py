"""Every dataset as data; imports penchant and attrs only."""

import math
from typing import Any

import attrs
import penchant

BASES = ("dft-cosine", "dft-sine", "canonical", "random")
SHAPE = "shape of an input: one, two or three numbers, channels first"
SHAPE_OF_CURVES = "shape of an input; curves are embedded in it isometrically"
SAMPLES = "training samples N; as many test samples lie half-way between"
EMBEDDING = (
    "embedding of the curve in a larger input: random directions from the seed, or the first values"
)


@attrs.frozen
class LinearlySeparable(penchant.Dataset):
    r"""Two classes that are separated along one direction, with noise in all others.

    $x = \epsilon y v + w$ with $y = \pm 1$ and noise $w \sim N(0, \sigma^2 (I - v v^\top))$. The
    direction $v$ is an array (it is normalised), or vector number `index` of a basis:
    real Fourier waves (`dft-cosine`, `dft-sine`: slowest first, in one channel), the input's
    coordinates (`canonical`), or a random orthonormal basis from the seed (`random`). The noise and
    labels depend on the seed but not on the direction. Classes are exactly balanced.

    Along v a sample is at +-epsilon with `margin = paper`, and at +-epsilon/2 with `margin = code`,
    as in the published code.

    Reference: Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard, "Neural Anisotropy Directions",
    NeurIPS 2020.
    """

    name = "linearly-separable"
    target = "penchant_synthetic.datasets.linearly_separable:load"

    # The direction: given, or from a basis.
    direction: Any = penchant.option(
        None, "the direction v, one number per input value; instead of basis and index", array=True
    )
    basis: str = penchant.option(
        "dft-cosine", "where v comes from if no direction is given", choices=BASES
    )
    index: int = penchant.option(0, "which vector of the basis", at_least=0)
    channel: int = penchant.option(0, "the channel that a Fourier wave is in", at_least=0)
    # Distribution along it and across it.
    epsilon: float = penchant.option(1.0, "distance of a class from the boundary", above=0)
    sigma: float = penchant.option(
        1.0, "standard deviation of the noise in every other direction", at_least=0
    )
    margin: str = penchant.option(
        "paper", "paper: classes at +-epsilon; code: at +-epsilon/2", choices=("paper", "code")
    )
    # How large it is.
    input_shape: tuple[int, ...] = penchant.option((1, 32, 32), SHAPE, at_least=1)
    train: int = penchant.option(10000, "training samples, both classes together", at_least=2)
    test: int = penchant.option(10000, "test samples, both classes together", at_least=2)

    def __attrs_post_init__(self) -> None:
        _check_shape(self.input_shape, at_least=2)
        _check_balance(self, 2)
        if self.direction is not None and (self.basis, self.index, self.channel) != (
            BASES[0],
            0,
            0,
        ):
            raise penchant.Error(
                "linearly-separable takes a direction, or basis, index and channel; found a "
                f"direction and basis = {self.basis!r}, index = {self.index}, "
                f"channel = {self.channel}"
            )


@attrs.frozen
class Gaussian(penchant.Dataset):
    """Normal inputs with independent random labels: x ~ scale * N(0, C).

    The covariance C is a symmetric positive semi-definite matrix over the flattened input, or the
    identity. Labels are two classes sampled at random, exactly balanced.

    Reference: the velocity experiments of "Geometric Inductive Biases of Deep Networks: The Role of
    Data and Architecture".
    """

    name = "gaussian"
    target = "penchant_synthetic.datasets.gaussian:load"

    covariance: Any = penchant.option(
        None, "covariance of the flattened input; None: the identity", array=True
    )
    scale: float = penchant.option(
        1.0, "factor of the inputs (its square is a factor of the covariance)", above=0
    )
    labels: str = penchant.option(
        "random", "random: two classes, balanced, independent of the inputs", choices=("random",)
    )
    # How large it is.
    input_shape: tuple[int, ...] = penchant.option((1, 32, 32), SHAPE, at_least=1)
    train: int = penchant.option(10000, "training samples, both classes together", at_least=2)
    test: int = penchant.option(10000, "test samples, both classes together", at_least=2)

    def __attrs_post_init__(self) -> None:
        _check_shape(self.input_shape, at_least=2)
        _check_balance(self, 2)


@attrs.frozen
class GaussianMixture(penchant.Dataset):
    """Classes that differ by their means: x = t e_c + N(0, I) in class c, balanced.

    For multinomial logistic regression on it, the spectrum of the Gauss-Newton matrix is known in
    closed form.

    Reference: Papyan, "Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra", JMLR
    2020.
    """

    name = "gaussian-mixture"
    target = "penchant_synthetic.datasets.gaussian_mixture:load"

    classes: int = penchant.option(10, "classes C", at_least=2)
    inputs: int = penchant.option(100, "input values D, at least as many as classes", at_least=2)
    separation: float = penchant.option(5.0, "length t of the class means", at_least=0)
    train: int = penchant.option(1000, "training samples, all classes together", at_least=2)
    test: int = penchant.option(1000, "test samples, all classes together", at_least=2)

    def __attrs_post_init__(self) -> None:
        if self.inputs < self.classes:
            raise penchant.Error(
                f"inputs must be at least the number of classes, {self.classes}, "
                f"found {self.inputs}"
            )
        _check_balance(self, self.classes)


@attrs.frozen
class Sinusoids(penchant.Dataset):
    """A sum of sinusoids on a line: y = sum_i A_i sin(2 pi k_i z + phi_i) at z = j/N.

    Phases are sampled from the seed. The endpoint is excluded, so that whole frequencies are exact
    bins of the discrete Fourier transform. As many test samples lie half-way between the training
    samples. `draw` chooses the phases: draws of one seed differ in nothing else.

    Reference: Rahaman et al., "On the Spectral Bias of Neural Networks", ICML 2019, experiment 1.
    """

    name = "sinusoids"
    target = "penchant_synthetic.datasets.sinusoids:load"

    frequencies: tuple[int, ...] = penchant.option(
        (5, 10, 15, 20, 25, 30, 35, 40, 45, 50), "k, cycles on the line", at_least=1
    )
    amplitudes: tuple[float, ...] | None = penchant.option(
        None, "amplitudes, one per frequency; None: all 1", above=0
    )
    train: int = penchant.option(
        200, "training samples N; as many test samples lie half-way between", at_least=3
    )
    draw: int = penchant.option(
        0, "number of the random phases; different numbers give different phases", at_least=0
    )
    # Where the line lies.
    input_shape: tuple[int, ...] = penchant.option((1,), SHAPE_OF_CURVES, at_least=1)
    embedding: str = penchant.option("random", EMBEDDING, choices=("random", "coordinates"))

    def __attrs_post_init__(self) -> None:
        _check_shape(self.input_shape, at_least=1)
        _check_wave(self)


@attrs.frozen
class Flower(penchant.Dataset):
    r"""A sum of sinusoids along a flower with L petals, or along the unit circle.

    The curve is $\gamma_L(z) = (1 + \tfrac{1}{2} \sin 2 \pi L z) (\cos 2 \pi z, \sin 2 \pi z)$.
    With `binary`, samples whose wave is above the threshold are class 1. Test samples lie as for
    sinusoids.

    Reference: Rahaman et al., "On the Spectral Bias of Neural Networks", ICML 2019, experiments 5
    and 6.
    """

    name = "flower"
    target = "penchant_synthetic.datasets.flower:load"

    # The curve, and the wave along it.
    petals: int = penchant.option(0, "L", at_least=0)
    frequencies: tuple[int, ...] = penchant.option(
        (20, 40, 60, 80, 100, 120, 140, 160, 180, 200), "k, cycles around", at_least=1
    )
    amplitudes: tuple[float, ...] | None = penchant.option(
        None, "amplitudes, one per frequency; None: all 1", above=0
    )
    train: int = penchant.option(
        1000, "training samples N; as many test samples lie half-way between", at_least=3
    )
    draw: int = penchant.option(
        0, "number of the random phases; different numbers give different phases", at_least=0
    )
    # What a label is.
    binary: bool = penchant.option(False, "labels are two classes")
    threshold: float = penchant.option(0.0, "samples with a wave above it are class 1")
    # Where the curve lies.
    input_shape: tuple[int, ...] = penchant.option((2,), SHAPE_OF_CURVES, at_least=1)
    embedding: str = penchant.option("random", EMBEDDING, choices=("random", "coordinates"))

    def __attrs_post_init__(self) -> None:
        _check_shape(self.input_shape, at_least=2)
        _check_wave(self)


@attrs.frozen
class Peak(penchant.Dataset):
    """A sampled delta peak on a line: zero at z = j/N except at one point.

    Its spectrum is the same at every frequency. Test samples, half-way between, are all zero.

    Reference: Rahaman et al., "On the Spectral Bias of Neural Networks", ICML 2019, experiment 7.
    """

    name = "peak"
    target = "penchant_synthetic.datasets.peak:load"

    train: int = penchant.option(
        200, "training samples N; as many test samples lie half-way between", at_least=2
    )
    position: float = penchant.option(
        0.5, "position of the peak, rounded to the nearest sample", at_least=0, below=1
    )
    height: float = penchant.option(1.0, "value at the peak; every frequency has height / N")
    # Where the line lies.
    input_shape: tuple[int, ...] = penchant.option((1,), SHAPE_OF_CURVES, at_least=1)
    embedding: str = penchant.option("random", EMBEDDING, choices=("random", "coordinates"))

    def __attrs_post_init__(self) -> None:
        _check_shape(self.input_shape, at_least=1)


def _check_shape(shape: tuple[int, ...], *, at_least: int) -> None:
    if not 1 <= len(shape) <= 3:
        raise penchant.Error(
            f"input_shape must have one, two or three numbers, found {list(shape)}"
        )
    values = math.prod(shape)
    if values < at_least:
        raise penchant.Error(
            f"input_shape must have at least {at_least} input values, found {list(shape)}"
        )


def _check_balance(options: Gaussian | GaussianMixture | LinearlySeparable, classes: int) -> None:
    for split in ("train", "test"):
        count = getattr(options, split)
        if count % classes:
            raise penchant.Error(
                f"{split} must be a multiple of {classes}, because classes are balanced; found "
                f"{count}"
            )


def _check_wave(options: Sinusoids | Flower) -> None:
    """Frequencies that the grid can hold, and as many amplitudes."""
    if not options.frequencies:
        raise penchant.Error("frequencies must name at least one frequency, found none")
    # From half the samples on, a wave looks like a slower one.
    highest = max(options.frequencies)
    if 2 * highest >= options.train:
        raise penchant.Error(
            f"frequencies must be below half the points, {options.train / 2:g}, found {highest}"
        )
    if not options.amplitudes:
        return
    frequencies, amplitudes = len(options.frequencies), len(options.amplitudes)
    if amplitudes != frequencies:
        raise penchant.Error(
            f"amplitudes must be one per frequency, {frequencies}; found {amplitudes}"
        )
