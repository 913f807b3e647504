"""The file `adapter_config.json` beside LoRA's factors, which says by how much they are scaled.

It imports no torch, so that the declaration can name the files a job depends on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG = "adapter_config.json"
_LARGEST = 1_000_000  # bytes
# What peft's other variants add to the product of the factors, or to the base.
_REFUSED = ("use_dora", "use_qalora", "alora_invocation_tokens", "target_parameters")
_CHANGE_THE_BASE = ("pissa", "olora", "corda", "loftq")


def config_file(path: Path) -> Path:
    """Where the configuration of a path is, if it has one."""
    folder = path if path.is_dir() else path.parent
    return folder / CONFIG


def adapter_config(path: Path) -> dict[str, Any] | None:
    """The configuration of LoRA's factors; None where there is no such file.

    Raises:
        ValueError: Where the difference is not the scaled product of the factors.
    """
    file = config_file(path)
    if not file.is_file():
        return None
    if file.stat().st_size > _LARGEST:
        raise ValueError(f"{file} has {file.stat().st_size} bytes, expected at most {_LARGEST}")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} must hold a table, found {type(config).__name__}")
    for name in _REFUSED:
        if config.get(name):
            raise ValueError(
                f"{file} has {name}, whose difference is not a product of two factors: merge the "
                "adapter into the network, and give the merged file"
            )
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGE_THE_BASE):
        raise ValueError(
            f"{file} has init_lora_weights = {start!r}, which changes the base as well: merge the "
            "adapter into the network, and give the merged file"
        )
    pattern = config.get("alpha_pattern") or {}
    if not isinstance(pattern, dict):
        raise ValueError(f"{file} must have a table alpha_pattern, found {pattern!r}")
    for value in (config.get("lora_alpha", 1), *pattern.values()):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{file} must have numbers lora_alpha, found {value!r}")
    return config
