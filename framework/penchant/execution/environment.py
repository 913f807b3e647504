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
from penchant.experiments.settings import Settings
from penchant.plugins.discovery import kernel_version

MOST_DRAWING = 16  # threads that draw networks for one GPU


def place(device: str, worker: int = 0) -> str:
    """The device of a worker: with several CUDA devices and none named, worker i takes device i."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    numbered = number == "" or number.isdigit()
    if kind not in _kinds() or not numbered:
        raise Error(f"device must be auto, cpu, cuda or cuda:N, found {device!r}")
    if kind != "cuda":
        return device

    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} finds no CUDA device here"
        cure = "use device = 'cpu' or 'auto'"
        raise Error(f"device {device!r} was asked for, but {found}; {cure}")

    # One that is named by its number must be there; else each worker takes its own.
    count = torch.cuda.device_count()
    if number and int(number) >= count:
        found = f"there are {count} CUDA devices, numbered from 0"
        raise Error(f"device {device!r} was asked for, but {found}")
    if number:
        return device
    return f"cuda:{worker % count}"


def _kinds() -> tuple[str, ...]:
    """Kinds of devices: those of torch, and one that a test emulates."""
    import torch

    # torch's own name for a device that nobody has registered is `privateuseone`.
    emulated = torch._C._get_privateuse1_backend_name()
    if emulated == "privateuseone":
        return ("cpu", "cuda")
    return ("cpu", "cuda", emulated)


def default_workers(settings: Settings) -> int:
    """Workers where nobody says how many: a core each, on CUDA so many a GPU."""
    import torch

    device = place(settings.device)
    kind, _, _ = device.partition(":")
    if kind != "cuda":
        return os.cpu_count() or 1
    # A device that is named by its number is one; without a number all are used.
    named = settings.device.startswith("cuda:")
    devices = 1 if named else torch.cuda.device_count()
    return devices * settings.per_device


@contextlib.contextmanager
def isolated(
    settings: Settings,
    device: str,
    warn: Callable[[str], None],
) -> Iterator[None]:
    """Threads and policy as the run wants them; everything as before afterwards.

    Args:
        settings: Threads of torch and of the libraries of linear algebra, precision and memory.
        device: Where the job runs.
        warn: Told what torch says of algorithms that are not deterministic, and of memory.

    Yields:
        Nothing.
    """
    with limited(settings.threads), policy(settings, device, warn):
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
def policy(
    settings: Settings,
    device: str,
    warn: Callable[[str], None],
) -> Iterator[None]:
    """Precision, memory, gradients, random state and determinism as every job and shard has them.

    Single precision is the default dtype, products are in the precision of the settings, autocast
    is off, gradients are on: whatever the caller's session or a plugin has set. Afterwards
    everything is as before.

    Args:
        settings: Precision and memory.
        device: Where the job runs.
        warn: Told what torch says of algorithms that are not deterministic, and of memory.

    Yields:
        Nothing.
    """
    import torch
    from penchant_numerics import ensembles, memory, precision

    kind, _, number = device.partition(":")
    cuda = [int(number or 0)] if kind == "cuda" else []
    with contextlib.ExitStack() as stack:
        # Precision: of what is made without a word about it, and of products.
        stack.enter_context(_restored(torch.get_default_dtype, torch.set_default_dtype))
        torch.set_default_dtype(torch.float32)
        stack.enter_context(precision.chosen(settings.precision))
        tf32 = settings.precision == "tf32"
        stack.enter_context(_products(tf32=tf32))
        # Memory, and threads that draw networks.
        largest = budget_bytes(settings)
        stack.enter_context(memory.budget(largest))
        threads = drawing_threads(settings, kind)
        drawing = ensembles.drawing(threads, ahead=kind != "cpu", pinned=bool(cuda))
        stack.enter_context(drawing)
        stack.enter_context(_noted_warnings(warn))
        # A caller's `no_grad` or `inference_mode` would silently change what a probe measures.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for each in {"cpu", kind} & {"cpu", "cuda"}:
            stack.enter_context(torch.autocast(each, enabled=False))
        # The caller's random state is given back as it was.
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        if cuda:
            torch.cuda.set_device(cuda[0])
            stack.enter_context(_deterministic())
        yield


def drawing_threads(settings: Settings, kind: str) -> int:
    """Threads that draw networks on the host: the run's own, on CUDA a worker's share of cores.

    Networks are the same whatever their number.
    """
    import torch

    if kind != "cuda":
        return settings.threads
    workers = settings.workers
    if not workers:
        workers = torch.cuda.device_count() * settings.per_device
    cores = os.cpu_count() or 1
    share = cores // max(1, workers)
    drawing = min(MOST_DRAWING, share)
    return max(settings.threads, drawing)


def budget_bytes(settings: Settings) -> int | None:
    """Bytes that a computation may hold; None for the default of the device's type."""
    if settings.memory is None:
        return None
    return int(settings.memory * 2**30)


