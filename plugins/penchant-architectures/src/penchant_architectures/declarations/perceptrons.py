"""Networks that see their input as one long vector."""

from __future__ import annotations

import attrs
import penchant

from penchant_architectures.declarations.drawing import (
    ACTIVATIONS,
    NORMALIZATIONS,
    OF_ACTIVATION,
    OF_NORMALIZATION,
    Drawn,
)


class Logistic(Drawn):
    """Logistic regression: one linear layer on the flattened input.

    Drawn as PyTorch does, U(+-1/sqrt(D)): its gradients are isotropic with covariance I/(3D).

    Reference: Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard, "Neural Anisotropy Directions",
    NeurIPS 2020.
    """

    name = "logistic"
    target = "penchant_architectures.architectures.logistic:build"


@attrs.frozen
class Perceptron(Drawn):
    """Multilayer perceptron on the flattened input.

    The default, three hidden layers of 500, is the one of Ortiz-Jimenez et al. (NeurIPS 2020);
    drawn as PyTorch does. The one of Papyan (JMLR 2020) has `widths` of seven times 2048 and
    `normalization = batch`.
    """

    name = "mlp"
    target = "penchant_architectures.architectures.mlp:build"

    widths: tuple[int, ...] = penchant.option(
        (500, 500, 500),
        "units of each hidden layer",
        at_least=1,
    )
    activation: str = penchant.option("relu", OF_ACTIVATION, choices=ACTIVATIONS)
    normalization: str = penchant.option("none", OF_NORMALIZATION, choices=NORMALIZATIONS)
