"""What a probe is given: networks, data, estimators, random numbers, and a way to spread its work.

A context is a scope: whose code runs, with which options, on which networks, with which random
numbers. It can be narrowed, and what a map shares is sent to a worker once.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import attrs
from penchant.components.component import Architecture
from penchant.components.roles import Role, role_of
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.execution import progress
from penchant.execution.checkpoints import Checkpoints
from penchant.execution.environment import place
from penchant.execution.estimators import BoundEstimator
from penchant.execution.loading import loaded, written
from penchant.execution.mapping import Pool, SerialPool, mapped
from penchant.execution.networks import BoundArchitecture, load_weights
from penchant.execution.progress import Message
from penchant.execution.shards import Scope, Shard, check_sendable, json_like, ranges, shared_arrays
from penchant.execution.training import Finished, best_rate, learnt_nothing
from penchant.experiments.arrays import with_arrays
from penchant.experiments.jobs import BoundComponent, Job, training_name
from penchant.experiments.typed_text import parse_component
from penchant.experiments.weights import Weights
from penchant.seeds import derive

if TYPE_CHECKING:
    import torch
    from penchant_numerics.data import Data, Samples
    from penchant_numerics.estimates import Directions, Information, LayerCurvature
    from torch import Tensor, nn

T = TypeVar("T")  # what estimators of a role return
EMBEDDED = 256  # samples that go through the first layers of a network at once
SECONDS_BETWEEN_REPORTS = 0.1  # of progress: more often is not seen, and costs


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
        warnings: What `warn` was told.
        conventions: What makes numbers incomparable; add to it.
    """

    def __init__(
        self,
        job: Job,
        folder: Path,
        *,
        pool: Pool | None = None,
        worker: int = 0,
    ) -> None:
        import torch

        self._job = job
        self._folder = folder
        self._pool = pool or SerialPool()
        self._inside = False  # true in the context that a shard is given
        self._scope = Scope()
        # Shared by all narrower contexts of this one.
        self._counts = {"shards": 0}
        self._held: dict[str, Any] = {}
        self._told = 0.0
        self.seed = job.seed
        self.training: Training | None = job.probe.training
        self.device = torch.device(place(job.settings.device, worker))
        self.dtype: torch.dtype = getattr(torch, job.settings.dtype)
        self.shared: Mapping[str, Any] = {}
        self.warnings: list[str] = []
        self.conventions: dict[str, str] = {}

    # Whose code runs, on what.

    @functools.cached_property
    def options(self) -> Any:
        """Options of the component whose code runs, arrays read."""
        # Without an owner the code that runs is the probe's.
        owner = self._scope.owner
        if owner is None:
            return with_arrays(self._job.probe.component)
        role, number = owner
        choice = self._job.probe.estimators[role][number]
        return with_arrays(choice.component)

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
        """This context in another scope; what depends on the scope is made anew."""
        other = copy.copy(self)
        other._scope = scope
        # Both are cached properties: the copy must not inherit what was made for the old scope.
        for name in ("architecture", "options"):
            other.__dict__.pop(name, None)
        return other

    def _for_shard(self, scope: Scope) -> Context:
        """The context of a shard: data and networks are shared with others, warnings are not."""
        context = self._in(scope)
        context._inside = True
        # Shards inside a shard are done where it runs: workers start no workers.
        context._pool = SerialPool()
        context._counts = {"shards": 0}
        context.warnings = []
        context.conventions = {}
        context.shared = {}
        return context

    def _used_architecture(self, text: str) -> Any:
        entry = parse_component(text)
        name = entry.pop("name")
        registration = self._used("architecture", name)
        where = f"context.scope({text!r})"
        return registration.component.bind(entry, where)

    def _used(self, kind: str, name: str) -> Any:
        probe = self._job.probe
        found = probe.used.get((kind, name))
        if found is None:
            who = probe.component.name
            raise Error(f"{who!r} must name the {kind} {name!r} in `uses` before it asks for it")
        return found

    # Data and networks.

    @property
    def data(self) -> Data:
        """Train and test samples of the job's dataset on the device, and the number of classes."""
        choice = self._job.dataset
        if choice is None:
            who = self._job.probe.label
            raise Error(f"the probe {who!r} was given no dataset")

        # Where networks begin at a layer, samples are its outputs, and each state has its own.
        begins_at = self._begins_at
        key = f"data of state {self._scope.state}" if begins_at else "data"
        held = self._held.get(key)
        # Samples that were written to are loaded again: a probe never sees another's changes.
        if held is None or held[1] != written(held[0]):
            data = self._load(choice)
            if begins_at:
                data = self._embedded(data, begins_at)
            self._held[key] = (data, written(data))
        found: Data = self._held[key][0]
        return found

    @property
    def _begins_at(self) -> str | None:
        """The layer at which the job's networks begin; None where they are whole."""
        choice = self._job.architecture
        if choice is None or self._scope.architecture is not None or self._job.dataset is None:
            return None
        return getattr(choice.component, "inputs_from", None)

    def _embedded(self, data: Data, layer: str) -> Data:
        """Samples as the outputs of the layer at which networks begin."""
        import torch

        choice = self._job.architecture
        assert choice is not None
        if self.network_kind == "trajectory":
            raise Error("inputs_from needs one network, found a trajectory that is followed")
        bound = self._bound(choice.component, data.shape, data.outputs)
        network = self._placed(bound(0))
        if choice.weights is not None:
            self._fill(network, choice, choice.weights, self._scope.state or 0)
        self._held["shape"] = data.shape
        self.conventions["inputs"] = f"outputs of the layer {layer!r} for the dataset's inputs"
        if choice.network_kind == "fresh":
            self.conventions["inputs"] += ", in the first network"

        embed = cast("Callable[[Tensor], Tensor]", network.embed)

        def embedded(samples: Samples) -> Samples:
            rows = [embed(part).detach() for part in samples.inputs.split(EMBEDDED)]
            return samples._replace(inputs=torch.cat(rows))

        return replace(data, train=embedded(data.train), test=embedded(data.test))

    def dataset(self, name: str, **options: object) -> Data:
        """Samples of a dataset that the running component names in `uses`."""
        registration = self._used("dataset", name)
        where = f"context.dataset({name!r})"
        component = registration.component.bind(options, where)
        choice = BoundComponent(component, registration, name)
        return self._load(choice)

    def _load(self, choice: BoundComponent) -> Data:
        name = choice.component.name
        # Of the seed and the name alone: every probe of a run sees the same samples.
        generator = self._generator("dataset", name)
        data = loaded(
            choice,
            generator,
            seed=self.seed,
            device=self.device,
            dtype=self.dtype,
        )
        for convention, text in data.conventions.items():
            self.conventions[f"{name}: {convention}"] = text
        for warning in data.warnings:
            self.warn(f"{name}: {warning}")
        return data

    @functools.cached_property
    def architecture(self) -> BoundArchitecture:
        """The bound architecture: a callable index -> module, with `shape` and `outputs`."""
        choice = self._job.architecture
        component = self._scope.architecture or (choice and choice.component)
        if component is None:
            who = self._job.probe.label
            raise Error(f"the probe {who!r} was given no architecture")
        # What the scope does not replace comes from the dataset, else from the settings.
        shape, outputs = self._scope.shape, self._scope.outputs
        if shape is None:
            shape = self.data.shape if self._job.dataset else self._job.settings.shape
        if outputs is None:
            outputs = self.data.outputs if self._job.dataset else self._job.settings.outputs
        built_for = self._held["shape"] if self._begins_at else None
        return self._bound(cast("Architecture", component), shape, outputs, built_for)

    def _bound(
        self,
        component: Architecture,
        shape: Sequence[int],
        outputs: int,
        built_for: tuple[int, ...] | None = None,
    ) -> BoundArchitecture:
        choice = self._job.architecture
        replaced = choice is None or self._scope.architecture is not None
        label = component.name if replaced else choice.label  # type: ignore[union-attr]
        return BoundArchitecture(
            with_arrays(component),
            label,
            tuple(shape),
            outputs,
            seed=self.seed,
            first=self._scope.first,
            built_for=built_for,
        )

    def network(self, index: int = 0, outputs: int | None = None) -> nn.Module:
        """Network number `index` of this seed, in evaluation mode, on the device."""
        architecture = self.architecture
        if outputs is not None:
            architecture = architecture.with_outputs(outputs)
        return self._placed(architecture(index))

    def _placed(self, network: nn.Module) -> nn.Module:
        # Drawn on the host and moved then: the same numbers on every device.
        return network.to(self.device, self.dtype).eval()

    def _given(self) -> nn.Module:
        """The network that training begins with: number 0, or the user's own."""
        choice = self._job.architecture
        if choice is None or choice.weights is None:
            return self.network()
        return self._stored(choice, choice.weights, 0)

    def _stored(self, choice: BoundComponent, weights: Weights, number: int) -> nn.Module:
        """The network of one of the user's files, on the device."""
        network = self.network()
        self._fill(network, choice, weights, number)
        return network

    def _fill(
        self, network: nn.Module, choice: BoundComponent, weights: Weights, number: int
    ) -> None:
        path = Path(weights.files[number])
        left_out = load_weights(network, path, choice.label, strict=weights.strict)
        if left_out:
            self.conventions["weights"] = left_out

    # Training.

    @property
    def network_kind(self) -> str:
        """What the architecture stands for: "fresh" networks, one "trained", a "trajectory".

        Where a trajectory is measured state by state, each state is one "trained" network; so is
        a network that is trained further "fresh": it begins with weights of the user's.
        """
        choice = self._job.architecture
        if choice is None or self._scope.architecture is not None or self._job.probe.trains_further:
            return "fresh"
        return "trained" if self._scope.state is not None else choice.network_kind

    def trained(self, steps: Sequence[int] | None = None) -> Iterator[tuple[int, nn.Module]]:
        """Yield (step, network) along the training of this architecture, dataset and seed.

        By default its end only. Steps after an early stop (`until_loss`) are left out. A module or
        `weights` of one file are yielded as they are, as step 0, unless this probe was given a
        training of its own. Of a trajectory, `weights` of several files, all states are yielded,
        or those of `steps`.
        """
        kind = self.network_kind
        choice = self._job.architecture
        # A network of the user's own is measured as it is, unless this probe asks for training.
        if kind != "fresh" and choice is not None:
            self.conventions["network"] = "the user's own, as it is: not trained"
            yield from self._own_states(choice, steps)
            return
        if choice is not None and choice.network_kind != "fresh":
            self.conventions["network"] = "the user's own, trained further"

        training = self._recipe()
        checkpoints = self._checkpoints(training)
        network = None
        for step, network in checkpoints.states(self._given, steps):
            yield step, network
        if network is not None:
            self._warn_if_at_chance(network, self.data.train)

    def _own_states(
        self, choice: BoundComponent, steps: Sequence[int] | None
    ) -> Iterator[tuple[int, nn.Module]]:
        """The user's network, or states of her training."""
        weights = choice.weights
        if weights is None or weights.steps is None:
            yield 0, self._given()
            return
        alone = self._scope.state
        numbers = range(len(weights.steps)) if alone is None else [alone]
        if steps is not None and alone is None:
            numbers = [_number_of(step, weights.steps) for step in sorted(set(steps))]
        for number in numbers:
            yield weights.steps[number], self._stored(choice, weights, number)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of the user's trajectory; empty where there is none."""
        choice = self._job.architecture
        weights = choice.weights if choice is not None else None
        return weights.steps or () if weights is not None else ()

    def _states(self) -> Iterator[Context]:
        """A context for every state of the trajectory, in which it is the trained network."""
        for number in range(len(self.steps)):
            yield self._in(attrs.evolve(self._scope, state=number))

    def _recipe(self) -> Training:
        """The training; of several learning rates the one with the smallest test error."""
        if self.training is None:
            who = self._job.probe.component.name
            raise Error(f"the probe {who!r} must name 'training' in `needs` before it trains")
        if not self.training.learning_rates:
            return self.training
        return self._best_rate(self.training, self._finished)

    def _checkpoints(self, training: Training) -> Checkpoints:
        # Neither name nor seed depend on the probe: jobs that share a training share its network.
        name = training_name(self._job.network_key, training)
        return Checkpoints(
            self._folder / "networks" / name,
            self.data,
            training,
            seed=derive(self.seed, "training"),
            tell=functools.partial(self._tell, "training steps"),
        )

    def _finished(self, training: Training) -> tuple[nn.Module, Samples]:
        """The network at the end of the job's training, and the samples it is judged on."""
        checkpoints = self._checkpoints(training)
        *_, (_, network) = checkpoints.states(self._given, None)
        return network, self.data.test

    def _best_rate(self, training: Training, finished: Finished) -> Training:
        best, found = best_rate(training, finished)
        self.conventions["learning rate"] = found
        return best

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
        from penchant_numerics.trainer import Trainer

        seed = self.generator("training", *keys).initial_seed()
        recipe = self._recipe_for(network, samples, test, seed)
        trainer = Trainer(network, samples, recipe, seed=seed)
        for step in [trainer.total] if steps is None else sorted(set(steps)):
            seen = trainer.step
            trainer.run(until=step)
            # An early stop answers all later steps.
            if trainer.step > seen or trainer.step == step:
                yield trainer.step, network
        self._warn_if_at_chance(network, samples)

    def _recipe_for(
        self, network: nn.Module, samples: Samples, test: Samples | None, seed: int
    ) -> Training:
        """The recipe for samples of the probe's own, swept over learning rates where it has any."""
        if self.training is None or not self.training.learning_rates:
            return self._recipe()
        if test is None:
            raise Error("learning_rates need test samples to be judged on, and this probe has none")
        from penchant_numerics.trainer import Trainer

        def finished(training: Training) -> tuple[nn.Module, Samples]:
            # A copy for every rate: all of them begin with the same weights.
            other = copy.deepcopy(network)
            Trainer(other, samples, training, seed=seed).run()
            return other, test

        return self._best_rate(self.training, finished)

    def _warn_if_at_chance(self, network: nn.Module, samples: Samples) -> None:
        """Say so where a training learnt nothing."""
        # Nothing was to be learnt in zero steps.
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
        found = self.estimators(role)
        count = len(found)
        if count != 1:
            name = role.name if isinstance(role, Role) else role
            raise Error(f"the role {name!r} has {count} estimators, expected one")
        return found[0]

    @overload
    def estimators(self, role: Role[T]) -> tuple[BoundEstimator[T], ...]: ...
    @overload
    def estimators(self, role: str) -> tuple[BoundEstimator[Any], ...]: ...
    def estimators(self, role: Role[Any] | str) -> tuple[BoundEstimator[Any], ...]:
        """All estimators the experiment chose for a role of which the probe takes several."""
        if isinstance(role, Role):
            role = role.name
        chosen = self._job.probe.estimators
        if role not in chosen:
            who = self._job.probe.component.name
            near = suggestion(role, chosen)
            raise Error(f"the probe {who!r} has no role {role!r}{near}")

        choices = chosen[role]
        several = len(choices) > 1
        found = []
        for number, choice in enumerate(choices):
            # Its own scope: `context.options` are the estimator's while its code runs.
            scope = attrs.evolve(self._scope, owner=(role, number))
            context = self._in(scope)
            known = role_of(choice.component)
            assert known is not None  # an estimator without a role is refused
            found.append(BoundEstimator(choice, context, known, several=several))
        return tuple(found)

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
        """Yield `function(context, item)` in the order of items; each is kept as a shard.

        What a stopped run had finished is read again. Items and their order must depend on options
        only.

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
        # Refused here, before a worker fails to find it.
        if self._pool.workers > 1:
            check_sendable(function)
        arrays, digest = shared_arrays(shared)
        shards = []
        for item in items:
            # Numbered through all maps of the job: the number names the shard's file.
            number = self._counts["shards"]
            self._counts["shards"] += 1
            sent = json_like(item, function)
            shards.append(Shard(number, function, sent, self._scope))
        return mapped(self, shards, arrays, digest)

    # Random numbers, progress, warnings.

    def generator(self, *keys: object) -> torch.Generator:
        """A CPU generator of this seed, probe, scope and keys.

        Options never enter, so that more networks extend fewer.
        """
        name = self._job.probe.component.name
        above = self._scope.keys
        return self._generator(name, *above, *keys)

    def _generator(self, *keys: object) -> torch.Generator:
        import torch

        seed = derive(self.seed, *keys)
        return torch.Generator(device="cpu").manual_seed(seed)

    def progress(self, total: int, what: str) -> Callable[[int], None]:
        """Report progress: call what this returns with how many are done."""

        def tell(done: int) -> None:
            self._tell(what, done, total)

        return tell

    def _tell(self, what: str, done: int, total: int) -> None:
        """Tell how far the job is, from wherever it runs, a few times a second."""
        now = time.monotonic()
        # The last report of a count is always told, so that it ends at its total.
        if done < total and now - self._told < SECONDS_BETWEEN_REPORTS:
            return
        self._told = now
        message: Message = {"job": self._job.id, "what": what, "done": done, "total": total}
        if self._inside and what == "shards":
            return  # a map inside a shard is not what the job counts
        progress.report(message)

    def warn(self, text: str) -> None:
        """Keep a warning with the result and show it; the same text once."""
        if text not in self.warnings:
            self.warnings.append(text)


def _number_of(step: int, steps: Sequence[int]) -> int:
    """The number of the state at a step."""
    if step not in steps:
        listed = ", ".join(map(str, steps))
        raise Error(f"the trajectory has no step {step}; there are {listed}")
    return list(steps).index(step)
