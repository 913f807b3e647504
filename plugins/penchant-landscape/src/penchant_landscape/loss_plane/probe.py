"""The probe `loss-plane`: loss and accuracy along lines and planes.

Directions in the space of parameters, as flat vectors.

Reference: Li, Xu, Taylor, Studer, Goldstein, Visualizing the loss landscape of neural nets,
NeurIPS 2018, section 4.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.curvature import Hessian
from penchant_numerics.data import IGNORED
from penchant_numerics.device import safe
from penchant_numerics.jacobians import Layout, Modules
from penchant_numerics.linear_algebra import Eigenpairs, leading_pairs
from penchant_numerics.statistics import Repetitions, null_of
from torch import Tensor, nn

from penchant_landscape.declarations.loss_plane import LossPlane
from penchant_landscape.declarations.recipes import USUAL_SAMPLES
from penchant_landscape.loss_plane.planes_by_module import Around, tables_by_module
from penchant_landscape.shared.line_losses import Landscape, Measured, Quadratic, quadratic_model
from penchant_landscape.shared.network_energy import first_samples, training_loss

Quantities = dict[str, penchant.Quantity]
Tables = dict[str, penchant.Table]
Axes = Mapping[str, Any]  # name of each axis to its coordinates
# arrays of coordinates: the table and its axis
COORDINATES = {
    "path-steps": ("path-loss", "step"),
    "path-positions": ("path-loss", "position"),
    "random-positions": ("random-loss", "distance"),
    "eigenvector-positions": ("eigenvector-loss", "length"),
    "plane-positions": ("random-plane-loss", "first-position"),
}
GROUPS = 10  # groups of samples that are left out for the error of an eigenvector's rise
_SMALL = 0.05  # share of a line at which losses of single samples give their curvature


class State(NamedTuple):
    """A checkpoint: its step, its parameters as one row, its statistics."""

    step: int
    row: Tensor
    buffers: dict[str, Tensor]


class Centre(NamedTuple):
    """What is known at the last network."""

    landscape: Landscape
    losses: Tensor  # (n,)
    gradient: Tensor
    H: Hessian


def run(options: LossPlane, context: penchant.Context) -> penchant.Result:
    """Measure paths to the end of the training, and lines and planes around it."""
    _check(options)
    modules = Modules.of_option(options.parameters, context.network)
    states, network = _states(context)
    samples = first_samples(
        getattr(context.data, options.split), options.samples, usual=USUAL_SAMPLES
    )
    network = safe(network, batch_norm=options.batch_norm, calibration=context.data.train.inputs)
    landscape = Landscape(
        network,
        samples,
        loss=training_loss(context),
        batch_norm=options.batch_norm,
        calibration=context.data.train.inputs,
    )
    here = landscape.measure([landscape.centre]).losses[0]
    centre = Centre(landscape, here, landscape.gradient(), landscape.hessian())

    quantities: Quantities = {}
    tables: Tables = {}
    if len(states) > 1:
        _add_paths(quantities, tables, states, centre, options, context.generator("halves"))
    else:
        context.warn("no path: one checkpoint only, expected at least two")
    pairs = _eigenvectors(centre, context)
    random = _random_directions(centre, context)
    _add_lines(quantities, tables, pairs, random, centre, options)
    rise = quantities["eigenvector-rise"]
    quantities["eigenvector-rise"] = _with_jackknife(rise, centre, context)
    if options.plane_points:
        _add_planes(tables, pairs, random, centre, options)
    quantities["loss"] = _loss(here, landscape)
    unit = samples.kind.units
    quantities = {
        name: attrs.evolve(each, over=each.over.replace("samples", unit))
        for name, each in quantities.items()
    }
    if modules is not None:
        first = states[0].row if len(states) > 1 else None
        around = Around(landscape, here, centre.H, random, first)
        tables |= tables_by_module(around, modules.coordinates(network), options, context, unit)
    arrays = {
        name: tables[table].coordinates(axis)
        for name, (table, axis) in COORDINATES.items()
        if table in tables
    }
    if len(states) > 1:
        arrays["steps"] = np.array([state.step for state in states])
    conventions = _conventions(options, len(here))
    result = penchant.Result(quantities, arrays, tables=tables, conventions=conventions)
    # a module may have no random directions
    by_module = {name: each for name, each in result.arrays.items() if "-by-module" in name}
    missing = [name for name, each in by_module.items() if not np.isfinite(each).all()]
    return attrs.evolve(result, missing=missing)


def _check(options: LossPlane) -> None:
    """Refuse grids without a middle."""
    for name in ("grid_points", "plane_points"):
        count = getattr(options, name)
        if count and count % 2 == 0:
            raise penchant.Error(f"{name} must be odd, found {count}")


def _states(context: penchant.Context[LossPlane]) -> tuple[list[State], nn.Module]:
    """Checkpoints, and the last network."""
    steps = context.options.eval_steps
    # All states of a user's own training.
    if steps is None and context.network_kind == "trajectory":
        steps = context.steps
    elif steps is None:
        training = context.training
        assert training is not None
        total = training.total_steps(len(context.data.train.labels))
        steps = (0, total)
    states = []
    network = None
    for step, each in context.trained(steps):
        network = each
        parameters = [value.detach().flatten() for value in each.parameters()]
        buffers = {name: value.detach().clone() for name, value in each.named_buffers()}
        states.append(State(step, torch.cat(parameters), buffers))
    assert network is not None
    return states, network


# ---- paths


def _add_paths(
    quantities: Quantities,
    tables: Tables,
    states: list[State],
    centre: Centre,
    options: LossPlane,
    generator: torch.Generator,
) -> None:
    """Straight paths from every checkpoint to the last."""
    positions = torch.linspace(0, 1, options.grid_points, device="cpu", dtype=torch.float64)
    last = states[-1]
    paths = []
    for first in states[:-1]:
        points = (torch.lerp(first.row, last.row, float(share)) for share in positions)
        buffers = None
        if options.batch_norm == "running":
            buffers = (_between(first.buffers, last.buffers, float(share)) for share in positions)
        paths.append(centre.landscape.measure(points, buffers))

    rows = torch.stack([first.row - last.row for first in states[:-1]])
    model = quadratic_model(float(centre.losses.mean()), centre.gradient, centre.H, rows)
    excess = torch.stack([_excess(path.losses, positions) for path in paths])
    axes = {"step": [state.step for state in states[:-1]], "position": positions}
    over = _over(centre)
    tables |= _curves("path", paths, model.at(1 - positions), axes, over)
    tables["path-excess"] = _mean(excess, axes, {**over, "over": f"{over['over']}, paired"})
    quantities |= _barrier(paths[0], positions, generator)


def _between(first: dict[str, Tensor], last: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Statistics between two checkpoints; counters are the last one's."""
    values = {}
    for name, value in last.items():
        values[name] = value
        if value.is_floating_point():
            values[name] = torch.lerp(first[name], value, share)
    return values


