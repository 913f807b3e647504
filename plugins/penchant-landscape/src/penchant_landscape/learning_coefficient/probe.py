"""The probe `learning-coefficient`: Langevin chains around a network.

The loss of several networks that differ in some parameters only; the others stay at w*.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import attrs
import numpy as np
import penchant
from penchant_numerics.data import Samples
from penchant_numerics.device import safe
from penchant_numerics.jacobians import Modules
from penchant_numerics.statistics import mean_and_stderr
from torch import Tensor, nn

from penchant_landscape.declarations.learning_coefficient import LearningCoefficient
from penchant_landscape.learning_coefficient.chain_diagnostics import autocorrelations
from penchant_landscape.learning_coefficient.langevin import Chains, Density, langevin
from penchant_landscape.learning_coefficient.learning_coefficient import (
    STEEPEST,
    Coefficient,
    learning_coefficient,
)
from penchant_landscape.shared.network_energy import (
    NetworkEnergy,
    contributions,
    first_samples,
    training_loss,
)

DRAWS = 1000  # of each chain that are stored
LAGS = 200


class Measured(NamedTuple):
    """One network: its chains, what they say, and its losses (n,)."""

    step: int
    chains: Chains
    coefficient: Coefficient
    losses: Any
    parameters: int


def run(options: LearningCoefficient, context: penchant.Context) -> penchant.Result:
    """Measure at the end of the training, or at some steps of it."""
    if options.batch is not None and options.step_size is None:
        raise penchant.Error(
            "batch needs a step_size: without all samples no step is accepted or refused, so that "
            "none is found; found None"
        )
    samples = first_samples(context.data.train, options.samples)
    if options.batch is not None and options.batch > len(samples.labels):
        raise penchant.Error(
            f"batch must be at most the {len(samples.labels)} samples, found {options.batch}"
        )
    modules = Modules.of_option(options.parameters, context.network)
    measured = []
    for step, each in context.trained(options.eval_steps):
        network = each
        measured.append(_measure(step, network, samples, context))
    last = measured[-1]
    tables = {"coefficients": _along_training(measured)}
    if modules is not None:
        tables |= _by_module(last.step, network, samples, modules, context)
    result = penchant.Result(
        _quantities(last, samples.kind.units),
        _arrays(measured),
        tables=tables,
        conventions=_conventions(options, samples, last.chains),
    )
    missing = [name for name, quantity in result.quantities.items() if quantity.missing]
    missing += [name for name, array in result.arrays.items() if not np.isfinite(array).all()]
    return attrs.evolve(result, missing=missing)


def _measure(
    step: int, network: nn.Module, samples: Samples, context: penchant.Context[LearningCoefficient]
) -> Measured:
    """Sample around one network."""
    energy = _energy(step, network, samples, context.options, context)
    chains, coefficient = _sampled(energy, (step,), len(samples.labels), context)
    losses = contributions(energy.at_centre.double(), samples.labels)
    return Measured(step, chains, coefficient, losses.cpu().numpy(), len(energy.centre))


def _energy(
    step: int,
    network: nn.Module,
    samples: Samples,
    options: LearningCoefficient,
    context: penchant.Context,
) -> NetworkEnergy:
    """The loss around a network."""
    network = safe(network, batch_norm=options.batch_norm, calibration=context.data.train.inputs)
    return NetworkEnergy(
        network,
        samples,
        loss=training_loss(context),
        batch=options.batch,
        generator=context.generator("batches", step),
    )


def _sampled(
    energy: NetworkEnergy | ModuleEnergy,
    keys: tuple[int | str, ...],
    count: int,
    context: penchant.Context[LearningCoefficient],
) -> tuple[Chains, Coefficient]:
    """Chains around w*, and their coefficient; keys are the step, and the module."""
    options = context.options
    scale = count / math.log(count)
    corrected = options.batch is None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        chains = langevin(
            Density(energy, energy.centre, scale, options.localisation),
            chains=options.chains,
            steps=options.chain_steps,
            warmup=options.warmup,
            generator=context.generator("chains", *keys),
            step_size=options.step_size,
            corrected=corrected,
        )
    for each in caught:
        context.warn(str(each.message))
    coefficient = learning_coefficient(
        chains,
        scale=scale,
        localisation=options.localisation,
        parameters=len(energy.centre),
        corrected=corrected,
    )
    step, *module = keys
    where = f"at step {step}" + "".join(f" of module {name!r}" for name in module)
    for problem in coefficient.problems:
        context.warn(f"no learning coefficient {where}: {problem}")
    if not coefficient.problems and not coefficient.within_reach:
        context.warn(
            f"no learning coefficient {where}, only a localised one: its slope in "
            f"log(n beta) is {coefficient.slope:.3g}, at most {STEEPEST:g} of "
            f"{coefficient.value:.3g}: the limit of large n is out of reach with these samples and "
            "this localisation"
        )
    return chains, coefficient


def _by_module(
    step: int,
    network: nn.Module,
    samples: Samples,
    modules: Modules,
    context: penchant.Context[LearningCoefficient],
) -> dict[str, penchant.Table]:
    """Coefficients of the loss as a function of one module's parameters at a time."""
    options = context.options
    energy = _energy(step, network, samples, options, context)
    rows = []
    for name, coordinates in modules.coordinates(energy.network).items():
        own = ModuleEnergy(energy, coordinates)
        _, coefficient = _sampled(own, (step, name), len(samples.labels), context)
        known = [_known(coefficient, each) for each in (coefficient.value, coefficient.stderr)]
        limit = (math.nan,) * 3
        if coefficient.within_reach:
            limit = (coefficient.limit, coefficient.limit_stderr, coefficient.limit_df)
        rows.append((*limit, *known, len(coordinates) / 2))
    limits, errors, df, values, chain_errors, halves = np.array(rows).T
    axes = {"module": tuple(modules.positions)}
    return {
        "learning-coefficient-by-module": penchant.Table(
            limits,
            axes,
            stderr=errors,
            df=df,
            null=halves,
            over="chains, and the distance to the limit of large n",
            count=options.chains,
        ),
        "localised-coefficient-by-module": penchant.Table(
            values,
            axes,
            stderr=chain_errors,
            df=float(options.chains - 1),
            over="chains",
            count=options.chains,
        ),
    }


