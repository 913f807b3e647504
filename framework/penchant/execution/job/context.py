"""What a probe is given: networks, data, estimators, random numbers, and a way to spread its work.

A context is a scope: whose code runs, with which options, on which networks, with which random
numbers. It can be narrowed, and what a map shares is sent to a worker once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast, overload

import attrs
from penchant.components.component import Architecture
from penchant.components.roles import Role
from penchant.components.training import Training
from penchant.errors import Error
from penchant.execution.job.datasets import Datasets, sized_architecture
from penchant.execution.job.devices import resolve_device
from penchant.execution.job.estimators import BoundEstimator, bound_estimators
from penchant.execution.job.mapping import Map, Pool, mapped
from penchant.execution.job.networks import BoundArchitecture
from penchant.execution.job.own_networks import OwnNetworks
from penchant.execution.job.runtime import Runtime
from penchant.execution.job.tables import tables
from penchant.execution.job.trainings import Trainings
from penchant.experiments.jobs import Job
from penchant.results.tables import Table
from penchant.seeds import derive

if TYPE_CHECKING:
    import torch
    import typing_extensions
    from penchant.execution.workers.engines import Link
    from penchant_numerics.data import Data, Samples
    from penchant_numerics.roles import Directions, Information, LayerCurvature
    from torch import nn

    # `Context` alone is a context of any options.
    Options = typing_extensions.TypeVar("Options", default=Any, covariant=True)
else:
    Options = TypeVar("Options")

T = TypeVar("T")  # what estimators of a role return


class Context(Generic[Options]):
    """Everything a probe may know and use.

    `Context[Nad]` has options of this class.

    Attributes:
        seed: The job's seed.
        device: Where tensors belong.
        dtype: Precision of networks and data.
        training: The recipe, where the job has one.
        shared: In a shard, what its map shares: tensors on the device, by name.
        warnings: Texts that `warn` was given.
        conventions: What makes numbers incomparable; add to it.
        runtime: For the kernel: the job, and where it runs.
    """

    def __init__(
        self,
        job: Job,
        folder: Path,
        *,
        device: torch.device | None = None,
        pool: Pool | None = None,
        link: Link | None = None,
    ) -> None:
        device = device or resolve_device(job.settings.device)
        self._begin(Runtime(job, folder, device, pool, link))

    @classmethod
    def of(cls, runtime: Runtime) -> Self:
        """The context that knows all this."""
        context = cls.__new__(cls)
        context._begin(runtime)
        return context

    def _begin(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.seed = runtime.job.seed
        self.device = runtime.device
        self.dtype = runtime.dtype
        self.training: Training | None = runtime.job.probe.training
        self.shared = runtime.shared
        self.warnings = runtime.notes.warnings
        self.conventions = runtime.notes.conventions

    # Whose code runs, on what.

    @property
    def options(self) -> Options:
        """Options of the component whose code runs, arrays read.

        They are the probe's in `run` and in its shards, the estimator's in its own.
        """
        return cast("Options", self.runtime.options)

    def has(self, axis: str) -> bool:
        """Was an "architecture", a "dataset" or a "training" given?"""
        return self.runtime.has(axis)

    def scope(
        self,
        *keys: object,
        architecture: Architecture | str | None = None,
        shape: Sequence[int] | None = None,
        outputs: int | None = None,
        first: int = 0,
    ) -> Self:
        """A narrower context: other networks, other random numbers.

        Args:
            *keys: Enter every generator made below.
            architecture: Another one: a component, or text such as "mlp:widths=[64]" of one that
                the running component names in `uses`.
            shape: Another input shape.
            outputs: Another number of outputs.
            first: Networks are numbered from this one on.

        Returns:
            The context; warnings and conventions reach the same result.
        """
        return self.of(self.runtime.narrower(keys, architecture, shape, outputs, first))

    # Data and networks.

    @property
    def data(self) -> Data:
        """Train and test samples of the job's dataset on the device, and the number of classes."""
        return Datasets(self.runtime).given()

    def dataset(self, name: str, **options: object) -> Data:
        """Samples of a dataset that the running component names in `uses`."""
        return Datasets(self.runtime).named(name, **options)

    @functools.cached_property
    def architecture(self) -> BoundArchitecture:
        """The bound architecture: a callable index -> module, with `shape` and `outputs`."""
        return sized_architecture(self.runtime)

    @property
    def measured(self) -> BoundArchitecture | Data:
        """What says how large inputs and outputs are: the networks, else the data."""
        return self.architecture if self.has("architecture") else self.data

    def network(self, index: int = 0, outputs: int | None = None) -> nn.Module:
        """Network number `index` of this seed, in evaluation mode, on the device."""
        architecture = self.architecture
        if outputs is not None:
            architecture = attrs.evolve(architecture, outputs=outputs)
        return self.runtime.on_device(architecture(index))

    @property
    def network_kind(self) -> str:
        """What the architecture stands for: "fresh" networks, one "trained", a "trajectory"."""
        return OwnNetworks(self.runtime).kind

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of the user's trajectory; empty where there is none."""
        return OwnNetworks(self.runtime).steps

    # Training.

    def trained(self, steps: Sequence[int] | None = None) -> Iterator[tuple[int, nn.Module]]:
        """Yield (step, network) along the training of this architecture, dataset and seed.

        By default its end only. Steps after an early stop (`until_loss`) are left out. A module or
        `weights` of one file are yielded as they are, as step 0, unless this probe was given a
        training of its own. Of a trajectory, `weights` of several files, all states are yielded,
        or those of `steps`.
        """
        own = OwnNetworks(self.runtime)
        if own.kind != "fresh":
            return own.states(self.network, steps)
        return Trainings(self).states(steps)

    def train(
        self,
        network: nn.Module,
        samples: Samples,
        *keys: object,
        steps: Sequence[int] | None = None,
        test: Samples | None = None,
    ) -> Iterator[tuple[int, nn.Module]]:
        """Train a network by the job's recipe on samples of the probe's own, in place.

        Args:
            network: The network; it is changed.
            samples: What it is trained on.
            *keys: Tell one training from another; its random numbers come from them.
            steps: Steps to yield at; by default the end only.
            test: What a sweep of learning rates is judged on.

        Yields:
            The step and the network.
        """
        seed = self.generator("training", *keys).initial_seed()
        yield from Trainings(self).train(network, samples, seed=seed, steps=steps, test=test)

    # Estimators.

    @overload
    def estimator(self, role: Role[T]) -> BoundEstimator[T]: ...
    @overload
    def estimator(self, role: Literal["directions"]) -> BoundEstimator[Directions]: ...
    @overload
    def estimator(
        self, role: Literal["curvature"]
    ) -> BoundEstimator[Mapping[str, LayerCurvature]]: ...
    @overload
    def estimator(self, role: Literal["mutual-information"]) -> BoundEstimator[Information]: ...
    @overload
    def estimator(self, role: str) -> BoundEstimator[Any]: ...
    def estimator(self, role: Role[Any] | str) -> BoundEstimator[Any]:
        """The estimator the experiment chose for a role, or the role of this name."""
        bound = self.estimators(role)
        if len(bound) != 1:
            name = role.name if isinstance(role, Role) else role
            raise Error(f"the role {name!r} has {len(bound)} estimators, expected one")
        return bound[0]

    @overload
    def estimators(self, role: Role[T]) -> tuple[BoundEstimator[T], ...]: ...
    @overload
    def estimators(self, role: str) -> tuple[BoundEstimator[Any], ...]: ...
    def estimators(self, role: Role[Any] | str) -> tuple[BoundEstimator[Any], ...]:
        """All estimators the experiment chose for a role of which the probe takes several."""
        return bound_estimators(self, role.name if isinstance(role, Role) else role)

    # Shards.

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[Any] | None = None,
        *,
        networks: int | range | None = None,
        shard_size: int = 32,
        shared: Mapping[str, Any] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield `function(context, item)` in the order of items; each is stored as a shard.

        Shards that a stopped run had finished are read again. Items and their order must depend on
        options only.

        Args:
            function: A function at the top of a module. It returns {name: number, array, text,
                true, false or None}.
            items: JSON-like values.
            networks: Instead of items: numbers 0 to n are cut into ranges, which are the items.
            shard_size: Networks in such a range.
            shared: Arrays that every shard sees as `context.shared`, sent to a worker once.

        Yields:
            What the function returned, with arrays of the host.
        """
        return mapped(
            Map.of(self, function, items, networks=networks, shard_size=shard_size, shared=shared)
        )

    def tables(
        self,
        function: Callable[..., Any],
        *,
        inside: Sequence[str] | Mapping[str, Sequence[Any]] = (),
        shared: Mapping[str, Any] | None = None,
        trainings: bool = False,
        outputs: int | None = None,
        **axes: Iterable[Any],
    ) -> dict[str, Table]:
        """Call a function for every combination of coordinates, and give what it returns as tables.

        `context.tables(trained, frequency=(0.1, 0.5), training=range(3))` calls
        `trained(context, {"frequency": 0.1, "training": 0})` and so on, the last axis fastest. Each
        call is a shard, as in `map`.

        Args:
            function: A function at the top of a module. It returns {name: number or array}.
            inside: The axes of the arrays that it returns, outermost first: names, or names with
                their coordinates. An array that has fewer axes has those of the table that is
                declared under its name, else the first of them.
            shared: Arrays that every shard sees as `context.shared`.
            trainings: The function trains networks, several side by side where the device profits;
                it is made with `penchant_numerics.training.shard_of`.
            outputs: Of the networks that are trained, where not those of the architecture.
            **axes: Name of each axis to its coordinates: numbers, text, true and false.

        Returns:
            A table for each name, of these axes and then those inside.
        """
        return tables(
            self, function, axes, inside=inside, shared=shared, trainings=trainings, outputs=outputs
        )

    # Random numbers, progress, warnings.

    def generator(self, *keys: object) -> torch.Generator:
        """A CPU generator of this seed, probe, scope and keys.

        Options never enter, so that more networks extend fewer.
        """
        import torch

        probe = self.runtime.job.probe.component.name
        seed = derive(self.seed, probe, *self.runtime.scope.keys, *keys)
        return torch.Generator(device="cpu").manual_seed(seed)

    def progress(self, total: int, what: str) -> Callable[[int], None]:
        """Report progress: call what this returns with how many are done."""
        return lambda done: self.runtime.progress.tell(what, done, total)

    def warn(self, text: str) -> None:
        """Store a warning with the result and show it; the same text once."""
        self.runtime.notes.warn(text)
