"""Orthonormal bases of the input, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import penchant
import torch
from penchant_numerics.fourier import cosine_family, sine_family
from torch import Tensor


class Basis(NamedTuple):
    """Unit vectors of the input (rows), with the frequency or the eigenvalue of each where it has one."""

    vectors: Tensor
    frequencies: Tensor | None = None
    eigenvalues: Tensor | None = None


def named_basis(options: Any, context: Any) -> Basis:
    """The basis the options name; NADs are computed with the estimator of the role `directions`, or were stored."""
    shape = context.architecture.shape
    size = torch.Size(shape).numel()
    if options.basis == "nad":
        return nad_basis(options, context, size)
    if options.basis == "canonical":
        return Basis(torch.eye(size, dtype=torch.float64, device="cpu"))
    if options.basis == "random":
        noise = torch.randn(
            size, size, generator=context.generator("basis"), dtype=torch.float64, device="cpu"
        )
        return Basis(torch.linalg.qr(noise).Q.T)
    family = cosine_family if options.basis == "dft-cosine" else sine_family
    waves = family(_plane(shape), device="cpu", dtype=torch.float64)
    return Basis(waves.vectors, frequencies=waves.frequencies)


def _plane(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The grid a Fourier basis lives on: the input without its single channel."""
    if len(shape) == 3 and shape[0] != 1:
        raise penchant.Error(f"a DFT basis needs inputs of one channel, found shape {list(shape)}")
    return shape[1:] if len(shape) == 3 else shape


def nad_basis(options: Any, context: Any, size: int) -> Basis:
    if options.directions is not None:
        vectors = torch.as_tensor(options.directions, dtype=torch.float64, device="cpu")
        if vectors.ndim != 2 or vectors.shape[1] != size:
            raise penchant.Error(
                f"directions must be rows of {size} numbers, found an array of shape {list(vectors.shape)}"
            )
        return Basis(vectors / vectors.norm(dim=1, keepdim=True))
    found = context.estimator("directions")(networks=options.samples)
    context.conventions.update(found.conventions)
    return Basis(found.vectors.cpu(), eigenvalues=found.eigenvalues.cpu())


def chosen_indices(options: Any, basis: Basis) -> list[int]:
    """The indices asked for; one at or beyond the rank of the estimate is refused with the number of networks needed."""
    count = len(basis.vectors)
    indices = list(options.indices) or list(range(0, count, options.every))
    if max(indices) >= count:
        need = (
            f"; samples must be at least {max(indices) + 1}"
            if options.basis == "nad" and options.directions is None
            else ""
        )
        raise penchant.Error(
            f"the basis {options.basis} has {count} directions, found index {max(indices)}{need}"
        )
    if len(set(indices)) < len(indices):
        raise penchant.Error(f"indices must differ, found {indices}")
    return indices
