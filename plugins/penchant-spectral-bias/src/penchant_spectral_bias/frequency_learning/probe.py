"""The probe `frequency-learning`: when a network has learnt how much of each wave of its target."""

import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.statistics import combined_error
from penchant_numerics.training import groups
from torch import Tensor

from penchant_spectral_bias.declarations.curves import FrequencyLearning
from penchant_spectral_bias.shared.band_spectra import first_fit, learnt_share, mean_over_training
from penchant_spectral_bias.shared.own_functions import refuse_own_options
from penchant_spectral_bias.shared.own_learning import learnt_by_own
from penchant_spectral_bias.shared.rank_order import (
    correlations,
    joined,
    mean_with_resolution,
    missing,
    order,
    smallest_step,
)
from penchant_spectral_bias.shared.spectral_norms import spectral_norms
from penchant_spectral_bias.shared.waves import (
    against_control,
    check_loss,
    evaluation_steps,
    in_steps,
    learners,
    network_of_one_output,
    spectra,
    target_amplitudes,
    target_variance,
    warn_above_constant,
    wave,
)

# What is measured in every training, with its axes.
AXES = {
    "amplitude": ("step", "frequency"),
    "learnt-share": ("step", "frequency"),
    "loss": ("step",),
    "spectral-norms": ("step", "layer"),
}


def run(options: FrequencyLearning, context: penchant.Context) -> penchant.Result:
    """Train networks on waves, on the same waves permuted among samples, and on other flowers.

    A network of the user's own is measured as it is.
    """
    if context.network_kind != "fresh":
        return learnt_by_own(options, context)
    refuse_own_options(options)
    check_loss(context, "squared-error")
    items = _items(options, context)
    shards = list(context.map(trained, items))
    learnt = _of_kind("learnt", items, shards)
    shuffled = _of_kind("shuffled", items, shards)
    rows = joined(learnt, AXES)
    rows["amplitude"] /= target_amplitudes(options)
    # the control may be left out
    control = None
    if shuffled:
        control = joined(shuffled, ["learnt-share"])["learnt-share"]

    # tables, then quantities
    steps = evaluation_steps(context, context.options.samples)
    axes = {"step": steps, "frequency": options.frequencies, "layer": _weight_names(context)}
    tables = {name: _mean(rows[name], axes, name) for name in AXES}
    if control is not None:
        tables["shuffled-learnt-share"] = _mean(control, axes, "learnt-share")
    # of the mean over trainings, as the heat map shows it
    share = rows["learnt-share"].mean(0)
    first = first_fit(share, torch.tensor(steps, device="cpu"), options.learnt_at)
    tables["first-fit"] = penchant.Table(first, {"frequency": options.frequencies})
    quantities = _quantities(options, context, rows, control)
    arrays: dict[str, Any] = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "steps": torch.tensor(steps, device="cpu"),
        "prediction": learnt[0]["prediction"],
        "target": learnt[0]["target"],
    }
    if options.compared_petals:
        losses = _losses_by_petals(options, steps, items, shards)
        arrays["petals"] = losses.coordinates("petals")
        tables["petal-losses"] = losses.mean("training")
        quantities["petal-loss-gain"] = _petal_gain(losses)
    _warn_where_not_learnt(options, context, first, steps)
    final = quantities["final-loss"]
    warn_above_constant(context, final.value, final.null)
    return penchant.Result(
        quantities,
        arrays,
        conventions={
            "amplitude": "2 |DFT_k| / N over the amplitude of the target",
            "learnt-share": "Re(DFT_k conj t_k) / |t_k|^2, t the target's",
            "late": "minus the mean of the learnt share over recorded steps",
            "loss": "mean squared error on the training samples",
            "spectral-norms": "largest singular value; a convolution as its (out, in x window)"
            " matrix",
        },
        missing=("first-fit", *missing(quantities)),
        tables=tables,
    )


