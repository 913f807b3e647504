"""Convolutional networks for small images."""

import attrs
import penchant

from penchant_architectures.declarations.layered import (
    ACTIVATIONS,
    NORMALIZATIONS,
    OF_ACTIVATION,
    OF_NORMALIZATION,
    OF_POOLING,
    POOLINGS,
    LayeredNetwork,
)

OF_VGG_WIDTH = "channels of the first stage; the others have 2, 4, 8 and 8 times as many"
# Help texts that both residual networks share.
OF_FINAL_POOLING = "the final pooling; none: the linear layer has all positions as inputs"
OF_SHORTCUT = "shortcut between blocks of different size"
OF_RESIDUAL_ACTIVATION = f"{OF_ACTIVATION}, those of the residual blocks included"
OF_RESIDUAL_NORMALIZATION = "batch: batch-norm after every convolution"


@attrs.frozen
class LeNet(LayeredNetwork):
    """LeNet: two 5 x 5 convolutions, each with a 2 x 2 pooling, and three linear layers.

    The convolutions have 6 and 16 channels. Images of at least 16 x 16 (9 x 9 without pooling);
    initialised as in PyTorch. The kind of pooling matters: with average pooling the trace of the
    gradient covariance is about 24 times smaller.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document
    Recognition", Proc. IEEE 1998.
    """

    name = "lenet"
    target = "penchant_architectures.architectures.lenet:build"

    pooling: str = penchant.option("max", OF_POOLING, choices=POOLINGS)
    widths: tuple[int, ...] = penchant.option(
        (120, 84), "units of each hidden linear layer", at_least=1
    )
    activation: str = penchant.option("relu", OF_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", OF_NORMALIZATION, choices=NORMALIZATIONS)


@attrs.frozen
class VGG11(LayeredNetwork):
    """VGG11 for small images: eight 3 x 3 convolutions in five stages, then a classifier.

    Images of at least 32 x 32 (any size without pooling). Convolutions are initialised from
    N(0, 2/(9 out)) with zero biases, linear layers as in PyTorch. Without pooling the classifier
    has 512 x 32 x 32 inputs: 268 million weights. `width` makes it narrower.

    `normalization = convolutions` with `dropout = 0.5` is the network of Ortiz-Jimenez et al.
    (NeurIPS 2020); `classifier = [4096, 4096]` with `normalization = batch` is that of Papyan
    (JMLR 2020).

    Reference: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
    Recognition", ICLR 2015.
    """

    name = "vgg11"
    target = "penchant_architectures.architectures.vgg11:build"

    width: int = penchant.option(64, OF_VGG_WIDTH, at_least=1)
    # The classifier behind the convolutions.
    classifier: tuple[int, ...] = penchant.option(
        (512, 512), "units of each hidden linear layer", at_least=1
    )
    dropout: float = penchant.option(
        0.0,
        "dropout probability at the inputs of every hidden linear layer, in training only",
        at_least=0,
        below=1,
    )
    # The layers.
    pooling: str = penchant.option("max", OF_POOLING, choices=POOLINGS)
    activation: str = penchant.option("relu", OF_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option(
        "none",
        f"{OF_NORMALIZATION}; convolutions: not in the classifier",
        choices=(*NORMALIZATIONS, "convolutions"),
    )


@attrs.frozen
class VGG19(LayeredNetwork):
    """VGG19 for small images: sixteen 3 x 3 convolutions in five stages, and one linear layer.

    Images of at least 32 x 32 (any size without pooling). Weights are initialised by Kaiming's
    normal rule, N(0, 2/inputs), and biases are zero.

    Reference: Simonyan, Zisserman (ICLR 2015), as used by Baratin et al., "Implicit Regularization
    via Neural Feature Alignment", AISTATS 2021.
    """

    name = "vgg19"
    target = "penchant_architectures.architectures.vgg19:build"

    width: int = penchant.option(64, OF_VGG_WIDTH, at_least=1)
    # The layers.
    pooling: str = penchant.option("max", OF_POOLING, choices=POOLINGS)
    activation: str = penchant.option("relu", OF_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", OF_NORMALIZATION, choices=NORMALIZATIONS)


@attrs.frozen
class ResNet18(LayeredNetwork):
    """ResNet18 for small images: a 3 x 3 stem and four stages of two basic blocks.

    Stages have 64 to 512 channels by default (`width`). Images of any size; initialised as in
    PyTorch. The final average is over all positions (4 x 4 of them for 32 x 32 images).

    Reference: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016.
    """

    name = "resnet18"
    target = "penchant_architectures.architectures.resnet18:build"

    width: int = penchant.option(
        64,
        "channels of the stem and of the first stage; the others have 2, 4 and 8 times as many",
        at_least=1,
    )
    # How blocks are joined and read out.
    pooling: str = penchant.option("average", OF_FINAL_POOLING, choices=("average", "none"))
    shortcut: str = penchant.option("convolution", OF_SHORTCUT, choices=("convolution", "padding"))
    # What they are made of.
    activation: str = penchant.option("relu", OF_RESIDUAL_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("batch", OF_RESIDUAL_NORMALIZATION, choices=NORMALIZATIONS)


@attrs.frozen
class ResNet20(LayeredNetwork):
    """ResNet20: a 3 x 3 stem and three stages of three basic blocks with 16, 32 and 64 channels.

    Images of any size; initialised as in PyTorch. As published, shortcuts between stages drop every
    second position and add zero channels.

    Reference: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016,
    section 4.2.
    """

    name = "resnet20"
    target = "penchant_architectures.architectures.resnet20:build"

    # How blocks are joined and read out.
    pooling: str = penchant.option("average", OF_FINAL_POOLING, choices=("average", "none"))
    shortcut: str = penchant.option("padding", OF_SHORTCUT, choices=("padding", "convolution"))
    # What they are made of.
    activation: str = penchant.option("relu", OF_RESIDUAL_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("batch", OF_RESIDUAL_NORMALIZATION, choices=NORMALIZATIONS)


@attrs.frozen
class DenseNet121(LayeredNetwork):
    """DenseNet121 for small images: dense blocks of 6, 12, 24 and 16 layers behind a 3 x 3 stem.

    Growth 32 (half of `width`), compression 0.5. Images of at least 8 x 8 (any size without
    pooling); initialised as in PyTorch. The final average is over all positions (4 x 4 of them for
    32 x 32 images); `pooling` is about the averages of the three transitions only.

    Reference: Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks",
    CVPR 2017.
    """

    name = "densenet121"
    target = "penchant_architectures.architectures.densenet121:build"

    width: int = penchant.option(
        64, "channels of the stem; every dense layer adds half as many", at_least=2
    )
    pooling: str = penchant.option(
        "average", f"in the transitions; {OF_POOLING}", choices=("average", "none")
    )
    activation: str = penchant.option("relu", OF_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("batch", OF_NORMALIZATION, choices=NORMALIZATIONS)
