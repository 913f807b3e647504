"""The probe `layer-structure`: class structure of features, errors and weights, layer by layer."""

from typing import Any

import attrs
import numpy as np
import penchant
from penchant_numerics.data import Samples
from penchant_numerics.statistics import NO_NULL, Null, null_of
from torch import nn

from penchant_class_structure.declarations.layer_structure import LayerStructure
from penchant_class_structure.layer_structure.layer_moments import (
    LayerMoments,
    Layers,
    layer_moments,
)
from penchant_class_structure.layer_structure.layer_spectra import (
    error_spectra,
    feature_spectra,
    null_draws,
    weight_spectra,
)
from penchant_class_structure.shared.measured_network import (
    check_cross_entropy,
    chosen,
    loss_on,
    measured,
    permuted_labels,
)
from penchant_class_structure.shared.own_samples import bounded

KINDS = ("features", "errors")
Row = dict[str, Any]  # everything about one layer
Draws = dict[str, np.ndarray]  # (layers, permutations)


def run(options: LayerStructure, context: penchant.Context) -> penchant.Result:
    """Measure at the end of the training."""
    check_cross_entropy(options, context)
    data = context.data
    *_, (_, network) = context.trained()
    network = measured(network, options, context)
    given = bounded(getattr(data, options.split), options.per_class, context)
    samples = chosen(given, options.per_class, data.classes)
    layers = _layers(network, samples, context)

    # everything about each layer, a row each
    assert context.training is not None  # the probe needs one
    decay = context.training.weight_decay
    rows = [_row(layer, options, decay) for layer in layers]
    arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    draws = _draws(layers)
    axes = {"layer": [layer.name or "(the network)" for layer in layers]}
    by_layer = [name for name in arrays if name.endswith("-by-layer")]
    tables = {name: penchant.Table(arrays.pop(name), axes) for name in by_layer}
    if options.permutations:
        for name, values in draws.items():
            tables[f"{name}-null"] = penchant.Table(values.mean(1), axes)

    # numbers of the last layer, where classes stand out most
    quantities = _quantities(tables, draws)
    quantities["loss"] = loss_on(network, samples, "cross-entropy")
    conventions = _conventions(options, decay)
    result = penchant.Result(quantities, arrays, tables=tables, conventions=conventions)
    # errors of the last layer leave nothing to be separated from
    missing = [name for name, array in result.arrays.items() if not np.isfinite(array).all()]
    return attrs.evolve(result, missing=missing)


def _layers(network: nn.Module, samples: Samples, context: penchant.Context) -> list[LayerMoments]:
    """Moments of all layers, with the true labels and with permuted ones."""
    options: LayerStructure = context.options

    # one pass over the samples serves all labellings
    labellings = [samples.labels]
    for number in range(options.permutations):
        labellings.append(permuted_labels(samples.labels, number, context))
    moments = layer_moments(network, samples.inputs, labellings, largest=options.largest)
    _name_left_out(moments, options, context)
    if not moments.moments:
        raise penchant.Error(
            "the network has no linear layer or convolution, expected at least one"
        )
    return moments.moments


def _name_left_out(layers: Layers, options: LayerStructure, context: penchant.Context) -> None:
    """Say which layers are not measured."""
    if layers.wide:
        names = ", ".join(layers.wide)
        context.warn(f"layers skipped, with more than {options.largest} inputs or outputs: {names}")
    if layers.unlike:
        names = ", ".join(name or "(the network)" for name in layers.unlike)
        context.warn(f"layers skipped, because their gradient is not errors times inputs: {names}")


def _row(layer: LayerMoments, options: LayerStructure, decay: float) -> Row:
    """Everything about one layer."""
    return {
        **feature_spectra(layer, options.eigenvalues),
        **error_spectra(layer, options.eigenvalues),
        **weight_spectra(layer, options.singular_values, decay),
    }


def _draws(layers: list[LayerMoments]) -> Draws:
    """Separations and whitenings of permuted classes, one row per layer."""
    each = [null_draws(layer) for layer in layers]
    by_measure = {}
    for name in each[0]:
        rows = [draws[name] for draws in each]
        by_measure[name] = np.array(rows)
    return by_measure


def _quantities(tables: dict[str, penchant.Table], draws: Draws) -> dict[str, penchant.Quantity]:
    """Numbers of the last layer that has them, and how many layers are separated."""
    quantities = {}
    for kind in KINDS:
        for statistic in ("separation", "whitening"):
            name = f"{statistic}-{kind}"
            values = tables[f"{name}-by-layer"].values

            # the last layer's errors have no separation: the one before it has
            defined = np.nonzero(np.isfinite(values))[0]
            if len(defined):
                last = defined[-1]
                null = _null(draws[name][last])
                quantities[name] = penchant.Quantity(values[last], exact=True, **null)

        # how many layers are separated, and how many would be by chance
        separations = tables[f"separation-{kind}-by-layer"].values
        count = (separations > 1).sum()
        null = _null((draws[f"separation-{kind}"] > 1).sum(0))
        quantities[f"separated-layers-{kind}"] = penchant.Quantity(count, exact=True, **null)
    if "stationarity-by-layer" in tables:
        largest = tables["stationarity-by-layer"].values.max()
        if not np.isfinite(largest):
            raise penchant.Error(
                "the weights of a layer are exactly zero, expected some that differ from zero: "
                "they have no relative difference from a stationary point"
            )
        quantities["stationarity"] = penchant.Quantity(largest, exact=True)
    return quantities


def _null(draws: np.ndarray) -> Null:
    """The null of permutations, where it is defined."""
    # a permutation may leave nothing, as the classes may
    known = draws[np.isfinite(draws)]
    return null_of(known) if len(known) else NO_NULL


def _conventions(options: LayerStructure, decay: float) -> dict[str, str]:
    weights = f"weight decay {decay:g}"
    if not decay:
        weights = "no weight decay: the class component is known up to a factor"
    return {
        "features": "what a layer is given, uncentred, mean over samples and positions; without "
        "the constant of a bias",
        "errors": "derivatives of the loss in what a layer gives, weighted by probabilities, "
        "summed over positions",
        "samples": f"{options.split}, {options.per_class or 'all'} of each class",
        "separation": "smallest non-zero eigenvalue of the class component / largest after its "
        "projection knockout; last layer where defined",
        "weights": weights,
        "null": f"labels permuted {options.permutations} times",
    }
