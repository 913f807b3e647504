"""The probe `class-paths`: are inputs of one class joined by paths that keep the class?

The error of a mean over pairs that share ends.

Pairs with an end in common are not independent: an end that lies badly spoils all of its pairs. So
ends are left out one at a time, with all their pairs (the jackknife of a statistic of pairs). Where
no end makes a difference, half a pair on each side does, as for any share.
"""

import itertools
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.statistics import binomial_stderr, jackknife, p_value, statistics
from penchant_numerics.training import accuracy_numbers, evaluate
from torch import Generator, Tensor, nn

from penchant_spectral_bias.class_paths import elastic_band
from penchant_spectral_bias.declarations.paths import ClassPaths
from penchant_spectral_bias.shared.rank_order import joined

BLOCK = 16  # pairs per shard
FINER = 3  # connected paths are evaluated again, this many times as finely
EASY = 0.9  # share of straight lines above which bending has nothing to show
KINDS = ("image-image", "image-adversarial", "adversarial-adversarial")
OVER = "ends, of one network"
PAIRS = ("classes", "kinds", "ends", "connected", "straight", "confirmed")
PATHS = ("length-ratios", "certainties", "paths", "path-classes", "path-connected")


def run(options: ClassPaths, context: penchant.Context) -> penchant.Result:
    """Bend paths between pairs of every class, a block of pairs at a time."""
    chosen = _chosen_classes(options, context)
    # Trained once, before shards ask for it.
    *_, (_, network) = context.trained()
    items = []
    for label in chosen:
        starts = range(0, options.pairs, BLOCK)
        items += [{"class": label, "start": start} for start in starts]
    shards = list(context.map(bent_pairs, items))
    rows = joined(shards, [*PAIRS, *PATHS])
    if not len(rows["connected"]):
        raise penchant.Error(
            "no pair of inputs was found: the network does not give the same class to any two of "
            "the chosen images; train it longer"
        )
    missed = sum(float(shard["missed"]) for shard in shards)
    if missed:
        context.warn(
            f"{missed:g} adversarial inputs did not reach their class in {options.attack_steps} "
            "steps and were left out"
        )
    quantities = _quantities(rows)
    quantities["test-accuracy"] = _test_accuracy(context, network)
    _warn_where_easy(context, quantities["connected"])
    arrays = {name: rows[name] for name in (*PAIRS, *PATHS) if name not in ("ends", "confirmed")}
    return penchant.Result(
        quantities,
        arrays,
        conventions={
            "connected": f"{options.resolution} points on every straight piece have the class "
            "(largest logit)",
            "band": "steps across the path, pivots spread evenly after each; pieces doubled "
            "between refinements",
            "straight": "the null of connected: the straight line, evaluated at as many points",
        },
    )


def _chosen_classes(options: ClassPaths, context: penchant.Context) -> tuple[int, ...]:
    count = context.data.classes
    chosen = options.chosen_classes
    if chosen is None:
        chosen = tuple(range(count))
    if max(chosen) >= count:
        raise penchant.Error(f"chosen_classes must be in 0..{count - 1}, found {max(chosen)}")
    return chosen