def _excess(values: Tensor, positions: Tensor) -> Tensor:
    """Values (points, n) less those on the straight line between the ends."""
    shares = positions[:, None]
    return values - (1 - shares) * values[0] - shares * values[-1]


def _barrier(path: Measured, positions: Tensor, generator: torch.Generator) -> Quantities:
    """The largest excess between the ends, and the drop of accuracy there.

    The point of the largest excess is chosen on one random half of the samples and measured on the
    other, so that noise is not taken for a barrier.
    """
    excess = _excess(path.losses, positions)
    drops = -_excess(path.right, positions)
    count = excess.shape[1]
    order = torch.randperm(count, generator=generator, device="cpu")
    chosen_on, measured_on = order[: count // 2], order[count // 2 :]
    highest = 1 + int(excess[1:-1, chosen_on].mean(1).argmax())
    return {
        "barrier": _paired(excess[highest, measured_on], null=0.0),
        "accuracy-drop": _paired(drops[highest, measured_on], null=0.0),
    }


def _paired(
    values: Tensor,
    *,
    null: float | None,
    null_spread: float | None = None,
    null_stderr: float | None = None,
    p: float | None = None,
) -> penchant.Quantity:
    """The mean of differences (n,) of samples."""
    return penchant.Quantity(
        float(values.mean()),
        stderr=float(_stderr(values)),
        over="samples, paired",
        count=len(values),
        df=len(values) - 1,
        null=null,
        null_spread=null_spread,
        null_stderr=null_stderr,
        p=p,
    )


# ---- lines


def _eigenvectors(centre: Centre, context: penchant.Context[LossPlane]) -> Eigenpairs:
    """Leading eigenvectors of the Hessian; those that did not converge are named."""
    pairs = leading_pairs(
        centre.H, context.options.eigenvectors, generator=context.generator("eigenvectors")
    )
    wrong = int((~pairs.converged).sum())
    if wrong:
        context.warn(f"{wrong} of {len(pairs.values)} eigenvectors did not converge")
    return pairs


def _random_directions(centre: Centre, context: penchant.Context[LossPlane]) -> Tensor:
    """Random directions (k, parameters), each `distance` filter norms long."""
    options = context.options
    rows = filter_normalised(
        centre.landscape.parameters,
        options.random_directions,
        generator=context.generator("directions"),
    )
    if not rows.any():
        raise penchant.Error(
            "all filters of the network are zero: random directions with the norms of its filters "
            "have no length; expected a network with weights"
        )
    return options.distance * rows


def _lines(centre: Centre, directions: Tensor, positions: Tensor) -> list[Measured]:
    """Losses along directions, at positions in units of each."""
    landscape = centre.landscape
    lines = []
    for direction in directions:
        points = (landscape.centre + float(position) * direction for position in positions)
        lines.append(landscape.measure(points))
    return lines


def _add_lines(
    quantities: Quantities,
    tables: Tables,
    pairs: Eigenpairs,
    random: Tensor,
    centre: Centre,
    options: LossPlane,
) -> None:
    """Lines along eigenvectors and random directions."""
    positions = torch.linspace(-1, 1, options.grid_points, device="cpu", dtype=torch.float64)
    along = _scaled_eigenvectors(pairs, options)
    here = float(centre.losses.mean())
    directions = {
        "random": ("direction", random, "distance", options.distance * positions),
        "eigenvector": ("eigenvector", along, "length", positions),
    }
    for name, (axis, rows, unit, distances) in directions.items():
        lines = _lines(centre, rows, positions)
        model = quadratic_model(here, centre.gradient, centre.H, rows)
        axes = {axis: range(len(rows)), unit: distances}
        tables |= _curves(name, lines, model.at(positions), axes, _over(centre))
        if name == "random":
            values = tables["random-loss"].values[:, [0, -1]].mean(1) - here
            quantities["random-rise"] = penchant.Quantity.of(values, over="random directions")
        else:
            quantities |= _rises(lines[0], model, along[0], random, centre)
    axes = {"eigenvector": range(len(along))}
    tables["eigenvector-lengths"] = penchant.Table(along.norm(dim=1).double(), axes)
    tables["eigenvalues"] = penchant.Table(pairs.values, axes)


def _scaled_eigenvectors(pairs: Eigenpairs, options: LossPlane) -> Tensor:
    """Eigenvectors as rows, as long as a rise of `rise` takes in the quadratic model."""
    sizes = pairs.values.abs()
    if float(sizes.min()) <= 0:
        raise penchant.Error("an eigenvalue of the Hessian is 0, expected one that differs from 0")
    lengths = (2 * options.rise / sizes).sqrt()
    rows = pairs.vectors.T
    return rows * lengths[:, None].to(rows)


def _rises(
    line: Measured, model: Quadratic, direction: Tensor, random: Tensor, centre: Centre
) -> Quantities:
    """The rise along the first eigenvector, against random directions and the quadratic model."""
    ends = line.losses[[0, -1]].mean(0) - centre.losses
    # random directions of the same length
    length = direction.norm()
    others = random * (length / random.norm(dim=1, keepdim=True))
    landscape, losses = centre.landscape, centre.losses
    draws = [float(_rise(landscape, losses, each).mean()) for each in others]

    # what samples add to the curvature, for the errors of what is divided by it
    small = _rise(landscape, losses, _SMALL * direction) * 2 / _SMALL**2
    half = _rise(landscape, losses, direction / 2)
    ratio = float(half.mean()) / (float(model.curvatures[0]) / 8)
    influences = ratio * (1 + half / half.mean() - small / small.mean())
    curvatures = small / float(length) ** 2
    units = random / random.norm(dim=1, keepdim=True)
    sharpness = float(model.curvatures[0]) / float(length) ** 2
    steepness = centre.H.quadratic(units).cpu().tolist()
    return {
        "eigenvector-rise": _paired(ends, **null_of(draws, value=float(ends.mean()))),
        "quadratic-ratio": attrs.evolve(_paired(influences, null=1.0), value=ratio),
        "sharpness": attrs.evolve(
            _paired(curvatures, **null_of(steepness, value=sharpness)),
            value=sharpness,
            over="samples",
        ),
    }


def _with_jackknife(
    rise: penchant.Quantity, centre: Centre, context: penchant.Context[LossPlane]
) -> penchant.Quantity:
    """The rise with an error that knows that direction and length are found on the same samples.

    Both are found again without each group of samples, and the rise is measured on the others.
    """
    count = len(centre.losses)
    order = torch.randperm(count, generator=context.generator("groups"), device="cpu")
    groups = order.tensor_split(min(GROUPS, count))
    rises = []
    for number in range(len(groups)):
        others = torch.cat([group for other, group in enumerate(groups) if other != number])
        landscape = centre.landscape.on(others)
        pairs = leading_pairs(
            landscape.hessian(), 1, generator=context.generator("eigenvectors", number)
        )
        direction = _scaled_eigenvectors(pairs, context.options)[0]
        losses = centre.losses[others]
        # without the others a sequence contributes otherwise
        if landscape.samples.kind.by_position:
            losses = landscape.measure([landscape.centre]).losses[0]
        rises.append(float(_rise(landscape, losses, direction).mean()))
    spread = torch.tensor(rises, device="cpu", dtype=torch.float64).var(correction=0)
    return attrs.evolve(
        rise,
        stderr=math.sqrt((len(groups) - 1) * float(spread)),
        over="samples, groups left out",
        count=len(groups),
        df=len(groups) - 1,
    )


def _rise(landscape: Landscape, losses: Tensor, direction: Tensor) -> Tensor:
    """The mean rise (n,) of samples at both ends of a line, above losses (n,) at its middle."""
    ends = landscape.measure(landscape.centre + sign * direction for sign in (-1, 1))
    return ends.losses.mean(0) - losses


# ---- planes


def _add_planes(
    tables: Tables, pairs: Eigenpairs, random: Tensor, centre: Centre, options: LossPlane
) -> None:
    """Planes of the first two random directions, and of the first two eigenvectors."""
    positions = torch.linspace(-1, 1, options.plane_points, device="cpu", dtype=torch.float64)
    planes = {"random": random[:2]}
    if len(pairs.values) > 1:
        planes["eigenvector"] = _scaled_eigenvectors(pairs, options)[:2]
    axes = {"second-position": positions, "first-position": positions}
    shape = 2 * [options.plane_points]
    for name, (first, second) in planes.items():
        points = _grid(centre.landscape.centre, first, second, positions)
        losses = centre.landscape.measure(points)
        values = {"loss": losses.losses, "accuracy": losses.right}
        for what, each in values.items():
            tables[f"{name}-plane-{what}"] = penchant.Table(each.mean(1).reshape(shape), axes)


def _grid(centre: Tensor, first: Tensor, second: Tensor, positions: Tensor) -> Iterator[Tensor]:
    """Points of a plane: rows along the second direction, columns along the first."""
    for up in positions.tolist():
        for right in positions.tolist():
            yield centre + right * first + up * second


# ---- numbers


def _curves(
    name: str, lines: list[Measured], model: Tensor, axes: Axes, over: Repetitions
) -> Tables:
    """Losses and accuracies (lines, points) with their errors, and the quadratic model."""
    right = torch.stack([line.right for line in lines])
    # accuracies of lines have the error of a share
    accuracy = _mean(right, axes, over) if name == "path" else penchant.Table(right.mean(2), axes)
    return {
        f"{name}-loss": _mean(torch.stack([line.losses for line in lines]), axes, over),
        f"{name}-accuracy": accuracy,
        f"{name}-quadratic": penchant.Table(model, axes),
    }


def _mean(values: Tensor, axes: Axes, over: Repetitions) -> penchant.Table:
    """The mean over samples, the last axis."""
    return penchant.Table(values.mean(-1), axes, stderr=_stderr(values), **over)


def _over(centre: Centre) -> Repetitions:
    """What errors over samples are over."""
    return {"over": centre.landscape.samples.kind.units, "count": len(centre.losses)}


def _stderr(values: Tensor) -> Tensor:
    """The standard error of a mean over samples, the last axis."""
    return values.std(-1) / math.sqrt(values.shape[-1])


def _loss(losses: Tensor, landscape: Landscape) -> penchant.Quantity:
    """The loss of the network; null: the best outputs that do not depend on the input."""
    null = None
    if landscape.loss == "cross-entropy":
        labels = landscape.samples.labels.cpu()
        known = labels[labels != IGNORED]
        shares = known.bincount().double() / len(known)
        null = float(torch.special.entr(shares).sum())
    return attrs.evolve(_paired(losses, null=null), over="samples")


def _conventions(options: LossPlane, count: int) -> dict[str, str]:
    statistics = {
        "running": "running statistics, interpolated along paths",
        "batch": "statistics of all samples at every point",
        "calibrated": "statistics of the training inputs, calibrated again at every point",
    }
    return {
        "samples": f"{options.split}, the first {count}",
        "batch-norm": statistics[options.batch_norm],
        "random directions": "Gaussian, every filter with the norm of the network's; biases and "
        "parameters of one axis stay",
        "eigenvectors": f"of the Hessian on these samples; lines end where the quadratic model "
        f"without gradient rises by {options.rise:g}",
        "barrier": "above the straight line between the losses of the ends, points between them",
    }


def filter_normalised(
    parameters: Mapping[str, Tensor], count: int, *, generator: torch.Generator
) -> Tensor:
    """Random Gaussian directions whose filters have the norms of the network's filters.

    A filter is what makes one output: a row of a matrix, a kernel of a convolution. Parameters with
    one axis (biases, scales of a normalisation) stay where they are, as in the paper.

    Args:
        parameters: By name.
        count: How many directions.
        generator: On the CPU.

    Returns:
        Rows (count, parameters).

    >>> weights = {"w": torch.tensor([[3.0, 4.0], [0.0, 1.0]], device="cpu")}
    >>> rows = filter_normalised(weights, 1, generator=torch.Generator("cpu").manual_seed(0))
    >>> [round(float(row.norm()), 5) for row in rows.reshape(2, 2)]
    [5.0, 1.0]
    """
    layout = Layout(parameters)
    made = []
    for value in parameters.values():
        sampled = torch.randn(
            (count, *value.shape), generator=generator, device="cpu", dtype=torch.float64
        ).to(value)
        if value.dim() < 2:
            made.append(torch.zeros_like(sampled))
            continue
        own = value.flatten(1).norm(dim=1)
        lengths = sampled.flatten(2).norm(dim=2)
        factors = own / lengths
        ones = [1] * (value.dim() - 1)
        made.append(sampled * factors.reshape(count, -1, *ones))
    return layout.join(made, leading=1)
