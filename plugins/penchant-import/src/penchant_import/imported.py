"""The code behind `import`: networks and data of the user's own."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from penchant.components.targets import resolve
from penchant.errors import Error

from penchant_import.columns import Batches, Rows, input_and_label, together, train_and_test
from penchant_import.declarations import ImportedArchitecture, ImportedDataset
from penchant_import.inputs import begin_at, by_name
from penchant_import.labels import numbered, read_labels
from penchant_import.masked import check_unmasked
from penchant_import.output import choose
from penchant_import.pixels import is_picture, read_input, scaled

_handed_out: weakref.WeakSet[Any] = weakref.WeakSet()  # networks that factories have made

TEST_SHARE = 5  # one in this many samples is for testing where there is no test split


def build(options: ImportedArchitecture, shape: tuple[int, ...], outputs: int) -> Any:
    """Target of the architecture `import`."""
    from penchant_numerics.device import unwrapped
    from torch import nn

    source = options.factory
    if isinstance(source, nn.Module):
        return _prepared(_copied(source), options, shape)
    factory = resolve(source, "the architecture 'import'")
    network = _call(factory, shape=shape, outputs=outputs)
    if not isinstance(network, nn.Module):
        kind = type(network).__name__
        raise Error(f"the factory {source!r} must return a torch.nn.Module, found {kind}")
    # Every fresh network must be a new module.
    if network in _handed_out:
        hint = "make one at every call, or give the module itself to measure that one"
        raise Error(f"the factory {source!r} returns the same module every time; {hint}")
    _handed_out.add(network)
    return _prepared(unwrapped(network), options, shape)


def _copied(network: Any) -> Any:
    """A copy on the host, where networks are checked; the context moves it to its device."""
    try:
        return copy.deepcopy(network).cpu()
    except RuntimeError as error:  # results of an earlier pass are stored on it
        hint = "let forward store results detached, or give a factory that makes a new module"
        line, _, _ = str(error).partition(". ")
        raise Error(f"your network cannot be copied: {line}; {hint}") from None


def _prepared(network: Any, options: ImportedArchitecture, shape: tuple[int, ...]) -> Any:
    """The network with hooks for what the options say of its inputs and outputs."""
    choose(network, options.output, options.output_position, options.unit)
    if options.input_names:
        by_name(network, options.input_names)
    if options.inputs_from is not None:
        begin_at(network, options.inputs_from, shape)
    return network


def _call(factory: Callable[..., Any], **offered: Any) -> Any:
    """Call with those of the offered arguments that the signature has."""
    try:
        parameters: Mapping[str, Any] = inspect.signature(factory).parameters
    except ValueError:  # some builtins have no signature
        parameters = {}
    taken = {name: value for name, value in offered.items() if name in parameters}
    try:
        return factory(**taken)
    except TypeError as error:
        # Its own errors are raised as they are; only missing arguments get another message.
        needed = _unfilled(parameters, taken)
        if not needed:
            raise
        name = getattr(factory, "__qualname__", repr(factory))
        lacking = ", ".join(needed)
        given = ", ".join(offered)
        hint = "wrap it in a function that fills in the rest"
        raise Error(
            f"{name} needs {lacking}, but only {given} are passed; {hint} ({error})"
        ) from error


def _unfilled(parameters: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Parameters without a default and without a value."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = []
    for name, parameter in parameters.items():
        # *args and **kwargs need nothing.
        if parameter.kind in variadic or name in given:
            continue
        required = parameter.default is inspect.Parameter.empty
        if required:
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
    # Whatever it is, it becomes pairs of inputs and labels.
    conventions: dict[str, str] = {}
    warnings: list[str] = []
    splits = [_read(split, conventions, warnings) for split in _splits(source)]
    inputs, read = zip(*splits)
    # Classes of all splits are numbered together.
    labels, classes = numbered(read, conventions, _positions(inputs[0]), options.classes)
    if options.classes is not None:
        if not classes or options.classes < classes:
            labels_described = (
                f"labels up to {classes - 1}" if classes else "labels that are numbers"
            )
            raise Error(f"classes = {options.classes}, but the data have {labels_described}")
        classes = options.classes
    pairs = [_with_next_labels(pair, warnings) for pair in zip(inputs, labels)]
    if len(pairs) == 1:
        pairs = _split(pairs[0], generator, conventions)
    train, test = pairs
    return Data(
        Samples(*train),
        Samples(*test),
        classes,
        conventions=conventions,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _with_next_labels(pair: tuple[Any, Any], warnings: list[str]) -> tuple[Any, Any]:
    """Labels that are the tokens themselves, as transformers' models take them, are shifted."""
    import torch
    from penchant_numerics.data import WHOLE, next_labels, stored_type

    inputs, labels = pair
    # Streamed inputs are not gone through for this.
    if not isinstance(inputs, torch.Tensor) or stored_type(inputs) not in WHOLE:
        return pair
    tokens = inputs[:, 0] if inputs.ndim > labels.ndim else inputs
    shifted = next_labels(tokens, labels)
    if shifted is None:
        return pair
    warnings.append("labels are the inputs: taken for those of the next position")
    return inputs, shifted


