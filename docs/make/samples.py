"""Draw samples of every dataset for the catalogue: `python docs/make/samples.py`.

Those whose files are not there (`PENCHANT_DATA`) are left as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import penchant_testing as testing
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant import Error
from penchant.plugins import discovery
from penchant_numerics.data import Samples

PICTURES = Path(__file__).resolve().parent.parent / "catalogue/pictures"
SHOWN = 12  # images, or curves
POINTS = 600


def main() -> None:
    """A picture a dataset."""
    PICTURES.mkdir(exist_ok=True)
    for registration in discovery.load().registrations("dataset"):
        name = registration.component.name
        # What a user imports is the user's own.
        if name == "import":
            continue
        try:
            samples = testing.dataset(name).train
        except Error as error:
            sys.stdout.write(f"{name}: {error}\n")
            continue
        drawn(samples).savefig(PICTURES / f"dataset-{name}.png", dpi=80)


def drawn(samples: Samples) -> Figure:
    """Images as images, points of a plane as points, anything else as curves."""
    # Spread over all of them: some come in an order.
    chosen = np.unique(np.linspace(0, len(samples.inputs) - 1, POINTS).astype(int))
    inputs = np.asarray(samples.inputs[chosen])
    labels = np.asarray(samples.labels[chosen])
    if inputs.ndim == 4:
        return _images(inputs[:SHOWN])
    figure = Figure(figsize=(6, 3), layout="constrained")
    if inputs.ndim == 2 and inputs.shape[1] == 2:
        _points(figure.subplots(), inputs, labels)
    elif inputs.ndim == 2 and inputs.shape[1] == 1:
        _targets(figure.subplots(), inputs[:, 0], labels)
    else:
        _curves(figure.subplots(), inputs[:SHOWN].reshape(len(inputs[:SHOWN]), -1))
    return figure


def _images(inputs: np.ndarray) -> Figure:
    figure = Figure(figsize=(8, 1.6 if len(inputs) <= SHOWN // 2 else 2.9), layout="constrained")
    for panel, image in zip(figure.subplots(2, SHOWN // 2).ravel(), inputs, strict=False):
        low, high = image.min(), image.max()
        shades = (image - low) / max(high - low, 1e-12)
        panel.imshow(shades[0] if len(image) != 3 else shades.transpose(1, 2, 0), cmap="gray")
        panel.set(xticks=[], yticks=[])
    return figure


def _points(axes: Axes, inputs: np.ndarray, labels: np.ndarray) -> None:
    colours = labels if labels.ndim == 1 else np.zeros(len(labels))
    axes.scatter(*inputs.T, c=colours, s=5, cmap="coolwarm")
    axes.set(xlabel="first input", ylabel="second input", aspect="equal")


def _targets(axes: Axes, inputs: np.ndarray, labels: np.ndarray) -> None:
    order = np.argsort(inputs)
    axes.plot(
        inputs[order], labels.reshape(len(labels), -1)[order, 0], ".-", linewidth=0.3, markersize=3
    )
    axes.set(xlabel="input", ylabel="label")


def _curves(axes: Axes, rows: np.ndarray) -> None:
    axes.plot(rows.T, linewidth=0.8)
    axes.set(xlabel="index of the input", ylabel=f"value, {len(rows)} samples")


if __name__ == "__main__":
    main()
