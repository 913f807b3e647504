"""Features or kernels of the user's own, which stand for the layers of a network."""

from typing import NamedTuple

import penchant
import torch
from penchant_numerics.data import count_aligned
from torch import Tensor

from penchant_representations.declarations import RepresentationSimilarity
from penchant_representations.representation_similarity.layer_grams import (
    centred_gram,
    centred_kernel,
)

_ASYMMETRY = 1e-6  # of the largest entry: what a symmetric kernel differs by


class GivenArrays(NamedTuple):
    """Arrays by name; the number of their samples."""

    arrays: dict[str, Tensor]
    samples: int
    are_kernels: bool

    @property
    def layers(self) -> list[str]:
        """The names of the arrays."""
        return list(self.arrays)

    def grams(self, rows: Tensor) -> Tensor:
        """Centred Gram matrices (arrays, n, n) of some samples."""
        if self.are_kernels:
            return torch.stack(
                [centred_kernel(each[rows][:, rows]) for each in self.arrays.values()]
            )
        return torch.stack([centred_gram(name, each[rows]) for name, each in self.arrays.items()])


def given_arrays(options: RepresentationSimilarity, context: penchant.Context) -> GivenArrays:
    """The arrays of the options on the device, once they are known to fit."""
    (kind,) = options.arrays_given
    given = getattr(options, kind)
    samples = count_aligned(given, options.sample_ids)
    are_kernels = kind == "kernels"
    # Gram matrices are in double precision, features in that of the run, as a network's are.
    dtype = torch.float64 if are_kernels else context.dtype
    arrays = {}
    for name, each in given.items():
        array = torch.as_tensor(each, device=context.device, dtype=dtype)
        if are_kernels:
            _check_kernel(name, array)
        elif options.positions == "mean" and array.ndim > 2:
            raise penchant.Error(
                f'positions = "mean" needs features (samples, features), found {name!r} with the '
                f"shape {tuple(array.shape)}: give their mean over positions"
            )
        arrays[name] = array.reshape(len(array), -1)
    return GivenArrays(arrays, samples, are_kernels)


def _check_kernel(name: str, kernel: Tensor) -> None:
    shape = tuple(kernel.shape)
    if kernel.ndim != 2 or shape[0] != shape[1]:
        raise penchant.Error(f"the kernel {name!r} must be (samples, samples), found {shape}")
    difference = float((kernel - kernel.T).abs().max())
    if difference > _ASYMMETRY * float(kernel.abs().max()):
        raise penchant.Error(
            f"the kernel {name!r} must be symmetric, found entries that differ from their mirror "
            f"image by up to {difference:.3g}"
        )
