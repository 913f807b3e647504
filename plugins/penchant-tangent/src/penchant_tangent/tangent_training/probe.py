"""The probe `tangent-training`: spectrum and alignment of tangent kernels along trainings.

Steps of a training that are spaced evenly on a logarithmic axis.

How many independent answers the positions of sequences are worth.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples, contributions_to_mean, kind_of
from penchant_numerics.layers import centre, layer_kernels
from penchant_numerics.statistics import combined_error, statistics
from penchant_numerics.training import accuracy_numbers, evaluate, predictions
from torch import Tensor, nn

from penchant_tangent.declarations.training import TangentTraining
from penchant_tangent.shared.kernel_samples import (
    centred_targets,
    expected_alignment,
    kernel_conventions,
    kernelled,
    refuse_one_label,
    sampled,
)
from penchant_tangent.shared.kernel_summary import (
    aligned,
    even_spectrum,
    precise_layer_kernels,
    refuse_constant,
    summarise,
    warn_of_rounding,
    whole_kernel,
)
from penchant_tangent.shared.training_samples import Mixture, mixture

SMALLEST_BATCH = 4  # samples of the smallest batch, as the option says
ANSWERS = "answers"  # as many independent ones as the positions of sequences are worth
BATCHES = "batches of samples"  # repetitions along a trajectory
Numbers = dict[str, Any]


def run(options: TangentTraining, context: penchant.Context) -> penchant.Result:
    """Train and evaluate, once for each share of random labels and each training.

    A trajectory of the user's is one training with several batches.
    """
    followed = context.network_kind == "trajectory"
    if followed:
        _refuse_other_labels(options)
    steps = _steps(options, context)
    layers = layer_names(context)
    tables = context.tables(
        follow if followed else train_and_evaluate,
        inside={"step": steps, "ratio": options.ratios, "layer": layers},
        share=options.noise_shares,
        training=range(options.trainings),
    )
    size = options.samples
    if followed:
        size = _batch_size(context.data.train, context)
    conventions = kernel_conventions(options.centring, size, context.data.train.labels)
    if followed:
        conventions["trainings"] = "one, of the user's; standard errors are over batches of samples"
    else:
        conventions["early stop"] = (
            "a training that stops early stays as it is at later evaluations"
        )
    return penchant.Result(
        _quantities(tables, options, context),
        {"steps": np.array(steps)},
        tables=_averages(tables, context),
        conventions=conventions,
        labels={"layers": tuple(layers)},
    )


def layer_names(context: penchant.Context) -> list[str]:
    """Layers with parameters, in the order of their kernels."""
    # any samples tell
    some = context.data.train.select(slice(0, 2))
    network, inputs, _ = kernelled(context.network(), some, context)
    kernels = layer_kernels(network, inputs)
    return list(kernels)


def _refuse_other_labels(options: TangentTraining) -> None:
    """A training of the user's had her labels: neither random ones nor difficult samples."""
    requested = {
        "noise_shares": options.noise_shares != (0.0,),
        "easy_samples": options.easy_samples is not None,
        "difficult_samples": options.difficult_samples is not None,
    }
    for name, given in requested.items():
        if given:
            actual = f"found {name} = {getattr(options, name)}"
            raise penchant.Error(f"a trajectory was trained on labels of its own, {actual}")


def _steps(options: TangentTraining, context: penchant.Context) -> list[int]:
    """Steps that are evaluated."""
    if context.network_kind == "trajectory":
        return sorted(set(options.eval_steps)) if options.eval_steps else list(context.steps)
    samples = mixture(options, context, 0.0, 0).together()
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(len(samples.labels))
    if options.eval_steps is None:
        return log_steps(total, options.evaluations)

    # the requested ones
    steps = sorted(set(options.eval_steps))
    if steps[-1] > total:
        raise penchant.Error(f"eval_steps must be at most {total}, found {steps[-1]}")
    return steps


