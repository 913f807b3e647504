"""The probe `pooling-theory`: what pooling loses by frequency, in theory and in simulation.

How far a rank correlation would move if trainings were drawn again, where its pairs are given.

The usual standard error of a rank correlation is over pairs: it says what other pairs would give.
Where the pairs are given and each has a mean over trainings, only the trainings move it. A rank
correlation is no smooth function of them, so trainings are drawn again with replacement, all pairs
together, as they share their trainings.
"""

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.inputs import pooling_filters
from penchant_numerics.statistics import binomial_stderr
from torch import Generator, Tensor, randint

from penchant_nad.declarations.theory import PoolingTheory
from penchant_nad.pooling_theory import pooling
from penchant_nad.shared.rank_correlations import largest_deviation, rank_correlation_of

AXIS = "signal-frequency"  # of what is known at all frequencies
CURVE_SIGMA = 0.3  # standard deviation of the noise while training

# Which simulation each quantity compares with which theory.
COMPARED = {
    "deviation": ("simulation", "theory"),
    "text-deviation": ("simulation", "theory-text"),
    "supplement-deviation": ("simulation", "theory-supplement"),
    "curvature-deviation": ("curvature", "curvature-theory"),
    "theta-curvature-deviation": ("theta-curvature", "theta-curvature-theory"),
}


def run(options: PoolingTheory, context: penchant.Context) -> penchant.Result:
    """Simulate at every frequency and compare with the corrected theorem and lemma."""
    if options.inputs % options.stride or options.inputs < 4 * options.stride:
        actual = f"found {options.inputs} and {options.stride}"
        raise penchant.Error(
            f"inputs must be a multiple of stride and at least four times it, {actual}"
        )
    chosen = pooling.frequencies(options.inputs, options.stride)[:: options.every]
    # What theory says, beside it simulations, and how the linear model learns.
    tables = _theory(options, chosen)
    tables |= _simulations(context, tables["theory"])
    losses = _losses(context, chosen)
    conventions = {
        "theorem 1": "Phi((eps/sigma) g) without the factors of the paper; frequencies with "
        "2 l = 0 mod M are left out",
        "lemma 1": "with 1/S; curvature along phi_l and along theta_(l mod M)",
        "loss": "(y - f)^2, every step on fresh samples",
    }
    quantities = {**_deviations(tables, context), **_correlation(tables["zeta"], losses, context)}
    tables["loss-curves"] = losses.mean("training")
    arrays = {"frequencies": np.array(chosen), "curve-frequencies": losses.coordinates("frequency")}
    return penchant.Result(quantities, arrays, tables=tables, conventions=conventions)


def _filter(options: PoolingTheory) -> tuple[Tensor, Tensor]:
    """The prefilter in space and by frequency, (inputs,) each."""
    name = options.prefilter
    known = {"inputs": options.inputs, "stride": options.stride}
    taps = pooling_filters.taps(name, **known)
    response = pooling_filters.response(name, **known)
    return taps, response


def _theory(options: PoolingTheory, chosen: list[int]) -> dict[str, penchant.Table]:
    taps, response = _filter(options)
    ratio = options.epsilon / options.sigma
    accuracies = pooling.bayes_accuracies(taps, options.stride, chosen, ratio)
    classes = pooling.Classes(options.epsilon, options.sigma)
    phi, theta = pooling.curvature_law(response, options.stride, chosen, classes)
    zeta = ratio**2 * response[chosen].square() / response.max().square()
    by_frequency = {
        "theory": accuracies.corrected,
        "theory-text": accuracies.text,
        "theory-supplement": accuracies.supplement,
        "zeta": zeta,
        "curvature-theory": phi,
        "theta-curvature-theory": theta,
        "response": response[chosen],
    }
    return {name: penchant.Table(each, {AXIS: chosen}) for name, each in by_frequency.items()}


def _simulations(
    context: penchant.Context[PoolingTheory], theory: penchant.Table
) -> dict[str, penchant.Table]:
    """Simulated accuracy and curvature; the error of an accuracy is that which theory expects."""
    axes: dict[str, Any] = dict(theory.axes)
    simulated = context.tables(simulate, **axes)
    simulations = context.options.simulations
    errors = {
        "simulation": binomial_stderr(theory.values, simulations),
        "curvature": simulated["curvature-stderr"].values,
        "theta-curvature": simulated["theta-curvature-stderr"].values,
    }
    return {
        name: attrs.evolve(simulated[name], stderr=stderr, over="simulations", count=simulations)
        for name, stderr in errors.items()
    }


