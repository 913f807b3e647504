"""The folder of a job: its files, and whether its result is current."""

from __future__ import annotations

import warnings
from pathlib import Path

import attrs
from penchant.errors import Error
from penchant.results.files import NewerSchemaError, set_aside
from penchant.results.result import are_whole, read_record, result_path

CHANGED = "recomputed, because code, data or package versions changed"


@attrs.frozen
class JobFolder:
    """The result, shards and figures of a job."""

    path: Path

    @classmethod
    def of(cls, run: Path, job: str) -> JobFolder:
        """The folder of the job with this id."""
        return cls(run / "jobs" / job)

    @property
    def result(self) -> Path:
        """The result, which is written last."""
        return self.path / "result.json"

    @property
    def failure(self) -> Path:
        """Why the job failed when it was computed again, beside its earlier good result."""
        return self.path / "failure.json"

    @property
    def shards(self) -> Path:
        """The shards of a job that is not done."""
        return self.path / "shards"

    def status(self) -> str:
        """Done or failed, as the result says; pending where there is none that can be read."""
        path = result_path(self.path)
        if not path.is_file():
            return "pending"
        try:
            return str(read_record(path)["status"])
        except NewerSchemaError:
            raise
        except (Error, KeyError) as error:
            hint = "run the experiment again to compute it"
            warnings.warn(f"{path} is damaged ({error}); {hint}", stacklevel=3)
            return "pending"

    def is_current(self, key: str) -> bool:
        """Is there a good result of the job with this key?"""
        done, _ = self.state(key)
        return done

    def state(self, key: str) -> tuple[bool, str]:
        """Is the job with this key done, and if it was, why it is computed again."""
        if not self.result.is_file():
            return False, ""
        try:
            record = read_record(self.result)
        except Error as error:
            return False, f"recomputed: {error}"
        if record.get("status") != "done":
            return False, ""
        if record.get("key") != key:
            return False, CHANGED
        if not are_whole(self.path, record):
            return False, "recomputed, because its arrays were damaged"
        return True, ""

    def has_good_result(self) -> bool:
        """Is there a result that is no failure, of this or of older code?"""
        try:
            return read_record(self.result).get("status") == "done"
        except Error:
            return False

    def crashed_workers(self) -> bool:
        """Did the job crash the workers that tried it last?"""
        try:
            return bool(read_record(self.result).get("killed_workers"))
        except Error:
            return False

    def set_aside(self) -> None:
        """Move what cannot be read out of the way, so that the job is computed again."""
        for path in (self.result, self.path / "arrays.npz"):
            if path.is_file():
                set_aside(path)
