"""Numbers of a tangent kernel: effective rank, trace, trace ratios, alignment with labels.

Standard errors over samples are the jackknife's: samples are left out in groups, and the kernel of
the others is a block of the whole kernel, centred anew.

Tangent kernels in a precision that centring leaves something of.

Deep networks give all samples nearly the same features. Centring subtracts what they have in
common, and what is left may be smaller than the rounding of single precision.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.inputs import effective_rank
from penchant_numerics.layers import centre, layer_kernels
from penchant_numerics.linear_algebra import trace_ratios
from penchant_numerics.statistics import jackknife
from torch import Tensor, nn

from penchant_tangent.shared.kernel_samples import alignment, centred_targets


class Summary(NamedTuple):
    """A kernel on some samples: all eigenvalues, and numbers by name."""

    eigenvalues: Tensor
    numbers: dict[str, float]


def summarise(K: Tensor, targets: Tensor, *, centring: str, ratios: Sequence[int]) -> Summary:
    """Summarise a kernel.

    Args:
        K: The kernel (n C, n C), not centred.
        targets: What outputs should be, (n, C), not centred.
        centring: As in `kernel_alignment.centre`.
        ratios: The k of trace ratios; beyond all eigenvalues the ratio is 1.

    Returns:
        Eigenvalues, descending, and `effective-rank`, `cka`, `cka-uncentred`, `trace` and
        `trace-ratio-k` by name.
    """
    # the spectrum
    centred = centre(K.double(), outputs=targets.shape[1], centring=centring)
    eigenvalues = torch.linalg.eigvalsh(centred).flip(0)
    numbers = {
        "effective-rank": effective_rank(eigenvalues),
        "cka": float(alignment(centred, centred_targets(targets, centring))),
        "cka-uncentred": float(alignment(K.double(), targets)),
        "trace": float(centred.trace()),
    }
    # shares of the leading eigenvalues
    shares = trace_ratios(eigenvalues)
    for k in ratios:
        last = min(k, len(shares)) - 1
        numbers[f"trace-ratio-{k}"] = float(shares[last])
    return Summary(eigenvalues, numbers)


def even_spectrum(
    samples: int, outputs: int, *, centring: str, ratios: Sequence[int]
) -> dict[str, float]:
    """What a kernel that prefers no direction gives: equal eigenvalues, but for centring.

    Args:
        samples: n.
        outputs: C.
        centring: As in `kernel_alignment.centre`.
        ratios: The k of trace ratios.

    Returns:
        `effective-rank` and `trace-ratio-k` by name.

    >>> even_spectrum(5, 2, centring="outputs", ratios=[2, 8])
    {'effective-rank': 8.0, 'trace-ratio-2': 0.25, 'trace-ratio-8': 1.0}
    """
    # each mean that is taken away takes a direction with it
    means = {"outputs": outputs, "all": 1, "none": 0}[centring]
    left = samples * outputs - means
    numbers = {"effective-rank": float(left)}
    for k in ratios:
        numbers[f"trace-ratio-{k}"] = min(1.0, k / left)
    return numbers


def time_constants(eigenvalues: Tensor) -> Tensor:
    """Steps in which gradient descent with rate 1 / lambda_1 shrinks an error by a factor of e.

    tau_j = -1 / log(1 - lambda_j / lambda_1) along eigenvector j; the thesis prints its inverse,
    below (33). 0 for the first, and NaN where an eigenvalue is zero to rounding or below.

    >>> time_constants(torch.tensor([2.0, 1.0, 0.0], device="cpu")).tolist()
    [0.0, 1.4426950408889634, nan]
    """
    values = eigenvalues.double()
    shares = values / values[0]
    rounding = len(values) * torch.finfo(torch.float64).eps
    constants = -1 / torch.log1p(-shares)
    return torch.where(shares > rounding, constants + 0.0, torch.nan)


def negative_share(eigenvalues: Tensor) -> float:
    """How much of a kernel's spectrum is negative: a Gram matrix has that from rounding only.

    >>> negative_share(torch.tensor([3.0, -1.0], device="cpu"))
    0.25
    """
    size = eigenvalues.abs().sum()
    if not bool(size > 0):
        return 0.0
    negative = -eigenvalues.clamp(max=0).sum()
    return float(negative / size)


def without_groups(count: int, groups: int, *, device: torch.device) -> Iterator[Tensor]:
    """The samples that stay where one of `groups` groups is left out, for each of them."""
    positions = torch.arange(count, device=device)
    own = positions % groups
    for group in range(groups):
        others = own != group
        yield positions[others]


def among(K: Tensor, chosen: Tensor, *, outputs: int) -> Tensor:
    """The kernel (m C, m C) among some samples of a kernel (n C, n C)."""
    samples = len(K) // outputs
    four = K.reshape(samples, outputs, samples, outputs)

    # rows first, then columns
    rows = four[chosen]
    both = rows[:, :, chosen]
    size = len(chosen) * outputs
    return both.reshape(size, size)


def summary_stderr(
    K: Tensor, targets: Tensor, *, centring: str, ratios: Sequence[int], groups: int
) -> dict[str, float]:
    """Standard errors over samples of what `summarise` tells, by the jackknife.

    Args:
        K: The kernel (n C, n C), not centred, its samples in random order.
        targets: What outputs should be, (n, C).
        centring: As in `kernel_alignment.centre`.
        ratios: The k of trace ratios.
        groups: How many groups of samples are left out, one after another.

    Returns:
        The errors by name.
    """
    count, outputs = targets.shape
    replicates: dict[str, list[float]] = {}
    for chosen in without_groups(count, groups, device=K.device):
        block = among(K, chosen, outputs=outputs)
        fewer = [_within(k, len(chosen), count, outputs) for k in ratios]
        summary = summarise(block, targets[chosen], centring=centring, ratios=fewer)
        numbers = summary.numbers
        for k, own in zip(ratios, fewer):
            replicates.setdefault(f"trace-ratio-{k}", []).append(numbers[f"trace-ratio-{own}"])

        # a trace is a sum over samples: that of fewer is scaled up to all
        numbers["trace"] *= count / len(chosen)
        for name in ("effective-rank", "cka", "cka-uncentred", "trace"):
            replicates.setdefault(name, []).append(numbers[name])
    errors = {}
    for name, values in replicates.items():
        stderr = jackknife(values)
        assert stderr is not None  # there are several groups
        errors[name] = stderr
    return errors


def _within(k: int, left: int, count: int, outputs: int) -> int:
    """Leading eigenvalues of fewer samples that stand for the k leading ones of all.

    The same number, but for those that fewer samples do not have: all of these together are 1
    whatever the kernel, and would call T_k certain. Then it is the same share of them.
    """
    there = (left - 1) * outputs
    return k if k < there else round(k * left / count)


class LayerSummary(NamedTuple):
    """Every layer's kernel, in order: alignment and trace, with errors over samples."""

    cka: np.ndarray
    cka_stderr: np.ndarray
    trace: np.ndarray
    trace_stderr: np.ndarray