def simulate(context: penchant.Context[PoolingTheory], item: dict[str, int]) -> dict[str, float]:
    """Accuracy and curvature at a frequency, which has random numbers of its own."""
    options = context.options
    frequency = item[AXIS]
    taps, response = _filter(options)
    classes = pooling.Classes(options.epsilon, options.sigma)
    accuracy = pooling.simulated_accuracy(
        taps,
        options.stride,
        frequency,
        classes,
        simulations=options.simulations,
        generator=context.generator("noise", frequency),
    )
    phi, phi_stderr, theta, theta_stderr = pooling.measured_curvature(
        response,
        options.stride,
        frequency,
        classes,
        simulations=options.simulations,
        generator=context.generator("networks", frequency),
    )
    return {
        "simulation": accuracy,
        "curvature": phi,
        "curvature-stderr": phi_stderr,
        "theta-curvature": theta,
        "theta-curvature-stderr": theta_stderr,
    }


def _losses(context: penchant.Context[PoolingTheory], chosen: list[int]) -> penchant.Table:
    """Losses (frequency, training, step) at a few frequencies from the lowest to the highest."""
    # There may be fewer frequencies than requested curves.
    options = context.options
    positions = np.linspace(0, len(chosen) - 1, options.curves)
    picked = sorted({chosen[round(position)] for position in positions})
    inside = {"training": range(options.trainings), "step": range(1, options.steps + 1)}
    return context.tables(follow, inside=inside, frequency=picked)["losses"]


def follow(context: penchant.Context[PoolingTheory], item: dict[str, int]) -> dict[str, Tensor]:
    """Loss curves of the linear model of pooling with the signal at one frequency."""
    options = context.options
    frequency = item["frequency"]
    descent = pooling.Descent(
        options.steps, options.batch, options.learning_rate, options.weight_std, options.trainings
    )
    _, response = _filter(options)
    losses = pooling.loss_curves(
        response,
        options.stride,
        frequency,
        pooling.Classes(options.epsilon, CURVE_SIGMA),
        descent,
        generator=context.generator("training"),  # the same for every frequency
    )
    if not bool(torch.isfinite(losses).all()):
        rate = f"learning_rate {options.learning_rate} is too large"
        raise penchant.Error(f"the linear model diverged at frequency {frequency}: {rate}")
    return {"losses": losses}


def _deviations(
    tables: dict[str, penchant.Table], context: penchant.Context[PoolingTheory]
) -> dict[str, penchant.Quantity]:
    """The largest deviation of each simulation from its theory, in standard errors."""
    options = context.options
    quantities = {}
    for name, (simulation, theory) in COMPARED.items():
        simulated, expected = tables[simulation].values, tables[theory].values
        # Of an accuracy, the error that this version of the theorem expects, and the one it has.
        stderr = own = np.asarray(tables[simulation].stderr)
        if simulation == "simulation":
            stderr = np.asarray(binomial_stderr(expected, options.simulations))
            own = np.asarray(binomial_stderr(simulated, options.simulations))
        # There is no curvature at zeros of the filter.
        known = stderr > 0
        scores = (simulated - expected)[known] / stderr[known]
        fields = largest_deviation(
            scores,
            generator=context.generator(name),
            two_sided=True,
            spreads=own[known] / stderr[known],
        )
        quantities[name] = penchant.Quantity(
            **fields, over="simulations", count=options.simulations, unit="standard errors"
        )
    return quantities


def _correlation(
    zeta: penchant.Table, losses: penchant.Table, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Is training slow where zeta is small? The frequencies are given, trainings are sampled."""
    # Curves were taken at some of the frequencies only.
    order = -zeta.select(**{AXIS: losses.axes["frequency"]}).values
    # A loss that falls late is large on average.
    efforts = losses.reduced(np.mean, "step").values
    quantities = rank_correlation_of(efforts.mean(1), order, context, over="trainings (bootstrap)")
    if not quantities:
        return {}
    stderr = rank_correlation_stderr(efforts, order, generator=context.generator("bootstrap"))
    quantity = quantities["rank-correlation"]
    return {"rank-correlation": attrs.evolve(quantity, stderr=stderr, count=efforts.shape[1])}


DRAWS = 500


def rank_correlation_stderr(
    values: np.ndarray, order: np.ndarray, *, generator: Generator
) -> float:
    """The bootstrap's standard error of the rank correlation of mean values with an order.

    Args:
        values: Values (pairs, trainings), at least two trainings.
        order: The other side (pairs,), which is given.
        generator: A generator on the CPU.
    """
    from scipy.stats import rankdata

    trainings = values.shape[1]
    chosen = randint(trainings, (DRAWS, trainings), generator=generator, device="cpu").numpy()
    means = values[:, chosen].mean(2).T  # (draws, pairs)
    ranks = rankdata(means, axis=1) - (len(order) + 1) / 2
    other = rankdata(order) - (len(order) + 1) / 2
    scale = np.linalg.norm(ranks, axis=1) * np.linalg.norm(other)
    # Trainings sampled with replacement vary less than fresh ones by (n - 1) / n.
    spread = (ranks @ other / scale).std(ddof=1)
    return float(spread) * math.sqrt(trainings / (trainings - 1))
