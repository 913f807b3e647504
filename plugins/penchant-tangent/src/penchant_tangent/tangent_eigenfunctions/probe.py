"""The probe `tangent-eigenfunctions`: what a tangent kernel's leading functions look like.

Lemma 4.1: a gradient step changes outputs by -rate lambda_j (u_j . grad_f L) along u_j.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.curvature import loss_function
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import centre, eigenfunctions, tangent_kernel
from penchant_numerics.linear_algebra import descending_eigh
from torch import Tensor, nn

from penchant_tangent.declarations.eigenfunctions import TangentEigenfunctions
from penchant_tangent.shared.kernel_samples import refuse_one_label, targets_of
from penchant_tangent.shared.kernel_summary import refuse_constant
from penchant_tangent.shared.mean_rank_correlation import mean_rank_correlation

PICTURES = ("eigenvalues", "eigenfunctions", "measured-speeds", "expected-speeds")
ROUNDING = 10  # times double precision, of the largest eigenvalue


class Evaluation(NamedTuple):
    """A network's leading eigenfunctions on the grid."""

    values: Tensor  # (leading,)
    functions: Tensor  # (leading, points)
    share: float


def run(options: TangentEigenfunctions, context: penchant.Context) -> penchant.Result:
    """Follow every training; pictures are of the first."""
    components = int(np.prod(context.data.shape))
    if components > 2:
        raise penchant.Error(
            f"tangent-eigenfunctions needs inputs of one or two components, found {components}"
        )
    refuse_one_label(context.data.train)
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(len(context.data.train.labels))
    if max(options.eval_steps) > total:
        raise penchant.Error(f"eval_steps must be at most {total}, found {max(options.eval_steps)}")
    steps = sorted(set(options.eval_steps))
    points = options.grid_points**components
    inside = {
        "step": steps,
        "index": range(min(options.leading, points)),
        "point": range(points),
        "eigenvector": range(len(context.data.train.labels)),
    }
    followed = context.tables(follow, inside=inside, training=range(options.trainings))

    # pictures are of one training, numbers of all
    tables = {name: followed[name].at(training=0) for name in PICTURES}
    arrays = {"steps": np.array(steps), "grid": grid(context).cpu().reshape(-1, components)}
    quantities = _quantities(followed, context)
    if components == 1:
        functions = tables["eigenfunctions"]
        amplitudes = np.abs(np.fft.rfft(functions.values, axis=-1))
        axes = {axis: functions.axes[axis] for axis in ("step", "index")}
        frequencies = range(amplitudes.shape[-1])
        tables["amplitudes"] = penchant.Table(amplitudes, {**axes, "frequency": frequencies})
    null = "labels in random order: the leading functions hold their share of all n - 1"
    return penchant.Result(
        quantities,
        arrays,
        tables=tables,
        conventions={
            "grid": "equally spaced over the range of the training inputs",
            "output": "one; two classes are -1 and 1",
            "centring": options.centring,
            "label share": f"in the span of the leading functions and no others; {null}",
        },
    )


def grid(context: penchant.Context) -> Tensor:
    """Inputs (points, *shape) on a grid over the range of the training inputs."""
    inputs = context.data.train.inputs
    flat = inputs.flatten(1)
    low, high = float(flat.min()), float(flat.max())
    line = torch.linspace(
        low, high, context.options.grid_points, device=inputs.device, dtype=inputs.dtype
    )
    if flat.shape[1] == 1:
        return line.reshape(-1, *inputs.shape[1:])
    down, across = torch.meshgrid(line, line, indexing="ij")
    points = torch.stack([across.flatten(), down.flatten()], 1)
    return points.reshape(-1, *inputs.shape[1:])


