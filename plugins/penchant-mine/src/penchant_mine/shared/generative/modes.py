"""Which modes of the data are among generated samples.

Points are judged by one normal per mode, stacked digits by a classifier of single channels that is
trained on the data in the run.

Small classifiers of real samples, trained in the run to judge what is generated.

Images as generative models take them, and how many samples are stored for figures.

Counts of modes over trainings, as quantities.
"""

import math
from collections.abc import Callable, Sequence

import attrs
import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.statistics import both_p_value, p_value
from penchant_numerics.training import constructed, outputs
from torch import Generator, Tensor, nn
from torch.nn import functional

from penchant_mine.shared.generative.networks import Downwards

FARTHEST = 4.0  # standard deviations of a mode beyond which a point belongs to none
DIGITS = 10
BATCH = 64
LEARNING_RATE = 1e-3
CHUNK = 500  # images judged at once

Judge = Callable[[Tensor], Tensor]  # samples -> a number for each: its mode, -1 for none


def normal_judge(inputs: Tensor, labels: Tensor, modes: int) -> Judge:
    """For points: within four standard deviations of the likeliest mode, a point belongs to it."""
    flat = inputs.flatten(1).to(torch.float64)
    size = flat.shape[1]
    identity = torch.eye(size, device=flat.device, dtype=flat.dtype)
    means, roots, log_dets = [], [], []
    for mode in range(modes):
        own = flat[labels == mode]
        if len(own) <= size:
            raise Refusal(
                f"expected more than {size} samples of every mode, found {len(own)} of mode {mode}"
            )
        factor = _factor(own, identity)
        means.append(own.mean(0))
        roots.append(torch.linalg.solve_triangular(factor, identity, upper=False))
        log_dets.append(factor.diagonal().log().sum())
    mean = torch.stack(means)
    root = torch.stack(roots)
    log_det = torch.stack(log_dets)

    def judge(samples: Tensor) -> Tensor:
        points = samples.flatten(1).to(torch.float64)
        away = points[:, None] - mean  # (samples, modes, size)
        squared = torch.einsum("mij,smj->smi", root, away).square().sum(2)
        # The likeliest mode is not always the nearest one.
        unlikely = squared / 2 + log_det
        likeliest = unlikely.argmin(1)
        distance = squared.gather(1, likeliest[:, None])[:, 0]
        inside = distance <= FARTHEST**2
        return torch.where(inside, likeliest, -1)

    return judge


def _factor(points: Tensor, identity: Tensor) -> Tensor:
    """Cholesky factor of the covariance; nearly flat modes are given a little width."""
    covariance = torch.cov(points.T).reshape(identity.shape)
    widened = covariance + 1e-9 * identity
    factor: Tensor = torch.linalg.cholesky(widened)
    return factor


def uniform_cloud(inputs: Tensor, count: int, generator: Generator) -> Tensor:
    """Points (count, size) spread evenly over the box that holds the inputs."""
    lowest, highest = inputs.aminmax(dim=0)
    sampled = torch.rand((count, *inputs.shape[1:]), generator=generator, device="cpu")
    return lowest + (highest - lowest) * sampled.to(inputs)


def digit_network(size: Sequence[int], channels: Sequence[int]) -> nn.Module:
    """A small convolutional classifier of single channels, height x width."""
    shape = (1, *size)
    return Downwards(shape, channels, DIGITS)