def _mean(rows: Tensor, axes: dict[str, Any], name: str) -> penchant.Table:
    """The mean over trainings, along the axes of the table of this name."""
    inner = {axis: axes[axis] for axis in AXES[name]}
    return penchant.Table(rows, {"training": range(len(rows)), **inner}).mean("training")


def _items(options: FrequencyLearning, context: penchant.Context) -> list[dict[str, Any]]:
    """What is trained: kind, petals and numbers of the trainings of each shard."""
    kinds: list[tuple[str, int | None, int]] = [
        ("learnt", options.petals, options.trainings),
        ("shuffled", options.petals, options.shuffled_trainings),
    ]
    for compared in options.compared_petals or ():
        kinds.append(("compared", compared, options.trainings))

    # networks that share a device share a shard
    items = []
    for kind, petals, count in kinds:
        for share in groups(count, context.device):
            item = {"kind": kind, "petals": petals, "trainings": share}
            items.append(item)
    return items


def _of_kind(
    kind: str, items: list[dict[str, Any]], shards: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The shards of one kind of training."""
    own = []
    for item, shard in zip(items, shards):
        if item["kind"] == kind:
            own.append(shard)
    return own


def _weight_names(context: penchant.Context) -> tuple[str, ...]:
    """Names of the parameters that have a spectral norm."""
    names = []
    network = network_of_one_output(context)
    for name, parameter in network.named_parameters():
        # biases are no matrices
        if parameter.ndim > 1:
            names.append(name)
    return tuple(names)


def trained(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Train some networks, and follow the spectrum of each, (trainings, steps, frequencies).

    In the control (`shuffled`), the values of the wave are randomly permuted among samples, and
    spectra are those of the values in their old order: no frequency is then smoother than another,
    so none should be learnt first.
    """
    samples = []
    for training in item["trainings"]:
        data = wave(context, training, item["petals"])
        samples.append(data.train)
    inputs = samples[0].inputs
    targets = torch.stack([each.labels for each in samples])

    # each network learns its wave with the values at their positions
    positions = _positions(context, item)
    dealt = _dealt(samples, positions)
    training = learners(context, item["trainings"], dealt)

    # values of the networks in the wave's order, at every recorded step
    evaluations = []
    norms = []
    for step in evaluation_steps(context, context.options.samples):
        training.run(step)
        outputs = training.outputs(inputs)[..., 0]
        evaluations.append(outputs.gather(1, positions))
        norms.append(spectral_norms(training.weights(), like=outputs))
    functions = torch.stack(evaluations, dim=1)  # (trainings, steps, samples)

    # against the wave of each training, the same at every step
    expected = targets[:, None]
    residuals = (functions - expected).double()
    frequencies = context.options.frequencies
    return {
        "amplitude": spectra(functions, frequencies),
        "learnt-share": learnt_share(functions, expected, frequencies),
        "loss": residuals.square().mean(-1),
        "spectral-norms": torch.stack(norms, dim=1),
        "prediction": functions[0],
        "target": targets[0],
    }


def _dealt(samples: list[Samples], positions: Tensor) -> list[Samples]:
    """The same samples with the values of their waves at other positions."""
    permuted = []
    for each, position in zip(samples, positions):
        empty = torch.zeros_like(each.labels)
        labels = empty.scatter(0, position, each.labels)
        permuted.append(each._replace(labels=labels))
    return permuted


def _positions(context: penchant.Context, item: dict[str, Any]) -> Tensor:
    """The sample at which each value of the wave is learnt, (trainings, samples)."""
    count = context.options.samples
    rows = []
    is_control = item["kind"] == "shuffled"
    # every training of the control has a permutation of its own
    for training in item["trainings"]:
        if is_control:
            generator = context.generator("shuffle", training)
            row = torch.randperm(count, generator=generator, device="cpu")
        else:
            # each value at its own sample
            row = torch.arange(count, device="cpu")
        rows.append(row)
    together = torch.stack(rows)
    return together.to(context.device)


def _quantities(
    options: FrequencyLearning,
    context: penchant.Context,
    rows: dict[str, Tensor],
    control: Tensor | None,
) -> dict[str, penchant.Quantity]:
    frequencies = torch.tensor(options.frequencies, device="cpu", dtype=torch.float64)
    shares = rows["learnt-share"]
    steps = torch.tensor(evaluation_steps(context, context.options.samples), device="cpu")
    first = first_fit(shares, steps, options.learnt_at)
    never_is_last = first.nan_to_num(nan=math.inf)
    quantities = {
        "rank-correlation": order(
            -mean_over_training(shares),
            frequencies,
            generator=context.generator("permutations", "order"),
        ),
        "first-fit-rank-correlation": order(
            never_is_last, frequencies, generator=context.generator("permutations", "fit")
        ),
        "learnt-frequencies": _learnt_frequencies(options, steps, shares, control),
        "final-loss": penchant.Quantity.of(
            rows["loss"][:, -1], over="trainings", null=target_variance(options)
        ),
    }
    if control is not None:
        quantities["shuffled-rank-correlation"] = order(
            -mean_over_training(control),
            frequencies,
            generator=context.generator("permutations", "shuffled"),
        )
        quantities["above-control"] = _above_control(shares, control, frequencies)
    return quantities


def _above_control(shares: Tensor, control: Tensor, frequencies: Tensor) -> penchant.Quantity:
    """The order of trainings minus that of the control's, which are independent of them."""
    means, terms = [], []
    for each in (shares, control):
        replicates = correlations(-mean_over_training(each), frequencies)
        if replicates is None:
            return penchant.Quantity(math.nan, null=0.0)
        mean, stderr = mean_with_resolution(replicates, smallest_step(len(frequencies)))
        means.append(mean)
        if stderr is not None:
            terms.append((stderr, len(replicates) - 1.0))
    stderr, df = combined_error(terms) if len(terms) == 2 else (None, None)
    value = means[0] - means[1]
    return penchant.Quantity(
        value, stderr=stderr, over="trainings", count=len(shares), df=df, null=0.0
    )


def _learnt_frequencies(
    options: FrequencyLearning, steps: Tensor, shares: Tensor, control: Tensor | None
) -> penchant.Quantity:
    """How many frequencies each training reached; a count is known to one."""

    def counts_of(learnt: Tensor) -> Tensor:
        first = first_fit(learnt, steps, options.learnt_at)
        return first.isfinite().sum(1)

    counts = counts_of(shares)
    if control is None:
        return in_steps(counts, 1.0)
    return against_control(counts, counts_of(control), paired=False, step=1.0)


def _losses_by_petals(
    options: FrequencyLearning,
    steps: list[int],
    items: list[dict[str, Any]],
    shards: list[dict[str, Any]],
) -> penchant.Table:
    """Losses (training, petals, step) on every flower, fewest petals first."""
    assert options.petals is not None and options.compared_petals is not None  # as declared
    flowers = sorted({options.petals, *options.compared_petals})
    losses = []
    for petals in flowers:
        own = []
        for item, shard in zip(items, shards):
            # the control learnt other values
            if item["petals"] == petals and item["kind"] != "shuffled":
                own.append(shard)
        losses.append(joined(own, ["loss"])["loss"])
    together = torch.stack(losses, dim=1)
    axes = {"training": range(len(together)), "petals": flowers, "step": steps}
    return penchant.Table(together, axes)


def _petal_gain(losses: penchant.Table) -> penchant.Quantity:
    """Of the same waves, so that differences are taken training by training."""
    petals = losses.axes["petals"]
    # at the end of every training
    final = losses.at(step=losses.axes["step"][-1])
    gains = final.at(petals=min(petals)).minus(final.at(petals=max(petals)))
    return gains.mean("training", null=0.0).quantity()


def _warn_where_not_learnt(
    options: FrequencyLearning, context: penchant.Context, first: Tensor, steps: list[int]
) -> None:
    count = int(first.isfinite().sum())
    if count < len(options.frequencies):
        context.warn(
            f"{count} of {len(options.frequencies)} frequencies reached {options.learnt_at:g} of "
            f"their wave in {steps[-1]} steps"
        )
