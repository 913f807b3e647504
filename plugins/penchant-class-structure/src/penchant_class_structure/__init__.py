"""Class and cross-class structure in the spectra of deep classifiers.

Which eigenvalues of a classifier's Hessian, of its Gauss-Newton matrix, of its features,
backpropagated errors and weights are made by class means, and which are left without them.

Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020.
"""

import penchant

from penchant_class_structure.declarations.cross_class import CrossClass
from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum
from penchant_class_structure.declarations.layer_structure import LayerStructure
from penchant_class_structure.declarations.logistic_theory import LogisticTheory
from penchant_class_structure.declarations.neural_collapse import NeuralCollapse


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [HessianSpectrum, CrossClass, LayerStructure, LogisticTheory, NeuralCollapse]
