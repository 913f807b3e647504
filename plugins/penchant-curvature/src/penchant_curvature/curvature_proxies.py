"""The probe `curvature-proxies`: how well Kronecker-factored proxies stand for the Gauss-Newton matrix, layer by layer."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.eigenpairs import Eigenpairs, lanczos_eigenpairs
from penchant_numerics.safety import safe
from torch import Tensor

from penchant_curvature import _class_means, _spectra
from penchant_curvature._assembly import ALL
from penchant_curvature._columns import LARGEST
from penchant_curvature._curvature_operator import Curvature
from penchant_curvature._layers import coverage
from penchant_curvature.estimators import loss_of

EXACT = "ggn"
FEW = 3  # samples a class that carry the curvature, below which errors say little


def run(options: Any, context: Any) -> penchant.Result:
    """Measure layers one by one, spread over workers, and put them together."""
    names = [each.name for each in context.estimators("curvature")]
    if names.count(EXACT) != 1 or len(names) < 2 or len(set(names)) != len(names):
        raise penchant.Error(
            f"curvature-proxies compares {EXACT} with other estimators, each once; found {', '.join(names)}"
        )
    network, data = _network(context), chosen_samples(options, context)
    classes = context.data.classes
    if classes < 2:
        raise penchant.Error(
            f"curvature-proxies needs labels that are classes, found {context.data.outputs} numbers a sample"
        )
    layers = _shared_layers(context, network, data)[-options.last :]
    asked = {
        name: getattr(options, name)
        for name in (
            "part",
            "per_class",
            "steps",
            "starts",
            "leading",
            "permutations",
            "floor",
            "points",
        )
    }
    shards = list(context.map(measure_layer, [{"layer": layer, **asked} for layer in layers]))
    proxies = [name for name in names if name != EXACT]
    context.conventions.update(_conventions(options, layers, data, classes))
    arrays = _arrays(shards, proxies, classes)
    cosines = _cosines(shards, layers, classes)
    arrays.update(cosines)
    for name in proxies:
        _warn_of_unconverged(
            context, name, layers, [shard[f"converged-{name}"] for shard in shards]
        )
        context.conventions[f"spectra of {name}"] = _how(
            options, layers, [shard[f"exact-{name}"] for shard in shards]
        )
    missing = tuple(name for name, value in arrays.items() if not torch.isfinite(value).all())
    quantities = {"effective-samples": _effective_samples(context, network, data, classes)}
    quantities.update(_quantities(arrays, proxies, coverage(network, data.inputs).share))
    return penchant.Result(quantities, arrays, conventions=context.conventions, missing=missing)


def _network(context: Any) -> Any:
    """The trained network, safe to differentiate, batch-norm in evaluation mode."""
    *_, (_, network) = context.trained()
    return safe(network)


def chosen_samples(options: Any, context: Any) -> Samples:
    """The first samples of each class, in their order."""
    samples = getattr(context.data, options.part)
    if options.per_class is not None:
        samples = samples.first_of_each_class(options.per_class)
    rows = len(samples.inputs) * max(context.data.outputs, 2)
    if rows > LARGEST:
        raise penchant.Error(
            f"samples x classes must be at most {LARGEST} for exact spectra, found {rows}; use a smaller per_class"
        )
    return samples


@torch.no_grad()
def _effective_samples(
    context: Any, network: Any, data: Samples, classes: int
) -> penchant.Quantity:
    """(sum w)^2 / sum w^2 with w the trace of a sample's diag p - p p^T: how many samples carry the curvature of cross-entropy."""
    exact = next(each for each in context.estimators("curvature") if each.name == EXACT)
    if loss_of(exact.options, context) == "squared-error":
        return penchant.Quantity(float(len(data.labels)))
    outputs = torch.cat([network(part) for part in data.inputs.split(1024)]).double()
    outputs = (
        torch.cat([torch.zeros_like(outputs), outputs], dim=1) if outputs.shape[1] == 1 else outputs
    )
    p = outputs.softmax(1)
    weights = (p * (1 - p)).sum(1)
    count = float(weights.sum().square() / weights.square().sum())
    if count < FEW * classes:
        context.warn(
            f"{count:.1f} of {len(weights)} samples carry the curvature, less than {FEW} a class: errors of proxies depend on these few"
        )
    return penchant.Quantity(count)


