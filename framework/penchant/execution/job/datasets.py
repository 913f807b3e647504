"""The samples of a context, and the sizes that its networks have from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from penchant.components.component import Component
from penchant.errors import Error
from penchant.execution.job.loading import loaded, write_counts
from penchant.execution.job.networks import BoundArchitecture
from penchant.execution.job.own_networks import OwnNetworks
from penchant.execution.job.runtime import Runtime
from penchant.experiments.jobs import BoundComponent

if TYPE_CHECKING:
    from penchant_numerics.data import Data


@attrs.frozen(eq=False)
class Datasets:
    """The datasets of a job, on its device."""

    runtime: Runtime

    def given(self) -> Data:
        """Samples that networks take: those of the job, or a layer's outputs for them."""
        return self._of(OwnNetworks(self.runtime).begins_at)

    def whole(self) -> Data:
        """The samples of the job as its dataset gives them."""
        return self._of(None)

    def named(self, name: str, **options: object) -> Data:
        """Samples of a dataset that the running component names in `uses`."""
        registration = self.runtime.used("dataset", name)
        component = registration.component.bind(options, f"context.dataset({name!r})")
        return self._load(BoundComponent(component, registration, name))

    def _of(self, layer: str | None) -> Data:
        """Samples, or a layer's outputs for them, loaded once for all contexts of the job."""
        runtime = self.runtime
        dataset = runtime.job.dataset
        if dataset is None:
            raise Error(f"the probe {runtime.job.probe.label!r} was given no dataset")
        # Each state of a trajectory has outputs of its own.
        key = (layer, runtime.scope.state if layer else None)
        if key in runtime.loaded:
            data, counts = runtime.loaded[key]
            # Samples that were written to are loaded again: a probe never sees another's changes.
            if counts == write_counts(data):
                return data
        if layer is None:
            data = self._load(dataset)
        else:
            data = OwnNetworks(runtime).embedded(self.whole(), layer)
        runtime.loaded[key] = data, write_counts(data)
        return data

    def _load(self, dataset: BoundComponent[Component]) -> Data:
        runtime = self.runtime
        data = loaded(
            dataset,
            seed=runtime.job.seed,
            device=runtime.device,
            dtype=runtime.dtype,
            link=runtime.link,
        )
        runtime.notes.add(data.warnings, data.conventions, f"{dataset.component.name}: ")
        return data


def sized_architecture(runtime: Runtime) -> BoundArchitecture:
    """The architecture of a scope: what that does not replace has the sizes of the samples."""
    shape, outputs = runtime.scope.shape, runtime.scope.outputs
    datasets = Datasets(runtime)
    if shape is None or outputs is None:
        source = datasets.given() if runtime.job.dataset else runtime.job.settings
        shape = source.shape if shape is None else shape
        outputs = source.outputs if outputs is None else outputs
    bound = runtime.bind(shape, outputs)
    if not OwnNetworks(runtime).begins_at:
        return bound
    return attrs.evolve(bound, built_for=datasets.whole().shape)
