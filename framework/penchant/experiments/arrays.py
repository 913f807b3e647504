"""Options that are arrays: read from a file or a stored run before a component is used."""

import os
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error, suggestion
from penchant.results.bounds import LARGEST_ARRAYS, opened
from penchant.results.files import array_bytes, read_arrays
from penchant.results.inside import inside
from penchant.results.job_folder import JobFolder
from penchant.results.runs import read, run_record


def with_arrays(component: Any) -> Any:
    """The component with every array option read from its file or run."""
    arrays = {}
    for field in attrs.fields(type(component)):
        if not (field.metadata["array"] or field.metadata["arrays"]):
            continue
        given = getattr(component, field.name)
        read = option_arrays(field, given, f"{component.name}.{field.name}")
        if read is not given:
            arrays[field.name] = read
    return attrs.evolve(component, **arrays) if arrays else component


def option_arrays(field: Any, value: Any, what: str) -> Any:
    """The array of an option, or its arrays by name; text names a file, or an array of a run."""
    if field.metadata["array"]:
        return read_array(value, what) if isinstance(value, str) else value
    if isinstance(value, str) and value.endswith(".npz"):
        value = read_arrays(Path(value))
        if not value:
            raise Error(f"{what} must have an array, found none")
    elif isinstance(value, str):
        value = {field.name: value}
    if value is None or not any(isinstance(each, str) for each in value.values()):
        return value
    return {
        name: read_array(each, f"{what}.{name}") if isinstance(each, str) else each
        for name, each in value.items()
    }


def read_array(source: str, what: str) -> Any:
    """The array in a file `something.npy`, or in `run:FOLDER#array`."""
    if source.startswith("run:"):
        folder, _, name = source.removeprefix("run:").partition("#")
        return _stored_array(Path(folder), name, what)
    import numpy as np

    if not source.endswith(".npy"):
        kinds = "an array, a file ending in .npy or run:FOLDER#array"
        raise Error(f"{what} must be {kinds}, found {source!r}")
    try:
        with opened(Path(source), LARGEST_ARRAYS) as file:
            promised = array_bytes(file)
            found = os.fstat(file.fileno()).st_size - file.tell()
            if promised != found:
                raise Error(f"{what}: {source} promises {promised} bytes of numbers, found {found}")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    except Error:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise Error(f"{what}: {source} cannot be read: {error}") from error


def _stored_array(folder: Path, name: str, what: str) -> Any:
    """The array of this name in a run folder, or in a job's folder where the run has several."""
    if not name:
        raise Error(f"{what} must name an array, as in run:{folder}#directions")
    if run_record(folder) is not None:
        folder = _only_holder(folder, name, what)
    arrays = read_arrays(inside(folder, "arrays.npz"))
    if name not in arrays:
        raise Error(f"{what}: {folder} has no array {name!r}{suggestion(name, arrays)}")
    return arrays[name]


def _only_holder(folder: Path, name: str, what: str) -> Path:
    """The one job of a run that has an array of this name."""
    holders: list[Path] = []
    for job in read(folder).jobs:
        if job["status"] != "done":
            continue
        # Results list their arrays: none is loaded to find one.
        job_folder = JobFolder.of(folder, job["id"])
        if name in (job_folder.record().get("arrays") or {}):
            holders.append(job_folder.path)
    if len(holders) == 1:
        return holders[0]
    listed = ", ".join(f"run:{each}#{name}" for each in holders)
    hint = f"; name one of them: {listed}" if holders else ""
    count = f"{len(holders)} jobs of {folder} have an array {name!r}"
    raise Error(f"{what}: {count}, expected one{hint}")
