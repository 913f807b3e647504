"""Datasets with a known law, sampled from a seed; this module is all that discovery imports."""

import penchant

from penchant_synthetic import declarations


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Datasets this plugin offers."""
    return [
        declarations.LinearlySeparable,
        declarations.Gaussian,
        declarations.GaussianMixture,
        declarations.Sinusoids,
        declarations.Flower,
        declarations.Peak,
    ]
