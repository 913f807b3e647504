"""The probe `supernat`: gradient descent against SuperNat on noisy problems."""

from typing import Any, NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.layers import tangent_kernel
from penchant_numerics.statistics import statistics
from torch import Tensor

from penchant_tangent.declarations.linear import SuperNat
from penchant_tangent.shared.kernel_samples import sampled, targets
from penchant_tangent.shared.supernat import (
    Descent,
    descend,
    noisy_problem,
    population_errors,
    positive_part,
)

METHODS = ("gradient-descent", "supernat")


class Fit(NamedTuple):
    """A linear problem in the eigenvectors of its kernel."""

    values: Tensor  # (k,)
    vectors: Tensor  # (n, k)
    y: Tensor  # (n,)


def run(options: SuperNat, context: penchant.Context) -> penchant.Result:
    """Fit every problem both ways."""
    given = [axis for axis in ("architecture", "dataset") if context.has(axis)]
    if len(given) == 1:
        raise penchant.Error(
            f"features of networks need an architecture and a dataset, found only the {given[0]}"
        )
    function = fit_networks if given else fit_problem
    trainings = range(options.trainings)
    shards = list(context.map(function, list(trainings)))
    axes = {"training": trainings, "step": range(options.descent_steps + 1)}
    errors = {
        name: penchant.Table([shard[name] for shard in shards], axes)
        for name in shards[0]
        if not name.startswith("eigenvalues")
    }
    arrays: dict[str, Any] = {"steps": np.array(axes["step"])}
    # features of the first training
    arrays["eigenvalues-first"] = shards[0]["eigenvalues-first"]
    arrays["eigenvalues-last"] = shards[0]["eigenvalues-last"]
    features = "tangent features of networks at initialisation" if given else "noisy linear problem"
    return penchant.Result(
        _quantities(errors),
        arrays,
        tables={name: each.mean("training") for name, each in errors.items()},
        conventions={
            "features": features,
            "noise": "projected on the noise features by phi (phi^T phi)^-1 phi^T",
            "rescaling": "the direction with the largest gradient keeps its eigenvalue",
            "test error": "mean squared, against labels without noise",
        },
    )


def fit_problem(context: penchant.Context, number: int) -> dict[str, Tensor]:
    """Errors (steps,) of both ways on one noisy linear problem."""
    options = context.options
    problem = noisy_problem(
        train=options.train,
        inputs=options.inputs,
        noise=options.noise,
        generator=context.generator("problem", number),
    )
    left, singular, right = torch.linalg.svd(problem.Phi, full_matrices=False)
    fit = Fit(singular.square(), left, problem.y)

    def test_errors(descent: Descent) -> Tensor:
        weights = (descent.coefficients / singular) @ right
        return population_errors(weights)

    return _both(fit, test_errors, options)


def fit_networks(context: penchant.Context, number: int) -> dict[str, Tensor]:
    """Errors (steps,) of both ways on the tangent features of one network."""
    options = context.options
    # deep networks have eigenvalues that single precision does not tell from zero
    network = context.network(number).double()
    train = sampled(context.data.train, options.train, context.generator("samples", number))
    test = sampled(context.data.test, options.train, context.generator("test samples", number))
    inputs = _in_double(train.inputs)
    K = tangent_kernel(network, inputs)
    K_test = tangent_kernel(network, _in_double(test.inputs), other=inputs)
    values, vectors = positive_part(*torch.linalg.eigh(K))

    # labels without their mean: a linear model of features begins at zero
    goal = targets(train, context)
    mean = goal.mean(0)
    y = (goal - mean).flatten()
    expected = (targets(test, context) - mean).flatten()
    noise = torch.randn(
        len(y), generator=context.generator("noise", number), device="cpu", dtype=torch.float64
    )
    y = y + noise.to(y.device) * options.noise**0.5

    def test_errors(descent: Descent) -> Tensor:
        beside = K_test @ vectors
        outputs = (descent.coefficients / values) @ beside.T
        errors = (outputs - expected).square()
        return errors.mean(1)

    return _both(Fit(values, vectors, y), test_errors, options)


def _in_double(inputs: Tensor) -> Tensor:
    """Numbers in double precision; tokens stay whole."""
    return inputs.double() if inputs.is_floating_point() else inputs


def _both(fit: Fit, test_errors: Any, options: SuperNat) -> dict[str, Tensor]:
    """Gradient descent and SuperNat on one problem."""
    arrays: dict[str, Tensor] = {"eigenvalues-first": fit.values}
    for method in METHODS:
        made = descend(
            fit.values,
            fit.vectors,
            fit.y,
            steps=options.descent_steps,
            rate=options.rate,
            stretch=method == "supernat",
        )
        arrays[f"test-error-{method}"] = test_errors(made)
        arrays[f"train-error-{method}"] = made.train_errors
        arrays["eigenvalues-last"] = made.eigenvalues
    return arrays


def _quantities(errors: dict[str, penchant.Table]) -> dict[str, penchant.Quantity]:
    """Of errors (training, step): their end and their best, and what the two ways differ by."""
    ways = [errors[f"test-error-{method}"] for method in METHODS]
    last = ways[0].axes["step"][-1]
    final = [way.at(step=last) for way in ways]
    lowest = [way.reduced(np.min, "step") for way in ways]
    # both begin at zero
    before = float(ways[0].at(step=0).values.mean())
    quantities = {}
    for name, both in (("final", final), ("lowest", lowest)):
        for method, each in zip(METHODS, both):
            mean = each.mean("training", null=before)
            quantities[f"{name}-error-{method}"] = mean.quantity()
        difference = both[1].minus(both[0]).mean("training", null=0.0)
        quantities[f"{name}-difference"] = difference.quantity()

    # how often it ends better
    better = final[1].values < final[0].values
    wins = float(better.mean())
    quantities["wins"] = penchant.Quantity(
        wins,
        stderr=statistics.binomial_stderr(wins, len(better)),
        over="trainings",
        count=len(better),
        null=0.5,
    )
    return quantities
