"""Estimators that train statistics networks, and report what unseen samples say."""

import copy
import math
from typing import Any

import penchant
import torch
from penchant_numerics.roles import Information
from penchant_numerics.statistics import NO_NULL, ErrorTerm, combined_error, null_of
from penchant_numerics.training import ensembles
from torch import Generator, Tensor

from penchant_mine.declarations.estimators import (
    InfoNceEstimator,
    Mine,
    MineF,
    Neural,
    Nwj,
    SmileEstimator,
)
from penchant_mine.estimators.prepared import no_information, prepared
from penchant_mine.estimators.second_opinions import doubts_of_atoms, second_opinion
from penchant_mine.shared.information.bounds import (
    Bound,
    DonskerVaradhan,
    FDivergence,
    InfoNce,
    Smile,
)
from penchant_mine.shared.information.pairs import Pairs, seems_deterministic
from penchant_mine.shared.information.stacked_training import (
    Pairing,
    Recipe,
    Split,
    Trained,
    split,
    train,
)
from penchant_mine.shared.information.statistics_stack import StatisticsStack
from penchant_mine.shared.recipes import recipe_from

FEWEST = 50  # pairs: fewer do not suffice for three splits
SAMPLES_MARGIN = 3.0  # nats below the log of the held-out count: e^3 = 20 samples for each e^value
BATCH_MARGIN = 1.0  # nats below what a batch, or its contrasts, can teach
LEAST_GAIN = 0.02  # nats: smaller gains are not worth a warning
EXPONENTIAL = ("mine", "mine-f", "nwj")  # learn from the mean of e^T over a batch
OVER = (
    "independent networks, each on its own held-out samples, the distance of the null from 0, "
    "half of what training samples give more than held-out ones and what few contrasts take, or "
    "what other methods find more"
)
CONVENTION = "nats; held-out value; shuffled pairs for the null"


