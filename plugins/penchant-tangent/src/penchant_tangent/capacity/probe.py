"""The probe `capacity`: complexities of norm balls and their bounds, against the test error.

Rademacher complexity of balls of norms around interpolators, and its bounds.

For features Phi (n, P) with K = Phi Phi^T = sum_j lambda_j u_j u_j^T, the interpolator of least
norm of y is w = Phi^T K^-1 y. Rescaling singular values by A_nu gives
|w|_A^2 = sum_j nu_j (u_j . y)^2 / lambda_j and K_A = sum_j (lambda_j / nu_j) u_j u_j^T. The ball of
functions with |w|_A at most M has the complexity
(M / n) E sqrt(sigma^T K_A sigma) <= (M / n) sqrt(tr K_A). The bound at M = |w|_A is smallest for
nu_j = lambda_j / |u_j . y|, where it is sum_j |u_j . y| / n (Baratin, thesis, B.7).
"""

from typing import Any, NamedTuple

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.device import HOST
from penchant_numerics.statistics import varies
from torch import Generator, Tensor

from penchant_tangent.declarations.linear import Capacity
from penchant_tangent.shared.margin_bounds import (
    DELTA,
    error_bound,
    ramp_loss,
    two_class_complexity,
)
from penchant_tangent.shared.mean_rank_correlation import mean_rank_correlation
from penchant_tangent.shared.supernat import positive_part

SHOWN = (1, 10)  # eigenvectors of the plane in which solutions are drawn, from 0
NORMS = ("l2", "optimal")
MARGIN = 1.0  # that of an interpolator of labels 1 and -1
SHARD_SIZE = 25  # draws
HALF_WIDTH = 5.0  # points are in [-a, a]
FEATURES_SEED = 0  # random features are the same for every seed of the experiment


class Features(NamedTuple):
    """All features in their eigenvectors, and labels that these make."""

    psi: Tensor  # (points, points)
    eigenvalues: Tensor  # (points,)
    labels: Tensor  # (points,)


def run(options: Capacity, context: penchant.Context) -> penchant.Result:
    """Training sets, several per shard."""
    features, eigenvector = all_features(options, context)
    shards = context.map(
        of_draws, networks=options.training_sets, shard_size=SHARD_SIZE, shared=features._asdict()
    )

    # (draws, scalings, ...) by name
    rows: dict[str, list[np.ndarray]] = {}
    for shard in shards:
        for name, value in shard.items():
            rows.setdefault(name, []).append(np.asarray(value))
    values = {name: np.concatenate(column) for name, column in rows.items()}
    # every draw has test points of its own
    others = options.grid_points - options.train
    solutions = values.pop("solutions")
    axes = {"draw": range(options.training_sets), "scaling": options.scalings}
    by_draw = {name: penchant.Table(numbers, axes) for name, numbers in values.items()}
    error = by_draw["test-error"].accuracy(over=("draw",), samples=others, shared=False)
    bounds = {
        name: table.mean("draw")
        for name, table in by_draw.items()
        if name.startswith(("bound", "error-bound", "rademacher"))
    }
    # solutions around their mean, one cloud per scaling
    around = solutions - solutions.mean(0)
    return penchant.Result(
        _quantities(by_draw, error, context),
        {"scalings": np.array(options.scalings), "solutions": around.swapaxes(0, 1)},
        tables={"test-error": error, **bounds},
        conventions={
            "labels": f"signs of eigenvector {eigenvector}, counted from 0",
            "interpolator": "eigenvalues that are zero to rounding are left out",
            "test error": "on all points outside the training set; no sign counts half",
            "error bound": f"(38) and (40) at a margin of {MARGIN:g}, delta = {DELTA:g}, for a "
            "radius that is the interpolator's: it would need a bound over all radii to hold",
        },
    )


def all_features(options: Capacity, context: penchant.Context) -> tuple[Features, int]:
    """Random features of equally spaced points, and the eigenvector whose signs are labels."""
    points = torch.linspace(
        -HALF_WIDTH, HALF_WIDTH, options.grid_points, device="cpu", dtype=torch.float64
    )
    generator = torch.Generator(device="cpu").manual_seed(FEATURES_SEED)
    features = random_features(
        points, count=options.features, gamma=options.gamma, generator=generator
    )

    # in the eigenvectors of their kernel
    psi, singular, _ = torch.linalg.svd(features.to(context.device), full_matrices=False)
    eigenvector = options.eigenvector
    if eigenvector is None:
        eigenvector = with_two_signs(psi)
    positive = psi[:, eigenvector] >= 0
    labels = 2.0 * positive.double() - 1.0
    return Features(psi, singular.square(), labels), eigenvector


