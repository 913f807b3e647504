"""What a machine must have before anything runs: a POSIX system, and a torch that is new enough."""

import functools
import importlib.metadata
import sys

from packaging.requirements import Requirement
from packaging.version import Version
from penchant.errors import Error


def check_system() -> None:
    """Refuse a system without the locks and limits of POSIX."""
    if sys.platform == "win32":
        raise Error(
            "Penchant runs on Linux and macOS, found Windows, which lacks the file locks that "
            "runs need; WSL, the Linux inside Windows, has them"
        )


@functools.cache  # what is installed stays: to read it takes as long as a small measurement
def check_torch() -> None:
    """Refuse a torch that is older than the kernel declares; no import is needed to know it."""
    found = Version(importlib.metadata.version("torch"))
    for text in importlib.metadata.requires("penchant") or ():
        requirement = Requirement(text)
        if requirement.name == "torch" and not requirement.specifier.contains(
            found.base_version, prereleases=True
        ):
            raise Error(
                f"Penchant needs torch {requirement.specifier}, found {found}; "
                f"pip install 'torch{requirement.specifier}'"
            )
