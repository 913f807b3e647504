"""Options that all layered networks share: biases and initialisation."""

import attrs
import penchant

ACTIVATIONS = ("relu", "gelu", "tanh", "sine", "linear")
POOLINGS = ("max", "average", "none")
NORMALIZATIONS = ("none", "batch")
# Help texts that several architectures share.
OF_ACTIVATION = "every activation of the network"
OF_NORMALIZATION = "batch: batch-norm before every activation"
OF_POOLING = "none: the feature maps keep their size"


@attrs.frozen
class LayeredNetwork(penchant.Architecture):
    """Options of every layered network."""

    bias: bool = penchant.option(
        True,
        "biases in linear and convolution layers; never before a batch-norm, which has its own",
    )
    initialization: str = penchant.option(
        "default",
        "default: as described above; gaussian: weights N(0, weight_std^2), biases 0",
        choices=("default", "gaussian"),
    )
    weight_std: float | None = penchant.option(
        None, "standard deviation of gaussian weights; None: 1", above=0
    )

    def __attrs_post_init__(self) -> None:
        if self.weight_std is not None and self.initialization != "gaussian":
            raise penchant.Error(
                "weight_std belongs to initialization = gaussian, "
                f"found {self.weight_std} with {self.initialization}"
            )
