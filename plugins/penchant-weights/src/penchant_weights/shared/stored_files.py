"""Which files on disk hold weights: a file, shards of an index, or a folder with either.

It imports no torch, so that the declaration can name the files a job depends on.
"""

from __future__ import annotations

import json
from pathlib import Path

_TORCH = (".pt", ".pth", ".bin", ".ckpt")
_INDEX = ".safetensors.index.json"


def stored_files(path: Path) -> list[Path]:
    """The files that hold the tensors of a path: a file, an index, or a folder with either.

    Raises:
        ValueError: Where there is none that can be read.
    """
    if path.is_dir():
        indices = sorted(path.glob(f"*{_INDEX}"))
        if len(indices) == 1:
            return stored_files(indices[0])
        files = sorted(path.glob("*.safetensors"))
        if not files:
            files = [each for each in sorted(path.iterdir()) if each.suffix in _TORCH]
        if not files:
            raise ValueError(f"{path} has neither safetensors nor torch files")
        return files
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.name.endswith(_INDEX):
        shards = json.loads(path.read_text())["weight_map"].values()
        for name in shards:
            # No path leads out of the folder.
            if not isinstance(name, str) or Path(name).name != name:
                raise ValueError(f"{path} names {name!r}, expected a file of the same folder")
        files = [path.parent / name for name in dict.fromkeys(shards)]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise ValueError(f"{path} names shards that do not exist: {', '.join(missing)}")
        return files
    if path.suffix != ".safetensors" and path.suffix not in _TORCH:
        known = ", ".join((".safetensors", _INDEX, *_TORCH))
        raise ValueError(f"{path} must be a folder or end in one of {known}")
    return [path]