def mine(options: Mine, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `mine`."""
    return trained_estimate(options, context, x, z, DonskerVaradhan(options.ema))


def mine_f(options: MineF, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `mine-f`."""
    return trained_estimate(options, context, x, z, FDivergence())


def nwj(options: Nwj, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `nwj`."""
    return trained_estimate(options, context, x, z, FDivergence())


def info_nce(
    options: InfoNceEstimator, context: penchant.Context, x: Tensor, z: Tensor
) -> Information:
    """Target of the estimator `info-nce`."""
    return trained_estimate(options, context, x, z, InfoNce())


def smile(options: SmileEstimator, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `smile`."""
    return trained_estimate(options, context, x, z, Smile(options.clip))


def trained_estimate(
    options: Neural, context: penchant.Context, x: Tensor, z: Tensor, bound: Bound
) -> Information:
    """An estimate by statistics networks that maximise a bound.

    Args:
        options: Options of the estimator.
        context: Its context.
        x: Samples (pairs, ...) of the first variable.
        z: Samples (pairs, ...) of the second.
        bound: What the networks learn, and what is reported.

    Returns:
        The answer.
    """
    pairs = prepared(options, x, z, at_least=FEWEST, scaling=options.scaling)
    if pairs.empty:
        return no_information(pairs)
    # All random numbers of an estimate come from one stream, networks from its seed.
    generator = context.generator("statistics networks")
    architecture = _architecture(options, context, pairs, generator.initial_seed())
    order = torch.randperm(len(pairs.x), generator=generator, device="cpu")
    recipe = recipe_from(Recipe, options)
    rows = split(len(pairs.x), options.trainings, recipe, order.to(pairs.x.device))

    def trained_on(numbers: range, partners: Tensor, bound: Bound) -> Trained:
        stack = _stack(architecture, numbers, pairs)
        # Pairs are picked by number, so that shuffled ones cost no copy.
        pairing = Pairing(pairs.x, pairs.z, partners.to(pairs.x.device))
        # Network r for the null has the splits of network r.
        own = [number % options.trainings for number in numbers]
        splits = Split(rows.test[own], rows.stopping[own], rows.training[own])
        return train(stack, bound, recipe, pairing, splits, generator)

    # Networks for the null have numbers of their own, and a fresh bound.
    of_null = copy.copy(bound)
    last = options.trainings + options.null_trainings
    together = torch.arange(len(pairs.x), device="cpu").expand(options.trainings, -1)
    trained = trained_on(range(options.trainings), together, bound)
    nulls = None
    if options.null_trainings:
        shuffled = _shuffled(len(pairs.x), options.null_trainings, generator)
        nulls = trained_on(range(options.trainings, last), shuffled, of_null)
    # A diverged network would pass for information that is not there.
    if not trained.finite or (nulls is not None and not nulls.finite):
        raise penchant.Error(
            f"{options.name}: the statistics networks give scores that are not finite; try a "
            "smaller learning_rate"
        )
    return _report(options, pairs, trained, nulls, context.generator("second opinions"))


def _architecture(options: Neural, context: penchant.Context, pairs: Pairs, seed: int) -> Any:
    """Statistics networks by number; one that does not fit is refused before training."""
    shape = (pairs.x.shape[1] + pairs.z.shape[1],)
    scope = context.scope(architecture=options.network, shape=shape, outputs=1)
    architecture = scope.architecture.with_seed(seed)
    architecture.check()
    return architecture


def _stack(architecture: Any, numbers: range, pairs: Pairs) -> StatisticsStack:
    ensemble = ensembles.draw(architecture, numbers)
    return StatisticsStack(ensemble.to(pairs.x.device, pairs.x.dtype))


def _shuffled(samples: int, networks: int, generator: Generator) -> Tensor:
    """A random partner for every sample (networks, samples)."""
    orders = [torch.randperm(samples, generator=generator, device="cpu") for _ in range(networks)]
    return torch.stack(orders)


def _report(
    options: Neural, pairs: Pairs, trained: Trained, nulls: Trained | None, generator: Generator
) -> Information:
    value = float(trained.held_out.mean())
    training = float(trained.training.mean())
    null = null_of(nulls.held_out) if nulls is not None else NO_NULL
    share = options.held_out
    # Each value has the error of its own samples.
    sampling = _sampling(trained.held_out, trained.sampling_error, share)
    of_training = _sampling(trained.training, trained.training_error, share)
    # Held-out samples give too little and training samples too much: the truth lies between.
    optimism = max(0.0, training - value) / 2
    bias = math.hypot(float(null.get("null") or 0.0), optimism, _of_contrasts(options, trained))
    own = combined_error(sampling)[0]
    below, opinions = second_opinion(pairs, value, own, generator)
    stderr, df = combined_error([*sampling, (max(bias, below), None)])
    training_stderr, training_df = combined_error(of_training)
    doubts = [*_doubts(options, trained, value, training, own), *opinions, *doubts_of_atoms(pairs)]
    diverged = trained.diverged + (nulls.diverged if nulls is not None else 0)
    if diverged:
        networks = options.trainings + options.null_trainings
        doubts.append(
            f"{diverged} of {networks} networks diverged; their best state before that was used"
        )
    return Information(
        value=value,
        training=training,
        stderr=stderr,
        null=null["null"],
        null_spread=null["null_spread"],
        null_stderr=null["null_stderr"],
        warnings=(*pairs.warnings, *doubts, *_deterministic(pairs)),
        over=OVER,
        count=options.trainings,
        details={
            "steps": trained.steps,
            "null_steps": nulls.steps if nulls is not None else 0,
            "curve": trained.curve,
            "values": trained.held_out,
            "df": df,
            "training_stderr": training_stderr,
            "training_df": training_df,
            "training_null": null_of(nulls.training) if nulls is not None else {},
        },
        conventions={"mutual information": CONVENTION, **pairs.conventions},
    )


def _sampling(values: Tensor, sampling: Tensor, share: float) -> list[ErrorTerm]:
    """Spread over networks and error from the number of samples, each with its freedom.

    Blocks of samples may overlap. The spread contains some of the second term already, but from
    few networks: rather too large than too small.
    """
    count = len(values)
    spread = float(values.std()) / math.sqrt(count)
    blocks = min(count, 1 / share)
    of_block = float(sampling.square().mean().sqrt())
    of_samples = of_block / math.sqrt(blocks)
    return [(spread, count - 1), (of_samples, None)]


def _of_contrasts(options: Neural, trained: Trained) -> float:
    """What few contrasts take from the value: it falls with their number, so half show as much."""
    return trained.contrasts_gain if options.name == "info-nce" else 0.0


def _deterministic(pairs: Pairs) -> list[str]:
    for one, other, text in ((pairs.x, pairs.z, "z of x"), (pairs.z, pairs.x, "x of z")):
        if seems_deterministic(one, other):
            return [
                f"{text} looks like a continuous function, whose mutual information is infinite: "
                "the value says little"
            ]
    return []


def _doubts(
    options: Neural, trained: Trained, value: float, training: float, stderr: float
) -> list[str]:
    """Reasons not to trust the value."""
    doubts = _ceilings(options, trained, value)
    # The best state came last: there was more to gain.
    best = trained.best_step.double().median()
    if trained.steps == options.steps and float(best) > 0.9 * trained.steps:
        doubts.append(
            f"the value was still rising when training stopped after {trained.steps} steps: more "
            "steps would give more"
        )
    # A gap that is larger than errors and than a twentieth of the value.
    if training - value > max(0.05, 0.05 * abs(value), 2 * stderr):
        doubts.append(
            f"training samples give {training:.3g}, held-out samples {value:.3g}: the networks "
            "learnt samples by heart, and the value is too low"
        )
    # What is not a bound may rise by anything.
    if options.name != "smile":
        doubts += _unlearnt(trained)
    if trained.held_out_count < 50:
        doubts.append(f"only {trained.held_out_count} held-out samples")
    return doubts


def _unlearnt(trained: Trained) -> list[str]:
    """What the networks have missed: scores that are known beforehand raise the bound."""
    gains = {
        "how the lengths of x and z depend on each other": trained.lengths_gain,
        "the correlations of x and z": trained.correlations_gain,
    }
    return [
        f"the networks have not learnt {what}, which alone would add {gain:.2g}: the value is too "
        "low"
        for what, (gain, error) in gains.items()
        if gain > max(LEAST_GAIN, 2 * error)
    ]


def _ceilings(options: Neural, trained: Trained, value: float) -> list[str]:
    """Is the value near what samples, batches or contrasts can show at most?"""
    ceilings = []
    # The error of log E e^T grows with e^value over the number of samples.
    count = trained.held_out_count
    ceiling = math.log(count)
    if value > ceiling - SAMPLES_MARGIN:
        ceilings.append(
            f"the value is near log({count}) = {ceiling:.3g} or above: more than held-out samples "
            "can vouch for"
        )
    # The same holds for the batches that networks learn from.
    pairs = options.batch * options.shifts
    if options.name in EXPONENTIAL and value > math.log(pairs) - BATCH_MARGIN:
        ceilings.append(
            f"the value is near log({pairs}) = {math.log(pairs):.3g}, of the marginal pairs a "
            "step: a larger batch or more shifts may give more"
        )
    if options.name == "info-nce":
        contrasts = min(options.marginals, count - 1)
        most = math.log(1 + contrasts)
        if value > most - BATCH_MARGIN:
            text = f"the value is near its largest possible, log({1 + contrasts}) = {most:.3g}"
            ceilings.append(text)
    return ceilings
