"""The folder of a job: its result in files (JSON and npz), and whether that is current."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.results.checked import check_result
from penchant.results.files import (
    NewerSchemaError,
    checksum,
    read_arrays,
    read_json,
    set_aside,
    write_arrays,
    write_json,
)
from penchant.results.inside import check_id, inside
from penchant.results.result import Result, digest, from_json, to_json

CHANGED = "recomputed, because code, data or package versions changed"


@attrs.frozen
class JobFolder:
    """The result, shards and figures of a job."""

    path: Path

    @classmethod
    def of(cls, run: Path, job: str) -> JobFolder:
        """The folder of the job with this id; refused where it leads out of the run's."""
        return cls(inside(run, Path("jobs", check_id(job, run))))

    @property
    def result(self) -> Path:
        """The result, which is written last."""
        return inside(self.path, "result.json")

    @property
    def failure(self) -> Path:
        """Why the job failed when it was computed again, beside its earlier good result."""
        return inside(self.path, "failure.json")

    @property
    def arrays(self) -> Path:
        """The arrays of the result."""
        return inside(self.path, "arrays.npz")

    @property
    def shards(self) -> Path:
        """The shards of a job that is not done."""
        return inside(self.path, "shards")

    def write(self, result: Result, *, beside: bool = False) -> Result:
        """Write a result, its arrays first and its JSON last; returns it as it is stored.

        With `beside` it is a failure, and an earlier good result stays.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if result.arrays:
            written = write_arrays(self.arrays, result.arrays)
            # The JSON has the checksum of its arrays, so that other arrays are noticed.
            result = attrs.evolve(result, record={**result.record, "arrays_sha256": written})
        write_json(self.failure if beside else self.result, to_json(result))
        return result

    def add_warnings(self, result: Result, texts: Iterable[str]) -> Result:
        """Add warnings to a result that is stored; its arrays stay as they were written."""
        added = [text for text in texts if text not in result.warnings]
        if not added:
            return result
        result = attrs.evolve(result, warnings=(*result.warnings, *added))
        write_json(self.result, to_json(result))
        return result

    def read(self, *, arrays: bool = True) -> Result:
        """The failure of the job when it was computed again, or its result.

        Without arrays only its JSON is read.
        """
        record = self.record()
        listed = record.get("arrays") or {}
        if not arrays or not listed:
            return self._result(record, {})
        if not self._has_arrays_of(record):
            raise Error(f"{self.arrays} is missing or damaged: its checksum is not the result's")
        found = read_arrays(self.arrays)
        if found.keys() != listed.keys():
            raise Error(f"{self.arrays} is damaged: its arrays are not those of the result")
        return self._result(record, found)

    def _result(self, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> Result:
        try:
            return from_json(record, arrays)
        except (Error, KeyError, TypeError, ValueError) as error:  # a table that does not fit
            raise Error(f"{self._latest} is damaged: {error}") from error

    def record(self) -> dict[str, Any]:
        """What the JSON of its result holds."""
        return _read_record(self._latest)

    @property
    def _latest(self) -> Path:
        return self.failure if self.failure.is_file() else self.result

    def _has_arrays_of(self, record: Mapping[str, Any]) -> bool:
        """Is the array file there, with the content that the result names?"""
        expected: str | None = record.get("arrays_sha256")
        # Results without arrays have no checksum, nor have older ones.
        if expected is None:
            return True
        try:
            return checksum(self.arrays) == expected
        except OSError:
            return False

    def status(self) -> str:
        """Done or failed, as the result says; pending where there is none that can be read."""
        path = self._latest
        if not path.is_file():
            return "pending"
        try:
            return str(_read_record(path)["status"])
        except NewerSchemaError:
            raise
        except (Error, KeyError) as error:
            hint = "run the experiment again to compute it"
            warnings.warn(f"{path} is damaged ({error}); {hint}", stacklevel=3)
            return "pending"

    def state(self, key: str) -> tuple[bool, str]:
        """Is the job with this key done, and if it was, why it is computed again."""
        if not self.result.is_file():
            return False, ""
        try:
            record = _read_record(self.result)
        except Error as error:
            return False, f"recomputed: {error}"
        if record.get("status") != "done":
            return False, ""
        if record.get("key") != key:
            return False, CHANGED
        if not self._has_arrays_of(record):
            return False, "recomputed, because its arrays were damaged"
        return True, ""

    def has_good_result(self) -> bool:
        """Is there a result that is no failure, of this or of older code?"""
        return self._entry("status") == "done"

    def crashed_workers(self) -> bool:
        """Did the job crash the workers that tried it last?"""
        return bool(self._entry("killed_workers"))

    def _entry(self, name: str) -> object:
        """An entry of the result; None where there is none that can be read."""
        try:
            return _read_record(self.result).get(name)
        except Error:
            return None

    def set_aside(self) -> None:
        """Move what cannot be read out of the way, so that the job is computed again."""
        set_aside(self.result)
        set_aside(self.arrays)


def _read_record(path: Path) -> dict[str, Any]:
    """The content of `result.json`; its numbers are compared with their checksum."""
    record = read_json(path)
    try:
        check_result(record)
    except Error as error:
        raise Error(f"{path} is damaged: {error}") from None
    expected = record.get("quantities_sha256")
    # Older results have no checksum.
    if expected is not None and digest(record.get("quantities", {})) != expected:
        raise Error(f"{path} is damaged: its numbers are not those that were written")
    return record
