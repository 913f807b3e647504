"""The probe `curvature-proxies`: how well proxies stand for the Gauss-Newton matrix."""

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.curvature import convex_hessians
from penchant_numerics.data import IGNORED, Samples
from penchant_numerics.statistics import NO_NULL, Null, jackknife, null_of
from penchant_numerics.training import outputs
from torch import Tensor, nn

from penchant_curvature.curvature_proxies import class_means
from penchant_curvature.curvature_proxies.layer_comparison import (
    ABSENT,
    BY_CLASS,
    EXACT,
    MEANS,
    chosen_samples,
    compared_estimators,
    eigenvectors_compared,
    measure_layer,
    measured_network,
)
from penchant_curvature.declarations import CurvatureProxies
from penchant_curvature.estimators.measured_curvature import loss_of
from penchant_curvature.shared.linear_layers import coverage

PERMUTATIONS = 999  # of the features of classes, for the null of cosines
FEW = 3  # samples per class that carry the curvature, below which errors say little
ROUNDING = 1e-6  # of relative errors in single precision: smaller differences decide nothing

Shards = list[dict[str, Any]]
Tables = dict[str, penchant.Table]


def run(options: CurvatureProxies, context: penchant.Context) -> penchant.Result:
    """Measure layers one by one, spread over workers, and put them together."""
    proxies = _proxies(context)
    network, data = measured_network(context), chosen_samples(context)
    sequences = data.kind.by_position
    leading = eigenvectors_compared(context)
    layers = _shared_layers(context, network, data)
    if options.last is not None:
        layers = layers[-options.last :]

    # one shard per layer: its matrices are gone before the next one needs memory
    shards = list(context.map(measure_layer, layers))

    # what the layers found, a row each; then numbers about all of them
    names = tuple(name or "(the network)" for name in layers)
    tables = _tables(shards, names, proxies, leading)
    cosines = _cosines(shards)
    if cosines is not None:
        tables |= _cosine_tables(cosines, names)
    quantities = {"effective-samples": _effective_samples(context, network, data)}
    share = coverage(network, data.inputs).share
    quantities |= _quantities(shards, proxies, share)
    if sequences:
        quantities |= _over_sequences(quantities, shards, proxies, len(data.labels))
    if cosines is not None:
        quantities |= _cosine_quantities(cosines[-1], context)

    for name in proxies:
        _say_how(context, name, layers, shards)
    _say_what_is_absent(context, layers, shards)
    result = penchant.Result(
        quantities,
        _spectra(shards, proxies),
        tables=tables,
        conventions=_conventions(options, data, context.data.classes),
    )
    # a layer without curvature has no relative error, and what does not fit has no numbers
    missing = [name for name, value in result.arrays.items() if not np.isfinite(value).all()]
    missing += [name for name, value in quantities.items() if value.missing]
    return attrs.evolve(result, missing=missing)


def _proxies(context: penchant.Context) -> list[str]:
    """Labels of what is compared with the exact matrix."""
    chosen = compared_estimators(context)
    names = [each.name for each in chosen]
    if len(chosen) < len(context.estimators("curvature")):
        context.conventions[f"{BY_CLASS}: left out"] = (
            "it needs one class per sample, and positions of a sequence have one each"
        )
    if names.count(EXACT) != 1 or len(names) < 2:
        given = ", ".join(names)
        raise penchant.Error(
            f"curvature-proxies compares {EXACT}, once, with other estimators; found {given}"
        )
    return [each.label for each in chosen if each.name != EXACT]


def _shared_layers(context: penchant.Context, network: nn.Module, data: Samples) -> list[str]:
    """Layers that all estimators have, in the order of the network."""
    chosen = compared_estimators(context)
    layers_of_each = [list(each(network, data)) for each in chosen]
    layers = []
    for name in layers_of_each[0]:
        if all(name in names for names in layers_of_each):
            layers.append(name)
    if not layers:
        # a few names say enough of each
        some = [", ".join(names[:4]) for names in layers_of_each]
        those = " and ".join(some)
        raise penchant.Error(f"the estimators have no layer in common, found {those}")

    # shards come in the order of the network, whichever estimator was called first
    modules = [name for name, _ in network.named_modules()]
    order = {name: number for number, name in enumerate(modules)}
    return sorted(layers, key=lambda name: order.get(name, -1))