# ---- one training set


def of_draws(context: penchant.Context, draws: range) -> dict[str, Tensor]:
    """Bounds, complexities and errors (draws, scalings) of some training sets."""
    features = Features(**context.shared)
    rows: dict[str, list[Tensor]] = {}
    for draw in draws:
        numbers = _of_a_draw(context, features, draw)
        for name, value in numbers.items():
            rows.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in rows.items()}


def _of_a_draw(context: penchant.Context, features: Features, draw: int) -> dict[str, Tensor]:
    """Numbers (scalings, ...) of one training set."""
    options = context.options
    device = context.device

    # which points it has, and random signs for them
    generator = context.generator("draw", draw)
    order = torch.randperm(options.grid_points, generator=generator, device="cpu")
    coins = torch.randint(2, (options.signs, options.train), generator=generator, device="cpu")
    signs = 2.0 * coins - 1.0
    signs = signs.double().to(device)
    order = order.to(device)

    # the same points and signs at every scaling
    rows: dict[str, list[Any]] = {}
    for scaling in options.scalings:
        numbers = _at_a_scaling(context, features, order, signs, scaling)
        for name, value in numbers.items():
            rows.setdefault(name, []).append(value)
    return {
        name: torch.tensor(values, device="cpu", dtype=torch.float64)
        for name, values in rows.items()
    }


def _at_a_scaling(
    context: penchant.Context, features: Features, order: Tensor, signs: Tensor, scaling: float
) -> dict[str, Any]:
    """Numbers of one training set with rescaled features."""
    options = context.options
    labels = features.labels
    scaled = 1 + scaling * (features.eigenvalues - 1)
    chosen, others = order[: options.train], order[options.train :]

    # its kernel
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
    balls = _balls(values, vectors, y, signs)
    loss = ramp_loss(y * (rows @ (scaled.sqrt() * in_eigenvectors)), MARGIN)
    for name in NORMS:
        complexity = two_class_complexity(balls[f"bound-{name}"], MARGIN)
        balls[f"error-bound-{name}"] = error_bound(loss, complexity, options.train)
    return {
        "test-error": _wrong_share(outputs, labels[others]),
        "solutions": _shown(in_eigenvectors),
        **balls,
    }


def _wrong_share(outputs: Tensor, labels: Tensor) -> float:
    """Share of outputs with the wrong sign; what is zero to rounding has none, and counts half."""
    # white features do not predict other points: their outputs are rounding
    rounding = len(outputs) * torch.finfo(outputs.dtype).eps
    decided = outputs.abs() > rounding
    signs = torch.where(decided, torch.sign(outputs), 0.0)
    agreement = signs * labels
    wrong = 1 - agreement
    return float(wrong.mean() / 2)


def _shown(solution: Tensor) -> list[float]:
    """A solution in the plane in which solutions are drawn."""
    last = len(solution) - 1
    positions = [min(position, last) for position in SHOWN]
    return solution[positions].tolist()


def _balls(values: Tensor, vectors: Tensor, y: Tensor, signs: Tensor) -> dict[str, float]:
    """Two balls that hold the interpolator."""
    best = optimal_rescaling(values, vectors, y)
    rescalings = (None, best)
    balls = {}
    for name, rescaling in zip(NORMS, rescalings):
        made = ball(values, vectors, y, rescaling=rescaling, signs=signs)
        balls[f"bound-{name}"] = made.bound
        balls[f"rademacher-{name}"] = made.complexity
        balls[f"tightness-{name}"] = made.complexity / made.bound
    return balls


# ---- over training sets