def _positions(inputs: Any) -> int | None:
    """Positions of inputs that are tokens, the last axis."""
    from penchant_numerics.data import WHOLE, stored_type

    return inputs.shape[-1] if stored_type(inputs) in WHOLE else None


def _is_factory(source: Any) -> bool:
    # A torch dataset may be callable as well; it is data, not a factory.
    return callable(source) and not hasattr(source, "__getitem__")


def _splits(source: Any) -> tuple[Any, ...]:
    """Train and test splits, or all samples as the only one."""
    everything = (source,)
    if isinstance(source, Mapping):
        return train_and_test(source) or everything
    pair = isinstance(source, (tuple, list)) and len(source) == 2
    if not pair:
        return everything
    # Arrays, and lists of labels or of inputs, are columns; splits are pairs or datasets.
    first, second = source
    arrays = hasattr(first, "dtype") or hasattr(second, "dtype")
    if arrays or _is_column(second):
        return everything
    return first, second


def _is_column(value: Any) -> bool:
    """Is it a list of labels?"""
    if not isinstance(value, (tuple, list)) or not value:
        return False
    return isinstance(value[0], (str, int, float))


def _read(value: Any, conventions: dict[str, str], warnings: list[str]) -> tuple[Any, Any]:
    """Inputs and labels of one split, from columns, a dataset of samples, or what is streamed."""
    names: tuple[str, ...] = ()
    if isinstance(value, Mapping):
        names, label = input_and_label(value)
        value = (together(value, names), value[label])
    if _is_streamed(value):
        return _streamed(value, conventions)
    # What is in memory: two columns, or samples one after another.
    if isinstance(value, (tuple, list)) and len(value) == 2:
        first, second = value
        inputs = _column(first)
        labels = read_labels(second)
    elif hasattr(value, "__getitem__") and hasattr(value, "__len__"):
        inputs, labels, names = _stacked(value)
    else:
        kind = type(value).__name__
        raise Error(f"expected (inputs, labels) or a torch dataset, found {kind}")

    inputs, labels = _plain(inputs, "inputs"), _plain(labels, "labels")
    # Text has no axes to count.
    axes = getattr(labels, "ndim", 1)
    if inputs.ndim == 0 or axes == 0:
        raise Error("expected one input and one label per sample, found single numbers")
    if len(inputs) != len(labels):
        actual = f"{len(inputs)} inputs but {len(labels)} labels"
        raise Error(f"got {actual}; the numbers must match")
    if not len(inputs):
        raise Error("found no samples, expected at least two")
    if 0 in inputs.shape:
        shape = " x ".join(map(str, inputs.shape))
        raise Error(f"inputs have no features: all of them together have the shape {shape}")
    if len(names) > 1:
        return _with_mask(inputs, names, conventions), labels
    return scaled(inputs, conventions, warnings), labels


def _plain(value: Any, what: str) -> Any:
    """Values that can be measured; what cannot is refused with a cure. Text stays text."""
    import torch
    from penchant_numerics.data import unreadable

    if not isinstance(value, torch.Tensor):
        return value
    if problem := unreadable(value):
        raise Error(f"{what} are {problem}")
    value = value.detach()
    # Types that torch stores and hardly computes with.
    if value.dtype in (torch.uint16, torch.uint32, torch.uint64):
        whole = value.long()
        if (whole < 0).any():
            raise Error(f"{what} are whole numbers beyond {2**63 - 1}: give floating-point numbers")
        return whole
    return value


def _with_mask(inputs: Any, names: tuple[str, ...], conventions: dict[str, str]) -> Any:
    """Tokens (samples, names, positions) with what stands beside them, unless that says nothing."""
    if names == ("input_ids", "attention_mask") and bool((inputs[:, 1] == 1).all()):
        conventions["inputs"] = "input_ids, as they are; attention_mask is 1 everywhere"
        return inputs[:, 0].long()
    listed = ", ".join(names)
    conventions["inputs"] = (
        f"{listed} as one; the network takes them by name: input_names = {[*names]}"
    )
    return inputs.long()


