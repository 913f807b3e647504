"""A second set of pairs with known information, of other kinds than the families.

The rule that parts it, written before any estimator saw one of them: by name in alphabetical order,
the first, third, fifth ... are open, and may be looked at while estimators are made; the others are
kept for a last look.
"""

from __future__ import annotations

from second_tasks import atoms, bounded, copulas, fine, interactions, series, tails
from second_tasks.task import Task

KINDS = {
    "atoms": atoms.TASKS,
    "heavy tails": tails.TASKS,
    "fine structure": fine.TASKS,
    "interactions": interactions.TASKS,
    "copulas": copulas.TASKS,
    "autocorrelation": series.TASKS,
    "bounded": bounded.TASKS,
}
ALL: dict[str, Task] = {
    name: task for tasks in KINDS.values() for name, task in sorted(tasks.items())
}
OPEN = sorted(ALL)[::2]
KEPT = sorted(ALL)[1::2]
