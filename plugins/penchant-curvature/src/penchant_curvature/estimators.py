"""Estimators of the role `curvature`: `ggn`, `kfac`, `cfac`, `empirical-fisher`."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from penchant_numerics.determinism import NotDeterministicError, check_deterministic
from penchant_numerics.gauss_newton import conventions

from penchant_curvature._assembly import LayerOperators, column_operators, kronecker_operators
from penchant_curvature._layers import Coverage, coverage


def ggn(options: Any, context: Any, network: Any, data: Any) -> LayerOperators:
    """Gauss-Newton itself, by the gradients of all samples and classes."""
    return _columns(options, context, network, data, "gauss-newton")


def empirical_fisher(options: Any, context: Any, network: Any, data: Any) -> LayerOperators:
    """The second moment of the gradients of the loss at the labels."""
    if data[1] is None:
        raise penchant.Error("empirical-fisher needs labels, found none")
    return _columns(options, context, network, data, "empirical")


def kfac(options: Any, context: Any, network: Any, data: Any) -> LayerOperators:
    """Errors independent of inputs."""
    groups = torch.zeros(len(data[0]), device=data[0].device, dtype=torch.int64)
    return _factored(options, context, network, data, groups, name="kfac")


def cfac(options: Any, context: Any, network: Any, data: Any) -> LayerOperators:
    """Errors independent of inputs in each class."""
    labels = data[1]
    if labels is None or labels.is_floating_point():
        raise penchant.Error(
            f"cfac needs labels that are classes, found {'none' if labels is None else labels.dtype}"
        )
    return _factored(options, context, network, data, labels, name="cfac")


def _columns(options: Any, context: Any, network: Any, data: Any, columns: str) -> LayerOperators:
    _check_network(network, data)
    shared = {"blocks": options.blocks, "bias": options.bias, "batch": options.batch}
    return column_operators(
        network,
        data,
        coverage(network, data[0]),
        columns=columns,
        loss=loss_of(options, context),
        **shared,
    )


def _factored(
    options: Any, context: Any, network: Any, data: Any, groups: Any, *, name: str
) -> LayerOperators:
    _check_network(network, data)
    covered = coverage(network, data[0])
    _check_coverage(covered, options, context, name)
    shared = {"blocks": options.blocks, "bias": options.bias, "batch": options.batch}
    return kronecker_operators(
        network,
        data,
        covered,
        groups,
        loss=loss_of(options, context),
        by_class=name == "cfac",
        **shared,
    )


def _check_network(network: Any, data: Any) -> None:
    """Samples must not mix and nothing may be drawn: gradients are taken sample by sample."""
    try:
        check_deterministic(network, data[0])
    except NotDeterministicError as error:
        raise penchant.Error(
            f"curvature needs a network that is a function of one sample: {error}"
        ) from error


def loss_of(options: Any, context: Any) -> str:
    """The loss whose curvature is meant: the one asked for, else that of the training; recorded."""
    trained = context.training.loss if context.training is not None else "cross-entropy"
    loss = trained if options.loss == "training" else options.loss
    context.conventions.update(
        {f"curvature: {name}": text for name, text in conventions(loss, "mean").items()}
    )
    context.conventions["curvature: biases"] = (
        "with their layer's weights" if options.bias else "left out"
    )
    return str(loss)


def _check_coverage(covered: Coverage, options: Any, context: Any, name: str) -> None:
    """What cannot be represented is refused, or recorded where it was accepted."""
    missing = covered.report()
    if not covered.layers:
        raise penchant.Error(
            f"{name} represents linear layers and convolutions, found none: {missing}"
        )
    if not missing:
        return
    if options.uncovered == "refuse":
        raise penchant.Error(
            f"{name} cannot represent {missing}; uncovered = accept leaves them out"
        )
    context.conventions[f"{name}: not represented"] = (
        f"{missing}; {covered.share:.4%} of the parameters are"
    )