def follow(context: penchant.Context, item: dict[str, int]) -> dict[str, Any]:
    """Everything about one training: pictures, ratios and speeds."""
    options = context.options
    number = item["training"]
    network = context.network(number, outputs=1)
    points = grid(context)
    evaluations = []
    trained = context.train(
        network,
        context.data.train,
        number,
        steps=sorted(set(options.eval_steps)),
        test=context.data.test,
    )
    for _, network in trained:
        evaluations.append(_evaluate(network, points, context))
    # a training that has stopped stays as it is
    while len(evaluations) < len(set(options.eval_steps)):
        evaluations.append(evaluations[-1])

    # lemma 4.1 on the training samples
    speeds = _speeds(network, context)
    values, functions, shares = zip(*evaluations)
    return {
        "eigenvalues": torch.stack(values),
        "eigenfunctions": torch.stack(functions),
        "shares": np.array(shares),
        "measured-speeds": speeds.measured,
        "expected-speeds": speeds.expected,
        "speed-error": speeds.error,
    }


def in_double(network: nn.Module) -> nn.Module:
    """A copy: small steps and centred kernels of deep networks are rounding in single precision."""
    return copy.deepcopy(network).double()


def _evaluate(network: nn.Module, points: Tensor, context: penchant.Context) -> Evaluation:
    """Leading eigenfunctions on the grid, and what they hold of the labels."""
    options = context.options
    train = context.data.train
    points = points.double()
    network = in_double(network)
    K = tangent_kernel(network, points)
    centred = centre(K, outputs=1, centring=options.centring)
    values, rows = descending_eigh(centred)
    refuse_constant(values, K)
    count = min(options.leading, len(values))
    values, rows = values[:count], rows[:count]

    # those that are more than rounding
    known = values > ROUNDING * torch.finfo(values.dtype).eps * values[0]
    if not bool(known.all()):
        context.warn(
            f"the last of {count} leading eigenvalues are below rounding: set a smaller `leading`"
        )

    # the same functions at the training samples
    beside = tangent_kernel(network, train.inputs.double(), other=points)
    beside = centre(beside, outputs=1, centring=options.centring, reference=K)
    functions = eigenfunctions(beside, values[known], rows[known].T)
    labels = targets_of(train.labels, outputs=1, classes=context.data.classes)[:, 0]
    return Evaluation(values, rows, label_share(functions, labels))


def label_share(functions: Tensor, labels: Tensor) -> float:
    """Share of centred labels (n,) in the span of centred functions (n, k)."""
    centred = functions - functions.mean(0)
    basis = torch.linalg.qr(centred).Q
    centred_labels = labels - labels.mean()

    # what the basis holds of their square
    inside = basis.T @ centred_labels
    share = inside.square().sum() / centred_labels.square().sum()
    return float(share)


def _speeds(network: nn.Module, context: penchant.Context) -> Any:
    """One small gradient step on the training samples."""
    train = context.data.train
    inputs = train.inputs.double()
    labels = train.labels.double() if train.labels.is_floating_point() else train.labels
    network = in_double(network)
    K = tangent_kernel(network, inputs)

    # a rate that is small beside the largest one that is stable
    values = torch.linalg.eigvalsh(K)
    largest = float(values[-1])
    rate = context.options.step * len(K) / largest
    assert context.training is not None  # the probe needs one
    return learning_speeds(
        Outputs(network), inputs, labels, K, loss=loss_function(context.training.loss), rate=rate
    )


def _quantities(
    followed: dict[str, penchant.Table], context: penchant.Context[TangentEigenfunctions]
) -> dict[str, penchant.Quantity]:
    """Ratios and shares at every evaluation, over trainings."""
    eigenvalues, shares = followed["eigenvalues"], followed["shares"]
    *_, last = eigenvalues.axes["index"]
    samples = len(context.data.train.labels)
    null = random_label_share(len(eigenvalues.axes["index"]), samples)
    quantities = {}
    for step in shares.axes["step"]:
        own = eigenvalues.at(step=step)
        ratios = own.at(index=last).values / own.at(index=0).values
        quantities[f"decay-{step}"] = penchant.Quantity.of(
            ratios, over="trainings", null=1.0, multiplicative=bool((ratios > 0).all())
        )
        quantities[f"label-share-{step}"] = penchant.Quantity.of(
            shares.at(step=step).values, over="trainings", null=null
        )

    # lemma 4.1, and frequencies where there are any
    quantities["speed-error"] = followed["speed-error"].mean("training").quantity()
    if np.prod(context.data.shape) == 1:
        first = followed["eigenfunctions"].at(step=shares.axes["step"][0])
        quantities["frequency-correlation"] = _order(first.values, context)
    return quantities


