"""Estimators that train statistics networks, and report what unseen samples say."""

from __future__ import annotations

import math

import penchant
import torch
from penchant_numerics import ensembles
from penchant_numerics.answers import Information
from penchant_numerics.statistics import null_of
from torch import Generator, Tensor

from penchant_mine.declarations.estimators import (
    InfoNceEstimator,
    Mine,
    MineF,
    Neural,
    Nwj,
    SmileEstimator,
)
from penchant_mine.estimators.prepared import nothing, prepared
from penchant_mine.numerics.information.bounds import (
    Bound,
    DonskerVaradhan,
    FDivergence,
    InfoNce,
    Smile,
)
from penchant_mine.numerics.information.pairs import Pairs, looks_deterministic
from penchant_mine.numerics.information.stacked_training import (
    Pairing,
    Recipe,
    Split,
    Trained,
    split,
    train,
)
from penchant_mine.numerics.information.statistics_stack import StatisticsStack
from penchant_mine.numerics.recipes import recipe_from

FEWEST = 50  # pairs: fewer leave no room for three parts
SAMPLES_MARGIN = 3.0  # nats below the log of the held-out count: e^3 = 20 samples for each e^value
BATCH_MARGIN = 1.0  # nats below what a batch, or its contrasts, can teach
EXPONENTIAL = ("mine", "mine-f", "nwj")  # learn from the mean of e^T over a batch
OVER = (
    "independent networks, each on its own held-out samples, the distance of the null from 0, and "
    "half of what training samples give more than held-out ones"
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
    options: Neural,
    context: penchant.Context,
    x: Tensor,
    z: Tensor,
    bound: Bound,
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
    pairs = prepared(
        options,
        x,
        z,
        at_least=FEWEST,
        scaling=options.scaling,
    )
    if pairs.empty:
        return nothing(pairs)
    # All random numbers of an estimate come from one stream, networks from its seed.
    generator = context.generator("statistics networks")
    stack = _stack(options, context, pairs, generator.initial_seed())
    order = torch.randperm(
        len(pairs.x),
        generator=generator,
        device="cpu",
    )
    recipe = recipe_from(Recipe, options)
    rows = split(len(pairs.x), options.trainings, recipe, order.to(pairs.x.device))
    rows = _same_split_for_nulls(rows, options)
    # Pairs are picked by number, so that shuffled ones cost no copy.
    pairing = Pairing(pairs.x, pairs.z, _partners(pairs.z, options, generator))
    trained = train(stack, bound, recipe, pairing, rows, generator)
    # A diverged network would pass for information that is not there.
    if not trained.finite:
        raise penchant.Error(
            f"{options.name}: the statistics networks give scores that are not finite; try a "
            "smaller learning_rate"
        )
    return _report(options, pairs, trained)


def _stack(
    options: Neural,
    context: penchant.Context,
    pairs: Pairs,
    seed: int,
) -> StatisticsStack:
    """Fresh statistics networks, those for the null last."""
    shape = (pairs.x.shape[1] + pairs.z.shape[1],)
    scope = context.scope(
        architecture=options.network,
        shape=shape,
        outputs=1,
    )
    architecture = scope.architecture.with_seed(seed)
    # A network that does not fit is refused before anything is trained.
    architecture.check()
    networks = range(options.trainings + options.null_trainings)
    ensemble = ensembles.draw(architecture, networks)
    return StatisticsStack(ensemble.to(pairs.x.device, pairs.x.dtype))


def _same_split_for_nulls(rows: Split, options: Neural) -> Split:
    """Network r for the null has the parts of network r."""
    trainings = options.trainings
    own = list(range(trainings))
    nulls = [number % trainings for number in range(options.null_trainings)]
    numbers = own + nulls
    return Split(
        rows.test[numbers],
        rows.stopping[numbers],
        rows.training[numbers],
    )


def _partners(
    z: Tensor,
    options: Neural,
    generator: Generator,
) -> Tensor:
    """Which z goes with each x (networks, samples): its own, and for nulls a random one."""
    orders = [torch.arange(len(z), device="cpu")] * options.trainings
    for _ in range(options.null_trainings):
        orders.append(
            torch.randperm(
                len(z),
                generator=generator,
                device="cpu",
            )
        )
    return torch.stack(orders).to(z.device)


def _report(
    options: Neural,
    pairs: Pairs,
    trained: Trained,
) -> Information:
    own = slice(0, options.trainings)
    # Networks for the null come last.
    nulls = trained.held_out[options.trainings :]
    training_nulls = trained.training[options.trainings :]
    value = float(trained.held_out[own].mean())
    training = float(trained.training[own].mean())
    null = null_of(nulls) if len(nulls) else {}
    share = options.held_out
    # Each value has the error of its own samples.
    sampling = _stderr(trained.held_out[own], trained.sampling_error[own], share)
    of_training = _stderr(trained.training[own], trained.training_error[own], share)
    # Held-out samples give too little and training samples too much: the truth lies between.
    optimism = max(0.0, training - value) / 2
    stderr = math.hypot(sampling, float(null.get("null") or 0.0), optimism)
    doubts = _doubts(options, trained, value, training, sampling)
    return Information(
        value=value,
        training=training,
        stderr=stderr,
        **null,
        warnings=(*pairs.warnings, *doubts, *_deterministic(pairs)),
        over=OVER,
        count=options.trainings,
        details={
            "steps": trained.steps,
            "curve": trained.curve[:, own],
            "values": trained.held_out[own],
            "training_stderr": of_training,
            "training_null": null_of(training_nulls) if len(training_nulls) else {},
        },
        conventions={"mutual information": CONVENTION, **pairs.conventions},
    )


def _stderr(
    values: Tensor,
    sampling: Tensor,
    share: float,
) -> float:
    """Spread over networks and error from the number of samples, added in squares.

    Blocks of samples may overlap. The spread has some of the second part in it already, but from
    few networks: rather too large than too small.
    """
    count = len(values)
    spread = float(values.std()) / math.sqrt(count)
    blocks = min(count, 1 / share)
    of_block = float(sampling.square().mean().sqrt())
    of_samples = of_block / math.sqrt(blocks)
    return math.hypot(spread, of_samples)


def _deterministic(pairs: Pairs) -> list[str]:
    for one, other, text in ((pairs.x, pairs.z, "z of x"), (pairs.z, pairs.x, "x of z")):
        if looks_deterministic(one, other):
            return [
                f"{text} looks like a continuous function, whose mutual information is infinite: "
                "the value says little"
            ]
    return []


def _doubts(
    options: Neural,
    trained: Trained,
    value: float,
    training: float,
    stderr: float,
) -> list[str]:
    """Reasons not to trust the value."""
    found = _ceilings(options, trained, value)
    # The best state came last: there was more to gain.
    best = trained.best_step[: options.trainings].double().median()
    if trained.steps == options.steps and float(best) > 0.9 * trained.steps:
        found.append(
            f"the value was still rising when training stopped after {trained.steps} steps: more "
            "steps would give more"
        )
    # A gap that is larger than errors and than a twentieth of the value.
    if training - value > max(0.05, 0.05 * abs(value), 3 * stderr):
        found.append(
            f"training samples give {training:.3g}, held-out samples {value:.3g}: the networks "
            "learnt samples by heart, and the value is too low"
        )
    if trained.diverged:
        found.append(
            f"{trained.diverged} of {len(trained.held_out)} networks diverged; their best state "
            "before that was kept"
        )
    if trained.held_out_count < 50:
        found.append(f"only {trained.held_out_count} held-out samples")
    return found


def _ceilings(
    options: Neural,
    trained: Trained,
    value: float,
) -> list[str]:
    """Is the value near what samples, batches or contrasts can show at most?"""
    found = []
    # The error of log E e^T grows with e^value over the number of samples.
    count = trained.held_out_count
    ceiling = math.log(count)
    if value > ceiling - SAMPLES_MARGIN:
        found.append(
            f"the value is near log({count}) = {ceiling:.3g} or above: more than held-out samples "
            "can vouch for"
        )
    # The same holds for the batches that networks learn from.
    pairs = options.batch * options.shifts
    if options.name in EXPONENTIAL and value > math.log(pairs) - BATCH_MARGIN:
        found.append(
            f"the value is near log({pairs}) = {math.log(pairs):.3g}, of the marginal pairs a "
            "step: a larger batch or more shifts may give more"
        )
    if options.name == "info-nce":
        contrasts = min(options.marginals, count - 1)
        most = math.log(1 + contrasts)
        if value > most - BATCH_MARGIN:
            text = f"the value is near its largest possible, log({1 + contrasts}) = {most:.3g}"
            found.append(text)
    return found
