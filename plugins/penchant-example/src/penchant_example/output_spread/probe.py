"""The probe `output-spread`: how differently fresh networks answer."""

import numpy as np
import penchant
import torch
from penchant_example.declarations import OutputSpread


def run(options: OutputSpread, context: penchant.Context) -> penchant.Result:
    """Draw networks shard by shard, and estimate the spread of their mean outputs."""
    # Each shard is stored as soon as it is done; a stopped run resumes from there.
    shards = context.map(mean_outputs, networks=options.networks)
    means = np.concatenate([shard["means"] for shard in shards])
    # The experiment chooses the estimator; the probe knows its role only.
    estimate = context.estimator("spread")
    value, stderr = estimate(means)
    spread = penchant.Quantity(value, stderr=stderr, over="networks", count=len(means))
    return penchant.Result(
        quantities={"spread": spread}, arrays={"means": means}, conventions={"output": "the first"}
    )


@torch.no_grad()
def mean_outputs(context: penchant.Context, indices: range) -> dict[str, torch.Tensor]:
    """Mean first output of each network of a shard over the test samples."""
    inputs = context.data.test.inputs
    means = []
    for index in indices:
        # By its number only: the same network in every process.
        network = context.network(index)
        outputs = network(inputs)
        means.append(outputs[:, 0].mean())
    return {"means": torch.stack(means)}
