"""The code behind the declarations."""

import numpy as np
import penchant
import torch
from torch import nn

SHARD = 32  # networks a shard: fixed, so that numbers depend on neither executor nor workers


def build(options, shape, outputs):
    return nn.Sequential(
        nn.Linear(*shape, options.width), nn.Tanh(), nn.Linear(options.width, outputs)
    )


def load(options, generator):
    labels = torch.arange(400, device="cpu") % 2
    inputs = torch.randn(400, 2, generator=generator, device="cpu")
    inputs[:, 0] += options.distance * (labels - 0.5)
    return (inputs[:200], labels[:200]), (inputs[200:], labels[200:]), 2  # train, test, classes


def standard_deviation(options, context, values):
    return values.std(ddof=1), values.std(ddof=1) / (2 * len(values) - 2) ** 0.5


def run(options, context):
    items = [
        [first, min(first + SHARD, options.networks)] for first in range(0, options.networks, SHARD)
    ]
    means = np.concatenate([shard["means"] for shard in context.map(mean_outputs, items)])
    value, stderr = context.estimator("spread")(means)
    quantity = penchant.Quantity(
        float(value), stderr=float(stderr), over="networks", count=options.networks
    )
    return penchant.Result(
        {"spread": quantity}, {"means": means}, conventions={"output": "the first"}
    )


@torch.no_grad()
def mean_outputs(context, item):
    return {
        "means": torch.stack(
            [context.network(i)(context.data.test.inputs)[:, 0].mean() for i in range(*item)]
        )
    }


def plot(result):
    from matplotlib.figure import Figure  # only when something is drawn

    figure = Figure(figsize=(5, 3))
    figure.subplots().hist(result.arrays["means"], bins=20)
    figure.supxlabel("mean output of a network")
    return {"means": figure}
