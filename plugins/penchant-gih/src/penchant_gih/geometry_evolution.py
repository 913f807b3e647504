"""The probe `geometry-evolution`: Delta from the mixed derivative, and what it is aligned with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.moments import descending_eigh
from penchant_numerics.trainer import Trainer
from torch import Tensor

from penchant_gih._correlation import (
    Estimate,
    containment_null,
    corr_with_fixed,
    cosine,
    distinct_mean,
    jackknife,
    rotation_null,
)
from penchant_gih._evolution import RESIDUALS, Evolution, Flow, batch_size, mixed_products
from penchant_gih._geometry import Geometry
from penchant_gih._gradients import probed_gradients, shard_size
from penchant_gih._projected import PARTS, Projected
from penchant_gih.measuring import (
    conventions,
    drawn,
    probing_points,
    stacked,
    tensors_of,
    uncentred,
)


def largest_stack(size: int) -> int:
    """Networks differentiated together: many of few inputs, as each stack has a fixed cost."""
    return max(64, min(1024, 2**16 // size))


def run(options: Any, context: Any) -> penchant.Result:
    """Measure every width, or every step of training, or the initialisation alone."""
    _targets(
        context
    )  # refuse labels that are neither two classes nor numbers before anything is drawn
    S = uncentred(_train(context, options.train).inputs)
    rows: list[dict[str, Any]] = []
    for width in options.widths or (None,):
        for evolution, difference, geometry in _measured(options, context, width):
            rows.append(_row(evolution, difference, geometry, S, options))
    last = rows[-1]
    arrays = {name: value for name, value in last.items() if isinstance(value, Tensor)}
    for name in ("corr-s", "corr-gsg"):
        arrays[name] = np.array([row[name].value for row in rows])
        arrays[f"{name}-stderr"] = np.array([row[name].stderr for row in rows])
        arrays[f"{name}-null"] = np.array([row[f"{name}-null"].value for row in rows])
        arrays[f"{name}-null-stderr"] = np.array([row[f"{name}-null"].stderr for row in rows])
    if options.widths:
        arrays["widths"] = np.array(options.widths)
    if options.steps:
        arrays["steps"] = np.array(options.steps)
    kept = {
        **conventions(context, outputs=1, probing="gaussian", scale=options.scale),
        **_flow_conventions(options),
    }
    kept["probing"] += ", and its opposite"
    missing = tuple(
        name for name, value in arrays.items() if not np.isfinite(np.asarray(value)).all()
    )
    if missing:
        context.warn(
            f"too few networks for {', '.join(missing)}: an unbiased squared norm is not positive"
        )
    quantities = _quantities(last, evolution.count)
    missing += tuple(
        name for name, quantity in quantities.items() if not math.isfinite(quantity.value)
    )
    return penchant.Result(quantities, arrays, conventions=kept, missing=missing)


def _flow_conventions(options: Any) -> dict[str, str]:
    return {
        "evolution": f"gradient flow on the summed {options.residual}, Delta = D + D^T, one output, labels +-1",
        "S": "sum of x x^T over the training samples, uncentred",
        "corr": f"norms from {PARTS} independent parts of the networks",
    }


def _train(context: Any, count: int) -> Any:
    train = context.data.train
    return (
        train
        if count == 0
        else train.select(torch.arange(min(count, len(train.labels)), device=train.labels.device))
    )


def _targets(context: Any) -> Tensor:
    data = context.data
    if data.classes not in (0, 2) or data.train.labels[:1].numel() != 1:
        raise penchant.Error(
            f"geometry-evolution needs two classes or one number a sample as labels, found {data.outputs} outputs"
        )
    labels = data.train.labels.reshape(len(data.train.labels)).to(context.dtype)
    return 2 * labels - 1 if data.classes == 2 else labels


def _measured(
    options: Any, context: Any, width: int | None
) -> list[tuple[Evolution, Evolution, Geometry]]:
    """Delta, what permuting labels takes away from it, and G, at the initialisation or at each step."""
    size = math.prod(context.architecture.shape)
    step = shard_size(size, 1)
    base = {
        "inputs": 1,
        "probing": "gaussian",
        "scale": options.scale,
        "outputs": 1,
        "width": width,
    }
    base |= {"train": options.train, "residual": options.residual, "steps": list(options.steps)}
    items = [
        {**base, "first": start, "last": min(start + step, options.samples)}
        for start in range(0, options.samples, step)
    ]
    settings = {"device": context.device, "parts": PARTS}
    found = [
        (Evolution(size, **settings), Evolution(size, **settings))
        for _ in range(len(options.steps) or 1)
    ]
    initial = Geometry(size, inputs=2, **settings)
    for shard in context.map(shard_evolution, items):
        parts = {
            name: torch.as_tensor(array, device=context.device) for name, array in shard.items()
        }
        for number, (evolution, difference) in enumerate(found):
            evolution.add(parts["mixed"][number], parts["gradients"][number])
            difference.add(parts["difference"][number], parts["gradients"][number])
        initial.add(parts["initial"])
    return [(evolution, difference, initial) for evolution, difference in found]


def shard_evolution(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """v, the part of v that permuting labels takes away, g at each step (steps, networks, 2, D), and g at initialisation."""
    train, targets = _train(context, item["train"]), _targets(context)
    targets = targets[: len(train.labels)]
    order = torch.randperm(
        len(targets), generator=context.generator("permutation"), device="cpu"
    ).to(targets.device)
    found: dict[str, list[Tensor]] = {"mixed": [], "difference": [], "gradients": [], "initial": []}
    for networks, indices in drawn(
        context, item, largest=largest_stack(math.prod(context.architecture.shape))
    ):
        points = probing_points(context, item, indices)
        points = torch.cat(
            [points, -points], 1
        )  # the probing law is symmetric: a pair of opposite inputs halves the variance
        batch = batch_size(len(indices), points[0].numel(), len(targets))
        flow = Flow(train.inputs, targets, targets[order], RESIDUALS[item["residual"]], batch=batch)
        ensembles = _trained(context, item, indices) if item["steps"] else [networks]
        vectors = [_vectors(ensemble, flow, points) for ensemble in ensembles]
        for name, column in zip(("mixed", "difference", "gradients"), zip(*vectors)):
            found[name].append(torch.stack(column))
        found["initial"].append(probed_gradients(networks, points))
    return {
        name: torch.cat(parts, dim=0 if name == "initial" else 1) for name, parts in found.items()
    }


def _vectors(ensemble: Any, flow: Flow, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    right, taken = flow.parameter_gradients(ensemble)
    mixed, difference = (mixed_products(ensemble, along, points) for along in (right, taken))
    return mixed, difference, probed_gradients(ensemble, points)


def _trained(context: Any, item: dict[str, Any], indices: range) -> list[Any]:
    """The networks of these indices at each step of their trainings."""
    train = _train(context, item["train"])
    states: list[list[Any]] = [[] for _ in item["steps"]]
    for index in indices:
        network = context.network(index, outputs=1)
        trainer = Trainer(
            network,
            train,
            context.training,
            seed=context.generator("training", index).initial_seed(),
        )
        for number, step in enumerate(item["steps"]):
            trainer.run(until=step)
            if trainer.step < step:
                raise penchant.Error(
                    f"the training ended at step {trainer.step}, expected to reach step {step}"
                )
            states[number].append(tensors_of(network))
    return [stacked(network, each) for each in states]


def _row(
    evolution: Evolution, difference: Evolution, geometry: Geometry, S: Tensor, options: Any
) -> dict[str, Any]:
    """Everything about one Delta."""
    S = S.to(evolution.squares.device, evolution.squares.dtype)
    parts = [evolution.part(number) for number in range(PARTS)]
    table, delta = evolution.table(), evolution.matrix()
    projected = Projected(geometry.parts, S)
    against, squared = projected.against(parts), float(S.square().sum())
    products = torch.tensor(
        [float((part * S).sum()) for part in parts], dtype=torch.float64, device="cpu"
    )
    norm, trace, size = distinct_mean(table, range(PARTS)), float(delta.trace()), len(delta)

    def with_projected(keep: list[int]) -> float:
        return cosine(
            projected.mean_against(against, keep),
            distinct_mean(table, keep),
            projected.squared_norm(keep),
        )

    changes = [difference.table(), table]
    return {
        "corr-s": corr_with_fixed(products, table, squared),
        "corr-s-null": rotation_null(trace, float(S.trace()), norm, squared, size),
        "corr-gsg": jackknife(with_projected, PARTS),
        "corr-gsg-null": rotation_null(
            trace, projected.trace, norm, projected.squared_norm(), size
        ),
        "label-effect": jackknife(
            lambda keep: distinct_mean(changes[0], keep) / distinct_mean(changes[1], keep), PARTS
        ),
        "evolution": delta,
        "evolution-stderr": evolution.stderr(),
        "label-difference": difference.matrix(),
        "label-difference-stderr": difference.stderr(),
        **_containment(parts, table, projected.matrix(), trace, norm, options.leading),
    }


def _containment(
    parts: list[Tensor], table: Tensor, projected: Tensor, trace: float, norm: float, leading: int
) -> dict[str, Any]:
    """|P Delta P| / |Delta| with P on the k leading eigenvectors of G S G, for k = 1, 2, 4, ... and the k asked for."""
    eigenvalues, vectors = descending_eigh(projected)
    size = len(projected)
    shares = eigenvalues.clamp(min=0).cumsum(0)
    chosen = min(size, leading) or int((shares < 0.9 * shares[-1]).sum()) + 1
    turned = [vectors @ part @ vectors.T for part in parts]
    ranks = sorted({2**power for power in range(int(math.log2(size)) + 1)} | {chosen, size})
    found = [_contained(turned, table, rank) for rank in ranks]
    numbers = {"device": "cpu", "dtype": torch.float64}
    return {
        "containment": torch.tensor([each.value for each in found], **numbers),
        "containment-stderr": torch.tensor([each.stderr for each in found], **numbers),
        "containment-null": torch.tensor(
            [containment_null(trace, norm, size, rank) for rank in ranks], **numbers
        ),
        "leading": torch.tensor(ranks, device="cpu"),
        "chosen": (chosen, found[ranks.index(chosen)]),
    }


def _contained(turned: list[Tensor], table: Tensor, rank: int) -> Estimate:
    corners = [part[:rank, :rank] for part in turned]
    inner = torch.tensor(
        [[float((a * b).sum()) for b in corners] for a in corners],
        dtype=torch.float64,
        device="cpu",
    )

    def statistic(keep: list[int]) -> float:
        inside, whole = distinct_mean(inner, keep), distinct_mean(table, keep)
        return math.sqrt(max(0.0, inside) / whole) if whole > 0 else math.nan

    return jackknife(statistic, len(turned))


def _quantities(row: dict[str, Any], count: int) -> dict[str, penchant.Quantity]:
    over = {"over": "networks (jackknife over parts)", "count": count}
    found = {}
    for name in ("corr-s", "corr-gsg"):
        null = row[f"{name}-null"]
        found[name] = penchant.Quantity(
            row[name].value,
            stderr=row[name].stderr,
            **over,
            null=null.value,
            null_stderr=null.stderr,
        )
    rank, contained = row["chosen"]
    null = float(row["containment-null"][row["leading"].tolist().index(rank)])
    found["containment"] = penchant.Quantity(
        contained.value, stderr=contained.stderr, **over, null=null
    )
    found["leading"] = penchant.Quantity(float(rank))
    found["label-effect"] = penchant.Quantity(
        row["label-effect"].value, stderr=row["label-effect"].stderr, **over, null=0.0
    )
    return found


def plot(result: penchant.Result) -> dict[str, Any]:
    """Delta as a picture, containment by dimension, and the sweep where there is one (figure 7)."""
    from penchant_gih import figures

    drawn_figures = {"evolution": figures.evolution(result)}
    for axis in ("widths", "steps"):
        if axis in result.arrays:
            drawn_figures["sweep"] = figures.sweep(result, axis)
    return drawn_figures
