"""Average geometry and its evolution against the plain ways: ratios of processor time."""

import resource
import sys
import tempfile
import time

import penchant
import penchant_testing as testing
import torch
from penchant_gih.geometry_evolution.evolution import RESIDUALS, Flow, mixed_products
from penchant_gih.shared.geometry import Geometry
from penchant_gih.shared.gradients import probed_gradients
from penchant_numerics.device import safe
from penchant_numerics.inputs import first_output
from penchant_numerics.training import draw
from targets import at_most
from torch.func import functional_call, jacfwd, jacrev

NETWORKS = 64


def lenet(shape=(1, 32, 32), **options):
    return testing.architecture({"name": "lenet", **options}, shape=shape)


def smallest(function, repeats=3):
    """Least processor time of some repeats, in seconds."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def stacked_geometry(architecture):
    points = torch.randn(
        NETWORKS, 1, *architecture.shape, generator=torch.Generator(device="cpu").manual_seed(0)
    )
    geometry = Geometry(points[0].numel(), device="cpu")
    for first in range(0, NETWORKS, 32):
        networks = draw(architecture, range(first, first + 32), prepare=safe)
        geometry.add(probed_gradients(networks, points[first : first + 32]))
    return geometry.halves.matrix()


def looped_geometry(architecture):
    """One network after another: construct, differentiate, keep all gradients, multiply."""
    points = torch.randn(
        NETWORKS, 1, *architecture.shape, generator=torch.Generator(device="cpu").manual_seed(0)
    )
    rows = []
    for index in range(NETWORKS):
        x = points[index].clone().requires_grad_()
        architecture(index)(x).sum().backward()
        rows.append(x.grad.flatten().double())
    kept = torch.stack(rows)
    return kept.T @ kept / NETWORKS


def evolution_vectors(networks, inputs, targets, points):
    flow = Flow(inputs, targets, targets, RESIDUALS["squared-error"], batch=len(inputs))
    return mixed_products(networks, flow.parameter_gradients(networks)[0], points)[
        :, 0
    ]  # one input a network


def dense_evolution_vectors(networks, inputs, targets, points):
    """The mixed derivative itself, parameters x inputs, for one network after another."""

    def outputs(state, x):
        return first_output(functional_call(networks.module, state, (x,)))

    found = []
    for n in range(len(networks)):
        state = {name: tensor[n] for name, tensor in networks.state.items()}
        mixed = jacfwd(jacrev(lambda weights, x: outputs(weights, x)[0]), argnums=1)(
            state, points[n]
        )
        residual = outputs(state, inputs) - targets
        slopes = jacrev(lambda weights, residual=residual: residual @ outputs(weights, inputs))(
            state
        )
        found.append(
            sum(
                slopes[name].flatten() @ mixed[name].reshape(slopes[name].numel(), -1)
                for name in state
            )
        )
    return torch.stack(found)


def whole_run():
    """Seconds of 2000 networks under the kernel's default executor, and the peak memory of the largest process."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        options = {"shape": (1, 32, 32), "networks": 2000, "out": folder}
        penchant.measure("average-geometry", architecture={"name": "lenet"}, **options)
        seconds = time.perf_counter() - start
    memory = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return seconds, memory / 2**10


def main():
    torch.set_num_threads(1)
    architecture = lenet()
    difference = (stacked_geometry(architecture) - looped_geometry(architecture)).abs().max()
    ours, plain = (
        smallest(lambda: stacked_geometry(architecture)),
        smallest(lambda: looped_geometry(architecture)),
    )
    print(
        f"average geometry, LeNet 1x32x32, {NETWORKS} networks: loop / stacked = {plain / ours:.1f} (differ by {difference:.1e})"
    )
    networks = draw(lenet((1, 16, 16), activation="gelu"), range(4), prepare=safe)
    generator = torch.Generator(device="cpu").manual_seed(1)
    inputs, points = (
        torch.randn(*shape, 1, 16, 16, generator=generator) for shape in ((32,), (4, 1))
    )
    targets = torch.ones(32)
    arguments = (networks, inputs, targets, points)
    difference = (evolution_vectors(*arguments) - dense_evolution_vectors(*arguments)).abs().max()
    ours, plain = (
        smallest(lambda: evolution_vectors(*arguments)),
        smallest(lambda: dense_evolution_vectors(*arguments), repeats=1),
    )
    print(
        f"evolution, LeNet 1x16x16, 4 networks: dense mixed derivative / product = {plain / ours:.0f} (differ by {difference:.1e})"
    )
    if "--quick" not in sys.argv:
        seconds, memory = whole_run()
        print(
            f"average geometry, LeNet 1x32x32, 2000 networks: {seconds:.1f} s on two idle cores {at_most(seconds, 30)}, peak {memory:.0f} MiB a process"
        )


if __name__ == "__main__":
    main()
