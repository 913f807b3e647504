"""What the loss of a training must be, and whether it fell."""

from __future__ import annotations

import penchant


def check_loss(context: penchant.Context, required: str) -> None:
    """Refuse another loss before anything is trained: waves are regressed, classes are not."""
    assert context.training is not None  # the probe needs one
    loss = context.training.loss
    if loss != required:
        raise penchant.Error(f"this probe needs training.loss = {required!r}, found {loss!r}")


def warn_above_constant(
    context: penchant.Context, loss: float, constant: float | None, where: str = "training"
) -> None:
    """Warn where a final loss is above that of the best constant: nothing was learnt."""
    if constant is not None and loss > constant:
        context.warn(
            f"the loss of {where} ended at {loss:.3g}, above the {constant:.3g} of a constant: "
            "the numbers are of a network that learnt nothing; use a smaller learning rate or "
            "train longer"
        )
