"""Mutual information: estimates that say how far they can be trusted, and what they are used for.

Reference: Some Phenomenological Investigations in Deep Learning, chapter 5 and appendix C; Belghazi
et al., "Mutual Information Neural Estimation", ICML 2018.
"""

import penchant

from penchant_mine.declarations.datasets import DATASETS
from penchant_mine.declarations.estimators import ARCHITECTURES, ESTIMATORS
from penchant_mine.declarations.generative import GENERATIVE_PROBES
from penchant_mine.declarations.information import INFORMATION_PROBES


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """Statistics networks."""
    return list(ARCHITECTURES)


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Pairs with known information, and shapes in the plane."""
    return list(DATASETS)


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    """Estimators of the role `mutual-information`."""
    return list(ESTIMATORS)


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes of information, and of what is made with it."""
    return [*INFORMATION_PROBES, *GENERATIVE_PROBES]
