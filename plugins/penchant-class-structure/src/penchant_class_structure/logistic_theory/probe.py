"""The probe `logistic-theory`: the spectrum of G of logistic regression, theorem and measured."""

from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Data
from penchant_numerics.statistics import Repetitions, accuracy
from penchant_numerics.training import evaluate, outputs
from torch import Tensor, nn

from penchant_class_structure.declarations.logistic_theory import LogisticTheory
from penchant_class_structure.logistic_theory.canonical_model import (
    gauss_newton,
    mean_and_stderr,
    multiplicities,
    symmetric_probabilities,
    theory,
    traces_on_eigenspaces,
)

SPACES = {"eigenspace": ("outliers", "mini-bulk", "bulk", "zeros")}
COMPARED = 3  # eigenspaces whose eigenvalue is not zero
SWEPT = ("error-probability", "test-error", "ratio", "ratio-theory")


def run(options: LogisticTheory, context: penchant.Context) -> penchant.Result:
    """Probabilities set, then those of a trained classifier, then other separations."""
    C, t = options.classes, options.separation
    samples = _data(context, t).train

    # the theorem's own probabilities first: only samples are random
    p = symmetric_probabilities(samples.labels, C, options.alpha)
    measured, stderr = mean_and_stderr(traces_on_eigenspaces(samples.inputs, p), samples.labels)
    expected = theory(C, t, options.alpha)
    spectrum = torch.linalg.eigvalsh(gauss_newton(samples.inputs, p)).flip(0)
    tables = {
        "multiplicity": penchant.Table(multiplicities(C, options.inputs), SPACES),
        "theory": penchant.Table(expected, SPACES),
        "measured": penchant.Table(measured, SPACES, stderr=stderr, over="samples"),
        "spectrum": penchant.Table(spectrum, {"rank": range(len(spectrum))}),
    }

    # then classifiers, one a separation, trained in shards
    separations = sorted({t, *options.separations})
    inside = {**SPACES, "rank": range(len(spectrum))}
    swept = context.tables(trained_classifier, inside=inside, separation=separations)
    own = {name: each.at(separation=t) for name, each in swept.items()}
    for name in ("trained", "trained-theory", "trained-spectrum"):
        tables[name] = _with_error(own, name)
    for name in SWEPT:
        tables[f"sweep-{name}"] = _with_error(swept, name)

    # the zeros are exact, and not compared
    z = ((measured - expected) / stderr)[:COMPARED].abs()
    numbers = {name: each.values for name, each in own.items()}
    return penchant.Result(
        _quantities(float(z.max()), numbers, options),
        {"separations": np.array(separations)},
        tables=tables,
        conventions=_conventions(options),
    )


def _with_error(tables: dict[str, penchant.Table], name: str) -> penchant.Table:
    """A table with its standard errors, which classifiers return beside it."""
    stderr = tables.get(f"{name}-stderr")
    if stderr is None:
        return tables[name]
    over = "test samples" if name == "test-error" else "samples"
    return attrs.evolve(tables[name], stderr=stderr.values, over=over)


