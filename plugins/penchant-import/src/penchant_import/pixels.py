"""Inputs as people have them, arrays or pictures, as tensors; bytes become numbers in 0..1."""

from __future__ import annotations

from typing import Any

from penchant.errors import Error

from penchant_import.masked import check_unmasked

_MODES = ("L", "RGB", "RGBA")  # pictures whose numbers are brightness
_BRIGHTEST = 255


def is_picture(value: Any) -> bool:
    """Is it a picture of the Python imaging library?"""
    return hasattr(value, "getbands") and hasattr(value, "mode")


def read_input(value: Any) -> Any:
    """One input as a tensor; of a picture its bytes, channels x height x width."""
    import numpy as np
    import torch

    if not is_picture(value):
        check_unmasked(value, "inputs")
        return torch.as_tensor(value)
    # Bytes of a palette are numbers of colours, which mean nothing to a network.
    if value.mode not in _MODES:
        listed = ", ".join(_MODES)
        hint = "picture.convert('RGB') makes one"
        raise Error(f"a picture has mode {value.mode!r}, expected one of {listed}; {hint}")
    pixels = torch.from_numpy(np.array(value))
    # Grey ones have no axis of colours.
    if pixels.ndim == 2:
        return pixels[None]
    return pixels.permute(2, 0, 1)


def scaled(inputs: Any, conventions: dict[str, str], warnings: list[str]) -> Any:
    """Inputs as numbers: bytes are pixels, whole numbers stay whole, others keep their values.

    Args:
        inputs: All inputs of a split.
        conventions: Gets a line about what was done with them.
        warnings: Gets what looks like a mistake.

    Returns:
        The inputs.
    """
    import torch

    if inputs.dtype == torch.uint8:
        conventions["inputs"] = "bytes divided by 255"
        return inputs.float() / _BRIGHTEST
    if inputs.is_complex():
        raise Error("inputs are complex numbers, expected real ones")
    if _could_be_bytes(inputs):
        highest = int(inputs.max())
        actual = f"inputs are images of whole numbers up to {highest}"
        if not inputs.is_floating_point():
            kind = str(inputs.dtype).removeprefix("torch.")
            raise Error(f"{actual}, {kind}: give uint8, which is divided by 255, or divide them")
        warnings.append(f"{actual}, used as they are: divide by 255 if these are pixels")
    if inputs.is_floating_point():
        return inputs
    # Tokens stay whole: a network that wants features says so when it is tried.
    conventions["inputs"] = "whole numbers, as they are"
    return inputs.long()


def _could_be_bytes(inputs: Any) -> bool:
    """Images whose values are whole, never negative, and beyond 1 but not beyond a byte."""
    if inputs.ndim < 3 or not inputs.numel() or inputs.dtype.itemsize == 0:
        return False

    lowest = inputs.min()
    highest = inputs.max()
    within = lowest >= 0 and 1 < highest <= _BRIGHTEST
    if not within:
        return False

    # Whole numbers need no further check.
    if not inputs.is_floating_point():
        return True
    whole = inputs == inputs.round()
    return bool(whole.all())
