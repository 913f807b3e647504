"""Finds the files of weights that a user means: one network, or one training in its order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from penchant.errors import Error
from penchant.experiments.weights import Weights

from penchant_import.state_files import INDEX, files_read
from penchant_import.steps import ENDINGS, steps_of

WHOLE = ("model.safetensors", "pytorch_model.bin")  # the network in a folder that a library wrote
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
    numbers = steps_of(paths, files, where)
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
