"""Headlines: what a probe says of its own numbers, one sentence for each group."""

from __future__ import annotations

import attrs
from penchant.results.runs import Run

from penchant_report.answers import Answer, Group
from penchant_report.figures import headline_of

MOST_GROUPS = 6  # that are given a headline


def headlines(run: Run, answer: Answer) -> tuple[list[str], list[str]]:
    """The sentences of a probe about its groups, seeds pooled.

    Args:
        run: The run.
        answer: What the probe found.

    Returns:
        The sentences, and what went wrong where a probe failed to give one.
    """
    sentences: dict[str, list[str]] = {}
    problems = []
    for group in answer.groups[:MOST_GROUPS]:
        try:
            text = _headline(run, group)
        except Exception as error:  # a sentence that fails is no reason to lose a page
            kind = type(error).__name__
            problems.append(f"The headline of {group.label} failed: {kind}: {error}")
            continue
        if text:
            sentences.setdefault(text, []).append(group.label)
    if len(answer.groups) == 1:
        return list(sentences), problems
    return [f"{', '.join(labels)}: {text}" for text, labels in sentences.items()], problems


def _headline(run: Run, group: Group) -> str:
    """The sentence about a group: its first seed's arrays, and quantities pooled over seeds."""
    result = run.result(group.entries[0].id)
    quantities = {name: each.quantity for name, each in group.quantities.items()}
    return headline_of(attrs.evolve(result, quantities=quantities))
