"""A denoising autoencoder: its reconstructions lie on a curved manifold of a few dimensions."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn


def reconstructions(
    inputs: Tensor,
    *,
    features: int,
    width: int,
    noise: float,
    steps: int,
    batch: int,
    learning_rate: float,
    generator: Generator,
) -> tuple[Tensor, float]:
    """Reconstructions (samples, *shape) by an autoencoder with so many features, and their mean squared error.

    It sees inputs with Gaussian noise and is trained, with Adam, to give them back without; nothing touches the global random
    state.
    """
    flat = inputs.flatten(1)
    network = _drawn(flat.shape[1], features, width, generator).to(flat.device, flat.dtype)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    for _ in range(steps):
        rows = torch.randint(
            len(flat), (min(batch, len(flat)),), generator=generator, device="cpu"
        ).to(flat.device)
        clean = flat[rows]
        disturbed = clean + noise * torch.randn(clean.shape, generator=generator, device="cpu").to(
            clean.device, clean.dtype
        )
        optimizer.zero_grad(set_to_none=True)
        (network(disturbed) - clean).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        found = torch.cat([network(part) for part in flat.split(1024)])
    return found.reshape(inputs.shape), float((found - flat).double().square().mean())


def _drawn(size: int, features: int, width: int, generator: Generator) -> nn.Module:
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(generator.initial_seed())
        return nn.Sequential(
            *(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, features)),
            *(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, size)),
        )
