"""Images that no generator made: what a classifier of stacked digits sees in them is a null."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def image_nulls(images: Tensor, count: int, generator: Generator) -> dict[str, Tensor]:
    """Images without digits, or with two in one, of the size and range of the given ones.

    Args:
        images: Real images (samples, channels, height, width) in [-1, 1].
        count: How many of each kind.
        generator: On the CPU.

    Returns:
        `noise`, uniform and independent pixels; `permuted`, real images with the pixels of each
        channel in an order of their own; `mean-of-two`, the mean of two real images.
    """
    shape = images.shape[1:]
    noise = 2 * torch.rand((count, *shape), generator=generator, device="cpu") - 1
    one, other = torch.randint(len(images), (2, count), generator=generator, device="cpu")
    flat = images[one.to(images.device)].flatten(2)  # (count, channels, pixels)
    scores = torch.rand(flat.shape, generator=generator, device="cpu")
    order = scores.argsort(2).to(images.device)
    permuted = flat.gather(2, order).reshape(count, *shape)
    mean = (images[one.to(images.device)] + images[other.to(images.device)]) / 2
    return {"noise": noise.to(images), "permuted": permuted, "mean-of-two": mean}
