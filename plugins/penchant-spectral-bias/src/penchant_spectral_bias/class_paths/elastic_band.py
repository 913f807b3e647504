"""Paths of constant prediction: an elastic band without springs between two inputs.

Pivots of a straight path climb the logit of one class, each across the path only, and are spread
evenly again after every step; then the path is refined with new pivots half-way.

Reference: Kolsbjerg et al. 2016; Draxler et al., ICML 2018.
"""

from typing import NamedTuple

import torch
from penchant_numerics.training import outputs
from torch import Tensor, nn

CHUNK = 512
_TINY = 1e-12


class Paths(NamedTuple):
    """Paths between pairs of inputs, as straight pieces between pivots."""

    pivots: Tensor  # (paths, pivots, D)
    connected: Tensor  # (paths,): every evaluated point has the class
    certainty: Tensor  # (paths,): the smallest softmax probability of the class on the path
    length: Tensor  # (paths,): over that of the straight line


def bend(
    network: nn.Module,
    starts: Tensor,
    ends: Tensor,
    label: int,
    *,
    refinements: int,
    bends: int,
    learning_rate: float,
    momentum: float,
    pivots: int,
    resolution: int,
) -> Paths:
    """Paths between inputs of one class, bent until they keep that class.

    Args:
        network: The classifier.
        starts: One end of every path, (paths, *shape).
        ends: The other, (paths, *shape).
        label: The class.
        refinements: Times the path is bent; its pieces double in between. 0: it stays straight.
        bends: Steps a refinement.
        learning_rate: Of a step along the logit's gradient.
        momentum: Of the steps.
        pivots: Inner pivots to begin with.
        resolution: Points evaluated on every piece, which all must have the class.
    """
    shape = starts.shape[1:]
    path = _straight(starts.flatten(1), ends.flatten(1), pivots)
    for number in range(refinements):
        if number:
            path = _doubled(path)
        velocity = torch.zeros_like(path[:, 1:-1])
        for _ in range(bends):
            uphill = _climb(network, path[:, 1:-1], shape, label)
            velocity = momentum * velocity + _across(path, uphill)
            inner = path[:, 1:-1] + learning_rate * velocity
            # ends stay where they are
            bent = torch.cat([path[:, :1], inner, path[:, -1:]], dim=1)
            path = _spread(bent)
    return _losses_along(network, path, shape, label, resolution)


def straight_lines(
    network: nn.Module, starts: Tensor, ends: Tensor, label: int, *, points: int
) -> Paths:
    """The straight lines between inputs, evaluated at evenly spaced points."""
    shape = starts.shape[1:]
    path = _straight(starts.flatten(1), ends.flatten(1), points - 1)
    return _losses_along(network, path, shape, label, 1)


def _losses_along(
    network: nn.Module, path: Tensor, shape: torch.Size, label: int, resolution: int
) -> Paths:
    points = dense(path, resolution)
    keeps, certainty = classified(network, points, shape, label)
    # how much longer than the straight line
    pieces = path.diff(dim=1).norm(dim=2)
    straight = (path[:, -1] - path[:, 0]).norm(dim=1)
    ratio = pieces.sum(1) / straight.clamp(min=_TINY)
    return Paths(pivots=path, connected=keeps.all(1), certainty=certainty.amin(1), length=ratio)


def _straight(starts: Tensor, ends: Tensor, pivots: int) -> Tensor:
    """Evenly spaced pivots on straight lines, both ends included."""
    shares = torch.linspace(0, 1, pivots + 2, device=starts.device, dtype=starts.dtype)
    share = shares[:, None]
    # (paths, pivots, D)
    of_start = starts[:, None] * (1 - share)
    of_end = ends[:, None] * share
    pivots_on_lines: Tensor = of_start + of_end
    return pivots_on_lines


def _climb(network: nn.Module, points: Tensor, shape: torch.Size, label: int) -> Tensor:
    """Gradient of the class's logit at points (paths, pivots, D)."""
    if not points.numel():
        return torch.zeros_like(points)
    inputs = points.reshape(-1, *shape)
    gradients = []
    for chunk in inputs.split(CHUNK):
        leaf = chunk.detach().requires_grad_()
        with torch.enable_grad():
            logits = network(leaf)[:, label]
            # a logit depends on its own input only
            (gradient,) = torch.autograd.grad(logits.sum(), leaf)
        gradients.append(gradient)
    return torch.cat(gradients).reshape(points.shape)


def _across(path: Tensor, force: Tensor) -> Tensor:
    """The component of a force across the path: along it, pivots would only slide."""
    # from the pivot before to the pivot after
    between = path[:, 2:] - path[:, :-2]
    lengths = between.norm(dim=2, keepdim=True)
    tangent = between / lengths.clamp(min=_TINY)
    along = (force * tangent).sum(2, keepdim=True)
    across: Tensor = force - along * tangent
    return across


