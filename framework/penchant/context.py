"""What a probe is given: networks, data, estimators, random numbers, and a way to spread its work."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.components import check_parameters, resolve
from penchant.errors import Error, suggestion
from penchant.execution import SerialPool
from penchant.identity import derive, plain, short_hash
from penchant.jobs import Choice, Job, sendable
from penchant.networks import BoundArchitecture, Checkpoints, load_weights
from penchant.results import read_arrays, write_arrays
from penchant.roles import role_of
from penchant.runs import with_arrays

NOTES = "__notes__"  # the array of a shard that holds its warnings and conventions
_LOADED: dict[tuple[Any, ...], Any] = {}  # the one dataset this process keeps


class Context:
    """Everything a probe may know and use; the members are described in CONTRIBUTING.md."""

    def __init__(
        self,
        job: Job,
        folder: Path,
        *,
        pool: Any = None,
        notify: Callable[..., None] | None = None,
        worker: int = 0,
    ) -> None:
        import torch

        self._job, self._folder, self._pool, self._notify = (
            job,
            folder,
            pool or SerialPool(),
            notify,
        )
        self._worker, self._shards = worker, 0
        self.seed = job.seed
        self.training = job.probe.training
        self.device = torch.device(place(job.settings.device, worker))
        self.dtype = getattr(torch, job.settings.dtype)
        self.warnings: list[str] = []
        self.conventions: dict[str, str] = {}

    @functools.cached_property
    def data(self) -> Any:
        """Train and test samples of the job's dataset as tensors on the device, and the number of classes."""
        if self._job.dataset is None:
            raise Error(f"the probe {self._job.probe.label!r} was given no dataset")
        return self._load(self._job.dataset.component)

    def dataset(self, name: str, **options: Any) -> Any:
        """Samples of a dataset that the probe names in `uses`."""
        if name not in self._job.probe.datasets:
            raise Error(
                f"the probe {self._job.probe.component.name!r} must name {name!r} in `uses` before it calls it"
            )
        return self._load(
            self._job.probe.datasets[name].component.bind(options, f"context.dataset({name!r})")
        )

    def _load(self, component: Any) -> Any:
        key = (
            component.name,
            short_hash(plain(component.options())),
            self.seed,
            self.device,
            self.dtype,
        )
        if key not in _LOADED:
            from penchant_numerics.data import as_data

            load = resolve(component.target, f"dataset {component.name!r}")
            check_parameters(load, component.parameters, f"dataset {component.name!r}")
            try:
                data = as_data(
                    load(with_arrays(component), self._generator("dataset", component.name))
                )
            except (TypeError, ValueError) as error:
                raise Error(f"dataset {component.name!r}: {error}") from error
            _LOADED.clear()
            _LOADED[key] = data.to(self.device, self.dtype)
        data = _LOADED[key]
        self.conventions.update(
            {f"{component.name}: {name}": text for name, text in data.conventions.items()}
        )
        for warning in data.warnings:
            self.warn(f"{component.name}: {warning}")
        return data

    @functools.cached_property
    def architecture(self) -> BoundArchitecture:
        """The bound architecture: a callable index -> module, with `shape` and `outputs`."""
        choice, settings = self._job.architecture, self._job.settings
        if choice is None:
            raise Error(f"the probe {self._job.probe.label!r} was given no architecture")
        shape, outputs = (
            (self.data.shape, self.data.outputs)
            if self._job.dataset
            else (settings.shape, settings.outputs)
        )
        return BoundArchitecture(
            with_arrays(choice.component), choice.label, tuple(shape), outputs, self.seed
        )

    def network(self, index: int = 0, outputs: int | None = None) -> Any:
        """Network number `index` of this seed, in evaluation mode, on the device and in the precision of the run."""
        architecture = (
            self.architecture if outputs is None else self.architecture.with_outputs(outputs)
        )
        return architecture(index).to(self.device, self.dtype).eval()

    def trained(self, steps: Sequence[int] | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (step, network) along the training of this architecture, dataset and seed; by default its end only.

        Steps after an early stop (`until_loss`) are left out. With `weights`, the user's checkpoint is yielded as step 0.
        """
        choice = self._job.architecture
        if choice is not None and choice.weights:
            network = self.network()
            load_weights(network, Path(choice.weights), choice.label)
            yield 0, network
            return
        if self.training is None:
            raise Error(
                f"the probe {self._job.probe.component.name!r} must name 'training' in `needs` before it trains"
            )
        training = self._best_rate() if self.training.learning_rates else self.training
        yield from self._checkpoints(training).states(self.network, steps)

    def _checkpoints(self, training: Any) -> Checkpoints:
        folder = self._folder / "networks" / short_hash([self._job.network_key, training.options()])
        return Checkpoints(
            folder,
            self.data,
            training,
            derive(self.seed, "training"),
            functools.partial(self._tell, "training steps"),
        )

    def _best_rate(self) -> Any:
        """The training with the learning rate of the smallest final test error (first of equals), recorded as a convention."""
        from penchant_numerics.trainer import evaluate

        assert self.training is not None
        errors = []
        for rate in self.training.learning_rates:
            training = attrs.evolve(self.training, learning_rate=rate, learning_rates=())
            *_, (_, network) = self._checkpoints(training).states(self.network, None)
            loss, accuracy = evaluate(network, self.data.test, loss=training.loss)
            errors.append((1 - accuracy if self.data.classes else loss, training))
        error, best = min(errors, key=lambda pair: pair[0])
        self.conventions["learning rate"] = (
            f"{best.learning_rate:g}, smallest test error ({error:.4g}) of {len(errors)} rates"
        )
        return best

    def estimator(self, role: str) -> BoundEstimator:
        """The estimator the experiment chose for a role, ready to be called with the role's remaining arguments."""
        (one,) = self.estimators(role)
        return one

    def estimators(self, role: str) -> tuple[BoundEstimator, ...]:
        """All estimators the experiment chose for a role of which the probe takes several."""
        chosen = self._job.probe.estimators
        if role not in chosen:
            raise Error(
                f"the probe {self._job.probe.component.name!r} has no role {role!r}{suggestion(role, chosen)}"
            )
        return tuple(BoundEstimator(each, self) for each in chosen[role])

    def map(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """Yield `function(context, item)`, {name: number or array}, in the order of items; each is kept as a shard.

        What a stopped run had finished is read again. Items and their order must depend on options only.
        """
        items = list(items)
        if self._pool.workers > 1 and not sendable(function):
            name = f"{function.__module__}:{function.__qualname__}"
            raise Error(
                f"context.map needs a function that other processes can import, found {name}; define it at the top of a module"
            )
        first, self._shards = self._shards, self._shards + len(items)
        shards = [
            Shard(first + index, function, _json_like(item, function))
            for index, item in enumerate(items)
        ]
        return self._mapped(shards)

    def _mapped(self, shards: list[Shard]) -> Iterator[dict[str, Any]]:
        stored = {shard.number: self._stored(shard) for shard in shards}
        missing = [shard for shard in shards if stored[shard.number] is None]
        pool = self._pool if len(missing) > 1 else SerialPool()
        setup = self if pool.workers == 1 else ShardSetup(self._job, self._folder)
        answers = pool.map(run_shard, setup, missing)
        for done, shard in enumerate(shards, 1):
            arrays = stored.pop(shard.number)
            if arrays is None:
                arrays = next(answers)
                self._keep(shard, arrays)
            self._tell("shards", done, len(shards))
            notes = json.loads(str(arrays.pop(NOTES)))
            self.conventions.update(notes["conventions"])
            for warning in notes["warnings"]:
                self.warn(warning)
            yield {
                name: array.item() if array.ndim == 0 else array for name, array in arrays.items()
            }

    def _path(self, shard: Shard) -> Path:
        return self._folder / "jobs" / self._job.id / "shards" / f"{shard.number}.npz"

    def _stored(self, shard: Shard) -> dict[str, Any] | None:
        """What this very shard of this very job left, if it is whole."""
        if self._inside or not self._path(shard).is_file():
            return None
        try:
            arrays = read_arrays(self._path(shard))
        except Error:
            return None  # cut short when the machine went down: done again
        return arrays if str(arrays.pop("__shard__", "")) == shard.identity(self._job.key) else None

    def _keep(self, shard: Shard, arrays: dict[str, Any]) -> None:
        if self._inside:
            return
        self._path(shard).parent.mkdir(parents=True, exist_ok=True)
        write_arrays(
            self._path(shard), {"__shard__": shard.identity(self._job.key), **arrays}, durable=False
        )

    _inside = False  # true in the context that a shard is given

    def generator(self, *keys: Any) -> Any:
        """A CPU generator of this seed, probe and keys; options never enter, so more samples extend fewer."""
        return self._generator(self._job.probe.component.name, *keys)

    def _generator(self, *keys: Any) -> Any:
        import torch

        return torch.Generator(device="cpu").manual_seed(derive(self.seed, *keys))

    def progress(self, total: int, what: str) -> Callable[[int], None]:
        """Report progress: call what this returns with how many are done."""
        return lambda done: self._tell(what, done, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._notify is not None:
            self._notify("penchant_progress", job=self._job.id, what=what, done=done, total=total)

    def warn(self, text: str) -> None:
        """Keep a warning with the result and show it; the same text once."""
        if text not in self.warnings:
            self.warnings.append(text)


class BoundEstimator:
    """An estimator with its options and context: call it with what its role adds."""

    def __init__(self, choice: Choice, context: Context) -> None:
        role = role_of(choice.component)
        assert role is not None
        self.name, self.options = choice.component.name, with_arrays(choice.component)
        self._function, self._context = role.load(choice.component), context

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(self.options, self._context, *arguments, **keywords)


@attrs.frozen
class Shard:
    """One item of a map."""

    number: int
    function: Callable[..., Any]
    item: Any

    def identity(self, key: str) -> str:
        return f"{key} {self.function.__module__}:{self.function.__qualname__} {json.dumps(self.item, sort_keys=True)}"


class ShardSetup:
    """What a worker needs for the shards of a job; its context is made once and serves them all."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder = job, folder

    def context(self, worker: int) -> Context:
        if not hasattr(self, "_context"):
            self._context = Context(self.job, self.folder, worker=worker)
        return self._context


def run_shard(setup: Context | ShardSetup, shard: Shard, worker: int) -> dict[str, Any]:
    """Do one shard; its answer has the same form whether it was done here or elsewhere."""
    import copy

    import numpy as np

    outer = setup if isinstance(setup, Context) else setup.context(worker)
    context = copy.copy(outer)  # the loaded data and networks are shared, warnings are not
    context._inside, context._pool, context._notify = True, SerialPool(), None
    context.warnings, context.conventions = [], {}
    answer = shard.function(context, shard.item)
    if not isinstance(answer, dict):
        raise Error(
            f"{shard.function.__qualname__} must return a dict of numbers and arrays, found {type(answer).__name__}"
        )
    arrays = {
        name: np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        for name, value in answer.items()
    }
    notes = {"warnings": context.warnings, "conventions": context.conventions}
    return {**arrays, NOTES: np.asarray(json.dumps(notes))}


def _json_like(item: Any, function: Callable[..., Any]) -> Any:
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError) as error:
        raise Error(
            f"context.map takes JSON-like items, found {item!r} for {function.__qualname__}: {error}"
        ) from None


def place(device: str, worker: int) -> str:
    """The device of a worker: with several CUDA devices and none named, worker i takes device i."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise Error(f"device must be auto, cpu, cuda or cuda:N, found {device!r}")
    if kind != "cuda":
        return kind
    if not torch.cuda.is_available():
        raise Error(
            f"device {device!r} was asked for, but torch {torch.__version__} finds no CUDA device here; use device = 'cpu' or 'auto'"
        )
    count = torch.cuda.device_count()
    if number and int(number) >= count:
        raise Error(
            f"device {device!r} was asked for, but there are {count} CUDA devices, numbered from 0"
        )
    return device if number else f"cuda:{worker % count}"
