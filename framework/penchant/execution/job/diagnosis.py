"""What a network lacks, where a measurement ended in an error of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penchant.execution.failures import Failure
from penchant.execution.job.context import Context
from penchant.execution.job.networks import SAMPLES
from penchant.experiments.jobs import Job

if TYPE_CHECKING:
    from torch import Tensor


def explained(failure: Failure, problem: BaseException, job: Job, context: Context) -> Failure:
    """The failure with what its network lacks in front, where that is known.

    Args:
        failure: What the error says.
        problem: The error.
        job: What was measured.
        context: Its context.

    Returns:
        The same failure where the network has every derivative, or where torch did not fail.
    """
    if job.architecture is None or not isinstance(problem, RuntimeError):
        return failure
    try:
        lacking = _lacking(context)
    except Exception:  # whatever fails here, the first error counts
        return failure
    if not lacking:
        return failure
    text = f"architecture {job.architecture.label!r} {lacking} (the probe ended in {failure.text})"
    return Failure(text, failure.details)


def _lacking(context: Context) -> str:
    from penchant_numerics.device import safe, why_not

    network = safe(context.network().cpu())
    return why_not(network, _inputs(context))


def _inputs(context: Context) -> Tensor:
    """A few samples, in double precision unless they are tokens."""
    from penchant_numerics.device import random_points

    if not context.has("dataset"):
        return random_points(context.architecture.shape)[0]
    inputs = context.data.train.inputs[:SAMPLES].cpu()
    return inputs.double() if inputs.is_floating_point() else inputs