def train_digit_network(
    inputs: Tensor, labels: Tensor, *, steps: int, channels: Sequence[int], generator: Generator
) -> tuple[nn.Module, float]:
    """Train it on stacked digits.

    Args:
        inputs: Images (samples, channels, height, width).
        labels: Digits of the channels read as a number, first channel first.
        steps: Training steps.
        channels: Feature maps of the network.
        generator: For its weights and batches.

    Returns:
        The network, and how often it is right about all channels of held-out samples.
    """
    count, depth = inputs.shape[:2]
    positions = [DIGITS ** (depth - 1 - position) for position in range(depth)]
    digits = torch.stack(
        [labels // position % DIGITS for position in positions], 1
    )  # (samples, channels)
    # A tenth of the samples is held out, to say how good it is.
    held_out = max(1, count // 10)
    # The seed of the stream makes the weights, the stream itself the batches.
    network = constructed(
        lambda: digit_network(inputs.shape[2:], channels), generator.initial_seed()
    )
    network = network.to(inputs.device)

    def batch() -> tuple[Tensor, Tensor]:
        rows = torch.randint(held_out, count, (BATCH,), generator=generator, device="cpu")
        rows = rows.to(inputs.device)
        return _single_channels(inputs[rows]), digits[rows].flatten()

    train_classifier(network, batch, steps=steps, learning_rate=LEARNING_RATE)
    right = digit_judge(network)(inputs[:held_out]) == labels[:held_out]
    return network, float(right.double().mean())


def _single_channels(images: Tensor) -> Tensor:
    return images.flatten(0, 1)[:, None]


def digit_judge(network: nn.Module) -> Judge:
    """For stacked digits: the digits of all channels read as a number."""

    def one_chunk(samples: Tensor) -> Tensor:
        logits = network(_single_channels(samples))
        depth = samples.shape[1]
        digits: Tensor = logits.argmax(1).reshape(-1, depth)
        return digits

    def judge(samples: Tensor) -> Tensor:
        numbers = outputs(one_chunk, samples, chunk=CHUNK)
        depth = samples.shape[1]
        # The first channel has the highest position.
        powers = torch.arange(depth - 1, -1, -1, device=numbers.device)
        positions = numbers * DIGITS**powers
        return positions.sum(1)

    return judge


def digit_sureness(network: nn.Module) -> Judge:
    """For stacked digits: the probability of the least sure digit of all channels."""

    def one_chunk(samples: Tensor) -> Tensor:
        probabilities = network(_single_channels(samples)).softmax(1)
        depth = samples.shape[1]
        least: Tensor = probabilities.amax(1).reshape(-1, depth).amin(1)
        return least

    return lambda samples: outputs(one_chunk, samples, chunk=CHUNK)


def coverage(modes: Tensor, share: Tensor, *, captured: float) -> dict[str, float]:
    """How samples are spread over the modes of the data.

    Args:
        modes: Mode of every sample (samples,), -1 for none.
        share: Share of the data in every mode (modes,).
        captured: A mode is captured if it has at least this share of the samples that it would
            have if all were sampled from the data.

    Returns:
        `modes` that are captured, `modes-covered`, captured if only samples that belong to a mode
        count, `modes-seen` that have a sample, `quality`, the share of samples that belong to a
        mode, `fullest`, the share of these in the fullest mode, and `kl`, KL(samples | data) over
        these; if there are none, that of samples all in the rarest mode.
    """
    inside = modes[modes >= 0]
    counts = torch.bincount(inside, minlength=len(share)).to(torch.float64)
    total = float(counts.sum())
    # Modes that the data lack would make the KL infinite.
    smallest = share[share > 0].min()
    known = share.clamp(min=float(smallest) / 2)
    if not total:
        rarest = -math.log(float(known.min()))
        none = dict.fromkeys(("modes", "modes-covered", "modes-seen", "quality", "fullest"), 0.0)
        return {**none, "kl": rarest}
    p = counts / total
    # All samples count, not only those near a mode: a cloud has few near each.
    due = captured * share
    has_its_share = (counts > 0) & (counts >= due * len(modes))
    is_covered = (counts > 0) & (counts >= due * total)
    return {
        "modes": float(has_its_share.sum()),
        "modes-covered": float(is_covered.sum()),
        "modes-seen": float((counts > 0).sum()),
        "kl": float(torch.special.xlogy(p, p / known).sum()),
        "quality": total / len(modes),
        "fullest": float(p.max()),
    }


Classify = Callable[[Tensor], Tensor]  # samples -> class of each


def train_classifier(
    network: nn.Module,
    batch: Callable[[], tuple[Tensor, Tensor]],
    *,
    steps: int,
    learning_rate: float,
) -> nn.Module:
    """Train in place on batches (inputs, labels), as `batch` gives them; then evaluation mode."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    for _ in range(steps):
        # The caller draws batches, from its own stream.
        inputs, labels = batch()
        loss = functional.cross_entropy(network(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return network.eval()


def classify_with(network: nn.Module, *, chunk: int) -> Classify:
    """The class that a network gives each sample."""

    def classify(samples: Tensor) -> Tensor:
        return outputs(network, samples, chunk=chunk).argmax(1)

    return classify


POINTS = 2000
PICTURES = 64


def scaled(inputs: Tensor) -> Tensor:
    """Pixels from [0, 1] to [-1, 1]; points as they are."""
    if inputs.ndim == 4:
        return 2 * inputs - 1
    return inputs


def shown(samples: Tensor) -> Tensor:
    """The first samples, as many as a figure shows."""
    if samples.ndim == 4:
        return samples[:PICTURES]
    return samples[:POINTS]


HALF_A_MODE = 0.5  # what a count of whole modes leaves open


def mode_count(values: list[float], null: float) -> penchant.Quantity:
    """A mean count of modes; trainings that agree by chance leave half a mode open, each."""
    quantity = penchant.Quantity.of(values, over="trainings, at least half a mode each", null=null)
    least = HALF_A_MODE / math.sqrt(len(values))
    stderr = max(quantity.stderr or 0.0, least)
    # Counts end at the number of modes: their distances from the null have no long tail above, as
    # factors would have, of which a single collapsed training makes an endless one.
    away = penchant.Quantity.of([value - null for value in values], over="trainings", null=0.0)
    p = away.p and both_p_value(away.p, p_value(quantity.value - null, stderr, quantity.df))
    return attrs.evolve(quantity, stderr=stderr, p=p)
