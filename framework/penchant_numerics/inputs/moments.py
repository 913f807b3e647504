"""Streaming moments, and the spectrum of a second moment.

Moments are accumulated in double precision, merged across shards, and never need the samples again.
"""

import math
from collections.abc import Mapping

import torch
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.roles import Directions
from torch import Tensor

# inputs up to which a moment is stored in groups: eight matrices of this size are 256 MiB
_LARGEST_GROUPED = 2048
_BLOCK = 32  # vectors that are added to a group at once
_SIMULATED = 1024  # vectors of the null that are sampled at once


class SecondMoment:
    r"""The sum of $g g^\top$ over vectors $g$, with the sums for centring and standard errors.

    Up to rounding, the result does not depend on how the vectors were split; merging in a fixed
    order makes it bit-identical.

    Args:
        size: The length of a vector.
        device: Where the sum is.

    >>> moment = SecondMoment(2, device="cpu")
    >>> moment.add(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> moment.matrix().tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """

    def __init__(self, size: int, *, device: torch.device | str) -> None:
        device = torch.device(device)
        dtype = accumulation_dtype(device)
        self.count = 0
        self.squared_norms: list[Tensor] = []
        # sums of g g^T and of g
        self.outer = torch.zeros(size, size, device=device, dtype=dtype)
        self.total = torch.zeros(size, device=device, dtype=dtype)

    def add(self, vectors: Tensor) -> None:
        """Add rows (vectors, size); their squared norms are stored, the rows are not."""
        rows = vectors.detach().to(self.outer.dtype)
        self.outer.addmm_(rows.T, rows)
        self.total += rows.sum(0)
        norms = rows.square().sum(1)
        self.squared_norms.append(norms)
        self.count += len(norms)

    def arrays(self) -> dict[str, Tensor]:
        """What a shard returns: the smallest thing that merges."""
        return {"outer": self.outer, "total": self.total, "squared-norms": self.norms()}

    def merge(self, arrays: Mapping[str, object]) -> None:
        """Add what another moment's `arrays()` gave."""
        # shards return what they have on the host
        device = self.outer.device
        norms = torch.as_tensor(arrays["squared-norms"], device=device)
        self.outer += torch.as_tensor(arrays["outer"], device=device)
        self.total += torch.as_tensor(arrays["total"], device=device)
        self.squared_norms.append(norms)
        self.count += len(norms)

    def norms(self) -> Tensor:
        """Squared norms of all vectors, in the order they were added."""
        if not self.squared_norms:
            return self.total.new_zeros(0)
        return torch.cat(self.squared_norms)

    def mean(self) -> Tensor:
        """The mean vector, (size,)."""
        return self.total / self.count

    def matrix(self, *, centred: bool = False) -> Tensor:
        r"""The second moment, $\frac{1}{T} \sum_t g_t g_t^\top$.

        Args:
            centred: Whether it is around the mean: the covariance, with 1/T as well.
        """
        moment = self.outer / self.count
        if centred:
            mean = self.mean()
            moment = moment - torch.outer(mean, mean)
        return (moment + moment.T) / 2


class GroupedMoment:
    """A second moment in a few groups of equal size, for the jackknife.

    Vector t goes to group t mod groups: groups of unequal size would be taken for spread, because a
    spectrum depends on the number of vectors. A group is a matrix, so large inputs have one group
    only and no jackknife.

    Args:
        size: The length of a vector.
        device: Where the sums are.
        groups: Number of groups.

    >>> groups = GroupedMoment(2, device="cpu", groups=2)
    >>> groups.add(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 2.0]], device="cpu"))
    >>> groups.whole().matrix(centred=False).diagonal().tolist()
    [2.5, 2.0]
    >>> groups.left_out(centred=False, rank=2).tolist()  # without vectors 0 and 2, then 1 and 3
    [[4.0, 0.0], [5.0, 0.0]]
    """

    def __init__(self, size: int, *, device: torch.device | str, groups: int = 8) -> None:
        # a group of a large moment would be a large matrix
        if size > _LARGEST_GROUPED:
            groups = 1
        # each with the rows that wait to be added
        self.groups = []
        self._waiting: list[list[Tensor]] = []
        for _ in range(groups):
            self.groups.append(SecondMoment(size, device=device))
            self._waiting.append([])
        self._seen = 0

    def add(self, vectors: Tensor) -> None:
        """Add rows (vectors, size) to the groups in turn.

        Each group takes them in blocks, because its matrix is large.
        """
        groups = len(self.groups)
        # every group waits until it has a block
        for number, waiting in enumerate(self._waiting):
            # vectors are counted from the first that was ever added
            first = (number - self._seen) % groups
            rows = vectors[first::groups]
            if len(rows):
                waiting.append(rows.detach().clone())
            held = sum(map(len, waiting))
            if held >= _BLOCK:
                self._flush(number)
        self._seen += len(vectors)

    def _flush(self, number: int) -> None:
        waiting = self._waiting[number]
        if not waiting:
            return
        self.groups[number].add(torch.cat(waiting))
        self._waiting[number] = []

    def whole(self, *, without: int | None = None) -> SecondMoment:
        """All groups together, or all but one.

        Args:
            without: The group to leave out.
        """
        # what waits counts too
        for number in range(len(self.groups)):
            self._flush(number)

        # merged in the order of groups, so that sums round in one way
        first = self.groups[0]
        total = SecondMoment(len(first.total), device=first.total.device)
        for number, group in enumerate(self.groups):
            if number != without and group.count:
                total.merge(group.arrays())
        return total

    def left_out(self, *, centred: bool, rank: int) -> Tensor | None:
        """Eigenvalues with one group left out at a time.

        Args:
            centred: Whether the moment is around the mean.
            rank: How many eigenvalues.

        Returns:
            Eigenvalues (groups, rank), descending; None with fewer than two groups.
        """
        filled = [number for number, group in enumerate(self.groups) if group.count]
        if len(filled) < 2:
            return None
        spectra = []
        for number in filled:
            rest = self.whole(without=number).matrix(centred=centred)
            values = torch.linalg.eigvalsh(rest)
            spectra.append(values.flip(0)[:rank])
        return torch.stack(spectra)


