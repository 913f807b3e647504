"""Orthonormal bases of the input, by name."""

import math
from typing import Any, NamedTuple, Protocol

import penchant
import torch
from penchant_numerics.device import HOST
from penchant_numerics.inputs import cosine_family, sine_family
from penchant_numerics.roles import chosen_indices, refuse_zero
from torch import Tensor


class Basis(NamedTuple):
    """Unit vectors of the input (rows), each with a frequency or an eigenvalue where it has one."""

    vectors: Tensor
    frequencies: Tensor | None = None
    eigenvalues: Tensor | None = None


class BasisOptions(Protocol):
    """The options of a probe that takes some directions of a basis."""

    @property
    def basis(self) -> str:
        """Its name."""

    @property
    def indices(self) -> tuple[int, ...] | None:
        """Which directions; None takes every `every`-th."""

    @property
    def every(self) -> int:
        """The stride over directions."""

    @property
    def directions(self) -> Any:
        """Stored directions (rows) for the basis `nad`; None where there are none."""


def named_basis(context: penchant.Context[BasisOptions], *, networks: int) -> Basis:
    """The basis that the options name; `networks` are sampled for NADs that were not stored."""
    options = context.options
    shape = context.architecture.shape
    size = math.prod(shape)
    if options.basis == "nad":
        return nad_basis(options.directions, context, networks=networks)
    # Bases that do not depend on the architecture.
    if options.basis == "canonical":
        return Basis(torch.eye(size, **HOST))
    if options.basis == "random":
        noise = torch.randn(size, size, generator=context.generator("basis"), **HOST)
        return Basis(torch.linalg.qr(noise).Q.T)
    family = cosine_family if options.basis == "dft-cosine" else sine_family
    waves = family(_plane(shape), **HOST)
    return Basis(waves.vectors, frequencies=waves.frequencies)


def _plane(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The grid a Fourier basis lives on: the input without its single channel."""
    if len(shape) < 3:
        return shape
    if shape[0] != 1:
        actual = f"found shape {list(shape)}"
        raise penchant.Error(f"a DFT basis needs inputs of one channel, {actual}")
    return shape[1:]


def nad_basis(stored: object, context: penchant.Context, *, networks: int) -> Basis:
    """NADs that were stored, or those that the estimator of the role `directions` finds."""
    if stored is None:
        nads = context.estimator("directions")(networks=networks)
        refuse_zero(nads.eigenvalues, nads.vectors.shape[1])
        return Basis(nads.vectors.cpu(), eigenvalues=nads.eigenvalues.cpu())
    # What was stored must fit, and may have lost its length in rounding.
    size = math.prod(context.architecture.shape)
    vectors = torch.as_tensor(stored, **HOST)
    if vectors.ndim != 2 or vectors.shape[1] != size:
        shape = list(vectors.shape)
        raise penchant.Error(
            f"directions must be rows of {size} numbers, found an array of shape {shape}"
        )
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    if len(vectors) == size - 1:
        context.conventions["directions"] = (
            f"{size - 1} were given; the last, of either sign, is the one orthogonal to them"
        )
        vectors = torch.cat([vectors, _left(vectors)])
    return Basis(vectors)


def _left(vectors: Tensor) -> Tensor:
    """The one direction (1, D) that D - 1 independent rows leave: published NADs lack the last."""
    _, singular, right = torch.linalg.svd(vectors, full_matrices=True)
    if float(singular[-1]) < 1e-6 * float(singular[0]):
        raise penchant.Error(
            f"{len(vectors)} directions of {vectors.shape[1]} inputs determine the last only if "
            f"they are independent, found a smallest singular value of {float(singular[-1]):.1e}"
        )
    last: Tensor = right[-1:]
    return last


def most_directions(context: penchant.Context, *, networks: int) -> int:
    """How many directions the estimator can find at most, before anything is sampled.

    An estimator that takes one vector per network finds no more than there are networks.
    """
    size = math.prod(context.architecture.shape)
    estimator = context.estimator("directions")
    vectors: int | None = getattr(estimator.options, "vectors_a_network", None)
    if vectors is None:
        return size
    return min(size, vectors * networks)


def check_indices(context: penchant.Context[BasisOptions], *, networks: int) -> None:
    """Say before networks are sampled that a direction does not exist, or needs more of them."""
    options = context.options
    if options.basis != "nad" or options.directions is not None or not options.indices:
        return
    # No basis has more vectors than the input has values.
    size = math.prod(context.architecture.shape)
    last = max(options.indices)
    if last >= size:
        raise penchant.Error(f"the input has {size} directions, found index {last}")
    most = most_directions(context, networks=networks)
    if last >= most:
        need = f"networks must be at least {last + 1}"
        raise penchant.Error(
            f"{networks} networks give {most} directions, found index {last}; {need}"
        )


def indices_of(options: BasisOptions, basis: Basis) -> list[int]:
    """The requested indices; one beyond the basis is refused."""
    estimated = options.basis == "nad" and options.directions is None
    return chosen_indices(
        options.indices,
        len(basis.vectors),
        of=f"the basis {options.basis}",
        every=options.every,
        hint="; more networks give more directions" if estimated else "",
    )
