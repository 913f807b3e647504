"""The steps of the checkpoints of one training, from what is stored in them or from their names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from penchant.errors import Error

from penchant_import.state_files import INDEX, read_tensors

ENDINGS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
HINT = "name the files alike by their steps, such as step-100.pt"
# What files store beside the weights, and what stands before a number in a name; both the most
# telling first.
_STORED_STEPS = ("global_step", "step", "iteration")
_STORED = (*_STORED_STEPS, "epoch")
_NAMED_STEPS = ("step", "iter[a-z]*")
_NAMED = ("checkpoint", "ckpt", r"(?<![a-z])ep(?:och)?")
# A number as people write it, with whatever letters follow.
_NUMBER = r"\d+(?:[.,]\d+|_\d{3}(?![\d.]))*(?:e[+-]?\d+)?[a-z]*"
_WORDS = "steps?|it(?:ers?)?|iterations?|ep(?:ochs?)?"
_PLAIN = re.compile(rf"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)([kKM]?)(?i:{_WORDS})?")
_UNITS = {"": 1, "k": 1000, "K": 1000, "M": 1_000_000}
# Words for weights that are means over a training.
_AVERAGED = re.compile(r"(?<![a-z])(?:ema|swa|avg|averaged?|polyak)(?![a-z])", re.IGNORECASE)


def steps_of(paths: Sequence[Path], files: Sequence[Path], where: str) -> list[int]:
    """The step of every checkpoint of a trajectory.

    The step that the files store, else the one in their names; else the epoch that they store; else
    the number of the checkpoint or of the epoch in their names; else the only number in names that
    are alike.

    Args:
        paths: Files, or folders that libraries wrote.
        files: The file of each.
        where: The place in the experiment, for messages.

    Returns:
        Whole numbers, in the order of the files.
    """
    names = [_name(path) for path in paths]
    held = [_held(file) for file in files]
    _check_one_kind(paths, held, where)
    for stored, named in ((_STORED_STEPS, _NAMED_STEPS), (_STORED, _NAMED)):
        numbers = _stored_steps(held, stored)
        if numbers is None:
            numbers = _named_steps(names, named, where)
        if numbers is not None:
            return numbers
    numbers = _only_numbers(names, where)
    if numbers is not None:
        return numbers
    raise Error(_nowhere(files, held, where))


def _name(path: Path) -> str:
    """What may hold a number: decimals are no ending."""
    name = path.name.removesuffix(INDEX)
    return next((name.removesuffix(end) for end in ENDINGS if name.endswith(end)), name)


def _held(file: Path) -> dict[str, int]:
    """What a file has beside its tensors: counts, and whether its weights are averages."""
    from penchant_numerics.data import has_averages

    if file.suffix == ".safetensors" or file.name.endswith(INDEX):
        return {}  # tensors only
    content = read_tensors(file)
    counts = {name: _whole(content.get(name)) for name in _STORED}
    known = {name: count for name, count in counts.items() if count is not None}
    return {**known, "averaged": has_averages(content)}


def _whole(value: Any) -> int | None:
    """A whole number, also one that is stored as a tensor."""
    if hasattr(value, "numel") and value.numel() == 1 and not value.is_floating_point():
        value = value.item()
    return value if type(value) is int and value >= 0 else None


def _stored_steps(held: Sequence[Mapping[str, int]], counts: Sequence[str]) -> list[int] | None:
    """The first count that every file holds and that tells them apart."""
    for count in counts:
        numbers = [each[count] for each in held if count in each]
        if len(numbers) == len(held) and (len(set(numbers)) > 1 or len(held) == 1):
            return numbers
    return None


def _named_steps(names: Sequence[str], words: Sequence[str], where: str) -> list[int] | None:
    """The number after the first of these words that every name has."""
    for word in words:
        pattern = rf"{word}[=_-]?({_NUMBER})"
        matches = [re.findall(pattern, name, re.IGNORECASE) for name in names]
        if all(matches):
            return [_one(match, name, where) for match, name in zip(matches, names)]
    return None


def _one(tokens: Sequence[str], name: str, where: str) -> int:
    numbers = {_read(token, name, where) for token in tokens}
    if len(numbers) == 1:
        return numbers.pop()
    listed = " or ".join(tokens)
    raise Error(f"the step in the name {name!r} may be {listed}; {HINT} ({where})")


def _only_numbers(names: Sequence[str], where: str) -> list[int] | None:
    """A single number, whatever it is called, in names that are alike but for it: net_0010."""
    matches = [re.findall(_NUMBER, name, re.IGNORECASE) for name in names]
    if not all(len(match) == 1 for match in matches):
        return None
    numbers = [_read(match[0], name, where) for match, name in zip(matches, names)]
    rests = {name.replace(match[0], "#"): name for match, name in zip(matches, names)}
    if len(rests) > 1:
        first, second, *_ = rests.values()
        problem = f"the names {first!r} and {second!r} differ by more than a number"
        raise Error(f"{problem}, which may count different things; {HINT} ({where})")
    return numbers


def _read(token: str, name: str, where: str) -> int:
    """A number as people write it: 500, 0500, 1k, 1.5k, 2M, 1e4."""
    match = _PLAIN.fullmatch(token)
    if match is None:
        allowed = "digits, decimals, exponents, k for thousands and M for millions are read"
        problem = f"{token!r} in the name {name!r} is not clearly a step"
        raise Error(f"{problem}: {allowed}; {HINT} ({where})")
    number = Fraction(match[1]) * _UNITS[match[2]]
    if number.denominator != 1:
        problem = f"the step {token!r} in the name {name!r} is no whole number"
        raise Error(f"{problem}; count steps of training, such as step-100.pt ({where})")
    return int(number)


def _check_one_kind(paths: Sequence[Path], held: Sequence[Mapping[str, int]], where: str) -> None:
    """Refuse raw weights and weights averaged over a training in one trajectory."""
    shared = os.path.commonpath([path.absolute().parent for path in paths])
    kinds: dict[bool, Path] = {}
    for path, each in zip(paths, held):
        averaged = each.get("averaged") or _AVERAGED.search(
            os.path.relpath(path.absolute(), shared)
        )
        kinds.setdefault(bool(averaged), path)
    if len(kinds) > 1:
        both = f"{str(kinds[True])!r} has averaged weights, {str(kinds[False])!r} has not"
        hint = "give the ones or the others, by a pattern or a list of files"
        raise Error(f"one trajectory has one kind of weights: {both}; {hint} ({where})")


def _nowhere(files: Sequence[Path], held: Sequence[Mapping[str, int]], where: str) -> str:
    listed = ", ".join(_STORED)
    without = [file for file, each in zip(files, held) if not set(_STORED) & each.keys()]
    if not without:
        return f"the checkpoints hold no common count of {listed} ({where})"
    problem = f"no step is in the name of {str(without[0])!r}, nor in it ({listed})"
    return f"{problem}; {HINT} ({where})"
