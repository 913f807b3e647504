"""Names of quantities and arrays that depend on what was chosen.

A declared name such as `error-{curvature}` stands for one name an estimator of the role
`curvature`; `share-{levels}` for one a value of the option `levels`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BRACES = re.compile(r"\{([\w-]+)\}")


def filled(
    declared: Mapping[str, str], options: Mapping[str, Any], roles: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Every name that the declared ones stand for, with its meaning.

    Args:
        declared: Name to meaning, as a probe declares them.
        options: The probe's options.
        roles: Labels of the chosen estimators of every role.

    Returns:
        Name to meaning, without braces; what is chosen stands in the meaning as well.

    >>> filled({"bias-{role}": "of {role}"}, {}, {"role": ["mine", "ksg"]})
    {'bias-mine': 'of mine', 'bias-ksg': 'of ksg'}
    """
    found: dict[str, str] = {}
    for name, meaning in declared.items():
        # A name may stand in braces twice; it is filled the same way both times.
        keys = list(dict.fromkeys(_BRACES.findall(name)))
        for chosen in itertools.product(*[_choices(key, options, roles) for key in keys]):
            values = dict(zip(keys, chosen))
            found[_put(name, values)] = _put(meaning, values)
    return found


def placeholders(name: str) -> list[str]:
    """What stands in the braces of a declared name."""
    return _BRACES.findall(name)


def _choices(
    key: str, options: Mapping[str, Any], roles: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    if key in roles:
        return roles[key]
    # An option that is a list stands for one name per entry.
    value = options[key]
    several = value if isinstance(value, (tuple, list)) else [value]
    # 0.5 and 5e-1 are the same name.
    return [f"{each:g}" if isinstance(each, float) else str(each) for each in several]


def _put(text: str, values: Mapping[str, str]) -> str:
    # Braces that nothing was chosen for stay as they are.
    return _BRACES.sub(lambda match: values.get(match[1], match[0]), text)
