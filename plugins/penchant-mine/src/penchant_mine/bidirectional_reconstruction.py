"""The probe `bidirectional-reconstruction`: how well models that infer and generate give back what they are shown."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from torch import Tensor, nn
from torch.nn import functional

from penchant_mine import generative_figures
from penchant_mine._adversaries import (
    ConditionedScores,
    Downwards,
    Joined,
    Upwards,
    perceptron,
    seeded,
)
from penchant_mine._bidirectional import AliRecipe, Model, normal, train_model
from penchant_mine._msssim import ms_ssim, scales_for

TITLES = {
    "data": "data",
    "ali": "ALI",
    "alice-l2": "ALICE (l2)",
    "alice-adversarial": "ALICE (adversarial)",
    "mine": "ALI + MINE",
}
QUOTED = {  # table 5.2, by the shape of the images: error, accuracy in per cent, MS-SSIM
    (1, 28, 28): {
        "ali": (14.24, 45.95, 0.97),
        "alice-l2": (3.20, 99.03, 0.97),
        "alice-adversarial": (5.20, 98.17, 0.98),
        "mine": (9.73, 96.10, 0.99),
    },
    (3, 64, 64): {
        "ali": (53.75, 57.49, 0.81),
        "alice-l2": (8.01, 32.22, 0.93),
        "alice-adversarial": (92.56, 48.95, 0.51),
        "mine": (36.11, 76.08, 0.99),
    },
}
KEYS = {
    "error": "reconstruction-error",
    "accuracy": "reconstruction-accuracy",
    "similarity": "ms-ssim",
}
POINTS, PICTURES = 2000, 64


def run(options: Any, context: Any) -> penchant.Result:
    """Train every variant `repeats` times, one shard each."""
    shared = attrs.asdict(options)
    items = [
        [variant, repeat, shared]
        for variant in options.variants
        for repeat in range(options.repeats)
    ]
    found = list(context.map(measure, items))
    quantities, arrays = (
        {},
        {"samples-data": _shown(_scaled(context.data.test.inputs)).cpu().numpy()},
    )
    for number, variant in enumerate(options.variants):
        rows = found[number * options.repeats : (number + 1) * options.repeats]
        for key, label in KEYS.items():
            if key in rows[0]:
                quantities[f"{label}-{variant}"] = _quantity(
                    [row[key] for row in rows], [row.get(f"null-{key}") for row in rows]
                )
        arrays |= {
            f"{key}-{variant}": rows[0][key] for key in ("samples", "reconstructions", "embeddings")
        }
    arrays["labels"] = (
        (context.data.test.labels if context.data.classes else context.data.test.labels.flatten())
        .cpu()
        .numpy()[:POINTS]
    )
    _note(options, context)
    return penchant.Result(quantities, arrays)


def _note(options: Any, context: Any) -> None:
    context.conventions["reconstruction error"] = (
        "squared Euclidean distance, mean over test samples; images in [-1, 1]"
    )
    context.conventions["null"] = "reconstructions paired with other samples"
    context.conventions["scale"] = (
        f"{options.steps} steps of {options.batch} samples, {len(context.data.train.inputs)} training samples"
    )
    if len(context.data.shape) == 3 and (scales := scales_for(min(context.data.shape[1:]))):
        context.conventions["ms-ssim"] = (
            f"{scales} of 5 scales, as images are {context.data.shape[1]} x {context.data.shape[2]}"
        )


def _quantity(values: list[float], null: list[Any]) -> penchant.Quantity:
    numbers = np.array(values)
    stderr = float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else None
    nothing = {} if null[0] is None else {"null": float(np.mean(null))}
    return penchant.Quantity(
        float(numbers.mean()),
        stderr=stderr,
        over="independent trainings",
        count=len(numbers),
        **nothing,
    )


def measure(context: Any, item: Any) -> dict[str, Any]:
    """Train one model; judge its reconstructions of test samples, and those of other samples for the null."""
    variant, repeat, options = item
    data, recipe = (
        _scaled(context.data.train.inputs),
        AliRecipe(**{name: options[name] for name in AliRecipe.__dataclass_fields__}),
    )
    generator = context.generator("training", repeat)
    model = _model(options, context.data.shape, variant, generator.initial_seed(), data.device)
    train_model(model, variant, data, recipe, generator)
    for network in vars(model).values():
        if network is not None:
            network.eval()
    test, labels = (
        _scaled(context.data.test.inputs)[: options["judged"]],
        context.data.test.labels[: options["judged"]],
    )
    judged = context.generator("judged", repeat)
    with torch.no_grad():
        parts = [model.reconstruct(part, judged, recipe.noise) for part in test.split(1000)]
        z, again = (torch.cat(each) for each in zip(*parts))
        made = model.decoder(normal(min(len(test), POINTS), recipe.latent, judged, data.device))
    if not (torch.isfinite(again).all() and torch.isfinite(made).all()):
        raise penchant.Error(
            f"{variant}, training {repeat}: the networks diverged; a smaller learning_rate than {recipe.learning_rate:g} may help"
        )
    classify = _classifier(context, options, data)
    scores = _scores(test, again, labels, classify)
    null = {
        f"null-{key}": value
        for key, value in _scores(test, again.roll(1, 0), labels, classify).items()
    }
    kept = {"samples": _shown(made), "reconstructions": _shown(again), "embeddings": z[:POINTS, :2]}
    return {**scores, **null, **kept}


def _scores(test: Tensor, again: Tensor, labels: Tensor, classify: Any) -> dict[str, float]:
    found = {"error": float((again - test).square().flatten(1).sum(1).mean())}
    if classify is not None:
        found["accuracy"] = float((classify(again) == labels).double().mean())
    if test.ndim == 4 and scales_for(min(test.shape[2:])):
        found["similarity"] = float(ms_ssim(test, again, span=2.0)[0].mean())
    return found


def _classifier(context: Any, options: Any, data: Tensor) -> Any:
    """A classifier of the real samples, trained here: which label does a reconstruction have?"""
    classes, labels, shape = context.data.classes, context.data.train.labels, context.data.shape
    if not classes:
        return None
    generator = context.generator("classifier")
    widths = [min(width, 64) for width in options["channels"][:2]]
    make = (
        (lambda: Downwards(shape, widths, classes))
        if len(shape) == 3
        else (lambda: perceptron([math.prod(shape), 128, 128, classes]))
    )
    network = seeded(generator.initial_seed(), make, data.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(options["classifier_steps"]):
        rows = torch.randint(len(data), (100,), generator=generator, device="cpu").to(data.device)
        loss = functional.cross_entropy(network(data[rows]), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    network.eval()

    @torch.no_grad()
    def classify(samples: Tensor) -> Tensor:
        return torch.cat([network(part).argmax(1) for part in samples.split(1000)])

    right = float(
        (classify(_scaled(context.data.test.inputs)) == context.data.test.labels).double().mean()
    )
    context.conventions["accuracy of the classifier on test samples"] = f"{right:.4f}"
    return classify


def _scaled(inputs: Tensor) -> Tensor:
    return 2 * inputs - 1 if inputs.ndim == 4 else inputs


def _shown(samples: Tensor) -> Tensor:
    return samples[:PICTURES] if samples.ndim == 4 else samples[:POINTS]


def _model(
    options: Any, shape: tuple[int, ...], variant: str, seed: int, device: torch.device
) -> Model:
    makers = (
        _image_makers(options, shape)
        if len(shape) == 3
        else _point_makers(options, math.prod(shape))
    )
    wanted = {"encoder", "decoder", "discriminator"}
    wanted |= (
        {"statistics"}
        if variant == "mine"
        else {"pair_discriminator"}
        if variant == "alice-adversarial"
        else set()
    )
    made: dict[str, nn.Module] = {}
    for number, (name, make) in enumerate(makers.items()):
        if name in wanted:
            made[name] = seeded(seed + number, make, device)
    return Model(**made)


def _point_makers(options: Any, size: int) -> dict[str, Any]:
    latent, widths, judges = options["latent"], options["generator"], options["discriminator"]
    return {
        "encoder": lambda: Joined([size + options["noise"], *widths, latent]),
        "decoder": lambda: perceptron([latent, *widths, size], batch_norm=True),
        "discriminator": lambda: Joined([size + latent, *judges, 1]),
        "statistics": lambda: Joined([size + latent, *judges, 1]),
        "pair_discriminator": lambda: perceptron([2 * size, *judges, 1]),
    }


def _image_makers(options: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    latent, channels, hidden = options["latent"], options["channels"], options["hidden"]
    doubled = (2 * shape[0], *shape[1:])
    return {
        "encoder": lambda: Downwards(
            shape, channels, latent, maps=options["noise"], hidden=channels[-1]
        ),
        "decoder": lambda: Upwards(latent, shape, channels),
        "discriminator": lambda: Downwards(
            shape, channels, 1, joined=latent, hidden=hidden, slope=0.2
        ),
        "statistics": lambda: ConditionedScores(
            shape, latent, options["statistics"], 0, options["statistics_activation"]
        ),
        "pair_discriminator": lambda: Downwards(doubled, channels, 1, hidden=hidden, slope=0.2),
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Reconstructions and samples of every variant, embeddings coloured by label, and the table."""
    names = [
        name.removeprefix("samples-")
        for name in result.arrays
        if name.startswith("samples-") and name != "samples-data"
    ]
    quoted = QUOTED.get(result.arrays["samples-data"].shape[1:], {})
    return {
        "samples": generative_figures.samples(result, ["data", *names], titles=TITLES),
        "reconstructions": generative_figures.samples(result, names, "reconstructions-", TITLES),
        "embeddings": generative_figures.embeddings(result, names, TITLES),
        "table": generative_figures.reconstruction_table(result, names, TITLES, quoted, KEYS),
    }