def random_label_share(functions: int, samples: int) -> dict[str, float]:
    """Mean and spread of the share of labels in random order that lies in some functions.

    Centred labels are a direction among n - 1; if all are equally likely, the share in k of them
    has a beta distribution, Beta(k / 2, (n - 1 - k) / 2). Trainings share their labels, so their
    mean has the spread of one.
    """
    mean = min(1.0, functions / (samples - 1))
    variance = 2 * mean * (1 - mean) / (samples + 1)
    return {"null": mean, "null_spread": variance**0.5}


def _order(functions: np.ndarray, context: penchant.Context) -> penchant.Quantity:
    """Rank correlation of the index of functions (trainings, k, points) with their frequency.

    Two neighbours that change positions move it by 12 / (k (k^2 - 1)): it is not known better than
    that, even where all trainings agree.
    """
    frequencies = mean_frequencies(functions)
    indices = np.broadcast_to(np.arange(frequencies.shape[1]), frequencies.shape)
    correlation = mean_rank_correlation(indices, frequencies, generator=context.generator("order"))
    quantity = penchant.Quantity.of(correlation.values, over="trainings", null=correlation.null())
    trainings, count = frequencies.shape
    step = 12 / (count * (count**2 - 1))
    rounding = step / (12 * trainings) ** 0.5
    assert quantity.stderr is not None  # there are several trainings
    return attrs.evolve(quantity, stderr=np.hypot(quantity.stderr, rounding))


def mean_frequencies(functions: np.ndarray) -> np.ndarray:
    """The mean of the power spectrum of functions (..., points)."""
    amplitudes = np.abs(np.fft.rfft(functions, axis=-1))
    powers = amplitudes**2
    frequencies = np.arange(powers.shape[-1])
    means: np.ndarray = powers @ frequencies / powers.sum(-1)
    return means


Loss = Callable[[Tensor, Tensor], Tensor]


class Speeds(NamedTuple):
    """Change of outputs along eigenvectors of the kernel, over the rate of the step."""

    expected: Tensor  # (n C,)
    measured: Tensor  # (n C,)

    @property
    def error(self) -> float:
        """Length of the difference over that of what is expected."""
        difference = self.measured - self.expected
        relative = difference.norm() / self.expected.norm()
        return float(relative)


def learning_speeds(
    outputs: Outputs, inputs: Tensor, labels: Tensor, K: Tensor, *, loss: Loss, rate: float
) -> Speeds:
    """Take one step of gradient descent and compare.

    Args:
        outputs: The network; it is not changed.
        inputs: Samples (n, ...).
        labels: Their labels.
        K: The tangent kernel (n C, n C) on them, not centred.
        loss: Mean loss of outputs and labels.
        rate: Learning rate of the step.

    Returns:
        Speeds along the kernel's eigenvectors, the largest eigenvalue first, in double precision.
    """
    # the gradient in parameters, and in outputs
    leaves = outputs.leaves()
    with torch.enable_grad():
        before = outputs(leaves, inputs)
        value = loss(before, labels)
        gradients = torch.autograd.grad(value, [before, *leaves], materialize_grads=True)
    by_outputs, *by_parameters = gradients

    # a real step
    moved = []
    for leaf, gradient in zip(leaves, by_parameters):
        moved.append(leaf.detach() - rate * gradient)
    with torch.no_grad():
        after = outputs(moved, inputs)
    change = (after - before.detach()).double()
    measured = change.flatten() / rate

    # both in the eigenvectors of the kernel
    values, vectors = torch.linalg.eigh(K.double())
    values, vectors = values.flip(0), vectors.flip(1)
    slopes = vectors.T @ by_outputs.double().flatten()
    return Speeds(expected=-values * slopes, measured=vectors.T @ measured)
