"""What a report says of an answer: sentences, dots and a table, in the words of its page."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from penchant.results.differences import z_text
from penchant.results.runs import Run
from penchant_numerics.statistics import counted, p_text, rounded, short_error, significance

from penchant_report.answers import AXES, Answer, Contrast, Group, clashes, seeds_of
from penchant_report.dots import MOST_PANELS, MOST_ROWS, panels
from penchant_report.headlines import headlines
from penchant_report.lead_figures import lead_figures
from penchant_report.text_tables import csv_of, latex_of
from penchant_report.wording import level_text, value_text

CSV = "quantities.csv"  # the numbers of a report, beside its page
MOST_GROUPS = 300  # rows of a table of answers
WIDE = 3  # groups that stand side by side as columns
MOST_SENTENCES = 4
DEFAULT_PRESET = "quick"


def answer_values(answer: Answer, run: Run | None = None) -> dict[str, Any]:
    """What the page shows of an answer: sentences, lead figures, panels and a table.

    Args:
        answer: What a probe found.
        run: The run, where its figures and headlines are to be shown.

    Returns:
        The values that the page's template asks for.
    """
    own, problems = headlines(run, answer) if run else ([], [])
    groups = answer.groups[:MOST_GROUPS]
    wide = len(groups) <= WIDE
    rows = []
    for name, about in answer.meanings.items():
        contrasts = answer.contrasts(name) if wide else []
        row = {
            "name": name,
            "about": about,
            "cells": [_cell(answer, group, name) for group in groups],
            "difference": _contrast_values(answer, contrasts[0]) if contrasts else None,
        }
        rows.append(row)
    failed = [entry for entry in answer.entries if entry.status == "failed"]
    return {
        "probe": answer.probe,
        "anchor": f"answer-{answer.probe}",
        "question": answer.question,
        "eyebrow": _eyebrow(answer),
        "failed": len(failed),
        "headlines": own,
        "leads": lead_figures(run, answer) if run else [],
        "found": _largest_contrasts(answer) if own else _sentences(answer),
        "nothing": "" if own or not rows else _nothing_found(answer),
        "flags": [*_flags(answer), *problems],
        "panels": panels(answer),
        "panel_caption": _panel_caption(answer),
        "table_caption": _table_caption(answer, len(groups)),
        "by_quantity": wide,
        "axes": ", ".join(answer.axes),
        "columns": [group.label for group in groups],
        "differs": wide and len(groups) > 1,
        "rows": rows,
        "csv": csv_of(answer),
        "latex": latex_of(answer),
    }


def _eyebrow(answer: Answer) -> str:
    """What the probe was asked of, in one line."""
    parts = [f"Probe {answer.probe}"]
    if answer.shared:
        parts.append(answer.shared)
    if answer.axes:
        parts.append(" × ".join(_labels_counted(answer, axis) for axis in answer.axes))
    seeds = seeds_of(answer.entries)
    parts.append(counted(len(seeds), "seed"))
    # Jobs without a result have no settings, and "quick" is what those have that chose none.
    presets = {str(entry.settings.get("preset")) for entry in answer.entries if entry.settings}
    if presets - {DEFAULT_PRESET}:
        listed = ", ".join(sorted(presets))
        parts.append(f"preset {listed}")
    return " · ".join(parts)


def _labels_counted(answer: Answer, axis: str) -> str:
    return counted(len({entry.labels.get(axis) for entry in answer.entries}), axis)


def _cell(answer: Answer, group: Group, name: str) -> dict[str, Any] | None:
    found = group.quantities.get(name)
    if found is None:
        return None
    quantity = found.quantity
    return {
        "text": value_text(quantity),
        "sort": "" if quantity.missing else repr(quantity.value),
        "null": quantity.null_text,
        "mark": answer.from_null(group, name),
        "overdispersed": found.overdispersed,
    }


def _contrast_values(answer: Answer, contrast: Contrast) -> dict[str, Any]:
    apart = contrast.difference
    between = "none"
    if apart.value:
        larger, smaller = _by_size(contrast)
        between = f"{larger} over {smaller}"
        if contrast.less_nulls:
            between += ", each less its null"
    return {
        "text": _size_text(contrast),
        "sort": repr(abs(apart.value)),
        "significant": answer.is_significant(apart),
        "between": between,
    }


def _by_size(contrast: Contrast) -> tuple[str, str]:
    """Labels of the group with the larger value and of the other."""
    first = contrast.first.label
    second = contrast.second.label
    if contrast.difference.value < 0:
        return first, second
    return second, first


def _size_text(contrast: Contrast) -> str:
    """A difference without its sign, which the order of the names says, and its error."""
    apart = contrast.difference
    text = rounded(abs(apart.value), apart.error)
    if apart.error:
        error = short_error(apart.error, apart.value)
        text += f" ± {error}"
    return text


def _sentences(answer: Answer) -> list[str]:
    """What stands out, in words: from a null first, then between groups."""
    nulls = _null_sentences(answer)
    between = _contrast_sentences(answer, list(answer.meanings))
    rest = len(nulls) + len(between) - MOST_SENTENCES
    if rest <= 0:
        return nulls + between
    # The largest of both kinds are worth more than many of one.
    half = MOST_SENTENCES // 2
    room = max(half, MOST_SENTENCES - len(between))
    found = nulls[:room]
    found += between[: MOST_SENTENCES - len(found)]
    more = "One more significant difference is" if rest == 1 else f"{rest} more are"
    found.append(f"{more} marked in the table.")
    return found


def _null_sentences(answer: Answer) -> list[str]:
    found = []
    groups = answer.groups[:MOST_GROUPS]
    for name in answer.meanings:
        for group in groups:
            if name in group.quantities and answer.from_null(group, name):
                found.append(_null_sentence(answer, group, name))
    return found


def _contrast_sentences(answer: Answer, names: Sequence[str]) -> list[str]:
    found = []
    for name in names:
        # Two networks on two datasets have two reasons to differ.
        contrasts = [each for each in answer.contrasts(name) if _differ_in_one_axis(each)]
        if not contrasts:
            continue
        # The most significant speaks for its quantity.
        largest = contrasts[0]
        if answer.is_significant(largest.difference):
            found.append(_contrast_sentence(largest))
    return found


def _differ_in_one_axis(contrast: Contrast) -> bool:
    first, second = (group.entries[0].labels for group in (contrast.first, contrast.second))
    return len([axis for axis in AXES if first.get(axis) != second.get(axis)]) == 1


def _largest_contrasts(answer: Answer) -> list[str]:
    """Differences between groups that stand beside headlines: of quantities that have a null."""
    with_null = {name for group in answer.groups for name in group.from_null}
    sentences = _contrast_sentences(answer, [name for name in answer.meanings if name in with_null])
    return sentences[: MOST_SENTENCES // 2]


def _null_sentence(answer: Answer, group: Group, name: str) -> str:
    quantity = group.quantities[name].quantity
    # One group alone needs no name.
    who = name
    if len(answer.groups) > 1:
        who = f"{name} of {group.label}"
    side = "above" if answer.from_null(group, name) > 0 else "below"
    value = value_text(quantity)
    z = z_text(group.from_null[name])
    by = f" ({z})" if z else ""
    return f"{who} is {value}, {side} its null of {quantity.null_text}{by}."


def _contrast_sentence(contrast: Contrast) -> str:
    larger, smaller = _by_size(contrast)
    size = _size_text(contrast)
    # The order of the names has said the sign.
    z = z_text(dataclasses.replace(contrast.difference, value=abs(contrast.difference.value)))
    if z:
        size += f" ({z})"
    what = f"{contrast.quantity} less its null" if contrast.less_nulls else contrast.quantity
    return f"{what}: {larger} exceeds {smaller} by {size}."


def _nothing_found(answer: Answer) -> str:
    nulls = _has_null(answer)
    several = len(answer.groups) > 1
    if not nulls and not several:
        return "There is neither a null nor another group to compare these numbers with."
    what = []
    if nulls:
        what.append("from the null")
    if several:
        what.append("between groups")
    listed = " or ".join(what)
    found = f"No significant difference {listed} ({level_text(answer.comparisons)})."
    return f"{found} {_what_is_needed(answer)}".rstrip()


def _what_is_needed(answer: Answer) -> str:
    """How far the nearest quantity is from being significant, and what would decide about it."""
    nearest, smallest = None, math.inf
    for group in answer.groups:
        for name, away in group.from_null.items():
            if away.p is not None and away.p < smallest:
                nearest, smallest = (group, name, away), away.p
    if nearest is None:
        return ""
    group, name, away = nearest
    who = f"{name} of {group.label}" if len(answer.groups) > 1 else name
    level = significance.LEVEL / max(answer.comparisons, 1)
    text = f"The nearest is {who}, with {p_text(away.p)}; it would need p below {level:.2g}"
    quantity = group.quantities[name].quantity
    z = away.z
    # An error that falls with the number of repetitions says how many more would decide.
    repeated = quantity.p is None or len(group.entries) > 1
    if repeated and quantity.count and quantity.over and z and abs(z) > 1:
        more = (significance.z_score(level, 1.0) / z) ** 2
        text += f": about {more:.1f} times as many {quantity.over}, if the effect is real"
    return f"{text}."


def _has_null(answer: Answer) -> bool:
    for group in answer.groups:
        for found in group.quantities.values():
            if found.quantity.null is not None:
                return True
    return False


def _flags(answer: Answer) -> list[str]:
    """What keeps numbers from being compared."""
    return [*_clashing(answer), *_undecided(answer), *_could_see(answer)]


def _could_see(answer: Answer) -> list[str]:
    """What the fewest repetitions of a number that has a null can show."""
    fewest: dict[str, int] = {}
    for group in answer.groups:
        for name in group.from_null:
            quantity = group.quantities[name].quantity
            # An error over repetitions has as many degrees of freedom, less one.
            if quantity.count and quantity.df == quantity.count - 1:
                least = fewest.get(quantity.over, quantity.count)
                fewest[quantity.over] = min(least, quantity.count)
    texts = [
        significance.could_see(count, over, answer.comparisons) for over, count in fewest.items()
    ]
    return [text for text in texts if text]


def _undecided(answer: Answer) -> list[str]:
    """Quantities that look far from their null, or each other, after two or equal repetitions."""
    names: dict[str, None] = {}
    for name in answer.meanings:
        differences = [contrast.difference for contrast in answer.contrasts(name)]
        for group in answer.groups:
            if name in group.from_null:
                differences.append(group.from_null[name])
        if any(each.undecided for each in differences):
            names[name] = None
    if not names:
        return []
    listed = ", ".join(names)
    # Other differences of the same quantity may have been decided.
    few = "Two repetitions, or equal ones, are too few to decide some differences"
    return [f"{few}: {listed}."]


def _clashing(answer: Answer) -> list[str]:
    """Conventions that keep groups from being compared."""
    names: dict[str, None] = {}
    for first, second in answer.pairs:
        differing = clashes(first.conventions, second.conventions)
        names.update(dict.fromkeys(differing))
    if not names:
        return []
    listed = ", ".join(names)
    return [
        f"Conventions differ between groups ({listed}), so these groups are shown side by side but "
        "not compared."
    ]


def _panel_caption(answer: Answer) -> str:
    text = "Dots with bars: values ± one standard error"
    if len(seeds_of(answer.entries)) > 1:
        text += ", pooled over seeds; open circles: single seeds"
    text += "."
    if _has_null(answer):
        text += " Dashed, with a band: the null ± its standard deviation."
    # What there was no room for.
    quantities = len(answer.meanings)
    if quantities > MOST_PANELS:
        text += f" The first {MOST_PANELS} of {quantities} quantities."
    groups = len(answer.groups)
    if groups > MOST_ROWS:
        text += f" The first {MOST_ROWS} of {groups} groups."
    return text


def _table_caption(answer: Answer, shown: int) -> str:
    groups = len(answer.groups)
    if groups > shown:
        return f"The first {shown} of {groups} groups; all are in {CSV}."
    if _has_null(answer):
        return "Value ± standard error, and the null below it."
    return "Value ± standard error."