def _spread(path: Tensor) -> Tensor:
    """The same path with its pivots evenly spaced along it: this is what replaces springs."""
    count = path.shape[1]
    # how far along the path each pivot is, and should be, (paths, pivots)
    pieces = path.diff(dim=1).norm(dim=2)
    # a product with ones above the diagonal: `cumsum` has no deterministic kernel on CUDA
    before = torch.ones(count - 1, count, device=path.device, dtype=path.dtype).triu(1)
    at = pieces @ before
    evenly = torch.linspace(0, 1, count, device=path.device, dtype=path.dtype)
    targets = at[:, -1:] * evenly

    # the piece on which that is, and how far along the piece
    position = torch.searchsorted(at.contiguous(), targets.contiguous(), right=True)
    piece = (position - 1).clamp(0, count - 2)
    rest = targets - at.gather(1, piece)
    length = pieces.gather(1, piece).clamp(min=_TINY)
    share = (rest / length)[..., None]

    # between the pivots at both ends of that piece
    index = piece[..., None].expand(-1, -1, path.shape[2])
    first = path.gather(1, index)
    second = path.gather(1, index + 1)
    moved = first + share * (second - first)
    # ends stay exactly where they are
    return torch.cat([path[:, :1], moved[:, 1:-1], path[:, -1:]], dim=1)


def _doubled(path: Tensor) -> Tensor:
    """The same path with a new pivot half-way on every piece."""
    before = path[:, :-1]
    middle = (path[:, 1:] + before) / 2
    # each pivot with the middle behind it
    pairs = torch.stack([before, middle], dim=2)
    in_turn = pairs.flatten(1, 2)
    return torch.cat([in_turn, path[:, -1:]], dim=1)


def dense(path: Tensor, resolution: int) -> Tensor:
    """All pivots and `resolution` - 1 points between neighbours, (paths, points, D)."""
    numbers = torch.arange(resolution, device=path.device, dtype=path.dtype)
    share = numbers[:, None] / resolution
    # (paths, pieces, points of a piece, D)
    of_first = path[:, :-1, None] * (1 - share)
    of_second = path[:, 1:, None] * share
    points = (of_first + of_second).flatten(1, 2)

    # the last pivot begins no piece
    return torch.cat([points, path[:, -1:]], dim=1)


@torch.no_grad()
def classified(
    network: nn.Module, points: Tensor, shape: torch.Size | tuple[int, ...], label: int
) -> tuple[Tensor, Tensor]:
    """Does the network give points this class, and with which softmax probability?

    Args:
        network: The classifier.
        points: Points (paths, points, D).
        shape: The shape of an input.
        label: The class.

    Returns:
        Truth and probability, both (paths, points).
    """
    rows = points.shape[:2]
    # a class without pairs: not every network takes no sample at all
    if not points.numel():
        return points.new_ones(rows, dtype=torch.bool), points.new_ones(rows)
    inputs = points.reshape(-1, *shape)
    logits = outputs(network, inputs, chunk=CHUNK)
    keeps = logits.argmax(1) == label
    probability = logits.softmax(1)[:, label]
    # one row per path again
    return keeps.reshape(rows), probability.reshape(rows)


def adversarial(
    network: nn.Module,
    inputs: Tensor,
    label: int,
    *,
    step: float,
    steps: int,
    certainty: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Inputs moved until the network gives them a class, and which of them got there.

    Args:
        network: The classifier.
        inputs: Inputs of other classes, (samples, *shape).
        label: The class.
        step: Length of a step along the gradient of the class's log probability.
        steps: Largest number of steps.
        certainty: Softmax probability of the class at which an input stops.
    """
    moved = inputs.clone()
    for _ in range(steps):
        leaf = moved.detach().requires_grad_()
        with torch.enable_grad():
            logits = network(leaf)
            targets = logits.log_softmax(1)[:, label]
            gradient = torch.autograd.grad(targets.sum(), leaf)[0]
        done = _is_sure(logits, label, certainty)
        if bool(done.all()):
            break

        # a step of the same length for all that are not there yet
        size = gradient.flatten(1).norm(dim=1).clamp(min=1e-20)
        length = torch.where(done, 0.0, step / size)
        ones = [1] * (inputs.ndim - 1)
        moved = moved + length.reshape(-1, *ones) * gradient
    with torch.no_grad():
        done = _is_sure(network(moved), label, certainty)
    return moved, done


def _is_sure(logits: Tensor, label: int, certainty: float) -> Tensor:
    """Whether each input has the class, with at least this probability."""
    probability = logits.softmax(1)[:, label]
    has_class = logits.argmax(1) == label
    return has_class & (probability >= certainty)
