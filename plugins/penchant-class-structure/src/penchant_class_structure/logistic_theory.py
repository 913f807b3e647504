"""The probe `logistic-theory`: the spectrum of G of logistic regression, theorem against measurement."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.trainer import Trainer, evaluate
from scipy.stats import norm
from torch import nn

from penchant_class_structure._canonical_model import (
    gauss_newton,
    mean_and_stderr,
    multiplicities,
    symmetric_probabilities,
    theory,
    traces_on_eigenspaces,
)

COMPARED = 3  # eigenspaces whose eigenvalue is not zero


def run(options: Any, context: Any) -> penchant.Result:
    """Probabilities set, then those of a trained classifier, then classifiers at other separations."""
    C, D, t = options.classes, options.dimension, options.separation
    samples = _data(context, options.options(), t).train
    p = symmetric_probabilities(samples.labels, C, options.alpha)
    measured, stderr = mean_and_stderr(traces_on_eigenspaces(samples.inputs, p), samples.labels)
    expected = theory(C, t, options.alpha)
    item = {name: value for name, value in options.options().items() if name != "separations"}
    separations = sorted({t, *options.separations})
    rows = list(
        context.map(trained_classifier, [{**item, "separation": each} for each in separations])
    )
    own = rows[separations.index(t)]
    arrays = {
        "multiplicity": multiplicities(C, D),
        "theory": expected,
        "measured": measured,
        "measured-stderr": stderr,
        "spectrum": torch.linalg.eigvalsh(gauss_newton(samples.inputs, p)).flip(0),
        **{
            name: own[name]
            for name in ("trained", "trained-stderr", "trained-theory", "trained-spectrum")
        },
        "separations": np.array(separations),
    }
    arrays |= {
        f"sweep-{name}": np.array([row[name] for row in rows])
        for name in ("error-probability", "test-error")
    }
    arrays["sweep-ratio"] = np.array([row["trained"][0] / row["trained"][2] for row in rows])
    arrays["sweep-ratio-theory"] = np.array(
        [row["trained-theory"][0] / row["trained-theory"][2] for row in rows]
    )
    z = ((measured - expected) / stderr)[:COMPARED].abs()
    return penchant.Result(
        _quantities(float(z.max()), own, options), arrays, conventions=_conventions(options)
    )


def _data(context: Any, options: dict[str, Any], separation: float) -> Any:
    """Balanced samples: as many of each class as fit in the number asked for."""
    C = options["classes"]
    sizes = {part: max(C, options[part] // C * C) for part in ("train", "test")}
    return context.dataset(
        "gaussian-mixture",
        classes=C,
        dimension=options["dimension"],
        separation=separation,
        **sizes,
    )


def trained_classifier(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """A linear classifier without biases, from zero weights, trained at one separation, and its G on the theory's eigenspaces."""
    C, t = item["classes"], item["separation"]
    data = _data(context, item, t)
    network = nn.utils.skip_init(
        nn.Linear, item["dimension"], C, bias=False, device=context.device, dtype=context.dtype
    )
    nn.init.zeros_(network.weight)
    Trainer(
        network, data.train, context.training, seed=context.generator("training", t).initial_seed()
    ).run()
    with torch.no_grad():
        p = network(data.train.inputs).double().softmax(1)
    alpha = float(1 - p.gather(1, data.train.labels[:, None]).mean())
    trained, stderr = mean_and_stderr(
        traces_on_eigenspaces(data.train.inputs, p), data.train.labels
    )
    spectrum = torch.linalg.eigvalsh(gauss_newton(data.train.inputs, p)).flip(0)
    return {
        "trained": trained,
        "trained-stderr": stderr,
        "trained-theory": theory(C, t, alpha),
        "trained-spectrum": spectrum,
        "error-probability": alpha,
        "test-error": 1 - evaluate(network, data.test)[1],
    }


def _quantities(
    deviation: float, own: dict[str, Any], options: Any
) -> dict[str, penchant.Quantity]:
    count, error = options.test, own["test-error"]
    difference = np.abs(own["trained"][:COMPARED] / own["trained-theory"][:COMPARED] - 1)
    return {
        "largest-deviation": penchant.Quantity(deviation),
        "critical-deviation": penchant.Quantity(float(norm.isf(0.005 / COMPARED))),
        "error-probability": penchant.Quantity(
            own["error-probability"], null=1 - 1 / options.classes
        ),
        "test-error": penchant.Quantity(
            error,
            stderr=(error * (1 - error) / count) ** 0.5,
            over="samples",
            count=count,
            null=1 - 1 / options.classes,
        ),
        "trained-difference": penchant.Quantity(float(difference.max())),
        "outliers-to-bulk": penchant.Quantity(
            float(own["trained"][0] / own["trained"][2]), null=1.0
        ),
    }


def _conventions(options: Any) -> dict[str, str]:
    return {
        "classifier": "f = W x, no bias, from zero weights",
        "samples": f"{options.train // options.classes} of each class; standard errors over samples inside classes",
        "critical-deviation": f"two-sided 1 %, corrected for {COMPARED} comparisons",
        "error probability": "1 - mean probability of the right class, on training samples",
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Measured eigenvalues beside theory; what changes with the separation."""
    from penchant_class_structure import logistic_figures as figures

    return {"spectrum": figures.spectra(result), "separation": figures.sweep(result)}
