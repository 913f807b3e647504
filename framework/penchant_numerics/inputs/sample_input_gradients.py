"""Gradients in the input of one network at samples, and the second moment over these.

G = E_x[g g^T] with g = grad_x f(x): f is the only output, the second of two logits minus the first,
or of more logits that of the sample's class.
"""

import dataclasses

import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import safe
from penchant_numerics.inputs.derivatives import first_output
from penchant_numerics.inputs.equal_groups import left_out_spectra
from penchant_numerics.inputs.moments import GroupedMoment, directions_of
from penchant_numerics.inputs.row_moments import by_rows, directions_of_rows
from penchant_numerics.refusal import Refusal
from penchant_numerics.roles import Directions
from torch import Tensor, nn

_BATCH = 256


def differentiated(outputs: int) -> str:
    """Which number is differentiated, in words.

    >>> differentiated(2)
    'second logit minus first'
    """
    words = {1: "the only one", 2: "second logit minus first"}
    return words.get(outputs, "the logit of the sample's class")


def sample_input_gradients(network: nn.Module, samples: Samples, *, batch: int = _BATCH) -> Tensor:
    """Gradients in the input.

    Args:
        network: A network in evaluation mode, whose samples do not mix.
        samples: Inputs (samples, *shape), and labels where there are more than two outputs.
        batch: Samples per pass.

    Returns:
        Gradients (samples, D).

    Raises:
        Refusal: There are more than two outputs, and labels are not classes.
    """
    prepared = safe(network)
    gradients = []
    for start in range(0, len(samples.labels), batch):
        some = samples.select(slice(start, start + batch))
        inputs = some.inputs.detach().clone().requires_grad_()
        outputs = prepared(inputs)
        # the gradient of the sum is that of each sample
        (gradient,) = torch.autograd.grad(_chosen(outputs, some.labels).sum(), inputs)
        gradients.append(gradient.flatten(1).detach())
    return torch.cat(gradients)


def _chosen(outputs: Tensor, labels: Tensor) -> Tensor:
    """The number (samples,) that is differentiated."""
    count = outputs.shape[-1]
    if count <= 2:
        return first_output(outputs)
    if labels.ndim != 1 or labels.is_floating_point():
        raise Refusal(
            f"labels are not classes and select none of {count} outputs; unit = 0 chooses "
            "the first of them"
        )
    return outputs.gather(1, labels[:, None])[:, 0]


def directions_of_gradients(rows: Tensor) -> Directions:
    """The second moment of gradients (samples, D) of one network, over all samples.

    The order of samples decides only which of them the jackknife leaves out together.

    Returns:
        As of an estimator, with samples instead of networks.

    Raises:
        Refusal: Where there are fewer samples than groups of the jackknife.

    >>> rows = torch.tensor([[1.0, 0.0], [2.0, 0.0]] * 8, device="cpu")
    >>> directions_of_gradients(rows).eigenvalues  # the mean of 1 and 4
    tensor([2.5000, 0.0000], dtype=torch.float64)
    """
    count, size = rows.shape
    if by_rows(count, size):
        return directions_of_rows(rows)
    moment = GroupedMoment(size, device=rows.device)
    groups = len(moment.groups)
    if count < groups:
        raise Refusal(f"the moment over samples needs at least {groups} of them, found {count}")
    moment.add(rows)
    directions = directions_of(moment)
    if count % groups == 0:
        return directions
    # groups of unequal size would be taken for spread
    rank = len(directions.eigenvalues)
    latest = rows[count - groups :]
    spectra = left_out_spectra(moment, latest, centred=False, rank=rank)
    return dataclasses.replace(directions, jackknife=spectra)


def scrambled_phases(rows: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """The same gradients (samples, D) with random phases: amplitudes at every frequency stay.

    Args:
        rows: Gradients.
        shape: Channels and the grid, or the length of a signal; channels of a sample keep their
            phases relative to each other.
        generator: On the CPU.

    Returns:
        Gradients (samples, D).

    >>> rows = torch.tensor([[1.0, 0.0, 0.0, 0.0]], device="cpu")
    >>> scrambled = scrambled_phases(rows, (4,), torch.Generator("cpu").manual_seed(0))
    >>> torch.fft.fft(scrambled).abs().round(decimals=5).tolist()  # all amplitudes are still 1
    [[1.0, 1.0, 1.0, 1.0]]
    """
    channels, *grid = shape if len(shape) > 1 else (1, *shape)
    axes = tuple(range(-len(grid), 0))
    images = rows.reshape(len(rows), channels, *grid)
    # phases of real noise are those of a real picture
    noise = torch.randn((len(rows), 1, *grid), generator=generator, device="cpu")
    waves = torch.fft.fftn(noise.to(rows), dim=axes)
    phases = waves / waves.abs()
    moved: Tensor = torch.fft.ifftn(torch.fft.fftn(images, dim=axes) * phases, dim=axes)
    return moved.real.reshape(rows.shape)


def shuffled_pixels(rows: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """The same gradients (samples, D) with their pixels in random order, another for each sample.

    Args:
        rows: Gradients.
        shape: Channels and the grid, or the length of a signal; channels of a pixel stay together.
        generator: On the CPU.

    Returns:
        Gradients (samples, D).

    >>> rows = torch.tensor([[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]], device="cpu")  # two channels
    >>> shuffled = shuffled_pixels(rows, (2, 3), torch.Generator("cpu").manual_seed(0)).view(2, 3)
    >>> torch.equal(shuffled[1], 10 * shuffled[0]), sorted(shuffled[0].tolist())
    (True, [1.0, 2.0, 3.0])
    """
    channels = shape[0] if len(shape) > 1 else 1
    pixels = rows.reshape(len(rows), channels, -1)
    keys = torch.rand((len(rows), 1, pixels.shape[-1]), generator=generator, device="cpu")
    order = keys.argsort(-1).to(rows.device).expand_as(pixels)
    return pixels.gather(-1, order).reshape(rows.shape)
