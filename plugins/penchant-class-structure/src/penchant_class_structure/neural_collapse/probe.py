"""The probe `neural-collapse`: NC1 to NC4 of every layer, along training."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.statistics import NO_NULL, binomial_stderr, jackknife, null_of, p_value
from penchant_numerics.training import accuracy_numbers
from torch import Tensor, nn

from penchant_class_structure.declarations.neural_collapse import NeuralCollapse
from penchant_class_structure.neural_collapse.class_scatter import (
    ClassScatter,
    CollapseLayers,
    class_scatter,
    collapse_layers,
    disagreement,
    scatter_of_features,
)
from penchant_class_structure.neural_collapse.given_features import given_features
from penchant_class_structure.neural_collapse.neural_collapse import (
    MEASURES,
    collapse,
    geometry,
    isotropic,
    self_duality,
)
from penchant_class_structure.shared.measured_network import chosen, permuted_labels
from penchant_class_structure.shared.own_samples import bounded

_TINY = 1e-30  # a scatter that is zero to rounding
_DRAWS = 200  # of isotropic features and of random classifiers
_MEASURED = ("nc1", "nc2-simplex", "nc2-norms", "nc2-angles", "nc3", "nc4")
_MEANS = "around the mean of class means; deviations over classes divided by their number"


@dataclass
class _Step:
    """Everything about the network at one step; names to numbers, or to one number per layer."""

    values: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, np.ndarray] = field(default_factory=dict)  # draws along the first axis
    accuracy: float = 0.0


def run(options: NeuralCollapse, context: penchant.Context) -> penchant.Result:
    """Measure at every step that was requested, or the features that were given."""
    if options.arrays_given:
        return _of_arrays(options, context)
    data = context.data
    given = bounded(getattr(data, options.split), options.per_class, context)
    samples = chosen(given, options.per_class, data.classes)
    groups = _groups(samples.labels, options.groups)
    labellings = [samples.labels]
    for number in range(options.permutations):
        labellings.append(permuted_labels(samples.labels, number, context))

    steps, measured_steps, layers = [], [], None
    for step, network in context.trained(_steps(options, context)):
        layers = _layers(network, samples, context)
        steps.append(step)
        measured_steps.append(_measured(network, layers, samples, labellings, groups))
    assert layers is not None
    names = [name or "(the network)" for name in layers.modules]
    widths = dict(zip(names, map(_width, layers.modules.values())))
    tables = _tables(measured_steps, steps, samples, widths, context)
    accuracies = [each.accuracy for each in measured_steps]
    tables["accuracies"] = penchant.Table(accuracies, {"step": steps})
    return _with_missing(
        penchant.Result(
            _quantities(measured_steps[-1], samples, layers, context),
            {"steps": np.array(steps)},
            tables=tables,
            conventions=_conventions(options, layers),
        )
    )


def _of_arrays(options: NeuralCollapse, context: penchant.Context) -> penchant.Result:
    """NC1 and NC2 of features; NC3 with the weights of a classifier."""
    given = given_features(options, context)
    groups = _groups(given.labels, options.groups)
    labellings = [given.labels]
    for number in range(options.permutations):
        labellings.append(permuted_labels(given.labels, number, context))
    scatters = {
        name: scatter_of_features(each, labellings, groups=groups, classes=given.classes)
        for name, each in given.features.items()
    }
    step = _Step()
    _fill_collapse(step, scatters)
    *_, last = scatters
    if given.classifier is not None:
        permuted = scatters[last].permuted / scatters[last].counts.sum(0)[:, None]
        _fill_classifier(step, scatters[last], permuted, given.classifier)
    samples = Samples(given.labels, given.labels)
    widths = {name: each.sums.shape[2] for name, each in scatters.items()}
    quantities = _of_last_layer(step, samples, len(scatters) - 1, options)
    if given.classifier is not None:
        quantities |= _of_classifier(step, given.classifier, context)
    conventions = {
        "features": "the arrays that were given, mean over positions",
        "last layer": f"{last}, the last of the arrays",
        "means": _MEANS,
        "samples": f"{options.per_class or 'all'} of each class",
        "null": f"labels permuted {options.permutations} times",
    }
    tables = _tables([step], [0], samples, widths, context)
    arrays = {"steps": np.array([0])}
    return _with_missing(penchant.Result(quantities, arrays, conventions, tables=tables))


def _with_missing(result: penchant.Result) -> penchant.Result:
    """The result, which names what has numbers that are not defined."""
    missing = [name for name, each in result.arrays.items() if not np.isfinite(each).all()]
    return attrs.evolve(result, missing=missing)


def _steps(options: NeuralCollapse, context: penchant.Context) -> list[int] | None:
    """Steps that are measured; None is the end of the training."""
    if options.eval_steps is not None:
        return sorted(set(options.eval_steps))
    # Every state of a user's own training.
    own = context.network_kind == "trajectory"
    if own or options.eval_every is None or context.training is None:
        return None
    total = context.training.total_steps(len(context.data.train.labels))
    return sorted({*range(0, total + 1, options.eval_every), total})


def _groups(labels: Tensor, count: int) -> Tensor:
    """Groups of samples (n,) that each hold as many of every class, to one sample."""
    sizes = labels.bincount()
    smallest = int(sizes.min())
    if smallest < count:
        raise penchant.Error(
            f"groups must be at most {smallest}, the samples of the smallest class, found {count}"
        )
    ranks = torch.zeros_like(labels)
    for label, size in enumerate(sizes.tolist()):
        own = labels == label
        ranks[own] = torch.arange(size, device=labels.device)
    return ranks % count


def _layers(network: nn.Module, samples: Samples, context: penchant.Context) -> CollapseLayers:
    """Layers that can be measured; says which cannot."""
    options: NeuralCollapse = context.options
    classes = context.data.classes
    layers = collapse_layers(network, samples.inputs, classes=classes, largest=options.largest)
    reasons = {
        f"with fewer than {classes - 1} features": layers.narrow,
        f"with more than {options.largest} features": layers.wide,
        "because their rows are not samples": layers.mixed,
    }
    for reason, names in reasons.items():
        if names:
            context.warn(f"left out, {reason}: {', '.join(names)}")
    if layers.classifier is None:
        raise penchant.Error(
            "neural collapse needs a classifier that ends in a linear layer with at least "
            f"{classes - 1} and at most {options.largest} inputs, found none whose output is that "
            "of the network"
        )
    return layers


def _measured(
    network: nn.Module,
    layers: CollapseLayers,
    samples: Samples,
    labellings: list[Tensor],
    groups: Tensor,
) -> _Step:
    """NC1 to NC4 of one network, by two forward passes over the samples."""
    classes = int(samples.labels.max()) + 1
    scatters, answers = class_scatter(
        network, layers.modules, samples.inputs, labellings, groups=groups, classes=classes
    )
    step = _Step(accuracy=float((answers == samples.labels).double().mean()))
    _fill_collapse(step, scatters)

    # NC4 needs the means first: another pass
    means = {}
    for name, scatter in scatters.items():
        permuted = scatter.permuted / scatter.counts.sum(0)[:, None]
        means[name] = torch.cat([scatter.without(None)[0][None], permuted])
    shares = disagreement(network, layers.modules, samples.inputs, means)
    step.values["nc4"] = np.array([float(each[0]) for each in shares.values()])
    step.errors["nc4"] = binomial_stderr(step.values["nc4"], len(samples.labels))
    step.nulls["nc4"] = np.array([each[1:].numpy() for each in shares.values()]).T

    classifier, weight = _classifier(layers)
    _fill_classifier(step, scatters[classifier], means[classifier][1:], weight)
    return step


def _fill_collapse(step: _Step, scatters: Mapping[str, ClassScatter]) -> None:
    """NC1 and NC2 of every layer."""
    rows = [_row(scatter) for scatter in scatters.values()]
    for name in MEASURES:
        step.values[name] = np.array([values[name] for values, _, _ in rows])
        step.errors[name] = np.array([errors[name] for _, errors, _ in rows])
        step.nulls[name] = np.array([nulls[name] for _, _, nulls in rows]).T


def _fill_classifier(step: _Step, last: ClassScatter, permuted: Tensor, weight: Tensor) -> None:
    """NC3, and NC2 of the classifier's rows; `permuted` are means of permuted labels (P, C, d)."""
    replicates = [self_duality(last.without(g)[0], weight) for g in range(len(last.counts))]
    step.values["nc3"] = self_duality(last.without(None)[0], weight)
    step.errors["nc3"] = jackknife(replicates)
    step.nulls["nc3"] = np.array([self_duality(each, weight) for each in permuted])
    for name, value in geometry(weight, centred=False).items():
        step.values[f"{name}-classifier"] = value


