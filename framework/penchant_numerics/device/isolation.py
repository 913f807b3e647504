"""Torch's global state while numbers are measured: the same for every job, and restored afterwards.

Threads, precision of products, default dtype, gradients, autocast, random state and deterministic
algorithms change numbers. A caller's session or another library may have set them to anything.
"""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from penchant_numerics.device import memory
from penchant_numerics.device import precision as precisions
from penchant_numerics.device.vectorisation import NotVectorisedWarning

# What torch says of its own speed and of its own deprecated functions: a user can change neither.
OF_TORCH = (
    "There is a performance drop because",
    r"torch\.searchsorted\(\): .*non-contiguous",
    r"`torch\.jit.*` is deprecated",
)
_NOTED = (memory.MemoryWarning, NotVectorisedWarning)


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Limit torch, numpy and scipy to this number of threads."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded before threads are limited
    import threadpoolctl

    before = torch.get_num_threads()
    try:
        with threadpoolctl.threadpool_limits(count):
            torch.set_num_threads(count)
            yield
    finally:
        # Leaving the limits resets torch's count as well.
        torch.set_num_threads(before)


@contextlib.contextmanager
def isolated(
    device: torch.device, warn: Callable[[str], None], *, precision: str = "float32"
) -> Iterator[None]:
    """Set everything that changes numbers, and give it back as it was.

    The default dtype is single precision, autocast is off and gradients are on.

    Args:
        device: Where numbers are measured.
        warn: Called with warnings about memory, slow routes and algorithms that are not
            deterministic.
        precision: One of `penchant_numerics.device.precision.CHOICES`, for products.

    Yields:
        Nothing: numbers are measured inside.
    """
    cuda = [device.index or 0] if device.type == "cuda" else []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_restored(torch.get_default_dtype, torch.set_default_dtype))
        torch.set_default_dtype(torch.float32)
        stack.enter_context(precisions.chosen(precision))
        stack.enter_context(_products(tf32=precision == "tf32"))
        stack.enter_context(_noted_warnings(warn))
        # A caller's `no_grad` or `inference_mode` would silently change what is measured.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in {"cpu", device.type} & {"cpu", "cuda"}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        if cuda:
            stack.enter_context(torch.cuda.device(cuda[0]))
            stack.enter_context(_deterministic())
        # Algorithms that cuDNN chooses by timing them give other bits in every run.
        stack.enter_context(_restored(_cudnn_benchmark, _set_cudnn_benchmark))
        _set_cudnn_benchmark(False)
        yield


def flags(device: torch.device | str) -> dict[str, str]:
    """The state in force and the memory of a device, as results record them."""
    cudnn: Any = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    return {
        "precision": precisions.current(),
        "matrix products": _precision_of(matmul, matmul),
        "convolutions": _precision_of(getattr(cudnn, "conv", None), cudnn),
        "recurrent layers": _precision_of(getattr(cudnn, "rnn", None), cudnn),
        "memory": f"{memory.available(device)} bytes",
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "cudnn benchmark": str(cudnn.benchmark).lower(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "autocast": str(torch.is_autocast_enabled("cpu")).lower(),
        "gradients": str(torch.is_grad_enabled()).lower(),
        "threads": str(torch.get_num_threads()),
    }


def _precision_of(owner: Any, switch: Any) -> str:
    """The precision that torch names; in older versions, whether TF32 is allowed."""
    return getattr(owner, "fp32_precision", None) or str(switch.allow_tf32)


@contextlib.contextmanager
def _restored(get: Callable[[], Any], put: Callable[[Any], None]) -> Iterator[None]:
    before = get()
    try:
        yield
    finally:
        put(before)


def _cudnn_benchmark() -> bool:
    return bool(torch.backends.cudnn.benchmark)


def _set_cudnn_benchmark(value: bool) -> None:
    torch.backends.cudnn.benchmark = value


@contextlib.contextmanager
def _products(*, tf32: bool) -> Iterator[None]:
    """Compute products, convolutions and recurrent layers of float32 in float32, or in TF32."""
    general, _ = _precision_owners()
    with _restored(_product_precisions, _set_product_precisions):
        for owner in general:
            owner.fp32_precision = "none" if tf32 else "ieee"
        # Both switches keep torch's older and newer settings consistent: where they are not,
        # reading one of them raises, also in `torch.backends.cudnn.flags` of a user's network.
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        yield


def _precision_owners() -> tuple[list[Any], list[Any]]:
    """Where torch stores the precision of float32: settings that others inherit, and those.

    Both are empty for versions of torch that have the older switches only.
    """
    backends: Any = torch.backends
    if not hasattr(backends, "fp32_precision"):
        return [], []
    general = [backends, backends.cudnn]
    own = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul]
    return general, own


def _product_precisions() -> tuple[Any, ...]:
    """The precision of everything, as `_set_product_precisions` puts it back."""
    products = _value_or(torch.get_float32_matmul_precision, "highest")
    convolutions = _value_or(lambda: torch.backends.cudnn.allow_tf32, True)
    general, own = _precision_owners()
    return products, convolutions, [owner.fp32_precision for owner in (*general, *own)]


def _set_product_precisions(values: tuple[Any, ...]) -> None:
    products, convolutions, owned = values
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32 = convolutions
    general, own = _precision_owners()
    for owner, value in zip([*general, *own], owned):
        if owner.fp32_precision != value:
            owner.fp32_precision = value


def _value_or(get: Callable[[], Any], default: Any) -> Any:
    """The value of an older switch; where a newer setting contradicts it, torch's default."""
    try:
        return get()
    except RuntimeError:
        return default


@contextlib.contextmanager
def _noted_warnings(warn: Callable[[str], None]) -> Iterator[None]:
    """Pass on warnings about memory, slow routes and algorithms that are not deterministic.

    Warnings of other threads, such as a notebook's, go where they always go.
    """
    with without_torchs_own_warnings():
        # Whatever filters the caller's session has: others stay as they are.
        for category in _NOTED:
            warnings.simplefilter("always", category)
        warnings.filterwarnings("always", message=".*deterministic")
        shown = warnings.showwarning
        thread = threading.get_ident()

        def note(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            text, _, _ = str(message).partition("\n")
            is_noted = issubclass(category, _NOTED) or "deterministic" in text
            if is_noted and threading.get_ident() == thread:
                warn(text)
            else:
                shown(message, category, *where, **more)

        warnings.showwarning = note
        yield


@contextlib.contextmanager
def without_torchs_own_warnings() -> Iterator[None]:
    """Hide what torch says of its own implementation."""
    with warnings.catch_warnings():
        for text in OF_TORCH:
            warnings.filterwarnings("ignore", message=text)
        yield


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Use deterministic algorithms on CUDA; torch warns where there is none."""
    # cuBLAS is deterministic only with a workspace of fixed size.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warned)
