"""Headlines: what a probe says of its own numbers, one sentence for groups that it says it of."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from penchant.errors import Error
from penchant.results.runs import Run
from penchant_numerics.statistics import counted

from penchant_report.answers import Answer, Group
from penchant_report.figures import headline_of
from penchant_report.merging import by_pattern, merged

MOST_GROUPS = 24  # that are given a headline
MOST_NAMES = 3  # groups that are named where a sentence holds for all of them


@attrs.frozen
class Headline:
    """A sentence of a probe.

    Attributes:
        groups: Whom it is about; empty where there is one group only.
        text: The sentence.
    """

    groups: str
    text: str


def headlines(run: Run, answer: Answer) -> tuple[list[Headline], list[str]]:
    """The sentences of a probe about its groups, seeds pooled.

    Groups whose sentences differ in numbers only share one, with the range of each number.

    Args:
        run: The run.
        answer: What the probe found.

    Returns:
        The sentences, and what went wrong where a probe failed to give one.
    """
    sentences = {}
    problems = []
    for group in answer.groups[:MOST_GROUPS]:
        try:
            text = _headline(run, group)
        except Error as error:
            problems.append(str(error))
            continue
        except Exception as error:  # a sentence that fails is no reason to lose a page
            kind = type(error).__name__
            problems.append(f"The headline of {group.label} failed: {kind}: {error}")
            continue
        if text:
            sentences[group.label] = text
    several = len(answer.groups) > 1
    shown = []
    for labels in by_pattern(sentences):
        groups = _named(labels, len(answer.groups)) if several else ""
        shown.append(Headline(groups, merged([sentences[label] for label in labels])))
    rest = len(answer.groups) - MOST_GROUPS
    if shown and rest > 0:
        shown.append(Headline("", f"The table has {counted(rest, 'more group')}."))
    return shown, list(dict.fromkeys(problems))


def _named(labels: Sequence[str], groups: int) -> str:
    if len(labels) == groups > MOST_NAMES:
        return f"All {counted(groups, 'group')}"
    return ", ".join(labels)


def _headline(run: Run, group: Group) -> str:
    """The sentence about a group: its first seed's arrays, and quantities pooled over seeds."""
    result = run.result(group.entries[0].id)
    quantities = {name: each.quantity for name, each in group.quantities.items()}
    return headline_of(attrs.evolve(result, quantities=quantities), run.plugins)
