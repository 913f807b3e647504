"""A language model of your own, along the checkpoints of its training.

A GPT-2 of 200,000 parameters learns the characters of Python's own documentation. Ten
checkpoints are saved; the Hessian, the tangent kernel, the agreement of KFAC with the Gauss-Newton
matrix and the information in layers are measured at each, and drawn over the steps in report.html.
`--quick` is a smaller one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from pydoc_data.topics import topics

import penchant
import torch


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


def experiment(architecture, dataset, folder, *, layers, quick):
    """Four kinds of measurements of every checkpoint, as an experiment file would have them."""
    hessian = {
        "name": "hessian-spectrum",
        "split": "train",
        "per_class": 8,
        "matrices": ("hessian",),
        "leading": 3,
        "iterations": 10,
        "lanczos_steps": 16,
        "starts": 2,
        "trace_samples": 8,
    }
    kernel = {"name": "tangent-kernel", "samples": 16 if quick else 32, "groups": 4}
    kernel |= {"ratios": (4,), "permutations": 20}
    proxies = {
        "name": "curvature-proxies",
        "per_class": 8 if quick else 16,
        "last": 2,
        "lanczos_steps": 20,
        "estimators": {"curvature": ["ggn", {"name": "kfac", "uncovered": "accept"}]},
    }
    statistics = {"name": "info-nce", "steps": 20 if quick else 300, "trainings": 2}
    statistics |= {"network": "statistics-perceptron:widths=[64]"}
    information = [
        {
            "name": "mutual-information",
            "label": f"information in {name}",
            "first": f"layer:{name}",
            "second": "label",
            "architectures": ["gpt"],
            "estimators": {"mutual-information": statistics},
        }
        for name in layers
    ]
    return {
        "title": "A language model along its training",
        "architectures": [{**architecture, "label": "gpt", "weights": str(folder / "step-*.pt")}],
        "datasets": [{**dataset, "label": "text"}],
        "probes": [hessian, kernel, proxies, *information],
        "executor": "serial",
    }


def main(*, quick):
    blocks, width, length, steps = (1, 16, 16, 3) if quick else (4, 64, 48, 3500)
    fields = [f"n_layer={blocks}", "n_head=4", f"n_embd={width}", f"n_positions={length}"]
    folder = Path(tempfile.mkdtemp(prefix="language-model-"))
    (folder / "text.txt").write_text("\n".join(topics.values()))
    architecture = {"name": "huggingface", "model_type": "gpt2", "config": fields}
    dataset = {"name": "huggingface", "path": str(folder / "text.txt"), "length": length}
    dataset |= {"tokenizer": "characters", "train": 200 if quick else 9000, "test": 64}
    start = time.perf_counter()
    saved = train(architecture, dataset, folder, steps=steps, batch=16)
    print(f"{len(saved)} checkpoints in {folder}, {time.perf_counter() - start:.0f} s", flush=True)

    layers = ["transformer.drop", "transformer.ln_f"]  # the first and the last
    settings = experiment(architecture, dataset, folder, layers=layers, quick=quick)
    run = penchant.run(settings, out=folder / "run")
    for job in run.jobs:
        print(job["id"], job["status"], job.get("error") or "", flush=True)
    print(f"report: {folder / 'run' / 'report.html'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(**vars(parser.parse_args()))
