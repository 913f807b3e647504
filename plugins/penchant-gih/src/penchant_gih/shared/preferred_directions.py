"""G for the probes that build on it: stored, or from the estimator of the role `directions`."""

import dataclasses
import math
from collections.abc import Sequence

import penchant
import torch
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.roles import Directions, chosen_indices, refuse_zero
from torch import Tensor

from penchant_gih.shared import geometry
from penchant_gih.shared.geometry import GROUPS


def preferred_directions(
    context: penchant.Context, *, networks: int, outputs: int, stored: object = None
) -> Directions:
    """G with its matrix, from fresh networks or as it was stored.

    Args:
        context: Its estimator of the role `directions` is called.
        networks: How many networks are sampled.
        outputs: How many outputs they have.
        stored: A matrix (D, D) to use instead.
    """
    if stored is not None:
        return _stored(context, stored)
    return with_matrix(context.scope(outputs=outputs), networks)


def with_matrix(context: penchant.Context, networks: int) -> Directions:
    """What the estimator answers; leading pairs without the matrix are refused."""
    estimate = context.estimator("directions")
    directions = estimate(networks=networks)
    return _formed(context, directions)


def _formed(context: penchant.Context, directions: Directions) -> Directions:
    """The answer with its matrix."""
    matrix = directions.moment()
    if matrix is None:
        raise penchant.Error(
            f"the whole matrix is needed, found {len(directions.vectors)} leading directions of "
            f"{context.estimator('directions').name}: leave its option `leading` out"
        )
    refuse_zero(directions.eigenvalues, directions.vectors.shape[1])
    return dataclasses.replace(directions, matrix=matrix)


def matrix_of(directions: Directions) -> Tensor:
    """The matrix of `with_matrix`."""
    assert directions.matrix is not None
    return directions.matrix


def groups_of(directions: Directions) -> Tensor:
    """The groups of `independent_groups`."""
    assert directions.groups is not None
    return directions.groups


def independent_groups(
    context: penchant.Context, networks: int, answer: Directions | None = None
) -> Directions:
    """The same with G of independent groups of the networks.

    An estimator that gives no groups is called once for each group, with other networks every time.

    Args:
        context: Its estimator of the role `directions` is called.
        networks: How many networks are sampled.
        answer: What the estimator has answered already.
    """
    # Estimators of this plugin give groups with their answer.
    if answer is None:
        directions = with_matrix(context, networks)
    else:
        directions = _formed(context, answer)
    if directions.groups is not None:
        return directions
    if directions.rows is not None and directions.networks >= GROUPS:
        moments = geometry.matrices(directions.rows, directions.networks)
        return dataclasses.replace(directions, groups=moments)
    # One call per group, each with the next networks.
    size = networks // GROUPS
    groups = []
    for number in range(GROUPS):
        own = context.scope(first=number * size)
        groups.append(matrix_of(with_matrix(own, size)))
    return dataclasses.replace(directions, groups=torch.stack(groups))


def _stored(context: penchant.Context, stored: object) -> Directions:
    # A stored matrix has no networks, so it has no error.
    size = math.prod(context.architecture.shape)
    matrix = torch.as_tensor(stored, dtype=torch.float64, device=context.device)
    if matrix.shape != (size, size):
        shape = list(matrix.shape)
        raise penchant.Error(f"geometry must be {size} x {size}, found an array of shape {shape}")
    context.conventions["geometry"] = "stored"
    matrix = (matrix + matrix.T) / 2
    eigenvalues, vectors = descending_eigh(matrix)
    trace = float(matrix.trace())
    directions = Directions(eigenvalues, vectors, trace, None, networks=0, matrix=matrix)
    refuse_zero(directions.eigenvalues, directions.vectors.shape[1])
    return directions


def indices_of(indices: Sequence[int] | None, directions: Tensor, *, every: int = 1) -> list[int]:
    """The requested indices of directions (rank, D), or every `every`-th.

    Negative indices count from the end of the input, not of what was found.
    """
    rank, size = directions.shape
    hint = "; networks must be at least {least}" if rank < size else ""
    return chosen_indices(indices, rank, of="the geometry", every=every, size=size, hint=hint)


def shared_directions(indices: Sequence[int], vectors: Tensor) -> dict[str, Tensor]:
    """What shards are given to find the directions of some eigen-indices."""
    numbers = torch.tensor(indices, device="cpu")
    return {"indices": numbers, "directions": vectors[list(indices)]}


def direction_of(context: penchant.Context, index: int) -> Tensor:
    """The direction (D,) of an eigen-index, in a shard that was given `shared_directions`."""
    position = context.shared["indices"].tolist().index(index)
    direction: Tensor = context.shared["directions"][position]
    return direction
