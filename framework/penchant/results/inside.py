"""Paths below a run folder: nothing outside of it is read or written, wherever its links lead."""

from pathlib import Path

from penchant.errors import Error
from penchant.results.bounds import LONGEST_NAME


def inside(folder: Path, path: str | Path) -> Path:
    """A path below a folder.

    Args:
        folder: A run folder, or the folder of one of its jobs.
        path: What is to be read or written there.

    Returns:
        The path, which need not exist.

    Raises:
        Error: It leads out of the folder, by a link or by its name.
    """
    below = folder / path
    try:
        root = folder.resolve()
        leads_to = below.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, or links in a circle
        raise Error(f"{str(below)!r} is no path: {error}") from None
    if leads_to.is_relative_to(root):
        return below
    hint = "nothing outside a run folder is read or written; put the files themselves there"
    raise Error(f"{below} leads out of {folder}, to {leads_to}: {hint}")


def check_id(name: object, where: object) -> str:
    """The id of a job; refused where it cannot be the name of a folder."""
    expected = f"expected the name of a folder, of at most {LONGEST_NAME} bytes"
    if not isinstance(name, str):
        raise Error(f"{where}: the id of a job is {type(name).__name__}, {expected}")
    size = len(name.encode(errors="surrogatepass"))
    plain = name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}
    if not plain or size > LONGEST_NAME:
        raise Error(f"{where}: the id of a job is {name[:60]!r} ({size} bytes), {expected}")
    return name
