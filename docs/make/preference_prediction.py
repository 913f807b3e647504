"""Does a preference before training predict what is learnt? An own one, and another's.

`python docs/make/preference_prediction.py FOLDER` writes `table.json`; the gallery shows it. For
each architecture the directions are the NADs of fresh networks, and each of a few of them must be
learnt: classes that differ along it alone. The prediction is that accuracy falls with the number of
the direction, measured by Spearman's correlation. Two controls have the same networks, numbers and
trainings: the NADs of the next architecture of the list, and random directions.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penchant
import torch
from matplotlib.figure import Figure
from penchant_numerics.statistics import mean_and_stderr
from penchant_report.figures import figure_style
from PIL import Image
from scipy.stats import spearmanr

ARCHITECTURES = (
    "mlp",
    "lenet:pooling=max",
    "lenet:pooling=average",
    "lenet:pooling=none",
    "resnet18:width=8",
    "resnet20",
    "timm:model=resnet10t",
)
SHAPE = (1, 16, 16)
INDICES = (0, 7, 31, 95, 159, 255)
NETWORKS = 400
SEEDS = (61, 62, 63)
TRAINING = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5, "epochs": 5}
KINDS = ("own", "foreign", "random")
MARKERS = (
    ("its own NADs", "o", "#0072b2"),
    ("another architecture's NADs", "s", "#d55e00"),
    ("random directions", "x", "grey"),
)
CAPTION = (
    "How well the number of a direction, found before training, predicts the accuracy after it: "
    "rank correlations with standard errors over three trainings"
)


def directions(architecture: str) -> np.ndarray:
    """NADs of fresh networks, by local gradients."""
    found = penchant.measure(
        "nad",
        architecture=architecture,
        networks=NETWORKS,
        shape=SHAPE,
        seed=SEEDS[0],
        estimators={"directions": {"name": "gradient-covariance", "method": "autograd"}},
    )
    return found.arrays["directions"]


def predicted(architecture: str, rows: np.ndarray, seed: int) -> float:
    """Rank correlation of the accuracy along directions with minus their number.

    It is 0 where all accuracies are equal: what does not vary is not predicted.
    """
    found = penchant.measure(
        "directional-accuracy",
        architecture=architecture,
        basis="nad",
        directions=rows,
        indices=INDICES,
        train=2000,
        test=1000,
        trainings=1,
        shape=SHAPE,
        seed=seed,
        training=TRAINING,
    )
    accuracies = found.arrays["test-accuracy"]
    if np.ptp(accuracies) == 0:
        return 0.0
    return float(spearmanr(-np.arange(len(INDICES)), accuracies).statistic)


def orthonormal(seed: int) -> np.ndarray:
    """Random directions."""
    generator = torch.Generator("cpu").manual_seed(seed)
    size = int(np.prod(SHAPE))
    normal = torch.randn(size, size, generator=generator, dtype=torch.float64, device="cpu")
    return torch.linalg.qr(normal)[0].numpy()


def main(folder: Path) -> None:
    """Measure every architecture with each kind of directions, and write the table."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    own = [directions(each) for each in ARCHITECTURES]
    sources = {"own": own, "foreign": [*own[1:], own[0]]}
    sources["random"] = [orthonormal(SEEDS[0]) for _ in own]
    correlations = {kind: np.zeros((len(own), len(SEEDS))) for kind in KINDS}
    for kind in KINDS:
        for number, architecture in enumerate(ARCHITECTURES):
            rows = sources[kind][number]
            correlations[kind][number] = [predicted(architecture, rows, each) for each in SEEDS]
    found = table(correlations)
    draw(found["rows"]).save(folder / "correlations.png")
    (folder / "table.json").write_text(json.dumps(found, indent=1) + "\n")


def table(correlations: dict[str, np.ndarray]) -> dict[str, Any]:
    """The quantities, whose errors are over architectures, and a row for each architecture."""
    rows = [["architecture", *(f"{kind} directions" for kind in KINDS)]]
    for number, architecture in enumerate(ARCHITECTURES):
        cells = [mean_and_stderr(correlations[kind][number]) for kind in KINDS]
        rows.append([architecture, *(f"{mean:.2f} ± {error:.2f}" for mean, error in cells)])
    numbers = {kind: correlations[kind].mean(axis=1) for kind in KINDS}
    numbers["own-minus-foreign"] = numbers["own"] - numbers["foreign"]
    numbers["random-minus-foreign"] = numbers["random"] - numbers["foreign"]
    quantities = {}
    for name, values in numbers.items():
        mean, error = mean_and_stderr(values)
        counted = {"count": len(values), "df": len(values) - 1, "over": "architectures"}
        quantities[name] = {"value": float(mean), "stderr": float(error), "null": 0.0, **counted}
    found = {"name": "preference-prediction", "probe": "", "quantities": quantities, "rows": rows}
    pictures = [{"figure": "correlations", "file": "correlations.png", "caption": CAPTION}]
    return {**found, "places": {}, "pictures": pictures, "warnings": []}


def draw(rows: list[list[str]]) -> Image.Image:
    """The correlations of each architecture, of which a table has the cells `0.83 ± 0.06`."""
    architectures = sorted(rows[1:], key=lambda row: float(row[1].split(" ± ")[0]))
    figure = Figure(figsize=(7, 1 + 0.4 * len(architectures)), layout="constrained")
    axes = figure.subplots()
    for column, (kind, marker, colour) in enumerate(MARKERS, start=1):
        cells = [[float(part) for part in row[column].split(" ± ")] for row in architectures]
        means, errors = zip(*cells)
        places = [number + 0.15 * (2 - column) for number in range(len(cells))]
        axes.errorbar(means, places, xerr=errors, fmt=marker, color=colour, label=kind)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(architectures)), [row[0] for row in architectures])
    axes.set_xlabel("rank correlation of accuracy with the number of the direction")
    figure.legend(loc="outside upper center", ncols=len(MARKERS), fontsize=8)
    drawn = io.BytesIO()
    with figure_style():
        figure.savefig(drawn, format="png", dpi=150)
    return Image.open(drawn)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
