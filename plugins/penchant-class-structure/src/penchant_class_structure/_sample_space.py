"""The Gauss-Newton matrix G = V V^T seen from sample space: K = V^T V, with n C rows, and inner products of what V makes.

K is a matrix where it fits, made layer by layer; else it is applied, by J forth and J^T back. Column (i, c') of V is
sqrt(w_{i,c,c'}) (e_{c'} - p) pulled back: an extended gradient times the root of its weight, but for the sign.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from penchant_numerics.determinism import check_deterministic
from penchant_numerics.gauss_newton import GaussNewton, conventions
from penchant_numerics.moments import accumulation_dtype
from penchant_numerics.operators import Dense, Factor, Operator
from penchant_numerics.tangent_kernels import gauss_newton_gram, sample_traces
from torch import Tensor, nn


@dataclass(frozen=True)
class SampleSpace:
    """K of a network on samples; `size` counts parameters, `traces` (n,) are those of each sample's part in n G."""

    gram: Operator  # (n C, n C)
    factor: Factor | None  # nothing where K is a matrix
    outputs: Tensor  # (n, C)
    traces: Tensor
    size: int
    notes: dict[str, str]

    @property
    def rows(self) -> int:
        return self.gram.size

    @property
    def exact(self) -> bool:
        """Whether K is a matrix."""
        return self.factor is None

    def inner(self, rows: Tensor) -> Tensor:
        """u K u^T (k, k), in double precision, on the CPU, for rows u (k, n C)."""
        if self.factor is None:
            return (rows @ self.gram.rows(rows).T).double().cpu()
        made = self.factor.apply(rows.to(self.gram.dtype))  # (k, parameters)
        return inner_products(made, made)


def sample_space(
    network: nn.Module, inputs: Tensor, *, exact_limit: int, batch: int | None = None
) -> SampleSpace:
    """K as a matrix, in double precision, up to `exact_limit` rows; beyond as products in the network's own."""
    with torch.no_grad():
        classes = network(inputs[:1]).shape[1]
    if len(inputs) * classes <= exact_limit:
        wide = accumulation_dtype(
            inputs.device
        )  # small eigenvalues are below the rounding of single precision
        return _as_matrix(copy.deepcopy(network).to(wide), inputs.to(wide), batch)
    G = GaussNewton(network, (inputs, None), batch=batch)
    factor = G.factor()
    traces = sample_traces(network, inputs, batch=batch)
    notes = {
        "J v": f"{G.route}, because of {G.reason}" if G.route != "dual" else G.route,
        **G.conventions,
    }
    return SampleSpace(
        factor.gram(),
        factor,
        _outputs(network, inputs, batch),
        traces.double().cpu(),
        G.size,
        notes,
    )


def _as_matrix(network: nn.Module, inputs: Tensor, batch: int | None) -> SampleSpace:
    check_deterministic(network, inputs)
    K = gauss_newton_gram(network, (inputs, None), batch=batch)
    outputs = _outputs(network, inputs, batch)
    traces = K.diagonal().reshape(outputs.shape).sum(1).double().cpu() * len(inputs)
    size = sum(p.numel() for p in network.parameters())
    return SampleSpace(Dense(K), None, outputs, traces, size, conventions("cross-entropy", "mean"))


@torch.no_grad()
def _outputs(network: nn.Module, inputs: Tensor, batch: int | None) -> Tensor:
    return torch.cat([network(part) for part in inputs.split(batch or 1024)])


def inner_products(left: Tensor, right: Tensor, block: int = 1 << 20) -> Tensor:
    """Inner products (k, m) of rows, added up in double precision over blocks of columns."""
    total = torch.zeros(len(left), len(right), device=left.device, dtype=torch.float64)
    for a, b in zip(left.split(block, dim=1), right.split(block, dim=1)):
        total += (a @ b.T).double()
    return total.cpu()
