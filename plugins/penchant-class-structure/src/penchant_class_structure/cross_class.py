"""The probe `cross-class`: G, its four components, and what is left of its spectrum without each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.class_means import cross_class_weights
from penchant_numerics.data import Samples
from penchant_numerics.trainer import Trainer, evaluate
from torch import Tensor, nn

from penchant_class_structure import CrossClass
from penchant_class_structure._choice import chosen, fractions_to_steps, measured
from penchant_class_structure._decomposition import Decomposition, streamed_pair_products
from penchant_class_structure._log_spectra import knockout, log_spectra, measure_of, smoothed
from penchant_class_structure._outliers import (
    Gap,
    Leading,
    largest_gap,
    leading_pairs,
    share_in_span,
)
from penchant_class_structure._sample_space import sample_space

COMPONENTS = ("class", "cross", "diagonal")


@dataclass(frozen=True)
class Structure:
    """What one network shows on some samples."""

    decomposition: Decomposition
    values: dict[str, Tensor]  # eigenvalues of components
    within: Tensor  # (C,), Tr G_within,c / n_c
    leading: Leading  # 2 C + 1 pairs of G, as far as there are
    traces: dict[str, float]


def run(options: Any, context: Any) -> penchant.Result:
    """Measure along one training, then at other sample sizes; the end of the training in full."""
    total = context.training.total_steps(len(context.data.train.inputs))
    panels, final = [], None
    for step, network in context.trained(fractions_to_steps(options.fractions, total)):
        final = measured(network, options, context), step
        if options.fractions:
            panels.append(
                {
                    "size": 0,
                    "step": step,
                    **_panel(*_structured(final[0], options, context), options, context),
                }
            )
    assert final is not None
    samples, structure = _structured(final[0], options, context)
    quantities, arrays = _whole(samples, structure, options, context)
    loss, accuracy = evaluate(final[0], samples)
    quantities |= {
        "loss": penchant.Quantity(loss),
        "accuracy": penchant.Quantity(accuracy, null=1 / context.data.classes),
    }
    items = [
        {"size": size, "options": {**options.options(), "per_class": None, "samples": "train"}}
        for size in options.sizes
    ]
    panels += [row for rows in context.map(size_panels, items) for row in _rows(rows)]
    if panels:
        arrays |= {
            f"panel-{name}": np.stack([np.asarray(row[name]) for row in panels])
            for name in panels[0]
        }
    return penchant.Result(quantities, arrays, conventions=_conventions(structure, options))


def _structured(
    network: nn.Module, options: Any, context: Any, samples: Samples | None = None
) -> tuple[Samples, Structure]:
    """The decomposition on the chosen samples."""
    data = context.data
    given = (
        samples if samples is not None else data.train if options.samples == "train" else data.test
    )
    samples = chosen(given, options.per_class, data.classes)
    if data.outputs < 2:
        raise penchant.Error(f"cross-class needs an output for each class, found {data.outputs}")
    return samples, _structure(network, samples, options, context)


def _structure(network: nn.Module, samples: Samples, options: Any, context: Any) -> Structure:
    space = sample_space(network, samples.inputs, exact_limit=options.exact_limit)
    weights = cross_class_weights(space.outputs, samples.labels)
    decomposition = Decomposition(space, weights)
    M = (
        decomposition.pair_products()
        if space.exact
        else streamed_pair_products(network, samples.inputs, weights)
    )
    C = decomposition.classes
    counts = {"class": C, "cross": C * (C - 2), "diagonal": C}
    values = {
        part: decomposition.component_values(M, (part,), count).clamp(min=0)
        for part, count in counts.items()
    }
    values["means"] = decomposition.component_values(M, COMPONENTS, C * (C - 1)).clamp(min=0)
    values["pairs"] = torch.linalg.eigvalsh(M).flip(0)
    by_class = torch.zeros(C, device="cpu", dtype=torch.float64).index_add(
        0, samples.labels.cpu(), space.traces
    ) / len(space.traces)
    within = by_class - M.diagonal().reshape(C, C).sum(1)
    traces = {"total": float(by_class.sum()), "within": float(within.sum())}
    traces |= {part: float(values[part].sum()) for part in COMPONENTS}
    leading = leading_pairs(
        space.gram, 2 * C + 1, generator=context.generator("leading"), products=options.products
    )
    if not leading.converged:
        worst = float(leading.residuals.max())
        context.warn(
            f"leading eigenvalues of G did not converge in {options.products} products: residuals to {worst:.2g}"
        )
    return Structure(decomposition, values, within / weights.counts.cpu(), leading, traces)


def _whole(
    samples: Samples, found: Structure, options: Any, context: Any
) -> tuple[dict[str, penchant.Quantity], dict[str, Any]]:
    """Everything about the network at the end of its training."""
    space, C = found.decomposition.space, found.decomposition.classes
    arrays: dict[str, Any] = {
        f"eigenvalues-{name}": found.values[name] for name in (*COMPONENTS, "means")
    }
    arrays |= {
        "within-average": found.within,
        "top-eigenvalues": found.leading.values,
        "top-residuals": found.leading.residuals,
    }
    spectrum = _spectrum(space.gram.matrix, space.size) if space.exact else None  # type: ignore[attr-defined]
    if spectrum is not None:
        arrays["spectrum"] = spectrum
    densities = log_spectra(
        found.decomposition, spectrum, found.values["pairs"], options, context.generator
    )
    arrays["density-grid"] = densities["total"].grid
    for name, density in densities.items():
        arrays[f"density-{name}"] = density.density
        if density.stderr is not None:
            arrays[f"density-{name}-stderr"] = density.stderr
    values = found.leading.values if spectrum is None else spectrum
    context.conventions["Lanczos"] = (
        f"densities: {densities['total'].variant} ({densities['without-class'].variant} for knockouts)"
    )
    gap = largest_gap(values, min(2, len(values) - 1), 2 * C)
    quantities = _quantities(found, gap, len(samples.labels), space.traces)
    if spectrum is not None and len(values) > 2 * C + 2:
        mini = largest_gap(values, 2 * C + 1, 2 * C**2)
        quantities["outliers-cross"] = penchant.Quantity(mini.position)
        quantities["outliers-cross-gap"] = penchant.Quantity(mini.ratio)
    return quantities | _attribution(samples, found, options, context), arrays


def _spectrum(K: Tensor, size: int) -> Tensor:
    """All eigenvalues of G that are not zero to rounding, descending."""
    values = torch.linalg.eigvalsh(K).flip(0).double().cpu()
    return values[values > torch.finfo(K.dtype).eps * len(K) * values[0]][:size]


def _quantities(
    found: Structure, gap: Gap, count: int, sample_traces: Tensor
) -> dict[str, penchant.Quantity]:
    stderr = float(sample_traces.std()) / count**0.5
    quantities = {f"trace-{name}": penchant.Quantity(value) for name, value in found.traces.items()}
    quantities["trace-total"] = penchant.Quantity(
        found.traces["total"], stderr=stderr, over="samples", count=count
    )
    bulk = float(found.within.mean())
    quantities |= {
        "outliers": penchant.Quantity(gap.position),
        "gap": penchant.Quantity(gap.ratio),
        "gap-margin": penchant.Quantity(gap.margin),
        "outliers-to-bulk": penchant.Quantity(float(found.values["class"].mean()) / bulk),
    }
    if len(found.values["cross"]):
        quantities["mini-bulk-to-bulk"] = penchant.Quantity(
            float(found.values["cross"].mean()) / bulk
        )
    return quantities


def _attribution(
    samples: Samples, found: Structure, options: Any, context: Any
) -> dict[str, penchant.Quantity]:
    """Are the outliers made by class means? Beside them, what means of permuted classes would do."""
    values = _attributed(found.decomposition, found.leading, options, context)
    nulls = []
    for number in range(options.permutations):
        order = torch.randperm(
            len(samples.labels), generator=context.generator("permutation", number), device="cpu"
        )
        labels = samples.labels[order.to(samples.labels.device)]
        space = found.decomposition.space
        nulls.append(
            _attributed(
                Decomposition(space, cross_class_weights(space.outputs, labels)),
                found.leading,
                options,
                context,
            )
        )
    quantities = {"largest": penchant.Quantity(float(found.leading.values[0]))}
    for name, value in values.items():
        null = torch.tensor([each[name] for each in nulls], device="cpu", dtype=torch.float64)
        spread = {} if len(nulls) < 2 else {"null_stderr": float(null.std()) / len(nulls) ** 0.5}
        quantities[name] = penchant.Quantity(
            value, null=float(null.mean()) if len(nulls) else None, **spread
        )
    return quantities


def _attributed(
    decomposition: Decomposition, leading: Leading, options: Any, context: Any
) -> dict[str, float]:
    C, rows = decomposition.classes, decomposition.class_rows()
    top = Leading(leading.values[:C], leading.vectors[:C], leading.residuals[:C], leading.converged)
    left = knockout(decomposition, "class", options.knockout)
    largest = leading_pairs(
        left, 1, generator=context.generator("knockout"), products=options.products
    )
    share = share_in_span(top, rows, decomposition.space.inner(rows))
    return {"class-share": share, "largest-without-class": float(largest.values[0])}


def _panel(samples: Samples, found: Structure, options: Any, context: Any) -> dict[str, Any]:
    """What one panel of figure 6 shows."""
    C, space = found.decomposition.classes, found.decomposition.space
    measure = measure_of(space.gram, space.size, options, context.generator("density", "total"))
    density = smoothed(measure, options)
    top = torch.zeros(C, device="cpu", dtype=torch.float64)
    top[: len(found.leading.values)] = found.leading.values[:C]
    return {
        "samples": len(samples.labels),
        "top": top,
        "means": found.values["means"],
        "within": found.within,
        "grid": density.grid,
        "density": density.density,
    }


def size_panels(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """A training on the first `size` samples of each class, and its panels: arrays with one row for each step."""
    options, data = CrossClass.bind(item["options"]), context.data
    samples = chosen(data.train, item["size"], data.classes)
    trainer = Trainer(
        context.network(),
        samples,
        context.training,
        seed=context.generator("training", item["size"]).initial_seed(),
    )
    rows = []
    for step in fractions_to_steps(options.fractions, trainer.total):
        trainer.run(until=step)
        network = measured(trainer.network, options, context)
        panel = _panel(*_structured(network, options, context, samples), options, context)
        rows.append({"size": item["size"], "step": trainer.step, **panel})
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def _rows(arrays: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {name: array[number] for name, array in arrays.items()}
        for number in range(len(arrays["step"]))
    ]


def _conventions(found: Structure, options: Any) -> dict[str, str]:
    C = found.decomposition.classes
    return {
        **found.decomposition.space.notes,
        "samples": f"{options.samples}, {options.per_class or 'all'} of each class",
        "density": f"of log(eigenvalue + {options.epsilon:g}), natural logarithm",
        "knockouts": f"class and cross by {options.knockout}, global mean by projection, within by subtraction",
        "within-average": "trace of the samples of a class in G_within, over their number",
        "outliers": f"largest ratio of neighbours after 2 to {2 * C} eigenvalues; expected {C}",
        "outliers-cross": f"largest ratio of neighbours after {2 * C + 1} to {2 * C**2} eigenvalues; expected {C * (C - 1)}",
        "null": f"labels permuted {options.permutations} times",
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Log spectra with knockouts (figure 5), components along training and sizes (figure 6), the leading eigenvalues."""
    from penchant_class_structure import cross_class_figures as figures

    drawn = {"log-spectra": figures.knockouts(result), "eigenvalues": figures.eigenvalues(result)}
    if "panel-step" in result.arrays:
        drawn["panels"] = figures.panels(result)
    return drawn