def _data(context: penchant.Context, separation: float) -> Data:
    """Balanced samples: as many of each class as fit in the requested number."""
    options: LogisticTheory = context.options
    C = options.classes
    return context.dataset(
        "gaussian-mixture",
        classes=C,
        inputs=options.inputs,
        separation=separation,
        train=max(C, options.train // C * C),
        test=max(C, options.test // C * C),
    )


def trained_classifier(context: penchant.Context, item: dict[str, float]) -> dict[str, Any]:
    """A classifier trained at one separation, and its G on the theory's eigenspaces."""
    options: LogisticTheory = context.options
    separation = item["separation"]
    data = _data(context, separation)
    training = context.train(_classifier(options, context), data.train, separation, test=data.test)
    *_, (_, network) = training
    labels = data.train.labels
    p = outputs(network, data.train.inputs, chunk=len(labels)).double().softmax(1)

    # the theorem has one error probability: the mean of the classifier's
    right = p.gather(1, labels[:, None])
    alpha = float(1 - right.mean())
    traces = traces_on_eigenspaces(data.train.inputs, p)
    trained, stderr = mean_and_stderr(traces, labels)
    expected = theory(options.classes, separation, alpha)

    # on samples it has not seen
    _, hits = evaluate(network, data.test)
    share, share_stderr = accuracy([hits], len(data.test.labels))
    return {
        "trained": trained,
        "trained-stderr": stderr,
        "trained-theory": expected,
        "trained-spectrum": torch.linalg.eigvalsh(gauss_newton(data.train.inputs, p)).flip(0),
        "error-probability": alpha,
        "error-probability-stderr": float(mean_and_stderr(1 - right, labels)[1]),
        "test-error": 1 - share,
        "test-error-stderr": share_stderr,
        "test-samples": len(data.test.labels),
        "ratio": float(trained[0] / trained[2]),
        "ratio-stderr": _ratio_stderr(traces, labels),
        "ratio-theory": float(expected[0] / expected[2]),
        "ratio-untrained": _untrained_ratio(data.train.inputs, p),
    }


def _untrained_ratio(inputs: Tensor, p: Tensor) -> float:
    """Outliers over bulk of the classifier before training, whose probabilities are all equal."""
    even = torch.full_like(p, 1 / p.shape[1])
    traces = traces_on_eigenspaces(inputs, even).mean(0)
    return float(traces[0] / traces[2])


def _classifier(options: LogisticTheory, context: penchant.Context) -> nn.Module:
    """A linear map without biases, from zero weights."""
    network = nn.utils.skip_init(
        nn.Linear,
        options.inputs,
        options.classes,
        bias=False,
        device=context.device,
        dtype=context.dtype,
    )
    nn.init.zeros_(network.weight)
    model: nn.Module = network
    return model


def _ratio_stderr(traces: Tensor, labels: Tensor) -> float:
    """The standard error of outliers over bulk, to first order."""
    outliers = traces[:, 0]
    bulk = traces[:, 2]
    ratio = outliers.mean() / bulk.mean()

    # how far each sample pulls the ratio
    relative = outliers / outliers.mean() - bulk / bulk.mean()
    change = ratio * relative
    _, stderr = mean_and_stderr(change[:, None], labels)
    return float(stderr)


def _quantities(
    deviation: float, own: dict[str, Any], options: LogisticTheory
) -> dict[str, penchant.Quantity]:
    from scipy.special import ndtri  # here, because shards do without it

    guessing = 1 - 1 / options.classes
    train = max(options.classes, options.train // options.classes * options.classes)
    null, spread = _largest_of_normals(COMPARED)
    chance = _largest_p_value(deviation, COMPARED)

    # the eigenspace that is furthest from theory
    difference = own["trained"][:COMPARED] / own["trained-theory"][:COMPARED] - 1
    worst = int(np.abs(difference).argmax())
    relative = own["trained-stderr"][:COMPARED] / own["trained-theory"][:COMPARED]
    samples: Repetitions = {"over": "samples", "count": train}
    return {
        "largest-deviation": penchant.Quantity(
            deviation, stderr=1.0, null=null, null_spread=spread, p=chance, **samples
        ),
        "critical-deviation": penchant.Quantity(-ndtri(0.005 / COMPARED), exact=True),
        "error-probability": penchant.Quantity(
            own["error-probability"],
            stderr=own["error-probability-stderr"],
            null=guessing,
            **samples,
        ),
        "test-error": penchant.Quantity(
            own["test-error"],
            stderr=own["test-error-stderr"],
            over="test samples",
            count=int(own["test-samples"]),
            null=guessing,
        ),
        "trained-difference": penchant.Quantity(
            abs(difference[worst]),
            stderr=relative[worst],
            null=0.0,
            p=_largest_p_value(float(abs(difference[worst]) / relative[worst]), COMPARED),
            **samples,
        ),
        "outliers-to-bulk": penchant.Quantity(
            own["ratio"], stderr=own["ratio-stderr"], null=own["ratio-untrained"], **samples
        ),
    }


def _largest_of_normals(count: int) -> tuple[float, float]:
    """Mean and standard deviation of the largest |z| of independent standard normal numbers."""
    from scipy.integrate import quad
    from scipy.special import ndtr

    def beyond(z: float) -> float:
        one_inside = 2 * ndtr(z) - 1
        share: float = 1 - one_inside**count
        return share

    # moments of a positive number from its tail: E Z = int P(Z > z), E Z^2 = int 2 z P(Z > z)
    mean = quad(beyond, 0, 12)[0]
    square = quad(lambda z: 2 * z * beyond(z), 0, 12)[0]
    return mean, (square - mean**2) ** 0.5


def _largest_p_value(z: float, count: int) -> float:
    """The chance that one of `count` independent standard normal numbers is as far from zero."""
    from scipy.special import ndtr

    beyond = 2 * ndtr(-z)
    return float(-np.expm1(count * np.log1p(-beyond)))


def _conventions(options: LogisticTheory) -> dict[str, str]:
    each = options.train // options.classes
    return {
        "classifier": "f = W x, no bias, from zero weights",
        "samples": f"{each} of each class; standard errors over samples inside classes",
        "critical-deviation": f"two-sided 1 %, corrected for {COMPARED} comparisons",
        "error probability": "1 - mean probability of the right class, on training samples",
    }
