"""Curvature layer by layer: Gauss-Newton, its proxies, and how well they agree.

Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020,
sections 7.10 to 7.12.
"""

import penchant

from penchant_curvature import declarations


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [declarations.CurvatureProxies]


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    """Estimators this plugin offers."""
    return [
        declarations.GaussNewton,
        declarations.Kfac,
        declarations.Cfac,
        declarations.EmpiricalFisher,
    ]