def directions_of(
    groups: GroupedMoment, *, centred: bool = False, conventions: Mapping[str, str] | None = None
) -> Directions:
    """Eigenvectors of a streamed moment of one vector per network.

    Only as many of them as there are networks mean anything, so no more are given.

    Args:
        groups: The moment.
        centred: Whether it is taken around the mean.
        conventions: What makes the numbers incomparable with others, by name.

    Returns:
        Pairs, trace and jackknife; the standard error of the trace is over networks.

    >>> groups = GroupedMoment(2, device="cpu", groups=2)
    >>> groups.add(torch.tensor([[3.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 2.0]], device="cpu"))
    >>> directions = directions_of(groups)
    >>> directions.eigenvalues.tolist(), directions.trace, directions.networks
    ([4.5, 2.0], 6.5, 4)
    """
    moment = groups.whole()
    matrix = moment.matrix(centred=centred)
    eigenvalues, vectors = descending_eigh(matrix)
    rank = min(moment.count - int(centred), len(matrix))
    norms = moment.norms()
    stderr = norms.std() / math.sqrt(moment.count)
    # how much the spectrum moves without a group
    spectra = groups.left_out(centred=centred, rank=rank)
    return Directions(
        eigenvalues[:rank],
        vectors[:rank],
        trace=float(matrix.trace()),
        trace_stderr=float(stderr),
        networks=moment.count,
        matrix=matrix,
        squared_norms=norms,
        jackknife=spectra,
        conventions=dict(conventions or {}),
    )


def effective_rank(eigenvalues: Tensor) -> float:
    """The exponential of the entropy of the normalised positive eigenvalues.

    It lies between 1 and their number.

    >>> round(effective_rank(torch.tensor([1.0, 1.0, 0.0], device="cpu")), 6)
    2.0
    """
    positive = eigenvalues[eigenvalues > 0]
    shares = positive / positive.sum()
    terms = shares * shares.log()
    entropy = -terms.sum()
    return float(torch.exp(entropy))


def isotropic_spectra(
    squared_norms: Tensor, size: int, *, generator: torch.Generator, draws: int = 4
) -> Tensor:
    r"""Spectra of isotropic architectures with these gradient norms.

    Simulates $\frac{1}{T} \sum_t |g_t|^2 u_t u_t^\top$ with $u_t$ uniform on the sphere. Plain
    Marchenko-Pastur edges are right only if norms hardly vary. With fewer networks than inputs
    these are the T eigenvalues of the Gram matrix: the others are zero.

    Args:
        squared_norms: |g_t|^2, (networks,).
        size: The length of a gradient.
        generator: A generator on the CPU.
        draws: How many spectra.

    Returns:
        Spectra (draws, k), descending.

    >>> norms = torch.ones(400, device="cpu", dtype=torch.float64)
    >>> spectra = isotropic_spectra(norms, 4, generator=torch.Generator("cpu").manual_seed(0))
    >>> spectra.shape, round(float(spectra.sum()) / len(spectra), 6)  # |g|^2 is 1
    (torch.Size([4, 4]), 1.0)
    """
    spectra = []
    for _ in range(draws):
        ascending = _isotropic_spectrum(squared_norms, size, generator)
        spectra.append(ascending.flip(0))
    return torch.stack(spectra)


def _isotropic_spectrum(squared_norms: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """One spectrum, ascending: of the smaller of Gram matrix and moment."""
    count = len(squared_norms)
    # the Gram matrix, where it is the smaller
    if count <= size:
        rows = _sphere(squared_norms, size, generator)
        gram = rows @ rows.T / count
        values: Tensor = torch.linalg.eigvalsh(gram)
        return values

    # more networks than inputs: in chunks, which need not be stored
    moment = SecondMoment(size, device=squared_norms.device)
    for norms in squared_norms.split(_SIMULATED):
        moment.add(_sphere(norms, size, generator))
    spectrum: Tensor = torch.linalg.eigvalsh(moment.matrix())
    return spectrum


def _sphere(squared_norms: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Rows with these squared norms in uniformly random directions.

    Drawn on the CPU, so that they are the same for every device.
    """
    sampled = torch.randn(
        len(squared_norms), size, generator=generator, device="cpu", dtype=torch.float64
    )
    rows = sampled.to(squared_norms.device, squared_norms.dtype)
    scales = squared_norms.sqrt() / rows.norm(dim=1)
    scaled: Tensor = rows * scales[:, None]
    return scaled
