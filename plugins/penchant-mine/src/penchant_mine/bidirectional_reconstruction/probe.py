"""The probe `bidirectional-reconstruction`: how well models give back what they are shown."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.statistics import binomial_stderr, combined_error, mean_and_stderr
from penchant_numerics.training import constructed, shard_of
from torch import Tensor, nn

from penchant_mine.bidirectional_reconstruction.bidirectional import (
    AliRecipe,
    Model,
    normal,
    train_models,
)
from penchant_mine.bidirectional_reconstruction.ms_ssim import ms_ssim, scales_for
from penchant_mine.declarations.generative import BidirectionalReconstruction
from penchant_mine.shared.generative.modes import (
    POINTS,
    Classify,
    classify_with,
    coverage,
    mode_count,
    normal_judge,
    scaled,
    shown,
    train_classifier,
)
from penchant_mine.shared.generative.network_stacks import groups, map_stacked
from penchant_mine.shared.generative.networks import (
    ConditionedScores,
    Downwards,
    Joined,
    Upwards,
    perceptron,
)
from penchant_mine.shared.recipes import recipe_from

KEYS = {
    "error": "reconstruction-error",
    "distance": "reconstruction-distance",
    "accuracy": "reconstruction-accuracy",
    "similarity": "ms-ssim",
}
CHUNK = 1000  # test samples at once
BATCH = 100  # of the classifier
LEARNING_RATE = 2e-3  # of the classifier
WIDEST = 64  # feature maps of the classifier
LATENT = {1: 2, 3: 32}  # components of z by the number of axes of an input
CAPTURED = 0.25  # share of its due samples from which on a mode counts, as in gan-modes


def run(options: BidirectionalReconstruction, context: penchant.Context) -> penchant.Result:
    """Train every variant `trainings` times, those of narrow perceptrons side by side."""
    classifier = _classifier_state(options, context)
    trainings = groups(options.trainings, _perceptron_widths(options, context.data.shape))
    # Every variant of a training begins from the same random numbers.
    by_variant = map_stacked(context, measure, options.variants, trainings, shared=classifier)
    test = context.data.test
    quantities: dict[str, penchant.Quantity] = {}
    # Labels that are no classes come as a column.
    labels = test.labels if context.data.classes else test.labels.flatten()
    arrays: dict[str, Any] = {"samples-data": shown(scaled(test.inputs)), "labels": labels[:POINTS]}
    # There may be fewer test samples than requested.
    judged = min(options.samples, len(test.inputs))
    for variant, rows in by_variant.items():
        quantities |= _quantities(variant, rows, judged)
        for key in ("samples", "reconstructions", "embeddings"):
            arrays[f"{key}-{variant}"] = rows[0][key]
        _warn_if_nothing_was_learnt(context, variant, quantities, judged)
    _note(options, context)
    return penchant.Result(quantities, arrays)


def _quantities(
    variant: str, rows: list[dict[str, Any]], judged: int
) -> dict[str, penchant.Quantity]:
    quantities = {}
    for key, label in KEYS.items():
        if key not in rows[0]:
            continue
        values = [row[key] for row in rows]
        null = float(np.mean([row[f"null-{key}"] for row in rows]))
        # Trainings share their test samples, so the spread over trainings is not enough.
        mean, between = mean_and_stderr(values)
        if key == "accuracy":
            of_samples = binomial_stderr(mean, judged)
            null_spread = binomial_stderr(null, judged)
        else:
            of_samples = float(np.mean([row[f"{key}-stderr"] for row in rows]))
            null_spread = float(np.mean([row[f"null-{key}-stderr"] for row in rows]))
        terms = [(between or 0.0, max(len(rows) - 1, 1)), (of_samples, None)]
        stderr, df = combined_error(terms)
        quantities[f"{label}-{variant}"] = penchant.Quantity(
            mean,
            stderr=stderr,
            over="trainings and test samples",
            count=len(rows),
            df=df,
            null=null,
            null_spread=null_spread,
        )
    for key in ("modes", "modes-covered", "quality"):
        if key not in rows[0]:
            continue
        values = [row[key] for row in rows]
        null = float(np.mean([row[f"null-{key}"] for row in rows]))
        if key == "quality":
            quantity = penchant.Quantity.of(values, over="trainings", null=null)
        else:
            quantity = mode_count(values, null)
        quantities[f"{key}-{variant}"] = quantity
    return quantities


def _warn_if_nothing_was_learnt(
    context: penchant.Context, variant: str, quantities: dict[str, penchant.Quantity], judged: int
) -> None:
    """Say so where a reconstruction says no more of its sample than of another."""
    label = f"reconstruction-accuracy-{variant}"
    if label in quantities:
        quantity, better = quantities[label], 1
    else:
        label = f"reconstruction-error-{variant}"
        quantity, better = quantities[label], -1
    assert quantity.null is not None  # that of another sample
    away = better * (quantity.value - quantity.null)
    # Two errors beyond the null is the least that counts as learnt.
    error = math.hypot(quantity.stderr or 0.0, quantity.null_spread or 0.0)
    if away <= 2 * error:
        context.warn(
            f"{variant}: nothing was learnt, {label} is {quantity.value:.3g} and that of another "
            f"sample {quantity.null:.3g}: train longer"
        )


def _note(options: BidirectionalReconstruction, context: penchant.Context) -> None:
    data = context.data
    context.conventions["reconstruction error"] = (
        "squared Euclidean distance, mean over test samples; images in [-1, 1]"
    )
    context.conventions["null"] = "reconstructions paired with other samples"
    if data.classes:
        judge = "the classifier" if len(data.shape) == 3 else "likeliest of one normal per mode"
        context.conventions["modes"] = (
            f"of as many samples of the decoder as test samples, by {judge}; captured with at "
            f"least {CAPTURED:g} of its due samples; null: test data"
        )
    context.conventions["scale"] = (
        f"{options.steps} steps of {options.batch} samples, {len(data.train.inputs)} training "
        "samples"
    )
    if len(data.shape) == 3 and (scales := scales_for(min(data.shape[1:]))):
        context.conventions["ms-ssim"] = (
            f"{scales} of 5 scales, as images are {data.shape[1]} x {data.shape[2]}"
        )


def measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Train models side by side; judge their reconstructions, for the null of other samples.

    The row of each is that of its training alone, up to rounding.
    """
    numbers: list[int] = item["trainings"]
    return shard_of(numbers, lambda trainings: _trained(context, item["variant"], trainings))