def _quantities(last: Measured, unit: str) -> dict[str, penchant.Quantity]:
    """Numbers of the last network."""
    coefficient = last.coefficient
    count = len(coefficient.by_chain)
    refused = bool(coefficient.problems)
    loss, loss_stderr = mean_and_stderr(last.losses)
    return {
        "learning-coefficient": penchant.Quantity(
            coefficient.limit if coefficient.within_reach else math.nan,
            stderr=coefficient.limit_stderr if coefficient.within_reach else None,
            over="chains, and the distance to the limit of large n",
            count=count,
            df=coefficient.limit_df if coefficient.within_reach else None,
            null=last.parameters / 2,
        ),
        "localised-coefficient": penchant.Quantity(
            math.nan if refused else coefficient.value,
            stderr=None if refused else coefficient.stderr,
            over="chains",
            count=count,
            df=count - 1,
        ),
        "temperature-slope": penchant.Quantity(
            math.nan if refused else coefficient.slope,
            stderr=None if refused else coefficient.slope_stderr,
            over="chains",
            count=count,
            df=count - 1,
        ),
        "split-r-hat": penchant.Quantity(coefficient.r_hat, exact=True),
        "effective-samples": penchant.Quantity(coefficient.effective, exact=True),
        "stein-ratio": penchant.Quantity(
            coefficient.virial,
            stderr=None if math.isnan(coefficient.virial) else coefficient.virial_stderr,
            over="chains",
            count=count,
            df=count - 1,
            null=1.0,
        ),
        "acceptance": penchant.Quantity(float(last.chains.acceptance.mean()), exact=True),
        "loss": penchant.Quantity(loss, stderr=loss_stderr, over=unit, count=len(last.losses)),
    }


def _along_training(measured: list[Measured]) -> penchant.Table:
    """Coefficients by step, not a number where chains do not allow one."""
    count = len(measured[-1].coefficient.by_chain)
    return penchant.Table(
        [_known(each.coefficient, each.coefficient.value) for each in measured],
        {"step": [each.step for each in measured]},
        stderr=[_known(each.coefficient, each.coefficient.stderr) for each in measured],
        df=count - 1,
        over="chains",
        count=count,
    )


def _known(coefficient: Coefficient, number: float) -> float:
    """A number of chains that allow one."""
    return math.nan if coefficient.problems else number


def _arrays(measured: list[Measured]) -> dict[str, np.ndarray]:
    """Steps, and the chains at the last of them."""
    last = measured[-1]
    count = len(last.losses)
    series = last.chains.excess.mean(0) * count / math.log(count)  # (draws, chains)
    every = max(1, len(series) // DRAWS)
    thinned = series[::every]
    return {
        "steps": np.array([each.step for each in measured]),
        "coefficients-by-chain": last.coefficient.by_chain.numpy(),
        "excess": thinned.T.contiguous().numpy(),
        "autocorrelations": autocorrelations(thinned)[:LAGS].numpy(),
    }


def _conventions(options: LearningCoefficient, samples: Samples, chains: Chains) -> dict[str, str]:
    count = len(samples.labels)
    sampler = "Metropolis-adjusted Langevin on all samples"
    if options.batch is not None:
        sampler = f"SGLD, batches of {options.batch}, not corrected"
    every = max(1, chains.excess.shape[1] // DRAWS)
    size = f"n = {count}"
    if samples.kind.by_position:
        size += " sequences, whatever their length"
    return {
        "temperature": f"{size}, beta = 1 / log n, n beta = {count / math.log(count):.4g}",
        "localisation": f"exp(-gamma |w - w*|^2 / 2), gamma = {options.localisation:g}",
        "sampler": f"{sampler}; step size {chains.step_size:.3g}",
        "batch-norm": f"{options.batch_norm} statistics, evaluation mode",
        "draws": f"stored every {every} steps",
    }


class ModuleEnergy:
    """An `Energy` of `langevin` whose weights are those of a module.

    Args:
        energy: That of all parameters.
        coordinates: Where the module lies among them.
    """

    def __init__(self, energy: NetworkEnergy, coordinates: Tensor) -> None:
        self._energy = energy
        self._coordinates = coordinates
        self.centre = energy.centre[coordinates]

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The excess (halves, chains) and the gradient (chains, parameters of the module)."""
        every = self._energy.centre.repeat(len(weights), 1)
        every[:, self._coordinates] = weights
        excess, gradient = self._energy(every)
        return excess, gradient[:, self._coordinates]
