"""The probe `feature-elimination`: what does taking out what a network cannot see cost it?

Which directions to take out of data: generalised eigenvectors of (G, S), and random ones.
"""

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.training import Learner, right_answers, train_and_evaluate
from threadpoolctl import threadpool_limits
from torch import Generator, Tensor

from penchant_gih.declarations.preference import FeatureElimination
from penchant_gih.shared.geometry import uncentred
from penchant_gih.shared.gradients import scalar_outputs
from penchant_gih.shared.preferred_directions import matrix_of, preferred_directions


def run(options: FeatureElimination, context: penchant.Context) -> penchant.Result:
    """Train on what is left after taking out more and more directions.

    A shard has a training for every number of directions of one kind.
    """
    size = math.prod(context.data.shape)
    removed = _removed(options.removed, size)
    # Directions that the architecture sees least, for what they are in the data.
    G = _geometry(options, context, size)
    S = uncentred(context.data.train.inputs).to(G)
    rows = least_aligned(G, S, ridge=options.ridge)
    shares = [0.0, *explained(rows, S).tolist()]
    curve = [shares[count] for count in removed]

    # Against as many random ones as explain as much, others for each training.
    random = []
    for training in range(options.trainings):
        counts = _random_counts(context, training, S.cpu(), curve)
        random.append(counts)
    trainings = range(options.trainings)
    random_counts = penchant.Table(
        random, {"training": range(options.trainings), "removed": removed}
    )
    answers = context.tables(
        right_without,
        inside={"removed": removed, "sample": range(len(context.data.test.labels))},
        shared={"rows": rows[: max(removed)], "random counts": random_counts.values},
        random=(False, True),
        training=trainings,
    )
    right = answers["right"]
    advantage = right.at(random=False).minus(right.at(random=True))
    tables = {
        "random-removed": random_counts.mean("training"),
        "test-accuracy": right.at(random=False).accuracy(),
        "random-test-accuracy": right.at(random=True).accuracy(),
        "advantage": advantage.mean(("training", "sample")),
    }
    arrays = {"removed": np.array(removed), "explained": np.array(curve)}
    quantities = _quantities(right)
    return penchant.Result(quantities, arrays, tables=tables, conventions=_conventions(options))


def _geometry(options: FeatureElimination, context: penchant.Context, size: int) -> Tensor:
    """G; one of too few networks has no generalised eigenvectors."""
    geometry = preferred_directions(
        context, networks=options.networks, outputs=scalar_outputs(context), stored=options.geometry
    )
    if len(geometry.vectors) < size:
        raise penchant.Error(
            f"generalised eigenvectors need at least {size} networks, as many as inputs, "
            f"found networks {options.networks}"
        )
    return matrix_of(geometry)


def _removed(removed: tuple[int, ...] | None, size: int) -> list[int]:
    """How many directions are taken out: as requested, or none to all but one in eight steps."""
    if removed is None:
        eighths = {round(eighth * (size - 1) / 8) for eighth in range(9)}
        return sorted(eighths)
    ascending = sorted(set(removed))
    if list(removed) != ascending or removed[-1] >= size:
        raise penchant.Error(
            f"removed must ascend and stay below {size}, the number of inputs, "
            f"found {list(removed)}"
        )
    return list(removed)


def _random_counts(
    context: penchant.Context, training: int, S: Tensor, shares: list[float]
) -> list[int]:
    """How many random directions explain as much."""
    rows = _random_basis(context, training, len(S))
    explained_shares = explained(rows, S)
    return [equal_count(explained_shares, share) for share in shares]


def _random_basis(context: penchant.Context, training: int, size: int) -> Tensor:
    stream = context.generator("random directions", training)
    return random_rows(size, stream)


def right_without(context: penchant.Context, item: dict[str, Any]) -> dict[str, Tensor]:
    """On which test samples a network is right, for each number of directions taken out."""
    # The directions are sent; random ones are drawn again where they are needed.
    data = context.data
    training = item["training"]
    rows = context.shared["rows"]
    counts = _removed(context.options.removed, math.prod(data.shape))
    if item["random"]:
        rows = _random_basis(context, training, math.prod(data.shape))
        counts = context.shared["random counts"][training].tolist()

    def begin(count: int) -> Learner:
        gone = rows[:count]
        train = without(data.train, gone)
        test = without(data.test, gone)
        network = context.network(training)
        return Learner(network, train, (training,), test)

    by_count = train_and_evaluate(context, counts, begin, _right)
    # At the end of each training.
    right = [by_step[-1] for by_step in by_count]
    return {"right": torch.stack(right)}


