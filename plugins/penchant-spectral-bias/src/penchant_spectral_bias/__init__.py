"""Spectral bias: which frequencies a network learns first, keeps under noise, and loses.

Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019.
"""

import penchant

from penchant_spectral_bias.declarations import curves, images, paths, peaks, theory


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [
        curves.FrequencyLearning,
        curves.FrequencyRobustness,
        images.TargetNoise,
        images.KernelSpectrum,
        curves.ManifoldAccuracy,
        peaks.PeakAblation,
        images.NoiseOnManifold,
        paths.ClassPaths,
        theory.ExactSpectrum,
    ]