def train_and_evaluate(context: penchant.Context, item: dict[str, Any]) -> Numbers:
    """Numbers (evaluations, ...) along one training, by name."""
    options = context.options
    number = item["training"]
    samples = mixture(options, context, item["share"], number)
    batches = _batches(samples, options, context, number)
    trained = context.train(
        context.network(number),
        samples.together(),
        number,
        steps=_steps(options, context),
        test=context.data.test,
    )
    evaluations = []
    for _, network in trained:
        evaluations.append(evaluation(network, batches, samples, context))
    # a training that has stopped stays as it is
    while len(evaluations) < len(_steps(options, context)):
        evaluations.append(evaluations[-1])
    return _stacked(evaluations)


def follow(context: penchant.Context, item: dict[str, Any]) -> Numbers:
    """Numbers (evaluations, ...) along the user's training, on batches of this number."""
    options = context.options
    samples = mixture(options, context, 0.0, 0)
    batches = _batches(samples, options, context, item["training"])
    evaluations = []
    for _, network in context.trained(options.eval_steps):
        evaluations.append(evaluation(network, batches, samples, context))
    return _stacked(evaluations)


def _stacked(evaluations: list[Numbers]) -> Numbers:
    """Numbers (evaluations, ...) by name."""
    stacked = {}
    for name in evaluations[0]:
        stacked[name] = np.stack([each[name] for each in evaluations])
    return stacked


def _batches(
    samples: Mixture, options: TangentTraining, context: penchant.Context, number: int
) -> dict[str, Samples]:
    """The samples of kernels, the same all along a training."""
    available = {"train": samples.easy, "test": context.data.test, "difficult": samples.difficult}
    batches = {}
    for name, split in available.items():
        if split is None:
            continue
        if context.network_kind == "trajectory":
            batches[name] = _own_batch(split, name, number, context)
            continue
        generator = context.generator("batch", name, number)
        batches[name] = sampled(split, options.samples, generator)
    return batches


def _own_batch(samples: Samples, name: str, number: int, context: penchant.Context) -> Samples:
    """A batch that has no sample in common with those of other numbers."""
    size = _batch_size(samples, context)
    all_batches = sampled(samples, len(samples.labels), context.generator("batch", name))
    return all_batches.select(slice(number * size, (number + 1) * size))


def _batch_size(samples: Samples, context: penchant.Context) -> int:
    """Samples of a batch, of which a trajectory needs several without a common sample."""
    options = context.options
    available = len(samples.labels)
    if context.network_kind == "trajectory":
        available //= options.trainings
        if available < SMALLEST_BATCH:
            actual = f"found {len(samples.labels)} samples for {options.trainings} batches"
            raise penchant.Error(f"a batch needs at least {SMALLEST_BATCH} samples, {actual}")
    size: int = min(options.samples, available)
    return size


def evaluation(
    network: nn.Module, batches: dict[str, Samples], samples: Mixture, context: penchant.Context
) -> Numbers:
    """Everything about a network at one step."""
    row: Numbers = {}
    for split, batch in batches.items():
        numbers = kernel_numbers(network, batch, context)
        for name, value in numbers.items():
            row[f"{split}-{name}"] = value

    # accuracies on all samples of a split, not on the kernel's batch only
    assert context.training is not None  # the probe needs one
    loss = context.training.loss
    judged = {"train": samples.easy, "test": context.data.test, "difficult": samples.difficult}
    for split, these in judged.items():
        if these is None:
            continue
        _, row[f"{split}-accuracy"] = evaluate(network, these, loss=loss)
        if these.kind.by_position:
            row[f"{split}-{ANSWERS}"] = independent_answers(network, these)
    return row


