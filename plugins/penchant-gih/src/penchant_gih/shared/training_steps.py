"""Steps of training at which a probe evaluates networks."""

from __future__ import annotations

import penchant


def chosen_steps(
    eval_steps: tuple[int, ...] | None, total: int, *, eval_every: int | None = None
) -> list[int]:
    """The requested steps, every `eval_every`, or 0, 1, 2, 4, ...; the last where none are named.

    Args:
        eval_steps: Steps, ascending.
        total: The last step of the training.
        eval_every: The distance of steps.
    """
    # Every `eval_every` steps, and the last.
    if eval_steps is None and eval_every is not None:
        regular = range(0, total + 1, eval_every)
        return sorted({*regular, total})
    if eval_steps is None:
        # Most happens early: the steps double.
        doublings = range(total.bit_length())
        powers = {2**power for power in doublings}
        early = {power for power in powers if power <= total}
        return sorted({0, total} | early)
    # Evaluations come in the order of the training, each once.
    ascending = sorted(set(eval_steps))
    if list(eval_steps) != ascending or eval_steps[-1] > total:
        raise penchant.Error(
            f"eval_steps must ascend and end at most at {total}, the last of the training, "
            f"found {list(eval_steps)}"
        )
    return list(eval_steps)
