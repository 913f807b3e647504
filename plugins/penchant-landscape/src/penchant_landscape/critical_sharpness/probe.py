"""The probe `critical-sharpness`: where the loss first rises along a step."""

import copy
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import safe
from penchant_numerics.linear_algebra import leading_pairs
from penchant_numerics.statistics import NO_NULL, Repetitions, null_of, rank_correlation, varies
from penchant_numerics.training import decay
from torch import Tensor, nn

from penchant_landscape.critical_sharpness.first_rise import FirstRise, first_rise
from penchant_landscape.declarations.critical_sharpness import CriticalSharpness
from penchant_landscape.declarations.recipes import USUAL_SAMPLES
from penchant_landscape.shared.line_losses import Landscape, curvature_along, random_units
from penchant_landscape.shared.network_energy import first_samples, training_loss

Quantities = dict[str, penchant.Quantity]
PASSES = 12  # forward passes of a state, at most
STATES = 9  # of a training, unless steps are given
FEWEST_RANKS = 4  # states from which on ranks are compared
_STEP = 1e-3  # share of the network's norm at which slopes of random directions are found


class Direction(NamedTuple):
    """A unit vector (parameters,), where to look first, and how long the step itself was."""

    unit: Tensor
    start: float
    length: float  # nan where there was no step
    passes: int


class Exact(NamedTuple):
    """The largest eigenvalue of the Hessian, what samples add to it (n,), and what it took."""

    value: float
    of_samples: Tensor
    products: int


class State(NamedTuple):
    """What is known of one state of the training."""

    step: int
    landscape: Landscape
    here: Tensor  # losses (n,)
    rise: FirstRise
    length: float
    exact: Exact | None
    limit: float  # nan where it is not known


def run(options: CriticalSharpness, context: penchant.Context) -> penchant.Result:
    """Measure every state; the last one with its null."""
    split, train = getattr(context.data, options.split), context.data.train
    samples = first_samples(split, options.samples, usual=USUAL_SAMPLES)
    given = first_samples(train, _at_most(options.samples, train), usual=USUAL_SAMPLES)
    loss = training_loss(context)
    states: list[State] = []
    for step, network, update in _networks(context):
        landscape = _landscape(network, samples, loss, context)
        here = _losses(landscape, landscape.centre, 0.0)
        if options.along == "gradient":
            training = _landscape(network, given, loss, context, twice=True)
            direction = _along_gradient(training, here, states)
        elif options.along == "update":
            assert update is not None
            direction = _along_update(update, step)
        else:
            direction = _along_random(landscape, here, context.generator("direction", step))
        measured = _state(step, landscape, here, direction, network, context)
        states.append(measured)
    if not states:
        raise penchant.Error("no state was measured: the training ended before all of eval_steps")
    result = penchant.Result(
        _quantities(states, context, samples.kind.units),
        {"steps": np.array([each.step for each in states])},
        tables=_tables(states),
        conventions=_conventions(options, len(samples.labels)),
    )
    missing = {name: None for name, each in result.quantities.items() if each.missing}
    missing |= {name: None for name, each in result.arrays.items() if not _finite(each)}
    return attrs.evolve(result, missing=missing)


def _at_most(count: int | None, samples: Samples) -> int | None:
    """Of another split there may be fewer."""
    return None if count is None else min(count, len(samples.labels))


def _finite(values: Iterable[float]) -> bool:
    return all(math.isfinite(value) for value in values)


# ---- states


def _networks(
    context: penchant.Context[CriticalSharpness],
) -> Iterator[tuple[int, nn.Module, Tensor | None]]:
    """Steps, networks, and the updates that follow them."""
    steps = _steps(context)
    if context.options.along != "update":
        for step, network in context.trained(steps):
            yield step, network, None
        return
    pairs = _pairs(steps, context)
    before: tuple[int, nn.Module, Tensor] | None = None
    for step, network in context.trained(sorted({each for pair in pairs for each in pair})):
        row = torch.cat([value.detach().flatten() for value in network.parameters()])
        if before is not None and (before[0], step) in pairs:
            yield before[0], before[1], row - before[2]
        before = step, copy.deepcopy(network), row