def kernel_numbers(network: nn.Module, batch: Samples, context: penchant.Context) -> Numbers:
    """Spectrum and alignment of the kernel of a network on a batch."""
    options = context.options
    refuse_one_label(batch)
    network, inputs, expected = kernelled(network, batch, context)
    kernels = precise_layer_kernels(network, inputs)
    K = whole_kernel(kernels)
    summary = summarise(K, expected, centring=options.centring, ratios=options.ratios)
    refuse_constant(summary.eigenvalues, K)
    warn_of_rounding(summary.eigenvalues, context)
    numbers = summary.numbers

    # layers, and permuted labels
    goal = centred_targets(expected, options.centring)
    layers = []
    for kernel in kernels.values():
        centred = _centred(kernel, options, expected.shape[1])
        layers.append(aligned(centred, goal))
    null = expected_alignment(_centred(K, options, expected.shape[1]), goal)
    values = summary.eigenvalues
    return {
        "effective-rank": numbers["effective-rank"],
        "largest-eigenvalue": float(values[0]),
        "mean-eigenvalue": float(values.mean()),
        "median-eigenvalue": float(values.median()),
        "trace-ratios": np.array([numbers[f"trace-ratio-{k}"] for k in options.ratios]),
        "cka": numbers["cka"],
        "cka-null": null,
        "cka-uncentred": numbers["cka-uncentred"],
        "cka-uncentred-null": expected_alignment(K.double(), expected),
        "layer-cka": np.array(layers),
    }


def _centred(K: torch.Tensor, options: TangentTraining, outputs: int) -> torch.Tensor:
    """A kernel in double precision, centred as the options say."""
    exact = K.double()
    return centre(exact, outputs=outputs, centring=options.centring)


# ---- over trainings


def _averages(
    tables: dict[str, penchant.Table], context: penchant.Context
) -> dict[str, penchant.Table]:
    """Means over trainings with their errors, (share, step, ...)."""
    averages = {}
    for name, table in tables.items():
        if name.endswith((ANSWERS, "-null")):
            continue
        averages[name] = table.mean("training")
        # the null of an alignment is exact, and has no error to speak of
        if f"{name}-null" in tables:
            null = tables[f"{name}-null"].mean("training").values
            averages[name] = attrs.evolve(averages[name], null=null)
    stderr = _test_accuracy_errors(tables, context.data.test.labels)
    averages["test-accuracy"] = attrs.evolve(averages["test-accuracy"], stderr=stderr)
    if context.network_kind == "trajectory":
        return {name: attrs.evolve(each, over=BATCHES) for name, each in averages.items()}
    return averages


