"""The probe `feature-elimination`: what does taking out the directions a network cannot see cost it?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.trainer import Trainer, evaluate
from torch import Tensor

from penchant_gih._elimination import equal_count, explained, least_aligned, random_rows, without
from penchant_gih._payload import packed, unpacked
from penchant_gih.bases import average_geometry, mean_and_stderr
from penchant_gih.measuring import scalar_outputs, uncentred


def run(options: Any, context: Any) -> penchant.Result:
    """Train on what is left after taking out more and more directions; a shard is one repeat of one kind of directions."""
    size = math.prod(context.data.shape)
    removed = _removed(options.removed, size)
    matrix, rank = average_geometry(options, context, outputs=scalar_outputs(context))
    if rank < size:
        raise penchant.Error(
            f"generalised eigenvectors need at least {size} networks, as many as inputs, found samples {rank}"
        )
    S = uncentred(context.data.train.inputs).cpu()
    rows = least_aligned(matrix, S, ridge=options.ridge)
    shares = [0.0] + explained(rows, S).tolist()
    counts = [
        _random_counts(context, repeat, S, [shares[k] for k in removed])
        for repeat in range(options.repeats)
    ]
    basis = packed(rows[: max(removed)])
    items = [
        {"repeat": repeat, "counts": removed, "rows": basis} for repeat in range(options.repeats)
    ]
    items += [
        {"repeat": repeat, "counts": counts[repeat], "rows": None}
        for repeat in range(options.repeats)
    ]
    found = [shard["accuracy"] for shard in context.map(accuracies_without, items)]
    ours, others = (
        np.array(found[: options.repeats]).T,
        np.array(found[options.repeats :]).T,
    )  # (counts, repeats)
    arrays = _arrays(context, removed, counts, shares, ours, others)
    return penchant.Result(
        _quantities(ours, others, options),
        arrays,
        conventions={**context.conventions, **_conventions(options)},
    )


def _removed(removed: tuple[int, ...], size: int) -> list[int]:
    """How many directions are taken out: as asked, or from none to all but one in eight steps."""
    chosen = list(removed) or sorted({round(share * (size - 1) / 8) for share in range(9)})
    if chosen != sorted(set(chosen)) or chosen[-1] >= size:
        raise penchant.Error(
            f"removed must ascend and stay below {size}, the number of inputs, found {list(removed)}"
        )
    return chosen


def _random_counts(context: Any, repeat: int, S: Tensor, shares: list[float]) -> list[int]:
    found = explained(_random_basis(context, repeat, len(S)), S)
    return [equal_count(found, share) for share in shares]


def _random_basis(context: Any, repeat: int, size: int) -> Tensor:
    return random_rows(size, context.generator("random directions", repeat))


def accuracies_without(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Test accuracy of one network for each number of directions taken out."""
    data = context.data
    rows = (
        _random_basis(context, item["repeat"], math.prod(data.shape))
        if item["rows"] is None
        else unpacked(item["rows"])
    )
    found = []
    for count in item["counts"]:
        train, test = (without(part, rows[:count]) for part in (data.train, data.test))
        network = context.network(item["repeat"])
        Trainer(
            network,
            train,
            context.training,
            seed=context.generator("training", item["repeat"]).initial_seed(),
        ).run()
        found.append(evaluate(network, test, loss=context.training.loss)[1])
    return {"accuracy": torch.tensor(found, dtype=torch.float64, device="cpu")}


def _arrays(
    context: Any,
    removed: list[int],
    counts: list[list[int]],
    shares: list[float],
    ours: Any,
    others: Any,
) -> dict[str, Any]:
    samples = len(context.data.test.labels)
    random = np.array(counts)  # (repeats, counts)
    stderr = (
        random.std(0, ddof=1) / math.sqrt(len(random))
        if len(random) > 1
        else np.zeros(len(removed))
    )
    arrays = {"removed": np.array(removed), "explained": np.array([shares[k] for k in removed])}
    arrays |= {"random-removed": random.mean(0), "random-removed-stderr": stderr}
    arrays["accuracy"], arrays["accuracy-stderr"] = mean_and_stderr(ours, samples)
    arrays["random-accuracy"], arrays["random-accuracy-stderr"] = mean_and_stderr(others, samples)
    return arrays


def _conventions(options: Any) -> dict[str, str]:
    return {
        "directions": "generalised eigenvectors of (G, S), least aligned with G first, orthonormalised in their order",
        "S": f"uncentred, plus {options.ridge:g} of its mean eigenvalue on the diagonal",
        "random": "as many random orthonormal directions as explain at least the same share of the trace of S",
    }


def _quantities(ours: np.ndarray, others: np.ndarray, options: Any) -> dict[str, penchant.Quantity]:
    """Mean advantage over random directions, where something is taken out."""
    gaps = (ours - others)[1:].mean(0) if len(ours) > 1 else (ours - others).mean(0)  # one a repeat
    stderr = float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else None
    advantage = penchant.Quantity(
        float(gaps.mean()), stderr=stderr, over="repeats", count=options.repeats, null=0.0
    )
    return {"advantage": advantage}


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy against the number of directions taken out (figure 6)."""
    from penchant_gih import figures

    return {"accuracy": figures.elimination(result)}