def _quantities(
    by_draw: dict[str, penchant.Table], error: penchant.Table, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Numbers at the largest scaling, and how bounds go with the test error over scalings."""
    largest = max(context.options.scalings)
    last = {name: table.at(scaling=largest) for name, table in by_draw.items()}
    quantities = {}
    for name, table in last.items():
        if name.startswith(("bound", "error-bound", "tightness")):
            quantities[name] = table.mean("draw").quantity()
    ratio = last["bound-l2"].values / last["bound-optimal"].values
    quantities["bound-ratio"] = penchant.Quantity.of(
        ratio, over="draws", null=1.0, multiplicative=True
    )
    of_largest = attrs.evolve(error.at(scaling=largest), over="draws", df=len(ratio) - 1, null=0.5)
    quantities["test-error"] = of_largest.quantity()

    # whether larger bounds go with larger errors
    for name in NORMS:
        bounds = by_draw[f"bound-{name}"].values
        order = _order(bounds, by_draw["test-error"].values, context)
        if order is not None:
            quantities[f"rank-correlation-{name}"] = order
    return quantities


def _order(
    bounds: np.ndarray, errors: np.ndarray, context: penchant.Context
) -> penchant.Quantity | None:
    """Rank correlation over scalings of bounds and errors (draws, scalings), mean of the draws."""
    # where nothing changes there is no order
    pairs = zip(bounds, errors)
    vary = [varies(bound) and varies(error) for bound, error in pairs]
    if not any(vary):
        return None
    correlation = mean_rank_correlation(
        bounds[vary], errors[vary], generator=context.generator("order")
    )
    return penchant.Quantity.of(correlation.values, over="draws", null=correlation.null())


class Ball(NamedTuple):
    """A ball of functions: bound of its complexity, and the complexity with its error."""

    bound: float
    complexity: float
    stderr: float


def random_features(points: Tensor, *, count: int, gamma: float, generator: Generator) -> Tensor:
    """Features (points, count) with <phi(x), phi(x')> near exp(-gamma |x - x'|^2).

    sqrt(2 / P) cos(w x + b) with w ~ N(0, 2 gamma) and b uniform.

    Args:
        points: Positions (N,) on a line.
        count: P.
        gamma: Of the kernel.
        generator: A generator on the CPU.

    Reference: Rahimi and Recht, Random features for large-scale kernel machines, 2007.
    """
    # sampled on the CPU, the same for every device
    normal = torch.randn(count, generator=generator, **HOST)
    uniform = torch.rand(count, generator=generator, **HOST)

    # frequencies have the kernel's Fourier transform as their density
    frequencies = normal * (2 * gamma) ** 0.5
    phases = uniform * 2 * torch.pi
    angles = points[:, None] * frequencies + phases
    scale = (2 / count) ** 0.5
    features: Tensor = scale * angles.cos()
    return features


def ball(
    values: Tensor, vectors: Tensor, y: Tensor, *, rescaling: Tensor | None, signs: Tensor
) -> Ball:
    """The ball of a norm that just holds the interpolator.

    Args:
        values: Eigenvalues (k,) of the kernel, positive.
        vectors: Its eigenvectors (n, k), as columns.
        y: Labels (n,).
        rescaling: nu (k,); None is the usual norm.
        signs: Random signs (draws, n).

    Returns:
        Its bound, and its complexity simulated with these signs.
    """
    # the radius that just holds the interpolator
    nu = torch.ones_like(values) if rescaling is None else rescaling
    along = vectors.T @ y
    squares = nu * along.square() / values
    radius = squares.sum().sqrt()

    # how far functions of the ball follow random signs
    scaled = values / nu
    products = (signs @ vectors).square() * scaled
    draws = products.sum(1).sqrt()

    # on average over signs, and at most
    n = len(y)
    complexity = radius * draws.mean() / n
    stderr = radius * draws.std() / n / len(draws) ** 0.5
    bound = radius * scaled.sum().sqrt() / n
    return Ball(float(bound), float(complexity), float(stderr))


def with_two_signs(psi: Tensor, share: float = 0.1) -> int:
    """The first column of psi (N, k) with at least this share of its entries on either side of 0.

    >>> with_two_signs(torch.tensor([[1.0, 1.0], [2.0, -1.0]], device="cpu"))
    1
    """
    # the smaller side of every column
    positive = (psi >= 0).double().mean(0)
    negative = 1 - positive
    smaller = torch.minimum(positive, negative)

    # the first that is large enough
    fitting = torch.nonzero(smaller >= share)
    if not len(fitting):
        columns = psi.shape[1]
        raise Refusal(f"no column of {columns} has {share:g} of its entries on either side")
    return int(fitting[0])


def optimal_rescaling(values: Tensor, vectors: Tensor, y: Tensor) -> Tensor:
    """nu_j = lambda_j / |u_j . y|, which makes the bound smallest."""
    along = (vectors.T @ y).abs()
    # a direction that labels do not have costs nothing, whatever its scale
    rounding = torch.finfo(along.dtype).eps
    tiny = rounding * along.max()
    return values / along.clamp(min=tiny)
