"""The probe `class-paths`: are inputs of one class joined by paths on which the network's class does not change?"""

from __future__ import annotations

import itertools
import math
from typing import Any

import penchant
import torch
from torch import Tensor

from penchant_spectral_bias.numerics import elastic_band as band

BLOCK = 16  # pairs a shard
KINDS = ("image-image", "image-adversarial", "adversarial-adversarial")
BENDING = ("refinements", "steps", "learning_rate", "momentum", "pivots", "resolution")


def run(options: Any, context: Any) -> penchant.Result:
    """Bend paths between pairs of every class, a block of pairs at a time."""
    count = context.data.classes
    if count < 2:
        raise penchant.Error(
            f"class-paths needs a dataset with at least two classes, found {count}"
        )
    chosen = options.classes or tuple(range(count))
    if max(chosen) >= count:
        raise penchant.Error(f"classes must be in 0..{count - 1}, found {max(chosen)}")
    list(context.trained())  # once, before shards ask for it
    names = (
        "images",
        "adversarials",
        "pairs",
        "kept",
        "attack_step",
        "attack_steps",
        "attack_certainty",
        *BENDING,
    )
    base = {name: getattr(options, name) for name in names}
    blocks = range(0, options.pairs, BLOCK)
    items = [{**base, "class": label, "start": start} for label in chosen for start in blocks]
    rows = list(context.map(bent_pairs, items))
    joined = {
        name: torch.cat([torch.as_tensor(row[name], device="cpu") for row in rows])
        for name in rows[0]
        if name not in ("accuracy", "missed")
    }
    if not len(joined["connected"]):
        raise penchant.Error(
            "no pair of inputs was found: the network gives no class to two of the chosen images; train it longer"
        )
    missed = sum(row["missed"] for row, item in zip(rows, items) if item["start"] == 0)
    if missed:
        context.warn(
            f"{missed:g} adversarial inputs did not reach their class in {options.attack_steps} steps and were left out"
        )
    conventions = {
        "connected": f"{options.resolution} points on every straight piece have the class (largest logit)",
        "band": "steps across the path, pivots spread evenly after each; pieces doubled between refinements",
        "straight": "the null of connected: the straight line already keeps the class",
    }
    return penchant.Result(_quantities(joined, rows), _arrays(joined), conventions=conventions)


