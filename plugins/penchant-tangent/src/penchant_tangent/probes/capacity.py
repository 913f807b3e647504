"""The probe `capacity`: complexities of norm balls and their bounds, against the test error."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics import statistics
from torch import Tensor

from penchant_tangent.declarations.linear import Capacity
from penchant_tangent.numerics.norm_capacity import (
    ball,
    optimal_rescaling,
    random_features,
    with_two_signs,
)
from penchant_tangent.numerics.supernat import positive_part

SHOWN = (1, 10)  # eigenvectors of the plane in which solutions are drawn, from 0
NORMS = ("l2", "optimal")
A_SHARD = 25  # draws


class Features(NamedTuple):
    """All features in their eigenvectors, and labels that these make."""

    psi: Tensor  # (points, points)
    eigenvalues: Tensor  # (points,)
    labels: Tensor  # (points,)
    eigenvector: int


def all_features(context: penchant.Context) -> Features:
    """Random features of equally spaced points, the same in every shard."""
    options = context.options
    points = torch.linspace(
        -options.half_width,
        options.half_width,
        options.grid_points,
        device="cpu",
        dtype=torch.float64,
    )
    generator = torch.Generator(device="cpu").manual_seed(options.features_seed)
    features = random_features(
        points,
        count=options.features,
        gamma=options.gamma,
        generator=generator,
    )
    psi, singular, _ = torch.linalg.svd(features.to(context.device), full_matrices=False)
    eigenvector = with_two_signs(psi) if options.eigenvector is None else options.eigenvector
    positive = psi[:, eigenvector] >= 0
    labels = 2.0 * positive.double() - 1.0
    return Features(psi, singular.square(), labels, eigenvector)


def run(options: Capacity, context: penchant.Context) -> penchant.Result:
    """Training sets, some of them a shard."""
    # (draws, scalings, ...) by name
    shards = list(context.map(of_draws, networks=options.training_sets, a_shard=A_SHARD))
    values = {}
    for name in shards[0]:
        values[name] = np.concatenate([np.asarray(shard[name]) for shard in shards])
    eigenvector = all_features(context).eigenvector
    arrays: dict[str, Any] = {"scalings": np.array(options.scalings)}
    solutions = values.pop("solutions")
    for name, numbers in values.items():
        if not name.startswith("tightness"):
            arrays[name], arrays[f"{name}-stderr"] = statistics.mean_and_stderr(numbers, axis=0)
    arrays["test-error"], arrays["test-error-stderr"] = _test_error(values["test-error"], options)
    arrays["solutions"] = (solutions - solutions.mean(0)).swapaxes(0, 1)
    return penchant.Result(
        _quantities(values, arrays, context),
        arrays,
        conventions={
            "labels": f"signs of eigenvector {eigenvector}, counted from 0",
            "interpolator": "eigenvalues that are zero to rounding are left out",
            "test error": "on all points outside the training set; no sign counts half",
        },
    )


def of_draws(context: penchant.Context, draws: range) -> dict[str, Tensor]:
    """Bounds, complexities and errors (draws, scalings) of some training sets."""
    rows: dict[str, list[Tensor]] = {}
    features = all_features(context)
    for draw in draws:
        for name, value in _of_a_draw(context, features, draw).items():
            rows.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in rows.items()}


def _of_a_draw(context: penchant.Context, features: Features, draw: int) -> dict[str, Tensor]:
    """Numbers (scalings, ...) of one training set."""
    options = context.options
    generator = context.generator("draw", draw)
    order = torch.randperm(options.grid_points, generator=generator, device="cpu")
    size = (options.signs, options.train)
    coins = torch.randint(2, size, generator=generator, device="cpu")
    signs = (2.0 * coins - 1.0).double().to(context.device)
    order = order.to(context.device)
    found: dict[str, list[list[float]]] = {}
    for scaling in options.scalings:
        for name, value in _at_a_scaling(context, features, order, signs, scaling).items():
            found.setdefault(name, []).append(value)
    return {name: torch.tensor(rows, device="cpu") for name, rows in found.items()}


def _at_a_scaling(
    context: penchant.Context, features: Features, order: Tensor, signs: Tensor, scaling: float
) -> dict[str, Any]:
    """Numbers of one training set with rescaled features."""
    options = context.options
    labels = features.labels
    scaled = 1 + scaling * (features.eigenvalues - 1)
    chosen, others = order[: options.train], order[options.train :]
    rows = features.psi[chosen]
    pairs = torch.linalg.eigh((rows * scaled) @ rows.T)
    values, vectors = positive_part(*pairs)
    if len(values) < options.train:
        context.warn(
            f"at scaling {scaling:g} eigenvalues are zero to rounding: no interpolator is left"
        )

    # the interpolator of least norm
    y = labels[chosen]
    dual = vectors @ ((vectors.T @ y) / values)
    in_eigenvectors = scaled.sqrt() * (rows.T @ dual)
    outputs = features.psi[others] @ (scaled.sqrt() * in_eigenvectors)
    return {
        "test-error": _wrong_share(outputs, labels[others]),
        "solutions": [float(in_eigenvectors[place]) for place in _shown(options)],
        **_balls(values, vectors, y, signs),
    }


def _wrong_share(outputs: Tensor, labels: Tensor) -> float:
    """Share of outputs with the wrong sign; none counts half."""
    agreement = torch.sign(outputs) * labels
    return float((1 - agreement).mean() / 2)


def _balls(values: Tensor, vectors: Tensor, y: Tensor, signs: Tensor) -> dict[str, float]:
    """Two balls that hold the interpolator."""
    found = {}
    best = optimal_rescaling(values, vectors, y)
    for name, rescaling in zip(NORMS, (None, best)):
        made = ball(values, vectors, y, rescaling=rescaling, signs=signs)
        found[f"bound-{name}"] = made.bound
        found[f"rademacher-{name}"] = made.complexity
        found[f"tightness-{name}"] = made.complexity / made.bound
    return found


def _shown(options: Capacity) -> list[int]:
    return [min(place, options.grid_points - 1) for place in SHOWN]


def _test_error(values: np.ndarray, options: Capacity) -> tuple[Any, Any]:
    """Mean error and its standard error over draws, each with test points of its own."""
    others = options.grid_points - options.train
    return statistics.accuracy(values, others, shared=False, axis=0)


def _quantities(
    values: dict[str, np.ndarray], arrays: dict[str, Any], context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Numbers at the largest scaling, and how bounds go with the test error over scalings."""
    last = int(np.argmax(arrays["scalings"]))
    found = {}
    for name, numbers in values.items():
        if not name.startswith("rademacher"):
            found[name] = penchant.Quantity.of(numbers[:, last], over="draws")
    found["test-error"] = penchant.Quantity(
        arrays["test-error"][last],
        stderr=arrays["test-error-stderr"][last],
        over="draws",
        count=len(values["test-error"]),
        null=0.5,
    )
    ratio = values["bound-l2"][:, last] / values["bound-optimal"][:, last]
    found["bound-ratio"] = penchant.Quantity.of(ratio, over="draws", null=1.0)
    for name in NORMS:
        orders = _orders(values[f"bound-{name}"], values["test-error"], context)
        if orders:
            found[f"rank-correlation-{name}"] = penchant.Quantity.of(
                orders,
                over="draws",
                null=0.0,
            )
    return found


def _orders(bounds: np.ndarray, errors: np.ndarray, context: penchant.Context) -> list[float]:
    """Rank correlations over scalings of bounds and errors (draws, scalings), draw by draw."""
    found = []
    for bound, error in zip(bounds, errors):
        # where nothing changes there is no order
        if statistics.varies(bound) and statistics.varies(error):
            order = statistics.rank_correlation(
                bound,
                error,
                generator=context.generator("order"),
                permutations=1,
            )
            found.append(order.value)
    return found
