"""The probe `input-curvature`: the input Hessian of the loss against the average geometry, along training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.safety import safe
from penchant_numerics.trainer import Trainer
from torch import Tensor

from penchant_gih._correlation import (
    Estimate,
    corr_of_sampled,
    distinct_mean,
    jackknife,
    rotation_null,
)
from penchant_gih._curvature import curvature_parts
from penchant_gih.geometry_training import chosen_steps

LARGEST = 2**30  # numbers kept of all Hessians together
HOST = {"device": "cpu", "dtype": torch.float64}
PARTS = ("first", "second", "geometry")


def run(options: Any, context: Any) -> penchant.Result:
    """Train networks, and take both parts of the Hessian at some training samples at each step."""
    if context.data.classes != 2:
        raise penchant.Error(
            f"input-curvature needs two classes, found {context.data.classes or 'labels that are numbers'}"
        )
    steps = chosen_steps(
        options.steps, context.training.total_steps(len(context.data.train.labels))
    )
    size = math.prod(context.data.shape)
    numbers = 3 * options.networks * len(steps) * size**2
    if numbers > LARGEST:
        need = f"{numbers / 2**30:.1f} x 2^30 numbers"
        raise penchant.Error(
            f"Hessians of {options.networks} networks at {len(steps)} steps of {size} inputs are {need}, expected at most 2^30"
        )
    items = [
        {"index": index, "steps": steps, "points": options.points}
        for index in range(options.networks)
    ]
    shards = list(context.map(curvature_along_training, items))
    found: dict[str, list[float]] = {}
    for number in range(len(steps)):
        parts = {
            name: torch.as_tensor(np.stack([shard[name][number] for shard in shards]), **HOST)
            for name in PARTS
        }
        for name, value in _row(parts).items():
            found.setdefault(name, []).append(value)
    arrays: dict[str, Any] = {
        "steps": np.array(steps),
        **{name: np.array(values) for name, values in found.items()},
    }
    weights = np.array([shard["weight"] for shard in shards])
    arrays |= {
        "weight": weights.mean(0),
        "weight-stderr": weights.std(0, ddof=1) / math.sqrt(len(weights)),
    }
    missing = tuple(name for name, array in arrays.items() if not np.isfinite(array).all())
    if missing:
        context.warn(
            f"too few networks for {', '.join(missing)}: an unbiased squared norm is not positive"
        )
    return penchant.Result(
        _quantities(arrays, options), arrays, conventions=_conventions(context), missing=missing
    )


def curvature_along_training(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Both parts of the mean Hessian and the mean g g^T of one network (steps, D, D), and mean l'' (steps,)."""
    train = context.data.train
    stream = context.generator("points", item["index"])
    chosen = torch.randperm(len(train.labels), generator=stream, device="cpu")[: item["points"]].to(
        train.labels.device
    )
    inputs, targets = train.inputs[chosen], 2 * train.labels[chosen].to(context.dtype) - 1
    network = context.network(item["index"], outputs=1)
    trainer = Trainer(
        network,
        train,
        context.training,
        seed=context.generator("training", item["index"]).initial_seed(),
    )
    found = []
    for step in item["steps"]:
        trainer.run(until=step)
        found.append(
            curvature_parts(
                safe(network).requires_grad_(False), inputs, targets, loss=context.training.loss
            )
        )
    return {name: torch.stack([parts[name] for parts in found]) for name in (*PARTS, "weight")}


def _row(parts: dict[str, Tensor]) -> dict[str, float]:
    """Corr(H, G_t) with its null, and the share of the second part, from parts (networks, D, D)."""
    flat = {name: values.flatten(1) for name, values in parts.items()}
    hessian = flat["first"] + flat["second"]
    tables = {
        "hh": hessian @ hessian.T,
        "hg": hessian @ flat["geometry"].T,
        "gg": flat["geometry"] @ flat["geometry"].T,
    }
    second = flat["second"] @ flat["second"].T
    corr = corr_of_sampled(tables["hg"], tables["hh"], tables["gg"])
    share = jackknife(lambda keep: _norm_ratio(second, tables["hh"], keep), len(hessian))
    size = parts["first"].shape[1]
    traces = [
        float(matrices.diagonal(dim1=1, dim2=2).sum(1).mean())
        for matrices in (hessian.reshape(-1, size, size), parts["geometry"])
    ]
    norms = [distinct_mean(tables[name], range(len(hessian))) for name in ("hh", "gg")]
    null = rotation_null(*traces, *norms, size)
    return _named({"corr-g": corr, "corr-g-null": null, "second-share": share})


def _norm_ratio(inner: Tensor, whole: Tensor, keep: list[int]) -> float:
    """|second| / |H|, from different networks; 0 where the inner norm is not positive: nothing is common to the networks."""
    below = distinct_mean(whole, keep)
    return math.sqrt(max(0.0, distinct_mean(inner, keep)) / below) if below > 0 else math.nan


def _named(estimates: dict[str, Estimate]) -> dict[str, float]:
    return {
        f"{name}{suffix}": value
        for name, each in estimates.items()
        for suffix, value in zip(("", "-stderr"), each)
    }


def _conventions(context: Any) -> dict[str, str]:
    return {
        "curvature": f"mean input Hessian of the {context.training.loss} loss at training samples, E[l''] g g^T + E[l'] Hess f; one output",
        "second-share": "norm of E[l' Hess_x f] over that of the whole; 0 for piecewise linear networks",
        "corr": "inner products of different networks only",
    }


def _quantities(arrays: dict[str, Any], options: Any) -> dict[str, penchant.Quantity]:
    over = {"over": "networks", "count": options.networks}
    null = {
        "null": float(arrays["corr-g-null"][-1]),
        "null_stderr": float(arrays["corr-g-null-stderr"][-1]),
    }
    return {
        "corr-g": penchant.Quantity(
            float(arrays["corr-g"][-1]), stderr=float(arrays["corr-g-stderr"][-1]), **null, **over
        ),
        "second-share": penchant.Quantity(
            float(arrays["second-share"][-1]),
            stderr=float(arrays["second-share-stderr"][-1]),
            **over,
        ),
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Alignment of the Hessian with the geometry, and what its second part amounts to, by step."""
    from penchant_gih import figures

    return {"curvature": figures.curvature(result)}
