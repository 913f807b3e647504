"""Streaming moments: a second moment is accumulated in double precision, merged across shards, and never needs the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from penchant_numerics import answers
from torch import Tensor

_LARGEST_GROUPED = (
    2048  # inputs up to which a moment is kept in parts: eight matrices of this size are 256 MiB
)
_BLOCK = 32  # vectors that are added to a part at once


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """Double precision where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


class SecondMoment:
    """Sum of g g^T over vectors g, with what centring and standard errors need.

    The result does not depend on how the vectors were cut into pieces except for rounding; merging in a fixed order makes
    it bit-identical.

    >>> moment = SecondMoment(2, device="cpu")
    >>> moment.add(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> moment.matrix().tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """

    def __init__(self, size: int, *, device: torch.device | str) -> None:
        device = torch.device(device)
        dtype = accumulation_dtype(device)
        self.outer = torch.zeros(size, size, device=device, dtype=dtype)
        self.total = torch.zeros(size, device=device, dtype=dtype)
        self.squared_norms: list[Tensor] = []
        self.count = 0

    def add(self, vectors: Tensor) -> None:
        """Add rows (vectors, size); their squared norms are kept, the rows are not."""
        rows = vectors.detach().to(self.outer.dtype)
        self.outer.addmm_(rows.T, rows)
        self.total += rows.sum(0)
        self.squared_norms.append(rows.square().sum(1))
        self.count += len(rows)

    def arrays(self) -> dict[str, Tensor]:
        """What a shard returns: the smallest thing that merges."""
        return {"outer": self.outer, "total": self.total, "squared-norms": self.norms()}

    def merge(self, arrays: Mapping[str, object]) -> None:
        """Add what another moment's `arrays()` gave."""
        parts = {
            name: torch.as_tensor(arrays[name], device=self.outer.device)
            for name in ("outer", "total", "squared-norms")
        }
        self.outer += parts["outer"]
        self.total += parts["total"]
        self.squared_norms.append(parts["squared-norms"])
        self.count += len(parts["squared-norms"])

    def norms(self) -> Tensor:
        """Squared norms of all vectors, in the order they were added."""
        return torch.cat(self.squared_norms) if self.squared_norms else self.total.new_zeros(0)

    def mean(self) -> Tensor:
        return self.total / self.count

    def matrix(self, *, centred: bool = False) -> Tensor:
        """The second moment, (1/T) sum g g^T, or the covariance around the mean (with 1/T as well)."""
        moment = self.outer / self.count
        if centred:
            mean = self.mean()
            moment = moment - torch.outer(mean, mean)
        return (moment + moment.T) / 2


class GroupedMoment:
    """A second moment kept in a few parts of equal size, so that leaving one out tells how sure a statistic of it is.

    Vector t goes to part t mod groups: parts of unequal size would be taken for spread, because a spectrum depends on the number of
    vectors. A part is a matrix, so large inputs have one part only and no jackknife.
    """

    def __init__(self, size: int, *, device: torch.device | str, groups: int = 8) -> None:
        self.parts = [
            SecondMoment(size, device=device)
            for _ in range(groups if size <= _LARGEST_GROUPED else 1)
        ]
        self._waiting: list[list[Tensor]] = [[] for _ in self.parts]
        self._seen = 0

    def add(self, vectors: Tensor) -> None:
        """Add rows (vectors, size) to the parts in turn; each takes them in blocks, because its matrix is large."""
        groups = len(self.parts)
        for number, waiting in enumerate(self._waiting):
            rows = vectors[(number - self._seen) % groups :: groups]
            if len(rows):
                waiting.append(rows.detach().clone())
            if sum(map(len, waiting)) >= _BLOCK:
                self._flush(number)
        self._seen += len(vectors)

    def _flush(self, number: int) -> None:
        if self._waiting[number]:
            self.parts[number].add(torch.cat(self._waiting[number]))
            self._waiting[number] = []

    def whole(self, *, without: int | None = None) -> SecondMoment:
        """All parts together, or all but one."""
        for number in range(len(self.parts)):
            self._flush(number)
        first = self.parts[0]
        total = SecondMoment(len(first.total), device=first.total.device)
        for number, part in enumerate(self.parts):
            if number != without and part.count:
                total.merge(part.arrays())
        return total

    def left_out(self, *, centred: bool, rank: int) -> Tensor | None:
        """Eigenvalues (groups, rank), descending, with one part left out at a time; none with fewer than two parts."""
        filled = [number for number, part in enumerate(self.parts) if part.count]
        if len(filled) < 2:
            return None
        spectra = [
            torch.linalg.eigvalsh(self.whole(without=number).matrix(centred=centred))
            for number in filled
        ]
        return torch.stack([values.flip(0)[:rank] for values in spectra])