def _effective_samples(
    context: penchant.Context, network: nn.Module, data: Samples
) -> penchant.Quantity:
    """(sum w)^2 / sum w^2 with w the trace of the loss's Hessian in a sample's outputs."""
    (exact,) = [each for each in context.estimators("curvature") if each.name == EXACT]
    loss = loss_of(exact.options, context, data.labels)
    if loss == "squared-error":
        every = len(data.labels)
        return penchant.Quantity(every, exact=True)
    weights = _weights(network, data, loss)
    sequences = data.kind.by_position
    if sequences:
        weights = (weights * (data.labels != IGNORED)).sum(1)
    square = weights.sum().square()
    count = float(square / weights.square().sum())
    least = FEW if sequences else FEW * context.data.classes
    if count < least:
        fewer = f"fewer than {FEW}" if sequences else f"fewer than {FEW} per class"
        context.warn(
            f"{count:.1f} of {len(weights)} samples carry the curvature, {fewer}: "
            "errors of proxies depend on these few"
        )
    return penchant.Quantity(count, exact=True)


def _weights(network: nn.Module, data: Samples, loss: str) -> Tensor:
    """Traces (n,), or (n, positions), of the loss's Hessian in the outputs of each sample."""
    if loss != "cross-entropy":
        hessians = convex_hessians(network, data.inputs, data.labels, loss)
        return hessians.double().diagonal(dim1=1, dim2=2).sum(1)

    # one logit f is the pair (0, f)
    given = outputs(network, data.inputs).double()
    if given.shape[-1] == 1:
        zeros = torch.zeros_like(given)
        given = torch.cat([zeros, given], dim=-1)

    # the trace of diag p - p p^T is near zero for a sample that is sure
    p = given.softmax(-1)
    return (p * (1 - p)).sum(-1)


def _rows(shards: Shards, name: str) -> Tensor:
    """What all layers found, in double precision, a row each."""
    return _stacked([shard[name] for shard in shards])


def _stacked(values: Sequence[Any]) -> Tensor:
    rows = [torch.as_tensor(value, device="cpu", dtype=torch.float64) for value in values]
    return torch.stack(rows)


def _spectra(shards: Shards, proxies: list[str]) -> dict[str, Tensor]:
    """Leading eigenvalues and spectra, one row per layer."""
    arrays = {"spectrum-grid": _rows(shards, "grid")}
    for name in ("exact", *proxies):
        arrays[f"leading-{name}"] = _rows(shards, f"leading-{name}")
        arrays[f"spectrum-{name}"] = _rows(shards, f"spectrum-{name}")
        stderr = _spectrum_stderr(shards, name)
        if stderr is not None:
            arrays[f"spectrum-{name}-stderr"] = stderr
    return arrays


def _tables(shards: Shards, layers: Sequence[str], proxies: list[str], classes: int) -> Tables:
    """One number per layer: of each matrix by itself, and of proxies beside the exact one."""
    size = _rows(shards, "size")
    numbers = {"parameters": size, "overlap-null": (classes / size).clamp(max=1.0)}
    for name in ("exact", *proxies):
        for kind in ("trace", "outliers", "gap"):
            numbers[f"{kind}-{name}"] = _rows(shards, f"{kind}-{name}")
    exact = _rows(shards, "leading-exact")
    for name in proxies:
        for kind in ("error", "alignment", "overlap"):
            numbers[f"{kind}-{name}"] = _rows(shards, f"{kind}-{name}")
        numbers[f"shift-{name}"] = _shift(exact, _rows(shards, f"leading-{name}"), classes)

    # errors over sequences, and what groups without meaning give
    nulls = {f"error-{name}": null for name, null in _nulls(shards, proxies).items()}
    return {
        f"layer-{key}": penchant.Table(
            values, {"layer": layers}, **_errors(shards, key), **_null(nulls.get(key))
        )
        for key, values in numbers.items()
    }


