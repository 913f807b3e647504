"""CKA of 20 x 20 layers on 2,000 samples beside torch_cka; forward passes of neural collapse.

Run all: python tests/benchmarks/bench_representations.py
One thread; both take turns, and the ratio of the least processor times is printed, which also tells
something on a busy machine. Both have the same minibatches, and the tables are compared.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch
from penchant_class_structure.neural_collapse.class_scatter import (
    class_scatter,
    collapse_layers,
    disagreement,
)
from penchant_representations.representation_similarity.gram_similarity import Comparison
from penchant_representations.representation_similarity.layer_grams import layer_grams, layer_names
from torch import Tensor, nn

SAMPLES, LAYERS, WIDTH, ROUNDS = 2000, 20, 128, 2


def perceptron(seed: int) -> nn.Module:
    """Twenty linear layers whose features keep their size: else torch_cka gives no numbers."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        linear = nn.Linear(WIDTH, WIDTH, bias=False)
        nn.init.orthogonal_(linear.weight, 1.5)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1]).eval()


def ours(networks: list[nn.Module], inputs: Tensor, groups: int) -> Tensor:
    """The table of unbiased CKA over minibatches."""
    names = [layer_names(network, inputs, None)[0] for network in networks]
    found = Comparison([], ("cka",), neighbours=1)
    for batch in inputs.chunk(groups):
        K, L = (
            layer_grams(network, batch, layers, positions="flatten")
            for network, layers in zip(networks, names)
        )
        found.add(K, L)
    return torch.from_numpy(found.similarity("cka"))


def peer(networks: list[nn.Module], inputs: Tensor, groups: int) -> Tensor:
    """The same by torch_cka."""
    from torch_cka import CKA

    names = layer_names(networks[0], inputs, None)[0]
    data = torch.utils.data.TensorDataset(inputs)
    loader = torch.utils.data.DataLoader(data, batch_size=len(inputs) // groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cka = CKA(*networks, "first", "second", names, names)
        cka.compare(loader)
    return cka.export()["CKA"]


def seconds(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Processor time, and what was computed."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def cka(groups: int) -> None:
    """Both in turn."""
    inputs = torch.randn(SAMPLES, WIDTH, generator=torch.Generator("cpu").manual_seed(0))
    times: dict[str, list[float]] = {"ours": [], "torch_cka": []}
    tables = {}
    for _ in range(ROUNDS):
        for name, work in (("ours", ours), ("torch_cka", peer)):
            networks = [perceptron(0), perceptron(1)]
            taken, tables[name] = seconds(lambda w=work, n=networks: w(n, inputs, groups))
            times[name].append(taken)
    mine, theirs = min(times["ours"]), min(times["torch_cka"])
    away = (tables["ours"] - tables["torch_cka"]).abs().max()
    print(
        f"cka, {LAYERS} x {LAYERS} layers, {SAMPLES} samples in {groups} minibatches: "
        f"ours {mine:.2f} s, torch_cka {theirs:.2f} s, ratio {theirs / mine:.1f} (target: at least 3); "
        f"largest difference {float(away):.1e}"
    )
    assert theirs >= 3 * mine


def collapse() -> None:
    """A ResNet18 on 2,000 images, in units of a forward pass."""
    from penchant_architectures.architectures.resnet18 import build
    from penchant_architectures.declarations.convolutional import ResNet18

    network = build(ResNet18(width=16), (3, 32, 32), 10).eval()
    inputs = torch.randn(SAMPLES, 3, 32, 32, generator=torch.Generator("cpu").manual_seed(0))
    labels = torch.arange(SAMPLES) % 10
    labellings = [labels, *[labels.roll(shift) for shift in range(1, 21)]]
    groups = torch.arange(SAMPLES) // 10 % 10

    def plain() -> Tensor:
        with torch.no_grad():
            return torch.cat([network(batch) for batch in inputs.split(256)])

    def measured() -> Tensor:
        layers = collapse_layers(network, inputs, classes=10, largest=2048).modules
        sums, answers = class_scatter(
            network, layers, inputs, labellings, groups=groups, classes=10
        )
        means = {name: each.without(None)[0][None] for name, each in sums.items()}
        disagreement(network, layers, inputs, means)
        return answers

    plain()
    one, _ = seconds(plain)
    all_of_it, _ = seconds(measured)
    print(
        f"neural collapse, ResNet18 (width 16) on {SAMPLES} images: {all_of_it / one:.2f} times a "
        f"forward pass of {one:.1f} s (target: at most 3)"
    )
    assert all_of_it <= 3 * one


if __name__ == "__main__":
    torch.set_num_threads(1)
    cka(groups=10)
    cka(groups=40)
    collapse()
