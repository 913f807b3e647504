"""Which files on disk hold weights: a file, shards of an index, or a folder with either.

It imports no torch, so that the declaration can name the files a job depends on.

The file `adapter_config.json` beside LoRA's factors, which says by how much they are scaled.

It imports no torch, so that the declaration can name the files a job depends on.
"""

import json
from pathlib import Path
from typing import Any

import penchant

_TORCH = (".pt", ".pth", ".bin", ".ckpt")
_INDEX = ".safetensors.index.json"


def stored_files(path: Path) -> list[Path]:
    """The files that hold the tensors of a path: a file, an index, or a folder with either.

    Raises:
        Error: Where there is none that can be read.
    """
    if path.is_dir():
        indices = sorted(path.glob(f"*{_INDEX}"))
        if len(indices) == 1:
            return stored_files(indices[0])
        files = sorted(path.glob("*.safetensors"))
        if not files:
            files = [each for each in sorted(path.iterdir()) if each.suffix in _TORCH]
        if not files:
            raise penchant.Error(f"{path} has neither safetensors nor torch files")
        return files
    if not path.is_file():
        raise penchant.Error(f"there is no file {path}")
    if path.name.endswith(_INDEX):
        shards = json.loads(path.read_text())["weight_map"].values()
        for name in shards:
            # No path leads out of the folder.
            if not isinstance(name, str) or Path(name).name != name:
                raise penchant.Error(f"{path} names {name!r}, expected a file of the same folder")
        files = [path.parent / name for name in dict.fromkeys(shards)]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise penchant.Error(f"{path} names shards that do not exist: {', '.join(missing)}")
        return files
    if path.suffix != ".safetensors" and path.suffix not in _TORCH:
        known = ", ".join((".safetensors", _INDEX, *_TORCH))
        raise penchant.Error(f"{path} must be a folder or end in one of {known}")
    return [path]


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
        Error: Where the difference is not the scaled product of the factors.
    """
    file = config_file(path)
    if not file.is_file():
        return None
    if file.stat().st_size > _LARGEST:
        raise penchant.Error(f"{file} has {file.stat().st_size} bytes, expected at most {_LARGEST}")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise penchant.Error(f"{file} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise penchant.Error(f"{file} must hold a table, found {type(config).__name__}")
    for name in _REFUSED:
        if config.get(name):
            raise penchant.Error(
                f"{file} has {name}, whose difference is not a product of two factors: merge the "
                "adapter into the network, and give the merged file"
            )
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGE_THE_BASE):
        raise penchant.Error(
            f"{file} has init_lora_weights = {start!r}, which changes the base as well: merge the "
            "adapter into the network, and give the merged file"
        )
    pattern = config.get("alpha_pattern") or {}
    if not isinstance(pattern, dict):
        raise penchant.Error(f"{file} must have a table alpha_pattern, found {pattern!r}")
    for value in (config.get("lora_alpha", 1), *pattern.values()):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise penchant.Error(f"{file} must have numbers lora_alpha, found {value!r}")
    return config
