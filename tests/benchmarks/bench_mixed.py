"""Mixed second derivative: M^T M by layer structure, side by side with torch.func's dense M. Run: python tests/benchmarks/bench_mixed.py"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch
from penchant_numerics.inputs import MixedDerivative
from torch import Tensor, nn
from torch.func import functional_call, grad, jacfwd

CPU = torch.device("cpu")
ROUNDS = 4


def peak() -> float:
    """Most memory this process had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def mlp() -> tuple[nn.Module, Tensor]:
    layers = [nn.Linear(784, 100), nn.GELU(), nn.Linear(100, 100), nn.GELU(), nn.Linear(100, 1)]
    return nn.Sequential(*layers), torch.randn(784, device=CPU)


def lenet() -> tuple[nn.Module, Tensor]:
    convolutions = [
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    ]
    linear = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 1)]
    return nn.Sequential(*convolutions, *linear), torch.randn(1, 32, 32, device=CPU)


def state_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in network.named_parameters()}


def dense_gram(network: nn.Module, point: Tensor) -> Tensor:
    """What torch.func offers: the whole of M, then M^T M."""

    def output(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(network, parameters, (x[None],))[0, 0]

    columns = jacfwd(grad(output), argnums=1)(state_of(network), point)
    return sum(
        each.reshape(-1, point.numel()).T @ each.reshape(-1, point.numel())
        for each in columns.values()
    )


def timed(function: Callable[[], Tensor]) -> tuple[float, Tensor]:
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def compare(name: str, network: nn.Module, point: Tensor) -> None:
    operator, state = MixedDerivative(network, point), state_of(network)
    operator.gram(state)
    peaks, ours, theirs = [peak()], [], []
    for _ in range(5):
        ours.append(timed(lambda: operator.gram(state)))
    peaks.append(peak())
    for _ in range(ROUNDS):  # in turn, so that other programs disturb both alike
        theirs.append(timed(lambda: dense_gram(network, point)))
        ours += [timed(lambda: operator.gram(state)) for _ in range(5)]
    peaks.append(peak())
    (our_time, gram), (their_time, dense) = (
        min(each, key=lambda pair: pair[0]) for each in (ours, theirs)
    )
    error = float((gram - dense).norm() / dense.norm())
    memory = " ".join(f"{each - peaks[0]:8.0f}" for each in peaks[1:])
    print(
        f"{name:22}{1e3 * our_time:10.1f}{1e3 * their_time:12.1f}{their_time / our_time:8.1f} {memory} {error:12.1e}"
    )


def ensemble(count: int) -> None:
    """Full 1024 x 1024 matrices of LeNets, one thread."""
    network, point = lenet()
    operator = MixedDerivative(network, point)
    start = time.perf_counter()
    for _ in range(count):
        operator.gram(state_of(lenet()[0]))
    print(
        f"\nLeNet 1x32x32, {count} networks, full matrix: {time.perf_counter() - start:.1f} s with {torch.get_num_threads()} thread"
    )


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(
        f"{'network':22}{'ours ms':>10}{'dense ms':>12}{'ratio':>8} {'ours MB':>8} {'dense MB':>8} {'difference':>12}"
    )
    for name, make in (("MLP 784-100-100-1", mlp), ("LeNet 1x32x32", lenet)):
        compare(name, *make())
    ensemble(20)


if __name__ == "__main__":
    main()
