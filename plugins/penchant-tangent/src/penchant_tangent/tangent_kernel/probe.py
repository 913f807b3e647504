"""The probe `tangent-kernel`: spectrum and alignment of one network's tangent kernel."""

from typing import Any

import penchant
from penchant_numerics.layers import centre
from penchant_numerics.linear_algebra import trace_ratios
from penchant_numerics.statistics import NO_NULL, Null, null_of
from torch import Tensor

from penchant_tangent.declarations.kernels import TangentKernel
from penchant_tangent.shared.kernel_samples import (
    alignment,
    centred_targets,
    expected_alignment,
    kernel_conventions,
    kernelled,
    permuted,
    refuse_one_label,
    sample_numbers,
    sampled,
)
from penchant_tangent.shared.kernel_summary import (
    Summary,
    even_spectrum,
    precise_layer_kernels,
    refuse_constant,
    summarise,
    summarise_layers,
    summary_stderr,
    time_constants,
    warn_of_rounding,
    whole_kernel,
)


def run(options: TangentKernel, context: penchant.Context) -> penchant.Result:
    """Take the kernel of every layer at the end of the training; they add up to the kernel."""
    *_, (_, network) = context.trained()
    split = getattr(context.data, options.split)
    samples = sampled(split, options.samples, context.generator("samples"))
    refuse_one_label(samples)
    network, inputs, goal = kernelled(network, samples, context)
    kernels = precise_layer_kernels(network, inputs)
    K = whole_kernel(kernels)

    # the whole kernel, with labels in random order beside
    orders = permuted(goal, generator=context.generator("null"), draws=options.permutations)
    summary = summarise(K, goal, centring=options.centring, ratios=options.ratios)
    refuse_constant(summary.eigenvalues, K)
    quantities = _quantities(K, goal, orders, summary, options)
    warn_of_rounding(summary.eigenvalues, context)
    arrays: dict[str, Any] = {
        "eigenvalues": summary.eigenvalues,
        "trace-ratios": trace_ratios(summary.eigenvalues),
        "time-constants": time_constants(summary.eigenvalues),
    }

    if options.store_kernel:
        available = len(split.labels)
        generator = context.generator("samples")
        arrays["kernel"] = K
        arrays["kernel-samples"] = sample_numbers(available, options.samples, generator)
        arrays["kernel-labels"] = samples.labels
    return penchant.Result(
        quantities,
        arrays,
        tables=_layers(kernels, goal, options),
        conventions=kernel_conventions(options.centring, len(goal), samples.labels),
        missing=("time-constants",),
        labels={"layers": tuple(kernels)},
    )


def _quantities(
    K: Tensor, goal: Tensor, orders: Tensor, summary: Summary, options: TangentKernel
) -> dict[str, penchant.Quantity]:
    """Numbers of the whole kernel with errors over samples, and their nulls."""
    errors = summary_stderr(
        K, goal, centring=options.centring, ratios=options.ratios, groups=options.groups
    )
    nulls = _nulls(K.double(), orders, summary, options.centring)
    even = even_spectrum(*goal.shape, centring=options.centring, ratios=options.ratios)
    for name, value in even.items():
        nulls[name] = {"null": value, "null_spread": None, "null_stderr": None}
    # All eigenvalues together are the trace, whatever the kernel.
    trivial = {f"trace-ratio-{k}" for k in options.ratios if k >= len(summary.eigenvalues)}
    quantities = {}
    for name, value in summary.numbers.items():
        if name in trivial:
            quantities[name] = penchant.Quantity(1.0, exact=True, null=1.0)
            continue
        quantities[name] = penchant.Quantity(
            value,
            stderr=errors[name],
            over="samples",
            count=len(goal),
            df=options.groups - 1,
            **nulls.get(name, NO_NULL),
        )
    return quantities


def _nulls(K: Tensor, orders: Tensor, summary: Summary, centring: str) -> dict[str, Null]:
    """Alignments with labels in random order."""
    centred = centre(K, outputs=orders.shape[2], centring=centring)
    goal = centred_targets(orders, centring)

    # each alignment with as many random orders
    aligned_centred = alignment(centred, goal)
    aligned_uncentred = alignment(K, orders)
    return {
        "cka": null_of(aligned_centred, value=summary.numbers["cka"]),
        "cka-uncentred": null_of(aligned_uncentred, value=summary.numbers["cka-uncentred"]),
    }


def _layers(
    kernels: dict[str, Tensor], goal: Tensor, options: TangentKernel
) -> dict[str, penchant.Table]:
    """Alignment and trace of every layer's kernel."""
    layers = summarise_layers(kernels, goal, centring=options.centring, groups=options.groups)
    # labels in random order are independent of every layer
    dealt = centred_targets(goal, options.centring)
    nulls = []
    for K in kernels.values():
        centred = centre(K.double(), outputs=goal.shape[1], centring=options.centring)
        nulls.append(expected_alignment(centred, dealt))
    axes = {"layer": list(kernels)}
    alignments = penchant.Table(
        layers.cka, axes, stderr=layers.cka_stderr, null=nulls, over="samples"
    )
    traces = penchant.Table(layers.trace, axes, stderr=layers.trace_stderr, over="samples")
    return {"layer-cka": alignments, "layer-trace": traces}
