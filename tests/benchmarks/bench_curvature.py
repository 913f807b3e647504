"""Kronecker factors and relative errors, side by side with curvlinops and with dense matrices. Run: python tests/benchmarks/bench_curvature.py

Ratios of processor time on one thread, the least of several rounds in which all take turns; memory from tensors' sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import metadata

import torch
from penchant_curvature.shared.layer_operators import column_operators, kronecker_operators
from penchant_curvature.shared.linear_layers import coverage
from penchant_numerics.curvature import GaussNewton
from targets import at_most
from torch import Tensor, nn

CPU = torch.device("cpu")
CLASSES = 10


def mlp(width: int, depth: int = 4) -> nn.Module:
    sizes = [784, *[width] * (depth - 1), CLASSES]
    layers = [
        layer
        for inputs, outputs in zip(sizes, sizes[1:])
        for layer in (nn.Linear(inputs, outputs), nn.ReLU())
    ]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    convolutions = [
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    return nn.Sequential(
        *convolutions, nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, CLASSES)
    )


def least(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least processor time of each, taking turns."""
    times = {name: float("inf") for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name] = min(times[name], time.process_time() - start)
    return times


def report(title: str, times: dict[str, float], yardstick: str) -> None:
    print(f"\n{title}")
    for name, seconds in times.items():
        print(f"  {name:<58} {seconds * 1000:9.1f} ms  {seconds / times[yardstick]:7.2f} x")


def groups_of(labels: Tensor, kind: str) -> Tensor:
    return torch.zeros_like(labels) if kind == "kfac" else labels


def factors(title: str, network: nn.Module, inputs: Tensor, *, rounds: int) -> None:
    """All layers' factors: ours, and curvlinops' own."""
    import curvlinops

    labels = torch.arange(len(inputs), device=CPU) % CLASSES
    batches = list(zip(inputs.split(128), labels.split(128)))
    covered = coverage(network, inputs)

    def ours(kind: str) -> None:
        found = kronecker_operators(
            network,
            (inputs, labels),
            covered,
            groups_of(labels, kind),
            loss="cross-entropy",
            batch=128,
        )
        for layer in found:
            found[layer].trace()

    def theirs() -> None:
        operator = curvlinops.KFACLinearOperator(
            network,
            nn.CrossEntropyLoss(),
            list(network.parameters()),
            batches,
            fisher_type="type-2",
            separate_weight_and_bias=False,
            check_deterministic=False,
        )
        operator @ torch.zeros(operator.shape[1], device=CPU)

    functions = {
        "KFAC, ours (summed in double precision)": lambda: ours("kfac"),
        "CFAC, ours (ten classes)": lambda: ours("cfac"),
        "KFAC, curvlinops type-2 (single precision)": theirs,
    }
    times = least(functions, rounds)
    report(title, times, "KFAC, curvlinops type-2 (single precision)")
    ratio = times["CFAC, ours (ten classes)"] / times["KFAC, curvlinops type-2 (single precision)"]
    version = metadata.version("curvlinops-for-pytorch")
    print(f"  CFAC / KFAC of curvlinops {version}, not compiled: {ratio:.2f} {at_most(ratio, 0.6)}")


def errors(width: int, samples: int, *, rounds: int) -> None:
    """The relative error of a layer's KFAC: from factors and Gram matrices, or from dense matrices."""
    network = mlp(width)
    inputs, labels = (
        torch.randn(samples, 784, device=CPU),
        torch.arange(samples, device=CPU) % CLASSES,
    )
    covered, layer = coverage(network, inputs), "2"
    shared = {"loss": "cross-entropy", "batch": 128}

    def factored() -> float:
        exact = column_operators(
            network, (inputs, labels), covered, columns="gauss-newton", **shared
        )[layer]
        kfac = kronecker_operators(
            network, (inputs, labels), covered, groups_of(labels, "kfac"), **shared
        )[layer]
        return exact.frobenius_distance(kfac, relative=True)

    def dense() -> float:
        exact = GaussNewton(network, (inputs, labels), parameters=layer, check=False).dense()
        kfac = kronecker_operators(
            network, (inputs, labels), covered, groups_of(labels, "kfac"), **shared
        )[layer].dense()
        return float((exact - kfac).norm() / exact.norm())

    size = width * width + width
    times = least({"from factors": factored, "from dense matrices": dense}, rounds)
    report(
        f"relative error of one layer: {size} parameters, {samples} samples ({factored():.4f} and {dense():.4f})",
        times,
        "from dense matrices",
    )
    print(
        f"  largest matrix: {(samples * CLASSES) ** 2 * 8 / 2**20:.0f} MiB (Gram) against {size**2 * 8 / 2**20:.0f} MiB (parameters)"
    )


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for depth in (4, 8, 16):
        factors(
            f"factors of a perceptron of {depth} layers, 256 wide, 1,024 samples",
            mlp(256, depth),
            torch.randn(1024, 784, device=CPU),
            rounds=7,
        )
    factors(
        "factors of a small CNN on 28 x 28, 256 samples",
        cnn(),
        torch.randn(256, 1, 28, 28, device=CPU),
        rounds=7,
    )
    errors(48, 64, rounds=2)


if __name__ == "__main__":
    main()