def _trained(context: penchant.Context, variant: str, trainings: list[int]) -> list[dict[str, Any]]:
    options: BidirectionalReconstruction = context.options
    data = scaled(context.data.train.inputs)
    # Images need more components than points in a plane.
    latent = options.latent or LATENT.get(len(context.data.shape), 2)
    recipe = recipe_from(AliRecipe, options, latent=latent)
    generators = [context.generator("training", training) for training in trainings]
    models = [_model(context, variant, latent, each.initial_seed()) for each in generators]
    train_models(models, variant, data, recipe, generators)
    rows = []
    for model, training in zip(models, trainings, strict=True):
        for network in model.networks():
            network.eval()
        rows.append(_row(context, model, recipe, variant, training))
    return rows


def _row(
    context: penchant.Context, model: Model, recipe: AliRecipe, variant: str, training: int
) -> dict[str, Any]:
    """What a model makes of test samples and of the prior."""
    options: BidirectionalReconstruction = context.options
    # Draws of the judged model come from a stream of their own.
    judged = context.generator("judged", training)
    test = scaled(context.data.test.inputs)[: options.samples]
    z, again = _reconstructed(model, test, judged, recipe)
    made = _made(model, len(test), judged, recipe)
    finite = torch.isfinite(again).all() and torch.isfinite(made).all()
    if not finite:
        raise penchant.Error(
            f"{variant}, training {training}: the networks diverged; a smaller learning_rate than "
            f"{recipe.learning_rate:g} may help"
        )
    numbers = _judged(context, test, again)
    numbers |= _modes(context, test, made)
    numbers["samples"] = shown(made)
    numbers["reconstructions"] = shown(again)
    numbers["embeddings"] = z[:POINTS, :2]
    return numbers


