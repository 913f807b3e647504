"""At which steps of a training networks are evaluated."""

from __future__ import annotations

import penchant
from penchant_numerics.training import recorded_steps


def evaluation_steps(context: penchant.Context, samples: int) -> list[int]:
    """Every `eval_every` steps of a training on `samples` samples, and the last."""
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(samples)
    return recorded_steps(total, context.options.eval_every)
