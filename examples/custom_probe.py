"""A probe of your own, written and run: how strongly fresh networks react to noise on their input."""

import attrs
import penchant
import torch


def run(options, context):
    noise = torch.randn(
        64, *context.architecture.shape, generator=context.generator("noise"), device="cpu"
    ).to(context.device, context.dtype)
    with torch.no_grad():
        networks = [context.network(i) for i in range(options.networks)]
        changes = torch.stack(
            [(f(options.scale * noise) - f(0 * noise)).square().mean() for f in networks]
        )
    stderr = changes.std() / len(changes) ** 0.5
    value = penchant.Quantity(
        float(changes.mean()), stderr=float(stderr), over="networks", count=len(changes)
    )
    return penchant.Result({"reaction": value}, {"reactions": changes})


@attrs.frozen
class NoiseReaction(penchant.Probe):
    """Mean squared change of the outputs when Gaussian noise is added to an input of zeros."""

    name = "noise-reaction"
    needs = ("architecture",)
    quantities = {"reaction": "mean squared change of the outputs"}
    target = run

    networks: int = penchant.option(16, "networks drawn", at_least=2)
    scale: float = penchant.option(1.0, "standard deviation of the noise", above=0)


if __name__ == "__main__":
    for architecture in ("logistic", "lenet"):
        result = penchant.measure(NoiseReaction, architecture=architecture, scale=0.5)
        print(f"{architecture}: {result.quantities['reaction']}")
