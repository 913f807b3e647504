"""A probe of your own, written and run: how strongly fresh networks react to noise."""

from __future__ import annotations

import attrs
import penchant
import torch


def run(options: NoiseReaction, context: penchant.Context) -> penchant.Result:
    shape = context.architecture.shape
    noise = torch.randn(64, *shape, generator=context.generator("noise"), device="cpu")
    noise = options.scale * noise.to(context.device, context.dtype)
    changes = []
    for index in range(options.networks):
        network = context.network(index)
        with torch.no_grad():
            change = network(noise) - network(torch.zeros_like(noise))
        changes.append(change.square().mean())
    reactions = torch.stack(changes)
    reaction = penchant.Quantity.of(reactions, over="networks")
    return penchant.Result({"reaction": reaction}, {"reactions": reactions})


@attrs.frozen
class NoiseReaction(penchant.Probe):
    """Mean squared change of the outputs when Gaussian noise is added to an input of zeros."""

    name = "noise-reaction"
    needs = ("architecture",)
    quantities = {"reaction": "mean squared change of the outputs"}
    arrays = {"reactions": "the same for every network"}
    target = run

    networks: int = penchant.option(16, "fresh networks", at_least=2)
    scale: float = penchant.option(1.0, "standard deviation of the noise", above=0)


if __name__ == "__main__":
    for architecture in ("logistic", "lenet"):
        result = penchant.measure(NoiseReaction, architecture=architecture, scale=0.5)
        print(f"{architecture}: {result.quantities['reaction']}")