def bent_pairs(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Paths of one block of pairs of one class."""
    options = context.options
    label = item["class"]
    start = item["start"]
    *_, (_, network) = context.trained()
    points, is_adversarial, missed = _ends(context, network, label)
    shape = points.shape[1:]

    # every block draws all pairs, and takes its own
    generator = context.generator("pairs", label)
    every = _pairs(points, options.pairs, generator)
    pairs = every[start : start + BLOCK]
    bent = _bent(context, network, points, pairs, label)

    # ends of different classes have different numbers
    most = options.images + options.adversarials
    shards = {
        "classes": torch.full((len(pairs),), label, device="cpu"),
        "kinds": is_adversarial[pairs].sum(1),
        "ends": pairs + label * most,
        "connected": bent.connected,
        "straight": _straight(context, network, points, pairs, label),
        "confirmed": _confirmed(context, network, bent, shape, label),
        "length-ratios": bent.length,
        "certainties": bent.certainty,
    }
    # the first block speaks for its class
    is_first = start == 0
    stored = options.stored_paths if is_first else 0
    shards |= _stored(bent, stored, shape, label)
    shards["missed"] = missed if is_first else 0
    return shards


def _bent(
    context: penchant.Context, network: nn.Module, points: Tensor, pairs: Tensor, label: int
) -> elastic_band.Paths:
    options = context.options
    return elastic_band.bend(
        network,
        points[pairs[:, 0]],
        points[pairs[:, 1]],
        label,
        refinements=options.refinements,
        bends=options.bends,
        learning_rate=options.learning_rate,
        momentum=options.momentum,
        pivots=options.pivots,
        resolution=options.resolution,
    )


def _stored(
    bent: elastic_band.Paths, count: int, shape: torch.Size, label: int
) -> dict[str, Tensor]:
    """The first paths, as inputs."""
    pivots = bent.pivots[:count]
    number, length = pivots.shape[:2]
    return {
        "paths": pivots.reshape(number, length, *shape),
        "path-classes": torch.full((number,), label, device="cpu"),
        "path-connected": bent.connected[:count],
    }


def _straight(
    context: penchant.Context, network: nn.Module, points: Tensor, pairs: Tensor, label: int
) -> Tensor:
    """Do straight lines keep the class, evaluated at as many points as bent paths?"""
    options = context.options
    pieces = (options.pivots + 1) * 2 ** (options.refinements - 1)
    lines = elastic_band.straight_lines(
        network, points[pairs[:, 0]], points[pairs[:, 1]], label, points=pieces * options.resolution
    )
    return lines.connected


def _confirmed(
    context: penchant.Context,
    network: nn.Module,
    bent: elastic_band.Paths,
    shape: torch.Size,
    label: int,
) -> Tensor:
    """Do paths keep the class when they are evaluated at more points?"""
    resolution = FINER * context.options.resolution
    finer = elastic_band.dense(bent.pivots, resolution)
    keeps, _ = elastic_band.classified(network, finer, shape, label)
    return keeps.all(1)


def _ends(context: penchant.Context, network: nn.Module, label: int) -> tuple[Tensor, Tensor, int]:
    """Training images of a class, and inputs of other classes moved into it.

    Also: which of them are adversarial, and how many were not moved far enough.
    """
    options, train = context.options, context.data.train
    generator = context.generator("images", label)
    order = torch.randperm(len(train.labels), generator=generator, device="cpu")
    order = order.to(train.labels.device)
    # training images that the network takes for what they are
    is_own = train.labels[order] == label
    own = _given_class(network, train.inputs[order[is_own]], label, options.images)

    # inputs of other classes, moved until it takes them for the class
    others = train.inputs[order[~is_own][: options.adversarials]]
    moved, there = elastic_band.adversarial(
        network,
        others,
        label,
        step=options.attack_step,
        steps=options.attack_steps,
        certainty=options.attack_certainty,
    )
    moved = moved[there]
    points = torch.cat([own, moved])
    is_adversarial = torch.arange(len(points), device=points.device) >= len(own)
    return points, is_adversarial, len(others) - len(moved)


@torch.no_grad()
def _given_class(network: nn.Module, candidates: Tensor, label: int, count: int) -> Tensor:
    """The first `count` candidates that the network gives the class."""
    # enough of them for a network that is right once in four times
    some = candidates[: 4 * count + 16]
    logits = network(some)
    given = logits.argmax(1) == label
    return some[given][:count]


def _pairs(points: Tensor, count: int, generator: Generator) -> Tensor:
    """`count` pairs of different points, in random order, (pairs, 2)."""
    every = []
    for first, second in itertools.combinations(range(len(points)), 2):
        # equal inputs are joined by no path that could be longer
        if not torch.equal(points[first], points[second]):
            every.append((first, second))
    indices = torch.tensor(every, device="cpu", dtype=torch.int64)
    # without any pair there is an axis missing
    indices = indices.reshape(-1, 2)
    order = torch.randperm(len(indices), generator=generator, device="cpu")
    return indices[order[:count]]


def _quantities(rows: dict[str, Tensor]) -> dict[str, penchant.Quantity]:
    truths = {}
    for name in ("connected", "straight", "confirmed"):
        truths[name] = rows[name].numpy().astype(bool)
    ends = rows["ends"].numpy()
    kinds = rows["kinds"].numpy()
    connected, straight = truths["connected"], truths["straight"]

    # of all pairs, and by how many of their ends are adversarial
    quantities = {"connected": _share(connected, straight, ends)}
    for number, name in enumerate(KINDS):
        own = kinds == number
        if own.any():
            quantities[f"connected-{name}"] = _share(connected[own], straight[own], ends[own])
    gain = connected.astype(float) - straight.astype(float)
    quantities["bent-minus-straight"] = _difference(gain, ends)

    # paths that lead nowhere have no length worth a mean
    if connected.any():
        ratios = rows["length-ratios"].double().numpy()
        confirmed = truths["confirmed"]
        quantities |= _of_connected(ratios[connected], confirmed[connected], ends[connected])
    return quantities


def _of_connected(
    ratios: np.ndarray, confirmed: np.ndarray, ends: np.ndarray
) -> dict[str, penchant.Quantity]:
    """Lengths of connected paths, and whether they are still connected when seen more finely."""
    count = len(ratios)
    df = _df(ends)
    mean, stderr = mean_and_stderr(ratios, ends)
    share, share_stderr = share_and_stderr(confirmed, ends)
    return {
        "length-ratio": penchant.Quantity(mean, stderr=stderr, over=OVER, count=count, df=df),
        "confirmed": penchant.Quantity(share, stderr=share_stderr, over=OVER, count=count, df=df),
    }


def _share(connected: np.ndarray, straight: np.ndarray, ends: np.ndarray) -> penchant.Quantity:
    """The share of connected pairs; under the null it is that of straight lines."""
    share, stderr = share_and_stderr(connected, ends)
    null, spread = share_and_stderr(straight, ends)
    # of the same pairs, so that the difference is what is tested
    gain = _difference(connected.astype(float) - straight.astype(float), ends)
    return penchant.Quantity(
        share,
        stderr=stderr,
        over=OVER,
        count=len(connected),
        df=gain.df,
        null=null,
        null_spread=spread,
        null_stderr=spread,
        p=p_value(gain.value, gain.stderr, gain.df),
    )


def _df(ends: np.ndarray) -> int | None:
    """Degrees of freedom of an error over ends; None where leaving one out leaves nothing."""
    count = len(np.unique(ends))
    return count - 1 if count > 2 else None


def _difference(values: np.ndarray, ends: np.ndarray) -> penchant.Quantity:
    """A difference of shares; where all pairs agree, half a pair is its error."""
    mean, stderr = mean_and_stderr(values, ends)
    floor = statistics.binomial_stderr(abs(mean), len(values))
    error = floor if stderr is None else max(floor, stderr)
    return penchant.Quantity(
        mean, stderr=error, over=OVER, count=len(values), df=_df(ends), null=0.0
    )


def _test_accuracy(context: penchant.Context, network: nn.Module) -> penchant.Quantity:
    _, accuracy = evaluate(network, context.data.test)
    return penchant.Quantity(**accuracy_numbers(accuracy, context.data.test, over="test samples"))


def _warn_where_easy(context: penchant.Context, connected: penchant.Quantity) -> None:
    if connected.null is not None and connected.null > EASY:
        context.warn(
            f"straight lines keep the class of {connected.null:.2f} of the pairs: bending paths "
            "shows nothing here that they do not"
        )


def mean_and_stderr(values: np.ndarray, ends: np.ndarray) -> tuple[float, float | None]:
    """The mean over pairs, and its standard error over ends.

    Args:
        values: One number a pair, (pairs,).
        ends: The two ends of every pair, as numbers, (pairs, 2).

    Returns:
        Mean and error; the error is None where leaving out one end leaves nothing.

    >>> ends = np.array([[0, 1], [1, 2], [0, 2]])
    >>> mean_and_stderr(np.array([1.0, 2.0, 3.0]), ends)[0]
    2.0
    """
    values = values.astype(np.float64)
    mean = float(values.mean())
    replicates = []
    for end in np.unique(ends):
        # pairs that do not contain it
        others = (ends != end).all(1)
        if not others.any():
            return mean, None
        without = values[others]
        replicates.append(float(without.mean()))
    return mean, jackknife(replicates)


def share_and_stderr(truths: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """The share of pairs for which something holds, and its standard error over ends.

    The error is never below the binomial one of as many independent pairs.
    """
    share, stderr = mean_and_stderr(truths, ends)
    binomial = binomial_stderr(share, len(truths))
    if stderr is None:
        return share, binomial
    return share, max(binomial, stderr)
