"""Directions from the average geometry, for probes that train on them."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.moments import descending_eigh
from torch import Tensor

from penchant_gih.measuring import measure_geometry, uncentred


def average_geometry(options: Any, context: Any, *, outputs: int) -> tuple[Tensor, int]:
    """G (D, D), on the CPU, as it was stored or from fresh networks; and how many directions of it mean anything."""
    size = math.prod(context.architecture.shape)
    if options.geometry is None:
        found = measure_geometry(
            context, samples=options.samples, scale=options.scale, outputs=outputs
        )
        return found.matrix().cpu(), min(size, options.samples)
    matrix = torch.as_tensor(options.geometry, dtype=torch.float64, device="cpu")
    if matrix.shape != (size, size):
        raise penchant.Error(
            f"geometry must be {size} x {size}, found an array of shape {list(matrix.shape)}"
        )
    context.conventions["geometry"] = "stored"
    return (matrix + matrix.T) / 2, size


def eigenbasis(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and orthonormal rows, as many as mean anything."""
    values, vectors = descending_eigh(matrix)
    return values[:rank], vectors[:rank]


def projected_data(geometry: Tensor, inputs: Tensor) -> Tensor:
    """G S G, S of these inputs."""
    return geometry @ uncentred(inputs).cpu() @ geometry


def checked_indices(indices: tuple[int, ...], rank: int, size: int, *, every: int) -> list[int]:
    """The indices asked for (negative ones count from the end), or every so many; what has no meaning is refused."""
    chosen = [index + size if index < 0 else index for index in indices] or list(
        range(0, rank, every)
    )
    if min(chosen) < 0 or max(chosen) >= size:
        raise penchant.Error(f"the input has {size} directions, found indices {list(indices)}")
    if max(chosen) >= rank:
        raise penchant.Error(
            f"{rank} networks give {rank} directions, found index {max(chosen)}; samples must be at least {max(chosen) + 1}"
        )
    if len(set(chosen)) < len(chosen):
        raise penchant.Error(f"indices must differ, found {list(indices)}")
    return chosen


def mean_and_stderr(values: Any, samples: int) -> tuple[Any, Any]:
    """Means over the last axis and their standard errors: over repeats, or binomial over samples where there is one repeat."""
    import numpy as np

    values = np.asarray(values, dtype=np.float64)
    mean, count = values.mean(-1), values.shape[-1]
    share = (mean * samples + 0.5) / (
        samples + 1
    )  # half a sample on each side, so that 0 and 1 have an error too
    binomial = np.sqrt(share * (1 - share) / (samples * count))
    if count < 2:
        return mean, binomial
    return mean, np.maximum(values.std(-1, ddof=1) / math.sqrt(count), binomial)
