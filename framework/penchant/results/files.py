"""Files: written whole or not at all, readable with `json` and `numpy.load`, checked when read."""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results.bounds import (
    LARGEST_ARRAYS,
    LARGEST_JSON,
    MOST_ARRAYS,
    check_depth,
    content_of,
    opened,
)

SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")  # as `atomic` names them
_ADVICE = {
    errno.ENOSPC: "; free some space and run again: finished jobs are not repeated",
    errno.EACCES: "; choose another folder with --out",
    errno.EROFS: "; choose another folder with --out",
}


class NewerSchemaError(Error):
    """A file that a later version of this project wrote."""


@contextmanager
def atomic(path: Path, *, durable: bool = True) -> Iterator[io.BufferedWriter]:
    """Write a file under a temporary name and rename it when it is whole.

    On failure nothing is left behind. `durable` waits until the disk has it.
    """
    # A name of its own for every writer: two processes never share a temporary file.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "w+b") as file:
            yield file  # type: ignore[misc]
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise writing_failed(path, error) from error
    finally:
        # Do not mask the original error.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what killed writers left; only where no other process is writing."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()


def writing_failed(path: Path, error: OSError) -> Error:
    """The error of a disk or folder that cannot be written, with a hint."""
    advice = _ADVICE.get(error.errno or 0, "")
    return Error(f"cannot write {path}: {error.strerror or error}{advice}")


def set_aside(path: Path) -> None:
    """Move a damaged file out of the way, so that what it held is made again."""
    # Where the disk refuses, the file is simply written over.
    with contextlib.suppress(OSError):
        path.replace(path.with_name(f"{path.name}.damaged"))


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically; a number that is not finite is refused."""
    try:
        text = json.dumps(value, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Error(f"{path.name} cannot hold this: {error}") from error
    with atomic(path) as file:
        file.write(text.encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read JSON that this project wrote; says which file is damaged or too new."""
    try:
        value = json.loads(content_of(path, LARGEST_JSON))
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path} cannot be read: {error}") from error
    check_depth(value, path)
    if not isinstance(value, dict) or not isinstance(schema := value.get("schema"), int):
        raise Error(f"{path} is damaged: expected a table with a schema number")
    # Older files are read; what newer ones mean is unknown here.
    if schema > SCHEMA:
        advice = f"this version reads up to {SCHEMA}: upgrade penchant"
        raise NewerSchemaError(f"{path} has schema {schema}, {advice}")
    return value


def checksum(path: Path) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_name(name: object, what: str) -> None:
    """Refuse a name that an npz file or a file system would change."""
    subject = f"the name of a {what}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Error(f"{subject} must be letters, digits and hyphens, found {name!r}")
    # numpy takes the ending off when it reads an archive.
    if name.endswith(".npy"):
        raise Error(f"{subject} must not end in .npy, found {name!r}")


def host_array(value: object) -> Any:
    """An array in the host's memory, from an array, a tensor on any device, or numbers."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
    # The values behind a mask would pass for numbers.
    if isinstance(value, np.ma.MaskedArray):
        raise Error("found a masked array, whose mask no file keeps; .filled(nan) is an array")
    return np.asarray(value)


def write_arrays(path: Path, arrays: Mapping[str, Any], *, durable: bool = True) -> str:
    """Write named arrays without a second copy of them; returns SHA-256 of the file.

    The bytes depend on the values only. `durable` waits until the disk has them.
    """
    import numpy as np

    _check_size(path, [np.asanyarray(value).nbytes for value in arrays.values()])
    # A fixed date: the same arrays give the same file.
    date = (1980, 1, 1, 0, 0, 0)
    with atomic(path, durable=durable) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in arrays.items():
                member = zipfile.ZipInfo(f"{name}.npy", date_time=date)
                with archive.open(member, "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(value), allow_pickle=False)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_arrays(path: Path) -> dict[str, Any]:
    """Named arrays from a file; never unpickles, and unpacks nothing: arrays stand there as is."""
    try:
        with opened(path, LARGEST_ARRAYS) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_size(path, [member.file_size for member in members])
            size = os.fstat(file.fileno()).st_size
            # More than the file has: a few bytes that stand for many.
            if sum(member.file_size for member in members) > size:
                raise Error(f"{path} is packed, expected arrays as they are")
            return {_array_name(member.filename): _array(archive, member) for member in members}
    except (Error, MemoryError):
        raise
    except Exception as error:  # a damaged archive fails in many ways
        problem = str(error) or type(error).__name__
        raise Error(f"{path} cannot be read: {problem}") from error


def _check_size(path: Path, sizes: Sequence[int]) -> None:
    """Refuse more arrays, or larger ones, than are read again."""
    if len(sizes) > MOST_ARRAYS:
        raise Error(f"{path} has {len(sizes)} arrays, expected at most {MOST_ARRAYS}")
    if sum(sizes) > LARGEST_ARRAYS:
        raise Error(f"{path} has {sum(sizes)} bytes of arrays, expected at most {LARGEST_ARRAYS}")


def _array_name(member: str) -> str:
    if not member.endswith(".npy"):
        raise ValueError(f"{member!r} is no array")
    return member.removesuffix(".npy")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """An array of an archive, once its head promises what there is."""
    import numpy as np

    with archive.open(member) as entry:
        promised = array_bytes(entry)
        if promised != (found := member.file_size - entry.tell()):
            name = _array_name(member.filename)
            raise ValueError(f"the array {name!r} promises {promised} bytes, found {found}")
    with archive.open(member) as entry:
        return np.lib.format.read_array(entry, allow_pickle=False)


def array_bytes(file: Any) -> int:
    """How many bytes of numbers the head of an npy file promises; the file stands behind it."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version} of an array is unknown here")
    try:
        shape, _, dtype = readers[version](file)
    except MemoryError:  # of Python's parser, where a head has too many brackets
        raise ValueError("the head of an array is damaged") from None
    return math.prod(shape) * int(dtype.itemsize)


def read_tensors(path: Path) -> dict[str, Any]:
    """Tensors and plain numbers of a file that this project wrote, in the host's memory."""
    import torch

    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged archive fails in many ways
        raise Error(f"{path} cannot be read: {error}") from error
    return state
