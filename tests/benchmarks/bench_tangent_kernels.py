"""Tangent kernels side by side with nngeometry and with per-sample Jacobians of torch.func.

Run all: python tests/benchmarks/bench_tangent_kernels.py; or some: ... mlp vgg vit sizes memory
One thread; the least of several rounds in which all take turns, on the clock and as processor time,
whose ratio also tells something on a busy machine. nngeometry is compared where it is installed and
knows the layers. Every kernel is compared with ours. Memory is measured in a process of its own.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from penchant_numerics.layers import tangent_kernel
from targets import at_least, at_most
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

CPU = torch.device("cpu")
OUTPUTS = 10
VGG11 = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")


def mlp(width: int = 80, depth: int = 6) -> nn.Module:
    """`depth` hidden layers."""
    sizes = [784, *[width] * depth, OUTPUTS]
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def quarter_vgg11() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width in VGG11:
        if width == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, width // 4, 3, padding=1), nn.BatchNorm2d(width // 4)]
        layers.append(nn.ReLU())
        channels = width // 4
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, OUTPUTS)).eval()


class Block(nn.Module):
    """Attention and a perceptron, each after a layer-norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        samples, tokens, width = x.shape
        three = self.qkv(self.first(x)).reshape(samples, tokens, 3, self.heads, -1)
        q, k, v = three.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.project(mixed.transpose(1, 2).reshape(samples, tokens, width))
        return x + self.narrow(functional.gelu(self.widen(self.second(x))))


class VisionTransformer(nn.Module):
    """Patches of 4 x 4, a class token, learned positions."""

    def __init__(self, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, width, device=CPU))
        self.places = nn.Parameter(0.02 * torch.randn(1, 65, width, device=CPU))
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], dim=1) + self.places
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def jacobian_kernel(network: nn.Module, x: Tensor, *, chunk: int = 10) -> Tensor:
    """Per-sample Jacobians by torch.func, `chunk` samples at a time, and their Gram matrix."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}

    def output(values: dict[str, Tensor], each: Tensor) -> Tensor:
        return functional_call(network, values, (each[None],))[0]

    rows = []
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        for part in x.split(chunk):
            columns = vmap(jacrev(output), in_dims=(None, 0))(parameters, part)
            rows.append(torch.cat([each.flatten(2) for each in columns.values()], dim=2))
        J = torch.cat(rows).flatten(0, 1)
        return J @ J.T


def nngeometry_kernel(network: nn.Module, x: Tensor) -> Tensor:
    """nngeometry's dense Gram matrix, in our order of rows."""
    from nngeometry.gram import GramMatrix
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(x), batch_size=len(x))
    four = GramMatrix(network, loader).data.detach()
    return four.permute(1, 0, 3, 2).reshape(len(x) * OUTPUTS, -1)


class Seconds(NamedTuple):
    """How long a function takes."""

    clock: float
    processor: float


NEVER = Seconds(float("inf"), float("inf"))


def least(functions: dict[str, Callable[[], Tensor]], rounds: int) -> dict[str, Seconds]:
    """Least time of each, taking turns; clock and processor may have their least in other rounds."""
    times = dict.fromkeys(functions, NEVER)
    for _ in range(rounds):
        for name, function in functions.items():
            before = Seconds(time.perf_counter(), time.process_time())
            function()
            clock = time.perf_counter() - before.clock
            processor = time.process_time() - before.processor
            times[name] = Seconds(
                min(times[name].clock, clock), min(times[name].processor, processor)
            )
    return times


def compare(
    name: str, network: nn.Module, x: Tensor, *, peers: dict[str, float], rounds: int
) -> None:
    """Print how much faster than each peer our kernel is, and how far they are apart.

    Args:
        name: What the network is called.
        network: The network.
        x: Samples.
        peers: How many times as fast as each ours should be.
        rounds: How often each is timed.
    """
    known = {"nngeometry": nngeometry_kernel, "torch.func": jacobian_kernel}
    functions = {"ours": lambda: tangent_kernel(network, x)}
    exact = tangent_kernel(network, x)
    for peer in peers:
        try:
            found = known[peer](network, x)
        except ImportError:
            print(f"{name}: {peer} is not installed", flush=True)
            continue
        error = float((found - exact).norm() / exact.norm())
        print(f"{name}: {peer} differs by {error:.0e}", flush=True)
        functions[peer] = lambda peer=peer: known[peer](network, x)
    times = least(functions, rounds)
    ours = times.pop("ours")
    for peer, theirs in times.items():
        print(
            f"{name}, {len(x)} samples: {ours.clock:.3f} s, "
            f"{theirs.clock / ours.clock:.1f} times as fast as {peer} "
            f"(processor {ours.processor:.3f} s, {theirs.processor / ours.processor:.1f} times) "
            f"{at_least(theirs.processor / ours.processor, peers[peer])}",
            flush=True,
        )


def sizes(counts: tuple[int, ...] = (100, 200, 400), rounds: int = 5) -> None:
    """How the time of a kernel grows with its samples: its exponent is 2 in the end."""
    network = mlp()
    functions = {}
    for count in counts:
        x = normal(count, 784)
        functions[str(count)] = lambda x=x: tangent_kernel(network, x)
    found = [times.processor for times in least(functions, rounds).values()]
    for before, after, small, large in zip(counts, counts[1:], found, found[1:]):
        exponent = math.log(large / small) / math.log(after / before)
        print(
            f"6 x 80 MLP, {before} to {after} samples: processor {small:.3f} to {large:.3f} s, "
            f"exponent {exponent:.2f} {at_most(exponent, 2)}",
            flush=True,
        )


def peak_gibibytes() -> float:
    """The most memory this process has held; `ru_maxrss` would count that of its parent."""
    status = Path("/proc/self/status").read_text()
    kibibytes = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(kibibytes.group(1)) / 2**20


def memory() -> None:
    """Peak memory of 1,000 samples and ten outputs of the MLP."""
    x = normal(1000, 784)
    network = mlp()
    before = peak_gibibytes()
    start = time.process_time()
    K = tangent_kernel(network, x)
    seconds = time.process_time() - start
    peak = peak_gibibytes()
    print(
        f"6 x 80 MLP, 1,000 samples: {len(K):,} rows in {seconds:.1f} s of the processor, "
        f"{peak:.2f} GiB at most ({before:.2f} before) {at_most(peak, 4)}",
        flush=True,
    )


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator("cpu").manual_seed(0), device=CPU)


SECTIONS: dict[str, Callable[[], None]] = {
    "mlp": lambda: compare(
        "6 x 80 MLP", mlp(), normal(100, 784), peers={"nngeometry": 5, "torch.func": 1}, rounds=7
    ),
    "vgg": lambda: compare(
        "VGG11 at quarter width",
        quarter_vgg11(),
        normal(100, 3, 32, 32),
        peers={"nngeometry": 3, "torch.func": 1},
        rounds=1,
    ),
    "vit": lambda: compare(
        "ViT, 4 blocks of 64",
        VisionTransformer().eval(),
        normal(100, 3, 32, 32),
        peers={"torch.func": 1},
        rounds=3,
    ),
    "sizes": sizes,
    "memory": memory,
}


def main() -> None:
    """Run the sections that are asked for; memory always in a process of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chosen = sys.argv[1:] or list(SECTIONS)
    for section in chosen:
        if section not in SECTIONS:
            raise SystemExit(f"sections are {', '.join(SECTIONS)}; found {section!r}")
        if section == "memory" and chosen != ["memory"]:
            subprocess.run([sys.executable, __file__, section], check=True)
        else:
            SECTIONS[section]()


if __name__ == "__main__":
    main()
