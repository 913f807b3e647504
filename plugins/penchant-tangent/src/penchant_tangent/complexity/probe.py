"""The probe `complexity`: measures of complexity against the generalisation gap."""

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.statistics import statistics
from penchant_numerics.training import Trainer, evaluate, outputs
from torch import Tensor, nn

from penchant_tangent.complexity.complexity_measures import (
    PathLength,
    fisher_rao,
    margin,
    margins,
    path_norm,
    spectral_product,
    spectral_stable_rank,
)
from penchant_tangent.declarations.complexity import MEASURES, Complexity
from penchant_tangent.shared.kernel_samples import sampled
from penchant_tangent.shared.margin_bounds import (
    DELTA,
    error_bound,
    multiclass_complexity,
    ramp_loss,
)
from penchant_tangent.shared.training_samples import with_random_labels

MARGIN = 1.0  # at which the losses of the error's bound vanish


def run(options: Complexity, context: penchant.Context) -> penchant.Result:
    """Train every setting several times, and compare settings."""
    _check(context)
    trained = context.tables(
        train_and_measure,
        width=options.widths,
        share=options.noise_shares,
        training=range(options.trainings),
    )
    tables = {name: each.mean("training") for name, each in trained.items()}
    # all trainings have the same test samples: others would move accuracies and gaps as well
    accuracy = tables["test-accuracy"].values
    sampling = np.asarray(statistics.binomial_stderr(accuracy, len(context.data.test.labels)))
    for name in ("test-accuracy", "gap"):
        mean = tables[name]
        tables[name] = attrs.evolve(mean, stderr=np.hypot(np.asarray(mean.error), sampling))
    return penchant.Result(
        _quantities(tables, context),
        {"widths": np.array(options.widths), "shares": np.array(options.noise_shares)},
        tables=tables,
        conventions={
            "gap": "training accuracy on the labels trained on, minus test accuracy",
            "complexity": f"tr K on {options.samples} training samples, not centred, every "
            f"{options.eval_every} steps",
            "path norm": "biases included, as paths that begin at one",
            "margin": "negative, so that larger is more complex, also over spectral-stable-rank",
            "error bound": f"(38) with (60) for the way, at a margin of {MARGIN:g}, delta = "
            f"{DELTA:g}; traces are scaled to all training samples",
        },
    )


def _check(context: penchant.Context) -> None:
    """Refuse what cannot be varied or measured."""
    component = context.architecture.component
    if not hasattr(component, "widths") and not hasattr(component, "width"):
        raise penchant.Error(
            "complexity varies the option `widths` or `width` of an architecture; "
            f"{component.name!r} has neither"
        )
    assert context.training is not None  # the probe needs one
    if context.training.learning_rates:
        raise penchant.Error("complexity has no sweep of learning rates: give learning_rate")
    if context.training.loss != "cross-entropy":
        raise penchant.Error(
            f"complexity needs training.loss = 'cross-entropy', found {context.training.loss!r}"
        )


def train_and_measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, float]:
    """Everything about one training."""
    options = context.options
    number = item["training"]
    chosen = of_width(context.architecture.component, item["width"])
    network = context.scope(architecture=chosen).network(number)
    train = _noisy(context, item["share"], number)
    first = _flat(network)

    # the whole way
    batch = sampled(train, options.samples, context.generator("samples", number))
    way = PathLength(network, batch.inputs, eval_every=options.eval_every)
    seed = context.generator("training", number).initial_seed()
    assert context.training is not None  # the probe needs one
    trainer = Trainer(network, train, context.training, seed=seed)
    trainer.run(observe=way.observe)

    # its end
    loss, accuracy = evaluate(network, train)
    _warn_if_unfinished(context, loss)
    _, tested = evaluate(network, context.data.test)
    final = outputs(network, train.inputs)
    ranks, own_margin = spectral_stable_rank(network), margin(final, train.labels)
    return {
        "complexity": way.total,
        "spectral-product": spectral_product(network),
        "spectral-stable-rank": ranks,
        "spectral-margin": -own_margin / ranks,
        "path-norm": path_norm(network.double(), tuple(context.data.shape)),
        "fisher-rao": fisher_rao(network.to(context.dtype), train),
        "distance": float((_flat(network) - first).norm()),
        "margin": -own_margin,
        "error-bound": _error_bound(
            way.total, len(batch.inputs), final.shape[1], margins(final, train.labels)
        ),
        "gap": accuracy - tested,
        "train-accuracy": accuracy,
        "test-accuracy": tested,
        "steps": float(trainer.step),
    }


def _error_bound(complexity: float, traced: int, classes: int, own_margins: Tensor) -> float:
    """(38) with (60) for the way: `complexity` has the traces of some of the training samples."""
    samples = len(own_margins)
    losses = multiclass_complexity(
        complexity * math.sqrt(samples / traced), classes=classes, samples=samples, gamma=MARGIN
    )
    return error_bound(ramp_loss(own_margins, MARGIN), losses, samples)


def of_width(component: penchant.Architecture, width: int) -> penchant.Architecture:
    """The architecture with this many units in every hidden layer, or with this `width`."""
    # every hidden layer alike
    if hasattr(component, "widths"):
        changes: dict[str, Any] = {"widths": (width,) * len(component.widths)}
    else:
        changes = {"width": width}
    return attrs.evolve(component, **changes)


def _noisy(context: penchant.Context, share: float, number: int) -> Samples:
    """Training samples with a share of random labels."""
    train = context.data.train
    labels = with_random_labels(
        train.labels,
        share,
        classes=context.data.classes,
        generator=context.generator("random labels", number),
    )
    return Samples(train.inputs, labels)


def _flat(network: nn.Module) -> Tensor:
    """All parameters in a row, as they are now."""
    values = []
    for parameter in network.parameters():
        values.append(parameter.detach().flatten())
    return torch.cat(values).clone()


def _warn_if_unfinished(context: penchant.Context, loss: float) -> None:
    """Networks that did not fit their labels cannot be compared with those that did."""
    assert context.training is not None  # the probe needs one
    until = context.training.until_loss
    if until is not None and loss > 2 * until:
        context.warn(f"some trainings ended before their loss reached {until:g}: use more epochs")


def _quantities(
    tables: dict[str, penchant.Table], context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Rank correlations over settings."""
    gaps = tables["gap"].values.ravel()
    quantities = {}
    for name in MEASURES:
        order = statistics.rank_correlation(
            tables[name].values.ravel(), gaps, generator=context.generator("order", name)
        )
        quantities[f"rank-correlation-{name}"] = penchant.Quantity(
            **order.fields(), over="settings"
        )
    return quantities
