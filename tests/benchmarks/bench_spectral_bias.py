"""Spectral bias: stacked against single networks, one transform against many, workers against threads. Ratios, side by side."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch
from penchant import Training
from penchant_numerics.data import Samples
from penchant_numerics.inputs import fourier
from penchant_numerics.training import OneByOne, Stacked
from penchant_spectral_bias.frequency_robustness.perturbations import perturbed_outputs
from penchant_spectral_bias.manifold_accuracy.probe import neighbour_probability
from torch import nn

NETWORKS, POINTS, STEPS = 10, 200, 8
WAY = (
    "import penchant, sys, time; start = time.time();"
    "penchant.measure('frequency-learning', architecture={'name': 'mlp', 'widths': [256] * 5}, shape=(1,), trainings=4, shuffled_trainings=0,"
    "eval_every=250, training={'steps': 500}, executor=sys.argv[1], workers=int(sys.argv[2]), threads=int(sys.argv[3])); print(time.time() - start)"
)


def perceptron() -> nn.Module:
    hidden = [part for _ in range(4) for part in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(nn.Linear(1, 256), nn.ReLU(), *hidden, nn.Linear(256, 1))


def seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of a few runs: what the machine can do when others leave it alone."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(
    label: str, slow: Callable[[], object], fast: Callable[[], object], repeats: int = 3
) -> None:
    """Time both in turn, so that a busy moment hits both, and print their ratio."""
    rounds = [(seconds(slow, 1), seconds(fast, 1)) for _ in range(repeats)]
    first, second = (min(each[index] for each in rounds) for index in (0, 1))
    print(f"{label:64s} {first:9.3f} s {second:9.3f} s {first / second:7.2f} x")


def training(kind: type[OneByOne] | type[Stacked], device: torch.device) -> Callable[[], None]:
    places = torch.arange(POINTS, device=device)[:, None] / POINTS
    data = [Samples(places, torch.sin(40 * places[:, 0] + number)) for number in range(NETWORKS)]
    networks = [perceptron().to(device) for _ in range(NETWORKS)]
    recipe = Training(
        batch=0, steps=10**6, optimizer="adam", learning_rate=3e-4, loss="squared-error"
    )
    made = kind(networks, data, recipe, seeds=range(NETWORKS))
    done = [0]

    def run() -> None:
        done[0] += STEPS
        made.run(done[0])
        if device.type == "cuda":
            torch.cuda.synchronize()

    return run


def perturbing(chunk: int, device: torch.device) -> Callable[[], object]:
    network, places = perceptron().to(device), torch.arange(POINTS, device=device)[:, None] / POINTS
    seeds = functools.partial(lambda index: torch.Generator(device="cpu").manual_seed(index))
    return lambda: perturbed_outputs(network, places, [1.0, 2.0, 3.0, 4.0], seeds, 16, chunk=chunk)


def transforms(device: torch.device) -> None:
    values = torch.randn(801, POINTS, device=device, dtype=torch.float64)
    wanted = torch.arange(5, 51, 5, device=device)[:, None]
    loop = functools.partial(lambda: [fourier.amplitudes(row, wanted) for row in values])
    compare(
        "spectra of 801 steps: step by step | one transform",
        loop,
        lambda: fourier.amplitudes(values, wanted),
    )


def neighbours(device: torch.device) -> None:
    points, queries = torch.rand(1000, 2, device=device), torch.rand(96 * 96, 2, device=device)
    labels = (points[:, 0] > 0.5).long()
    compare(
        "5 nearest of 1000 points for 9216: all distances | tree",
        lambda: (
            labels[torch.cdist(queries, points).topk(5, largest=False).indices].double().mean(1)
        ),
        lambda: neighbour_probability(points, labels, queries, 5),
    )


def whole(executor: str, workers: int, threads: int) -> float:
    """Seconds of four trainings through the kernel, start of the workers included, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", WAY, executor, str(workers), str(threads)]
        return float(
            subprocess.run(
                command, capture_output=True, text=True, check=True, cwd=folder
            ).stdout.split()[-1]
        )


def main() -> None:
    """Print one line a comparison: what is on the left, on the right, and how much faster the right is."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(
        f"device {device.type}, one torch thread, {os.cpu_count()} cores; the shortest of a few rounds in turn"
    )
    label = f"{STEPS} steps of {NETWORKS} networks 6 x 256, N = {POINTS}: one by one | stacked"
    compare(label, training(OneByOne, device), training(Stacked, device))
    for chunk in (4, 16):
        compare(
            f"16 perturbations x 4 lengths: one by one | {chunk} stacked",
            perturbing(1, device),
            perturbing(chunk, device),
        )
    transforms(device)
    neighbours(device)
    rounds = [(whole("serial", 1, 2), whole("processes", 2, 1)) for _ in range(2)]
    threads, workers = (min(each[index] for each in rounds) for index in (0, 1))
    print(
        f"{'4 trainings of 500 steps: 1 process 2 threads | 2 workers':64s} {threads:9.3f} s {workers:9.3f} s {threads / workers:7.2f} x"
    )


if __name__ == "__main__":
    main()
