"""What the estimators of this plugin check and record before they measure."""

import penchant
import torch
from penchant_numerics.curvature import (
    conventions,
    convex_columns,
    empirical_columns,
    gauss_newton_columns,
    has_closed_form,
    numbers_of,
)
from penchant_numerics.data import IGNORED, kind_of
from penchant_numerics.jacobians import Outputs
from torch import Tensor, nn

from penchant_curvature.declarations import Curvature, Factored
from penchant_curvature.shared.layer_operators import (
    LayerOperators,
    column_operators,
    kronecker_operators,
)
from penchant_curvature.shared.linear_layers import Coverage, coverage
from penchant_curvature.shared.moment_sums import IndefiniteError, UnreachedError

Data = tuple[Tensor, Tensor | None]  # inputs and labels


def by_columns(
    options: Curvature, context: penchant.Context, network: nn.Module, data: Data, *, columns: str
) -> LayerOperators:
    """Curvature as a sum of outer products of gradients: every parameter is represented."""
    loss = loss_of(options, context, data[1])
    empirical = columns == "empirical"
    data, _ = _without_ignored(data, loss)
    if has_positions(network, data):
        network, data = _of_sequences(context, network, data, loss, empirical=empirical)
        loss, columns = "squared-error", "gauss-newton"
    elif not has_closed_form(loss):
        network, data = _of_own_loss(network, data, loss, empirical=empirical)
        loss = "squared-error"
    elif empirical and loss == "cross-entropy":
        _check_classes(options, data[1])
    covered = coverage(network, data[0])
    return column_operators(
        network,
        data,
        covered,
        columns=columns,
        loss=loss,
        blocks=options.blocks,
        bias=options.bias,
        batch=options.batch,
    )


def by_factors(
    options: Factored,
    context: penchant.Context,
    network: nn.Module,
    data: Data,
    *,
    groups: Tensor,
    by_class: bool,
) -> LayerOperators:
    """Kronecker factors, with errors independent of inputs inside groups (n,) of samples."""
    loss = loss_of(options, context, data[1])
    data, chosen = _without_ignored(data, loss)
    groups = groups if chosen is None else groups[chosen]
    if has_positions(network, data):
        if by_class:
            raise penchant.Error(
                f"{options.name} needs one class per sample, found outputs at every position"
            )
        network, data = _of_sequences(context, network, data, loss)
        loss = "squared-error"
    elif not has_closed_form(loss):
        network, data = _of_own_loss(network, data, loss)
        loss = "squared-error"
    covered = coverage(network, data[0])
    _check_coverage(covered, options, context)
    context.conventions[f"{options.name}: positions"] = options.positions
    try:
        return kronecker_operators(
            network,
            data,
            covered,
            groups,
            loss=loss,
            blocks=options.blocks,
            bias=options.bias,
            batch=options.batch,
            by_class=by_class,
            positions=options.positions,
        )
    except (IndefiniteError, UnreachedError) as error:
        raise penchant.Error(f"{options.name}: {error}") from None


def _without_ignored(data: Data, loss: str) -> tuple[Data, Tensor | None]:
    """Samples without those whose one label cross-entropy ignores; and which these are, if any."""
    inputs, labels = data
    if labels is None or labels.dim() != 1 or labels.is_floating_point() or loss != "cross-entropy":
        return data, None
    chosen = labels != IGNORED
    if bool(chosen.all()):
        return data, None
    if not bool(chosen.any()):
        raise penchant.Error(f"all {len(labels)} labels are {IGNORED}, which are ignored")
    return (inputs[chosen], labels[chosen]), chosen


def has_positions(network: nn.Module, data: Data) -> bool:
    """Whether the loss is a mean over positions: the network has outputs at each of them."""
    if kind_of(data[1]).by_position:
        return True
    return len(Outputs(network).sample_shape(data[0])) > 1


def _check_classes(options: Curvature, labels: Tensor | None) -> None:
    if labels is not None and (labels.is_floating_point() or labels.dim() != 1):
        described = f"{tuple(labels.shape)} of {str(labels.dtype).removeprefix('torch.')}"
        raise penchant.Error(
            f"{options.name} needs one class per sample with cross-entropy, found labels "
            f"{described}; "
            "ggn and kfac need none"
        )


def _of_own_loss(
    network: nn.Module, data: Data, loss: str, *, empirical: bool = False
) -> tuple[nn.Module, Data]:
    """Samples whose outputs are those times a root of the loss's Hessian in them.

    With half the squared error, the curvature of such a network is that of the loss.
    """
    inputs, labels = data
    if empirical or labels is None:
        what = "the empirical Fisher" if empirical else f"the loss {loss!r} without labels"
        raise penchant.Error(
            f"{what} needs cross-entropy or squared-error, found {loss!r}; with labels the "
            "estimators ggn, kfac and cfac take any convex loss"
        )
    return convex_columns(network, (inputs, labels), loss=loss), (numbers_of(inputs), None)


def _of_sequences(
    context: penchant.Context, network: nn.Module, data: Data, loss: str, *, empirical: bool = False
) -> tuple[nn.Module, Data]:
    """Sequences as samples with few outputs, whose gradients are columns of the curvature.

    With half the squared error, the curvature of such a network is that of the sequences.
    """
    inputs, labels = data
    if labels is None or not kind_of(labels).by_position:
        # all positions count, and labels do not matter
        shape = Outputs(network).sample_shape(inputs)
        labels = torch.zeros(len(inputs), shape[0], device=inputs.device, dtype=torch.int64)
        if empirical:
            raise penchant.Error(
                "the empirical Fisher of sequences needs one class for each position"
            )
    samples = (inputs, labels)
    numbers = numbers_of(inputs)
    if not has_closed_form(loss):
        raise penchant.Error(
            f"curvatures of sequences need cross-entropy or squared-error, found {loss!r}; with "
            "one label per sample ggn, kfac and cfac take any convex loss"
        )
    if empirical:
        if loss != "cross-entropy":
            raise penchant.Error(
                f"the empirical Fisher of sequences needs cross-entropy, found {loss}"
            )
        return empirical_columns(network, samples), (numbers, None)
    generator = context.generator("labels")
    columns, convention = gauss_newton_columns(network, samples, loss=loss, generator=generator)
    context.conventions["curvature: columns"] = convention
    return columns, (numbers, None)


def loss_of(options: Curvature, context: penchant.Context, labels: Tensor | None = None) -> str:
    """The loss whose curvature is meant: the requested one, else that of the training; recorded."""
    # the measurement's loss is the training's, unless the options say otherwise
    training = context.training
    trained = training.loss if training is not None else "cross-entropy"
    loss = trained if options.loss == "training" else options.loss

    # the result says which loss, and what of it
    sequences = kind_of(labels).by_position
    for name, text in conventions(loss, "mean", sequences=sequences).items():
        context.conventions[f"curvature: {name}"] = text
    biases = "with their layer's weights" if options.bias else "left out"
    context.conventions["curvature: biases"] = biases
    return str(loss)


def _check_coverage(covered: Coverage, options: Factored, context: penchant.Context) -> None:
    """What cannot be represented is refused, or recorded where it was accepted."""
    # nothing is left out without a word
    missing = covered.report()
    name = options.name
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

    # accepted: the result says what is not in it
    share = f"{covered.share:.4%} of the parameters are"
    context.conventions[f"{name}: not represented"] = f"{missing}; {share}"
