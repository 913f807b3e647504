"""Targets of the neural estimators: train statistics networks, report what samples they have not seen say."""

from __future__ import annotations

import math
import zlib
from typing import Any

import penchant
import torch
from penchant_numerics import ensembles
from torch import Tensor

from penchant_mine._bounds import Bound, DonskerVaradhan, FDivergence, InfoNce, Smile
from penchant_mine._pairs import Pairs, looks_deterministic, prepare
from penchant_mine._stacked_training import Pairing, Recipe, Split, Trained, split, train
from penchant_mine._statistics_stack import StatisticsStack
from penchant_mine.estimates import Estimate
from penchant_mine.statistics_networks import bind

FEWEST = 50  # pairs: fewer leave no room for three parts


def mine(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimator `mine`."""
    return _estimate(options, context, x, z, DonskerVaradhan(options.ema))


def mine_f(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimators `mine-f` and `nwj`, which take their marginals differently."""
    return _estimate(options, context, x, z, FDivergence())


def info_nce(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimator `info-nce`."""
    return _estimate(options, context, x, z, InfoNce())


def smile(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimator `smile`."""
    return _estimate(options, context, x, z, Smile(options.clip))


def _estimate(options: Any, context: Any, x: Tensor, z: Tensor, bound: Bound) -> Estimate:
    pairs = prepared(options, x, z, FEWEST)
    if pairs.empty:
        return Estimate(
            0.0, 0.0, 0.0, 0.0, 0.0, tuple(f"{options.name}: {text}" for text in pairs.warnings)
        )
    recipe = Recipe(**{name: getattr(options, name) for name in Recipe.__dataclass_fields__})
    networks = options.repeats + options.null_repeats
    generator = context.generator("statistics networks", fingerprint(pairs))
    architecture = bind(
        options.network, (pairs.x.shape[1] + pairs.z.shape[1],), seed=generator.initial_seed()
    )
    architecture.check()
    ensemble = ensembles.draw(architecture, range(networks)).to(pairs.x.device, pairs.x.dtype)
    order = torch.randperm(len(pairs.x), generator=generator, device="cpu").to(pairs.x.device)
    rows = _same_split_for_nulls(split(len(pairs.x), options.repeats, recipe, order), options)
    pairing = Pairing(pairs.x, pairs.z, _partners(pairs.z, options, generator))
    trained = train(StatisticsStack(ensemble), bound, recipe, pairing, rows, generator)
    if not torch.isfinite(
        torch.stack([trained.held_out, trained.training, trained.sampling_error])
    ).all():
        raise penchant.Error(
            f"{options.name}: the statistics networks give scores that are not finite; try a smaller learning_rate"
        )
    context.conventions["mutual information"] = "nats; held-out value; shuffled pairs for the null"
    return _report(options, pairs, trained)


def prepared(options: Any, x: Tensor, z: Tensor, at_least: int) -> Pairs:
    """Checked and scaled pairs; what is wrong with them is an Error that names the estimator."""
    try:
        return prepare(x, z, scaling=getattr(options, "scaling", "standard"), at_least=at_least)
    except ValueError as error:
        raise penchant.Error(f"{options.name}: {error}") from None


def fingerprint(pairs: Pairs) -> int:
    """A number of these very samples, so that other samples get other networks although the role passes no key."""
    return zlib.crc32(
        pairs.x[:1024].cpu().numpy().tobytes() + pairs.z[:1024].cpu().numpy().tobytes()
    )


def _same_split_for_nulls(rows: Split, options: Any) -> Split:
    numbers = [
        *range(options.repeats),
        *(number % options.repeats for number in range(options.null_repeats)),
    ]
    return Split(rows.test[numbers], rows.stopping[numbers], rows.training[numbers])


def _partners(z: Tensor, options: Any, generator: torch.Generator) -> Tensor:
    """Which z goes with each x (networks, samples): its own, and for the nulls those of a random order."""
    orders = [
        torch.randperm(len(z), generator=generator, device="cpu")
        for _ in range(options.null_repeats)
    ]
    return torch.stack([torch.arange(len(z), device="cpu")] * options.repeats + orders).to(z.device)


def _report(options: Any, pairs: Pairs, trained: Trained) -> Estimate:
    own, null = slice(0, options.repeats), slice(options.repeats, None)
    value, training = float(trained.held_out[own].mean()), float(trained.training[own].mean())
    has_null = options.null_repeats > 0
    found_in_nothing = float(trained.held_out[null].mean()) if has_null else 0.0
    stderr = math.hypot(
        _stderr(trained.held_out[own], trained.sampling_error[own], options.held_out),
        found_in_nothing,
    )
    warnings = [*pairs.warnings, *_doubts(options, trained, value, training, stderr)]
    for one, other, text in ((pairs.x, pairs.z, "z of x"), (pairs.z, pairs.x, "x of z")):
        if looks_deterministic(one, other):
            warnings.append(
                f"{text} looks like a continuous function, whose mutual information is infinite: the value says little"
            )
            break
    return Estimate(
        value=value,
        training=training,
        stderr=stderr,
        null=found_in_nothing,
        null_stderr=_stderr(trained.held_out[null], trained.sampling_error[null], options.held_out)
        if has_null
        else 0.0,
        warnings=tuple(f"{options.name}: {text}" for text in warnings),
        over="independent networks, each on its own held-out samples, and the distance of the null from 0",
        count=options.repeats,
        details={
            "steps": trained.steps,
            "curve": trained.curve[:, own],
            "values": trained.held_out[own],
        },
    )


def _stderr(values: Tensor, sampling: Tensor, share: float) -> float:
    """Spread over networks and error from the number of held-out samples (blocks may overlap), added in squares.

    The spread has some of the second in it already, but from few networks: rather too large than too small.
    """
    count = len(values)
    spread = float(values.std()) / math.sqrt(count) if count > 1 else 0.0
    blocks = min(count, 1 / share)
    return math.hypot(spread, float(sampling.square().mean().sqrt()) / math.sqrt(blocks))


def _doubts(
    options: Any, trained: Trained, value: float, training: float, stderr: float
) -> list[str]:
    """Reasons not to trust the value."""
    found = []
    ceiling = math.log(trained.held_out_count)
    if value > ceiling - 1:
        found.append(
            f"the value is near log({trained.held_out_count}) = {ceiling:.3g} or above: more than held-out samples can vouch for"
        )
    if options.name == "info-nce":
        contrasts = min(options.marginals, trained.held_out_count - 1)
        if value > math.log(1 + contrasts) - 0.7:
            found.append(
                f"the value is near its largest possible, log({1 + contrasts}) = {math.log(1 + contrasts):.3g}"
            )
    best = trained.best_step[: options.repeats]
    if trained.steps == options.steps and float(best.double().median()) > 0.9 * trained.steps:
        found.append(
            f"the value was still rising when training stopped after {trained.steps} steps: more steps would give more"
        )
    if training - value > max(0.1, 0.2 * abs(value), 3 * stderr):
        found.append(
            f"training samples give {training:.3g}, held-out samples {value:.3g}: the networks learnt samples by heart"
        )
    if trained.diverged:
        found.append(
            f"{trained.diverged} of {len(trained.held_out)} networks diverged; their best state before that was kept"
        )
    if trained.held_out_count < 50:
        found.append(f"only {trained.held_out_count} held-out samples")
    return found
