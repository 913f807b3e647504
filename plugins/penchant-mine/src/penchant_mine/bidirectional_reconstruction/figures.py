"""Figures of the probe `bidirectional-reconstruction`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned

from penchant_mine.shared.samples import samples, table, text

TITLES = {
    "ali": "ALI",
    "alice-l2": "ALICE (l2)",
    "alice-adversarial": "ALICE (adversarial)",
    "mine": "ALI + MINE",
}
QUOTED = {  # table 5.2, by the shape of the images: distance, accuracy in per cent, MS-SSIM
    (1, 28, 28): {
        "ali": (14.24, 45.95, 0.97),
        "alice-l2": (3.20, 99.03, 0.97),
        "alice-adversarial": (5.20, 98.17, 0.98),
        "mine": (9.73, 96.10, 0.99),
    },
    (3, 64, 64): {
        "ali": (53.75, 57.49, 0.81),
        "alice-l2": (8.01, 32.22, 0.93),
        "alice-adversarial": (92.56, 48.95, 0.51),
        "mine": (36.11, 76.08, 0.99),
    },
}
COLUMNS = {
    "reconstruction-distance": "distance",
    "reconstruction-accuracy": "accuracy",
    "ms-ssim": "MS-SSIM",
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Reconstructions and samples of every variant, embeddings coloured by label, the table."""
    names = list(result.options["variants"])
    data = result.arrays["samples-data"]
    # Every panel stands beside the data.
    made, again = {"data": data}, {"data": data}
    for name in names:
        made[TITLES[name]] = result.arrays[f"samples-{name}"]
        again[TITLES[name]] = result.arrays[f"reconstructions-{name}"]
    return {
        "reconstructions": captioned(
            samples(again),
            "Reconstructions of test samples by the first training: the closer to the data, the "
            "better.",
            title="Reconstructions",
        ),
        "samples": captioned(
            samples(made), "What decoders make of the prior, beside test data.", title="Samples"
        ),
        "embeddings": captioned(
            _embeddings(result, names),
            "Where encoders put test samples, coloured by label: classes apart or mixed?",
            title="Embeddings of test samples",
        ),
        "table": captioned(
            _table(result, names),
            "Euclidean distance, accuracy and similarity of reconstructions; quoted rows are the "
            "thesis's, not measured here.",
            title="Reconstruction of test samples",
        ),
    }


def _embeddings(result: penchant.Result, names: list[str]) -> Figure:
    """First two components of the encoder's z of test samples."""
    figure = Figure(figsize=(3.1 * len(names), 3.5))
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names):
        z = result.arrays[f"embeddings-{name}"]
        second = z[:, 1] if z.shape[1] > 1 else np.zeros(len(z))
        labels = result.arrays["labels"][: len(z)]
        axes.scatter(z[:, 0], second, c=labels, s=3, cmap="turbo", linewidths=0)
        axes.set_title(TITLES[name])
        axes.set(xlabel="z 1", ylabel="z 2")
    return figure


def _table(result: penchant.Result, names: list[str]) -> Figure:
    """Measured numbers; for images of the published sizes also the published ones."""
    measured = [key for key in COLUMNS if f"{key}-{names[0]}" in result.quantities]
    rows = []
    for name in names:
        cells = [text(result.quantities[f"{key}-{name}"]) for key in measured]
        rows.append([f"{TITLES[name]} (measured)", *cells])
    # Published numbers are for images of these sizes only.
    quoted = QUOTED.get(result.arrays["samples-data"].shape[1:], {})
    if len(measured) == len(COLUMNS):
        for name, (distance, accuracy, similarity) in quoted.items():
            rows.append(
                [
                    f"{TITLES[name]} (quoted)",
                    f"{distance:g}",
                    f"{accuracy / 100:.4g}",
                    f"{similarity:g}",
                ]
            )
    return table(["", *(COLUMNS[key] for key in measured)], rows)
