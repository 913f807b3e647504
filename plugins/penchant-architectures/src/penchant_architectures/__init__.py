"""Architectures: the networks that the literature on inductive biases measures, for any input that fits."""

from __future__ import annotations

from typing import Any

import attrs
import penchant

ACTIVATIONS = ("relu", "gelu", "tanh", "sine", "linear")
_ACTIVATION = "every activation of the network"
_NORMALIZATION = "batch: batch-norm, in front of every activation"
_FINAL_POOLING = "the final one; none: the linear layer sees every position; strides stay"


@attrs.frozen
class _Drawn(penchant.Architecture):
    """What all layered networks share: their biases, and how their weights are drawn."""

    bias: bool = penchant.option(
        True,
        "biases in linear and convolution layers; none in front of a batch-norm, which has its own",
    )
    initialization: str = penchant.option(
        "default",
        "default: as the help text says; gaussian: weights N(0, weight_std^2), biases 0",
        choices=("default", "gaussian"),
    )
    weight_std: float | None = penchant.option(
        None, "standard deviation of gaussian weights, 1 if left out", above=0
    )

    def __attrs_post_init__(self) -> None:
        if self.weight_std is not None and self.initialization != "gaussian":
            raise penchant.Error(
                f"weight_std belongs to initialization = gaussian, found {self.weight_std} with {self.initialization}"
            )


@attrs.frozen
class Logistic(_Drawn):
    """Logistic regression: one linear layer on the flattened input.

    Drawn as PyTorch does, U(+-1/sqrt(D)): its gradients are isotropic with covariance I/(3D).
    Reference: Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard: Neural Anisotropy Directions. NeurIPS 2020.
    """

    name = "logistic"
    target = "penchant_architectures.perceptrons:build_logistic"


