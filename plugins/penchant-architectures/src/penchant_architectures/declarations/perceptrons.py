"""Networks on the flattened input."""

import attrs
import penchant

from penchant_architectures.declarations.layered import (
    ACTIVATIONS,
    NORMALIZATIONS,
    OF_ACTIVATION,
    OF_NORMALIZATION,
    LayeredNetwork,
)


class Logistic(LayeredNetwork):
    """Logistic regression: one linear layer on the flattened input.

    Initialised as in PyTorch, U(+-1/sqrt(D)): its gradients are isotropic with covariance I/(3D).

    Reference: Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard, "Neural Anisotropy Directions",
    NeurIPS 2020.
    """

    name = "logistic"
    target = "penchant_architectures.architectures.logistic:build"


@attrs.frozen
class Perceptron(LayeredNetwork):
    """Multilayer perceptron on the flattened input.

    The default, three hidden layers of 500 units, is that of Ortiz-Jimenez et al. (NeurIPS 2020),
    initialised as in PyTorch. That of Papyan (JMLR 2020) has seven layers of 2048 units (`widths`)
    and `normalization = batch`.
    """

    name = "mlp"
    target = "penchant_architectures.architectures.mlp:build"

    widths: tuple[int, ...] = penchant.option(
        (500, 500, 500), "units of each hidden layer", at_least=1
    )
    activation: str = penchant.option("relu", OF_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", OF_NORMALIZATION, choices=NORMALIZATIONS)
