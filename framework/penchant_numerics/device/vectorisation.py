"""Computations that cannot be vectorised are done one by one, with a warning."""

import warnings

import torch
from penchant_numerics.device.memory import is_shortage


class NotVectorisedWarning(UserWarning):
    """Something is done one by one, which takes longer."""


def lacks_batching(error: RuntimeError) -> bool:
    """Whether one by one may go where all at once did not.

    It does not where memory ran out, which smaller batches mend, or where the device itself failed.

    >>> lacks_batching(RuntimeError("no batching rule")), lacks_batching(torch.OutOfMemoryError())
    (True, False)
    """
    return not (is_shortage(error) or isinstance(error, torch.AcceleratorError))


def warn_not_vectorised(error: RuntimeError, what: str) -> None:
    """Say that something is done one by one, and why.

    Args:
        error: What doing it all at once raised.
        what: What is done one by one, a plural for the sentence ("gradients of samples").

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_not_vectorised(RuntimeError("no batching rule"), "gradients of samples")
    >>> str(caught[0].message)
    'gradients of samples are taken one by one, which takes longer: no batching rule'
    """
    lines = str(error).splitlines() or [type(error).__name__]
    warnings.warn(
        f"{what} are taken one by one, which takes longer: {lines[0]}",
        NotVectorisedWarning,
        stacklevel=3,
    )
