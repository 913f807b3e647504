"""Names of quantities and arrays that depend on options and estimators.

A declared name such as `error-{curvature}` stands for one name per estimator of the role
`curvature`; `share-{levels}` for one per value of the option `levels`.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from penchant.errors import Error

_BRACES = re.compile(r"\{([\w-]+)\}")
_TABLE = re.compile(r"([^\[\]]+)\[([^\[\]]*)\]")


def filled(
    declared: Mapping[str, str], options: Mapping[str, Any], roles: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Every name that the declared ones stand for, with its meaning, the braces filled in both.

    `roles` has the labels of the chosen estimators of every role.

    >>> filled({"bias-{role}": "of {role}"}, {}, {"role": ["mine", "ksg"]})
    {'bias-mine': 'of mine', 'bias-ksg': 'of ksg'}
    """
    names: dict[str, str] = {}
    for name, meaning in declared.items():
        keys = list(dict.fromkeys(placeholders(name)))
        for entries in itertools.product(*[_entries(key, options, roles) for key in keys]):
            values = dict(zip(keys, entries))
            names[_fill(name, values)] = _fill(meaning, values)
    return names


def name_and_axes(declared: str) -> tuple[str, tuple[str, ...]]:
    """The name and the axes of a declared table.

    >>> name_and_axes("loss[amplitude, step]")
    ('loss', ('amplitude', 'step'))
    """
    match = _TABLE.fullmatch(declared)
    if match is None:
        raise Error(f"a table is declared as 'loss[amplitude, step]', found {declared!r}")
    name, axes = match.groups()
    return name, tuple(axis.strip() for axis in axes.split(",") if axis.strip())


def placeholders(name: str) -> list[str]:
    """The words in the braces of a declared name."""
    return _BRACES.findall(name)


def _entries(
    key: str, options: Mapping[str, Any], roles: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    if key in roles:
        return roles[key]
    value = options[key]
    values = value if isinstance(value, (tuple, list)) else [value]
    # 0.5 and 5e-1 are the same name.
    return [f"{each:g}" if isinstance(each, float) else str(each) for each in values]


def _fill(text: str, values: Mapping[str, str]) -> str:
    # Braces without a value stay as they are.
    return _BRACES.sub(lambda match: values.get(match[1], match[0]), text)
