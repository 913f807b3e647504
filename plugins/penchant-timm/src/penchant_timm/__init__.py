"""Any model of timm as an architecture; this module is all that discovery imports."""

import penchant

from penchant_timm import declarations


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """Architectures this plugin offers."""
    return [declarations.Timm]
