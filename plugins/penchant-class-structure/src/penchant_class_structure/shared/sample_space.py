"""The Gauss-Newton matrix G = V V^T seen from sample space: K = V^T V, with n C rows.

K is a matrix where it fits, made layer by layer; else it is applied, by J forth and J^T back. Of a
memory budget that was set, a matrix, its copies and the features of layers take no more than all.
Column (i, c') of V is sqrt(w_{i,c,c'}) (e_{c'} - p) pulled back: an extended gradient times the
root of its weight, but for the sign.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from penchant_numerics.curvature import GaussNewton, Hessian, conventions
from penchant_numerics.curvature.gauss_newton_gram import gauss_newton_gram
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.data import in_precision
from penchant_numerics.device import accumulation_dtype, fitting_batch, memory
from penchant_numerics.jacobians import select
from penchant_numerics.linear_algebra import Dense, Factor, Operator
from penchant_numerics.training import outputs
from torch import Tensor, nn

from penchant_class_structure.shared.multi_device import multi_device

TABLES = 4  # matrices of the size of K that are held at once, with those of its decomposition
ROWS_SHARE = 0.5  # of the budget, for vectors of all parameters
_CHUNK = 1024  # samples per pass that only goes forth


@dataclass(frozen=True)
class SampleSpace:
    """K of a network on samples."""

    gram: Operator  # (n C, n C)
    factor: Factor | None  # None where K is a matrix
    outputs: Tensor  # (n, C)
    traces: Tensor  # (n,), of each sample's contribution to n G
    size: int  # parameters
    notes: dict[str, str]

    @property
    def rows(self) -> int:
        """Rows of K."""
        return self.gram.size

    @property
    def exact(self) -> bool:
        """Whether K is a matrix."""
        return self.factor is None

    @property
    def matrix(self) -> Tensor:
        """K as a matrix."""
        assert isinstance(self.gram, Dense)
        return self.gram.matrix

    def inner(self, rows: Tensor) -> Tensor:
        """U K u^T (k, k), in double precision, on the CPU, for rows u (k, n C)."""
        if self.factor is None:
            return (rows @ self.gram.multiply_rows(rows).T).double().cpu()

        # V u itself, in parameter space
        given = rows.to(self.gram.dtype)
        width = memory.fitting(self.size * given.element_size(), given.device, share=ROWS_SHARE)
        if len(given) <= width:
            made = self.factor.apply(given)  # (k, parameters)
            return inner_products(made, made)

        # and back, where not all of them fit
        images = torch.cat([self.gram.multiply_rows(chunk) for chunk in given.split(width)])
        return (given.double() @ images.double().T).cpu()

    def select(self, chosen: Tensor) -> SampleSpace:
        """The same of some samples only, by their numbers (m,); K must be a matrix."""
        count, classes = self.outputs.shape
        numbers = torch.arange(count * classes, device=chosen.device).reshape(count, classes)

        # each sample has a row for each class
        rows = numbers[chosen].flatten()
        scale = count / len(chosen)  # weights are over the number of samples
        return replace(
            self,
            gram=Dense(self.matrix[rows][:, rows] * scale),
            outputs=self.outputs[chosen],
            traces=self.traces[chosen.cpu()],
        )


def sample_space(
    network: nn.Module,
    inputs: Tensor,
    *,
    exact_limit: int,
    parameters: Sequence[str] | None = None,
    batch: int | None = None,
    devices: Sequence[torch.device] | None = None,
) -> SampleSpace:
    """K of a network on inputs.

    Args:
        network: A classifier in evaluation mode.
        inputs: Inputs (n, ...).
        exact_limit: Rows up to which K is a matrix, in double precision, because small eigenvalues
            are below the rounding of single precision; beyond, products in the network's own.
        parameters: Names of the parameters that G is of; None: all.
        batch: Samples per pass; None: by device and budget.
        devices: Those that share products, the inputs' own first; None: that one only.
    """
    with torch.no_grad():
        classes = network(inputs[:1]).shape[1]
    rows = len(inputs) * classes
    if rows <= exact_limit and matrix_fits(rows):
        wide = accumulation_dtype(inputs.device)
        precise = copy.deepcopy(network).to(wide)
        return _as_matrix(precise, in_precision(inputs, wide), parameters, batch)

    # too many rows for a matrix: products with V and V^T
    G = multi_device(
        GaussNewton,
        network,
        (inputs, None),
        devices=devices or [inputs.device],
        parameters=parameters,
        batch=batch,
    )
    assert not isinstance(G, Hessian)  # of one device, or of several
    factor = G.factor()
    assert factor is not None  # G has one
    traces = sample_traces(network, inputs, parameters=parameters, batch=batch)
    route = G.route if G.route == "dual" else f"{G.route}, because of {G.reason}"
    return SampleSpace(
        gram=factor.gram(),
        factor=factor,
        outputs=_outputs(network, inputs, batch),
        traces=traces.double().cpu(),
        size=G.size,
        notes={"J v": route, **G.conventions},
    )


def matrix_bytes(rows: int) -> int:
    """Bytes of K in double precision, and of what is made of it."""
    return TABLES * 8 * rows**2


def matrix_fits(rows: int) -> bool:
    """Whether K leaves half of a budget to its making; without one that was set, it does."""
    limit = memory.given()
    if limit is None:
        return True
    return 2 * matrix_bytes(rows) <= limit


def _outputs(network: nn.Module, inputs: Tensor, batch: int | None) -> Tensor:
    """Outputs (n, C) of all samples, as many per pass as fit."""

    def passed(given: Tensor) -> None:
        outputs(network, given, chunk=_CHUNK)

    chunk = batch or fitting_batch(passed, inputs, largest=_CHUNK)
    return outputs(network, inputs, chunk=chunk)


def _as_matrix(
    network: nn.Module, inputs: Tensor, parameters: Sequence[str] | None, batch: int | None
) -> SampleSpace:
    given = _outputs(network, inputs, batch)

    # features have what the matrix leaves of a budget that was set
    limit = memory.given()
    room = None if limit is None else limit - matrix_bytes(given.numel())
    K = gauss_newton_gram(network, (inputs, None), parameters=parameters, batch=batch, memory=room)

    # a sample's contribution to the trace of G is on the diagonal
    by_sample = K.diagonal().reshape(given.shape).sum(1)
    return SampleSpace(
        gram=Dense(K),
        factor=None,
        outputs=given,
        traces=by_sample.double().cpu() * len(inputs),
        size=sum(value.numel() for value in select(network, parameters).values()),
        notes=conventions("cross-entropy", "mean"),
    )


def inner_products(left: Tensor, right: Tensor, block: int = 1 << 20) -> Tensor:
    """Inner products (k, m) of rows, added up in double precision over blocks of columns."""
    total = torch.zeros(len(left), len(right), device=left.device, dtype=torch.float64)

    # single precision is enough for a block, not for their sum
    for a, b in zip(left.split(block, dim=1), right.split(block, dim=1)):
        total += (a @ b.T).double()
    return total.cpu()
