"""The surroundings of a job: threads, precision and determinism while it runs, and its machine."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from penchant.errors import Error
from penchant.execution import gpus
from penchant.experiments.settings import Settings
from penchant.plugins.discovery import kernel_version

MOST_DRAWING = 16  # threads that draw networks for one GPU
# What torch says of its own speed and of its own deprecated parts: a user can change neither.
OF_TORCH = (
    "There is a performance drop because",
    r"torch\.searchsorted\(\): .*non-contiguous",
    r"`torch\.jit.*` is deprecated",
)


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
        reason = gpus.obstacle(gpus.known())
        raise Error(f"device {device!r} was asked for, but {reason}; or use device = 'cpu'")

    # One that is named by its number must be there; else each worker takes its own.
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


def default_workers(settings: Settings) -> int:
    """Workers where nobody says how many: a core each, on CUDA so many a GPU."""
    import torch

    if not place(settings.device).startswith("cuda"):
        return os.cpu_count() or 1
    # A device that is named by its number is one; without a number all are used.
    devices = 1 if settings.device.startswith("cuda:") else torch.cuda.device_count()
    return devices * settings.per_device


@contextlib.contextmanager
def isolated(settings: Settings, device: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Threads and policy as the run wants them; everything as before afterwards.

    Args:
        settings: Threads of torch and of the libraries of linear algebra, precision and memory.
        device: Where the job runs.
        warn: Told what torch says of algorithms that are not deterministic, and of memory.

    Yields:
        Nothing.
    """
    import torch

    with limited(settings.threads), policy(settings, device, warn):
        if device.startswith("cuda"):
            # Its largest memory counts from here on.
            torch.cuda.reset_peak_memory_stats(device)
        try:
            yield
        finally:
            _release_host_memory(device)


def _release_host_memory(device: str) -> None:
    """Give page-locked memory back, which torch keeps for the next copies to a GPU."""
    import torch

    release = getattr(torch.accelerator, "empty_host_cache", None)
    if device.startswith("cuda") and release is not None:
        release()


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
def policy(settings: Settings, device: str, warn: Callable[[str], None]) -> Iterator[None]:
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
        stack.enter_context(_products(tf32=settings.precision == "tf32"))
        # Memory, and threads that draw networks.
        largest = budget_bytes(settings)
        stack.enter_context(memory.budget(largest, per_device=settings.per_device))
        threads = drawing_threads(settings, kind)
        stack.enter_context(ensembles.drawing(threads, ahead=kind != "cpu", pinned=bool(cuda)))
        stack.enter_context(_noted_warnings(warn))
        # A caller's `no_grad` or `inference_mode` would silently change what a probe measures.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for each in {"cpu", kind} & {"cpu", "cuda"}:
            stack.enter_context(torch.autocast(each, enabled=False))
        # The caller's random state is given back as it was.
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        if cuda:
            stack.enter_context(torch.cuda.device(cuda[0]))
            stack.enter_context(_deterministic())
        # Algorithms that cuDNN chooses by timing them give other bits in every run.
        stack.enter_context(_restored(_benchmarks, _set_benchmarks))
        _set_benchmarks(False)
        yield


def drawing_threads(settings: Settings, kind: str) -> int:
    """Threads that draw networks on the host: the run's own, on CUDA a worker's share of cores.

    Networks are the same whatever their number.
    """
    import torch

    if kind != "cuda":
        return settings.threads
    workers = settings.workers or torch.cuda.device_count() * settings.per_device
    share = (os.cpu_count() or 1) // max(1, workers)
    return max(settings.threads, min(MOST_DRAWING, share))


def budget_bytes(settings: Settings) -> int | None:
    """Bytes that a computation may hold; None for the default of the device's type."""
    return None if settings.memory is None else int(settings.memory * 2**30)


@contextlib.contextmanager
def _restored(get: Callable[[], Any], put: Callable[[Any], None]) -> Iterator[None]:
    before = get()
    try:
        yield
    finally:
        put(before)


def _benchmarks() -> bool:
    import torch

    return bool(torch.backends.cudnn.benchmark)


def _set_benchmarks(value: bool) -> None:
    import torch

    torch.backends.cudnn.benchmark = value


@contextlib.contextmanager
def _products(*, tf32: bool) -> Iterator[None]:
    """Products, convolutions and recurrent layers of float32 in float32, or in TF32."""
    import torch

    general, _ = _precision_owners()
    with _restored(_precisions, _set_precisions):
        for owner in general:
            owner.fp32_precision = "none" if tf32 else "ieee"
        # Both switches keep torch's older and newer settings consistent: where they are not,
        # reading one of them raises, also in `torch.backends.cudnn.flags` of a user's network.
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        yield


def _precision_owners() -> tuple[list[Any], list[Any]]:
    """Where torch keeps the precision of float32: settings that others inherit, and those.

    Both are empty for versions of torch that have the older switches only.
    """
    import torch

    backends: Any = torch.backends
    if not hasattr(backends, "fp32_precision"):
        return [], []
    general = [backends, backends.cudnn]
    own = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul]
    return general, own


