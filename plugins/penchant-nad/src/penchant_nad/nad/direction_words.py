"""What directions of an image look like, in words that follow from numbers."""

from __future__ import annotations

import numpy as np

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