def _classifier(layers: CollapseLayers) -> tuple[str, Tensor]:
    """The classifier's name and its weights."""
    assert layers.classifier is not None  # `_layers` refuses a network without one
    module = layers.modules[layers.classifier]
    assert isinstance(module, nn.Linear)
    return layers.classifier, module.weight.detach().double().cpu()


def _row(
    scatter: ClassScatter,
) -> tuple[dict[str, float], dict[str, float | None], dict[str, list[float]]]:
    """Measures of one layer, their standard errors, and those of permuted labels."""
    values = collapse(*scatter.without(None))
    replicates = [collapse(*scatter.without(group)) for group in range(len(scatter.counts))]
    permuted = [collapse(*scatter.with_permutation(p)) for p in range(len(scatter.permuted))]
    errors = {name: jackknife([each[name] for each in replicates]) for name in MEASURES}
    nulls = {name: [each[name] for each in permuted] for name in MEASURES}
    return values, errors, nulls


def _quantities(
    last: _Step, samples: Samples, layers: CollapseLayers, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Numbers of the last layer at the last step."""
    options: NeuralCollapse = context.options
    classifier, weight = _classifier(layers)
    position = list(layers.modules).index(classifier)
    quantities = _of_last_layer(last, samples, position, options)
    quantities |= _of_classifier(last, weight, context)
    accuracy = penchant.Quantity(**accuracy_numbers(last.accuracy, samples))
    quantities[f"{options.split}-accuracy"] = accuracy
    return quantities


def _of_last_layer(
    last: _Step, samples: Samples, position: int, options: NeuralCollapse
) -> dict[str, penchant.Quantity]:
    """Of what a step has measured, the numbers of the layer at this position."""
    count = len(samples.labels)
    quantities = {}
    for name in _MEASURED:
        if name not in last.values:
            continue
        value, error, draws = last.values[name], last.errors[name], last.nulls[name]
        if name != "nc3":
            value, error, draws = value[position], error[position], draws[:, position]
        if not np.isfinite(value):
            raise penchant.Error(
                "class means of the last layer are all the same, so that they have no geometry"
            )
        fields = null_of(draws)
        if name in MEASURES:
            fields["p"] = _permutation_p(name, value, draws)
        quantities[name] = penchant.Quantity(
            value,
            stderr=error,
            over="samples",
            count=count,
            df=None if name == "nc4" else options.groups - 1,
            **fields,
        )
    return quantities


def _of_classifier(
    last: _Step, weight: Tensor, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Its own weights in random order are independent of classes."""
    quantities = {}
    random = _shuffled_geometry(weight, context)
    for name in MEASURES[1:]:
        draws = np.array([each[name] for each in random])
        draws = draws[np.isfinite(draws)]  # a sparse classifier may have equal rows by chance
        value = last.values[f"{name}-classifier"]
        null = null_of(draws, value=value) if len(draws) else NO_NULL
        quantities[f"{name}-classifier"] = penchant.Quantity(value, exact=True, **null)
    return quantities


def _permutation_p(name: str, value: float, draws: np.ndarray) -> float | None:
    """The two-sided p-value of a positive statistic among permutations of the same samples.

    Without an effect only they vary: the error over samples does not enter. What is skewed is made
    nearly normal: NC1, a ratio of variances, by its logarithm; deviations, which are distributed
    like a root of chi^2, by the power 2/3 (Wilson and Hilferty).
    """
    positive = np.maximum([value, *draws], _TINY)
    even = np.log(positive) if name == "nc1" else positive ** (2 / 3)
    distance = even[0] - even[1:].mean()
    spread = even[1:].std(ddof=1) * math.sqrt(1 + 1 / len(draws))
    return p_value(distance, spread, len(draws) - 1)


def _shuffled_geometry(weight: Tensor, context: penchant.Context) -> list[dict[str, float]]:
    """Measures of weights (C, d) in random order, one for each draw."""
    generator = context.generator("classifier")
    entries = weight.flatten()
    measures = []
    for _ in range(_DRAWS):
        order = torch.randperm(len(entries), generator=generator, device="cpu")
        measures.append(geometry(entries[order].reshape(weight.shape), centred=False))
    return measures


def _tables(
    measured: list[_Step],
    steps: list[int],
    samples: Samples,
    widths: Mapping[str, int],
    context: penchant.Context[NeuralCollapse],
) -> dict[str, penchant.Table]:
    """Everything by step and layer; `widths` are features of what each layer is given."""
    along_steps = {"step": steps}
    axes = {**along_steps, "layer": tuple(widths)}
    tables = {}
    for name in _MEASURED:
        if name not in measured[0].values:
            continue
        own, key = (along_steps, "by-step") if name == "nc3" else (axes, "by-layer")
        tables[f"{name}-{key}"] = penchant.Table(
            [each.values[name] for each in measured],
            own,
            stderr=[each.errors[name] for each in measured],
            df=None if name == "nc4" else context.options.groups - 1,
            over="samples",
            count=len(samples.labels),
        )
        null = [each.nulls[name].mean(0) for each in measured]
        tables[f"{name}-null"] = penchant.Table(null, own)
        classifier = f"{name}-classifier"
        if classifier in measured[0].values:
            values = [each.values[classifier] for each in measured]
            tables[f"{classifier}-by-step"] = penchant.Table(values, along_steps)
    return tables | _isotropic(samples, widths, context)


def _isotropic(
    samples: Samples, widths: Mapping[str, int], context: penchant.Context
) -> dict[str, penchant.Table]:
    """NC1 and NC2 of isotropic features of each layer's dimension."""
    counts = samples.labels.bincount()
    rows = []
    for number, width in enumerate(widths.values()):
        generator = context.generator("isotropic", number)
        rows.append(isotropic(counts, width, generator=generator, draws=_DRAWS))
    return {
        f"{name}-isotropic": penchant.Table(
            [np.mean([each[name] for each in draws]) for draws in rows], {"layer": tuple(widths)}
        )
        for name in MEASURES
    }


def _width(module: nn.Module) -> int:
    """Features of what a layer is given."""
    if isinstance(module, nn.Linear):
        return module.in_features
    channels: int = getattr(module, "in_channels")  # noqa: B009  # of any convolution
    return channels


def _conventions(options: NeuralCollapse, layers: CollapseLayers) -> dict[str, str]:
    return {
        "features": "what a layer is given, mean over positions and uses",
        "last layer": f"{layers.classifier or '(the network)'}, whose output is the network's",
        "means": _MEANS,
        "classifier": "its rows as they are for nc2, as in the paper: not around their mean",
        "samples": f"{options.split}, {options.per_class or 'all'} of each class",
        "mode": "evaluation mode, running statistics of batch-norm",
        "null": f"labels permuted {options.permutations} times",
    }
