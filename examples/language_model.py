"""A language model of your own: curvature, kernel and KFAC along the checkpoints of its training.

A GPT-2 of half a million parameters learns the bytes of Python's own documentation; ten checkpoints
are saved, and some are measured. `--quick` is a smaller one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from pydoc_data.topics import topics

import attrs
import penchant
import torch
from penchant_numerics.gauss_newton import GaussNewton
from penchant_numerics.safety import safe
from penchant_numerics.statistics import jackknife


def agreement(options: KfacAgreement, context: penchant.Context) -> penchant.Result:
    """<KFAC, G> / (|KFAC| |G|) of each layer, G by its products with random signs."""
    *_, (_, network) = context.trained()
    network = safe(network)
    data = context.data.train.select(torch.arange(options.samples))
    operators = context.estimator("curvature")(network, data)
    alignments, errors = [], []
    for layer in options.layers:
        A = operators[layer]
        names = [f"{layer}.weight", f"{layer}.bias"]
        G = GaussNewton(network, data, parameters=names, check=False)
        generator = context.generator("signs", layer)
        signs = torch.randint(0, 2, (options.vectors, G.size), generator=generator) * 2 - 1
        of_G = G.multiply_rows(signs.to(G.dtype)).double()
        of_A = A.multiply_rows(signs.to(A.dtype)).double()
        # one number per vector
        shared, square = (of_A * of_G).sum(1), of_G.square().sum(1)
        without = []
        for number in range(options.vectors):
            others = torch.arange(options.vectors) != number
            without.append(alignment(shared[others], square[others], A.frobenius_norm()))
        alignments.append(alignment(shared, square, A.frobenius_norm()))
        errors.append(jackknife(without))
    quantities = {}
    for layer, value, stderr in zip(options.layers, alignments, errors, strict=True):
        name = f"alignment-{layer}"
        quantities[name] = penchant.Quantity(
            value, stderr=stderr, over="random vectors", count=options.vectors
        )
    return penchant.Result(quantities)


def alignment(shared, square, norm):
    """The ratio, from v^T A G v and |G v|^2 of random vectors v and |A|."""
    return float(shared.mean() / square.mean().sqrt() / norm)


@attrs.frozen
class KfacAgreement(penchant.Probe):
    """Alignment of KFAC with the Gauss-Newton matrix of a layer, 1 for multiples of it."""

    name = "kfac-agreement"
    needs = ("architecture", "dataset")
    takes = ("fresh", "trained")
    accepts = ("sequences",)
    roles = {"curvature": "kfac"}
    quantities = {"alignment-{layers}": "<KFAC, G> / (|KFAC| |G|)"}
    target = agreement

    layers: tuple[str, ...] = penchant.option(help="names of layers")
    samples: int = penchant.option(8, "sequences", at_least=2)
    vectors: int = penchant.option(8, "random vectors", at_least=3)


def train(architecture, dataset, folder, *, steps, batch):
    """Train it as anyone would, and save ten checkpoints; gives their steps."""
    from penchant_huggingface.architectures.huggingface import build
    from penchant_huggingface.datasets.huggingface import load
    from penchant_huggingface.declarations import HuggingFace, Texts

    torch.manual_seed(0)
    data = load(Texts.bind(without_name(dataset)), torch.Generator().manual_seed(0))
    network = build(HuggingFace.bind(without_name(architecture)), data.shape, data.classes).train()
    saved = sorted({0, *(round(steps ** (k / 8)) for k in range(9))})
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for step in range(steps + 1):
        if step in saved:
            torch.save(network.state_dict(), folder / f"step-{step}.pt")
        inputs, labels = data.train.select(torch.randint(0, len(data.train.labels), (batch,)))
        loss = torch.nn.functional.cross_entropy(network(inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return saved


def without_name(table):
    return {key: value for key, value in table.items() if key != "name"}


def main(*, quick):
    layers, width, length, steps = (1, 16, 16, 20) if quick else (6, 80, 64, 300)
    fields = [f"n_layer={layers}", "n_head=4", f"n_embd={width}", f"n_positions={length}"]
    folder = Path(tempfile.mkdtemp(prefix="language-model-"))
    (folder / "text.txt").write_text("\n".join(topics.values()))
    architecture = {"name": "huggingface", "model_type": "gpt2", "config": fields}
    dataset = {"name": "huggingface", "path": str(folder / "text.txt"), "length": length}
    dataset |= {"train": 2000, "test": 64}
    start = time.perf_counter()
    saved = train(architecture, dataset, folder, steps=steps, batch=16)
    print(f"{len(saved)} checkpoints in {folder}, {time.perf_counter() - start:.0f} s", flush=True)

    lanczos = {
        "split": "train",
        "per_class": 8,
        "matrices": ("hessian",),
        "leading": 3,
        "iterations": 4,
    }
    lanczos |= {"lanczos_steps": 20, "starts": 2, "trace_samples": 4}
    kernel = {"samples": 16, "groups": 4, "ratios": (4,), "permutations": 20}
    watched = tuple(f"transformer.h.{block}.mlp.c_fc" for block in (0, layers - 1))
    estimators = {"curvature": {"name": "kfac", "uncovered": "accept"}}
    for step in saved[:: len(saved) - 1] if quick else saved[::3]:
        shared = {
            "architecture": architecture,
            "dataset": dataset,
            "weights": folder / f"step-{step}.pt",
        }
        found = penchant.measure("hessian-spectrum", **shared, **lanczos).quantities
        found |= penchant.measure("tangent-kernel", **shared, **kernel).quantities
        found |= penchant.measure(
            KfacAgreement, **shared, layers=watched, estimators=estimators
        ).quantities
        for name in (
            "loss",
            "largest",
            "trace-hessian",
            "effective-rank",
            *(f"alignment-{each}" for each in watched),
        ):
            print(f"step {step}: {name} {found[name]}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(**vars(parser.parse_args()))
