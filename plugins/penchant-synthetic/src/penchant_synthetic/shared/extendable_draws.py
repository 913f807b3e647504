"""Draws of which more extend fewer: rows come in blocks of a fixed size."""

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

BLOCK = 64  # rows


def normal_rows(
    count: int,
    width: int,
    generator: Generator,
    *,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Standard normal rows; 200 of them begin with the 100 that the same generator gives.

    Args:
        count: How many rows.
        width: Numbers in a row.
        generator: On the CPU.
        transform: Acts on the float64 rows of one block at a time, because a product of another
            size may round otherwise.

    Returns:
        Rows (count, width).
    """
    blocks = []
    # Block by block, so that what a row is does not depend on how many there are.
    for block in _blocks(torch.randn, count, width, generator):
        if transform is not None:
            block = transform(block.to(torch.float64))
        blocks.append(block)
    return torch.cat(blocks)[:count]


def balanced_labels(count: int, classes: int, generator: Generator) -> Tensor:
    """Labels (count,): permutations of the classes one after another, so that each is balanced."""
    permutations = []
    # Numbers in random order, one row per permutation.
    for block in _blocks(torch.rand, count // classes, classes, generator):
        permutations.append(block.argsort(dim=1))
    labels = torch.cat(permutations).flatten()
    return labels[:count]


def _blocks(
    draw: Callable[..., Tensor], count: int, width: int, generator: Generator
) -> Iterator[Tensor]:
    """Whole blocks of rows, at least `count` of them: one draw of 20 numbers is not two of 10."""
    needed = -(-count // BLOCK)
    for _ in range(needed):
        yield draw(BLOCK, width, generator=generator, device="cpu", dtype=torch.float32)