def _steps(context: penchant.Context[CriticalSharpness]) -> Sequence[int]:
    """Steps at which networks are measured."""
    options = context.options
    if options.eval_steps is not None:
        return sorted(set(options.eval_steps))
    if context.network_kind != "fresh":
        return context.steps or (0,)
    assert context.training is not None
    total = context.training.total_steps(len(context.data.train.labels))
    return sorted({round(total * number / (STATES - 1)) for number in range(STATES)})


def _pairs(steps: Sequence[int], context: penchant.Context) -> set[tuple[int, int]]:
    """States before and after an update: neighbours of a trajectory, else single steps."""
    if context.network_kind == "fresh":
        ends = {max(1, step) for step in steps}
        return {(end - 1, end) for end in ends}
    there = context.steps
    if len(there) < 2:
        raise penchant.Error(
            f'along = "update" needs two states of a training, found {max(1, len(there))}; '
            'expected a trajectory, or along = "gradient"'
        )
    chosen = [step for step in steps if step in there[:-1]] or [there[-2]]
    return {(step, there[there.index(step) + 1]) for step in chosen}


def _landscape(
    network: nn.Module,
    samples: Samples,
    loss: str,
    context: penchant.Context[CriticalSharpness],
    *,
    twice: bool = False,
) -> Landscape:
    """The network in evaluation mode; with its own kernels, unless it is differentiated."""
    options = context.options
    inputs = context.data.train.inputs
    if twice or options.batch_norm != "running":
        network = safe(network, batch_norm=options.batch_norm, calibration=inputs)
    else:
        network = copy.deepcopy(network).eval()
    return Landscape(network, samples, loss=loss, batch_norm=options.batch_norm, calibration=inputs)


def _losses(landscape: Landscape, direction: Tensor, distance: float) -> Tensor:
    """Losses (n,) of samples at a distance along a direction."""
    return landscape.measure([landscape.centre + distance * direction]).losses[0]


def _state(
    step: int,
    landscape: Landscape,
    here: Tensor,
    direction: Direction,
    network: nn.Module,
    context: penchant.Context[CriticalSharpness],
) -> State:
    """Search along the direction; the largest eigenvalue where it fits."""

    def losses(distance: float) -> Tensor:
        # the loss at the network itself is known
        return here if distance == 0 else _losses(landscape, direction.unit, distance)

    eps = torch.finfo(landscape.centre.dtype).eps
    allowed = PASSES - direction.passes
    rise = first_rise(losses, direction.start, eps=eps, passes=allowed)
    rise = rise._replace(passes=rise.passes + direction.passes)
    if rise.problem:
        context.warn(f"no critical sharpness at step {step}: {rise.problem}")
    exact = None
    if len(landscape.centre) <= context.options.exact_limit:
        twice = _landscape(network, landscape.samples, landscape.loss, context, twice=True)
        exact = _largest(twice, step, context)
    return State(step, landscape, here, rise, direction.length, exact, _limit(step, context))


def _limit(step: int, context: penchant.Context) -> float:
    """2 (1 + momentum) / rate, of trainings whose rate is known."""
    training = context.training
    if context.network_kind != "fresh" or training is None:
        return math.nan
    if training.optimizer != "sgd" or training.learning_rates:
        return math.nan
    total = training.total_steps(len(context.data.train.labels))
    # the last state has the rate of the step before it
    factor = decay(training.schedule, min(step, max(0, total - 1)), max(1, total))
    return 2 * (1 + training.momentum) / (training.learning_rate * factor)


# ---- directions


def _along_gradient(landscape: Landscape, here: Tensor, states: list[State]) -> Direction:
    """Down the gradient; the last critical distance is where to look first."""
    gradient = landscape.gradient()
    norm = float(gradient.double().norm())
    if not norm > 0:
        raise penchant.Error(
            "the gradient of the loss is zero, expected a network that is not at a minimum"
        )
    start = float(here.mean()) / norm
    if states and not states[-1].rise.problem:
        start = states[-1].rise.distance
    return Direction(-gradient / norm, start, math.nan, passes=1)


