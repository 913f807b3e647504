r"""The difference of two networks' weights, layer by layer, and what it is compared with.

Beside the spectrum of the difference D there are two numbers relative to the base W: the norm
$\|D\| / \|W\|$, and the share of the squares of D that lie between the leading tenth of the base's
left and right singular vectors, $\|U_k' D V_k\|_F^2 / \|D\|_F^2$. The null of all is a difference
of the same norm in a random direction, a matrix of independent normal entries: there the share is
$k^2 / (n m)$ on average.

Reference: Shuttleworth et al., LoRA vs full fine-tuning: an illusion of equivalence, 2024
(singular vectors of the difference beside those of the base).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from penchant_numerics import Refusal
from torch import Generator, Tensor

from penchant_weights.weight_spectra.stored_tensors import StoredTensor

RELATIVE = ("relative-change", "base-overlap")
_LISTED = 3  # names in a message
_LEADING = 10  # one in so many of the base's singular vectors leads


class Pair(NamedTuple):
    """A tensor and its base, neither of them read."""

    name: str
    tuned: StoredTensor  # the whole tensor, or the difference itself
    base: StoredTensor
    is_difference: bool

    @property
    def shorter_side(self) -> int:
        """Of the matrix."""
        return min(self.base.shape[0], math.prod(self.base.shape[1:]))

    def read(self) -> tuple[Tensor, Tensor]:
        """The difference and the base in double precision, as matrices."""
        base = _matrix(self.base)
        tuned = _matrix(self.tuned)
        return (tuned if self.is_difference else tuned - base), base


def _matrix(stored: StoredTensor) -> Tensor:
    return stored.read().detach().to("cpu", torch.float64).flatten(1)


def pairs(
    tuned: Mapping[str, StoredTensor],
    base: Mapping[str, StoredTensor],
    products: Mapping[str, StoredTensor],
) -> Iterator[Pair]:
    """What both files have, in the order of the first; every name must be in both.

    Args:
        tuned: Whole tensors.
        base: Tensors of the base.
        products: Differences that are stored as factors.

    Raises:
        Refusal: Where names or shapes differ.
    """
    _check_names({**tuned, **products}, base, both=not products)
    for is_difference, tensors in ((False, tuned), (True, products)):
        for name, tensor in tensors.items():
            if tensor.shape != base[name].shape:
                raise Refusal(
                    f"{name} has the shape {tensor.shape} in the file and {base[name].shape} in "
                    "the base, expected the same"
                )
            yield Pair(name, tensor, base[name], is_difference)


def _check_names(
    tuned: Mapping[str, StoredTensor], base: Mapping[str, StoredTensor], *, both: bool
) -> None:
    """Refuse names that only one of the files has; an adapter need not change every tensor."""
    only_tuned = [name for name in tuned if name not in base]
    only_base = [name for name in base if name not in tuned] if both else []
    if only_tuned or only_base:
        first = _listed(only_tuned) or _listed(list(tuned))
        second = _listed(only_base) or _listed(list(base))
        raise Refusal(
            "the file and its base must have the same tensors, found "
            f"{len(only_tuned)} only in the file and {len(only_base)} only in the base: "
            f"the file has {first}, the base {second}; choose by `layer_names`"
        )


def _listed(names: list[str]) -> str:
    more = ", ..." if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def random_direction(difference: Tensor, *, generator: Generator) -> Tensor:
    """A difference of the same norm in a random direction."""
    normal = torch.randn(
        difference.shape, generator=generator, dtype=difference.dtype, device="cpu"
    )
    scaled: Tensor = normal * (difference.norm() / normal.norm())
    return scaled


class Base(NamedTuple):
    """What of the base a difference is compared with."""

    norm: float
    left: Tensor  # (rows, k), the leading singular vectors
    right: Tensor  # (k, columns)

    @classmethod
    def of(cls, base: Tensor) -> Base:
        """The largest singular value of the base, and the leading tenth of its vectors."""
        left, values, right = torch.linalg.svd(base, full_matrices=False)
        leading = max(1, len(values) // _LEADING)
        # copies, so that the other vectors are released
        return cls(float(values[0]), left[:, :leading].clone(), right[:leading].clone())

    def compared(self, difference: Tensor, largest: float) -> dict[str, float]:
        """The numbers of `RELATIVE`; `largest` is the difference's largest singular value."""
        inside = self.left.T @ difference @ self.right.T
        return {
            "relative-change": largest / self.norm,
            "base-overlap": float(inside.square().sum() / difference.square().sum()),
        }
