"""Figures of the probe `nad`: the spectrum beside its null, and what NADs look like."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned, rows_as_images, spectrum

SHOWN = 12
MANY = 100  # directions from which on a second figure shows more of them


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Eigenvalues with the null of each index, and the directions as pictures of the input."""
    # How strongly, then which.
    figures = {"eigenvalues": _eigenvalues(result)}
    shape = result.shape
    if shape is None or len(shape) > 3:
        return figures
    count = len(result.arrays["directions"])
    figures["directions"] = _directions(
        result,
        list(range(min(SHOWN, count))),
        caption="The first NADs in the shape of the input, and their amplitude spectra with zero "
        "frequency in the centre.",
        columns=6,
    )
    # The paper's choice: the first twenty, and every fiftieth.
    if count >= MANY:
        further = list(range(50, min(count, 1001), 50))
        figures["directions-further"] = _directions(
            result,
            [*range(20), *further],
            caption="NADs by index: what is preferred first, and what is hardly seen.",
            columns=10,
        )
    return figures


def _eigenvalues(result: penchant.Result) -> Figure:
    arrays = result.arrays
    figure = spectrum(
        arrays["eigenvalues"],
        stderr=arrays.get("eigenvalues-stderr"),
        null=arrays.get("null-eigenvalues"),
        null_spread=arrays.get("null-eigenvalues-spread"),
    )
    seen = "The spectrum of the second moment; bands are two standard errors."
    if "null-eigenvalues" in arrays:
        seen = (
            "Preferred directions have eigenvalues above those that an isotropic architecture "
            "with the same gradient norms has at the same index."
        )
    return captioned(figure, seen, title="How strongly directions are preferred")


def _directions(
    result: penchant.Result,
    chosen: list[int],
    *,
    caption: str,
    columns: int,
) -> Figure:
    figure = rows_as_images(
        result.arrays["directions"][chosen],
        result.shape,
        titles=[str(index) for index in chosen],
        columns=columns,
        fourier=True,
    )
    return captioned(figure, caption, title="Neural anisotropy directions by index")
