"""The probe `hessian-spectrum`: spectra of the Hessian, of G, and of E = Hess - G."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.eigenpairs import Eigenpairs, lanczos_eigenpairs, subspace_iteration
from penchant_numerics.gauss_newton import GaussNewton
from penchant_numerics.hessian import Hessian
from penchant_numerics.moments import accumulation_dtype
from penchant_numerics.operators import Dense, Estimate, Operator
from penchant_numerics.spectral_density import (
    Quadrature,
    exact_quadrature,
    log_density,
    quadrature,
    spectral_density,
)
from penchant_numerics.tangent_kernels import sample_traces
from penchant_numerics.trainer import evaluate
from torch import nn

from penchant_class_structure._choice import chosen, measured
from penchant_class_structure._tail import BINS, power_law, semicircle_slope, slope_stderr

NAMES = ("hessian", "gauss-newton", "residual")
_KEPT = 2**29  # bytes of activations that the Hessian and G keep each


class Spectrum(NamedTuple):
    """What is known of one operator."""

    measure: Quadrature
    leading: Eigenpairs | None


def run(options: Any, context: Any) -> penchant.Result:
    """Measure at the end of the training, on training samples, test samples, or both."""
    *_, (_, network) = context.trained()
    network = measured(network, options, context)
    parts = {"": options.samples} if options.samples != "both" else {"": "train", "test-": "test"}
    quantities: dict[str, penchant.Quantity] = {}
    arrays: dict[str, Any] = {}
    for prefix, part in parts.items():
        samples = chosen(getattr(context.data, part), options.per_class, context.data.classes)
        found, numbers = _measured(network, samples, options, context, part)
        quantities |= {f"{prefix}{name}": value for name, value in found.items()}
        arrays |= {f"{prefix}{name}": value for name, value in numbers.items()}
    return penchant.Result(quantities, arrays, conventions=_conventions(options, parts))


def _measured(
    network: nn.Module, samples: Samples, options: Any, context: Any, part: str
) -> tuple[dict[str, penchant.Quantity], dict[str, Any]]:
    operators = _operators(network, samples, options)
    spectra = {
        name: _spectrum(name, operator, options, context, part)
        for name, operator in operators.items()
    }
    own = [
        spectral_density(each.measure, points=options.points, kappa=options.kappa).grid
        for each in spectra.values()
    ]
    arrays: dict[str, Any] = {
        "density-grid": _spanning(own),
        "bulk-grid": own[-1],
    }  # the bulk is where E is
    for name, spectrum in spectra.items():
        for prefix in ("", "bulk-"):
            density = spectral_density(
                spectrum.measure, kappa=options.kappa, grid=arrays[f"{prefix or 'density-'}grid"]
            )
            arrays[f"{prefix}density-{name}"] = density.density
            if density.stderr is not None:
                arrays[f"{prefix}density-{name}-stderr"] = density.stderr
    for name, suffix in (("hessian", ""), ("gauss-newton", "-gauss-newton")):
        pairs = spectra[name].leading
        if pairs is not None:
            arrays[f"top-eigenvalues{suffix}"], arrays[f"top-residuals{suffix}"] = (
                pairs.values,
                pairs.residuals,
            )
    traces = _traces(network, samples, operators, options, context.generator("trace", part))
    quantities = _quantities(spectra, traces)
    loss, _ = evaluate(network, samples)
    quantities["loss"] = penchant.Quantity(loss)
    context.conventions[f"Lanczos ({part})"] = ", ".join(
        f"{name} {spectrum.measure.variant}" for name, spectrum in spectra.items()
    )
    tail = _tail(spectra["residual"].measure, options)
    return quantities | tail[0], arrays | tail[1]


def _operators(network: nn.Module, samples: Samples, options: Any) -> dict[str, Operator]:
    """The Hessian, G and E: as matrices in double precision for small networks."""
    size = sum(p.numel() for p in network.parameters())
    if size <= options.exact_limit:
        wide = accumulation_dtype(samples.inputs.device)
        network, data = copy.deepcopy(network).to(wide), (samples.inputs.to(wide), samples.labels)
        H, G = (Dense(kind(network, data).dense()) for kind in (Hessian, GaussNewton))
        return {"hessian": H, "gauss-newton": G, "residual": Dense(H.matrix - G.matrix)}
    H, G = Hessian(network, samples, keep=_KEPT), GaussNewton(network, samples, keep=_KEPT)
    return {"hessian": H, "gauss-newton": G, "residual": H - G}


def _spectrum(name: str, A: Operator, options: Any, context: Any, part: str) -> Spectrum:
    if isinstance(A, Dense):
        return _exact_spectrum(A, options, context.data.classes)
    leading = None
    if options.deflate and name != "residual":
        leading = _leading(
            A, options, context.generator("leading", name, part), context.data.classes
        )
        if not bool(leading.converged.all()):
            left, worst = int((~leading.converged).sum()), float(leading.residuals.max())
            what = f"{left} leading eigenvalues of {name} ({part})"
            context.warn(
                f"{what} did not converge in {leading.products} products: residuals to {worst:.2g}"
            )
    known = None if leading is None else (leading.values, leading.vectors)
    generator = context.generator("density", name, part)
    measure = quadrature(
        A, generator=generator, steps=options.steps, starts=options.starts, known=known
    )
    return Spectrum(measure, leading)


def _leading(A: Operator, options: Any, generator: torch.Generator, classes: int) -> Eigenpairs:
    count = min(options.leading or classes, A.size)
    if options.method == "subspace":
        return subspace_iteration(A, count, generator=generator, iterations=options.iterations)
    return lanczos_eigenpairs(
        A, count, generator=generator, products=10 * options.iterations, order="largest"
    )


def _exact_spectrum(A: Dense, options: Any, classes: int) -> Spectrum:
    values, vectors = torch.linalg.eigh((A.matrix + A.matrix.T) / 2)
    count = min(options.leading or classes, A.size)
    measure = exact_quadrature(
        values.flip(0), steps=options.steps, known=count if options.deflate else 0
    )
    top, columns = values.flip(0)[:count], vectors.flip(1)[:, :count]
    residuals = torch.linalg.vector_norm(A.matrix @ columns - columns * top, dim=0)
    pairs = Eigenpairs(
        top.cpu(),
        columns,
        residuals.double().cpu(),
        torch.ones(count, device="cpu", dtype=torch.bool),
        0,
    )
    return Spectrum(measure, pairs if options.deflate else None)


def _spanning(grids: list[torch.Tensor]) -> torch.Tensor:
    """One grid from the lowest to the highest point of several."""
    low, high = min(float(each[0]) for each in grids), max(float(each[-1]) for each in grids)
    return torch.linspace(low, high, len(grids[0]), device="cpu", dtype=torch.float64)


def _traces(
    network: nn.Module,
    samples: Samples,
    operators: dict[str, Operator],
    options: Any,
    generator: torch.Generator,
) -> dict[str, Estimate]:
    """Tr G exactly, from its samples; Tr Hess = Tr G + Tr E with random vectors for E only, which is small where the loss is."""
    exact = operators["hessian"].exact_trace()
    of_G = float(sample_traces(network, samples.inputs).double().mean())
    if exact is not None:
        return {"hessian": Estimate(exact, 0.0, 0), "gauss-newton": Estimate(of_G, 0.0, 0)}
    of_E = operators["residual"].trace(generator=generator, samples=options.trace_samples)
    return {
        "hessian": of_E._replace(value=of_G + of_E.value),
        "gauss-newton": Estimate(of_G, 0.0, 0),
    }


def _quantities(
    spectra: dict[str, Spectrum], traces: dict[str, Estimate]
) -> dict[str, penchant.Quantity]:
    found = {}
    for name, trace in traces.items():
        sampled = (
            {"stderr": trace.stderr, "over": "random vectors", "count": trace.samples}
            if trace.samples
            else {}
        )
        found[f"trace-{name}"] = penchant.Quantity(trace.value, **sampled)
    for name, suffix in (("hessian", ""), ("gauss-newton", "-gauss-newton")):
        largest = max(float(nodes.max()) for nodes in spectra[name].measure.nodes)
        found[f"largest{suffix}"] = penchant.Quantity(largest)
    measure = spectra["hessian"].measure
    rounding = 1e-6 * max(abs(end) for end in measure.bounds)
    shares = torch.stack(
        [weights[nodes < -rounding].sum() for nodes, weights in zip(measure.nodes, measure.weights)]
    )
    spread = (
        {}
        if len(shares) < 2
        else {
            "stderr": float(shares.std()) / len(shares) ** 0.5,
            "over": "start vectors",
            "count": len(shares),
        }
    )
    found["negative-mass"] = penchant.Quantity(float(shares.mean()), **spread)
    return found


def _tail(measure: Quadrature, options: Any) -> tuple[dict[str, penchant.Quantity], dict[str, Any]]:
    """The log density of E, and the power law of its tail."""
    density = log_density(
        measure, epsilon=options.epsilon, points=options.points, kappa=options.kappa
    )
    arrays: dict[str, Any] = {"log-grid": density.grid, "log-density-residual": density.density}
    if density.stderr is not None:
        arrays["log-density-residual-stderr"] = density.stderr
    window = {"low": options.tail_low, "high": options.tail_high}
    line = power_law(measure, **window)
    if line is None:
        return {}, arrays
    arrays["tail-line"] = torch.tensor(
        [line.slope, line.intercept], device="cpu", dtype=torch.float64
    )
    arrays |= {"tail-grid": line.places, "tail-density": line.density}
    stderr = slope_stderr(measure, **window)
    sampled = (
        {}
        if stderr is None
        else {"stderr": stderr, "over": "start vectors (jackknife)", "count": len(measure.nodes)}
    )
    null = semicircle_slope(**window)
    quantities = {
        "tail-exponent": penchant.Quantity(line.slope, null=null, **sampled),
        "tail-fit": penchant.Quantity(line.fit),
    }
    return quantities, arrays


def _conventions(options: Any, parts: dict[str, str]) -> dict[str, str]:
    leading = (
        f"leading eigenvalues by {options.method}, with their exact mass"
        if options.deflate
        else "not deflated"
    )
    return {
        "loss": "softmax cross-entropy, mean over samples; G is the true Fisher",
        "samples": "; ".join(
            f"{prefix or 'plain'} names: {part}" for prefix, part in parts.items()
        ),
        "density": f"{leading}; Gaussian bumps at Ritz values, {options.steps} Lanczos steps",
        "log density": f"of log(|eigenvalue| + {options.epsilon:g}), natural logarithm, without the factor 1/|eigenvalue|",
        "tail": f"density of |eigenvalue| of E in {BINS} bins from {options.tail_low:g} to {options.tail_high:g} of the largest",
    }


def plot(result: penchant.Result) -> dict[str, Any]:
    """Spectra of the three matrices (figures 3, 4, 14, 17) and the tail of E (figure 16)."""
    from penchant_class_structure import hessian_figures as figures

    return {
        "spectra": figures.spectra(result),
        "bulk": figures.spectra(result, zoom=True),
        "tail": figures.tail(result),
    }
