"""The code behind `import`: networks and data of the user's own."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from penchant.components.builtin import ImportedArchitecture, ImportedDataset
from penchant.components.targets import resolve
from penchant.errors import Error

TEST_SHARE = 5  # one in so many samples is kept for testing where there is no test part


def build(options: ImportedArchitecture, shape: tuple[int, ...], outputs: int) -> Any:
    """Target of the architecture `import`."""
    from torch import nn

    source = options.factory
    if isinstance(source, nn.Module):
        # On the host, where networks are checked; the context moves it to its device.
        return copy.deepcopy(source).cpu()
    factory = resolve(source, "the architecture 'import'")
    network = _call(factory, shape=shape, outputs=outputs)
    if not isinstance(network, nn.Module):
        kind = type(network).__name__
        raise Error(f"the factory {source!r} must return a torch.nn.Module, found {kind}")
    return network


def _call(factory: Callable[..., Any], **offered: Any) -> Any:
    """Call with those of the offered arguments that the signature has."""
    try:
        parameters: Mapping[str, Any] = inspect.signature(factory).parameters
    except ValueError:  # some builtins have no signature
        parameters = {}
    wanted = {name: value for name, value in offered.items() if name in parameters}
    try:
        return factory(**wanted)
    except TypeError as error:
        # Its own mistakes are raised as they are; only what it lacks is told otherwise.
        needed = _unfilled(parameters, wanted)
        if not needed:
            raise
        name = getattr(factory, "__qualname__", repr(factory))
        given = ", ".join(offered)
        raise Error(
            f"{name} needs {', '.join(needed)}, but is only given {given}; "
            f"wrap it in a function that fills in the rest ({error})"
        ) from error


def _unfilled(parameters: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Parameters without a default that nothing was given for."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = []
    for name, parameter in parameters.items():
        if parameter.kind in variadic or name in given:
            continue
        if parameter.default is inspect.Parameter.empty:
            names.append(name)
    return names


def load(options: ImportedDataset, generator: Any) -> Any:
    """Target of the dataset `import`."""
    from penchant_numerics.data import Data, Samples

    source = options.factory
    if isinstance(source, str) or _is_factory(source):
        factory = resolve(source, "the dataset 'import'")
        source = _call(factory, generator=generator)
    if isinstance(source, Data):
        return source
    conventions: dict[str, str] = {}
    if _has_two_parts(source):
        train, test = (_tensors(part, conventions) for part in source)
    else:
        train, test = _split(_tensors(source, conventions), generator, conventions)
    classes = _classes(train[1], test[1])
    return Data(
        Samples(*train),
        Samples(*test),
        classes,
        conventions=conventions,
    )


def _is_factory(source: Any) -> bool:
    # A torch dataset may be callable as well; it is data, not a factory.
    return callable(source) and not hasattr(source, "__getitem__")


def _has_two_parts(value: Any) -> bool:
    """Is it (train, test), rather than (inputs, labels)?"""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    # Two arrays are inputs and labels; the parts of a dataset are pairs or datasets.
    arrays = all(hasattr(part, "dtype") for part in value)
    return not arrays


def _classes(*labels: Any) -> int:
    """How many classes there are; 0 where labels are numbers."""
    for each in labels:
        if each.is_floating_point() or each.ndim != 1:
            return 0
    largest = [int(each.max()) for each in labels]
    return max(largest) + 1


def _tensors(value: Any, conventions: dict[str, str]) -> tuple[Any, Any]:
    """Inputs and labels as tensors, from a pair of arrays or a torch dataset of pairs."""
    import torch

    if _is_streamed(value):
        return _streamed(value, conventions)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        inputs, labels = (torch.as_tensor(part) for part in value)
    elif hasattr(value, "__getitem__") and hasattr(value, "__len__"):
        inputs, labels = _stacked(value)
    else:
        kind = type(value).__name__
        raise Error(f"expected (inputs, labels) or a torch dataset, found {kind}")
    if inputs.ndim == 0 or labels.ndim == 0:
        raise Error("expected as many inputs and labels as there are samples, found single numbers")
    if len(inputs) != len(labels):
        found = f"{len(inputs)} inputs and {len(labels)} labels"
        raise Error(f"the data have {found}, expected as many")
    # Bytes are pixels; other whole numbers keep their values.
    if inputs.dtype == torch.uint8:
        inputs = inputs.float() / 255
        conventions["inputs"] = "bytes divided by 255"
    if not inputs.is_floating_point():
        inputs = inputs.float()
    return inputs, labels


def _is_streamed(value: Any) -> bool:
    """Is it what need not be in memory: memory-mapped inputs, a loader, an iterable of batches?"""
    import numpy as np

    if isinstance(value, (tuple, list)):
        return len(value) == 2 and isinstance(value[0], np.memmap)
    is_loader = hasattr(value, "dataset") and hasattr(value, "__iter__")
    is_iterable = hasattr(value, "__iter__") and not hasattr(value, "__getitem__")
    return is_loader or is_iterable


def _streamed(value: Any, conventions: dict[str, str]) -> tuple[Any, Any]:
    """Inputs that are read batch by batch, and labels."""
    import torch
    from penchant_numerics.streamed import stream

    try:
        inputs, labels = stream(value)
    except (TypeError, ValueError) as error:
        raise Error(f"the data cannot be streamed: {error}") from error
    if inputs.stored_dtype() == torch.uint8:
        conventions["inputs"] = "bytes divided by 255"
    return inputs, labels


def _stacked(dataset: Any) -> tuple[Any, Any]:
    """The samples of a torch dataset, one after another."""
    import torch

    pairs = [dataset[index] for index in range(len(dataset))]
    try:
        inputs = torch.stack([torch.as_tensor(pair[0]) for pair in pairs])
        labels = torch.stack([torch.as_tensor(pair[1]) for pair in pairs])
    except (TypeError, IndexError, KeyError, RuntimeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise Error(
            f"the dataset must hold (input, label) pairs of one shape: {problem}"
        ) from error
    return inputs, labels


def _split(
    pair: tuple[Any, Any], generator: Any, conventions: dict[str, str]
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """A fifth of the samples for testing, of every class where labels are classes."""
    import torch

    inputs, labels = pair
    if len(inputs) < 2:
        raise Error(f"expected at least two samples, found {len(inputs)}")
    # Drawn on the host: the same samples on every device.
    order = torch.randperm(len(inputs), generator=generator, device="cpu")
    order = order.to(labels.device)
    # Numbers are one group, classes one each.
    whole = labels.ndim == 1 and not labels.is_floating_point()
    groups = labels[order].unique() if whole else [None]
    chosen = torch.zeros(len(inputs), dtype=torch.bool, device=labels.device)
    for group in groups:
        members = order if group is None else order[labels[order] == group]
        # A class of a single sample stays in the training part.
        count = len(members) // TEST_SHARE or int(len(members) > 1)
        chosen[members[:count]] = True
    # Every class has a single sample: one of them is tested with all the same.
    if not chosen.any():
        chosen[order[0]] = True
    how = "of every class, " if whole else ""
    conventions["test part"] = f"one in {TEST_SHARE} samples {how}drawn with the seed"
    train = (inputs[~chosen], labels[~chosen])
    test = (inputs[chosen], labels[chosen])
    return train, test
