"""Which modes of the data are among generated samples: judged by a classifier that is trained on the data in the run."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional

from penchant_mine._adversaries import Downwards, seeded

FARTHEST = 4.0  # standard deviations of a mode beyond which a point belongs to none
Judge = Callable[[Tensor], Tensor]  # samples -> mode of each, -1 for none


def normal_judge(inputs: Tensor, labels: Tensor, modes: int) -> Judge:
    """For points: one normal per mode; a point within four standard deviations of the likeliest mode belongs to it."""
    flat = inputs.flatten(1).to(torch.float64)
    size = flat.shape[1]
    means, roots, log_dets = [], [], []
    for mode in range(modes):
        own = flat[labels == mode]
        covariance = torch.cov(own.T).reshape(size, size) + 1e-9 * torch.eye(
            size, device=flat.device, dtype=flat.dtype
        )
        factor = torch.linalg.cholesky(covariance)
        means.append(own.mean(0))
        roots.append(
            torch.linalg.solve_triangular(
                factor, torch.eye(size, device=flat.device, dtype=flat.dtype), upper=False
            )
        )
        log_dets.append(factor.diagonal().log().sum())
    mean, root, log_det = torch.stack(means), torch.stack(roots), torch.stack(log_dets)

    def judge(samples: Tensor) -> Tensor:
        away = samples.flatten(1).to(torch.float64)[:, None] - mean  # (samples, modes, size)
        squared = torch.einsum("mij,smj->smi", root, away).square().sum(2)
        nearest = (squared / 2 + log_det).argmin(1)
        inside = squared.gather(1, nearest[:, None])[:, 0] <= FARTHEST**2
        return torch.where(inside, nearest, -1)

    return judge


def digit_judge(
    inputs: Tensor, labels: Tensor, *, steps: int, channels: tuple[int, ...], generator: Generator
) -> tuple[Judge, float]:
    """For stacked digits: a small convolutional classifier of single channels, and its accuracy on samples kept from training."""
    count, depth = inputs.shape[:2]
    digits = torch.stack(
        [labels // 10 ** (depth - 1 - place) % 10 for place in range(depth)], 1
    )  # (samples, channels)
    kept = max(1, count // 10)
    network = seeded(
        generator.initial_seed(),
        lambda: Downwards((1, *inputs.shape[2:]), channels, 10),
        inputs.device,
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(kept, count, (64,), generator=generator, device="cpu").to(
            inputs.device
        )
        loss = functional.cross_entropy(
            network(inputs[rows].flatten(0, 1)[:, None]), digits[rows].flatten()
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    network.eval()

    @torch.no_grad()
    def judge(samples: Tensor) -> Tensor:
        found = torch.cat(
            [
                network(part.flatten(0, 1)[:, None]).argmax(1).reshape(-1, depth)
                for part in samples.split(500)
            ]
        )
        place = 10 ** torch.arange(depth - 1, -1, -1, device=found.device)
        return (found * place).sum(1)

    return judge, float((judge(inputs[:kept]) == labels[:kept]).double().mean())


def coverage(found: Tensor, modes: int, share: Tensor) -> dict[str, float]:
    """Modes captured, KL of the samples' modes to those of the data, and the share of samples that belong to a mode.

    KL(samples | data) over the samples that belong to a mode; if none does, that of samples all in the rarest mode.
    """
    counts = torch.bincount(found[found >= 0], minlength=modes).to(torch.float64)
    total = float(counts.sum())
    known = share.clamp(min=float(share[share > 0].min()) / 2)
    if not total:
        return {"modes": 0.0, "kl": -math.log(float(known.min())), "quality": 0.0}
    p = counts / total
    kl = float(torch.special.xlogy(p, p / known).sum())
    return {"modes": float((counts > 0).sum()), "kl": kl, "quality": total / len(found)}
