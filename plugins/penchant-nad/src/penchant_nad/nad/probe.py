"""The probe `nad`: which directions an architecture prefers, and how strongly.

Which leading eigenvalues lie above those of isotropic architectures, index by index.

An eigenvalue is above its null where it exceeds the mean of the simulated ones by the two-sided 1 %
point of Student's t for one more draw. Directions are preferred from the first one on: behind the
first eigenvalue that is not above its null, none counts.

The count has no jackknife: spectra of fewer networks are wider, and would be counted against the
null of all networks. Its error is the spread of counts when every eigenvalue moves by its own
standard error.
"""

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.inputs import (
    differentiated,
    directions_of_gradients,
    effective_rank,
    isotropic_spectra,
)
from penchant_numerics.inputs.sample_input_gradients import sample_input_gradients
from penchant_numerics.roles import Directions, refuse_zero
from penchant_numerics.statistics import LEVEL, jackknife, null_of, p_value
from torch import Generator, Tensor

from penchant_nad.declarations.directions import Nad
from penchant_nad.nad import participation
from penchant_nad.nad.estimated_pairs import estimated_pairs

NULL_DRAWS = 20  # isotropic architectures that are simulated


def run(options: Nad, context: penchant.Context) -> penchant.Result:
    """Measure the directions with the chosen estimator."""
    if context.network_kind == "trained":
        moment = _of_one_network(context)
    else:
        if context.has("dataset"):
            raise penchant.Error("NADs of fresh networks need no data: leave the dataset out")
        moment = context.estimator("directions")(networks=options.networks)
    refuse_zero(moment.eigenvalues, moment.vectors.shape[1])
    moment = estimated_pairs(moment)
    _warn_of_unseen_inputs(moment, context)
    arrays: dict[str, Tensor | np.ndarray] = {
        "eigenvalues": participation.without_rounding(moment.eigenvalues),
        "directions": moment.vectors[: options.store_directions],
    }
    # How sure eigenvalues are, where the estimator tells.
    left_out = moment.left_out_spectra()
    if left_out is not None:
        arrays["eigenvalues-stderr"] = participation.eigenvalue_stderr(left_out)
    if moment.residuals is not None:
        arrays["residuals"] = moment.residuals

    # What they would be without a preference, index by index.
    null = _null(moment, context)
    if null is not None:
        mean = null.mean(0)
        arrays["null-edges"] = mean[[-1, 0]]
        arrays["null-eigenvalues"] = mean
        arrays["null-eigenvalues-spread"] = null.std(0)
    if options.store_matrix:
        arrays["second-moment"] = _matrix(moment)
    quantities = _quantities(moment, left_out, null, context.generator("above null"))
    _warn_of_few_networks(moment, quantities, context)
    if context.network_kind == "trained":
        quantities = {
            name: attrs.evolve(each, over=each.over.replace("networks", "samples"))
            for name, each in quantities.items()
        }
    return penchant.Result(quantities, arrays, missing=("eigenvalues-stderr",))


def _of_one_network(context: penchant.Context[Nad]) -> Directions:
    """The second moment of the gradients of one trained network, over samples of its dataset."""
    if not context.has("dataset"):
        raise penchant.Error("NADs of one trained network are taken at samples: give it a dataset")
    samples = context.data.train
    order = torch.randperm(
        len(samples.labels), generator=context.generator("samples"), device="cpu"
    )
    chosen = samples.select(order[: context.options.samples].to(samples.labels.device))
    ((_, network),) = context.trained()
    rows = sample_input_gradients(network, chosen)
    context.conventions["gradient"] = f"autograd, at {len(rows)} training samples"
    context.conventions["output"] = differentiated(context.architecture.outputs)
    return directions_of_gradients(rows)


def _warn_of_unseen_inputs(directions: Directions, context: penchant.Context) -> None:
    """Inputs by which the gradient is exactly zero in every network."""
    if directions.rows is not None:
        seen = (directions.rows != 0).any(0)
    elif directions.matrix is not None:
        seen = directions.matrix.diagonal() != 0
    else:
        return
    size, reaching = len(seen), int(seen.sum())
    if reaching < size:
        context.warn(
            f"{size} inputs, of which {reaching} reach the output: the gradient by the others is "
            "exactly zero in every network"
        )


def _warn_of_few_networks(
    directions: Directions, quantities: dict[str, penchant.Quantity], context: penchant.Context
) -> None:
    """With one vector per network there are as many directions as networks."""
    size = directions.vectors.shape[1]
    if directions.networks < size and directions.squared_norms is not None:
        # An estimate that is centred has one direction less.
        estimated = len(directions.eigenvalues)
        above = quantities["directions-above-null"].value
        noun = "samples" if context.network_kind == "trained" else "networks"
        counts = f"{directions.networks} {noun} for {size} inputs"
        context.warn(
            f"{counts}: at most {estimated} directions can be estimated; {above:.0f} of them lie "
            "above the null"
        )