def _judged(context: penchant.Context, test: Tensor, again: Tensor) -> dict[str, Any]:
    """Scores of reconstructions, and of the null: each with the sample after its own."""
    labels = context.data.test.labels[: len(test)]
    classify = _classifier(context)
    numbers: dict[str, Any] = _scores(test, again, labels, classify)
    following = again.roll(1, 0)
    others = _scores(test, following, labels, classify)
    for key, value in others.items():
        numbers[f"null-{key}"] = value
    return numbers


def _modes(context: penchant.Context, test: Tensor, made: Tensor) -> dict[str, float]:
    """Modes with their share of what the decoder makes, and for the null of as many test data."""
    train, classes = context.data.train, context.data.classes
    if not classes:
        return {}
    judge = _classifier(context)
    if test.ndim == 2:
        try:
            judge = normal_judge(scaled(train.inputs), train.labels, classes)
        except Refusal as error:
            context.warn(f"modes of samples are not counted: {error}")
            return {}
    assert judge is not None  # there are classes
    share = torch.bincount(train.labels, minlength=classes).to(torch.float64) / len(train.labels)
    covered, null = (coverage(judge(each), share, captured=CAPTURED) for each in (made, test))
    numbers = {}
    for key in ("modes", "modes-covered", "quality"):
        numbers[key], numbers[f"null-{key}"] = covered[key], null[key]
    if test.ndim == 4:
        # A classifier finds a class for everything.
        del numbers["quality"], numbers["null-quality"]
    return numbers


@torch.no_grad()
def _made(model: Model, count: int, generator: torch.Generator, recipe: AliRecipe) -> Tensor:
    """What the decoder makes of the prior."""
    device = next(model.decoder.parameters()).device
    z = normal(count, recipe.latent, generator, device)
    return torch.cat([model.decoder(chunk) for chunk in z.split(CHUNK)])


@torch.no_grad()
def _reconstructed(
    model: Model, test: Tensor, generator: torch.Generator, recipe: AliRecipe
) -> tuple[Tensor, Tensor]:
    """What the encoder infers, and the decoder's answer to it."""
    inferred, again = [], []
    for chunk in test.split(CHUNK):
        z = model.infer(chunk, generator, recipe.noise_inputs)
        inferred.append(z)
        again.append(model.decoder(z))
    return torch.cat(inferred), torch.cat(again)


def _scores(
    test: Tensor, again: Tensor, labels: Tensor, classify: Classify | None
) -> dict[str, float]:
    squares = (again - test).square().flatten(1).sum(1)
    pointwise = {"error": squares, "distance": squares.sqrt()}
    # Images too small for one window have no similarity.
    if test.ndim == 4 and scales_for(min(test.shape[2:])):
        pointwise["similarity"], _ = ms_ssim(test, again, span=2.0)
    scores = {}
    for key, values in pointwise.items():
        scores[key] = float(values.mean())
        scores[f"{key}-stderr"] = float(values.std()) / math.sqrt(len(values))
    if classify is not None:
        right = classify(again) == labels
        scores["accuracy"] = float(right.double().mean())
    return scores


def _classifier_network(
    options: BidirectionalReconstruction, shape: tuple[int, ...], classes: int
) -> nn.Module:
    if len(shape) != 3:
        return perceptron([math.prod(shape), 128, 128, classes])
    widths = [min(width, WIDEST) for width in options.channels[:2]]
    return Downwards(shape, widths, classes)


