"""Random numbers where they are used.

On a CPU they come from the generator that is handed around. A training on a GPU that drew its
noise on the host would wait for it in every step, so it has a generator of its own there
(`own_generator`), seeded from the other: other numbers of the same law, the same on every GPU of a
kind. A device without generators, such as an emulated one, draws what the host would draw.
"""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor


def own_generator(generator: Generator, device: torch.device) -> Generator:
    """The generator of a training on a device: one of the device, seeded from the given one.

    Args:
        generator: A generator on the CPU.
        device: Where the training runs.

    Returns:
        The given one itself, on a CPU and where the device has none.
    """
    if device.type != "cuda":
        return generator
    seed = torch.randint(2**63 - 1, (), generator=generator, device="cpu")
    own = Generator(device=device)
    return own.manual_seed(int(seed))


def normal(shape: Sequence[int], generator: Generator, device: torch.device) -> Tensor:
    """Standard normal numbers in single precision, on a device.

    Args:
        shape: How many.
        generator: A generator of the device or of the CPU.
        device: Where they are used.

    Returns:
        Numbers of this shape.

    >>> generator = torch.Generator("cpu").manual_seed(0)
    >>> normal((2, 3), generator, torch.device("cpu")).shape
    torch.Size([2, 3])
    """
    make = functools.partial(torch.randn, *shape)
    return _sampled(make, generator, device)


def uniform(shape: Sequence[int], generator: Generator, device: torch.device) -> Tensor:
    """Uniform numbers between 0 and 1 in single precision, on a device.

    Args:
        shape: How many.
        generator: A generator of the device or of the CPU.
        device: Where they are used.

    Returns:
        Numbers of this shape.
    """
    make = functools.partial(torch.rand, *shape)
    return _sampled(make, generator, device)


def integers(
    limit: int, shape: Sequence[int], generator: Generator, device: torch.device
) -> Tensor:
    """Whole numbers from 0 to below a limit, on a device.

    Args:
        limit: The first number that is too large.
        shape: How many.
        generator: A generator of the device or of the CPU.
        device: Where they are used.

    Returns:
        Numbers of this shape.
    """
    make = functools.partial(torch.randint, limit, shape)
    return _sampled(make, generator, device)


def permutation(count: int, generator: Generator, device: torch.device) -> Tensor:
    """The numbers from 0 to below `count` in a random order, on a device.

    Args:
        count: How many.
        generator: A generator of the device or of the CPU.
        device: Where they are used.

    Returns:
        A permutation (count,).
    """
    make = functools.partial(torch.randperm, count)
    return _sampled(make, generator, device)


def _sampled(make: Callable[..., Tensor], generator: Generator, device: torch.device) -> Tensor:
    """What `make` draws, on a device."""
    if generator.device.type == device.type:
        return make(generator=generator, device=device)
    if device.type == "cuda":
        noise = make(generator=generator, device=generator.device)
        return noise.to(device)
    # no generator of its own: its factories draw from the global one of the host
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.set_state(generator.get_state())
        noise = make(device=device)
        generator.set_state(torch.default_generator.get_state())
    return noise
