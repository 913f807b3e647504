"""The probe `average-geometry`: G at initialisation, its eigenvalues, and how far it is from isotropy."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.moments import descending_eigh, effective_rank, isotropic_spectra
from torch import Tensor

from penchant_gih._correlation import cosine
from penchant_gih._geometry import Geometry, effective_rank_influence, eigenvalue_influence
from penchant_gih.measuring import measure_geometry, scalar_outputs


def run(options: Any, context: Any) -> penchant.Result:
    """Stream G, then describe it."""
    if options.probing == "zero" and options.inputs > 1:
        raise penchant.Error(f"probing = zero has one probing input, found inputs {options.inputs}")
    outputs = scalar_outputs(context)
    chosen = {name: getattr(options, name) for name in ("samples", "inputs", "probing", "scale")}
    geometry = measure_geometry(context, outputs=outputs, **chosen)
    matrix = geometry.matrix()
    eigenvalues, directions = descending_eigh(matrix)
    rank = min(options.samples * options.inputs, len(matrix))
    if rank < len(matrix):
        context.warn(
            f"{options.samples} networks for {len(matrix)} inputs: only the first {rank} directions mean anything"
        )
    null = _null(geometry, context, options)
    arrays = {
        "geometry": matrix,
        "geometry-stderr": geometry.entry_stderr(),
        "eigenvalues": eigenvalues[:rank],
        "eigenvalues-stderr": geometry.stderr(eigenvalue_influence(directions[:rank])),
        "directions": directions[:rank],
    }
    if null is not None:
        arrays["null-edges"] = torch.stack([null.min(), null.max()])
    quantities = _quantities(geometry, matrix, eigenvalues, directions, null)
    missing = ("condition",) if not math.isfinite(quantities["condition"].value) else ()
    return penchant.Result(
        quantities, arrays, conventions=dict(context.conventions), missing=missing
    )


def _null(geometry: Geometry, context: Any, options: Any) -> Tensor | None:
    """Spectra (draws, k) of isotropic architectures with the same norms; there is none with several vectors a network."""
    if options.inputs > 1:
        return None
    norms, size = geometry.squared_norms(), len(geometry.parts[0].total)
    return isotropic_spectra(
        norms, size, generator=context.generator("null"), draws=options.null_draws
    )


def numerical_rank(eigenvalues: Tensor, dtype: torch.dtype) -> int:
    """How many eigenvalues are more than the rounding of gradients in this precision."""
    rounding = (10 * torch.finfo(dtype).eps) ** 2 * float(eigenvalues.sum())
    return int((eigenvalues > rounding).sum())


def _quantities(
    geometry: Geometry, matrix: Tensor, values: Tensor, vectors: Tensor, null: Tensor | None
) -> dict[str, penchant.Quantity]:
    over = {"over": "networks", "count": geometry.count}
    trace, trace_stderr = geometry.trace()
    rank = effective_rank(values)
    stderr = float(geometry.stderr(effective_rank_influence(values, vectors, rank)))
    nothing = {} if null is None else _spread([effective_rank(spectrum) for spectrum in null])
    found = {
        "trace": penchant.Quantity(trace, stderr=trace_stderr, **over),
        "effective-rank": penchant.Quantity(rank, stderr=stderr, **over, **nothing),
        "condition": _condition(geometry, values, vectors, null),
        "rank": penchant.Quantity(
            float(min(numerical_rank(values, torch.float32), geometry.count * geometry.inputs))
        ),
        "corr-isotropic": _isotropy(geometry, matrix, trace),
    }
    if null is not None:
        outside = int(
            (values[: null.shape[1]] > null.max()).sum()
            + (values[: null.shape[1]] < null.min()).sum()
        )
        found["beyond-null"] = penchant.Quantity(float(outside), null=0.0)
    return found


def _condition(
    geometry: Geometry, values: Tensor, vectors: Tensor, null: Tensor | None
) -> penchant.Quantity:
    """Largest over smallest eigenvalue; not a number where G has not full rank."""
    if numerical_rank(values, torch.float32) < len(
        values
    ) or geometry.count * geometry.inputs < len(values):
        return penchant.Quantity(math.nan)
    ends, value = torch.stack([vectors[0], vectors[-1]]), float(values[0] / values[-1])
    shares = torch.stack([1 / values[0], -1 / values[-1]])
    stderr = value * float(geometry.stderr(lambda rows: (rows @ ends.T).square() @ shares))
    nothing = (
        {} if null is None else _spread([float(spectrum[0] / spectrum[-1]) for spectrum in null])
    )
    return penchant.Quantity(value, stderr=stderr, over="networks", count=geometry.count, **nothing)


def _isotropy(geometry: Geometry, matrix: Tensor, trace: float) -> penchant.Quantity:
    """Corr(G, I) with the norm of G from independent halves; log Corr moves with |g|^2/tr G - g^T G g/|G|^2."""
    squared = geometry.squared_norm()
    value = cosine(trace, squared, float(len(matrix)))
    stderr = value * float(
        geometry.stderr(
            lambda rows: rows.square().sum(1) / trace - (rows @ matrix * rows).sum(1) / squared
        )
    )
    return penchant.Quantity(value, stderr=stderr, over="networks", count=geometry.count, null=1.0)


def _spread(values: list[float]) -> dict[str, float]:
    numbers = torch.tensor(values, dtype=torch.float64, device="cpu")
    return {
        "null": float(numbers.mean()),
        "null_stderr": float(numbers.std()) if len(values) > 1 else 0.0,
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """G as a picture with its eigenvalues (figure 9), and the first directions."""
    from penchant_gih import figures

    return {"geometry": figures.geometry(result), "directions": figures.directions(result)}