def _shared_layers(context: Any, network: Any, data: Samples) -> list[str]:
    """Layers that all estimators have, in the order of the network."""
    found = [list(each(network, data)) for each in context.estimators("curvature")]
    layers = [name for name in found[0] if all(name in names for names in found)]
    if not layers:
        raise penchant.Error(
            f"the estimators have no layer in common, found {' and '.join(', '.join(names[:4]) for names in found)}"
        )
    order = {name: number for number, (name, _) in enumerate(network.named_modules())}
    return sorted(layers, key=lambda name: order.get(name, -1))


def measure_layer(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Everything about one layer."""
    options = SimpleNamespace(**item)
    network, data = _network(context), chosen_samples(options, context)
    classes = context.data.classes
    estimators = {each.name: each for each in context.estimators("curvature")}
    operators = {name: each(network, data)[options.layer] for name, each in estimators.items()}
    count = options.leading or 2 * classes + 1
    pairs = {
        name: _leading(A, count, context.generator("leading", options.layer, name))
        for name, A in operators.items()
    }
    found: dict[str, Any] = {"size": operators[EXACT].size}
    for name, A in operators.items():
        found[f"trace-{name}"] = A.trace().value
        found[f"leading-{name}"] = _padded(pairs[name].values, count)
        found[f"converged-{name}"] = bool(pairs[name].converged.all())
        found[f"outliers-{name}"], found[f"gap-{name}"] = _spectra.largest_gap(
            pairs[name].values, classes=classes
        )
        if name != EXACT:
            found[f"error-{name}"] = operators[EXACT].frobenius_distance(A, relative=True)
            found[f"alignment-{name}"] = operators[EXACT].alignment(A)
            found[f"overlap-{name}"] = _spectra.overlap(
                pairs[EXACT].vectors[:, :classes], pairs[name].vectors[:, :classes]
            )
            found[f"error-{name}-nulls"] = _nulls(
                context, options, network, data, estimators[name], operators, name
            )
    found.update(_densities(context, options, operators))
    found.update(_means(context, options, network, data, classes, estimators[EXACT].options))
    return found


def _leading(A: Any, count: int, generator: torch.Generator) -> Eigenpairs:
    """Leading pairs; an operator of another plugin may know products only."""
    if isinstance(A, Curvature):
        return A.eigenpairs(count, generator=generator)
    return lanczos_eigenpairs(A, min(count, A.size), generator=generator, order="largest")


def _padded(values: Tensor, count: int) -> Tensor:
    return torch.cat([values, values.new_zeros(max(0, count - len(values)))])


def _nulls(
    context: Any,
    options: Any,
    network: Any,
    data: Samples,
    estimator: Any,
    operators: dict[str, Any],
    name: str,
) -> Tensor:
    """Relative errors of the proxy with labels permuted, where it uses labels."""
    if not getattr(operators[name], "by_class", False):
        return torch.zeros(0, device="cpu", dtype=torch.float64)
    errors = []
    for number in range(options.permutations):
        order = torch.randperm(
            len(data.labels), generator=context.generator("permutation", number), device="cpu"
        )
        permuted = Samples(data.inputs, data.labels[order.to(data.labels.device)])
        errors.append(
            operators[EXACT].frobenius_distance(
                estimator(network, permuted)[options.layer], relative=True
            )
        )
    return torch.tensor(errors, device="cpu", dtype=torch.float64)


def _densities(context: Any, options: Any, operators: dict[str, Any]) -> dict[str, Any]:
    """Log densities of all operators on one grid."""
    steps, starts = options.steps, options.starts
    ordered = [EXACT, *(name for name in operators if name != EXACT)]
    spectra = [
        _spectra.spectrum(
            operators[name],
            generator=context.generator("spectrum", options.layer, name),
            steps=steps,
            starts=starts,
        )
        for name in ordered
    ]
    grid = _spectra.common_grid(spectra, floor=options.floor, points=options.points, steps=steps)
    found: dict[str, Any] = {"grid": grid.centres}
    for name, each in zip(ordered, spectra):
        density, stderr = _spectra.log_density(each, grid)
        found[f"spectrum-{name}"], found[f"exact-{name}"] = density, each.exact
        found[f"spectrum-{name}-stderr"] = torch.zeros_like(density) if stderr is None else stderr
    return found


def _means(
    context: Any, options: Any, network: Any, data: Samples, classes: int, exact: Any
) -> dict[str, Any]:
    """Inner products of class means; none for the squared error, whose gradients have no classes."""
    if (
        options.layer == ALL
        or loss_of(exact, context) != "cross-entropy"
        or len(data.labels.unique()) < classes
    ):
        return {}
    found = _class_means.mean_products(
        network, data, options.layer, classes=classes, bias=exact.bias, batch=exact.batch
    )
    return {
        f"means-{name}": getattr(found, name)
        for name in ("inner", "gradients", "errors", "features")
    }


def _arrays(shards: list[dict[str, Any]], proxies: list[str], classes: int) -> dict[str, Tensor]:
    """One row a layer."""

    def rows(name: str) -> Tensor:
        return torch.stack(
            [torch.as_tensor(shard[name], device="cpu", dtype=torch.float64) for shard in shards]
        )

    size = rows("size")
    arrays = {
        "layer-parameters": size,
        "layer-overlap-null": (classes / size).clamp(max=1.0),
        "spectrum-grid": rows("grid"),
    }
    for name in (EXACT, *proxies):
        shown = "exact" if name == EXACT else name
        arrays[f"layer-trace-{shown}"] = rows(f"trace-{name}")
        arrays[f"layer-outliers-{shown}"], arrays[f"layer-gap-{shown}"] = (
            rows(f"outliers-{name}"),
            rows(f"gap-{name}"),
        )
        arrays[f"leading-{shown}"] = rows(f"leading-{name}")
        arrays[f"spectrum-{shown}"], arrays[f"spectrum-{shown}-stderr"] = (
            rows(f"spectrum-{name}"),
            rows(f"spectrum-{name}-stderr"),
        )
    for name in proxies:
        arrays.update(
            {
                f"layer-{kind}-{name}": rows(f"{kind}-{name}")
                for kind in ("error", "alignment", "overlap")
            }
        )
        arrays[f"layer-shift-{name}"] = _shift(
            arrays["leading-exact"], arrays[f"leading-{name}"], classes
        )
        nulls = rows(f"error-{name}-nulls")  # (layers, permutations)
        if nulls.shape[1]:
            arrays[f"layer-error-{name}-null"] = nulls.mean(1)
        if nulls.shape[1] > 1:
            arrays[f"layer-error-{name}-null-stderr"] = nulls.std(1) / math.sqrt(nulls.shape[1])
    return arrays


def _shift(exact: Tensor, proxy: Tensor, classes: int) -> Tensor:
    """Mean |log10 lambda_proxy - log10 lambda_exact| over the first C eigenvalues that are not zero to rounding in the exact spectrum."""
    first, second = exact[:, :classes], proxy[:, :classes]
    real = first > 1e-12 * first[:, :1]
    away = (second.clamp(min=1e-300).log10() - first.clamp(min=1e-300).log10()).abs() * real
    return away.sum(1) / real.sum(1).clamp(min=1)


def _cosines(shards: list[dict[str, Any]], layers: list[str], classes: int) -> dict[str, Tensor]:
    """Cosines by layer and over all, beside them those with the features of another class."""
    if any("means-inner" not in shard for shard in shards):
        return {}
    names = ("inner", "gradients", "errors", "features")
    parts = [
        _class_means.MeanProducts(
            *(
                torch.as_tensor(shard[f"means-{name}"], device="cpu", dtype=torch.float64)
                for name in names
            )
        )
        for shard in shards
    ]
    found = torch.stack(
        [*(each.cosines() for each in parts), _class_means.add(parts)]
    )  # (layers + 1, C, C + 1, C)
    own = found.diagonal(dim1=1, dim2=3).transpose(
        1, 2
    )  # (layers + 1, C, C + 1), features of the class itself
    other = (found.sum(3) - own) / (classes - 1)
    return {
        "cosine-class": own[:-1, :, -1],
        "cosine-class-null": other[:-1, :, -1],
        "cosine-cross": own[:-1, :, :-1],
        "cosine-cross-null": other[:-1, :, :-1],
        "cosine-class-all": own[-1, :, -1],
        "cosine-class-all-null": other[-1, :, -1],
        "cosine-cross-all": own[-1, :, :-1],
        "cosine-cross-all-null": other[-1, :, :-1],
    }


def _quantities(
    arrays: dict[str, Tensor], proxies: list[str], share: float
) -> dict[str, penchant.Quantity]:
    found = {"covered": penchant.Quantity(share)}
    for name in proxies:
        errors, null = arrays[f"layer-error-{name}"], arrays.get(f"layer-error-{name}-null")
        spread = arrays.get(f"layer-error-{name}-null-stderr")
        last = (
            {}
            if null is None
            else {
                "null": float(null[-1]),
                "null_stderr": None if spread is None else float(spread[-1]),
            }
        )
        found[f"last-error-{name}"] = penchant.Quantity(float(errors[-1]), **last)
        found[f"mean-error-{name}"] = penchant.Quantity(
            float(errors.mean()), null=None if null is None else float(null.mean())
        )
    if {"kfac", "cfac"} <= set(proxies):
        better = arrays["layer-error-cfac"] < arrays["layer-error-kfac"]
        found["cfac-better"] = penchant.Quantity(float(better.double().mean()))
    for kind in ("class", "cross"):
        if (values := arrays.get(f"cosine-{kind}-all")) is not None and torch.isfinite(
            values
        ).all():
            null = arrays[f"cosine-{kind}-all-null"]
            wanted = (
                torch.ones_like(values, dtype=torch.bool)
                if kind == "class"
                else ~torch.eye(len(values), device="cpu", dtype=torch.bool)
            )
            found[f"cosine-{kind}"] = penchant.Quantity(
                float(values[wanted].mean()), null=float(null[wanted].mean())
            )
    return found


def _conventions(options: Any, layers: list[str], data: Samples, classes: int) -> dict[str, str]:
    counts = torch.bincount(data.labels, minlength=classes).tolist()
    return {
        "layers": ", ".join(layers),
        "samples": f"{len(data.labels)} of the {options.part} part, {min(counts)} to {max(counts)} of each class",
        "relative error": "Frobenius norm of the difference over that of the exact matrix",
        "batch-norm": "running statistics (evaluation mode)",
        "outliers": "position in 2..2C of the largest gap in log eigenvalue",
        "convolutions": "expanded over positions",
        "null of errors": "labels permuted",
        "null of cosines": "features of another class, mean over these",
    }


def _how(options: Any, layers: list[str], exact: list[Any]) -> str:
    late = [layer for layer, done in zip(layers, exact) if not done]
    return (
        f"Lanczos of {options.steps} steps and {options.starts} start vectors in {', '.join(late)}, else exact"
        if late
        else "exact"
    )


def _warn_of_unconverged(context: Any, name: str, layers: list[str], converged: list[Any]) -> None:
    late = [layer for layer, done in zip(layers, converged) if not done]
    if late:
        context.warn(f"leading eigenvalues of {name} did not converge in {', '.join(late)}")


def plot(result: penchant.Result) -> dict[str, Any]:
    """Spectra on top of each other, errors and traces by depth, leading eigenvalues, cosines of class means."""
    from penchant_curvature import figures

    return figures.draw(result)