def _along_update(update: Tensor, step: int) -> Direction:
    """Along the update, which is as long as it was."""
    length = float(update.double().norm())
    if not length > 0:
        raise penchant.Error(
            f"the update after step {step} is zero, expected a state that differs from the next"
        )
    return Direction(update / length, length, length, passes=0)


def _along_random(landscape: Landscape, here: Tensor, generator: torch.Generator) -> Direction:
    """Down a random direction, whose slope and curvature say where to look first."""
    (unit,) = random_units(1, landscape.centre, generator=generator)
    size = _STEP * float(landscape.centre.double().norm())
    along = curvature_along(functools.partial(_losses, landscape, unit), here, size)
    slope, curvature = float(along.slopes.mean()), float(along.curvatures.mean())
    start = 2 * abs(slope) / curvature if curvature > 0 and slope else size
    return Direction(unit if slope < 0 else -unit, start, math.nan, passes=2)


# ---- beside it


def _largest(
    landscape: Landscape, step: int, context: penchant.Context[CriticalSharpness]
) -> Exact:
    """The largest eigenvalue of the Hessian of the mean loss, by Lanczos."""
    H = landscape.hessian()
    pairs = leading_pairs(
        H,
        1,
        generator=context.generator("largest", step),
        dense_up_to=0,
        products=context.options.products,
        tolerance=1e-3,
    )
    if not bool(pairs.converged.all()):
        context.warn(
            f"the largest eigenvalue at step {step} did not converge in {pairs.products} products: "
            f"its residual is {float(pairs.residuals[0]):.2g}"
        )
    try:
        of_samples = landscape.curvatures(pairs.vectors[:, 0])
    except NotImplementedError as error:
        reason = str(error).splitlines()[0]
        context.warn(f"the largest eigenvalue at step {step} has no standard error: {reason}")
        of_samples = torch.full((len(landscape.samples.labels),), math.nan, device="cpu")
    return Exact(float(pairs.values[0]), of_samples, pairs.products)


def _random_curvatures(state: State, context: penchant.Context[CriticalSharpness]) -> list[float]:
    """Curvatures along random directions, over the critical distance."""
    distance = state.rise.distance
    if not math.isfinite(distance):
        distance = _STEP * float(state.landscape.centre.double().norm())
    units = random_units(
        context.options.random_directions,
        state.landscape.centre,
        generator=context.generator("null"),
    )
    draws = []
    for unit in units:
        losses = functools.partial(_losses, state.landscape, unit)
        along = curvature_along(losses, state.here, distance)
        draws.append(float(along.curvatures.mean()))
    return draws


# ---- numbers


def _quantities(
    states: list[State], context: penchant.Context[CriticalSharpness], unit: str
) -> Quantities:
    """Numbers of the last state, and along the states."""
    last = states[-1]
    rise, count = last.rise, len(last.here)
    draws = _random_curvatures(last, context)
    over: Repetitions = {"over": unit, "count": count, "df": count - 1}
    quantities = {
        "critical-sharpness": _with_null(rise.sharpness, rise.stderr, draws, over),
        "critical-rate": penchant.Quantity(
            2 / rise.sharpness, stderr=_known(2 * rise.stderr / rise.sharpness**2), **over
        ),
    }
    if context.options.along == "update":
        quantities["critical-update"] = penchant.Quantity(
            rise.distance / last.length, stderr=_known(rise.distance_stderr / last.length), **over
        )
    if last.exact is not None:
        quantities |= _exact_quantities(last, last.exact, draws, over)
    if math.isfinite(last.limit):
        quantities["stability-limit"] = penchant.Quantity(last.limit, exact=True)
    quantities |= _ranks(states, context)
    quantities["loss"] = penchant.Quantity(
        float(last.here.mean()), stderr=_stderr(last.here), **over
    )
    return quantities


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _with_null(
    value: float, stderr: float, draws: list[float], over: Repetitions
) -> penchant.Quantity:
    """A curvature beside those along random directions."""
    null = NO_NULL
    if draws and math.isfinite(value):
        null = null_of(draws, value=value, stderr=_known(stderr), df=over["df"])
    return penchant.Quantity(value, stderr=_known(stderr), **over, **null)


