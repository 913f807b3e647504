"""The probe `geometry-training`: how the geometry of trained networks changes, towards what.

How fast a sampled geometry changes, and how far it goes: 1 - Corr of consecutive evaluations.

All evaluations use the same networks, so the errors of consecutive velocities go together: the
error of their sum is the jackknife's over networks, not the root of their squares.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Data, Samples
from penchant_numerics.inputs import (
    Corr,
    corr_of_sampled,
    corr_with_fixed,
    distinct_mean,
    jackknifed,
    rotated,
)
from penchant_numerics.inputs.correlation import cosine
from penchant_numerics.statistics import Repetitions
from penchant_numerics.training import Learner, right_answers, train_and_evaluate, trainings_a_shard
from torch import Tensor, nn

from penchant_gih.declarations.geometry import GeometryTraining
from penchant_gih.shared.geometry import flipped, uncentred
from penchant_gih.shared.gradients import (
    BATCH_NORM,
    probed_gradients,
    probing_law,
    probing_points,
    refuse_statistics_at_zero,
    scalar_outputs,
    stacked,
    tensors_of,
    with_statistics,
)
from penchant_gih.shared.preferred_directions import (
    groups_of,
    independent_groups,
    matrix_of,
    with_matrix,
)
from penchant_gih.shared.projected import Projected, quadratic_forms, squared_products
from penchant_gih.shared.training_steps import chosen_steps, missing_names

DATA = {
    "dataset": "the dataset",
    "geometry": "N(0, G/|G|), random labels",
    "flipped": "N(0, flip(G)/|G|), random labels",
}
TRAININGS_A_SHARD = {"dataset": 1, "geometry": 5, "flipped": 5}
CORRELATIONS = ("corr-s", "corr-gsg")
ACCURACIES = ("train-accuracy", "test-accuracy")


def run(options: GeometryTraining, context: penchant.Context) -> penchant.Result:
    """Measure G, train networks, and compare their geometry at each step with S and G S G.

    A trajectory of the user's is one network: probing inputs are its repetitions.
    """
    followed = context.network_kind == "trajectory"
    if followed and options.data != "dataset":
        raise penchant.Error(
            f"a trajectory was trained on its dataset, found data = {options.data!r}: give it "
            "data = 'dataset' and that dataset"
        )
    narrower = context.scope(outputs=_outputs(options, context))
    # Other networks than the trained ones: G S G would contain the very gradients it is compared
    # with.
    others = narrower.scope(first=options.trainings)
    geometry = independent_groups(others, options.networks)
    shared = {}
    if options.data != "dataset":
        # And others again for the covariance: S must not know the noise of the G it is projected
        # with.
        again = narrower.scope(first=options.trainings + options.networks)
        source = matrix_of(with_matrix(again, options.networks))
        shared["covariance"] = _covariance(source, options.data).to(torch.float32)
    # All trainings have the same data.
    data = training_data(narrower, shared)
    steps = _steps(narrower, data)

    shards = [_probed_states(narrower, data)] if followed else _probed_trainings(narrower, shared)
    # Everything else follows from gradients (steps, networks, inputs, D).
    gradients = _joined_gradients(shards, context.device)
    count = gradients.shape[1]
    repeated: Repetitions = {
        "over": "probing inputs" if followed else "trainings",
        "count": count,
        "df": count - 1,
    }
    S = uncentred(data.train.inputs).to(context.device)
    speeds = velocities(gradients)
    right = _joined_answers(shards, steps)
    correlations = _correlations(gradients, S, Projected(groups_of(geometry), S))
    tables = {
        **{name: each.accuracy() for name, each in right.items()},
        **{name: _correlation(own, steps, repeated) for name, own in correlations.items()},
        "velocity": penchant.Table(
            speeds.values, {"later-step": steps[1:]}, stderr=speeds.errors, **repeated
        ),
    }
    quantities = _quantities(tables, right, data)
    # One step alone has no velocity.
    if speeds.values:
        length, stderr = speeds.path
        quantities["path-length"] = penchant.Quantity(length, stderr=stderr, null=0.0, **repeated)
    result = penchant.Result(
        quantities, {"steps": np.array(steps)}, tables=tables, conventions=_conventions(options)
    )
    missing = missing_names(context, result.arrays, quantities)
    return attrs.evolve(result, missing=missing)


def _outputs(options: GeometryTraining, context: penchant.Context) -> int:
    """Two logits for synthetic data; for a dataset, what its classes need."""
    # Synthetic data has two classes.
    if options.data != "dataset":
        return 2
    if context.data.outputs > 2:
        raise penchant.Error(f"geometry-training needs two classes, found {context.data.outputs}")
    return scalar_outputs(context)


def _steps(context: penchant.Context, data: Data) -> list[int]:
    samples = len(data.train.labels)
    options = context.options
    if context.network_kind == "trajectory":
        return sorted(set(options.eval_steps or context.steps))
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(samples)
    return chosen_steps(options.eval_steps, total, eval_every=options.eval_every)


def _covariance(geometry: Tensor, data: str) -> Tensor:
    """G, or G with its eigenvalues in reverse order, with spectral norm 1."""
    matrix = geometry
    if data == "flipped":
        matrix = flipped(geometry)
    eigenvalues = torch.linalg.eigvalsh(matrix)  # ascending
    largest = eigenvalues[-1]
    scaled: Tensor = matrix / largest
    return scaled


def training_data(context: penchant.Context, shared: Mapping[str, Tensor]) -> Data:
    """The job's dataset, or normal inputs with this covariance and random labels."""
    options = context.options
    if options.data == "dataset":
        return context.data
    return context.dataset(
        "gaussian",
        covariance=shared["covariance"].cpu().numpy(),
        input_shape=list(context.architecture.shape),
        train=options.train,
        test=options.test,
    )


