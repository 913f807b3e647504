"""What a probe is given: networks, data, estimators, random numbers, and a way to spread its work.

A context is a scope: whose code runs, with which options, on which networks, with which random
numbers. It can be narrowed, and what a map shares is sent to a worker once.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import attrs
from penchant.components.component import Architecture, Component
from penchant.components.roles import Role, role_of
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.execution.job.checkpoints import Checkpoints, Finished, best_rate
from penchant.execution.job.devices import resolve_device
from penchant.execution.job.estimators import BoundEstimator
from penchant.execution.job.loading import loaded, write_counts
from penchant.execution.job.mapping import Map, Pool, json_like, mapped, ranges, shared_arrays
from penchant.execution.job.networks import BoundArchitecture
from penchant.execution.job.tables import tables
from penchant.execution.queue import progress
from penchant.experiments.arrays import with_arrays
from penchant.experiments.jobs import BoundComponent, Job, training_name
from penchant.experiments.typed_text import parse_component
from penchant.extras import extra
from penchant.plugins.discovery import Registration
from penchant.results.tables import Table
from penchant.seeds import derive

if TYPE_CHECKING:
    import torch
    from penchant.execution.workers.engines import Link
    from penchant_numerics.data import Data, Samples
    from penchant_numerics.roles import Directions, Information, LayerCurvature
    from torch import nn

T = TypeVar("T")  # what estimators of a role return
SECONDS_BETWEEN_REPORTS = 0.1  # of progress: more often is not seen, and costs


@attrs.frozen
class Scope:
    """Whose code runs, on which networks, with which random numbers.

    What is None is the job's own.
    """

    owner: tuple[str, int] | None = None  # role and number of an estimator; None: the probe
    keys: tuple[Any, ...] = ()  # enter every generator
    architecture: Architecture | None = None
    shape: tuple[int, ...] | None = None  # of one input
    outputs: int | None = None
    first: int = 0  # number of the network that counts as number 0
    state: int | None = None  # of a trajectory, the one that is measured alone; None: all


class Context:
    """Everything a probe may know and use.

    Attributes:
        options: Options of the component whose code runs: the probe's in `run` and in its shards,
            the estimator's in its own.
        seed: The job's seed.
        device: Where tensors belong.
        dtype: Precision of networks and data.
        training: The recipe, where the job has one.
        shared: In a shard, what its map shares: tensors on the device, by name.
        warnings: Texts that `warn` was given.
        conventions: What makes numbers incomparable; add to it.
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
        import torch

        self._job = job
        self._folder = folder
        self._pool = pool
        self._link = link  # to the command, where that alone sees the run folder
        self._inside = False  # true in the context that a shard is given
        self._scope = Scope()
        # Shared by all narrower contexts of this one.
        self._counts = {"shards": 0}
        self._samples: dict[tuple[str | None, int | None], tuple[Data, tuple[int, ...]]] = {}
        self._reported = 0.0
        self.seed = job.seed
        self.training: Training | None = job.probe.training
        self.device = device or resolve_device(job.settings.device)
        self.dtype: torch.dtype = getattr(torch, job.settings.dtype)
        self.shared: Mapping[str, Any] = {}
        self.warnings: list[str] = []
        self.conventions: dict[str, str] = {}

    # Whose code runs, on what.

    @functools.cached_property
    def options(self) -> Any:
        """Options of the component whose code runs, arrays read."""
        probe = self._job.probe
        if self._scope.owner is None:
            return with_arrays(probe.component)
        role, number = self._scope.owner
        return with_arrays(probe.estimators[role][number].component)

    def has(self, axis: str) -> bool:
        """Was an "architecture", a "dataset" or a "training" given?"""
        given = {
            "architecture": self._scope.architecture or self._job.architecture,
            "dataset": self._job.dataset,
            "training": self.training,
        }
        if axis not in given:
            raise Error(f"a context has architecture, dataset and training, found {axis!r}")
        return given[axis] is not None

    def scope(
        self,
        *keys: object,
        architecture: Architecture | str | None = None,
        shape: Sequence[int] | None = None,
        outputs: int | None = None,
        first: int = 0,
    ) -> Context:
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
        before = self._scope
        if isinstance(architecture, str):
            architecture = self._used_architecture(architecture)
        narrower = attrs.evolve(
            before,
            keys=(*before.keys, *keys),
            architecture=architecture or before.architecture,
            shape=before.shape if shape is None else tuple(shape),
            outputs=outputs or before.outputs,
            first=before.first + first,
        )
        return self._in(narrower)

    def _in(self, scope: Scope) -> Context:
        """This context in another scope."""
        other = copy.copy(self)
        other._scope = scope
        # Both are cached properties: the copy must not inherit those of the old scope.
        for name in ("architecture", "options"):
            other.__dict__.pop(name, None)
        return other

    def _for_shard(self) -> Context:
        """The context of a shard: data and networks are shared with others, warnings are not."""
        context = copy.copy(self)
        context._inside = True
        # Shards inside a shard are done where it runs: workers start no workers.
        context._pool = None
        context._counts = {"shards": 0}
        context.warnings = []
        context.conventions = {}
        context.shared = {}
        return context

    def _used_architecture(self, text: str) -> Architecture:
        entry = parse_component(text)
        registration = self._used("architecture", entry.pop("name"))
        return cast("Architecture", registration.component.bind(entry, f"context.scope({text!r})"))

    def _used(self, kind: str, name: str) -> Registration:
        probe = self._job.probe
        registration = probe.used.get((kind, name))
        if registration is None:
            who = probe.component.name
            raise Error(f"{who!r} must name the {kind} {name!r} in `uses` before it asks for it")
        return registration

    # Data and networks.

    @property
    def data(self) -> Data:
        """Train and test samples of the job's dataset on the device, and the number of classes."""
        return self._data(self._begins_at)

    def _data(self, layer: str | None) -> Data:
        """Samples, or a layer's outputs for them, loaded once for all contexts of the job."""
        dataset = self._job.dataset
        if dataset is None:
            raise Error(f"the probe {self._job.probe.label!r} was given no dataset")
        # Each state of a trajectory has outputs of its own.
        key = (layer, self._scope.state if layer else None)
        if key in self._samples:
            data, counts = self._samples[key]
            # Samples that were written to are loaded again: a probe never sees another's changes.
            if counts == write_counts(data):
                return data
        data = self._embedded(self._data(None), layer) if layer else self._load(dataset)
        self._samples[key] = data, write_counts(data)
        return data

    @property
    def _own_architecture(self) -> BoundComponent[Architecture] | None:
        """The architecture that the experiment names; None where the scope has another one."""
        return self._job.architecture if self._scope.architecture is None else None

    @property
    def _begins_at(self) -> str | None:
        """The layer at which the job's networks begin; None where they are whole."""
        own = self._own_architecture
        if own is None or self._job.dataset is None:
            return None
        return getattr(own.component, "inputs_from", None)

    def _embedded(self, data: Data, layer: str) -> Data:
        """Samples as the outputs of the layer at which networks begin."""
        if self.network_kind == "trajectory":
            raise Error("inputs_from needs one network, found a trajectory that is followed")
        network = self._on_device(self._bound(data.shape, data.outputs)(0))
        network = self._filled(network, self._scope.state or 0)
        self.conventions["inputs"] = f"outputs of the layer {layer!r} for the dataset's inputs"
        own = self._own_architecture
        if own is not None and own.network_kind == "fresh":
            self.conventions["inputs"] += ", in the first network"
        embed = cast("Callable[[Data], Data]", network.embed)
        return embed(data)

    def dataset(self, name: str, **options: object) -> Data:
        """Samples of a dataset that the running component names in `uses`."""
        registration = self._used("dataset", name)
        component = registration.component.bind(options, f"context.dataset({name!r})")
        return self._load(BoundComponent(component, registration, name))

    def _load(self, dataset: BoundComponent[Component]) -> Data:
        name = dataset.component.name
        link = self._link
        data = loaded(dataset, seed=self.seed, device=self.device, dtype=self.dtype, link=link)
        for convention, text in data.conventions.items():
            self.conventions[f"{name}: {convention}"] = text
        for warning in data.warnings:
            self.warn(f"{name}: {warning}")
        return data

    @functools.cached_property
    def architecture(self) -> BoundArchitecture:
        """The bound architecture: a callable index -> module, with `shape` and `outputs`."""
        shape, outputs = self._scope.shape, self._scope.outputs
        # What the scope does not replace comes from the dataset, else from the settings.
        if shape is None or outputs is None:
            source = self.data if self._job.dataset else self._job.settings
            shape = source.shape if shape is None else shape
            outputs = source.outputs if outputs is None else outputs
        bound = self._bound(shape, outputs)
        return attrs.evolve(bound, built_for=self._data(None).shape) if self._begins_at else bound

    def _bound(self, shape: Sequence[int], outputs: int) -> BoundArchitecture:
        own, component = self._own_architecture, self._scope.architecture
        if own is not None:
            component = own.component
        if component is None:
            raise Error(f"the probe {self._job.probe.label!r} was given no architecture")
        label = component.name if own is None else own.label
        return BoundArchitecture(
            with_arrays(component), label, tuple(shape), outputs, self.seed, self._scope.first
        )

    @property
    def measured(self) -> BoundArchitecture | Data:
        """What says how large inputs and outputs are: the networks, else the data."""
        return self.architecture if self.has("architecture") else self.data

    def network(self, index: int = 0, outputs: int | None = None) -> nn.Module:
        """Network number `index` of this seed, in evaluation mode, on the device."""
        architecture = self.architecture
        if outputs is not None:
            architecture = attrs.evolve(architecture, outputs=outputs)
        return self._on_device(architecture(index))

    def _on_device(self, network: nn.Module) -> nn.Module:
        # Drawn on the host and moved then: the same numbers on every device.
        return network.to(self.device, self.dtype).eval()

    def _filled(self, network: nn.Module, number: int) -> nn.Module:
        """The network with the weights of the user's file `number`, where she gave any."""
        bound = self._job.architecture
        if bound is not None and bound.weights is not None:
            path = Path(bound.weights.files[number])
            path = self._link.file(path) if self._link else path
            fill = extra("penchant_import.state_files:load_weights")
            unused = fill(network, path, bound.label, strict=bound.weights.strict)
            if unused:
                self.conventions["weights"] = unused
            _check_weights(network, path)
        return network

    # Training.

    @property
    def network_kind(self) -> str:
        """What the architecture stands for: "fresh" networks, one "trained", a "trajectory".

        Where a trajectory is measured state by state, each state is one "trained" network. A
        network that is trained further is "fresh": it begins with weights of the user's.
        """
        own = self._own_architecture
        if own is None or self._job.probe.trains_further:
            return "fresh"
        return "trained" if self._scope.state is not None else own.network_kind

    def trained(self, steps: Sequence[int] | None = None) -> Iterator[tuple[int, nn.Module]]:
        """Yield (step, network) along the training of this architecture, dataset and seed.

        By default its end only. Steps after an early stop (`until_loss`) are left out. A module or
        `weights` of one file are yielded as they are, as step 0, unless this probe was given a
        training of its own. Of a trajectory, `weights` of several files, all states are yielded,
        or those of `steps`.
        """
        if self.network_kind != "fresh":
            self.conventions["network"] = "the user's own, as it is: not trained"
            for step, own in self._own_states(steps):
                if not all(each.requires_grad for each in own.parameters()):
                    self.conventions["frozen parameters"] = "count as if they were not frozen"
                yield step, own
            return
        bound = self._job.architecture
        if bound is not None and bound.network_kind != "fresh":
            self.conventions["network"] = "the user's own, trained further"
        checkpoints = self._checkpoints(self._recipe(self._finished))
        network = None
        for step, network in checkpoints.states(self._untrained, steps):
            yield step, network
        if network is not None:
            self._warn_if_at_chance(network, self.data.train)

    def _own_states(self, steps: Sequence[int] | None) -> Iterator[tuple[int, nn.Module]]:
        """The user's network, or states of her training."""
        if not self.steps:
            yield 0, self._untrained()
            return
        chosen = self.steps if steps is None else sorted(set(steps))
        if self._scope.state is not None:
            chosen = [self.steps[self._scope.state]]
        for step in chosen:
            if step not in self.steps:
                listed = ", ".join(map(str, self.steps))
                raise Error(f"the trajectory has no step {step}; there are {listed}")
            yield step, self._filled(self.network(), self.steps.index(step))

    def _last_own_state(self) -> nn.Module:
        """The user's network, or the last state of her training."""
        ((_, network),) = self._own_states(self.steps[-1:] or None)
        return network

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of the user's trajectory; empty where there is none."""
        bound = self._job.architecture
        weights = bound.weights if bound is not None else None
        return weights.steps or () if weights is not None else ()

    def _untrained(self) -> nn.Module:
        """The network that training begins with: number 0, or the user's own."""
        return self._filled(self.network(), 0)

    def _recipe(self, finished: Finished) -> Training:
        """The training; of several learning rates the one with the smallest test error."""
        if self.training is None:
            who = self._job.probe.component.name
            raise Error(f"the probe {who!r} must name 'training' in `needs` before it trains")
        if not self.training.learning_rates:
            return self.training
        best, self.conventions["learning rate"] = best_rate(self.training, finished)
        return best

    def _checkpoints(self, training: Training) -> Checkpoints:
        # Neither name nor seed depend on the probe: jobs that share a training share its network.
        name = training_name(self._job.network_key, training)
        return Checkpoints(
            self._folder / "networks" / name,
            self.data,
            training,
            seed=derive(self.seed, "training"),
            tell=functools.partial(self._tell, "training steps"),
            link=self._link,
        )

    def _finished(self, training: Training) -> tuple[nn.Module, Samples]:
        """The network at the end of the job's training, and the samples it is judged on."""
        *_, (_, network) = self._checkpoints(training).states(self._untrained, None)
        return network, self.data.test

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
        from penchant_numerics.training import Trainer

        seed = self.generator("training", *keys).initial_seed()

        def finished(training: Training) -> tuple[nn.Module, Samples]:
            if test is None:
                text = "learning_rates need test samples to be judged on, and this probe has none"
                raise Error(text)
            # A copy for every rate: all of them begin with the same weights.
            other = copy.deepcopy(network)
            Trainer(other, samples, training, seed=seed).run()
            return other, test

        trainer = Trainer(network, samples, self._recipe(finished), seed=seed)
        for step in [trainer.total] if steps is None else sorted(set(steps)):
            before = trainer.step
            trainer.run(until=step)
            # An early stop answers all later steps.
            if trainer.step > before or trainer.step == step:
                yield trainer.step, network
        self._warn_if_at_chance(network, samples)

    def _warn_if_at_chance(self, network: nn.Module, samples: Samples) -> None:
        """Warn where a training learnt nothing, unless it had zero steps."""
        from penchant.execution.job.chance import learnt_nothing

        if self.training is not None and self.training.steps != 0:
            text = learnt_nothing(network, samples)
            if text:
                self.warn(text)

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
        name = role.name if isinstance(role, Role) else role
        probe = self._job.probe
        if name not in probe.estimators:
            near = suggestion(name, probe.estimators)
            raise Error(f"the probe {probe.component.name!r} has no role {name!r}{near}")
        chosen = probe.estimators[name]
        bound = []
        for number, estimator in enumerate(chosen):
            # Its own scope: `context.options` are the estimator's while its code runs.
            context = self._in(attrs.evolve(self._scope, owner=(name, number)))
            known = role_of(estimator.component)
            assert known is not None  # an estimator without a role is refused
            bound.append(BoundEstimator(estimator, context, known, several=len(chosen) > 1))
        return tuple(bound)

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
        if (items is None) == (networks is None):
            raise Error("context.map takes either items or networks")
        if networks is not None:
            items = ranges(networks, shard_size)
        assert items is not None
        arrays, digest = shared_arrays(shared)
        # Numbered through all maps of the job.
        first = self._counts["shards"]
        self._counts["shards"] += len(items)
        items = [json_like(item, function) for item in items]
        return mapped(Map(self, function, items, first, arrays, digest))

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

        probe = self._job.probe.component.name
        seed = derive(self.seed, probe, *self._scope.keys, *keys)
        return torch.Generator(device="cpu").manual_seed(seed)

    def progress(self, total: int, what: str) -> Callable[[int], None]:
        """Report progress: call what this returns with how many are done."""
        return lambda done: self._tell(what, done, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        """Report how far the job is, from wherever it runs, a few times a second."""
        if self._inside and what == "shards":
            return  # a map inside a shard is not what the job counts
        now = time.monotonic()
        # The first report of a count is always sent, and the last, so that it ends at its total.
        if 0 < done < total and now - self._reported < SECONDS_BETWEEN_REPORTS:
            return
        self._reported = now
        progress.report({"job": self._job.id, "what": what, "done": done, "total": total})

    def warn(self, text: str) -> None:
        """Store a warning with the result and show it; the same text once."""
        if text not in self.warnings:
            self.warnings.append(text)


def _check_weights(network: nn.Module, path: Path) -> None:
    """Refuse a file with weights that are not finite."""
    from penchant_numerics.device import UnsuitableNetworkError, check_values

    try:
        check_values(network)
    except UnsuitableNetworkError as error:
        raise Error(f"{path.name}: {error}") from None
