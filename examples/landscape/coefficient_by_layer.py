"""The learning coefficient of each layer of a deep linear network, whose value is known.

|A W B x|^2 / 2 is quadratic in the layer W between A and B, so that the layer alone has the
coefficient sum c / (c + g) / 2 at the localisation g, over its curvatures c times n / log n, and
half their number in the limit of large n. Half the number of parameters, which a regular model
would have, is the null. Half a minute on one core; `--quick` takes shorter chains.
"""

import math
import sys

import numpy as np
import penchant
import torch
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned
from penchant_numerics.pictures.pictures import Figure
from torch import nn

QUICK = "--quick" in sys.argv
WIDTHS = (4, 3, 3, 4)
RANK = 2
SAMPLES = 200
LOCALISATION = 1.0
LAYERS = ("0", "1", "2")


def deep_linear():
    """Balanced factors of a projection of rank 2."""
    layers = []
    for before, after in zip(WIDTHS, WIDTHS[1:]):
        layer = nn.Linear(before, after, bias=False, dtype=torch.float64)
        layer.weight.data = torch.zeros(after, before, dtype=torch.float64)
        layer.weight.data[range(RANK), range(RANK)] = 1.0
        layers.append(layer)
    return nn.Sequential(*layers)


def inputs():
    """Gaussian samples."""
    generator = torch.Generator("cpu").manual_seed(1)
    return torch.randn(SAMPLES, WIDTHS[0], generator=generator, dtype=torch.float64)


def exact(rows):
    """Coefficients of the layers: what is in front of a layer and behind it is a projection."""
    moment = rows.T @ rows / len(rows)
    whole = torch.linalg.eigvalsh(moment)
    inner = torch.linalg.eigvalsh(moment[:RANK, :RANK])
    of_layers = (whole.repeat(RANK), inner.repeat(RANK), inner.repeat(WIDTHS[-1]))
    scale = len(rows) / math.log(len(rows))
    curved = [scale * values for values in of_layers]
    return [float((each / (each + LOCALISATION)).sum()) / 2 for each in curved]


def measure(seed=0):
    """The probe on the network at the minimum of its loss."""
    network, rows = deep_linear(), inputs()
    samples = (rows, network(rows).detach())
    return penchant.measure(
        "learning-coefficient",
        architecture=network,
        dataset=(samples, samples),
        parameters=LAYERS,
        training={"loss": "squared-error"},
        dtype="float64",
        localisation=LOCALISATION,
        chain_steps=1000 if QUICK else 4000,
        warmup=300 if QUICK else 2000,
        seed=seed,
    )


def draw(result, known):
    """Estimates beside known values."""
    figure = Figure(figsize=(5.4, 3.8), layout="constrained")
    panel = figure.subplots()
    local = result.tables["localised-coefficient-by-module"]
    places = np.arange(len(LAYERS))
    halves = [a * b / 2 for a, b in zip(WIDTHS, WIDTHS[1:])]
    panel.bar(places, halves, 0.7, color=FAINT, alpha=0.4, label="half the parameters")
    panel.hlines(known, places - 0.35, places + 0.35, color=ORANGE, label="known")
    panel.errorbar(
        places,
        local.values,
        yerr=2 * local.stderr,
        fmt="o",
        color=BLUE,
        capsize=3,
        label="estimate",
    )
    names = [f"layer {name}\n{a} to {b}" for name, a, b in zip(LAYERS, WIDTHS, WIDTHS[1:])]
    panel.set_xticks(places, names)
    panel.set(ylabel="localised learning coefficient", ylim=(0, 1.45 * max(halves)))
    panel.legend(frameon=False, fontsize=8, loc="upper center", ncols=3)
    caption = "Of each layer alone, with two standard errors over chains."
    return captioned(figure, caption, title="A deep linear network, layer by layer")


if __name__ == "__main__":
    known = exact(inputs())
    result = measure()
    local = result.tables["localised-coefficient-by-module"]
    limit = result.tables["learning-coefficient-by-module"]
    for name, value in zip(LAYERS, known):
        own, far = local.at(module=name), limit.at(module=name)
        print(f"layer {name}: {float(own.values):.3f} ± {float(own.stderr):.3f}", end=", ")
        print(f"known {value:.3f}; limit of large n {float(far.values):.2f}", end=" ")
        print(f"± {float(far.stderr):.2f}, half its parameters {float(far.null):g}")
    draw(result, known).savefig("coefficient_by_layer.png", bbox_inches="tight", dpi=150)
    print("coefficient_by_layer.png")