def _right(count: int, learner: Learner) -> Tensor:
    """On which test samples a network is right."""
    return right_answers(learner.network, learner.test_samples)


def _conventions(options: FeatureElimination) -> dict[str, str]:
    return {
        "directions": "generalised eigenvectors of (G, S), least aligned with G first, "
        "orthonormalised in their order",
        "S": f"uncentred, plus {options.ridge:g} of its mean eigenvalue on the diagonal",
        "random": "as many random orthonormal directions as explain at least the same share of "
        "the trace of S",
    }


def _quantities(right: penchant.Table) -> dict[str, penchant.Quantity]:
    """Mean advantage over random directions, where something is taken out."""

    def where_any(values: np.ndarray, axis: int) -> Any:
        # The first count is none at all, where there are others.
        counts = values.shape[axis]
        some = values.take(range(1, counts), axis) if counts > 1 else values
        return some.mean(axis)

    accuracy = right.reduced(where_any, "removed")
    advantage = accuracy.at(random=False).minus(accuracy.at(random=True))
    return {"advantage": advantage.mean(("training", "sample"), null=0.0).quantity()}


def least_aligned(G: Tensor, S: Tensor, *, ridge: float) -> Tensor:
    """Solutions of G v = l S v with the smallest l first, orthonormalised in their order.

    S of real data is singular: constant pixels, fewer samples than inputs.

    Args:
        G: The average geometry (D, D).
        S: The second moment of the data (D, D).
        ridge: Added to S, in units of its mean eigenvalue.

    Returns:
        Orthonormal rows (D, D), where S is.
    """
    # A small multiple of the identity makes S invertible.
    size = len(S)
    height = ridge * S.trace() / size
    regular = S + height * torch.eye(size, dtype=S.dtype, device=S.device)
    on_host = S.device.type == "cpu"
    solve = _solved_on_host if on_host else solved_on_device
    columns = solve(G, regular)
    rows: Tensor = torch.linalg.qr(columns).Q.T
    return rows


def _solved_on_host(G: Tensor, S: Tensor) -> Tensor:
    """Generalised eigenvectors as columns, ascending, by LAPACK, which torch does not offer."""
    import scipy.linalg

    threads = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        _, columns = scipy.linalg.eigh(G.numpy(), S.numpy())
    torch.set_num_threads(threads)  # leaving the limits resets it
    return torch.as_tensor(columns, dtype=S.dtype, device=S.device)


def solved_on_device(G: Tensor, S: Tensor) -> Tensor:
    """The same where the matrices are: with S = L L^T, eigenvectors y of L^-1 G L^-T give L^-T y.

    Args:
        G: A symmetric matrix (D, D).
        S: A positive one.

    Returns:
        Columns (D, D), ascending.
    """
    solve = torch.linalg.solve_triangular
    L = torch.linalg.cholesky(S)
    # From the left, then from the right.
    half = solve(L, G.to(S.dtype), upper=False)
    inner = solve(L, half.T, upper=False)
    _, vectors = torch.linalg.eigh((inner + inner.T) / 2)
    solved: Tensor = solve(L.T, vectors, upper=True)
    return solved


def random_rows(size: int, generator: Generator) -> Tensor:
    """A random orthonormal basis (rows), on the CPU: Gram-Schmidt on normal vectors."""
    noise = torch.randn(size, size, generator=generator, device="cpu", dtype=torch.float64)
    rows: Tensor = torch.linalg.qr(noise).Q.T
    return rows


def explained(rows: Tensor, S: Tensor) -> Tensor:
    """Share of the trace of S on the first 1, 2, ... rows."""
    along = (rows @ S * rows).sum(1)
    # Orthonormal rows: what they explain adds up, on the host: `cumsum` has no deterministic kernel
    # on CUDA.
    sums = along.cpu().cumsum(0)
    return sums.to(S.device) / S.trace()


def equal_count(shares: Tensor, share: float) -> int:
    """How many rows explain at least this share."""
    if share <= 0:
        return 0
    below = (shares < share).sum()
    return int(below) + 1


def without(samples: Samples, rows: Tensor) -> Samples:
    """The samples with their projections on orthonormal rows taken out."""
    # x - R^T R x.
    flat = samples.inputs.flatten(1)
    rows = rows.to(flat.device, flat.dtype)
    left = flat - flat @ rows.T @ rows
    return Samples(left.reshape(samples.inputs.shape), samples.labels)