def _errors(shards: Shards, key: str) -> dict[str, Any]:
    """Errors over sequences, where groups of them were left out."""
    groups = _groups(shards, key)
    if groups is None:
        return {}
    return {"stderr": jackknife(groups.T.numpy()), "df": groups.shape[1] - 1, "over": "sequences"}


def _null(permuted: Tensor | None) -> dict[str, Any]:
    """The mean over permutations (layers, permutations), with its error."""
    if permuted is None:
        return {}
    count = permuted.shape[1]
    stderr = permuted.std(1) / count**0.5 if count > 1 else None
    return {"null": permuted.mean(1), "null_stderr": stderr}


def _spectrum_stderr(shards: Shards, name: str) -> Tensor | None:
    """Errors over start vectors, none in layers that are exact; unknown with one start vector."""
    key = f"spectrum-{name}-stderr"
    by_lanczos = [shard for shard in shards if not shard[f"exact-{name}"]]
    known = [shard[key] is not None for shard in by_lanczos]
    if not by_lanczos or not all(known):
        return None

    # where all eigenvalues are known nothing is uncertain
    errors = []
    for shard in shards:
        zeros = np.zeros_like(shard[f"spectrum-{name}"])
        errors.append(zeros if shard[key] is None else shard[key])
    return _stacked(errors)


def _nulls(shards: Shards, proxies: list[str]) -> dict[str, Tensor]:
    """Errors with labels permuted (layers, permutations), of proxies that use labels."""
    nulls = {}
    for name in proxies:
        key = f"error-{name}-nulls"
        most = max(len(shard[key]) for shard in shards)
        rows = []
        for shard in shards:
            # a layer in which the proxy is left out has none
            own = shard[key]
            if len(own) < most:
                own = np.full(most, np.nan)
            rows.append(own)
        if most:
            nulls[name] = _stacked(rows)
    return nulls


def _shift(exact: Tensor, proxy: Tensor, classes: int) -> Tensor:
    """Mean |log10 lambda_proxy - log10 lambda_exact| over the first C eigenvalues.

    Of those that are not zero to rounding in the exact spectrum.
    """
    first, of_proxy = exact[:, :classes], proxy[:, :classes]
    real = first > 1e-12 * first[:, :1]

    # zeros have no logarithm, and are not counted
    decades = first.clamp(min=1e-300).log10()
    proxy_decades = of_proxy.clamp(min=1e-300).log10()
    away = (proxy_decades - decades).abs() * real

    # a layer without curvature has nothing to count
    count = real.sum(1).clamp(min=1)
    return away.sum(1) / count


def _mean_products(shard: dict[str, Any]) -> class_means.MeanProducts:
    """Inner products of a layer's class means."""
    numbers = []
    for name in MEANS:
        number = torch.as_tensor(shard[f"means-{name}"], device="cpu")
        numbers.append(number.double())
    return class_means.MeanProducts(*numbers)


def _cosines(shards: Shards) -> Tensor | None:
    """Cosines (layers + 1, C, C + 1, C) by layer, and last over all layers together.

    Axes are the class, the target, of which the last stands for the class, and the class whose
    features are taken.
    """
    if any("means-inner" not in shard for shard in shards):
        return None
    products = [_mean_products(shard) for shard in shards]
    together = class_means.add(products)
    cosines = [product.cosines() for product in (*products, together)]
    return torch.stack(cosines)


