"""Linear models of convolution and pooling whose gradient covariances are known."""

from typing import Any

import attrs
import penchant


@attrs.frozen
class LinearPooling(penchant.Architecture):
    r"""A linear model of convolution and pooling in Fourier space.

    $f(x) = \theta \cdot A (m \odot \phi \odot x)$ with $A = [I \dots I] / \sqrt{S}$. The input, of
    one dimension D, is the spectrum of a signal in the order of the DFT: entry l has the frequency
    min(l, D - l) / D. `stride` S folds it on M = ceil(D / S) entries (the last block may be
    shorter), m is the prefilter, phi ~ N(0, phi_std^2) represents convolutions and theta ~ N(0,
    theta_std^2) a linear layer. With `activation = relu` it is theta . A (m * relu(phi * x)).
    Gradient covariance: (phi_std^2 theta_std^2 / S) diag(m^2), half of it for relu and symmetric
    inputs.

    Reference: Ortiz-Jimenez et al., "Neural Anisotropy Directions", NeurIPS 2020, section 2.2,
    whose covariances miss the 1/S.
    """

    name = "linear-pooling"
    target = "penchant_architectures.architectures.linear_pooling:build"
    example = "penchant doctor -a linear-pooling --shape 128"

    # Pooling.
    stride: int = penchant.option(4, "number S of inputs that are folded into one", at_least=1)
    prefilter: str = penchant.option(
        "none",
        "m: none is 1; average, the response of a mean of `stride` neighbours; low-pass, 1 below "
        "the frequency 1/(2 stride), else 0",
        choices=("none", "average", "low-pass"),
    )
    response: Any = penchant.option(
        None, "m itself instead of a named prefilter, one number per input", array=True
    )
    # Initialisation.
    theta_std: float = penchant.option(1.0, "standard deviation of theta", above=0)
    phi_std: float = penchant.option(1.0, "standard deviation of phi", above=0)
    activation: str = penchant.option(
        "linear", "relu: the non-linear model of pooling", choices=("linear", "relu")
    )

    def __attrs_post_init__(self) -> None:
        if self.response is not None and self.prefilter != "none":
            raise penchant.Error(
                "linear-pooling takes a prefilter or a response, "
                f"found both (prefilter {self.prefilter})"
            )


@attrs.frozen
class LinearConvolution(penchant.Architecture):
    """Linear convolution, average over positions, linear readout.

    f(x) = sum_c p_c (1/k) sum_j w_c . patch_j(x). Inputs of one dimension, images of one channel
    (two dimensions) or of several (three). With n channels, k positions and P = sum_j M_j, which
    puts a patch at every position, the gradient covariance is (n s_w^2 s_p^2 / k^2) P P^T. Without
    pooling it is n s_w^2 s_p^2 times how often each input is covered by a patch, on the diagonal.

    Reference: "Geometric Inductive Biases of Deep Networks: The Role of Data and Architecture",
    theorem 3.2.
    """

    name = "linear-conv"
    target = "penchant_architectures.architectures.linear_conv:build"

    # The patches.
    channels: int = penchant.option(16, "channels: n", at_least=1)
    kernel: int = penchant.option(3, "side of a patch", at_least=1)
    stride: int = penchant.option(1, "distance between patches", at_least=1)
    padding: str = penchant.option(
        "none",
        "circular: patches continue at the other end of the input",
        choices=("none", "circular"),
    )
    pooling: str = penchant.option(
        "average",
        "none: the readout has a weight for every channel and position",
        choices=("average", "none"),
    )
    # Initialisation.
    weight_std: float = penchant.option(
        1.0, "standard deviation of the convolution's weights: s_w", above=0
    )
    readout_std: float = penchant.option(
        1.0, "standard deviation of the readout's weights: s_p", above=0
    )
