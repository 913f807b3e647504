"""G for the probes that build on it: stored, or from the estimator of the role `directions`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import penchant
import torch
from penchant_numerics.estimates import Directions
from penchant_numerics.moments import descending_eigh
from torch import Tensor

from penchant_gih.numerics import row_geometry
from penchant_gih.numerics.geometry import PARTS


def preferred_directions(
    context: penchant.Context, *, networks: int, outputs: int, stored: object = None
) -> Directions:
    """G with its matrix, from fresh networks or as it was stored.

    Args:
        context: Its estimator of the role `directions` is asked.
        networks: How many networks are drawn.
        outputs: How many outputs they have.
        stored: A matrix (D, D) to use instead.
    """
    if stored is not None:
        return _stored(context, stored)
    return with_matrix(context.scope(outputs=outputs), networks)


def with_matrix(context: penchant.Context, networks: int) -> Directions:
    """What the estimator answers; leading pairs without the matrix are refused."""
    estimate = context.estimator("directions")
    found = estimate(networks=networks)
    return _formed(context, found)


def _formed(context: penchant.Context, found: Directions) -> Directions:
    """The answer with its matrix."""
    try:
        matrix = found.moment()
    except ValueError as error:
        raise penchant.Error(str(error)) from None
    if matrix is None:
        raise penchant.Error(
            f"the whole matrix is needed, found {len(found.vectors)} leading directions of "
            f"{context.estimator('directions').name}: leave its option `leading` out"
        )
    refuse_zero(found)
    return dataclasses.replace(found, matrix=matrix)


def refuse_zero(found: Directions) -> None:
    """Directions of a geometry that is exactly zero would be arbitrary."""
    if not bool(found.eigenvalues.any()):
        size = found.vectors.shape[1]
        raise penchant.Error(
            f"the gradient by each of {size} inputs is exactly zero in every network: an "
            "architecture whose output does not depend on its input has no geometry"
        )


def independent_parts(
    context: penchant.Context, networks: int, answer: Directions | None = None
) -> Directions:
    """The same with G of independent parts of the networks.

    An estimator that gives no parts is asked once for each part, networks of its own every time.

    Args:
        context: Its estimator of the role `directions` is asked.
        networks: How many networks are drawn.
        answer: What the estimator has answered already.
    """
    # Estimators of this plugin give parts with their answer.
    if answer is None:
        found = with_matrix(context, networks)
    else:
        found = _formed(context, answer)
    if found.parts is not None:
        return found
    if found.rows is not None and found.networks >= PARTS:
        moments = row_geometry.matrices(found.rows, found.networks)
        return dataclasses.replace(found, parts=moments)
    # One question a part, each about the next networks.
    a_part = networks // PARTS
    parts = []
    for number in range(PARTS):
        own = context.scope(first=number * a_part)
        parts.append(with_matrix(own, a_part).matrix)
    return dataclasses.replace(found, parts=torch.stack(parts))


def _stored(context: penchant.Context, stored: object) -> Directions:
    # A stored matrix has no networks, so nothing about it has an error.
    size = math.prod(context.architecture.shape)
    matrix = torch.as_tensor(stored, dtype=torch.float64, device=context.device)
    if matrix.shape != (size, size):
        found = list(matrix.shape)
        raise penchant.Error(f"geometry must be {size} x {size}, found an array of shape {found}")
    context.conventions["geometry"] = "stored"
    matrix = (matrix + matrix.T) / 2
    eigenvalues, vectors = descending_eigh(matrix)
    trace = float(matrix.trace())
    found = Directions(
        eigenvalues,
        vectors,
        trace,
        None,
        networks=0,
        matrix=matrix,
    )
    refuse_zero(found)
    return found


def chosen_indices(
    indices: Sequence[int] | None,
    directions: Tensor,
    *,
    every: int = 1,
) -> list[int]:
    """The indices asked for, or every so many; what has no meaning is refused.

    Args:
        indices: Eigen-indices; negative ones count from the end of the input's directions.
        directions: Rows (rank, D), as many as mean anything.
        every: The stride where no indices are given.
    """
    rank, size = directions.shape
    if indices is None:
        return list(range(0, rank, every))
    # Negative indices count from the end of the input, not of what was found.
    asked = list(indices)
    chosen = [index + size if index < 0 else index for index in asked]
    if not chosen or min(chosen) < 0 or max(chosen) >= size:
        raise penchant.Error(f"the input has {size} directions, found indices {asked}")
    # Beyond what was found, directions are arbitrary.
    largest = max(chosen)
    if largest >= rank:
        need = f"networks must be at least {largest + 1}"
        raise penchant.Error(
            f"{rank} networks give {rank} directions, found index {largest}; {need}"
        )
    different = set(chosen)
    if len(different) < len(chosen):
        raise penchant.Error(f"indices must differ, found {asked}")
    return chosen
