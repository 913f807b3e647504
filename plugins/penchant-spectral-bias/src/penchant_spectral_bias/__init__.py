"""Spectral bias: which frequencies a network learns first, keeps under noise, and loses (Rahaman et al., ICML 2019)."""

import penchant

from penchant_spectral_bias.declarations.curves import (
    FrequencyLearning,
    FrequencyRobustness,
    ManifoldAccuracy,
    PeakAblation,
)
from penchant_spectral_bias.declarations.images import (
    ClassPaths,
    KernelSpectrum,
    NoiseOnManifold,
    TargetNoise,
)
from penchant_spectral_bias.declarations.theory import ExactSpectrum


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [
        FrequencyLearning,
        FrequencyRobustness,
        TargetNoise,
        KernelSpectrum,
        ManifoldAccuracy,
        PeakAblation,
        NoiseOnManifold,
        ClassPaths,
        ExactSpectrum,
    ]
