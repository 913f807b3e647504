"""Draw docs/assets/lenet.png, the first picture of README and site: `python docs/make/strip.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penchant
from matplotlib.figure import Figure

PICTURE = Path(__file__).resolve().parent.parent / "assets/lenet.png"
SIDE = 32  # pixels
SHOWN = (0, 1, 2, 4, 8, 16, 64, 256, 1000)  # indices of directions, most preferred first


def main() -> None:
    """Measure LeNet with average pooling, and draw some of its directions."""
    result = penchant.measure(
        "average-geometry",
        architecture="lenet:pooling=average",
        shape=(1, SIDE, SIDE),
        networks=1500,
        estimators={"directions": {"name": "average-geometry", "inputs": 4}},
    )
    print(result)
    strip(result.arrays["directions"]).savefig(PICTURE, dpi=100)


def strip(directions: np.ndarray) -> Figure:
    """Directions as images, and the amplitudes of their Fourier transform below."""
    figure = Figure(figsize=(11, 2.75), layout="constrained")
    grid = figure.subplots(2, len(SHOWN))
    for column, index in enumerate(SHOWN):
        image = directions[index].reshape(SIDE, SIDE)
        limit = np.abs(image).max()
        amplitudes = np.abs(np.fft.fftshift(np.fft.fft2(image)))
        grid[0, column].imshow(image, cmap="gray", vmin=-limit, vmax=limit)
        grid[0, column].set_title(str(index), fontsize=10)
        grid[1, column].imshow(amplitudes, cmap="magma")
    for panel in grid.ravel():
        panel.set(xticks=[], yticks=[])
    grid[0, 0].set_ylabel("pixels")
    grid[1, 0].set_ylabel("Fourier")
    return figure


if __name__ == "__main__":
    main()
