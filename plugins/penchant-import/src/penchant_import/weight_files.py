"""Finds the files of weights that a user means: one network, or one training in its order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.experiments.weights import Weights

from penchant_import.state_files import INDEX, files_read, read_tensors

ENDINGS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
WHOLE = ("model.safetensors", "pytorch_model.bin")  # the network in a folder that a library wrote
# Numbers in names of files, the most telling first; what stands before them says what they count.
_IN_NAMES = (
    r"step[=_-]?(\d+)",
    r"checkpoint[=_-](\d+)",
    r"iter[a-z]*[=_-]?(\d+)",
    r"(?<![a-z])ep(?:och)?[=_-]?(\d+)",
)
_IN_FILES = ("global_step", "step", "iteration", "epoch")
_WILD = re.compile(r"[*?\[]")


def find_weights(value: object, where: str, *, strict: bool = True) -> Weights:
    """The files that a user means.

    Args:
        value: A file; or for a trajectory a pattern such as "run/*.pt", a folder of checkpoints, or
            a list of files.
        where: The place in the experiment, for messages.
        strict: See `Weights`.

    Returns:
        The files; the states of a trajectory in the order of their steps.
    """
    if isinstance(value, (list, tuple)) and value and all(map(_is_path, value)):
        paths = [Path(str(each)) for each in value]
        return _trajectory(tuple(map(str, value)), paths, where, strict=strict)
    if not _is_path(value):
        kind = type(value).__name__
        expected = "a file, a pattern such as 'run/*.pt', a folder, or a list of files"
        hint = "save weights to a file, or load them into a module and give that"
        raise Error(f"weights must be {expected}, found {kind}: {hint} ({where})")
    given = str(value)
    single = _network_file(Path(given))
    if single is not None:
        return Weights(given, (str(single),), strict=strict, content=_content([single]))
    return _trajectory(given, _matching(given, where), where, strict=strict)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, Path))


def _network_file(path: Path) -> Path | None:
    """The file of one network: the path itself, or in a folder what libraries call the whole."""
    if path.is_file():
        return path
    if not path.is_dir():
        return None
    names = [*WHOLE, *[f"{name}{INDEX}" for name in WHOLE]]
    return next((path / name for name in names if (path / name).is_file()), None)


def _matching(given: str, where: str) -> list[Path]:
    """Checkpoints that a pattern or a folder stands for."""
    path = Path(given)
    if path.is_dir():
        paths = [
            each
            for each in path.iterdir()
            if each.suffix in ENDINGS or (each.is_dir() and _network_file(each))
        ]
        if not paths:
            listed = ", ".join(ENDINGS)
            raise Error(f"the folder {given!r} has no checkpoints ({listed}) ({where})")
        return sorted(paths)
    if not _WILD.search(given):
        raise Error(f"there is no file {given!r} ({where})")
    # Below the last folder without wildcards.
    names = path.parts
    first = next(number for number, name in enumerate(names) if _WILD.search(name))
    paths = list(Path(*names[:first]).glob("/".join(names[first:])))
    if not paths:
        raise Error(f"no file is like {given!r} ({where})")
    return sorted(paths)


def _trajectory(
    given: str | tuple[str, ...], paths: Sequence[Path], where: str, *, strict: bool
) -> Weights:
    """States in the order of their steps."""
    files = []
    for path in paths:
        file = _network_file(path)
        if file is None:
            what = "is a folder without a network" if path.is_dir() else "is not there"
            raise Error(f"{str(path)!r} {what} ({where})")
        files.append(file)
    numbers = _numbers(paths, files, where)
    by_step: dict[int, Path] = {}
    for number, file in sorted(zip(numbers, files)):
        if number in by_step:
            both = f"{str(by_step[number])!r} and {str(file)!r}"
            raise Error(f"two checkpoints have the step {number}: {both}; leave one out ({where})")
        by_step[number] = file
    states = tuple(map(str, by_step.values()))
    return Weights(given, states, tuple(by_step), strict, _content(by_step.values()))


def _content(files: Iterable[Path]) -> tuple[str, ...]:
    """Every file that is read: a state in several files has an index beside them."""
    return tuple(str(path) for file in files for path in files_read(file))


def _numbers(paths: Sequence[Path], files: Sequence[Path], where: str) -> list[int]:
    """The step of every checkpoint: from the names if all have one, else from the files."""
    names = [path.stem if path.is_file() else path.name for path in paths]
    for pattern in _IN_NAMES:
        matches = [re.findall(pattern, name, re.IGNORECASE) for name in names]
        if all(matches):
            return [int(match[-1]) for match in matches]
    # A single number, whatever it is called: net_0010.
    matches = [re.findall(r"\d+", name) for name in names]
    if all(len(match) == 1 for match in matches):
        return [int(match[0]) for match in matches]
    return _numbers_inside(files, where)


def _numbers_inside(files: Sequence[Path], where: str) -> list[int]:
    """The step that every file holds beside the weights, under one name."""
    held = [read_tensors(file) for file in files]
    for name in _IN_FILES:
        numbers = [_whole(state.get(name)) for state in held]
        if None not in numbers:
            return [number for number in numbers if number is not None]
    without = [file for file, state in zip(files, held) if not _counts(state)]
    listed = ", ".join(_IN_FILES)
    if not without:
        raise Error(f"the checkpoints hold no common count of {listed} ({where})")
    hint = "name the files by their steps, such as step-100.pt"
    problem = f"no step is in the name of {str(without[0])!r}, nor in it ({listed})"
    raise Error(f"{problem}; {hint} ({where})")


def _counts(state: Mapping[str, Any]) -> list[str]:
    return [name for name in _IN_FILES if _whole(state.get(name)) is not None]


def _whole(value: Any) -> int | None:
    """A whole number, also one that is stored as a tensor."""
    if hasattr(value, "numel") and value.numel() == 1 and not value.is_floating_point():
        value = value.item()
    return value if type(value) is int and value >= 0 else None
