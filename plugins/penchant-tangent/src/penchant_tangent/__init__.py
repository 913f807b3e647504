"""Tangent features: what a network could learn next, and how that aligns with the labels.

The tangent kernel K = J J^T of a network says how fast each function of its samples is learnt.
While a network trains, K stretches along few directions that the labels point to.

Reference: Baratin, George, Laurent, Hjelm, Lajoie, Vincent, Lacoste-Julien, "Implicit
Regularization via Neural Feature Alignment", AISTATS 2021; chapter 4 and appendix B of Baratin,
"Some Phenomenological Investigations in Deep Learning", thesis, Universite de Montreal.
"""

import penchant

from penchant_tangent.declarations.complexity import Complexity
from penchant_tangent.declarations.eigenfunctions import Disk, TangentEigenfunctions
from penchant_tangent.declarations.kernels import ParameterDirections, TangentKernel
from penchant_tangent.declarations.linear import Capacity, SuperNat
from penchant_tangent.declarations.training import TangentTraining


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Datasets this plugin offers."""
    return [Disk]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [
        TangentKernel,
        TangentTraining,
        TangentEigenfunctions,
        SuperNat,
        ParameterDirections,
        Capacity,
        Complexity,
    ]
