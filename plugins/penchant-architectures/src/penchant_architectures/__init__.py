"""The networks that the literature on inductive biases measures, for any input that fits.

This module is all that discovery imports.
"""

import penchant

from penchant_architectures.declarations import (
    convolutional,
    linear_models,
    perceptrons,
    transformers,
)


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """Architectures this plugin offers."""
    return [
        perceptrons.Logistic,
        perceptrons.Perceptron,
        convolutional.LeNet,
        convolutional.VGG11,
        convolutional.VGG19,
        convolutional.ResNet18,
        convolutional.ResNet20,
        convolutional.DenseNet121,
        transformers.VisionTransformer,
        linear_models.LinearPooling,
        linear_models.LinearConvolution,
    ]
