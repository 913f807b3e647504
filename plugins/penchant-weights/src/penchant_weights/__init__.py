"""Spectra of weights: of a file on disk, one tensor at a time, or of a network.

Singular values of every layer against the law of Marchenko and Pastur and against the same entries
in random order, and the exponent of their tail where a power law is there.

References: Martin and Mahoney, Implicit self-regularization in deep neural networks, JMLR 2021;
Clauset, Shalizi and Newman, Power-law distributions in empirical data, SIAM Review 2009.
"""

import penchant

from penchant_weights.declarations import WeightSpectra


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [WeightSpectra]
