"""Models and datasets of Hugging Face; this module is all that discovery imports."""

import penchant

from penchant_huggingface import declarations


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """Architectures this plugin offers."""
    return [declarations.HuggingFace]


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Datasets this plugin offers."""
    return [declarations.Texts]
