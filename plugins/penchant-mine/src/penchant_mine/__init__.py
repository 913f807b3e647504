"""Mutual information: estimates that say how far they can be trusted, and what they are used for (thesis, chapter 5)."""

from __future__ import annotations

import penchant

from penchant_mine.declared.datasets import DATASETS
from penchant_mine.declared.estimators import ARCHITECTURES, ESTIMATORS
from penchant_mine.declared.generative import GENERATIVE_PROBES
from penchant_mine.declared.information import INFORMATION_PROBES


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    return list(ARCHITECTURES)


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    return list(DATASETS)


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    return list(ESTIMATORS)


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [*INFORMATION_PROBES, *GENERATIVE_PROBES]