def _column(values: Any) -> Any:
    """All inputs as one tensor, from an array or from a list of arrays or pictures."""
    import torch

    if isinstance(values, Mapping):
        names = ", ".join(map(str, values))
        raise Error(
            f"inputs are a dict of {names}, expected one tensor or array; join them into one that "
            "the network takes apart"
        )
    if not isinstance(values, (tuple, list)):
        check_unmasked(values, "inputs")
        return torch.as_tensor(values)
    # The first stands for all of them.
    first = values[0] if values else None
    if not hasattr(first, "shape") and not is_picture(first):
        kind = type(first).__name__
        hint = "torch.tensor(inputs) makes one"
        raise Error(f"inputs are a list of {kind}s, expected a tensor or an array; {hint}")
    inputs = [read_input(value) for value in values]
    return _stack(inputs)


def _is_streamed(value: Any) -> bool:
    """Is it what need not be in memory: memory-mapped inputs, a loader, an iterable of batches?"""
    import numpy as np

    if isinstance(value, (tuple, list)):
        return len(value) == 2 and isinstance(value[0], np.memmap)
    if not hasattr(value, "__iter__"):
        return False
    # A loader is iterated, even if its samples have numbers.
    is_loader = hasattr(value, "dataset")
    has_samples = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    return is_loader or not has_samples


def _streamed(value: Any, conventions: dict[str, str]) -> tuple[Any, Any]:
    """Inputs that are read batch by batch, and labels."""
    import torch
    from penchant_numerics.data import dataset_of, stored_type, stream

    try:
        inputs, labels = stream(_with_pairs(value))
    except (TypeError, ValueError) as error:
        raise Error(f"the data cannot be streamed: {error}") from error
    if stored_type(inputs) == torch.uint8:
        conventions["inputs"] = "bytes divided by 255"
    if getattr(value, "drop_last", False) and dataset_of(value) is not None:
        conventions["drop_last"] = "not obeyed: all samples of the loader's dataset are there"
    return inputs, labels


def _with_pairs(value: Any) -> Any:
    """The same with pairs of tensors for samples or batches, which may be dicts and pictures."""
    from penchant_numerics.data import dataset_of

    if isinstance(value, (tuple, list)):
        return value
    dataset = dataset_of(value)
    if dataset is not None:
        return Rows(dataset)
    # The first batch shows whether they have names.
    first = next(iter(value), None)
    if isinstance(first, Mapping):
        return Batches(value)
    return value


def _stacked(dataset: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """The samples of a dataset, one after another, and the names of their inputs."""
    if not len(dataset):
        raise Error("the dataset has no samples")
    rows = Rows(dataset)
    inputs = []
    labels = []
    for index in range(len(rows)):
        given, label = rows[index]
        inputs.append(given)
        labels.append(label)
    return _stack(inputs), read_labels(labels), rows.inputs


def _stack(inputs: list[Any]) -> Any:
    import torch

    shapes = list(dict.fromkeys(tuple(each.shape) for each in inputs))
    if len(shapes) > 1:
        listed = " and ".join(" x ".join(map(str, shape)) or "none" for shape in shapes[:2])
        raise Error(
            f"inputs must all have one shape, found {listed}; several inputs of a sample are "
            "joined into one that the network takes apart"
        )
    try:
        return torch.stack(inputs)
    except (TypeError, RuntimeError) as error:
        raise Error(f"inputs cannot be put together: {error}") from error


def _split(
    pair: tuple[Any, Any], generator: Any, conventions: dict[str, str]
) -> list[tuple[Any, Any]]:
    """A fifth of the samples for testing, of every class where labels are classes."""
    import torch

    inputs, labels = pair
    size = len(inputs)
    if size < 2:
        raise Error(f"expected at least two samples, found {size}")
    # Sampled on the host: the same samples on every device.
    order = torch.randperm(size, generator=generator, device="cpu")
    order = order.to(labels.device)
    # Numbers are one group, classes one each.
    whole = labels.ndim == 1 and not labels.is_floating_point()
    groups = labels[order].unique() if whole else [None]
    chosen = torch.zeros(size, dtype=torch.bool, device=labels.device)
    for group in groups:
        members = order
        if group is not None:
            members = order[labels[order] == group]
        # A class of a single sample stays in the training split.
        count = len(members) // TEST_SHARE or int(len(members) > 1)
        chosen[members[:count]] = True
    # Every class has a single sample: one of them is tested with all the same.
    if not chosen.any():
        chosen[order[0]] = True
    how = "of every class, " if whole else ""
    conventions["test split"] = f"one in {TEST_SHARE} samples {how}chosen with the seed"
    train = (inputs[~chosen], labels[~chosen])
    test = (inputs[chosen], labels[chosen])
    return [train, test]