def _exact_quantities(
    last: State, exact: Exact, draws: list[float], over: Repetitions
) -> Quantities:
    """The largest eigenvalue, with what samples add to it, and how much of it a step sees."""
    of_samples = exact.of_samples
    sharpness = _with_null(exact.value, _stderr(of_samples), draws, over)
    ratio = last.rise.sharpness / exact.value
    # both are of the same samples
    influences = (last.rise.influences - ratio * of_samples) / exact.value
    return {
        "sharpness": sharpness,
        "sharpness-ratio": penchant.Quantity(ratio, stderr=_known(_stderr(influences)), **over),
    }


def _stderr(influences: Tensor) -> float:
    return float(influences.std()) / math.sqrt(len(influences))


def _ranks(states: list[State], context: penchant.Context) -> Quantities:
    """Rank correlations over states that have a number."""
    known = [each for each in states if not each.rise.problem]
    sharpness = [each.rise.sharpness for each in known]
    if len(known) < FEWEST_RANKS or not varies(sharpness):
        return {}
    others = {"sharpening": [float(each.step) for each in known]}
    exact = [each.exact.value for each in known if each.exact is not None]
    if len(exact) == len(known) and varies(exact):
        others["rank-correlation"] = exact
    quantities = {}
    for name, values in others.items():
        ranks = rank_correlation(sharpness, values, generator=context.generator(name))
        quantities[name] = penchant.Quantity(**ranks.fields(), over="states")
    return quantities


def _tables(states: list[State]) -> dict[str, penchant.Table]:
    """Numbers along the states."""
    axes = {"step": [each.step for each in states]}
    rises = [each.rise for each in states]
    unit = states[0].landscape.samples.kind.units
    count = len(states[0].here)
    tables = {
        "critical-sharpness": penchant.Table(
            [each.sharpness for each in rises],
            axes,
            stderr=[each.stderr for each in rises],
            over=unit,
            count=count,
        ),
        "loss": penchant.Table(
            [float(each.here.mean()) for each in states],
            axes,
            stderr=[_stderr(each.here) for each in states],
            over=unit,
            count=count,
        ),
        "forward-passes": penchant.Table([float(each.passes) for each in rises], axes),
    }
    if math.isfinite(states[0].length):
        lengths = np.array([each.length for each in states])
        tables["critical-update"] = penchant.Table(
            np.array([each.distance for each in rises]) / lengths,
            axes,
            stderr=np.array([each.distance_stderr for each in rises]) / lengths,
            over=unit,
            count=count,
        )
    exact = [each.exact for each in states if each.exact is not None]
    if exact:
        tables["sharpness"] = penchant.Table([each.value for each in exact], axes)
        products = [float(each.products) for each in exact]
        tables["hessian-products"] = penchant.Table(products, axes)
    limits = [each.limit for each in states]
    if _finite(limits):
        tables["stability-limit"] = penchant.Table(limits, axes)
    return tables


def _conventions(options: CriticalSharpness, count: int) -> dict[str, str]:
    directions = {
        "gradient": "down the gradient of the loss on the training samples, the first in order",
        "update": "along the update that follows the state",
        "random": "down a random Gaussian direction in all parameters",
    }
    statistics = {
        "running": "running statistics, evaluation mode",
        "batch": "statistics of all samples at every point",
        "calibrated": "statistics of the training inputs, calibrated again at every point",
    }
    return {
        "direction": directions[options.along],
        "samples": f"{options.split}, the first {count}",
        "batch-norm": statistics[options.batch_norm],
        "critical sharpness": "2 s / r, in units of the Euclidean distance of all parameters",
        "null": f"{options.random_directions} random directions over the critical distance",
    }
