"""The probe `cross-class`: G, its four components, and its spectrum without each of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import memory
from penchant_numerics.jacobians import Modules
from penchant_numerics.linear_algebra import DENSE_UP_TO, Eigenpairs, leading_pairs
from torch import Tensor, nn

from penchant_class_structure.cross_class.component_quantities import (
    Components,
    attribution,
    component_quantities,
    gap_quantities,
    largest_eigenvalue,
)
from penchant_class_structure.cross_class.components_by_module import tables_by_module
from penchant_class_structure.cross_class.log_spectra import Smoothing, log_spectra, measure_of
from penchant_class_structure.declarations.cross_class import CrossClass
from penchant_class_structure.shared.decomposition import Decomposition, streamed_pair_products
from penchant_class_structure.shared.measured_network import (
    accuracy_on,
    check_cross_entropy,
    chosen,
    classes_measured,
    fractions_to_steps,
    loss_on,
    measured,
    of_classes,
    saying,
)
from penchant_class_structure.shared.multi_device import neighbours
from penchant_class_structure.shared.own_samples import bounded
from penchant_class_structure.shared.sample_space import sample_space

MEANS = ("class", "cross", "diagonal")
_TABLES = 4  # of the size of all inner products of means that are held at once


@dataclass(frozen=True)
class Structure:
    """What one network shows on some samples."""

    samples: Samples
    components: Components
    values: dict[str, Tensor]  # eigenvalues of components
    leading: Eigenpairs  # 2 C + 1 pairs of G, as far as there are


def run(options: CrossClass, context: penchant.Context) -> penchant.Result:
    """Measure along one training, then at other sample sizes; the end of the training in full."""
    check_cross_entropy(options, context)
    classes = classes_measured(options, context)
    given = bounded(getattr(context.data, options.split), options.per_class, context)
    samples = chosen(given, options.per_class, classes)
    _refuse_many_classes(classes, context)
    modules = Modules.of_option(options.parameters, context.network)
    network, panels = _along_training(samples, options, context)
    structure = _structure(network, samples, options, context)
    untrained = _untrained(structure, options, context)
    quantities, arrays = _whole(structure, untrained, options, context)

    # how far the training went
    quantities["loss"] = loss_on(network, samples, "cross-entropy")
    quantities[f"{options.split}-accuracy"] = accuracy_on(network, samples)

    # other sample sizes are other trainings, spread over workers
    for rows in context.map(size_panels, list(options.sizes)):
        panels += _rows(rows)
    if panels:
        arrays |= {f"panel-{name}": array for name, array in _stacked(panels).items()}
    tables = {}
    if modules is not None:
        names = modules.names(network)
        tables = tables_by_module(network, samples, names, _smoothing(options), options, context)
    conventions = _conventions(structure, untrained, options)
    return penchant.Result(quantities, arrays, tables=tables, conventions=conventions)


def _along_training(
    samples: Samples, options: CrossClass, context: penchant.Context
) -> tuple[nn.Module, list[dict[str, Any]]]:
    """The trained network, and a panel for each step that is evaluated on the way."""
    train = context.data.train
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(len(train.inputs))

    # panels are named by steps of the training, and by its samples per class
    counts = train.labels.bincount(minlength=context.data.classes)
    smallest = int(counts.min())
    steps = fractions_to_steps(options.fractions, total)
    panels: list[dict[str, Any]] = []
    network = None
    for step, trained in context.trained(steps):
        network = of_classes(measured(trained, options, context), options, context)
        if options.fractions:
            panel = _panel(_structure(network, samples, options, context), context)
            panels.append({"sizes": smallest, "steps": step, **panel})
    assert network is not None
    return network, panels


def _refuse_many_classes(classes: int, context: penchant.Context) -> None:
    """Products of all pairs of C x C means, and the means of a class: refuse them at once."""
    hint = "measure fewer classes, such as classes = 20"
    memory.require(
        _TABLES * 8 * classes**4,
        what=f"the inner products of {classes} x {classes} cross-class means",
        hint=hint,
        device=torch.device("cpu"),
    )
    # means are divided between parameters, which are not divided themselves
    largest = max(each.numel() for each in context.network().parameters())
    memory.require(
        2 * classes * largest * torch.finfo(context.dtype).bits // 8,
        what=f"the {classes} means of a class in a weight of {largest:,} numbers",
        hint=hint,
        device=context.device,
    )


def _components(
    network: nn.Module, samples: Samples, options: CrossClass, context: penchant.Context
) -> Components:
    """The decomposition, with means from the Gram matrix, or class by class from gradients."""
    with saying(context):
        space = sample_space(
            network,
            samples.inputs,
            exact_limit=options.exact_limit,
            devices=neighbours(context.device, options.devices),
        )
    decomposition = Decomposition.of(space, samples.labels)
    if space.exact:
        return Components.of(decomposition)
    M = streamed_pair_products(network, samples.inputs, decomposition.weights)
    return Components(decomposition, M)


def _untrained(
    structure: Structure, options: CrossClass, context: penchant.Context
) -> list[Components]:
    """The same of other networks at initialisation: classes of clustered data show there, too.

    None where K is not a matrix, or where every draw is the same network, such as a module of the
    user's own.
    """
    if not structure.components.decomposition.space.exact:
        return []
    networks = [context.network(1 + number) for number in range(options.permutations)]
    if len(networks) < 2 or _same_parameters(*networks[:2]):
        return []
    components = []
    for network in networks:
        fresh = of_classes(measured(network, options, context), options, context)
        components.append(_components(fresh, structure.samples, options, context))
    return components


def _same_parameters(first: nn.Module, second: nn.Module) -> bool:
    """Whether two networks have equal parameters."""
    pairs = zip(first.parameters(), second.parameters())
    return all(torch.equal(one, other) for one, other in pairs)


def _structure(
    network: nn.Module, samples: Samples, options: CrossClass, context: penchant.Context
) -> Structure:
    """The decomposition on the chosen samples."""
    components = _components(network, samples, options, context)
    decomposition = components.decomposition
    space = decomposition.space

    # outliers are searched among 2 C: one more shows the last gap
    leading = leading_pairs(
        space.gram,
        2 * decomposition.classes + 1,
        generator=context.generator("leading"),
        products=options.products,
        dense_up_to=DENSE_UP_TO if space.exact else 0,
    )
    if not bool(leading.converged.all()):
        worst = float(leading.residuals.max())
        context.warn(
            f"leading eigenvalues of G did not converge in {options.products} products: "
            f"residuals to {worst:.2g}"
        )
    return Structure(samples, components, _component_values(components), leading)


def _component_values(components: Components) -> dict[str, Tensor]:
    """Eigenvalues of each component, and of the sum of all means."""
    decomposition, M = components.decomposition, components.M
    C = decomposition.classes
    counts = {"class": C, "cross": C * (C - 2), "diagonal": C}
    values = {}
    for component, count in counts.items():
        values[component] = decomposition.component_values(M, (component,), count).clamp(min=0)

    # C (C - 1): a class's diagonal mean follows from its others
    values["means"] = decomposition.component_values(M, MEANS, C * (C - 1)).clamp(min=0)
    values["pairs"] = torch.linalg.eigvalsh(M).flip(0)
    return values


def _whole(
    structure: Structure,
    untrained: list[Components],
    options: CrossClass,
    context: penchant.Context,
) -> tuple[dict[str, penchant.Quantity], dict[str, Any]]:
    """Everything about the network at the end of its training."""
    decomposition = structure.components.decomposition
    space, C = decomposition.space, decomposition.classes
    arrays: dict[str, Any] = {
        f"eigenvalues-{name}": structure.values[name] for name in (*MEANS, "means")
    }
    arrays["within-average"] = structure.components.within_average
    arrays["top-eigenvalues"] = structure.leading.values
    arrays["top-residuals"] = structure.leading.residuals

    # all eigenvalues where K is a matrix, else the leading ones only
    spectrum = None
    if space.exact:
        spectrum = arrays["spectrum"] = _spectrum(space.matrix, space.size)
    arrays |= _densities(structure, spectrum, options, context)

    values = structure.leading.values if spectrum is None else spectrum
    quantities = component_quantities(structure.components, untrained, options, context)
    quantities |= gap_quantities(values, structure.leading, decomposition.labels, C)
    quantities["largest-gauss-newton"] = largest_eigenvalue(
        structure.leading, decomposition.labels, C
    )
    quantities |= attribution(structure.components, structure.leading, options, context)
    return quantities, arrays


def _spectrum(K: Tensor, size: int) -> Tensor:
    """All eigenvalues of G that are not zero to rounding, descending."""
    ascending = torch.linalg.eigvalsh(K)
    values = ascending.flip(0).double().cpu()

    # G has as many zeros as parameters that no sample moves
    rounding = torch.finfo(K.dtype).eps * len(K) * values[0]
    nonzero = values > rounding
    leading: Tensor = values[nonzero][:size]
    return leading


def _smoothing(options: CrossClass) -> Smoothing:
    return Smoothing(
        steps=options.lanczos_steps,
        starts=options.starts,
        points=options.grid_points,
        kappa=options.kappa,
        epsilon=options.epsilon,
    )


def _densities(
    structure: Structure, spectrum: Tensor | None, options: CrossClass, context: penchant.Context
) -> dict[str, Any]:
    """Log spectra with and without each component, on one grid."""
    # one grid for all, so that panels can be compared
    densities = log_spectra(
        structure.components.decomposition,
        spectrum=spectrum,
        pair_values=structure.values["pairs"],
        how=options.knockout,
        smoothing=_smoothing(options),
        generators=context.generator,
    )

    # a density that is exact and one by Lanczos look different
    total, left = densities["total"].variant, densities["without-class"].variant
    context.conventions["Lanczos"] = f"densities: {total} ({left} for knockouts)"
    arrays: dict[str, Any] = {"density-grid": densities["total"].grid}
    for name, density in densities.items():
        arrays[f"density-{name}"] = density.density
        if density.stderr is not None:
            arrays[f"density-{name}-stderr"] = density.stderr
    return arrays


def _panel(structure: Structure, context: penchant.Context) -> dict[str, Any]:
    """What one panel of figure 6 shows."""
    space = structure.components.decomposition.space
    C = structure.components.decomposition.classes
    smoothing = _smoothing(context.options)
    generator = context.generator("density", "total")
    density = smoothing.density(measure_of(space.gram, space.size, smoothing, generator))
    top = torch.zeros(C, device="cpu", dtype=torch.float64)
    top[: len(structure.leading.values)] = structure.leading.values[:C]
    return {
        "samples": len(structure.samples.labels),
        "top": top,
        "means": structure.values["means"],
        "within": structure.components.within_average,
        "grid": density.grid,
        "density": density.density,
    }


def size_panels(context: penchant.Context, size: int) -> dict[str, Any]:
    """A training on the first `size` samples of each class, and its panels: a row for each step."""
    options, data = context.options, context.data
    samples = chosen(data.train, size, classes_measured(options, context))
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(len(samples.inputs))
    steps = fractions_to_steps(options.fractions, total)
    rows = []

    # by the same recipe; of several rates the best for this size
    training = context.train(context.network(), samples, size, steps=steps, test=data.test)
    for step, trained in training:
        network = of_classes(measured(trained, options, context), options, context)
        structure = _structure(network, samples, options, context)
        rows.append({"sizes": size, "steps": step, **_panel(structure, context)})
    return _stacked(rows)


def _stacked(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays with an entry for each row, by name."""
    arrays = {}
    for name in rows[0]:
        column = [np.asarray(row[name]) for row in rows]
        arrays[name] = np.stack(column)
    return arrays