def _precisions() -> tuple[Any, ...]:
    """The precision of everything, as `_set_precisions` puts it back."""
    import torch

    products = _legible(torch.get_float32_matmul_precision, "highest")
    convolutions = _legible(lambda: torch.backends.cudnn.allow_tf32, True)
    general, own = _precision_owners()
    return products, convolutions, [owner.fp32_precision for owner in (*general, *own)]


def _set_precisions(found: tuple[Any, ...]) -> None:
    import torch

    products, convolutions, values = found
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32 = convolutions
    general, own = _precision_owners()
    for owner, value in zip([*general, *own], values):
        if owner.fp32_precision != value:
            owner.fp32_precision = value


def _legible(get: Callable[[], Any], default: Any) -> Any:
    """The value of an older switch; where a newer setting contradicts it, torch's default."""
    try:
        return get()
    except RuntimeError:
        return default


@contextlib.contextmanager
def _noted_warnings(warn: Callable[[str], None]) -> Iterator[None]:
    """Warnings of memory, of slow routes and of algorithms without an order reach the result.

    Those of other threads, such as a notebook's, go where they always go.
    """
    from penchant_numerics.memory import MemoryWarning
    from penchant_numerics.vectorisation import NotVectorisedWarning

    noted = (MemoryWarning, NotVectorisedWarning)
    with without_torchs_own_warnings():
        # Whatever filters the caller's session has: others stay as they are.
        for category in noted:
            warnings.simplefilter("always", category)
        warnings.filterwarnings("always", message=".*deterministic")
        shown = warnings.showwarning
        thread = threading.get_ident()

        def note(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            text, _, _ = str(message).partition("\n")
            for_the_result = issubclass(category, noted) or "deterministic" in text
            if for_the_result and threading.get_ident() == thread:
                warn(text)
            else:
                shown(message, category, *where, **more)

        warnings.showwarning = note
        yield


@contextlib.contextmanager
def without_torchs_own_warnings() -> Iterator[None]:
    """Nothing is shown of what torch says of its own insides."""
    with warnings.catch_warnings():
        for text in OF_TORCH:
            warnings.filterwarnings("ignore", message=text)
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

    cudnn: Any = torch.backends.cudnn
    switches = [torch.backends.cuda.matmul, cudnn, cudnn]
    owners = [torch.backends.cuda.matmul, getattr(cudnn, "conv", None), getattr(cudnn, "rnn", None)]
    products, convolutions, recurrent = map(_precision_of, owners, switches)
    return {
        "device": device,
        **gpu(device),
        **drivers(device),
        "precision": settings.precision,
        "matrix products": products,
        "convolutions": convolutions,
        "recurrent layers": recurrent,
        "memory": f"{memory.available(device)} bytes",
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "cudnn benchmark": str(cudnn.benchmark).lower(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "autocast": str(torch.is_autocast_enabled("cpu")).lower(),
        "gradients": str(torch.is_grad_enabled()).lower(),
        "threads": str(torch.get_num_threads()),
    }


def _precision_of(owner: Any, switch: Any) -> str:
    """The precision that torch names; of older versions, whether TF32 is allowed."""
    return getattr(owner, "fp32_precision", None) or str(switch.allow_tf32)


def gpu(device: str) -> dict[str, str]:
    """Which GPU, and with which libraries; nothing where the device is none.

    These change numbers: they enter the key of a job. A device without a number is any of those
    here, so that all kinds of them are named.
    """
    import torch

    if not device.startswith("cuda"):
        return {}
    numbers = range(torch.cuda.device_count())
    devices = [device] if ":" in device else [f"cuda:{number}" for number in numbers]
    kinds = {torch.cuda.get_device_name(each) for each in devices}
    return {
        "gpu": " or ".join(sorted(kinds)),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
    }


def drivers(device: str) -> dict[str, str]:
    """How many GPUs and which driver: recorded, but no part of a job's key."""
    import torch

    if not device.startswith("cuda"):
        return {}
    return {"gpus": str(torch.cuda.device_count()), "driver": _driver()}


def job_device(device: str) -> tuple[str, dict[str, str]]:
    """What the keys of jobs say of a setting: the kind of device, and which GPU."""
    kind, _, _ = place(device).partition(":")
    # Workers share all devices of a kind unless one is named.
    return kind, gpu(device if ":" in device else kind)


@functools.cache
def _driver() -> str:
    """The version of the NVIDIA driver; unknown where its tool does not tell."""
    import subprocess

    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.partition("\n")[0].strip() or "unknown"


def peak_memory(device: str = "cpu") -> int:
    """Largest memory in bytes: of this process, or of a job on a CUDA device."""
    import torch

    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated(device))
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
        found |= gpu("cuda") | drivers("cuda")
    return found
