"""What the loss of a training must be."""

from __future__ import annotations

import penchant


def check_loss(context: penchant.Context, wanted: str) -> None:
    """Refuse another loss before anything is trained: waves are regressed, classes are not."""
    found = context.training.loss
    if found == wanted:
        return
    raise penchant.Error(f"this probe needs training.loss = {wanted!r}, found {found!r}")
