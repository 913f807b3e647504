"""Figures of the probe `nad`: the spectrum beside its null, and what NADs look like.

What directions of an image look like, in words that follow from numbers.
"""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import FAINT, captioned, rows_as_images, spectrum

SHOWN = 12
MANY = 100  # directions from which on a second figure shows more of them
VEIL = 0.25  # opacity of directions that are not above the null


def headline(result: penchant.Result) -> str | None:
    """How many directions are preferred, and what they look like."""
    above = _count_above(result)
    if above is None:
        return None
    rank = result.quantities["effective-rank"]
    size = result.arrays["directions"].shape[1]
    if not above:
        return (
            "No direction of the input is preferred: no eigenvalue lies above those of gradients "
            "with the same norms in random directions."
        )
    counted = "1 direction" if above == 1 else f"{above} directions"
    text = f"{counted} of {size} lie above the null"
    if rank.is_significant:
        text += f" (effective rank {rank.value:.0f}, {rank.null:.0f} without a preference)"
    patterns = described(result.arrays["directions"][:above], result.shape or ())
    return f"{text}: {patterns}." if patterns else f"{text}."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The directions as pictures of the input, and eigenvalues with the null of each index."""
    shape = result.shape
    if shape is None or len(shape) > 3:
        return {"eigenvalues": _eigenvalues(result)}
    # Which, then how strongly.
    count = len(result.arrays["directions"])
    figures = {
        "directions": _directions(
            result,
            list(range(min(SHOWN, count))),
            caption="The first NADs in the shape of the input, and their amplitude spectra with "
            "zero frequency in the centre.",
            columns=6,
        ),
        "eigenvalues": _eigenvalues(result),
    }
    # The paper's choice: the first twenty, and every fiftieth.
    if count >= MANY:
        further = list(range(50, min(count, 1001), 50))
        figures["directions-further"] = _directions(
            result,
            [*range(20), *further],
            caption="NADs by index: the first twenty and every fiftieth.",
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
    above = _count_above(result)
    if above is not None:
        seen = (
            "Eigenvalues of the second moment, and those of gradients with the same norms in "
            "random "
            f"directions at the same index: the first {above} lie above."
        )
    if above == 0:
        seen = seen.replace("the first 0 lie", "not even the first lies")
    return captioned(figure, seen, title="Eigenvalues of the second moment")


def _count_above(result: penchant.Result) -> int | None:
    """How many directions lie above the null; None where there is no null."""
    count = result.quantities.get("directions-above-null")
    return None if count is None else int(count.value)


def _directions(
    result: penchant.Result, chosen: list[int], *, caption: str, columns: int
) -> Figure:
    assert result.shape is not None  # every job of this probe has an architecture
    figure = rows_as_images(
        result.arrays["directions"][chosen],
        result.shape,
        titles=[str(index) for index in chosen],
        columns=columns,
        fourier=True,
    )
    above = _count_above(result)
    if above is not None and any(index >= above for index in chosen):
        _grey_out(figure, chosen, above, columns)
        caption += (
            f" Pale: index {above} and up, not above the null."
            if above
            else " All are pale: none lies above the null."
        )
    return captioned(figure, caption, title="Neural anisotropy directions by index")


def _grey_out(figure: Figure, chosen: list[int], above: int, columns: int) -> None:
    """Make the panels of directions pale that are not above the null."""
    # A direction is a column of panels in one line of them.
    columns = min(columns, len(chosen))
    lines = -(-len(chosen) // columns)
    tall = len(figure.axes) // (lines * columns)
    for number, index in enumerate(chosen):
        if index < above:
            continue
        line, column = divmod(number, columns)
        for panel in range(line * tall, (line + 1) * tall):
            axes = figure.axes[panel * columns + column]
            for artist in (*axes.images, *axes.lines):
                artist.set_alpha(VEIL)
            axes.title.set_color(FAINT)


SLOW, FAST = (
    0.75,
    1.25,
)  # mean frequency, relative to white noise, below and above which a word is used
CENTRAL = 1.5  # energy in the central quarter, relative to its area, from which on it is mentioned


def described(directions: np.ndarray, shape: tuple[int, ...]) -> str:
    """Directions of images as slow or fast waves, and where in the image they are.

    Args:
        directions: Directions (count, inputs), of unit length.
        shape: Shape of an input, (channels, height, width).

    Returns:
        A clause such as "slow waves in the middle of the image (mean frequency ...)"; empty for
        other shapes than images.
    """
    if len(shape) != 3 or not len(directions):
        return ""
    images = directions.reshape(len(directions), *shape)
    frequency, white = _mean_frequency(images)
    words = "waves of all frequencies"
    if frequency < SLOW * white:
        words = "slow waves"
    elif frequency > FAST * white:
        words = "fast waves"
    share = _central_share(images)
    if share > CENTRAL * 0.25:
        words += " in the middle of the image"
    return (
        f"{words} (mean frequency {frequency:.2f} cycles per pixel, {white:.2f} for random "
        f"directions; {share:.0%} of the energy in the central quarter)"
    )


def _mean_frequency(images: np.ndarray) -> tuple[float, float]:
    """Mean radial frequency of the power of images, and of white noise of the same size."""
    height, width = images.shape[-2:]
    radius = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    power = np.abs(np.fft.fft2(images)) ** 2
    return float((power * radius).sum() / power.sum()), float(radius.mean())


def _central_share(images: np.ndarray) -> float:
    """Share of the energy in the central quarter of the area."""
    height, width = images.shape[-2:]
    top, left = height // 4, width // 4
    energy = images**2
    middle = energy[..., top : height - top, left : width - left]
    return float(middle.sum() / energy.sum())