def _cosine_tables(cosines: Tensor, layers: Sequence[str]) -> Tables:
    """Cosines by layer and over all; null: with the features of another class."""
    classes = cosines.shape[1]

    # (layers + 1, C, C + 1): with the features of the class itself, and of the others
    own = torch.diagonal(cosines, dim1=1, dim2=3).transpose(1, 2)
    other = (cosines.sum(3) - own) / (classes - 1)
    of_class = {"class": range(classes)}
    of_pair = {**of_class, "other-class": range(classes)}
    tables = {}
    for kind, target, axes in (("class", -1, of_class), ("cross", slice(-1), of_pair)):
        values, null = own[:, :, target], other[:, :, target]
        by_layer = {"layer": layers, **axes}
        tables[f"cosine-{kind}"] = penchant.Table(values[:-1], by_layer, null=null[:-1])
        tables[f"cosine-{kind}-all"] = penchant.Table(values[-1], axes, null=null[-1])
    return tables


def _quantities(shards: Shards, proxies: list[str], share: float) -> dict[str, penchant.Quantity]:
    """Numbers of these samples; what is random about them is the null."""
    nulls = _nulls(shards, proxies)
    quantities = {"covered": penchant.Quantity(share, exact=True)}
    for name in proxies:
        errors = _rows(shards, f"error-{name}")
        # the error of zeros; where classes enter, that of permuted ones
        last = mean = Null(null=1.0, null_spread=None, null_stderr=None)
        permuted = nulls.get(name)
        if permuted is not None and bool(torch.isfinite(permuted).all()):
            last = null_of(permuted[-1])
            mean = null_of(permuted.mean(0))
        quantities[f"last-error-{name}"] = _of_samples(errors[-1], last)
        quantities[f"mean-error-{name}"] = _of_samples(errors.mean(), mean)

    # the claim of the paper, where both are there
    if {"kfac", "cfac"} <= set(proxies):
        kfac = _rows(shards, "error-kfac")
        better = _better(kfac - _rows(shards, "error-cfac"))
        null = _permuted_better(better, kfac, nulls.get("cfac"))
        quantities["cfac-better"] = _of_samples(better.mean(), null)
    return quantities


def _better(by_how_much: Tensor) -> Tensor:
    """1 for each layer where CFAC is better, 0 where it is worse.

    A layer where both are equal up to rounding decides nothing and is left out; one whose error is
    missing stays missing.
    """
    decides = by_how_much.isnan() | (by_how_much.abs() > ROUNDING)
    decided = by_how_much[decides]
    return torch.where(decided.isnan(), decided, (decided > 0).double())


def _over_sequences(
    quantities: dict[str, penchant.Quantity], shards: Shards, proxies: list[str], count: int
) -> dict[str, penchant.Quantity]:
    """The same errors of proxies, with the variance over sequences and over sampled labels."""
    changed = {}
    for name in proxies:
        groups = _groups(shards, f"error-{name}")
        if groups is None:
            continue
        for which, without in (("last", groups[-1]), ("mean", groups.mean(0))):
            label = f"{which}-error-{name}"
            changed[label] = penchant.Quantity(
                quantities[label].value,
                stderr=jackknife(without),
                over="sequences",
                count=count,
                df=len(without) - 1,
                null=1.0,
            )
    return changed


def _groups(shards: Shards, key: str) -> Tensor | None:
    """Numbers with each group of sequences left out (layers, groups); None without sequences."""
    if any(f"{key}-groups" not in shard for shard in shards):
        return None
    return _rows(shards, f"{key}-groups")


def _permuted_better(better: Tensor, kfac: Tensor, cfac: Tensor | None) -> Null:
    """The null of a share of layers: CFAC with permuted classes, which has as many groups.

    More groups alone make it better in nearly all layers, so half is no null.

    Args:
        better: By layer, as of `_better`.
        kfac: KFAC's errors (layers,).
        cfac: CFAC's with permuted classes (layers, permutations).
    """
    known = cfac is not None and len(better) and bool(torch.isfinite(better).all())
    if cfac is None or not known or not cfac.shape[1] or not bool(torch.isfinite(cfac).all()):
        return NO_NULL
    shares = [float(_better(kfac - permuted).mean()) for permuted in cfac.T.to(kfac)]
    return null_of(shares, value=float(better.mean()))