def _matrix(directions: Directions) -> Tensor:
    matrix = directions.moment()
    if matrix is None:
        raise penchant.Error(
            "store_matrix needs an estimator that has the whole matrix, found leading pairs only"
        )
    return matrix


def _null(directions: Directions, context: penchant.Context) -> Tensor | None:
    """Spectra (draws, k) of isotropic architectures with the same norms.

    There are none without one vector per network.
    """
    if directions.squared_norms is None:
        return None
    size = directions.vectors.shape[1]
    generator = context.generator("null")
    spectra = isotropic_spectra(
        directions.squared_norms, size, generator=generator, draws=NULL_DRAWS
    )
    return spectra[:, : len(directions.eigenvalues)]


def _quantities(
    directions: Directions, left_out: Tensor | None, null: Tensor | None, generator: Generator
) -> dict[str, penchant.Quantity]:
    trace = penchant.Quantity(
        directions.trace,
        stderr=directions.trace_stderr,
        over="networks",
        count=directions.networks,
        df=directions.networks - 1,
    )
    # A few pairs say nothing about the whole spectrum.
    if directions.residuals is not None:
        return {"trace": trace}

    rank = effective_rank(directions.eigenvalues)
    ranks: dict[str, Any] = {"value": rank}
    counts: dict[str, Any] = {"value": participation.directions_90(directions.eigenvalues)}
    if left_out is not None:
        over = {
            "over": "networks (jackknife over groups)",
            "count": directions.networks,
            "df": len(left_out) - 1,
        }
        ranks |= {"stderr": jackknife(_effective_ranks(left_out)), **over}
        counts |= {"stderr": participation.position_stderr(left_out), **over}
    if null is not None:
        ranks |= null_of(_effective_ranks(null), value=rank)
        counts |= participation.position_null(null)
    quantities = {
        "trace": trace,
        "effective-rank": penchant.Quantity(**ranks),
        "directions-90": penchant.Quantity(**counts),
    }
    if null is not None:
        quantities["directions-above-null"] = _above_null(directions, left_out, null, generator)
    return quantities


def _above_null(
    directions: Directions, left_out: Tensor | None, null: Tensor, generator: Generator
) -> penchant.Quantity:
    """How many leading eigenvalues lie above those of isotropic architectures."""
    values = directions.eigenvalues.cpu().numpy()
    limits = isotropic_limits(null)
    known: dict[str, Any] = {}
    if left_out is not None:
        errors = participation.eigenvalue_stderr(left_out)
        known = {
            "stderr": count_stderr(values, errors, limits, generator=generator),
            "over": "networks (eigenvalues moved by their standard errors)",
            "count": directions.networks,
        }
    p = first_p_value(directions.eigenvalues, null)
    above = count_above(values, limits)
    return penchant.Quantity(above, null=0.0, p=p, **known)


def _effective_ranks(spectra: Tensor) -> list[float]:
    return [effective_rank(spectrum) for spectrum in spectra]


ROUNDING = 1e-9  # of sums in double precision: one input has the same eigenvalue in every draw
DRAWS = 400


def isotropic_limits(null: Tensor) -> np.ndarray:
    """What eigenvalues must exceed at each index (k,), from isotropic spectra (draws, k)."""
    from scipy.special import stdtrit

    draws = len(null)
    mean: np.ndarray = null.mean(0).cpu().numpy()
    spread: np.ndarray = null.std(0).cpu().numpy()
    # One more draw differs from the mean of others by its own deviation and that of the mean.
    error = spread * math.sqrt(1 + 1 / draws)
    point = -float(stdtrit(draws - 1, LEVEL / 2))
    limits: np.ndarray = mean + np.maximum(point * error, ROUNDING * np.abs(mean))
    return limits


def count_above(eigenvalues: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """How many leading eigenvalues (..., k) exceed their limits (k,)."""
    above = eigenvalues > limits
    counts: np.ndarray = np.cumprod(above, axis=-1).sum(-1)
    return counts


def count_stderr(
    eigenvalues: np.ndarray, stderr: np.ndarray, limits: np.ndarray, *, generator: Generator
) -> float:
    """The standard error of the count.

    Args:
        eigenvalues: Descending, (k,).
        stderr: Their standard errors; what is missing counts as 0.
        limits: What they must exceed.
        generator: A generator on the CPU.
    """
    noise = torch.randn(
        DRAWS, len(eigenvalues), generator=generator, device="cpu", dtype=torch.float64
    ).numpy()
    moved = eigenvalues + np.nan_to_num(stderr) * noise
    return float(count_above(moved, limits).std(ddof=1))


def first_p_value(eigenvalues: Tensor, null: Tensor) -> float | None:
    """The p-value of the first eigenvalue, and so of any number of preferred directions."""
    first = null[:, 0]
    mean = float(first.mean())
    difference = float(eigenvalues[0]) - mean
    if difference <= ROUNDING * abs(mean):
        return 1.0
    error = float(first.std()) * math.sqrt(1 + 1 / len(null))
    return p_value(difference, error, len(null) - 1)