def summarise_layers(
    kernels: Mapping[str, Tensor], targets: Tensor, *, centring: str, groups: int
) -> LayerSummary:
    """Alignment and trace of the kernels of layers.

    Args:
        kernels: Kernels (n C, n C) by layer, not centred.
        targets: What outputs should be, (n, C).
        centring: As in `kernel_alignment.centre`.
        groups: Groups of samples that the jackknife leaves out.

    Returns:
        Arrays (layers,).
    """
    count, _ = targets.shape
    device = targets.device

    # all samples, then all but a group of them
    everything = torch.arange(count, device=device)
    whole = _layer_numbers(kernels, targets, everything, centring=centring)
    replicates = []
    for chosen in without_groups(count, groups, device=device):
        numbers = _layer_numbers(kernels, targets, chosen, centring=centring)
        replicates.append(numbers)
    errors = np.asarray(jackknife(np.stack(replicates)))
    return LayerSummary(whole[0], errors[0], whole[1], errors[1])


def _layer_numbers(
    kernels: Mapping[str, Tensor], targets: Tensor, chosen: Tensor, *, centring: str
) -> np.ndarray:
    """Alignment and trace (2, layers) among some samples; traces are scaled up to all."""
    count, outputs = targets.shape
    goal = centred_targets(targets[chosen], centring)
    numbers = []
    for K in kernels.values():
        block = among(K, chosen, outputs=outputs).double()
        block = centre(block, outputs=outputs, centring=centring)

        # of fewer samples, scaled up to all
        trace = float(block.trace()) * count / len(chosen)
        numbers.append((aligned(block, goal), trace))
    return np.array(numbers).T


def aligned(K: Tensor, targets: Tensor) -> float:
    """The alignment of a centred kernel; 0 where it vanishes, as that of a dead layer does."""
    if not bool(K.any()):
        return 0.0
    return float(alignment(K, targets))


ROUNDING = 0.01  # of a spectrum that may be negative before it is meaningless


def precise_network(network: nn.Module, device: torch.device) -> nn.Module:
    """A copy in double precision on the CPU, where that costs little; elsewhere the network."""
    if device.type != "cpu":
        return network
    return copy.deepcopy(network).double()


def precise_values(values: Tensor) -> Tensor:
    """The same for what it is given, and for labels; classes and tokens are whole numbers."""
    if values.device.type != "cpu" or not values.is_floating_point():
        return values
    return values.double()


def precise_layer_kernels(network: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The kernels of all layers, as precise as that."""
    precise = precise_network(network, inputs.device)
    return layer_kernels(precise, precise_values(inputs))


def whole_kernel(kernels: Mapping[str, Tensor]) -> Tensor:
    """The kernel of all parameters: the sum of those of layers, in their order."""
    first, *others = kernels.values()
    total = first
    for kernel in others:
        total = total + kernel
    return total


def refuse_constant(eigenvalues: Tensor, K: Tensor) -> None:
    """Samples that have the same features make a centred kernel zero.

    Args:
        eigenvalues: Of the centred kernel.
        K: The kernel (n C, n C), not centred.
    """
    rounding = len(K) * torch.finfo(torch.float64).eps
    if float(eigenvalues.max()) <= rounding * float(K.trace()):
        raise penchant.Error(
            "the centred tangent kernel is zero to rounding, expected samples that differ: the "
            "gradient of the network's outputs by its parameters is the same at all of them"
        )


def warn_of_rounding(eigenvalues: Tensor, context: penchant.Context) -> None:
    """Say where a centred kernel is rounding: a Gram matrix has no negative eigenvalues."""
    if negative_share(eigenvalues) > ROUNDING:
        context.warn(
            f"more than {ROUNDING:.0%} of the centred kernel's spectrum is negative, which is "
            'rounding: its eigenvalues, rank and shares are meaningless; dtype = "float64" may help'
        )
