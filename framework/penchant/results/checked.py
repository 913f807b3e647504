"""What `result.json` and `run.json` must hold, checked where they are read.

A file that someone sent may hold anything. What readers take for text, a number or a table is one
afterwards; a mistake names its place. Unknown keys are accepted, and older files lack some.
"""

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from penchant.errors import Error
from penchant.results.bounds import LARGEST_NUMBER, MOST_ENTRIES
from penchant.results.inside import check_id

Check = Callable[[Any, str], object]  # of a value, and its place for messages


def _fail(expected: str, value: object, place: str) -> None:
    found = repr(value)
    if len(found) > 60:
        found = f"{found[:60]}..."
    raise Error(f"{place} is {found}, expected {expected}")


def _text(value: Any, place: str) -> None:
    if not isinstance(value, str):
        _fail("text", value, place)


def _number(value: Any, place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        _fail("a number", value, place)
    # Also a whole number of a thousand digits, and what JSON takes for infinite.
    if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        _fail(f"a number of at most {LARGEST_NUMBER:g}", value, place)


def _size(value: Any, place: str) -> None:
    _number(value, place)
    if value < 0:
        _fail("0 or more", value, place)


def _whole(value: Any, place: str) -> None:
    _size(value, place)
    if not isinstance(value, int):
        _fail("a whole number", value, place)


def _share(value: Any, place: str) -> None:
    _size(value, place)
    if value > 1 and not math.isclose(value, 1):
        _fail("a number from 0 to 1", value, place)


def _truth(value: Any, place: str) -> None:
    if not isinstance(value, bool):
        _fail("true or false", value, place)


def _anything(value: Any, place: str) -> None:
    pass


def _label(value: Any, place: str) -> None:
    if not isinstance(value, (str, int, float)):
        _fail("text or a number", value, place)


def _status(value: Any, place: str) -> None:
    if value not in ("pending", "running", "done", "failed", "skipped"):
        _fail("done or failed", value, place)


def _or_none(check: Check) -> Check:
    def checked(value: Any, place: str) -> None:
        if value is not None:
            check(value, place)

    return checked


def _list(check: Check) -> Check:
    def checked(value: Any, place: str) -> None:
        if not isinstance(value, list):
            _fail("a list", value, place)
        _few(value, place)
        for number, each in enumerate(value):
            check(each, f"{place}[{number}]")

    return checked


def _table(check: Check) -> Check:
    def checked(value: Any, place: str) -> None:
        _is_table(value, place)
        for name, each in value.items():
            check(each, f"{place}.{name}")

    return checked


def _fields(required: Mapping[str, Check], **known: Check) -> Check:
    every = {**required, **known}

    def checked(value: Any, place: str) -> None:
        _is_table(value, place)
        for name in required:
            if name not in value:
                raise Error(f"{place} has no {name}" if place else f"it has no {name}")
        for name, check in every.items():
            if name in value:
                check(value[name], f"{place}.{name}" if place else name)

    return checked


def _is_table(value: Any, place: str) -> None:
    if not isinstance(value, dict):
        _fail("a table", value, place)
    _few(value, place)


def _few(value: Any, place: str) -> None:
    if len(value) > MOST_ENTRIES:
        raise Error(f"{place} has {len(value)} entries, expected at most {MOST_ENTRIES}")


_QUANTITY = _fields(
    {},
    value=_or_none(_number),
    stderr=_or_none(_size),
    over=_text,
    count=_or_none(_whole),
    df=_or_none(_size),
    null=_or_none(_number),
    null_spread=_or_none(_size),
    null_stderr=_or_none(_size),
    p=_or_none(_share),
    unit=_text,
    exact=_truth,
)
_COMPONENT = _fields({"name": _text}, options=_table(_anything), plugin=_text, version=_text)
_ARRAY = _fields(
    {},
    shape=_list(_whole),
    dtype=_text,
    about=_text,
    # Of a table: its axes, and what is one number for all of it.
    axes=_list(_text),
    stderr=_or_none(_size),
    sampling=_or_none(_size),
    null=_or_none(_number),
    null_spread=_or_none(_size),
    null_stderr=_or_none(_size),
    df=_or_none(_size),
    p=_or_none(_share),
    over=_text,
    count=_or_none(_whole),
    unit=_text,
)
_LABELS = _fields({"probe": _text}, architecture=_label, dataset=_label, seed=_whole)


def _estimator(value: Any, place: str) -> None:
    check = _list(_COMPONENT) if isinstance(value, list) else _COMPONENT
    check(value, place)


_RESULT = _fields(
    {},
    status=_status,
    id=_text,
    key=_text,
    labels=_LABELS,
    probe=_or_none(_COMPONENT),
    architecture=_or_none(_COMPONENT),
    dataset=_or_none(_COMPONENT),
    estimators=_or_none(_table(_estimator)),
    training=_or_none(_table(_anything)),
    seed=_or_none(_whole),
    shape=_or_none(_list(_whole)),
    outputs=_or_none(_whole),
    summary=_or_none(_text),
    question=_or_none(_text),
    figures=_or_none(_text),
    versions=_or_none(_table(_text)),
    meanings=_table(_text),
    quantities=_table(_QUANTITY),
    arrays=_or_none(_table(_ARRAY)),
    arrays_sha256=_or_none(_text),
    conventions=_table(_text),
    warnings=_list(_text),
    missing=_list(_text),
    axes=_table(_list(_label)),
    headline=_or_none(_table(_text)),
    error=_or_none(_text),
    traceback=_or_none(_text),
    cost=_fields({}, seconds=_or_none(_size), peak_memory_bytes=_or_none(_size)),
)
_JOB = _fields({"id": check_id, "labels": _LABELS}, status=_status, error=_or_none(_text))
_RUN = _fields(
    {"jobs": _list(_JOB)},
    title=_or_none(_text),
    seeds=_list(_whole),
    environment=_or_none(_table(_anything)),
    reduced=_or_none(_text),
)


def check_result(record: Mapping[str, Any]) -> None:
    """Refuse what no result holds."""
    _RESULT(record, "")


def check_run(record: Mapping[str, Any]) -> None:
    """Refuse what no run holds."""
    _RUN(record, "")
