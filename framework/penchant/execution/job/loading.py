"""Datasets: fetched before the first job, loaded once per process, and given to each as they were.

A job's key names the content of the files it reads. Were they fetched by the job, the key would
name none, and the next run would compute everything once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penchant.components.component import Component, Dataset
from penchant.components.targets import check_parameters, resolve
from penchant.errors import Error
from penchant.experiments.arrays import with_arrays
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import BoundComponent, Job
from penchant.seeds import derive
from penchant_numerics.statistics import counted

if TYPE_CHECKING:
    import torch
    from penchant.execution.workers.engines import Link
    from penchant_numerics.data import Data
    from torch import Tensor


class _Loaded(NamedTuple):
    """A dataset, and the digest that shows whether anything has changed it since."""

    key: tuple[object, ...]
    data: Data
    digest: str


_latest: list[_Loaded] = []  # the one dataset that this process holds


def loaded(
    dataset: BoundComponent[Component],
    *,
    seed: int,
    device: torch.device,
    dtype: torch.dtype,
    link: Link | None = None,
) -> Data:
    """The samples of a dataset on a device, in a precision, as if it had just been loaded.

    Args:
        dataset: The dataset, and where it comes from.
        seed: The seed; with the dataset's name it decides which samples are drawn.
        device: Where the samples go.
        dtype: The precision of inputs.
        link: To the command, whose samples are taken where this machine has not the same files.

    Returns:
        Train and test samples, which nothing has written to.
    """
    from penchant.execution.job.fingerprints import digest

    key = (
        dataset.registration.distribution,
        str(dataset.described),
        str(dataset.content),
        seed,
        str(device),
        str(dtype),
    )
    # What cannot be identified is loaded every time: it may not be what it was.
    if not dataset.unidentified:
        for latest in _latest:
            if latest.key == key and digest(_tensors(latest.data)) == latest.digest:
                return latest.data
    given = link.samples(dataset, seed) if link is not None else None
    data = (given or load_samples(dataset.component, seed)).to(device, dtype)
    # The one before is dropped: jobs are ordered so that neighbours share a dataset.
    _latest[:] = [_Loaded(key, data, digest(_tensors(data)))]
    return data


def load_samples(component: Component, seed: int) -> Data:
    """The samples of a dataset, as its own function gives them."""
    import torch
    from penchant_numerics.data import as_data

    # Of the seed and the name alone: every probe of a run sees the same samples.
    generator = torch.Generator(device="cpu").manual_seed(derive(seed, "dataset", component.name))
    what = f"dataset {component.name!r}"
    load = resolve(component.target, what)
    check_parameters(load, component.target_parameters, what)
    try:
        return as_data(load(with_arrays(component), generator))
    except (TypeError, ValueError) as error:
        raise Error(f"{what}: {error}") from error


def _tensors(data: Data) -> list[Tensor]:
    return [*data.train, *data.test]


def write_counts(data: Data) -> tuple[int, ...]:
    """How often each tensor of a dataset was written to, as torch counts it."""
    from penchant.execution.job.fingerprints import versions

    return versions(_tensors(data))


def fetch(experiment: Experiment) -> None:
    """Load every dataset once that says `download` and has no files yet."""
    for choice in [each for probe in experiment.probes for each in probe.axes["dataset"]]:
        # What goes wrong here is reported before the first job.
        if choice is not None and getattr(choice.component, "download", False):
            _problem(choice.component)


def check_files(jobs: Sequence[Job]) -> None:
    """Refuse jobs whose data are not there: once per dataset, not once per job."""
    # One component for all jobs of a dataset.
    datasets = {id(job.dataset.component): job.dataset.component for job in jobs if job.dataset}
    problems = {name: _problem(component) for name, component in datasets.items()}
    lacking = sum(bool(job.dataset and problems[id(job.dataset.component)]) for job in jobs)
    if lacking:
        listed = "\n".join(filter(None, problems.values()))
        raise Error(f"data are missing for {lacking} of {counted(len(jobs), 'job')}\n{listed}")


def _problem(component: Component) -> str:
    """What a dataset that has no files yet says when it is loaded."""
    if type(component).files is Dataset.files or component.files():
        return ""
    try:
        import torch

        load = resolve(type(component).target, f"dataset {component.name!r}")
        load(component, torch.Generator(device="cpu"))
    except Error as error:
        return str(error)
    except Exception:  # whatever else goes wrong, its jobs report it
        return ""
    return ""
