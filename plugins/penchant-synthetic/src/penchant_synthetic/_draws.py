"""Draws of which more extend fewer: rows come in blocks of a fixed size, each part from a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

BLOCK = 64


def streams(generator: Generator, count: int) -> list[Generator]:
    """Independent generators, so that how much is drawn from one changes nothing in another."""
    seeds = torch.randint(2**63 - 1, (count,), generator=generator, device="cpu")
    return [torch.Generator(device="cpu").manual_seed(int(seed)) for seed in seeds]


def normal_rows(
    count: int,
    width: int,
    generator: Generator,
    *,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Standard normal rows (count, width); 200 of them begin with the 100 that the same generator gives.

    A transform acts on the float64 rows of one block at a time, because a product of other size may round otherwise.
    """
    blocks = _blocks(torch.randn, count, width, generator)
    return torch.cat(
        [block if transform is None else transform(block.to(torch.float64)) for block in blocks]
    )[:count]


def balanced_labels(count: int, classes: int, generator: Generator) -> Tensor:
    """Labels (count,): one permutation of the classes after another, so that every such block is balanced."""
    blocks = _blocks(torch.rand, count // classes, classes, generator)
    return torch.cat([block.argsort(dim=1) for block in blocks]).flatten()[:count]


def _blocks(
    draw: Callable[..., Tensor], count: int, width: int, generator: Generator
) -> Iterator[Tensor]:
    """Whole blocks of rows, at least `count` of them: one draw of 20 numbers is not two of 10."""
    for _ in range(-(-count // BLOCK)):
        yield draw(BLOCK, width, generator=generator, device="cpu", dtype=torch.float32)
