"""A small run that has everything a report must show, made in seconds.

    python tests/tools/grid_run.py FOLDER

Three architectures, four probes, two seeds; one job fails and one has a warning.
"""

import sys
from pathlib import Path

import attrs
import numpy as np
import penchant
import torch
from matplotlib.figure import Figure
from penchant.plugins import discovery
from penchant_numerics.pictures import captioned
from penchant_numerics.statistics import null_of


def outputs_of(context, networks):
    """First outputs of networks (networks, samples) on the test samples."""
    inputs = context.data.test.inputs
    with torch.no_grad():
        answers = [context.network(index)(inputs)[:, 0] for index in range(networks)]
    return torch.stack(answers).double().numpy()


def align(options, context):
    answers = outputs_of(context, options.networks)
    line = context.data.test.inputs[:, 0].numpy()
    shuffled = np.random.default_rng(context.seed).permuted(np.tile(line, (200, 1)), axis=1)
    along = np.abs(correlations(answers, line[None]))[:, 0]
    null = np.abs(correlations(answers, shuffled)).mean(0)
    return penchant.Result(
        {
            "correlation": penchant.Quantity.of(along, over="networks", null=null_of(null)),
            "slope": penchant.Quantity.of(along * answers.std(1), over="networks"),
        },
        {"correlations": along},
        {"output": "the first"},
    )


def correlations(first, second):
    """Of rows of two arrays."""
    parts = []
    for rows in (first, second):
        rows = rows - rows.mean(1, keepdims=True)
        parts.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return parts[0] @ parts[1].T


def draw_alignment(result):
    along = result.arrays["correlations"]
    histogram = Figure(figsize=(5, 3))
    axes = histogram.subplots()
    axes.hist(along, bins=12, color="#2b5c8a")
    null = result.quantities["correlation"].null
    axes.axvline(null, color="#d9822b", linestyle="--", label="null")
    axes.set(xlabel="correlation with the line between the blobs", ylabel="networks")
    axes.legend()
    curve = Figure(figsize=(5, 3))
    axes = curve.subplots()
    axes.plot(np.sort(along), "o-")
    axes.set(xlabel="network, sorted", ylabel="correlation")
    caption = "Most networks are far to the right of the dashed line: they see the two blobs."
    return {
        "histogram": captioned(histogram, caption, title="Alignment with the data"),
        "by-network": captioned(
            curve, "A few networks are not aligned.", title="Network by network"
        ),
    }


@attrs.frozen
class Alignment(penchant.Probe):
    """Correlation of the outputs of fresh networks with the line between two blobs."""

    name = "alignment"
    question = "Do fresh networks see the line between the blobs before they are trained?"
    target = align
    figures = draw_alignment
    needs = ("architecture", "dataset")
    quantities = {
        "correlation": "of a network's output with the place of a sample on the line, absolute",
        "slope": "of a network's output along that line",
    }
    arrays = {"correlations": "of every network"}
    presets = {"quick": {}}

    networks: int = penchant.option(24, "fresh networks", at_least=2)


def norms(options, context):
    sizes = []
    for index in range(8):
        parameters = [part.detach().flatten() for part in context.network(index).parameters()]
        sizes.append(torch.cat(parameters).norm().item())
    if context.seed == 0 and context.architecture.label == "wide":
        context.warn("8 networks are few: the error of the norm is itself uncertain by a quarter")
    count = sum(part.numel() for part in context.network(0).parameters())
    return penchant.Result(
        {
            "norm": penchant.Quantity.of(sizes, over="networks"),
            "parameters": penchant.Quantity(count, exact=True),
        }
    )


@attrs.frozen
class WeightNorm(penchant.Probe):
    """Norm of the parameters of fresh networks."""

    name = "weight-norm"
    question = "How large are the weights that an architecture starts with?"
    target = norms
    needs = ("architecture", "dataset")
    quantities = {"norm": "Euclidean norm of all parameters", "parameters": "how many there are"}
    presets = {"quick": {}}


def tilt(options, context):
    if context.seed == 1 and context.architecture.label == "narrow":
        raise RuntimeError("the fit did not converge after 100 steps")
    means = outputs_of(context, 10).mean(1)
    found = penchant.Quantity.of(means, over="networks", null=0.0)
    return penchant.Result({"mean-output": found}, {"mean-outputs": means})


@attrs.frozen
class Tilt(penchant.Probe):
    """Mean output of fresh networks."""

    name = "tilt"
    question = "Do fresh networks lean to one of the classes?"
    target = tilt
    needs = ("architecture", "dataset")
    quantities = {"mean-output": "mean of outputs over networks and test samples"}
    arrays = {"mean-outputs": "of every network"}
    presets = {"quick": {}}


def grid(folder, seeds=(0, 1)):
    """Run it; what is in the folder already is kept."""
    plugins = discovery.load()
    for probe in (Alignment, WeightNorm, Tilt):
        plugins = plugins.with_component(probe, penchant.Probe)
    widths = {"narrow": 4, "medium": 16, "wide": 64}
    raw = {
        "title": "Perceptrons of three widths",
        "seeds": list(seeds),
        "executor": "serial",
        "architectures": [
            {"name": "perceptron", "label": label, "width": width}
            for label, width in widths.items()
        ],
        "datasets": [{"name": "two-blobs"}],
        "probes": [
            {"name": "alignment"},
            {"name": "output-spread", "networks": 40},
            {"name": "weight-norm"},
            {"name": "tilt"},
        ],
    }
    return penchant.run(raw, out=Path(folder), plugins=plugins)


if __name__ == "__main__":
    grid(sys.argv[1])
