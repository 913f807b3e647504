"""How a job runs: where, in which scope, and what all its contexts share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs
from penchant.components.component import Architecture
from penchant.errors import Error
from penchant.execution.job.networks import BoundArchitecture
from penchant.execution.job.notes import Notes
from penchant.execution.queue.progress import JobProgress
from penchant.experiments.arrays import with_arrays
from penchant.experiments.jobs import BoundComponent, Job
from penchant.experiments.typed_text import parse_component
from penchant.plugins.registry import Registration

if TYPE_CHECKING:
    import torch
    from penchant.execution.job.mapping import Pool
    from penchant.execution.workers.engines import Link
    from penchant_numerics.data import Data
    from torch import nn

# Samples by the layer that they are outputs of, and its state; with their write counts.
Loaded: TypeAlias = "dict[tuple[str | None, int | None], tuple[Data, tuple[int, ...]]]"


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


@attrs.frozen(eq=False)
class Runtime:
    """All that a context knows.

    A narrower context has another scope; what is mutable here is shared by all of them.
    """

    job: Job
    folder: Path  # the run folder
    device: torch.device
    pool: Pool | None = None  # does shards; None: this process does
    link: Link | None = None  # to the command, where that alone sees the run folder
    scope: Scope = Scope()
    inside: bool = False  # in a shard
    shared: Mapping[str, Any] = attrs.field(factory=dict)  # in a shard, what its map shares
    notes: Notes = attrs.field(factory=Notes)
    maps: list[int] = attrs.field(factory=list)  # how many shards each map of the job has
    loaded: Loaded = attrs.field(factory=dict)
    progress: JobProgress = attrs.field(
        default=attrs.Factory(lambda self: JobProgress(self.job.id), takes_self=True)
    )

    def in_scope(self, **changes: Any) -> Runtime:
        """The same with another scope."""
        return attrs.evolve(self, scope=attrs.evolve(self.scope, **changes))

    def narrower(
        self,
        keys: tuple[object, ...],
        architecture: Architecture | str | None,
        shape: Sequence[int] | None,
        outputs: int | None,
        first: int,
    ) -> Runtime:
        """The same for other networks and random numbers; see `Context.scope`."""
        before = self.scope
        if isinstance(architecture, str):
            architecture = self._used_architecture(architecture)
        return self.in_scope(
            keys=(*before.keys, *keys),
            architecture=architecture or before.architecture,
            shape=before.shape if shape is None else tuple(shape),
            outputs=outputs or before.outputs,
            first=before.first + first,
        )

    def _used_architecture(self, text: str) -> Architecture:
        entry = parse_component(text)
        registration = self.used("architecture", entry.pop("name"))
        return cast("Architecture", registration.component.bind(entry, f"context.scope({text!r})"))

    def in_shard(self, shared: Mapping[str, Any]) -> Runtime:
        """That of a shard: data are shared with others, notes are not."""
        # Shards inside a shard are done where it runs: workers start no workers.
        return attrs.evolve(self, inside=True, pool=None, shared=shared, notes=Notes(), maps=[])

    @property
    def dtype(self) -> torch.dtype:
        """Precision of networks and data."""
        import torch

        dtype: torch.dtype = getattr(torch, self.job.settings.dtype)
        return dtype

    def has(self, axis: str) -> bool:
        """Was this axis given?"""
        given = {
            "architecture": self.scope.architecture or self.job.architecture,
            "dataset": self.job.dataset,
            "training": self.job.probe.training,
        }
        if axis not in given:
            raise Error(f"a context has architecture, dataset and training, found {axis!r}")
        return given[axis] is not None

    @functools.cached_property
    def options(self) -> Any:
        """Options of the component whose code runs, arrays read."""
        probe = self.job.probe
        if self.scope.owner is None:
            return with_arrays(probe.component)
        role, number = self.scope.owner
        return with_arrays(probe.estimators[role][number].component)

    def used(self, kind: str, name: str) -> Registration:
        """The component of this name; the probe must say that it uses it."""
        probe = self.job.probe
        registration = probe.used.get((kind, name))
        if registration is None:
            who = probe.component.name
            raise Error(f"{who!r} must name the {kind} {name!r} in `uses` before it asks for it")
        return registration

    @property
    def architecture(self) -> BoundComponent[Architecture] | None:
        """The architecture that the experiment names; None where the scope has another one."""
        return self.job.architecture if self.scope.architecture is None else None

    def bind(self, shape: Sequence[int], outputs: int) -> BoundArchitecture:
        """The architecture of the scope with these sizes."""
        own, component = self.architecture, self.scope.architecture
        if own is not None:
            component = own.component
        if component is None:
            raise Error(f"the probe {self.job.probe.label!r} was given no architecture")
        label = component.name if own is None else own.label
        return BoundArchitecture(
            with_arrays(component), label, tuple(shape), outputs, self.job.seed, self.scope.first
        )

    def on_device(self, network: nn.Module) -> nn.Module:
        """The network in evaluation mode, drawn on the host: the same numbers on every device."""
        return network.to(self.device, self.dtype).eval()
