"""Waves on a line or a flower in the architecture's input, and the networks that learn them.

Networks of one output, which is what a function of a target is.

What the loss of a training must be, and whether it fell.

At which steps of a training networks are evaluated.

Numbers of trainings compared with the same number of trainings without the effect.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Data, Samples
from penchant_numerics.inputs import fourier
from penchant_numerics.statistics import significance
from penchant_numerics.training import OneByOne, Stacked, recorded_steps, stack_trainings
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from penchant_spectral_bias.shared.rank_order import mean_with_resolution


def wave(context: penchant.Context, training: int, petals: int | None) -> Data:
    """The wave with the phases of one training, on a line (no petals at all) or on a flower."""
    options = context.options
    settings: dict[str, Any] = {"frequencies": options.frequencies, "draw": training}
    # the dataset knows what no amplitudes are
    if options.amplitudes is not None:
        settings["amplitudes"] = options.amplitudes
    if petals is None:
        return on_curve(context, "sinusoids", **settings)
    return on_curve(context, "flower", petals=petals, **settings)


def on_curve(
    context: penchant.Context, name: str, shape: Sequence[int] | None = None, **settings: Any
) -> Data:
    """Samples of a curve: in the architecture's input, or in an input of another shape."""
    options = context.options
    return context.dataset(
        name,
        train=options.samples,
        input_shape=list(context.architecture.shape if shape is None else shape),
        embedding=options.embedding,
        **settings,
    )


def learners(
    context: penchant.Context,
    trainings: Sequence[int],
    samples: Sequence[Samples],
    *,
    limit: float | None = None,
) -> OneByOne | Stacked:
    """Network number `training` for the samples of each training, to be trained side by side."""
    networks, seeds = [], []
    for training in trainings:
        networks.append(network_of_one_output(context, training))
        generator = context.generator("training", training)
        seeds.append(generator.initial_seed())
    note_batch_norm(context, networks[0])
    assert context.training is not None  # the probe needs one
    return stack_trainings(networks, samples, context.training, seeds=seeds, limit=limit)


def note_batch_norm(context: penchant.Context, network: nn.Module) -> None:
    """Where there is batch normalisation, results say which statistics it used."""
    if any(isinstance(module, _BatchNorm) for module in network.modules()):
        context.conventions["batch-norm"] = (
            "batch statistics in training, running statistics when evaluated"
        )


def spectra(functions: Tensor, frequencies: Sequence[int]) -> Tensor:
    """Amplitudes (..., frequencies) of functions (..., samples) on the grid, in one transform."""
    rows = torch.tensor(list(frequencies), device=functions.device)
    # a frequency on a grid of one axis is one number
    column = rows[:, None]
    return fourier.amplitudes(functions.to(torch.float64), column)


def target_amplitudes(options: Any) -> Tensor:
    """A_k of the target, one a frequency."""
    values = options.amplitudes
    if values is None:
        values = (1.0,) * len(options.frequencies)
    return torch.tensor(values, device="cpu", dtype=torch.float64)


def target_variance(options: Any) -> float:
    """The variance of the target, the loss of the best constant: frequencies are orthogonal."""
    amplitudes = target_amplitudes(options)
    return float(amplitudes.square().sum() / 2)


def network_of_one_output(context: penchant.Context, index: int = 0) -> nn.Module:
    """Network number `index` with one output; a network of the user's own may have others."""
    network = context.network(index, outputs=1)
    shape = context.architecture.shape
    probe = torch.zeros(2, *shape, device=context.device, dtype=context.dtype)
    training = network.training
    with torch.no_grad():
        output = network.eval()(probe)
    network.train(training)
    if output[0].numel() != 1:
        label = context.architecture.label
        raise penchant.Error(
            f"architecture {label!r} gives {output[0].numel()} outputs where one was requested, "
            "expected 1: a target has one value; choose one output of a network of your own, such "
            "as unit = 0"
        )
    return network


def check_loss(context: penchant.Context, required: str) -> None:
    """Refuse another loss before anything is trained: waves are regressed, classes are not."""
    assert context.training is not None  # the probe needs one
    loss = context.training.loss
    if loss != required:
        raise penchant.Error(f"this probe needs training.loss = {required!r}, found {loss!r}")


def warn_above_constant(
    context: penchant.Context, loss: float, constant: float | None, where: str = "training"
) -> None:
    """Warn where a final loss is above that of the best constant: nothing was learnt."""
    if constant is not None and loss > constant:
        context.warn(
            f"the loss of {where} ended at {loss:.3g}, above the {constant:.3g} of a constant: "
            "the numbers are of a network that learnt nothing; use a smaller learning rate or "
            "train longer"
        )


def evaluation_steps(context: penchant.Context, samples: int) -> list[int]:
    """Every `eval_every` steps of a training on `samples` samples, and the last."""
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(samples)
    return recorded_steps(total, context.options.eval_every)


Values: TypeAlias = "penchant.Table | Tensor | np.ndarray[Any, Any]"  # one number per training


def _array(values: Values) -> np.ndarray[Any, Any]:
    return np.asarray(values.values if isinstance(values, penchant.Table) else values)


def in_steps(values: Values, step: float, *, null: float | None = None) -> penchant.Quantity:
    """The mean over trainings of numbers that are known to a step, such as counts."""
    numbers = _array(values)
    mean, stderr = mean_with_resolution(numbers, step)
    count = len(numbers)
    df = count - 1 if count > 1 else None
    return penchant.Quantity(mean, stderr=stderr, over="trainings", count=count, df=df, null=null)


def against_control(
    values: Values, control: Values, *, paired: bool, step: float = 0.0
) -> penchant.Quantity:
    """The mean over trainings; its null is the mean over trainings without the effect.

    Args:
        values: One number per training.
        control: One number per training without the effect.
        paired: Whether numbers at one index share all but the effect (Student's test of their
            differences); else both are independent (`significance.sum_p_value`).
        step: The width to which each number is known.

    Returns:
        The quantity; p is None where one side has fewer than two trainings. NaN among the values
        makes it missing, NaN among the control leaves it without a null.
    """
    quantity = in_steps(values, step)
    ours, others = _array(values), _array(control)
    # what could not be measured is not compared
    if np.isnan(ours).any() or np.isnan(others).any():
        return quantity
    null, null_stderr = mean_with_resolution(others, step)
    p = None
    if paired and len(ours) > 1:
        difference, error = mean_with_resolution(ours - others, step)
        p = significance.p_value(difference, error, len(ours) - 1)
        if not step:
            p = significance.mean_p_value((ours - others).tolist(), 0.0)
    elif quantity.stderr is not None and null_stderr is not None:
        terms = [(quantity.stderr, quantity.df), (null_stderr, len(others) - 1.0)]
        p = significance.sum_p_value(quantity.value - null, terms)
    spread = None
    if null_stderr is not None:
        # of a mean over as many trainings as the value's
        spread = null_stderr * math.sqrt(len(others) / len(ours))
    return attrs.evolve(quantity, null=null, null_spread=spread, null_stderr=null_stderr, p=p)
