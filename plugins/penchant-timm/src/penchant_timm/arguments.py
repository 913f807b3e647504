"""Further arguments of `timm.create_model`, as the option `arguments` holds them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import penchant

# Set from the job's shape, outputs and options.
RESERVED = ("pretrained", "in_chans", "num_classes", "img_size", "no_jit")


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Values by name; a value is a TOML literal, else text.

    >>> parse_arguments(["zero_init_last=false", "act_layer=gelu"])
    {'zero_init_last': False, 'act_layer': 'gelu'}
    """
    arguments = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            expected = "must be name=value, such as zero_init_last=false"
            raise penchant.Error(f"arguments of timm {expected}, found {text!r}")
        if name in RESERVED:
            raise penchant.Error(
                f"arguments of timm must not hold {name!r}, which is set from the data or from "
                "options of the architecture"
            )
        arguments[name] = _value(value.strip())
    return arguments


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