def _of_samples(value: Tensor, null: Null) -> penchant.Quantity:
    """A number of these samples beside its null; one that is missing has none."""
    if not torch.isfinite(value):
        return penchant.Quantity(math.nan, exact=True)
    return penchant.Quantity(value, exact=True, **null)


def _cosine_quantities(cosines: Tensor, context: penchant.Context) -> dict[str, penchant.Quantity]:
    """Mean cosines (C, C + 1, C) over classes, and over pairs of different ones.

    The null deals the features out to classes at random, the same way for all targets.
    """
    classes = len(cosines)
    every = torch.arange(classes, device="cpu")
    # a class with itself is another thing: its gradients are those of the class mean
    named = {
        "class": (every, torch.full_like(every, classes)),
        "cross": tuple(torch.nonzero(~torch.eye(classes, dtype=torch.bool, device="cpu")).T),
    }
    generator = context.generator("cosines")
    orders = torch.rand(PERMUTATIONS, classes, generator=generator, device="cpu").argsort(1)
    quantities = {}
    for kind, (of_class, target) in named.items():
        chosen = cosines[of_class, target]  # (k, C), by whose features
        if not bool(torch.isfinite(chosen).all()):
            continue
        positions = torch.arange(len(of_class), device="cpu")
        value = float(chosen[positions, of_class].mean())
        draws = chosen[positions, orders[:, of_class]].mean(1)
        quantities[f"cosine-{kind}"] = penchant.Quantity(
            value, exact=True, **null_of(draws, value=value)
        )
    return quantities


def _say_how(context: penchant.Context, name: str, layers: list[str], shards: Shards) -> None:
    """Which spectra are exact, and which leading eigenvalues did not converge."""
    options: CurvatureProxies = context.options
    late = [layer for layer, shard in zip(layers, shards) if not shard[f"exact-{name}"]]
    how = "exact"
    if late:
        where = ", ".join(late)
        how = (
            f"Lanczos of {options.lanczos_steps} steps and {options.starts} start vectors in "
            f"{where}, else exact"
        )
    context.conventions[f"spectra of {name}"] = how

    # a pair that did not converge is not a leading eigenvalue
    unsure = [layer for layer, shard in zip(layers, shards) if not shard[f"converged-{name}"]]
    if unsure:
        where = ", ".join(unsure)
        context.warn(f"leading eigenvalues of {name} did not converge in {where}")


def _say_what_is_absent(context: penchant.Context, layers: list[str], shards: Shards) -> None:
    """Which curvatures did not fit in memory, in which layers, and what that leaves out."""
    where: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for layer, shard in zip(layers, shards):
        for key in shard:
            if not key.startswith(ABSENT):
                continue
            name = key.removeprefix(ABSENT)
            where.setdefault(name, []).append(layer or "the network")
            reasons.setdefault(name, str(shard[key]))

    # one sentence per curvature, with the reason of its first layer
    for name, those in where.items():
        what = name
        if name == "exact":
            what = "the exact Gauss-Newton matrix and comparisons with it"
        listed = ", ".join(those)
        text = f"{what} in layers {listed}: {reasons[name]}"
        context.conventions[f"{name}: left out"] = text
        context.warn(f"without {text}")


def _conventions(options: CurvatureProxies, data: Samples, classes: int) -> dict[str, str]:
    every = len(data.labels)
    which = "sequences"
    if not data.kind.by_position:
        counts = torch.bincount(data.labels, minlength=classes).tolist()
        which = f"{min(counts)} to {max(counts)} of each class"
    return {
        "samples": f"{every} of the {options.split} split, {which}",
        "relative error": "Frobenius norm of the difference over that of the exact matrix",
        "batch-norm": "running statistics (evaluation mode)",
        "outliers": "position in 2..2C of the largest gap in log eigenvalue",
        "convolutions": "expanded over positions",
        "null of errors": "labels permuted; of proxies without labels 1, the error of zeros",
        "null of cosines": "of arrays: features of another class, mean over these; of quantities: "
        "features of classes in random order",
    }
