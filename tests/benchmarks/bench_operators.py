"""Curvature products, class means and tangent kernels, side by side with plain gradients, curvlinops, PyHessian and torch.func.

Run all: python tests/benchmarks/bench_operators.py; or one section: python tests/benchmarks/bench_operators.py products-mlp
Ratios of processor time on one thread, the least of several rounds in which all take turns: neighbours on the machine disturb
them little. PyHessian is compared where it is installed. The memory of the log spectrum is measured in a process of its own.
"""

from __future__ import annotations

import copy
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch
from penchant_class_structure.shared.class_means import cross_class_weights, mean_gradients
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_numerics.layers import tangent_kernel
from targets import at_least, at_most
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional

CPU = torch.device("cpu")
VGG11 = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
STEPS = 2048  # of the log spectrum


def vgg11() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width in VGG11:
        if width == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def mlp(width: int, depth: int = 8) -> nn.Module:
    sizes = [784, *[width] * (depth - 1), 10]
    layers = [
        layer
        for inputs, outputs in zip(sizes, sizes[1:])
        for layer in (nn.Linear(inputs, outputs), nn.ReLU())
    ]
    return nn.Sequential(*layers[:-1])


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator("cpu").manual_seed(0), device=CPU)


def least(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least processor time of each, taking turns."""
    times = {name: float("inf") for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name] = min(times[name], time.process_time() - start)
    return times


def gradient(network: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The plain gradient of the mean loss, the yardstick."""
    parameters, samples = list(network.parameters()), sum(len(y) for _, y in batches)
    total = [torch.zeros_like(p) for p in parameters]
    for x, y in batches:
        loss = functional.cross_entropy(network(x), y, reduction="sum") / samples
        for sum_, part in zip(total, torch.autograd.grad(loss, parameters)):
            sum_ += part
    return total


def products(name: str, network: nn.Module, inputs: Tensor, *, batch: int, rounds: int) -> None:
    """Gauss-Newton and Hessian products against the gradient and curvlinops."""
    import curvlinops

    labels = torch.arange(len(inputs), device=CPU) % 10
    batches = list(zip(inputs.split(batch), labels.split(batch)))
    ours = {
        "Gauss-Newton, cached": GaussNewton(network, (inputs, labels), batch=batch),
        "Gauss-Newton, streamed": GaussNewton(network, (inputs, labels), batch=batch, cache=0),
        "Hessian, cached": Hessian(network, (inputs, labels), batch=batch),
        "Hessian, streamed": Hessian(network, (inputs, labels), batch=batch, cache=0),
    }
    options = {"check_deterministic": False}
    parameters = list(network.parameters())
    theirs = {
        "Gauss-Newton": curvlinops.GGNLinearOperator(
            network, nn.CrossEntropyLoss(), parameters, batches, **options
        ),
        "Hessian": curvlinops.HessianLinearOperator(
            network, nn.CrossEntropyLoss(), parameters, batches, **options
        ),
    }
    v = normal(ours["Hessian, cached"].size)
    functions: dict[str, Callable[[], object]] = {"gradient": lambda: gradient(network, batches)}
    functions |= {key: lambda operator=operator: operator @ v for key, operator in ours.items()}
    functions |= {
        f"curvlinops {key}": lambda operator=operator: operator @ v
        for key, operator in theirs.items()
    }
    version = metadata.version("curvlinops-for-pytorch")
    for key, operator in theirs.items():
        compiled = compiled_product(operator, v)
        if isinstance(compiled, str):
            print(f"curvlinops {version} {key} cannot be compiled: {compiled}")
        else:
            functions[f"compiled {key}"] = compiled
    if (other := pyhessian_product(network, batches, v)) is not None:
        functions["PyHessian"] = other
    times = least(functions, rounds)
    print(
        f"{name}: {len(v):,} parameters, {len(inputs)} samples; gradient {times['gradient']:.3f} s"
    )
    targets = {
        "Gauss-Newton, cached": (1.4, 1.4),
        "Gauss-Newton, streamed": (1.75, 1.4),
        "Hessian, cached": (None, 1),
        "Hessian, streamed": (None, 1),
    }
    for key in ours:
        other_time = times[f"curvlinops {key.split(',')[0]}"]
        most, least_speed = targets[key]
        speed = other_time / times[key]
        against = (
            f"{speed:5.2f} times as fast as curvlinops {version} {at_least(speed, least_speed)}"
        )
        if (compiled_time := times.get(f"compiled {key.split(',')[0]}")) is not None:
            speed = compiled_time / times[key]
            against += f", {speed:5.2f} times as it compiled {at_least(speed, 1)}"
        if key.startswith("Hessian") and "PyHessian" in times:
            against += f", {times['PyHessian'] / times[key]:5.2f} times as PyHessian"
        gradients = times[key] / times["gradient"]
        limit = "" if most is None else f" {at_most(gradients, most)}"
        print(f"  {key:24s} {gradients:5.2f} gradients{limit}, {against}", flush=True)


def compiled_product(operator: Any, v: Tensor) -> Callable[[], object] | str:
    """A product of curvlinops whose pass over a batch is compiled, or why it cannot be."""
    operator = copy.copy(operator)
    expected = operator @ v
    # a cached property: what multiplies a batch onto a matrix
    operator.__dict__["_mp"] = torch.compile(operator._mp)
    try:
        found = operator @ v
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    away = float((found - expected).norm() / expected.norm())
    if not away < 1e-4:
        return f"its result differs by {away:.1e}"
    return lambda: operator @ v


def pyhessian_product(
    network: nn.Module, batches: list[tuple[Tensor, Tensor]], v: Tensor
) -> Callable[[], object] | None:
    """PyHessian's product with v, over all batches as its eigenvalues use it; nothing where it is not installed."""
    try:
        from pyhessian import hessian
    except ImportError:
        return None
    sizes = [p.numel() for p in network.parameters()]
    parts = [part.view_as(p) for part, p in zip(v.split(sizes), network.parameters())]
    operator = hessian(network, nn.CrossEntropyLoss(), dataloader=batches, cuda=False)
    return lambda: operator.dataloader_hv_product(parts)


def blocks(name: str, network: nn.Module, inputs: Tensor, *, batch: int, rounds: int) -> None:
    """A block of ten vectors against ten single ones."""
    labels = torch.arange(len(inputs), device=CPU) % 10
    for kind in (GaussNewton, Hessian):
        for what, cache in (("cached", 2**30), ("streamed", 0)):
            operator = kind(network, (inputs, labels), batch=batch, cache=cache)
            V = normal(10, operator.size).T
            both = {
                "block": lambda A=operator, V=V: A @ V,
                "singles": lambda A=operator, V=V: [A @ v for v in V.T],
            }
            times = least(both, rounds)
            print(
                f"  {name}: {kind.__name__}, {what}: block of 10 / 10 singles = {times['block'] / times['singles']:.2f}"
            )


def class_means(name: str, network: nn.Module, inputs: Tensor, *, rounds: int) -> None:
    """All C^2 cross-class means against one plain gradient over the same data: C + 1 of them are the budget."""
    labels = torch.arange(len(inputs), device=CPU) % 10
    with torch.no_grad():
        weights = cross_class_weights(network(inputs), labels)
    batches = list(zip(inputs.split(128), labels.split(128)))

    def means() -> None:
        for _ in mean_gradients(network, inputs, labels, weights=weights):
            pass

    times = least({"gradient": lambda: gradient(network, batches), "means": means}, rounds)
    print(
        f"class means of {name}, {len(inputs)} samples: {times['means'] / times['gradient']:.1f} gradients (at most {weights.pairs.shape[0] + 1})"
    )


def kernels(samples: int, width: int, rounds: int) -> None:
    """The tangent kernel from layer-wise Gram matrices against gradients of every sample and output."""
    network = mlp(width, depth=4)
    x = normal(samples, 784)
    parameters = {name: value.detach() for name, value in network.named_parameters()}

    def materialised() -> Tensor:
        rows = vmap(
            jacrev(lambda p, each: functional_call(network, p, (each[None],))[0]), in_dims=(None, 0)
        )(parameters, x)
        J = torch.cat([each.flatten(2) for each in rows.values()], dim=2).flatten(0, 1)
        return J @ J.T

    times = least({"layers": lambda: tangent_kernel(network, x), "gradients": materialised}, rounds)
    exact = materialised()
    error = float((tangent_kernel(network, x) - exact).norm() / exact.norm())
    speed = times["gradients"] / times["layers"]
    print(
        f"tangent kernel, MLP 784-{width}x3-10, {samples} samples: {speed:.1f} times as fast as gradients; they differ by {error:.0e}"
    )


def memory(samples: int) -> None:
    """Peak memory of a log spectrum of VGG11's Gauss-Newton matrix: a few steps are made, the basis has its full size and is touched."""
    from penchant_numerics.linear_algebra.lanczos import lanczos, random_starts

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    G = GaussNewton(vgg11(), (normal(samples, 3, 32, 32), None))
    A = G.factor().gram()
    basis = torch.ones(STEPS, A.size, device=CPU)  # what the steps that are not made would fill
    lanczos(A, random_starts(1, A, generator=torch.Generator("cpu").manual_seed(0)), steps=2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cached = (
        f"{G.cached} of {-(-samples // G.batch)} batches cached, {G.cached_bytes / 2**30:.2f} GiB"
    )
    print(
        f"VGG11, {G.size:,} parameters, {samples} images, log spectrum of G with {len(basis)} steps in sample space: ",
        end="",
    )
    print(f"{peak:.2f} GiB at most ({before:.2f} before; {cached})")


def apart(section: str) -> None:
    """A section in a process of its own: what ran before would count."""
    subprocess.run([sys.executable, __file__, section], check=True)


SECTIONS: dict[str, Callable[[], None]] = {
    "products-mlp": lambda: products(
        "8-layer MLP, 512 wide", mlp(512), normal(512, 784), batch=128, rounds=7
    ),
    "products-wide": lambda: products(
        "8-layer MLP, 2048 wide", mlp(2048), normal(256, 784), batch=128, rounds=3
    ),
    "products-vgg": lambda: products("VGG11", vgg11(), normal(128, 3, 32, 32), batch=128, rounds=3),
    "blocks-small": lambda: blocks(
        "small MLP, 32 wide", mlp(32, depth=3), normal(128, 784), batch=128, rounds=5
    ),
    "blocks-mlp": lambda: blocks(
        "8-layer MLP, 512 wide", mlp(512), normal(256, 784), batch=128, rounds=2
    ),
    "blocks-vgg": lambda: blocks("VGG11", vgg11(), normal(32, 3, 32, 32), batch=32, rounds=1),
    "class-means": lambda: class_means(
        "an 8-layer MLP, 512 wide", mlp(512), normal(1280, 784), rounds=3
    ),
    "class-means-vgg": lambda: class_means("VGG11", vgg11(), normal(100, 3, 32, 32), rounds=1),
    "kernels": lambda: kernels(64, 256, rounds=3),
}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chosen = sys.argv[1:] or [*SECTIONS, "memory"]
    for section in chosen:
        if section == "memory":
            memory(1000) if chosen == [section] else apart(section)
        elif section in SECTIONS:
            SECTIONS[section]()
        else:
            raise SystemExit(f"sections are {', '.join([*SECTIONS, 'memory'])}; found {section!r}")


if __name__ == "__main__":
    main()
