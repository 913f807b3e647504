"""The surroundings of a job: threads, precision and determinism while it runs, and its machine."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from penchant.errors import Error
from penchant.plugins.discovery import kernel_version


def place(device: str, worker: int = 0) -> str:
    """The device of a worker: with several CUDA devices and none named, worker i takes device i."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind not in _kinds() or (number and not number.isdigit()):
        raise Error(f"device must be auto, cpu, cuda or cuda:N, found {device!r}")
    if kind != "cuda":
        return device
    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} finds no CUDA device here"
        raise Error(f"device {device!r} was asked for, but {found}; use device = 'cpu' or 'auto'")
    count = torch.cuda.device_count()
    if number and int(number) >= count:
        found = f"there are {count} CUDA devices, numbered from 0"
        raise Error(f"device {device!r} was asked for, but {found}")
    return device if number else f"cuda:{worker % count}"


def _kinds() -> tuple[str, ...]:
    """Kinds of devices: those of torch, and one that a test emulates."""
    import torch

    # torch's own name for a device that nobody has registered is `privateuseone`.
    emulated = torch._C._get_privateuse1_backend_name()
    return ("cpu", "cuda") if emulated == "privateuseone" else ("cpu", "cuda", emulated)


@contextlib.contextmanager
def isolated(threads: int, device: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Threads and policy as the run wants them; everything as before afterwards.

    Args:
        threads: Threads of torch and of the libraries of linear algebra.
        device: Where the job runs.
        warn: Told what torch says of algorithms that are not deterministic.

    Yields:
        Nothing.
    """
    with limited(threads), policy(device, warn):
        yield


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """So many threads for torch, numpy and scipy."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded before threads are limited
    import threadpoolctl
    import torch

    before = torch.get_num_threads()
    try:
        with threadpoolctl.threadpool_limits(threads):
            torch.set_num_threads(threads)
            yield
    finally:
        # Leaving the limits resets torch's count as well.
        torch.set_num_threads(before)


@contextlib.contextmanager
def policy(device: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Precision, gradients, random state and determinism as every job and shard has them.

    Single precision is the default dtype, TF32 and autocast are off, gradients are on: whatever
    the caller's session or a plugin has set. Afterwards everything is as before.
    """
    import torch

    kind, _, number = device.partition(":")
    cuda = [int(number or 0)] if kind == "cuda" else []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_restored(torch.get_default_dtype, torch.set_default_dtype))
        torch.set_default_dtype(torch.float32)
        stack.enter_context(_full_precision())
        # A caller's `no_grad` or `inference_mode` would silently change what a probe measures.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for each in {"cpu", kind} & {"cpu", "cuda"}:
            stack.enter_context(torch.autocast(each, enabled=False))
        # The caller's random state is given back as it was.
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        if cuda:
            torch.cuda.set_device(cuda[0])
            stack.enter_context(_deterministic(warn))
        yield


@contextlib.contextmanager
def _restored(get: Callable[[], Any], put: Callable[[Any], None]) -> Iterator[None]:
    before = get()
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Products and convolutions of single precision in single precision, not in TF32."""
    import torch

    # Newer versions of torch name the precision; older ones have a switch, of other owners.
    owners: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn.conv]
    newer = all(hasattr(owner, "fp32_precision") for owner in owners)
    if not newer:
        owners = [torch.backends.cuda.matmul, torch.backends.cudnn]
    name, value = ("fp32_precision", "ieee") if newer else ("allow_tf32", False)
    before = [getattr(owner, name) for owner in owners]
    try:
        for owner in owners:
            setattr(owner, name, value)
        yield
    finally:
        for owner, old in zip(owners, before):
            setattr(owner, name, old)


@contextlib.contextmanager
def _deterministic(warn: Callable[[str], None]) -> Iterator[None]:
    """Deterministic algorithms on CUDA; what has none is told."""
    import torch

    # cuBLAS is deterministic only with a workspace of fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warned)
        for text in dict.fromkeys(str(each.message) for each in caught):
            if "deterministic" in text:
                warn(text.partition("\n")[0])


def flags() -> dict[str, str]:
    """The policy in force, as results record it."""
    import torch

    matmul = torch.backends.cuda.matmul
    precision = getattr(matmul, "fp32_precision", None) or str(matmul.allow_tf32)
    return {
        "matrix products": precision,
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "autocast": str(torch.is_autocast_enabled("cpu")).lower(),
        "gradients": str(torch.is_grad_enabled()).lower(),
        "threads": str(torch.get_num_threads()),
    }


def peak_memory() -> int:
    """Largest memory this process has had, in bytes; on CUDA, the device's."""
    import torch

    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return int(torch.cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    # Bytes on macOS, kilobytes elsewhere.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def environment() -> dict[str, str]:
    """What the numbers were made with."""
    import numpy
    import torch

    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "penchant": kernel_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "cpus": str(os.cpu_count()),
    }
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        found["cuda"] = f"{torch.version.cuda}, {count} x {torch.cuda.get_device_name(0)}"
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found
