"""The loss around a network: along lines and planes, and how many parameters it really uses.

Loss and accuracy between checkpoints, along random directions and along eigenvectors of the
Hessian, each beside the quadratic model; the local learning coefficient by Langevin dynamics;
sharpness from forward passes only.

References: Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018; Lau et al., The
Local Learning Coefficient: A Singularity-Aware Complexity Measure, 2023; Kalra et al., A Scalable
Measure of Loss Landscape Curvature, 2026.
"""

import penchant

from penchant_landscape.declarations.critical_sharpness import CriticalSharpness
from penchant_landscape.declarations.learning_coefficient import LearningCoefficient
from penchant_landscape.declarations.loss_plane import LossPlane


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes of this plugin."""
    return [LossPlane, LearningCoefficient, CriticalSharpness]
