"""The probe `dipole`: how fast a network learns to tell x from x + v, and what bounds that.

q(v) = g(|v.grad_x f|) with g(t) = alpha t^2 / 2 + beta t, so that |grad_theta q| = (alpha |v.grad_x f| + beta) |M v|, M = d^2 f/d theta dx.
Lemma 2, with the right factor: E|grad_theta q(v)| <= alpha sqrt(v^T C v) sqrt(v^T E[M^T M] v) + beta E|M v|; the paper prints alpha^2.
Both sides come from different networks: on the same ones the inequality would hold whatever was measured.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.derivatives import input_gradients
from penchant_numerics.ensembles import draw
from penchant_numerics.mixed import MixedDerivative
from penchant_numerics.safety import safe
from torch import Tensor

from penchant_nad.bases import chosen_indices, named_basis

SHARD = 8


def run(options: Any, context: Any) -> penchant.Result:
    """Slopes v.grad f and sizes |M v| of every network and direction; the bound from every second network."""
    if context.architecture.outputs > 2:
        raise penchant.Error(
            f"dipole needs one output or two logits, found {context.architecture.outputs} outputs"
        )
    basis = named_basis(options, context)
    indices = chosen_indices(options, basis)
    point = options.point_scale * torch.randn(
        context.architecture.shape, generator=context.generator("point"), device="cpu"
    )
    shared = {"point": point.flatten().tolist(), "directions": basis.vectors[indices].tolist()}
    ranges = [
        (first, min(first + SHARD, options.networks)) for first in range(0, options.networks, SHARD)
    ]
    rows = list(
        context.map(
            slopes_and_sizes, [{**shared, "first": first, "last": last} for first, last in ranges]
        )
    )
    slopes, sizes = (
        np.concatenate([row[name] for row in rows]) for name in ("slopes", "sizes")
    )  # (networks, directions)
    arrays = {
        "index": np.array(indices),
        **_lemma(options, slopes, sizes),
        **_markov(options, slopes),
    }
    if basis.eigenvalues is not None:
        arrays["eigenvalue"] = basis.eigenvalues[indices]
    conventions = {
        "dipole": f"first order in v, g(t) = {options.alpha / 2:g} t^2 + {options.beta:g} t, unit directions",
        "bound": "from other networks than the measured side",
        "eta": f"{options.eta:g} times the mean of v^T C v over the directions",
    }
    return penchant.Result(_quantities(arrays), arrays, conventions=conventions)


def slopes_and_sizes(context: Any, item: dict[str, Any]) -> dict[str, Tensor]:
    """v.grad_x f and |M v| at the point, (networks, directions) each."""
    networks = draw(context.architecture, range(item["first"], item["last"]), prepare=safe).to(
        context.device, context.dtype
    )
    like = {"device": context.device, "dtype": context.dtype}
    point = torch.tensor(item["point"], **like).reshape(context.architecture.shape)
    directions = torch.tensor(item["directions"], **like)
    gradients = input_gradients(networks, point[None])[:, 0]
    mixed = MixedDerivative(networks.module, point)
    sizes = [
        _sizes(mixed, {name: value[number] for name, value in networks.state.items()}, directions)
        for number in range(len(networks))
    ]
    return {"slopes": (gradients @ directions.T).double(), "sizes": torch.stack(sizes).double()}


def _sizes(mixed: MixedDerivative, state: dict[str, Tensor], directions: Tensor) -> Tensor:
    """|M v|; for many directions the matrix M^T M costs less than the products."""
    if 8 * len(directions) > mixed.size:
        return ((directions @ mixed.gram(state)) * directions).sum(1).clamp(min=0).sqrt()
    images = mixed.apply(state, directions)
    return sum(image.flatten(1).square().sum(1) for image in images.values()).sqrt()


def _lemma(options: Any, slopes: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Both sides of lemma 2 with their standard errors."""
    measured = (options.alpha * np.abs(slopes[::2]) + options.beta) * sizes[::2]
    bound, stderr = lemma_bound(slopes[1::2], sizes[1::2], options.alpha, options.beta)
    return {
        "gradient-norm": measured.mean(0),
        "gradient-norm-stderr": measured.std(0, ddof=1) / math.sqrt(len(measured)),
        "bound": bound,
        "bound-stderr": stderr,
    }


def lemma_bound(
    slopes: np.ndarray, sizes: np.ndarray, alpha: float, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """alpha sqrt(E s^2) sqrt(E |Mv|^2) + beta E|Mv| over networks (rows), and its standard error by the delta method."""
    squares, norms = slopes**2, sizes**2
    slope, size = np.sqrt(squares.mean(0)), np.sqrt(norms.mean(0))
    slope, size = (np.maximum(each, np.finfo(float).tiny) for each in (slope, size))
    influence = alpha * (squares / slope * size + norms / size * slope) / 2 + beta * sizes
    return alpha * slope * size + beta * sizes.mean(0), influence.std(0, ddof=1) / math.sqrt(
        len(slopes)
    )


def _markov(options: Any, slopes: np.ndarray) -> dict[str, np.ndarray]:
    """P((v.grad f)^2 >= eta) and v^T C v / eta, again from different networks."""
    squares = slopes**2
    threshold = options.eta * squares.mean()
    above, other = squares[::2] >= threshold, squares[1::2] / threshold
    share = (above.sum(0) + 0.5) / (
        len(above) + 1
    )  # half a network on each side: 0 and 1 have an error too
    return {
        "exceedance": above.mean(0),
        "exceedance-stderr": np.sqrt(share * (1 - share) / len(above)),
        "markov-bound": other.mean(0),
        "markov-bound-stderr": other.std(0, ddof=1) / math.sqrt(len(other)),
    }


def _excess(arrays: dict[str, Any], measured: str, bound: str) -> float:
    """The largest excess over a bound, in standard errors of the difference."""
    spread = np.hypot(arrays[f"{measured}-stderr"], arrays[f"{bound}-stderr"])
    return float(
        ((arrays[measured] - arrays[bound]) / np.maximum(spread, np.finfo(float).tiny)).max()
    )


def _quantities(arrays: dict[str, Any]) -> dict[str, penchant.Quantity]:
    from scipy.stats import norm, spearmanr

    count = len(arrays["index"])
    limit = float(norm.isf(0.01 / count))
    measured, bound = arrays["gradient-norm"], arrays["bound"]
    quantities = {
        "largest-excess": penchant.Quantity(
            _excess(arrays, "gradient-norm", "bound"), null=limit, unit="standard errors"
        ),
        "largest-markov-excess": penchant.Quantity(
            _excess(arrays, "exceedance", "markov-bound"), null=limit, unit="standard errors"
        ),
        "tightness": _over_directions(measured / np.maximum(bound, np.finfo(float).tiny)),
    }
    if count > 2 and np.ptp(measured) > 0 and np.ptp(bound) > 0:
        correlation = float(spearmanr(measured, bound).statistic)
        spread = math.sqrt(max(0.0, 1 - correlation**2) / (count - 2))
        chance = {"null": 0.0, "null_stderr": 1 / math.sqrt(count - 1)}
        quantities["rank-correlation"] = penchant.Quantity(
            correlation, stderr=spread, over="directions", count=count, **chance
        )
    return quantities


def _over_directions(values: np.ndarray) -> penchant.Quantity:
    stderr = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    return penchant.Quantity(
        float(values.mean()), stderr=stderr, over="directions", count=len(values)
    )


def plot(result: penchant.Result) -> dict[str, Any]:
    """Both sides of lemma 2 and of the Markov bound, by direction."""
    from penchant_nad.figures import dipole

    return {"bounds": dipole(result)}
