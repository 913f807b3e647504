"""The surroundings of a job: threads, precision and determinism while it runs, and what it ran on."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator

from penchant.plugins import kernel_version


@contextlib.contextmanager
def isolated(threads: int, device: str) -> Iterator[None]:
    """Threads, precision and determinism as the run wants them; everything as before afterwards, random state included."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded before threads are limited
    import threadpoolctl
    import torch

    cuda = device.startswith("cuda")
    before = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
    )
    deterministic = torch.are_deterministic_algorithms_enabled()
    if cuda:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        with threadpoolctl.threadpool_limits(threads), torch.random.fork_rng():
            torch.set_num_threads(threads)
            yield
    finally:
        if cuda:
            torch.use_deterministic_algorithms(deterministic)
        torch.set_num_threads(before[0])
        torch.set_default_dtype(before[1])
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = (
            before[2],
            before[3],
        )


def peak_memory() -> int:
    """Largest memory this process has had, in bytes; on CUDA, the device's."""
    import torch

    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return int(torch.cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def environment() -> dict[str, str]:
    """What the numbers were made with."""
    import numpy
    import torch

    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "penchant": kernel_version(),
        "torch": torch.__version__,
    }
    found.update(numpy=numpy.__version__, cpus=str(os.cpu_count()))
    if torch.cuda.is_available():
        found["cuda"] = f"{torch.version.cuda}, {torch.cuda.get_device_name(0)}"
    return found