class Directions(answers.Directions):
    """`penchant_numerics.answers.Directions` under its old name, built with `samples=`."""

    def __init__(self, *values: Any, samples: int | None = None, **named: Any) -> None:
        if samples is not None:
            named["networks"] = samples
        super().__init__(*values, **named)


def directions_of(
    groups: GroupedMoment, *, centred: bool = False, conventions: Mapping[str, str] | None = None
) -> answers.Directions:
    """Eigenvectors of a streamed moment of one vector a network; only as many as there are networks mean anything."""
    moment = groups.whole()
    matrix = moment.matrix(centred=centred)
    eigenvalues, vectors = descending_eigh(matrix)
    rank = min(moment.count - int(centred), len(matrix))
    norms = moment.norms()
    return answers.Directions(
        eigenvalues[:rank],
        vectors[:rank],
        trace=float(matrix.trace()),
        trace_stderr=float(norms.std() / math.sqrt(moment.count)),
        networks=moment.count,
        matrix=matrix,
        squared_norms=norms,
        jackknife=groups.left_out(centred=centred, rank=rank),
        conventions=dict(conventions or {}),
    )


def descending_eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and eigenvectors as rows, each with its largest entry positive: signs are definite."""
    values, columns = torch.linalg.eigh(matrix)
    rows = columns.flip(1).T
    largest = rows.gather(1, rows.abs().argmax(1, keepdim=True))
    return values.flip(0), rows * torch.where(largest < 0, -1.0, 1.0).to(rows.dtype)


def effective_rank(eigenvalues: Tensor) -> float:
    """exp of the entropy of the normalised positive eigenvalues: between 1 and their number."""
    positive = eigenvalues[eigenvalues > 0]
    shares = positive / positive.sum()
    return float(torch.exp(-(shares * shares.log()).sum()))


def isotropic_spectra(
    squared_norms: Tensor, size: int, *, generator: torch.Generator, draws: int = 4
) -> Tensor:
    """Spectra (draws, k), descending, of isotropic architectures with these gradient norms.

    Simulates (1/T) sum_t |g_t|^2 u_t u_t^T with u_t uniform on the sphere, in chunks of 1024 vectors. Plain Marchenko-Pastur
    edges are right only where norms hardly vary. With fewer networks than inputs these are the T eigenvalues of the Gram
    matrix: the others are zero.
    """
    return torch.stack(
        [_isotropic_spectrum(squared_norms, size, generator).flip(0) for _ in range(draws)]
    )


def _isotropic_spectrum(squared_norms: Tensor, size: int, generator: torch.Generator) -> Tensor:
    count = len(squared_norms)
    if count <= size:
        rows = _sphere(squared_norms, size, generator)
        return torch.linalg.eigvalsh(rows @ rows.T / count)
    moment = SecondMoment(size, device=squared_norms.device)
    for start in range(0, count, 1024):
        moment.add(_sphere(squared_norms[start : start + 1024], size, generator))
    return torch.linalg.eigvalsh(moment.matrix())


def _sphere(squared_norms: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Rows with these squared norms in uniformly random directions; drawn on the CPU, the same for every device."""
    rows = torch.randn(
        len(squared_norms), size, generator=generator, device="cpu", dtype=torch.float64
    )
    rows = rows.to(squared_norms.device, squared_norms.dtype)
    return rows * (squared_norms.sqrt() / rows.norm(dim=1))[:, None]
