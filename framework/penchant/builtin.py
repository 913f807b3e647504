"""What the kernel itself offers, through the same hooks as everybody: executors, `import`, the progress display."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs
from penchant.components import Architecture, Dataset, Executor, option, resolve
from penchant.errors import Error
from penchant.hookspecs import hookimpl


@attrs.frozen
class Serial(Executor):
    """Runs everything in this process, one thing after another."""

    name = "serial"
    target = "penchant.execution:start_serial"


@attrs.frozen
class Processes(Executor):
    """Spreads jobs and shards over worker processes of this machine, one device each."""

    name = "processes"
    target = "penchant.execution:start_processes"


@attrs.frozen
class ImportedArchitecture(Architecture):
    """Your own network: any callable that returns a `torch.nn.Module`, or a module itself.

    A callable is given `shape` and `outputs` where its signature has them, and draws a fresh network at every call. A
    module is one definite network: every network of the architecture is a copy of it.
    """

    name = "import"
    target = "penchant.builtin:build_imported"

    factory: Any = option(
        help="package.module:function, or in Python the callable or module itself", target=True
    )


@attrs.frozen
class ImportedDataset(Dataset):
    """Your own data: (inputs, labels), train and test pairs of these, or torch datasets; or a callable returning them.

    Without a test part, the last fifth of the samples is kept for testing. Labels that are whole numbers are classes.
    """

    name = "import"
    target = "penchant.builtin:load_imported"

    factory: Any = option(
        help="package.module:function, or in Python the callable or the data itself", target=True
    )


@hookimpl
def penchant_executors() -> list[type[Executor]]:
    return [Serial, Processes]


@hookimpl
def penchant_architectures() -> list[type[Architecture]]:
    return [ImportedArchitecture]


@hookimpl
def penchant_datasets() -> list[type[Dataset]]:
    return [ImportedDataset]


def _call(factory: Callable[..., Any], **offered: Any) -> Any:
    """Call with those of the offered arguments that the signature has."""
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:  # some builtins have no signature
        parameters = {}  # type: ignore[assignment]
    return factory(**{name: value for name, value in offered.items() if name in parameters})


def build_imported(options: ImportedArchitecture, shape: tuple[int, ...], outputs: int) -> Any:
    """Target of the architecture `import`."""
    import copy

    from torch import nn

    source = options.factory
    if isinstance(source, nn.Module):
        return copy.deepcopy(source)
    network = _call(resolve(source, "the architecture 'import'"), shape=shape, outputs=outputs)
    if not isinstance(network, nn.Module):
        raise Error(
            f"the factory {source!r} must return a torch.nn.Module, found {type(network).__name__}"
        )
    return network


def load_imported(options: ImportedDataset, generator: Any) -> Any:
    """Target of the dataset `import`."""
    source = options.factory
    value = (
        _call(resolve(source, "the dataset 'import'"), generator=generator)
        if isinstance(source, str) or _is_factory(source)
        else source
    )
    if (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and not all(hasattr(part, "dtype") for part in value)
    ):
        train, test = (_tensors(part) for part in value)
    else:
        train, test = _split(_tensors(value))
    whole = not train[1].is_floating_point() and train[1].ndim == 1
    classes = int(max(train[1].max(), test[1].max())) + 1 if whole else 0
    return train, test, classes


def _is_factory(source: Any) -> bool:
    return callable(source) and not hasattr(source, "__getitem__")


def _tensors(value: Any) -> tuple[Any, Any]:
    """Inputs and labels as tensors, from a pair of arrays or a torch dataset of pairs."""
    import torch

    if isinstance(value, (tuple, list)) and len(value) == 2:
        inputs, labels = (torch.as_tensor(part) for part in value)
    elif hasattr(value, "__getitem__") and hasattr(value, "__len__"):
        pairs = [value[index] for index in range(len(value))]
        try:
            inputs = torch.stack([torch.as_tensor(pair[0]) for pair in pairs])
            labels = torch.stack([torch.as_tensor(pair[1]) for pair in pairs])
        except (TypeError, IndexError, RuntimeError) as error:
            raise Error(
                f"the dataset must hold (input, label) pairs of one shape: {error}"
            ) from error
    else:
        raise Error(f"expected (inputs, labels) or a torch dataset, found {type(value).__name__}")
    if len(inputs) != len(labels):
        raise Error(
            f"the data have {len(inputs)} inputs and {len(labels)} labels, expected as many"
        )
    return (inputs if inputs.is_floating_point() else inputs.float()), labels


def _split(pair: tuple[Any, Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    inputs, labels = pair
    cut = len(inputs) - max(1, len(inputs) // 5)
    if cut < 1:
        raise Error(f"expected at least two samples, found {len(inputs)}")
    return (inputs[:cut], labels[:cut]), (inputs[cut:], labels[cut:])


class Display:
    """Shows a run on the terminal: a line a job, and in between how far the present one got, with the time left."""

    def __init__(self) -> None:
        self._bar = sys.stderr.isatty()
        self._started: tuple[str, str, float, int] = ("", "", 0.0, 0)

    @hookimpl
    def penchant_run_started(self, run: Any) -> None:
        waiting = sum(job["status"] != "done" for job in run.jobs)
        print(
            f"{run.title}: {len(run.jobs)} jobs, {len(run.jobs) - waiting} already done -> {run.folder}",
            file=sys.stderr,
        )

    @hookimpl
    def penchant_progress(self, job: str, what: str, done: int, total: int) -> None:
        if self._started[:2] != (job, what) or done < self._started[3]:
            self._started = (job, what, time.monotonic(), done)
        if self._bar:
            left = _time_left(
                time.monotonic() - self._started[2], done - self._started[3], total - done
            )
            print(
                f"\r\x1b[2K  {job}: {done}/{total} {what}{left}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        self._clear()
        print(
            f"  {result.status:6} {job.id}  {result.cost.get('seconds', 0):.1f} s", file=sys.stderr
        )
        if result.error:
            print(f"         {result.error}", file=sys.stderr)
        for warning in result.warnings:
            print(f"         warning: {warning}", file=sys.stderr)

    @hookimpl
    def penchant_run_finished(self, run: Any) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._bar:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def _time_left(seconds: float, done: int, left: int) -> str:
    if done < 1 or seconds <= 0:
        return ""
    remaining = seconds / done * left
    return f", {done / seconds:.3g}/s, {remaining // 60:.0f}:{remaining % 60:02.0f} left"
