"""Datasets of images, from their standard files; this module is all that discovery imports."""

import penchant

from penchant_vision import declarations


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Datasets this plugin offers."""
    return [
        declarations.Digits,
        declarations.Mnist,
        declarations.FashionMnist,
        declarations.Kmnist,
        declarations.StackedMnist,
        declarations.Cifar10,
        declarations.Cifar100,
        declarations.Cifar2,
        declarations.CelebA,
    ]
