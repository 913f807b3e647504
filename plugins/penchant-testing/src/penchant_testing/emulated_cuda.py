"""Emulated devices that are called `cuda`, on a build of torch without CUDA.

Code behind `device.type == "cuda"` runs on them. Torch must find hooks for CUDA when it is
imported, so a process has these devices from its start or not at all: it is started with the
variables of `environment`. The hooks are C++ (`emulated_cuda.cpp`), compiled once for a version of
torch. What `torch.cuda` answers is replaced while the devices are in use (`answers`).

    subprocess.run([sys.executable, "script.py"], env=emulated_cuda.environment())
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from penchant import Error

from penchant_testing.emulated_memory import Memory

DEVICES = 2
SOURCE = Path(__file__).with_suffix(".cpp")
CAPABILITY = (8, 0)  # of a device with TF32
TOTAL = 16 * 2**30  # bytes of a device without a limit
_TORCH = Path(torch.__file__).parent


def obstacle() -> str | None:
    """Why no process can have these devices here; None where one can."""
    if not sys.platform.startswith("linux"):
        return f"CUDA is emulated on Linux only, found {sys.platform}"
    if torch.version.cuda is not None:
        return f"torch {torch.__version__} has CUDA of its own: use a build for CPUs"
    if not (_TORCH / "include/ATen/detail/CUDAHooksInterface.h").is_file():
        return f"torch {torch.__version__} has no headers"
    if _compiler() is None:
        return "there is no C++ compiler: install g++, or name one in CXX"
    return None


def _compiler() -> str | None:
    names = (os.environ.get("CXX"), "c++", "g++", "clang++")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def library() -> Path:
    """The hooks for this version of torch, compiled where they are not there yet.

    Raises:
        penchant.Error: Where they cannot be compiled, with the reason.
    """
    reason = obstacle()
    if reason is not None:
        raise Error(f"CUDA cannot be emulated: {reason}")
    inputs = (SOURCE.read_text(), torch.__version__, str(_TORCH), str(_compiler()))
    key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penchant"
    path = folder / f"emulated_cuda-{key}.so"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _compile(path)
    return path


def _compile(path: Path) -> None:
    """Compile into another file first: several processes may do so at once."""
    libraries = _TORCH / "lib"
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [str(_compiler()), "-O1", "-shared", "-fPIC", "-std=c++20", str(SOURCE)]
        command += [f"-I{_TORCH}/include", f"-D_GLIBCXX_USE_CXX11_ABI={int(_new_abi())}"]
        command += [f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}"]
        done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), "")
            raise Error(f"CUDA cannot be emulated: {command[0]} fails: {first or done.stderr}")
        made.replace(path)


def _new_abi() -> bool:
    return bool(torch._C._GLIBCXX_USE_CXX11_ABI)


def environment() -> dict[str, str]:
    """Variables of a process that has the devices; its own processes have them too.

    Raises:
        penchant.Error: Where the hooks cannot be compiled, with the reason.
    """
    others = os.environ.get("LD_PRELOAD", "").split()
    return {**os.environ, "LD_PRELOAD": " ".join([str(library()), *others])}


@functools.cache
def _hooks() -> Any:
    """The functions of the library; None in a process without it."""
    everything = ctypes.CDLL(None)
    return everything if hasattr(everything, "penchant_current_device") else None


def is_loaded() -> bool:
    """Has this process the devices?"""
    return _hooks() is not None


def current_device() -> int:
    """The device of this thread."""
    return int(_hooks().penchant_current_device())


def _index(device: Any = None) -> int:
    """The number of a device, the current one without any."""
    if isinstance(device, int):
        return device
    number = None if device is None else torch.device(device).index
    return current_device() if number is None else number


def _set_device(device: Any) -> None:
    _hooks().penchant_set_device(_index(device))


class _Device:
    """`torch.cuda.device`: another current device for what runs inside."""

    def __init__(self, device: Any) -> None:
        self.index = _index(device)

    def __enter__(self) -> None:
        self.before = current_device()
        _set_device(self.index)

    def __exit__(self, *anything: object) -> None:
        _set_device(self.before)


@functools.cache
def default_generators() -> tuple[torch.Generator, ...]:
    """The generator of each device that layers draw from."""
    return tuple(torch.Generator(device=f"cuda:{number}") for number in range(DEVICES))


@contextlib.contextmanager
def answers(memory: Memory) -> Iterator[None]:
    """Let `torch.cuda` answer for the devices.

    Args:
        memory: What they hold.
    """
    with contextlib.ExitStack() as stack:
        for name, value in {**_constants(), **_of_memory(memory)}.items():
            stack.enter_context(_replaced(torch.cuda, name, value))
            # which imports some of them by name
            if hasattr(torch.cuda.random, name):
                stack.enter_context(_replaced(torch.cuda.random, name, value))
        # Page-locked memory is the host's, and nothing of it is cached; there is no cuDNN.
        stack.enter_context(_replaced(torch.accelerator, "empty_host_cache", lambda: None))
        stack.enter_context(_replaced(torch.backends.cudnn, "is_acceptable", lambda tensor: False))
        yield


def _constants() -> dict[str, Any]:
    """Answers that depend on nothing."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: DEVICES,
        "current_device": current_device,
        "set_device": _set_device,
        "device": _Device,
        "default_generators": default_generators(),
        "get_device_name": lambda device=None: "emulated",
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_arch_list": lambda: ["sm_{}{}".format(*CAPABILITY)],
        "synchronize": lambda device=None: None,
        "is_current_stream_capturing": lambda: False,
    }


def _of_memory(memory: Memory) -> dict[str, Callable[..., Any]]:
    """Answers about memory."""

    def properties(device: Any = None) -> types.SimpleNamespace:
        major, minor = CAPABILITY
        return types.SimpleNamespace(
            name="emulated",
            total_memory=memory.total or TOTAL,
            major=major,
            minor=minor,
            multi_processor_count=1,
        )

    def mem_get_info(device: Any = None) -> tuple[int, int]:
        total = memory.total or TOTAL
        return total - memory.live(_index(device)), total

    def set_fraction(fraction: float, device: Any = None) -> None:
        memory.limit = int(fraction * (memory.total or TOTAL))

    return {
        "get_device_properties": properties,
        "mem_get_info": mem_get_info,
        "memory_allocated": lambda device=None: memory.live(_index(device)),
        "memory_reserved": lambda device=None: memory.live(_index(device)),
        "max_memory_allocated": lambda device=None: memory.peak_of(_index(device)),
        "reset_peak_memory_stats": lambda device=None: memory.reset_peak(_index(device)),
        "set_per_process_memory_fraction": set_fraction,
        "empty_cache": lambda: None,
    }


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def drawing(index: int, given: torch.Generator | None) -> Iterator[torch.Generator | None]:
    """The host's generator that an operator draws from in place of the device's.

    Args:
        index: Which device draws.
        given: The generator the operator is called with, if any: one of the device.

    Yields:
        The generator to call it with; None for the host's global one, which has the state of the
        device's default generator meanwhile.
    """
    own = default_generators()[index] if given is None else given
    host = torch.default_generator if given is None else torch.Generator(device="cpu")
    before = torch.default_generator.get_state()
    host.set_state(own.get_state())
    try:
        yield given and host
    finally:
        own.set_state(host.get_state())
        torch.default_generator.set_state(before)