def _probed_trainings(context: penchant.Context, shared: dict[str, Tensor]) -> list[dict[str, Any]]:
    """What the shards of all trainings found."""
    options = context.options
    shard_size = max(TRAININGS_A_SHARD[options.data], trainings_a_shard(context))
    shards = context.map(
        train_and_probe, networks=options.trainings, shard_size=shard_size, shared=shared
    )
    return list(shards)


def _probed_states(context: penchant.Context, data: Data) -> dict[str, Any]:
    """Gradients (steps, inputs, 1, D) and right answers (steps, 1, samples) along a trajectory."""
    points = _points(context, range(1))[0]
    if len(points) < 3:
        raise penchant.Error(
            f"the geometry of one network is over probing inputs, found {len(points)}, expected "
            "at least 3"
        )
    columns: dict[str, list[Tensor]] = {"gradients": [], **{name: [] for name in ACCURACIES}}
    for _, network in context.trained(context.options.eval_steps):
        rows = _gradients(context, network, data, points)
        columns["gradients"].append(rows[:, None])
        for name, samples in zip(ACCURACIES, (data.train, data.test)):
            columns[name].append(_right(network, samples)[None])
    return {name: torch.stack(values).cpu().numpy() for name, values in columns.items()}


def _joined_gradients(shards: list[dict[str, Any]], device: torch.device) -> Tensor:
    """Gradients of all networks, in double precision."""
    columns = []
    for shard in shards:
        gradients = torch.as_tensor(shard["gradients"], device=device)
        columns.append(gradients)
    return torch.cat(columns, 1).to(torch.float64)


def train_and_probe(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """Gradients (steps, networks, inputs, D), right answers (steps, networks, samples)."""
    # Each network is probed at the same inputs all along its training.
    data = training_data(context, context.shared)
    points = _points(context, indices)
    own_points = dict(zip(indices, points))

    def begin(index: int) -> Learner:
        network = context.network(index)
        return Learner(network, data.train, (index,), data.test)

    def evaluate(index: int, learner: Learner) -> dict[str, Tensor]:
        """Gradients (inputs, D), and where the network is right (samples,)."""
        network = learner.network
        return {
            "gradients": _gradients(context, network, data, own_points[index]),
            "train-accuracy": _right(network, data.train),
            "test-accuracy": _right(network, data.test),
        }

    columns = train_and_evaluate(context, indices, begin, evaluate, steps=_steps(context, data))
    # From one list per network to an array per name.
    together = {}
    for name in columns[0][0]:
        by_network = []
        for column in columns:
            by_network.append(torch.stack([entry[name] for entry in column]))
        together[name] = torch.stack(by_network, 1)
    return together


def _points(context: penchant.Context, indices: range) -> Tensor:
    """Probing inputs (networks, inputs, *shape) of the law of G; at zero there is one."""
    law = probing_law(context)
    options = context.options
    if options.batch_norm == "batch":
        refuse_statistics_at_zero(law, "batch")
    inputs = 1 if law.probing == "zero" else options.inputs
    return probing_points(context, indices, inputs=inputs, **law._asdict())


def _right(network: nn.Module, samples: Samples) -> Tensor:
    """On which samples the network, in evaluation mode, is right (samples,)."""
    training = network.training
    network.eval()
    right = right_answers(network, samples)
    network.train(training)
    return right


def _gradients(context: penchant.Context, network: nn.Module, data: Data, points: Tensor) -> Tensor:
    """Gradients (inputs, D) of one network."""
    # A copy that can be differentiated, as a stack of one.
    policy = context.options.batch_norm
    prepared = with_statistics(network, policy, data.train.inputs)
    ensemble = stacked(prepared, [tensors_of(prepared)])
    rows_mix = policy == "batch"
    gradients = probed_gradients(ensemble, points[None], rows_mix=rows_mix)
    return gradients[0]


def _joined_answers(shards: list[dict[str, Any]], steps: list[int]) -> dict[str, penchant.Table]:
    """Right answers (step, training, sample) on training and test samples."""
    answers = {}
    for name in ACCURACIES:
        right = np.concatenate([shard[name] for shard in shards], axis=1)
        _, trainings, samples = right.shape
        axes = {"step": steps, "training": range(trainings), "sample": range(samples)}
        answers[name] = penchant.Table(right, axes)
    return answers


def _correlations(
    gradients: Tensor, S: Tensor, projected: Projected
) -> dict[str, list[tuple[float, ...]]]:
    """Corr(G_t, S) and Corr(G_t, G S G) at each step, with their errors and rotation nulls."""
    # What does not change along training.
    squares = {"corr-s": float(S.square().sum()), "corr-gsg": projected.squared_norm()}
    traces = {"corr-s": float(S.trace()), "corr-gsg": projected.trace}
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in CORRELATIONS}
    for step in gradients:
        # Inner products of all pairs of networks, and what follows from them.
        table = squared_products(step, step).cpu()
        trace = float(step.square().sum(2).mean())
        norm = distinct_mean(table, range(len(table)))
        with_s = quadratic_forms(step, S).cpu()
        with_gsg = projected.forms(step)
        corrs = {
            "corr-s": corr_with_fixed(with_s, table, squares["corr-s"]),
            "corr-gsg": projected.corr(with_gsg, table),
        }
        for name, corr in corrs.items():
            null = rotated(trace, traces[name], norm, squares[name], len(S))
            rows[name].append((*corr, *null))
    return rows


