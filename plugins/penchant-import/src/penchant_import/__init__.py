"""Your own networks and data: any callable that returns a module, any tensors or torch dataset."""

from __future__ import annotations

import penchant

from penchant_import.declarations import FileDataset, ImportedArchitecture, ImportedDataset

__all__ = ["penchant_architectures", "penchant_datasets"]


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """The user's own networks."""
    return [ImportedArchitecture]


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """The user's own data."""
    return [ImportedDataset, FileDataset]
