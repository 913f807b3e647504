"""Results: numbers with their errors and nulls, and how they are kept on disk (JSON and npz, written atomically)."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error

SCHEMA = 1


@attrs.frozen
class Quantity:
    """A number: its standard error (over what, how many), and its value where there is no effect."""

    value: float
    stderr: float | None = None
    over: str = ""
    count: int | None = None
    null: float | None = None
    null_stderr: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        if self.value != self.value:
            return "missing"
        text = f"{self.value:.6g}"
        text += f" ± {self.stderr:.2g}" if self.stderr is not None else ""
        text += f" (null {self.null:.4g})" if self.null is not None else ""
        return f"{text} {self.unit}".rstrip()


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as numpy holds them, tensors included."""
    import numpy as np

    return {
        name: np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        for name, value in values.items()
    }


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@attrs.frozen(eq=False)
class Result:
    """What a probe found. A probe fills the first five; the runner adds `record`: what was measured on what."""

    quantities: dict[str, Quantity] = attrs.field(factory=dict)
    arrays: dict[str, Any] = attrs.field(factory=dict, converter=_numbers)
    conventions: dict[str, str] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    missing: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    record: dict[str, Any] = attrs.field(factory=dict, repr=False)

    @property
    def status(self) -> str:
        return str(self.record.get("status", "done"))

    @property
    def error(self) -> str | None:
        return self.record.get("error")

    @property
    def seed(self) -> int | None:
        return self.record.get("seed")

    @property
    def cost(self) -> dict[str, Any]:
        return dict(self.record.get("cost", {}))

    @property
    def options(self) -> dict[str, Any]:
        """The probe's options."""
        return dict(self.record.get("probe", {}).get("options", {}))

    def check(self) -> None:
        """Refuse what is not a number, unless the result names it in `missing`."""
        for name, quantity in self.quantities.items():
            for part in ("value", "stderr", "null", "null_stderr"):
                number = getattr(quantity, part)
                if number is not None and not math.isfinite(number) and name not in self.missing:
                    raise Error(f"quantity {name!r} has {part} {number}, expected a finite number")
        import numpy as np

        for name, array in self.arrays.items():
            if array.dtype == object:
                raise Error(f"array {name!r} must hold numbers, found objects")
            if (
                name not in self.missing
                and np.issubdtype(array.dtype, np.inexact)
                and not np.isfinite(array).all()
            ):
                bad = int((~np.isfinite(array)).sum())
                raise Error(f"array {name!r} has {bad} of {array.size} values that are not finite")


def _nullable(number: Any) -> Any:
    return None if isinstance(number, float) and not math.isfinite(number) else number


def to_json(result: Result) -> dict[str, Any]:
    """The result as `result.json` holds it."""
    about = result.record.get("about", {})
    quantities = {
        name: {key: _nullable(value) for key, value in attrs.asdict(quantity).items()}
        for name, quantity in result.quantities.items()
    }
    arrays = {
        name: {"shape": list(array.shape), "dtype": str(array.dtype), "about": about.get(name, "")}
        for name, array in result.arrays.items()
    }
    record = {key: value for key, value in result.record.items() if key != "about"}
    kept = {
        "conventions": result.conventions,
        "warnings": list(result.warnings),
        "missing": list(result.missing),
    }
    return {"schema": SCHEMA, **record, "quantities": quantities, "arrays": arrays, **kept}


def from_json(record: dict[str, Any], arrays: Mapping[str, Any]) -> Result:
    """The result that `result.json` and its arrays hold; unknown keys are accepted."""
    names = {field.name for field in attrs.fields(Quantity)}
    quantities = {}
    for name, value in record.get("quantities", {}).items():
        known = {key: part for key, part in value.items() if key in names}
        quantities[name] = Quantity(
            **{**known, "value": math.nan if known.get("value") is None else known["value"]}
        )
    rest = {
        key: value
        for key, value in record.items()
        if key not in ("quantities", "arrays", "conventions", "warnings", "missing")
    }
    rest["about"] = {
        name: entry.get("about", "") for name, entry in record.get("arrays", {}).items()
    }
    lists = {key: record.get(key, ()) for key in ("warnings", "missing")}
    return Result(quantities, dict(arrays), record.get("conventions", {}), record=rest, **lists)


def write_result(folder: Path, result: Result) -> None:
    """Arrays first, `result.json` last: it is the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    if result.arrays:
        write_arrays(folder / "arrays.npz", result.arrays)
    write_json(folder / "result.json", to_json(result))


def read_result(folder: Path) -> Result:
    """The result in a job's folder."""
    record = read_json(folder / "result.json")
    arrays = read_arrays(folder / "arrays.npz") if record.get("arrays") else {}
    if damaged := set(record.get("arrays", {})) - set(arrays):
        raise Error(f"{folder / 'arrays.npz'} lacks the arrays {', '.join(sorted(damaged))}")
    return from_json(record, arrays)


@contextmanager
def atomic(path: Path, *, durable: bool = True) -> Iterator[io.BufferedWriter]:
    """Write a file under a temporary name and rename it when it is whole; on failure nothing is left behind."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise writing_failed(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def writing_failed(path: Path, error: OSError) -> Error:
    """What to tell a user whose disk or folder refused."""
    advice = {
        errno.ENOSPC: "; make room and run again: finished jobs are kept",
        errno.EACCES: "; choose another folder with --out",
    }
    return Error(f"cannot write {path}: {error.strerror}{advice.get(error.errno or 0, '')}")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; a non-finite number is refused."""
    text = json.dumps(value, indent=1, allow_nan=False)
    with atomic(path) as file:
        file.write(text.encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read JSON that this project wrote; says which file is damaged or too new."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Error(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise Error(f"{path} is damaged: expected a table with a schema number")
    if value["schema"] > SCHEMA:
        raise Error(
            f"{path} has schema {value['schema']}, this version reads up to {SCHEMA}: upgrade penchant"
        )
    return value


def write_arrays(path: Path, arrays: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write named arrays; the bytes depend on the values only."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with atomic(path, durable=durable) as file:
        file.write(buffer.getbuffer())


def read_arrays(path: Path) -> dict[str, Any]:
    """Named arrays from a file; never unpickles."""
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise Error(f"{path} cannot be read: {error}") from error