def _correlation(
    rows: list[tuple[float, ...]], steps: list[int], repeated: Repetitions
) -> penchant.Table:
    values, stderr, null, spread = np.array(rows).T
    axes = {"step": steps}
    return penchant.Table(values, axes, stderr=stderr, null=null, null_spread=spread, **repeated)


def _conventions(options: GeometryTraining) -> dict[str, str]:
    return {
        "data": DATA[options.data],
        "S": "sum of x x^T over the training samples, uncentred",
        "corr": "norms and velocities from different networks only: the plain norm of a sampled "
        "G is too large",
        "velocity": "1 - Corr(G_t, G_s) of consecutive steps s < t",
        "trained batch-norm": BATCH_NORM[options.batch_norm],
    }


def _quantities(
    tables: dict[str, penchant.Table], right: dict[str, penchant.Table], data: Data
) -> dict[str, penchant.Quantity]:
    quantities = {f"peak-{name}": _peak(tables[name]) for name in CORRELATIONS}
    # The null is always answering with the most frequent class.
    for name, samples in zip(ACCURACIES, (data.train, data.test)):
        final = right[name].at(step=right[name].axes["step"][-1])
        accuracy = final.mean(("training", "sample"), null=samples.kind.commonest)
        quantities[name] = accuracy.quantity()
    return quantities


def _peak(correlation: penchant.Table) -> penchant.Quantity:
    """The largest Corr over steps; missing where there is none at any step."""
    # With few networks an unbiased norm may be negative, at one step or at all.
    if not np.isfinite(correlation.values).any():
        return penchant.Quantity(math.nan, over=correlation.over, count=correlation.count)
    largest = int(np.nanargmax(correlation.values))
    return correlation.at(step=correlation.axes["step"][largest]).quantity()


class Velocities(NamedTuple):
    """Velocities of a geometry between evaluations, and their sum, with errors over networks."""

    values: list[float]
    errors: list[float]
    path: Corr


def velocities(gradients: Tensor) -> Velocities:
    """Velocities along evaluations, of different networks only.

    Args:
        gradients: (evaluations, networks, inputs, D).
    """
    # norms at each evaluation, products between neighbours
    tables = [squared_products(rows, rows).cpu() for rows in gradients]
    pairs = []
    for before in range(len(gradients) - 1):
        after = before + 1
        cross = squared_products(gradients[after], gradients[before]).cpu()
        pairs.append((cross, tables[after], tables[before]))

    def path(chosen: list[int]) -> float:
        total = 0.0
        for products in pairs:
            means = [distinct_mean(table, chosen) for table in products]
            corr = cosine(*means)
            total += 1 - corr
        return total

    corrs = [corr_of_sampled(*products) for products in pairs]
    values = [1 - corr.value for corr in corrs]
    errors = [corr.stderr for corr in corrs]
    # Leaving out a network changes all evaluations at once.
    networks = gradients.shape[1]
    return Velocities(values, errors, jackknifed(path, networks))
