"""The code behind the declarations."""

import torch
from penchant_numerics.data import Data, Samples
from torch import nn

import penchant

SHARD = 32  # networks a shard: fixed, so that numbers depend on neither executor nor workers


def build(options, shape, outputs):
    (inputs,) = shape
    return nn.Sequential(nn.Linear(inputs, options.width), nn.Tanh(), nn.Linear(options.width, outputs))


def load(options, generator):
    labels = torch.arange(400, device="cpu") % 2
    inputs = torch.randn(400, 2, generator=generator, device="cpu")
    inputs[:, 0] += options.distance * (labels - 0.5)
    return Data(Samples(inputs[:200], labels[:200]), Samples(inputs[200:], labels[200:]), classes=2)


def standard_deviation(options, context, values):
    value = values.std()
    return float(value), float(value) / (2 * len(values) - 2) ** 0.5


def run(options, context):
    firsts = range(0, options.networks, SHARD)
    shards = context.map(mean_outputs, [[first, min(first + SHARD, options.networks)] for first in firsts])
    means = torch.cat([torch.as_tensor(shard["means"]) for shard in shards])
    value, stderr = context.estimator("spread")(means)
    quantity = penchant.Quantity(value, stderr=stderr, over="networks", count=options.networks)
    return penchant.Result({"spread": quantity}, {"means": means}, conventions={"output": "the first"})


def mean_outputs(context, item):
    with torch.no_grad():
        return {"means": torch.stack([context.network(i)(context.data.test.inputs)[:, 0].mean() for i in range(*item)])}


def plot(result):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3))
    figure.subplots().hist(result.arrays["means"], bins=20)
    figure.axes[0].set(xlabel="mean output", ylabel="networks")
    return {"means": figure}