def _rows(arrays: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that were stacked."""
    rows = []
    count = len(arrays["steps"])
    for number in range(count):
        row = {name: array[number] for name, array in arrays.items()}
        rows.append(row)
    return rows


def _conventions(
    structure: Structure, untrained: list[Components], options: CrossClass
) -> dict[str, str]:
    decomposition = structure.components.decomposition
    C = decomposition.classes
    ratio = "largest ratio of neighbours after"
    return {
        **decomposition.space.notes,
        "samples": f"{options.split}, {options.per_class or 'all'} of each class",
        "density": f"of log(eigenvalue + {options.epsilon:g}), natural logarithm",
        "knockouts": f"class, cross and diagonal by {options.knockout}, global mean by projection, "
        "within by subtraction",
        "within-average": "trace of the samples of a class in G_within, over their number",
        "outliers": f"{ratio} 2 to {2 * C} eigenvalues; expected {C}",
        "outliers-cross": f"{ratio} {2 * C + 1} to {2 * C**2} eigenvalues; expected {C * (C - 1)}",
        "null": f"labels permuted {options.permutations} times",
        "null of ratios to the bulk": f"{len(untrained)} other networks at initialisation"
        if untrained
        else "labels permuted, because there are no untrained networks to compare with",
        "standard errors": "over samples of the same network, to first order; of class-share by "
        "leaving out groups of samples",
    }