@contextlib.contextmanager
def _restored(get: Callable[[], Any], put: Callable[[Any], None]) -> Iterator[None]:
    before = get()
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def _products(*, tf32: bool) -> Iterator[None]:
    """Products and convolutions of single precision in single precision, or in TF32."""
    import torch

    # Newer versions of torch name the precision; older ones have a switch, of other owners.
    owners: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn.conv]
    newer = all(hasattr(owner, "fp32_precision") for owner in owners)
    name = "fp32_precision"
    value: str | bool = "tf32" if tf32 else "ieee"
    if not newer:
        owners = [torch.backends.cuda.matmul, torch.backends.cudnn]
        name, value = "allow_tf32", tf32
    before = [getattr(owner, name) for owner in owners]
    try:
        for owner in owners:
            setattr(owner, name, value)
        yield
    finally:
        for owner, old in zip(owners, before):
            setattr(owner, name, old)


@contextlib.contextmanager
def _noted_warnings(warn: Callable[[str], None]) -> Iterator[None]:
    """What is said of memory and of algorithms that are not deterministic reaches the result."""
    from penchant_numerics.memory import MemoryWarning

    with warnings.catch_warnings():
        # Whatever filters the caller's session has: others stay as they are.
        warnings.simplefilter("always", MemoryWarning)
        warnings.filterwarnings("always", message=".*deterministic")
        shown = warnings.showwarning

        def note(
            message: Any,
            category: type[Warning],
            *where: Any,
            **more: Any,
        ) -> None:
            text, _, _ = str(message).partition("\n")
            of_memory = issubclass(category, MemoryWarning)
            if of_memory or "deterministic" in text:
                warn(text)
            else:
                shown(message, category, *where, **more)

        warnings.showwarning = note
        yield


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Deterministic algorithms on CUDA; what has none is warned of."""
    import torch

    # cuBLAS is deterministic only with a workspace of fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warned)


def flags(settings: Settings, device: str) -> dict[str, str]:
    """The policy in force, as results record it."""
    import torch
    from penchant_numerics import memory

    matmul = torch.backends.cuda.matmul
    convolution = torch.backends.cudnn
    products = getattr(matmul, "fp32_precision", None) or str(matmul.allow_tf32)
    owner = getattr(convolution, "conv", None)
    convolutions = getattr(owner, "fp32_precision", None) or str(convolution.allow_tf32)
    return {
        "device": device,
        **gpu(device),
        "precision": settings.precision,
        "matrix products": products,
        "convolutions": convolutions,
        "memory": f"{memory.available(device)} bytes",
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "autocast": str(torch.is_autocast_enabled("cpu")).lower(),
        "gradients": str(torch.is_grad_enabled()).lower(),
        "threads": str(torch.get_num_threads()),
    }


def gpu(device: str) -> dict[str, str]:
    """Which GPU, how many of them, and what drives them; nothing where the device is none.

    These make numbers: they enter the key of a job.
    """
    import torch

    if not device.startswith("cuda"):
        return {}
    return {
        "gpu": torch.cuda.get_device_name(device),
        "gpus": str(torch.cuda.device_count()),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "driver": _driver(),
    }


def device_kind(device: str) -> tuple[str, dict[str, str]]:
    """The kind of a device, and which GPU it is: what the key of a job says of it."""
    resolved = place(device)
    kind, _, _ = resolved.partition(":")
    return kind, gpu(resolved)


def _driver() -> str:
    """The version of the NVIDIA driver; unknown where its tool does not tell."""
    import subprocess

    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    first, _, _ = answer.stdout.partition("\n")
    return first.strip() or "unknown"


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
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss * unit


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
        found |= gpu("cuda:0")
    return found