def _quantities(
    tables: dict[str, penchant.Table], options: TangentTraining, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Beginning and end of the trainings, share by share."""
    quantities = {}
    for share in options.noise_shares:
        own = {name: table.at(share=share).values for name, table in tables.items()}
        of_share = _of_a_share(own, context)
        for name, quantity in of_share.items():
            quantities[f"{name}-{share:g}"] = quantity

    # whether training adds less alignment as shares rise
    above = tables["train-cka"].values - tables["train-cka-null"].values
    gained = above[:, :, -1] - above[:, :, 0]
    if statistics.varies(options.noise_shares) and statistics.varies(gained):
        quantities["rank-correlation"] = _order(gained, options, context)
    return quantities


def _of_a_share(
    own: dict[str, np.ndarray], context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Quantities of the trainings (trainings, evaluations) with one share of random labels."""
    rank = own["train-effective-rank"]
    first, last = rank[:, 0], rank[:, -1]
    # without training the rank stays as it was
    untrained = _measured_null(first)
    quantities = {
        "effective-rank-initial": _mean(first, null=_even_rank(context)),
        "effective-rank-lowest": _mean(rank.min(1), null=untrained),
        "effective-rank-final": _mean(last, null=untrained),
        "effective-rank-change": _mean(last - first, null=0.0),
        "train-accuracy": _train_accuracy(own, context),
        "test-accuracy": _test_accuracy(own, context),
    }

    # alignment, in the end and since the beginning
    for prefix, split in (("", "train"), ("test-", "test")):
        cka = own[f"{split}-cka"]
        nulls = own[f"{split}-cka-null"][:, -1]
        quantities[f"{prefix}cka-final"] = _mean(cka[:, -1], null=nulls.mean())
        quantities[f"{prefix}cka-change"] = _mean(cka[:, -1] - cka[:, 0], null=0.0)
    uncentred = own["train-cka-uncentred"][:, -1]
    nulls = own["train-cka-uncentred-null"][:, -1]
    quantities["cka-uncentred-final"] = _mean(uncentred, null=nulls.mean())
    if "difficult-cka" in own:
        quantities |= _easy_first(own)
    if context.network_kind == "trajectory":
        return {name: _over_batches(quantity) for name, quantity in quantities.items()}
    return quantities


def _over_batches(quantity: penchant.Quantity) -> penchant.Quantity:
    """The same number, whose spread over repetitions is that over batches."""
    if quantity.over != "trainings":
        return quantity
    return attrs.evolve(quantity, over=BATCHES)


def _measured_null(values: np.ndarray) -> dict[str, Any]:
    """The null that the same trainings had before they began."""
    mean, stderr = statistics.mean_and_stderr(values)
    return {"null": mean, "null_stderr": stderr}


def _even_rank(context: penchant.Context) -> float:
    """The effective rank of kernels that prefer no direction."""
    options = context.options
    easy = mixture(options, context, 0.0, 0).easy
    samples = _batch_size(easy, context)
    # of a sequence its loss
    outputs = 1 if easy.kind.by_position else context.architecture.outputs
    spectrum = even_spectrum(samples, outputs, centring=options.centring, ratios=())
    return spectrum["effective-rank"]


def _mean(values: np.ndarray, null: float | dict[str, Any] | None = None) -> penchant.Quantity:
    """The mean over trainings."""
    return penchant.Quantity.of(values, over="trainings", null=null)


def _easy_first(own: dict[str, np.ndarray]) -> dict[str, penchant.Quantity]:
    """How far alignment on easy samples (trainings, evaluations) is ahead of that on hard ones.

    True labels align with any kernel of clustered data, and random ones with any kernel of few
    directions: the lead counts what training adds to the alignment above that of random labels.
    """
    easy, difficult = own["train-cka"], own["difficult-cka"]
    ahead = (easy - own["train-cka-null"]) - (difficult - own["difficult-cka-null"])
    since_first = ahead - ahead[:, :1]
    ratio = easy.max(1) / difficult.max(1)
    untrained = easy[:, 0] / difficult[:, 0]
    return {
        "easy-lead": _mean(since_first.mean(1), null=0.0),
        "easy-ratio": _mean(ratio, null=_measured_null(untrained)),
    }


def _answers(
    values: Mapping[str, np.ndarray], split: str, labels: torch.Tensor, evaluation: int = -1
) -> int:
    """Independent answers that accuracies are shares of: samples, or what positions are worth."""
    name = f"{split}-{ANSWERS}"
    return round(values[name][..., evaluation].mean()) if name in values else len(labels)


def _test_accuracy_errors(tables: dict[str, penchant.Table], labels: torch.Tensor) -> Any:
    """Errors of test accuracies over trainings and samples, (share, step)."""
    accuracies = tables["test-accuracy"]
    if not kind_of(labels).by_position:
        return accuracies.accuracy(over=("training",), samples=len(labels)).error
    values = {name: table.values for name, table in tables.items()}
    errors: list[Any] = []
    for number, step in enumerate(accuracies.axes["step"]):
        count = _answers(values, "test", labels, number)
        at_step = accuracies.at(step=step)
        errors.append(at_step.accuracy(over=("training",), samples=count).error)
    return np.stack(errors, -1)


def _train_accuracy(own: dict[str, np.ndarray], context: penchant.Context) -> penchant.Quantity:
    """Each training has labels and an order of its own."""
    values = own["train-accuracy"][:, -1]
    samples = mixture(context.options, context, 0.0, 0).easy
    count = _answers(own, "train", samples.labels)
    if context.network_kind == "trajectory":
        return _accuracy_of_one(values, samples, count)
    value, stderr = statistics.accuracy(values, count, shared=False)
    return penchant.Quantity(
        value,
        stderr=stderr,
        over="trainings",
        count=len(values),
        df=len(values) - 1,
        null=samples.kind.commonest,
    )


def _test_accuracy(own: dict[str, np.ndarray], context: penchant.Context) -> penchant.Quantity:
    """All trainings are judged on the same test samples."""
    values = own["test-accuracy"][:, -1]
    samples = context.data.test
    count = _answers(own, "test", samples.labels)
    if context.network_kind == "trajectory":
        return _accuracy_of_one(values, samples, count)
    mean, between = statistics.mean_and_stderr(values)
    assert between is not None  # there are several trainings
    sampling = statistics.binomial_stderr(mean, count)
    stderr, df = combined_error([(float(sampling), None), (float(between), len(values) - 1)])
    return penchant.Quantity(
        mean,
        stderr=stderr,
        over="trainings and test samples",
        count=len(values),
        df=df,
        null=samples.kind.commonest,
    )


def _accuracy_of_one(values: np.ndarray, samples: Samples, count: int) -> penchant.Quantity:
    """The accuracy of one network, which every batch has the same of."""
    return penchant.Quantity(**accuracy_numbers(float(values[0]), samples, answers=count))


def _order(
    gained: np.ndarray, options: TangentTraining, context: penchant.Context
) -> penchant.Quantity:
    """Rank correlation of shares with gains of alignment (shares, trainings)."""
    shares = np.repeat(options.noise_shares, gained.shape[1])
    correlation = statistics.rank_correlation(
        shares, gained.ravel(), generator=context.generator("order")
    )
    return penchant.Quantity(**correlation.fields(), over="trainings")


def log_steps(total: int, evaluations: int) -> list[int]:
    """Steps from 0 to `total`, evenly spaced in the logarithm after the first.

    Args:
        total: The last step.
        evaluations: How many there are at most; early ones that would coincide are one.

    Returns:
        The steps, rising.

    >>> log_steps(1000, 5)
    [0, 1, 10, 100, 1000]
    >>> log_steps(1000, 2)
    [0, 1000]
    """
    if total == 0:
        return [0]
    between = evaluations - 2
    steps = {0, total}
    for number in range(between):
        exponent = number / between
        steps.add(round(total**exponent))
    return sorted(steps)


_CHUNK = 64  # sequences of a pass


@torch.no_grad()
def right_positions(network: nn.Module, samples: Samples) -> Tensor:
    """Positions of each sequence (n,) whose class is the label."""
    right = []
    for inputs, labels in zip(samples.inputs.split(_CHUNK), samples.labels.split(_CHUNK)):
        right.append((predictions(network(inputs)) == labels).sum(1))
    return torch.cat(right)


def independent_answers(network: nn.Module, samples: Samples) -> int:
    """Answers n for which a (1 - a) / n is the variance of the accuracy a over sequences.

    Positions of a sequence are not independent, so that they are worth fewer than there are. An
    accuracy of 0 or 1 does not show it: sequences are counted then.

    Args:
        network: A network with outputs (samples, positions, C), in evaluation mode.
        samples: Sequences with labels (n, positions).

    Returns:
        At least 1, and at most the positions that count.
    """
    counts = samples.kind.counts
    each = contributions_to_mean(right_positions(network, samples), counts)
    share = float(each.mean())
    variance = float(each.var()) / len(each) if len(each) > 1 else 0.0
    if variance <= 0:
        return len(each)
    return max(1, min(int(counts.sum()), round(share * (1 - share) / variance)))