def bent_pairs(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Paths of one block of pairs of one class."""
    label = item["class"]
    *_, (_, network) = context.trained()
    points, is_adversarial, missed = _ends(context, network, label, item)
    pairs = _pairs(len(points), item["pairs"], context.generator("pairs", label))[
        item["start"] : item["start"] + BLOCK
    ]
    if not len(pairs):
        return _nothing(context, item, missed)
    first, second = points[pairs[:, 0]], points[pairs[:, 1]]
    settings = {name: item[name] for name in BENDING}
    bent = band.bend(network, first, second, label, **settings)
    straight = band.bend(
        network,
        first,
        second,
        label,
        **{**settings, "refinements": 0, "pivots": bent.pivots.shape[1] - 2},
    )
    bent = band.first_connected(bent, straight)
    shape = points.shape[1:]
    finer, _ = band.classified(
        network, band.dense(bent.pivots, 3 * item["resolution"]), shape, label
    )
    kept = item["kept"] if item["start"] == 0 else 0
    return {
        "class": torch.full((len(pairs),), label, device="cpu"),
        "kind": is_adversarial[pairs].sum(1),
        "connected": bent.connected,
        "straight": straight.connected,
        "confirmed": finer.all(1),
        "length": bent.length,
        "certainty": bent.certainty,
        "paths": bent.pivots[:kept].reshape(-1, bent.pivots.shape[1], *shape),
        "path-class": torch.full((min(kept, len(pairs)),), label, device="cpu"),
        "path-connected": bent.connected[:kept],
        "missed": float(missed),
        "accuracy": _accuracy(network, context),
    }


def _nothing(context: Any, item: dict[str, Any], missed: int) -> dict[str, Any]:
    pivots = (item["pivots"] + 1) * 2 ** max(0, item["refinements"] - 1) + 1
    whole = torch.zeros(0, device="cpu", dtype=torch.int64)
    flags, numbers = whole.bool(), torch.zeros(0, device="cpu")
    empty = {
        "class": whole,
        "kind": whole,
        "connected": flags,
        "straight": flags,
        "confirmed": flags,
        "length": numbers,
    }
    paths = torch.zeros(0, pivots, *context.data.shape, device="cpu")
    extra = {
        "paths": paths,
        "path-class": whole,
        "path-connected": flags,
        "missed": float(missed),
        "accuracy": math.nan,
    }
    return {**empty, "certainty": numbers, **extra}


def _accuracy(network: Any, context: Any) -> float:
    from penchant_numerics.trainer import evaluate

    return evaluate(network, context.data.test)[1]


def _ends(
    context: Any, network: Any, label: int, item: dict[str, Any]
) -> tuple[Tensor, Tensor, int]:
    """Training images of a class, inputs of other classes moved into it, which are which, and how many were not moved far enough."""
    train = context.data.train
    order = torch.randperm(
        len(train.labels), generator=context.generator("images", label), device="cpu"
    ).to(train.labels.device)
    own = _given_class(
        network, train.inputs, order[train.labels[order] == label], label, item["images"]
    )
    others = train.inputs[order[train.labels[order] != label][: item["adversarials"]]]
    attack = {name: item[f"attack_{name}"] for name in ("step", "steps", "certainty")}
    moved, there = band.adversarial(network, others, label, **attack)
    moved = moved[there]
    flags = torch.cat(
        [torch.zeros(len(own), device=own.device), torch.ones(len(moved), device=own.device)]
    ).bool()
    return torch.cat([own, moved]), flags, len(others) - len(moved)


@torch.no_grad()
def _given_class(
    network: Any, inputs: Tensor, candidates: Tensor, label: int, count: int
) -> Tensor:
    """The first so many candidates that the network gives the class."""
    some = inputs[candidates[: 4 * count + 16]]
    return some[network(some).argmax(1) == label][:count]


def _pairs(points: int, count: int, generator: Any) -> Tensor:
    """So many different pairs of points, in an order that the generator draws, (pairs, 2)."""
    every = torch.tensor(
        list(itertools.combinations(range(points), 2)), device="cpu", dtype=torch.int64
    ).reshape(-1, 2)
    return every[torch.randperm(len(every), generator=generator, device="cpu")[:count]]


def _arrays(joined: dict[str, Tensor]) -> dict[str, Any]:
    arrays = {
        name: joined[name]
        for name in ("class", "kind", "connected", "straight", "length", "certainty", "paths")
    }
    arrays |= {name: joined[name] for name in ("path-class", "path-connected")}
    return arrays


def _share(values: Tensor, **more: Any) -> penchant.Quantity:
    """A share with its binomial error; half a pair is added on each side so that 0 and 1 have one too."""
    count = len(values)
    smoothed = (float(values.sum()) + 0.5) / (count + 1)
    error = math.sqrt(smoothed * (1 - smoothed) / count)
    return penchant.Quantity(
        float(values.double().mean()), stderr=error, over="pairs", count=count, **more
    )


def _quantities(
    joined: dict[str, Tensor], rows: list[dict[str, Any]]
) -> dict[str, penchant.Quantity]:
    connected = joined["connected"].bool()
    straight = _share(joined["straight"])
    found = {"connected": _share(connected, null=straight.value, null_stderr=straight.stderr)}
    for number, name in enumerate(KINDS):
        if bool((joined["kind"] == number).any()):
            found[f"connected-{name}"] = _share(connected[joined["kind"] == number])
    if bool(connected.any()):
        lengths = joined["length"].double()[connected]
        error = float(lengths.std() / math.sqrt(len(lengths))) if len(lengths) > 1 else None
        found["length-ratio"] = penchant.Quantity(
            float(lengths.mean()),
            stderr=error,
            over="connected pairs",
            count=len(lengths),
            null=1.0,
        )
        found["confirmed"] = _share(joined["confirmed"].bool()[connected])
    accuracy = [row["accuracy"] for row in rows if math.isfinite(row["accuracy"])]
    found["test-accuracy"] = penchant.Quantity(accuracy[0])
    return found
