"""Fields of a configuration, as the option `config` holds them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import penchant

# Set from the job's data, or so that second derivatives exist.
RESERVED = ("vocab_size", "num_labels", "num_channels", "image_size", "attn_implementation")


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Values by name; a value is a TOML literal, else text.

    >>> parse_settings(["n_layer=2", "activation_function=relu"])
    {'n_layer': 2, 'activation_function': 'relu'}
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise penchant.Error(
                f'config of huggingface must be "name=value", such as "n_layer=2", found {text!r}'
            )
        if name in RESERVED:
            raise penchant.Error(
                f"config of huggingface must not hold {name!r}, which is set from the data, or so "
                "that second derivatives exist"
            )
        settings[name] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