@attrs.frozen
class Perceptron(_Drawn):
    """Multilayer perceptron on the flattened input.

    The default, three hidden layers of 500, is the one of Ortiz-Jimenez et al. (NeurIPS 2020); drawn as PyTorch does. The
    one of Papyan (JMLR 2020) has `widths` of seven times 2048 and `normalization = batch`.
    """

    name = "mlp"
    target = "penchant_architectures.perceptrons:build_mlp"

    widths: tuple[int, ...] = penchant.option(
        (500, 500, 500), "units of each hidden layer", at_least=1
    )
    activation: str = penchant.option("relu", _ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", _NORMALIZATION, choices=("none", "batch"))


@attrs.frozen
class LeNet(_Drawn):
    """LeNet: two 5 x 5 convolutions of 6 and 16 channels, each with a 2 x 2 pooling, and three linear layers.

    Images of at least 16 x 16 (9 x 9 without pooling); drawn as PyTorch does. The kind of pooling matters: with averages
    the trace of the gradient covariance is some 24 times smaller.
    Reference: LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition. 1998.
    """

    name = "lenet"
    target = "penchant_architectures.lenet:build"

    pooling: str = penchant.option(
        "max", "none: the feature maps keep their size", choices=("max", "average", "none")
    )
    hidden: tuple[int, ...] = penchant.option(
        (120, 84), "units of each hidden linear layer", at_least=1
    )
    activation: str = penchant.option("relu", _ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", _NORMALIZATION, choices=("none", "batch"))


@attrs.frozen
class VGG11(_Drawn):
    """VGG11 for small images: eight 3 x 3 convolutions in five stages, then a classifier.

    Images of at least 32 x 32 (any size without pooling). Convolutions are drawn from N(0, 2/(9 out)) with zero biases,
    linear layers as PyTorch does. Without pooling the classifier sees 512 x 32 x 32 numbers: 268 million weights.
    `classifier = [4096, 4096]` is the one of Papyan (JMLR 2020).
    Reference: Simonyan, Zisserman: Very deep convolutional networks for large-scale image recognition. ICLR 2015.
    """

    name = "vgg11"
    target = "penchant_architectures.vgg:build_vgg11"

    classifier: tuple[int, ...] = penchant.option(
        (512, 512), "units of each hidden linear layer", at_least=1
    )
    pooling: str = penchant.option(
        "max", "none: the feature maps keep their size", choices=("max", "average", "none")
    )
    activation: str = penchant.option("relu", _ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", _NORMALIZATION, choices=("none", "batch"))


@attrs.frozen
class VGG19(_Drawn):
    """VGG19 for small images: sixteen 3 x 3 convolutions in five stages, and one linear layer.

    Images of at least 32 x 32 (any size without pooling). Weights are drawn by Kaiming's normal rule, N(0, 2/inputs), and
    biases are zero.
    Reference: Simonyan, Zisserman (ICLR 2015), as used by Baratin et al.: Implicit regularization via neural feature
    alignment. AISTATS 2021.
    """

    name = "vgg19"
    target = "penchant_architectures.vgg:build_vgg19"

    width: int = penchant.option(
        64, "channels of the first stage; the others have 2, 4, 8 and 8 times as many", at_least=1
    )
    pooling: str = penchant.option(
        "max", "none: the feature maps keep their size", choices=("max", "average", "none")
    )
    activation: str = penchant.option("relu", _ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", _NORMALIZATION, choices=("none", "batch"))


@attrs.frozen
class ResNet18(_Drawn):
    """ResNet18 for small images: a 3 x 3 stem and four stages of two basic blocks, 64 to 512 channels.

    Images of any size; drawn as PyTorch does. The final average is over all positions (4 x 4 of them for 32 x 32 images).
    Reference: He, Zhang, Ren, Sun: Deep residual learning for image recognition. CVPR 2016.
    """

    name = "resnet18"
    target = "penchant_architectures.resnet:build_resnet18"

    pooling: str = penchant.option("average", _FINAL_POOLING, choices=("average", "none"))
    shortcut: str = penchant.option(
        "convolution", "what joins blocks of different size", choices=("convolution", "padding")
    )
    activation: str = penchant.option(
        "relu", f"{_ACTIVATION}, those of the residual blocks included", choices=ACTIVATIONS
    )
    normalization: str = penchant.option(
        "batch", "batch: batch-norm behind every convolution", choices=("none", "batch")
    )


@attrs.frozen
class ResNet20(_Drawn):
    """ResNet20: a 3 x 3 stem and three stages of three basic blocks with 16, 32 and 64 channels.

    Images of any size; drawn as PyTorch does. As published, shortcuts between stages drop every second position and add
    zero channels.
    Reference: He, Zhang, Ren, Sun: Deep residual learning for image recognition. CVPR 2016, section 4.2.
    """

    name = "resnet20"
    target = "penchant_architectures.resnet:build_resnet20"

    pooling: str = penchant.option("average", _FINAL_POOLING, choices=("average", "none"))
    shortcut: str = penchant.option(
        "padding", "what joins blocks of different size", choices=("padding", "convolution")
    )
    activation: str = penchant.option(
        "relu", f"{_ACTIVATION}, those of the residual blocks included", choices=ACTIVATIONS
    )
    normalization: str = penchant.option(
        "batch", "batch: batch-norm behind every convolution", choices=("none", "batch")
    )


@attrs.frozen
class DenseNet121(_Drawn):
    """DenseNet121 for small images: dense blocks of 6, 12, 24 and 16 layers, growth 32, compression 0.5, a 3 x 3 stem.

    Images of at least 8 x 8 (any size without pooling); drawn as PyTorch does. The final average is over all positions
    (4 x 4 of them for 32 x 32 images); `pooling` is about the averages of the three transitions only.
    Reference: Huang, Liu, van der Maaten, Weinberger: Densely connected convolutional networks. CVPR 2017.
    """

    name = "densenet121"
    target = "penchant_architectures.densenet:build"

    pooling: str = penchant.option(
        "average",
        "in the transitions; none: the feature maps keep their size",
        choices=("average", "none"),
    )
    activation: str = penchant.option("relu", _ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("batch", _NORMALIZATION, choices=("none", "batch"))


@attrs.frozen
class VisionTransformer(_Drawn):
    """Vision transformer (pre-norm) with a class token and learned positions.

    Images whose sides are multiples of `patch`. Weights are drawn by Glorot's uniform rule, biases are zero, class token
    and positions N(0, 0.02^2), also with gaussian weights. Attention is written out, so it can be differentiated twice.
    Reference: Dosovitskiy et al.: An image is worth 16x16 words. ICLR 2021.
    """

    name = "vit"
    target = "penchant_architectures.vit:build"

    patch: int = penchant.option(8, "side of a patch", at_least=1)
    layers: int = penchant.option(9, "transformer layers", at_least=1)
    heads: int = penchant.option(12, "attention heads; must divide the width", at_least=1)
    width: int = penchant.option(192, "numbers per token", at_least=1)
    hidden: int = penchant.option(768, "hidden units of the perceptron of a layer", at_least=1)
    activation: str = penchant.option("gelu", "activation of the perceptrons", choices=ACTIVATIONS)
    normalization: str = penchant.option(
        "layer",
        "layer: layer-norm in front of attention, perceptron and head",
        choices=("layer", "none"),
    )


@attrs.frozen
class LinearPooling(penchant.Architecture):
    """The spectral model of pooling: f(x) = theta . A (m * phi * x), A = [I ... I] / sqrt(stride).

    The input, of one dimension D, is the spectrum of a signal in the order of the DFT: entry l has the frequency
    min(l, D - l) / D. `stride` S folds it on M = ceil(D / S) entries (a last block that is not full stays short), m is the
    prefilter, phi ~ N(0, phi_std^2) stands for convolutions, theta ~ N(0, theta_std^2) for a linear layer. With
    `activation = relu` it is theta . A (m * relu(phi * x)). Gradient covariance: (phi_std^2 theta_std^2 / S) diag(m^2), half
    of it for relu and symmetric inputs.
    Reference: Ortiz-Jimenez et al.: Neural Anisotropy Directions, NeurIPS 2020, section 2.2, whose covariances miss the 1/S.
    """

    name = "linear-pooling"
    target = "penchant_architectures.linear_pooling:build"

    stride: int = penchant.option(4, "how many inputs are folded on one: S", at_least=1)
    prefilter: str = penchant.option(
        "none",
        "m: none is 1; average, the response of a mean of `stride` neighbours; low-pass, 1 below the frequency 1/(2 stride), else 0",
        choices=("none", "average", "low-pass"),
    )
    response: Any = penchant.option(
        None, "m itself instead of a named prefilter, one number per input", array=True
    )
    theta_std: float = penchant.option(1.0, "standard deviation of theta", above=0)
    phi_std: float = penchant.option(1.0, "standard deviation of phi", above=0)
    activation: str = penchant.option(
        "linear", "relu: the non-linear model of pooling", choices=("linear", "relu")
    )

    def __attrs_post_init__(self) -> None:
        if self.response is not None and self.prefilter != "none":
            raise penchant.Error(
                f"linear-pooling takes a prefilter or a response, found both (prefilter {self.prefilter})"
            )


@attrs.frozen
class LinearConvolution(penchant.Architecture):
    """Linear convolution, average over positions, linear readout: f(x) = sum_c p_c (1/k) sum_j w_c . patch_j(x).

    Inputs of one dimension, images of one channel (two dimensions) or of several (three). With n channels, k positions and
    P = sum_j M_j, which puts a patch at every position, the gradient covariance is (n s_w^2 s_p^2 / k^2) P P^T. Without
    pooling it is n s_w^2 s_p^2 times how often each input is covered by a patch, on the diagonal.
    Reference: Geometric Inductive Biases of Deep Networks, theorem 3.2.
    """

    name = "linear-conv"
    target = "penchant_architectures.linear_conv:build"

    channels: int = penchant.option(16, "channels: n", at_least=1)
    kernel: int = penchant.option(3, "side of a patch", at_least=1)
    stride: int = penchant.option(1, "distance between patches", at_least=1)
    padding: str = penchant.option(
        "none",
        "circular: patches go on at the other end of the input",
        choices=("none", "circular"),
    )
    pooling: str = penchant.option(
        "average",
        "none: the readout has a weight for every channel and position",
        choices=("average", "none"),
    )
    weight_std: float = penchant.option(
        1.0, "standard deviation of the convolution's weights: s_w", above=0
    )
    readout_std: float = penchant.option(
        1.0, "standard deviation of the readout's weights: s_p", above=0
    )


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """All of the above."""
    return [
        Logistic,
        Perceptron,
        LeNet,
        VGG11,
        VGG19,
        ResNet18,
        ResNet20,
        DenseNet121,
        VisionTransformer,
        LinearPooling,
        LinearConvolution,
    ]
