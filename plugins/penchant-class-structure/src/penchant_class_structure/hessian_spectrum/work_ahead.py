"""What spectra of the Hessian cost, counted before they are computed.

A product with the Hessian of a sample takes as many operations as nine forward passes, one with G
as five, a column of the trace of G as four. Searches for leading eigenvalues may end earlier.
"""

import warnings
from typing import NamedTuple

import penchant
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum

PASSES = {"hessian": 9, "gauss-newton": 5}  # forward passes that a product takes as long as
COLUMN_PASSES = 4  # and one column of the trace of G
RATES = {"cpu": 5e10}  # operations per second, of one core
ACCELERATOR = 1e13
LONG = 3600  # seconds that are not spent unless they were asked for


class Work(NamedTuple):
    """Products at most, and operations of all of them."""

    hessian: int
    gauss_newton: int
    operations: float

    def seconds(self, device: torch.device) -> float:
        """About how long it takes, by the type of the device."""
        rate = RATES.get(device.type, ACCELERATOR)
        return self.operations / rate


def products_requested(options: HessianSpectrum, leading: int) -> dict[str, int]:
    """Products with the Hessian and with G at most, on one set of samples.

    Args:
        options: What is measured.
        leading: Eigenvalues that are searched for one by one.
    """
    density = options.lanczos_steps * options.starts
    search = 10 * options.iterations
    if options.method == "subspace":
        search = options.iterations * (leading + 2)
    if not options.deflate:
        search = 0
    products = {}
    for name in PASSES:
        own = (density + search) if name in options.matrices else 0
        # E is the difference of both
        products[name] = own + (density if "residual" in options.matrices else 0)

    # the trace of the Hessian: by G and E where both are there
    if "hessian" in options.matrices:
        products["hessian"] += options.trace_samples
        products["hessian"] += density if options.undeflated and options.deflate else 0
        if {"gauss-newton", "residual"} <= set(options.matrices):
            products["gauss-newton"] += options.trace_samples
    return products


def forward_operations(network: nn.Module, sample: Tensor) -> float:
    """Floating-point operations of one sample's forward pass, as far as torch counts them."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(sample[:1])
    return float(counter.get_total_flops())


def work_ahead(
    options: HessianSpectrum, *, leading: int, outputs: int, samples: list[int], forward: float
) -> Work:
    """What is requested.

    Args:
        options: What is measured.
        leading: Eigenvalues that are searched for one by one.
        outputs: Of the network.
        samples: How many there are in each split.
        forward: Operations of one forward pass of one sample.
    """
    products = products_requested(options, leading)
    passes = sum(PASSES[name] * count for name, count in products.items())
    if "gauss-newton" in options.matrices:
        passes += COLUMN_PASSES * outputs
    splits = len(samples)
    return Work(
        splits * products["hessian"],
        splits * products["gauss-newton"],
        forward * passes * sum(samples),
    )


def check_length(
    work: Work, samples: int, options: HessianSpectrum, context: penchant.Context
) -> None:
    """Refuse what takes more than an hour; where samples were chosen, warn, and in the result."""
    seconds = work.seconds(context.device)
    if seconds < LONG:
        return
    where = "one CPU core" if context.device.type == "cpu" else "an accelerator"
    text = (
        f"at most {work.hessian:,} products with the Hessian and {work.gauss_newton:,} with G, of "
        f"{samples:,} samples, take {work.operations:.1e} operations, about {seconds / 3600:,.0f} "
        f"hours of {where}: ask for less with `classes`, `per_class`, `split`, `matrices`, "
        "`leading`, `iterations`, `lanczos_steps` or `starts`"
    )
    if options.per_class is None:
        raise penchant.Error(f"{text}; it is measured where `per_class` says of how many samples")
    context.warn(text)
    warnings.warn(text, stacklevel=2)
