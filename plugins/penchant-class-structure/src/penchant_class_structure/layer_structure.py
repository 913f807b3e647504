"""The probe `layer-structure`: class structure of features, backpropagated errors and weights, layer by layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.trainer import evaluate

from penchant_class_structure._choice import chosen, measured
from penchant_class_structure._layer_moments import LayerMoments, layer_moments
from penchant_class_structure._layer_spectra import (
    error_spectra,
    feature_spectra,
    null_separations,
    weight_spectra,
)


def run(options: Any, context: Any) -> penchant.Result:
    """Measure at the end of the training."""
    data = context.data
    *_, (_, network) = context.trained()
    network = measured(network, options, context)
    samples = chosen(
        data.train if options.samples == "train" else data.test, options.per_class, data.classes
    )
    if data.outputs < 2:
        raise penchant.Error(
            f"layer-structure needs an output for each class, found {data.outputs}"
        )
    layers, wide = layer_moments(
        network, samples.inputs, _labellings(samples, options, context), largest=options.largest
    )
    if wide:
        context.warn(
            f"left out, with more than {options.largest} inputs or outputs: {', '.join(wide)}"
        )
    if not layers:
        raise penchant.Error("no linear layer or convolution to look at")
    decay = context.training.weight_decay
    rows = [_row(layer, options, decay) for layer in layers]
    arrays = {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
    loss, _ = evaluate(network, samples)
    quantities = {**_quantities(arrays), "loss": penchant.Quantity(loss)}
    missing = tuple(name for name, array in arrays.items() if not np.isfinite(array).all())
    return penchant.Result(
        quantities, arrays, conventions=_conventions(layers, options, decay), missing=missing
    )


def _labellings(samples: Samples, options: Any, context: Any) -> list[torch.Tensor]:
    """The labels, and permutations of them."""
    found = [samples.labels]
    for number in range(options.permutations):
        order = torch.randperm(
            len(samples.labels), generator=context.generator("permutation", number), device="cpu"
        )
        found.append(samples.labels[order.to(samples.labels.device)])
    return found


def _row(layer: LayerMoments, options: Any, decay: float) -> dict[str, Any]:
    row = {
        **feature_spectra(layer, options.count),
        **error_spectra(layer, options.count),
        **null_separations(layer),
    }
    return row | weight_spectra(layer, options.weights_count, decay)


def _quantities(arrays: dict[str, np.ndarray]) -> dict[str, penchant.Quantity]:
    found = {}
    for name in ("features", "errors"):
        separation, null = (
            arrays[f"separation-{name}-by-layer"],
            arrays.get(f"separation-{name}-null"),
        )
        defined = np.nonzero(np.isfinite(separation))[0]
        if len(defined):
            last = defined[-1]
            nothing = (
                {"null": float(null[last])} if null is not None and np.isfinite(null[last]) else {}
            )
            found[f"separation-{name}"] = penchant.Quantity(float(separation[last]), **nothing)
        above = {"null": float((null > 1).sum())} if null is not None else {}
        found[f"separated-layers-{name}"] = penchant.Quantity(
            float((separation > 1).sum()), **above
        )
        whitening = arrays[f"whitening-{name}-by-layer"]
        if np.isfinite(whitening).any():
            found[f"whitening-{name}"] = penchant.Quantity(
                float(whitening[np.isfinite(whitening)][-1])
            )
    if "stationarity-by-layer" in arrays:
        found["stationarity"] = penchant.Quantity(float(arrays["stationarity-by-layer"].max()))
    return found


def _conventions(layers: list[LayerMoments], options: Any, decay: float) -> dict[str, str]:
    return {
        "layers": ", ".join(layer.name or "(the network)" for layer in layers),
        "features": "what a layer is given, uncentred, mean over samples and positions; without the constant of a bias",
        "errors": "derivatives of the loss in what a layer gives, weighted by probabilities, summed over positions",
        "samples": f"{options.samples}, {options.per_class or 'all'} of each class",
        "separation": "smallest non-zero eigenvalue of the class part / largest after its projection knockout; last layer where defined",
        "weights": f"weight decay {decay:g}"
        if decay
        else "no weight decay: the class part is known up to a factor",
        "null": f"labels permuted {options.permutations} times",
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Scatter of eigenvalues against knocked-out ones (figures 7, 9, 13), scree plots (8, 10), and what changes with depth."""
    from penchant_class_structure import layer_figures as figures

    return {
        "features-knockout": figures.scatter(
            result, "features", "features-without-class", "class means"
        ),
        "features-scree": figures.scree(result, "features"),
        "errors-knockout": figures.scatter(result, "errors", "errors-without-class", "class means"),
        "errors-cross-knockout": figures.scatter(
            result, "errors-without-class", "errors-without-class-cross", "cross-class means too"
        ),
        "errors-scree": figures.scree(result, "errors"),
        "weights-knockout": figures.scatter(
            result, "weights", "weights-without-class", "class means"
        ),
        "depth": figures.depth(result),
    }