def _classifier_state(
    options: BidirectionalReconstruction, context: penchant.Context
) -> dict[str, Tensor]:
    """Weights of a classifier of the real samples, trained once for all shards."""
    data = context.data
    if not data.classes:
        return {}
    generator = context.generator("classifier")
    inputs, labels = scaled(data.train.inputs), data.train.labels
    network = constructed(
        lambda: _classifier_network(options, data.shape, data.classes), generator.initial_seed()
    )
    network = network.to(inputs.device)

    def batch() -> tuple[Tensor, Tensor]:
        rows = torch.randint(len(inputs), (BATCH,), generator=generator, device="cpu")
        rows = rows.to(inputs.device)
        return inputs[rows], labels[rows]

    train_classifier(network, batch, steps=options.classifier_steps, learning_rate=LEARNING_RATE)
    # How far the judge itself can be trusted stands in the result.
    classify = classify_with(network, chunk=CHUNK)
    right = classify(scaled(data.test.inputs)) == data.test.labels
    context.conventions["accuracy of the classifier on test samples"] = (
        f"{float(right.double().mean()):.4f}"
    )
    return dict(network.state_dict())


def _classifier(context: penchant.Context) -> Classify | None:
    """Which label does a reconstruction have?"""
    data = context.data
    if not data.classes:
        return None

    def empty() -> nn.Module:
        return _classifier_network(context.options, data.shape, data.classes)

    network = constructed(empty, 0)
    network.to(context.device).load_state_dict(dict(context.shared))
    return classify_with(network.eval(), chunk=CHUNK)


def _model(context: penchant.Context, variant: str, latent: int, seed: int) -> Model:
    """Networks of a seed, each with its own number, whether or not the variant has it."""
    options: BidirectionalReconstruction = context.options
    shape = context.data.shape
    if len(shape) == 3 and not options.perceptrons:
        makers = _image_makers(options, shape, latent)
    else:
        makers = _point_makers(options, shape, latent)
    if variant != "mine":
        makers["statistics"] = None
    if variant != "alice-adversarial":
        makers["pair_discriminator"] = None
    # A network's seed depends on its position in the list, not on the variant.
    made = {}
    for number, (name, make) in enumerate(makers.items()):
        if make is not None:
            made[name] = constructed(make, seed + number).to(context.device)
    return Model(**made)


Makers = dict[str, Callable[[], nn.Module] | None]


def _perceptron_widths(
    options: BidirectionalReconstruction, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Widths of all hidden layers where networks are perceptrons."""
    if len(shape) == 3 and not options.perceptrons:
        return None
    return (*options.generator, *options.discriminator)


def _point_makers(
    options: BidirectionalReconstruction, shape: tuple[int, ...], latent: int
) -> Makers:
    """Perceptrons; of images they see the pixels in a row, and the decoder's end is tanh."""
    widths, judges = options.generator, options.discriminator
    activation = options.activation
    size = math.prod(shape)

    def decoder() -> nn.Module:
        batch_norm = options.generator_normalization == "batch"
        layers = perceptron([latent, *widths, size], batch_norm=batch_norm, activation=activation)
        if len(shape) == 3:
            layers = nn.Sequential(*layers, nn.Tanh(), nn.Unflatten(1, shape))
        return layers

    def joined(inputs: int, hidden: tuple[int, ...], outputs: int) -> Callable[[], nn.Module]:
        return lambda: Joined([inputs, *hidden, outputs], activation=activation)

    return {
        "encoder": joined(size + options.noise_inputs, widths, latent),
        "decoder": decoder,
        "discriminator": joined(size + latent, judges, 1),
        "statistics": joined(size + latent, judges, 1),
        "pair_discriminator": joined(2 * size, judges, 1),
    }


def _image_makers(
    options: BidirectionalReconstruction, shape: tuple[int, ...], latent: int
) -> Makers:
    channels, hidden = options.channels, options.hidden
    doubled = (2 * shape[0], *shape[1:])

    def encoder() -> nn.Module:
        return Downwards(shape, channels, latent, maps=options.noise_inputs, hidden=channels[-1])

    def statistics() -> nn.Module:
        activation = options.statistics_activation
        return ConditionedScores(shape, latent, options.statistics_channels, None, activation)

    return {
        "encoder": encoder,
        "decoder": lambda: Upwards(latent, shape, channels),
        "discriminator": lambda: Downwards(
            shape, channels, 1, joined=latent, hidden=hidden, activation="leaky-relu"
        ),
        "statistics": statistics,
        "pair_discriminator": lambda: Downwards(
            doubled, channels, 1, hidden=hidden, activation="leaky-relu"
        ),
    }
