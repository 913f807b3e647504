"""The probe `representation-similarity`: all layers of one network against all of another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import penchant
import torch
from penchant_numerics.data import IGNORED, kind_of
from penchant_numerics.statistics import (
    Null,
    Repetitions,
    few_draws_p_value,
    jackknife,
    null_of,
    share_p_value,
)
from torch import Tensor, nn

from penchant_representations.declarations import RepresentationSimilarity
from penchant_representations.representation_similarity.given_arrays import (
    GivenArrays,
    given_arrays,
)
from penchant_representations.representation_similarity.gram_similarity import (
    Comparison,
    corresponding,
)
from penchant_representations.representation_similarity.layer_grams import (
    check_aligned,
    layer_grams,
    layer_names,
)

Axes: TypeAlias = "Mapping[str, Sequence[str]]"


class Inputs(NamedTuple):
    """Inputs (n, ...), and which positions of sequences count (n, positions); None: all."""

    inputs: Tensor
    counted: Tensor | None

    def batches(self, size: int) -> Iterator[Inputs]:
        """As many at a time."""
        for first in range(0, len(self.inputs), size):
            some = slice(first, first + size)
            yield Inputs(self.inputs[some], None if self.counted is None else self.counted[some])


class Network(NamedTuple):
    """A network and the names of its layers that are compared."""

    module: nn.Module
    layers: list[str]


def run(options: RepresentationSimilarity, context: penchant.Context) -> penchant.Result:
    """Compare the networks, and the same networks at initialisation; or arrays."""
    if options.arrays_given:
        return _of_arrays(options, context)
    samples = _samples(options, context)
    inputs = samples.inputs
    states = _ends(context)
    step, module = states[-1]
    first = _with_layers(module, inputs, context)
    second = _second(states, inputs, context)
    itself = options.second == "itself"
    pairs = corresponding(len(first.layers), len(second.layers), itself=itself)
    if not pairs:
        raise penchant.Error(f"expected at least two layers to compare, found {first.layers}")
    trained = _compared(first, second, pairs, samples, context, null=True)

    # the same networks before they learnt anything
    untrained = None
    if step > 0 and options.second != "start":
        others = _both_untrained(context)
        first = Network(others[0], first.layers)
        second = Network(others[1], second.layers)
        untrained = _compared(first, second, pairs, samples, context, null=False)
    steps = [step for step, _ in states]
    axes = {"layer": first.layers, "second-layer": second.layers}
    return penchant.Result(
        _quantities(trained, untrained, samples, options),
        {"corresponding": np.array(pairs), "steps": np.array(steps)},
        tables=_tables(trained, untrained, axes, _repetitions(samples, options)),
        conventions=_conventions(options, samples),
    )


def _of_arrays(options: RepresentationSimilarity, context: penchant.Context) -> penchant.Result:
    """Compare arrays with each other, as layers of one network."""
    given = given_arrays(options, context)
    if len(given.arrays) < 2:
        raise penchant.Error(f"expected at least two arrays to compare, found {given.layers}")
    chosen = _chosen(given.samples, options, context)
    samples = Inputs(chosen.to(context.device), None)
    pairs = corresponding(len(given.arrays), len(given.arrays), itself=True)
    compared = _compared(given, given, pairs, samples, context, null=True)
    conventions = _conventions(options, samples)
    for name in ("second network", "mode", "positions"):
        del conventions[name]
    conventions["layers"] = f"{options.arrays_given[0]} that were given"
    axes = {"layer": given.layers, "second-layer": given.layers}
    return penchant.Result(
        _quantities(compared, None, samples, options),
        {"corresponding": np.array(pairs)},
        tables=_tables(compared, None, axes, _repetitions(samples, options)),
        conventions=conventions,
    )


def _samples(options: RepresentationSimilarity, context: penchant.Context) -> Inputs:
    """Inputs in random order, as many in each minibatch; sequences that have a label."""
    inputs, labels = getattr(context.data, options.split)
    counted = None
    if kind_of(labels).by_position:
        labelled = (labels != IGNORED).any(1)
        inputs, counted = inputs[labelled], labels[labelled] != IGNORED
        if options.positions == "flatten":
            check_aligned(counted)
    chosen = _chosen(len(inputs), options, context).to(inputs.device)
    return Inputs(inputs[chosen], None if counted is None else counted[chosen])


def _chosen(available: int, options: RepresentationSimilarity, context: penchant.Context) -> Tensor:
    """Numbers of samples in random order, as many in each minibatch."""
    size = min(options.samples, available) // options.groups
    least = max(4, options.neighbours + 1)
    if size < least:
        raise penchant.Error(
            f"a minibatch needs at least {least} samples, {least * options.groups} for "
            f"groups = {options.groups}, found {available} {_origin(options)}samples"
            f"{_fewer_groups(available // least, options.groups)}"
        )
    order = torch.randperm(available, generator=context.generator("samples"), device="cpu")
    return order[: size * options.groups]


def _origin(options: RepresentationSimilarity) -> str:
    """Where samples are from: a word of a sentence, or none."""
    return "" if options.arrays_given else f"{options.split} "


def _fewer_groups(most: int, given: int) -> str:
    """What to set where there are samples for fewer groups only."""
    return f": set groups = {most}" if 2 <= most < given else ""


def _with_layers(module: nn.Module, inputs: Tensor, context: penchant.Context) -> Network:
    """A network and its layers; says which cannot be compared."""
    names, others = layer_names(module, inputs, context.options.layer_names)
    if others:
        context.warn(f"left out, because their rows are not samples: {', '.join(others)}")
    if not names:
        raise penchant.Error(
            "the network has no linear layer or convolution; name some by `layer_names`"
        )
    return Network(module, names)


def _ends(context: penchant.Context) -> list[tuple[int, nn.Module]]:
    """The first and the last state of a trajectory, or only the end of the training."""
    ends: list[tuple[int, nn.Module]] = []
    for state in context.trained():
        ends[1:] = [state]
    return ends


def _second(
    states: list[tuple[int, nn.Module]], inputs: Tensor, context: penchant.Context
) -> Network:
    """The second network, trained by the same recipe."""
    options: RepresentationSimilarity = context.options
    if options.second == "itself":
        return _with_layers(states[-1][1], inputs, context)
    if options.second == "start":
        module = _start(states, context)
    else:
        if context.network_kind != "fresh" and options.second == "seed":
            raise penchant.Error(
                'second = "seed" draws another network of the architecture, found one network of '
                'the user\'s own: compare it with second = "itself", "start" or "other"'
            )
        module = _other_untrained(context)
        samples = context.data
        trained = context.train(module, samples.train, "second", test=samples.test)
        *_, (_, module) = trained
    return _with_layers(module.eval(), inputs, context)


def _start(states: list[tuple[int, nn.Module]], context: penchant.Context) -> nn.Module:
    """The network where the training started: the first of several states, or at initialisation."""
    step, last = states[-1]
    start = states[0][1] if len(states) > 1 else context.network()
    pairs = zip(last.state_dict().values(), start.state_dict().values())
    if all(torch.equal(one, other) for one, other in pairs):
        raise penchant.Error(
            'second = "start" compares a network with the start of its training, found a network '
            f"that was not trained (step {step})"
        )
    return start


def _other_untrained(context: penchant.Context) -> nn.Module:
    """The second network before training: network 1, or network 0 of another architecture."""
    options: RepresentationSimilarity = context.options
    if options.second == "other":
        return context.scope("second", architecture=options.other).network()
    return context.network(1)


def _both_untrained(context: penchant.Context) -> tuple[nn.Module, nn.Module]:
    """Both networks before training."""
    first = context.network()
    if context.options.second == "itself":
        return first, first
    return first, _other_untrained(context)


def _compared(
    first: Network | GivenArrays,
    second: Network | GivenArrays,
    pairs: list[tuple[int, int]],
    samples: Inputs,
    context: penchant.Context,
    *,
    null: bool,
) -> Comparison:
    """All layers of two networks, minibatch after minibatch."""
    options: RepresentationSimilarity = context.options
    comparison = Comparison(pairs, options.measures, options.neighbours, options.shuffles)
    tell = context.progress(options.groups, "minibatches")
    for number, batch in enumerate(samples.batches(len(samples.inputs) // options.groups)):
        K = _grams(first, batch, options)
        L = K if _are_same(first, second) else _grams(second, batch, options)
        generator = context.generator("shuffles", number) if null else None
        comparison.add(K, L, generator)
        tell(number + 1)
    return comparison


def _are_same(first: Network | GivenArrays, second: Network | GivenArrays) -> bool:
    if isinstance(first, GivenArrays) or isinstance(second, GivenArrays):
        return first is second
    return first.module is second.module


def _grams(
    network: Network | GivenArrays, batch: Inputs, options: RepresentationSimilarity
) -> Tensor:
    """Gram matrices of all layers for a minibatch."""
    if isinstance(network, GivenArrays):
        return network.grams(batch.inputs)
    return layer_grams(
        network.module,
        batch.inputs,
        network.layers,
        positions=options.positions,
        counted=batch.counted,
    )


def _tables(
    trained: Comparison, untrained: Comparison | None, axes: Axes, over: Repetitions
) -> dict[str, penchant.Table]:
    """Similarity of all pairs of layers, and of corresponding ones with shuffled samples."""
    pairs = [_pair(axes["layer"][i], axes["second-layer"][j]) for i, j in trained.pairs]
    compared = {"layers": trained}
    if untrained is not None:
        compared["untrained"] = untrained
    tables = {}
    for name in trained.measures:
        for key, each in compared.items():
            errors = jackknife(each.replicates(name))
            table = penchant.Table(each.similarity(name), axes, stderr=errors, **over)
            tables[f"{name}-{key}"] = table
        tables[f"{name}-null"] = penchant.Table(trained.null(name).mean(0), {"pair": pairs})
    return tables


def _pair(first: str, second: str) -> str:
    """The name of two layers that correspond."""
    return first if first == second else f"{first} | {second}"


def _repetitions(samples: Inputs, options: RepresentationSimilarity) -> Repetitions:
    """What errors are over."""
    return {"over": _unit(samples), "count": len(samples.inputs), "df": options.groups - 1}


def _quantities(
    trained: Comparison,
    untrained: Comparison | None,
    samples: Inputs,
    options: RepresentationSimilarity,
) -> dict[str, penchant.Quantity]:
    """Numbers of every measure."""
    quantities: dict[str, penchant.Quantity] = {}
    for name in options.measures:
        quantities |= _of_measure(name, trained, untrained, samples, options)
    return quantities


def _of_measure(
    name: str,
    trained: Comparison,
    untrained: Comparison | None,
    samples: Inputs,
    options: RepresentationSimilarity,
) -> dict[str, penchant.Quantity]:
    """Means over corresponding layers, the last of them, and how layers find each other."""
    table, replicates = trained.similarity(name), trained.replicates(name)
    if not (np.isfinite(table).all() and np.isfinite(replicates).all()):
        unit, count = _unit(samples), len(samples.inputs)
        raise penchant.Error(
            f"the unbiased norms of some layers are not positive with {count} {unit} in "
            f"{options.groups} minibatches: more {unit}, or fewer groups, are needed"
        )
    over = _repetitions(samples, options)
    i, j = np.array(trained.pairs).T
    null = trained.null(name)
    value, each = table[i, j].mean(), replicates[:, i, j].mean(1)
    last, each_last = table[i[-1], j[-1]], replicates[:, i[-1], j[-1]]
    quantities = {
        name: penchant.Quantity(
            value, stderr=jackknife(each), **over, **_shuffled(null.mean(1), value)
        ),
        f"{name}-last": penchant.Quantity(
            last, stderr=jackknife(each_last), **over, **_shuffled(null[:, -1], last)
        ),
    }
    if untrained is not None:
        # on the same samples, so that what they share cancels
        before = untrained.similarity(name)[i, j].mean()
        gains = each - untrained.replicates(name)[:, i, j].mean(1)
        quantities[f"{name}-gain"] = penchant.Quantity(
            value - before, stderr=jackknife(gains), null=0.0, **over
        )
    if options.second != "itself" and table.shape[1] > 1:
        share, chance = float((table[i].argmax(1) == j).mean()), 1 / table.shape[1]
        quantities[f"{name}-identified"] = penchant.Quantity(
            share, exact=True, null=chance, p=share_p_value(share, len(i), chance)
        )
    return quantities


def _unit(samples: Inputs) -> str:
    """What standard errors are over."""
    return "samples" if samples.counted is None else "sequences"


def _shuffled(draws: np.ndarray, value: float) -> Null:
    """The null of shuffles of the same samples.

    Without an effect only they vary: the error over samples does not enter.
    """
    fields = null_of(draws)
    spread = draws.std(ddof=1) * math.sqrt(1 + 1 / len(draws))
    return {**fields, "p": few_draws_p_value(value - draws.mean(), spread, len(draws) - 1)}


def _conventions(options: RepresentationSimilarity, samples: Inputs) -> dict[str, str]:
    count = len(samples.inputs)
    positions = f"{options.positions}, of pixels and tokens"
    if samples.counted is not None:
        positions += f"; those of sequences whose label is {IGNORED} are left out"
    second = options.other if options.second == "other" else options.second
    return {
        "second network": second,
        "layers": "what a module gives, at its first use, before what follows it",
        "positions": positions,
        "samples": f"{count} {_origin(options)}{_unit(samples)} in {options.groups} minibatches",
        "cka": "linear, unbiased HSIC averaged over minibatches",
        "procrustes": "nuclear norm of X'Y over |X| |Y|, centred, mean over minibatches",
        "neighbours": f"{options.neighbours} nearest, Euclidean, in a minibatch",
        "mode": "evaluation mode, running statistics of batch-norm",
        "null": f"samples of the second network shuffled {options.shuffles} times in minibatches",
    }
