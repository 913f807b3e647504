"""Steps of training at which a probe looks."""

from __future__ import annotations

import penchant


def chosen_steps(
    at_steps: tuple[int, ...] | None,
    total: int,
    *,
    look_every: int | None = None,
) -> list[int]:
    """The steps asked for, every so many, or 0, 1, 2, 4, ...; and the last where none are named.

    Args:
        at_steps: Steps, ascending.
        total: The last step of the training.
        look_every: The distance of steps.
    """
    # Every so many steps, and the last.
    if at_steps is None and look_every is not None:
        regular = range(0, total + 1, look_every)
        return sorted({*regular, total})
    if at_steps is None:
        # Most happens early: the steps double.
        doublings = range(total.bit_length())
        powers = {2**power for power in doublings}
        early = {power for power in powers if power <= total}
        return sorted({0, total} | early)
    # Looks come in the order of the training, each once.
    ascending = sorted(set(at_steps))
    if list(at_steps) != ascending or at_steps[-1] > total:
        raise penchant.Error(
            f"at_steps must ascend and end at most at {total}, the last of the training, "
            f"found {list(at_steps)}"
        )
    return list(at_steps)
