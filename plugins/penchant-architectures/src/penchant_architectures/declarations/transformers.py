"""Networks on sequences of image patches."""

import attrs
import penchant

from penchant_architectures.declarations.layered import ACTIVATIONS, LayeredNetwork


@attrs.frozen
class VisionTransformer(LayeredNetwork):
    """Vision transformer (pre-norm) with a class token and learned positions.

    Images whose sides are multiples of `patch`. Weights are initialised by Glorot's uniform rule,
    biases are zero, class token and positions N(0, 0.02^2), also with gaussian weights. Attention
    is written out, so it can be differentiated twice.

    Reference: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021.
    """

    name = "vit"
    target = "penchant_architectures.architectures.vit:build"

    # How large it is.
    patch: int = penchant.option(8, "side of a patch", at_least=1)
    layers: int = penchant.option(9, "transformer layers", at_least=1)
    heads: int = penchant.option(12, "attention heads; must divide the width", at_least=1)
    width: int = penchant.option(192, "dimension of a token", at_least=1)
    hidden: int = penchant.option(768, "hidden units of the perceptron of a layer", at_least=1)
    # What it is made of.
    activation: str = penchant.option("gelu", "activation of the perceptrons", choices=ACTIVATIONS)
    normalization: str = penchant.option(
        "layer",
        "layer: layer-norm before attention, perceptron and head",
        choices=("layer", "none"),
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.width % self.heads:
            raise penchant.Error(
                "vit needs a width that its heads divide, "
                f"found width {self.width} with {self.heads} heads"
            )
