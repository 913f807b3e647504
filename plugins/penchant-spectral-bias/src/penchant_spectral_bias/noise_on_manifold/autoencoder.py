"""A denoising autoencoder: its reconstructions lie on a curved manifold of a few dimensions."""

import torch
from penchant_numerics.training import constructed, outputs
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
    """Reconstructions by an autoencoder that was trained on the inputs.

    It sees inputs with Gaussian noise and is trained, with Adam, to give them back without.

    Args:
        inputs: Inputs (samples, *shape).
        features: Size of the narrowest layer.
        width: Hidden units of encoder and decoder.
        noise: Standard deviation of the noise.
        steps: Steps of training.
        batch: Samples per step.
        learning_rate: Of Adam.
        generator: A generator on the CPU: of parameters, batches and noise.

    Returns:
        Reconstructions (samples, *shape) and their mean squared error.
    """
    flat = inputs.flatten(1)
    network = _fresh(flat.shape[1], features, width, generator.initial_seed())
    network = network.to(flat.device, flat.dtype)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    count = min(batch, len(flat))
    for _ in range(steps):
        # a batch, and the same with noise
        rows = torch.randint(len(flat), (count,), generator=generator, device="cpu")
        clean = flat[rows.to(flat.device)]
        sampled = torch.randn(clean.shape, generator=generator, device="cpu")
        disturbed = clean + noise * sampled.to(clean.device, clean.dtype)

        optimizer.zero_grad(set_to_none=True)
        residual = network(disturbed) - clean
        residual.square().mean().backward()
        optimizer.step()

    # reconstructed without noise
    restored = outputs(network, flat)
    error = (restored - flat).double().square().mean()
    return restored.reshape(inputs.shape), float(error)


def _fresh(size: int, features: int, width: int, seed: int) -> nn.Module:
    def make() -> nn.Module:
        return nn.Sequential(
            nn.Linear(size, width),
            nn.ReLU(),
            nn.Linear(width, features),
            nn.Linear(features, width),
            nn.ReLU(),
            nn.Linear(width, size),
        )

    return constructed(make, seed)
