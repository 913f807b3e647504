"""The probe `geometry-training`: how the geometry of trained networks changes, and towards what."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.trainer import Trainer, evaluate
from torch import Tensor

from penchant_gih._correlation import (
    corr_of_sampled,
    corr_with_fixed,
    distinct_mean,
    quadratic_forms,
    rotation_null,
    squared_products,
)
from penchant_gih._geometry import flipped
from penchant_gih._gradients import probed_gradients
from penchant_gih._payload import packed, unpacked
from penchant_gih._projected import PARTS, Projected
from penchant_gih.measuring import (
    measure_geometry,
    probing_points,
    scalar_outputs,
    stacked,
    tensors_of,
    uncentred,
)

NETWORKS_A_SHARD = {
    "dataset": 1,
    "geometry": 5,
    "flipped": 5,
}  # a covariance travels with every shard


def run(options: Any, context: Any) -> penchant.Result:
    """Measure G, train networks, and compare their geometry at each step with S and G S G."""
    outputs = _outputs(options, context)
    # other networks than the trained ones: G S G would contain the very gradients it is compared with
    chosen = {"samples": options.samples, "outputs": outputs, "scale": options.scale}
    geometry = measure_geometry(context, parts=PARTS, first=options.networks, **chosen)
    base = {
        "data": options.data,
        "train": options.train,
        "test": options.test,
        "covariance": None,
        "outputs": outputs,
    }
    if (
        options.data != "dataset"
    ):  # and others again for the covariance: S must not know the noise of the G it is projected with
        source = measure_geometry(
            context, first=options.networks + options.samples, **chosen
        ).matrix()
        base["covariance"] = packed(_covariance(source, options.data))
    data = training_data(context, base)
    steps = chosen_steps(options.steps, context.training.total_steps(len(data.train.labels)))
    base |= {
        "steps": steps,
        "inputs": options.inputs,
        "scale": options.scale,
        "probing": "gaussian",
    }
    size = NETWORKS_A_SHARD[options.data]
    items = [
        {**base, "first": i, "last": min(i + size, options.networks)}
        for i in range(0, options.networks, size)
    ]
    shards = list(context.map(train_and_probe, items))
    gradients = torch.cat(
        [torch.as_tensor(shard["gradients"], device=context.device) for shard in shards], 1
    ).to(torch.float64)
    S = uncentred(data.train.inputs).to(context.device)
    arrays = {
        "steps": np.array(steps),
        **_accuracies(shards),
        **_correlations(gradients, S, Projected(geometry.parts, S)),
    }
    conventions = {**context.conventions, **_conventions(options)}
    missing = tuple(name for name, array in arrays.items() if not np.isfinite(array).all())
    if missing:
        context.warn(
            f"too few networks for {', '.join(missing)}: an unbiased squared norm is not positive"
        )
    return penchant.Result(
        _quantities(arrays, options.networks), arrays, conventions=conventions, missing=missing
    )


def _outputs(options: Any, context: Any) -> int:
    """Two logits for synthetic data; for a dataset, what its classes need, which must have a single difference."""
    if options.data == "dataset" and context.data.outputs > 2:
        raise penchant.Error(f"geometry-training needs two classes, found {context.data.outputs}")
    return scalar_outputs(context) if options.data == "dataset" else 2


def _covariance(geometry: Tensor, data: str) -> Tensor:
    """G, or G with its eigenvalues in reverse order, with spectral norm 1."""
    matrix = geometry if data == "geometry" else flipped(geometry)
    return matrix / torch.linalg.eigvalsh(matrix)[-1]


def training_data(context: Any, item: dict[str, Any]) -> Any:
    """The job's dataset, or normal inputs with this covariance and random labels."""
    if item["data"] == "dataset":
        return context.data
    options = {
        "size": list(context.architecture.shape),
        "train": item["train"],
        "test": item["test"],
    }
    return context.dataset("gaussian", covariance=unpacked(item["covariance"]).numpy(), **options)


def chosen_steps(steps: tuple[int, ...], total: int) -> list[int]:
    """The steps asked for, or 0, 1, 2, 4, ... and the last."""
    if not steps:
        return sorted(
            {0, total} | {2**power for power in range(total.bit_length()) if 2**power <= total}
        )
    if list(steps) != sorted(set(steps)) or steps[-1] > total:
        raise penchant.Error(
            f"steps must ascend and end at most at {total}, the last of the training, found {list(steps)}"
        )
    return list(steps)


def train_and_probe(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Gradients (steps, networks, inputs, D) and accuracies (steps, networks) along the trainings of some networks."""
    data = training_data(context, item)
    indices = range(item["first"], item["last"])
    points = probing_points(context, item, indices)
    columns = [
        _along_training(context, data, index, points[n], item) for n, index in enumerate(indices)
    ]
    return {name: torch.stack([column[name] for column in columns], 1) for name in columns[0]}


def _along_training(
    context: Any, data: Any, index: int, points: Tensor, item: dict[str, Any]
) -> dict[str, Tensor]:
    network = context.network(index, outputs=item["outputs"])
    trainer = Trainer(
        network,
        data.train,
        context.training,
        seed=context.generator("training", index).initial_seed(),
    )
    gradients, accuracies = [], []
    for step in item["steps"]:
        trainer.run(until=step)
        gradients.append(probed_gradients(stacked(network, [tensors_of(network)]), points[None])[0])
        accuracies.append(
            [
                evaluate(network, part, loss=context.training.loss)[1]
                for part in (data.train, data.test)
            ]
        )
    train, test = torch.tensor(accuracies, dtype=torch.float64, device="cpu").T
    return {"gradients": torch.stack(gradients), "train": train, "test": test}


def _accuracies(shards: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    found = {}
    for name in ("train", "test"):
        values = np.concatenate([shard[name] for shard in shards], axis=1)  # (steps, networks)
        found[f"{name}-accuracy"] = values.mean(1)
        found[f"{name}-accuracy-stderr"] = values.std(1, ddof=1) / math.sqrt(values.shape[1])
    return found


def _correlations(gradients: Tensor, S: Tensor, projected: Projected) -> dict[str, np.ndarray]:
    """Corr(G_t, S), Corr(G_t, G S G) and velocity at each step, with errors over networks and rotation nulls."""
    tables = [squared_products(step, step).cpu() for step in gradients]
    traces = [float(step.square().sum(2).mean()) for step in gradients]
    squares = {"corr-s": float(S.square().sum()), "corr-gsg": projected.squared_norm()}
    heights = {"corr-s": float(S.trace()), "corr-gsg": projected.trace}
    found: dict[str, list[float]] = {}
    for step, table, trace in zip(gradients, tables, traces):
        norm = distinct_mean(table, range(len(table)))
        found_now = {
            "corr-s": corr_with_fixed(quadratic_forms(step, S).cpu(), table, squares["corr-s"]),
            "corr-gsg": projected.corr(projected.forms(step), table),
        }
        for name, corr in found_now.items():
            null = rotation_null(trace, heights[name], norm, squares[name], len(S))
            for key, value in zip(
                (name, f"{name}-stderr", f"{name}-null", f"{name}-null-stderr"), (*corr, *null)
            ):
                found.setdefault(key, []).append(value)
    found["velocity"], found["velocity-stderr"] = [], []
    for before, after in zip(range(len(gradients)), range(1, len(gradients))):
        cross = squared_products(gradients[after], gradients[before]).cpu()
        corr = corr_of_sampled(cross, tables[after], tables[before])
        found["velocity"].append(1 - corr.value)
        found["velocity-stderr"].append(corr.stderr)
    return {name: np.array(values) for name, values in found.items()}


def _conventions(options: Any) -> dict[str, str]:
    kinds = {
        "dataset": "the dataset",
        "geometry": "N(0, G/|G|), random labels",
        "flipped": "N(0, flip(G)/|G|), random labels",
    }
    return {
        "data": kinds[options.data],
        "S": "sum of x x^T over the training samples, uncentred",
        "corr": "norms and velocities from different networks only: the plain norm of a sampled G is too large",
        "velocity": "1 - Corr(G_t, G_s) of consecutive steps s < t",
    }


def _quantities(arrays: dict[str, np.ndarray], networks: int) -> dict[str, penchant.Quantity]:
    over = {"over": "networks", "count": networks}
    found = {}
    for name in ("corr-s", "corr-gsg"):
        peak = int(np.nanargmax(arrays[name]))
        values = {
            "stderr": arrays[f"{name}-stderr"][peak],
            "null": arrays[f"{name}-null"][peak],
            "null_stderr": arrays[f"{name}-null-stderr"][peak],
        }
        found[f"peak-{name}"] = penchant.Quantity(
            float(arrays[name][peak]),
            **{key: float(value) for key, value in values.items()},
            **over,
        )
    for name in ("train-accuracy", "test-accuracy"):
        found[name] = penchant.Quantity(
            float(arrays[name][-1]), stderr=float(arrays[f"{name}-stderr"][-1]), **over
        )
    if len(arrays["velocity"]):
        total, stderr = (
            float(np.sum(arrays["velocity"])),
            float(np.sqrt(np.sum(arrays["velocity-stderr"] ** 2))),
        )
        found["path-length"] = penchant.Quantity(total, stderr=stderr, null=0.0, **over)
    return found


def plot(result: penchant.Result) -> dict[str, Any]:
    """Correlations with their nulls (figures 2, 8) and velocity with accuracies (figures 3, 12, 13)."""
    from penchant_gih import figures

    return {"correlations": figures.correlations(result), "velocity": figures.velocity(result)}
