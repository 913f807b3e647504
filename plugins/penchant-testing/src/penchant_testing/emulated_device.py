"""An accelerator that is not there: tensors that say they are on a device, computed on the CPU.

Tensors on the emulated device hold numbers of the host, but refuse to mix with the host's tensors,
as those of CUDA do (tensors without axes and indices of the host are allowed), refuse generators of
the host in their factories, and refuse `.numpy()`. There are two such devices, `emulated:0` and
`emulated:1`, whose tensors do not mix either. Launches, transfers and every point where a
real device would make the host wait are counted, each with the line of code that caused it; so are
operators that have no deterministic kernel on CUDA. Values exist, so control flow that reads a
number runs; time does not show.

What CUDA's libraries refuse is refused: least squares without full rank, and derivatives of
recurrent layers in evaluation mode. Backward passes run in an empty context, as in autograd's own
threads. On request sums differ in their last bits, and memory has a limit. Worker processes that
are started inside have the device too; their counts stay with them.

In a process that was started for it (`emulated_cuda`) the devices are `cuda:0` and `cuda:1`. They
have generators of their own, and `torch.cuda` answers for them.

    with emulated_device() as counts:
        penchant.measure("nad", architecture="lenet", device="emulated", executor="serial")
    print(counts.syncs.most_common(5))
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from penchant import Error
from penchant.execution.workers import processes
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

from penchant_testing import emulated_cuda
from penchant_testing.cuda_rules import (
    RecurrentLayersOfCudnn,
    as_tf32,
    is_unordered,
    refuse_lstsq,
    rounded,
)
from penchant_testing.emulated_cuda import DEVICES
from penchant_testing.emulated_memory import Memory
from penchant_testing.fused_cells import FUSED

# A process has one kind from its start: torch takes `cuda` for a device only if it finds its hooks.
NAME = "cuda" if emulated_cuda.is_loaded() else "emulated"
_OWN = str(Path(__file__).parent)
_aten = torch.ops.aten

# Operators that may see tensors of both sides: copies, and indexing by indices of the host.
_INDEXING = {
    _aten.index.Tensor,
    _aten.index_put.default,
    _aten.index_put_.default,
    _aten._index_put_impl_.default,
}
_COPYING = {
    _aten.copy_.default,
    _aten._to_copy.default,
    _aten.is_same_size.default,
    _aten.set_.source_Tensor,
}
_ACROSS = _INDEXING | _COPYING
# Operators whose result has a size, or a Python value, that the host must wait for.
_WAITING = set(
    "nonzero masked_select _unique2 unique_dim unique_consecutive equal is_nonzero bincount "
    "_linalg_check_errors _linalg_eigh linalg_eig _linalg_svd linalg_lstsq _linalg_solve_ex "
    "repeat_interleave".split()
)
# Operators that take no tensor of the host, not even one without axes.
_STRICT = set("cat stack mm bmm addmm baddbmm".split())
# What launches nothing although its schema does not call it a view.
_FREE = set(
    "detach alias empty empty_like new_empty empty_strided new_empty_strided _unsafe_view "
    "lift_fresh is_pinned".split()
)
_ANSWERS = ("_local_scalar_dense", "equal", "is_same_size")  # give Python values


class Counts:
    """What happened on the device, by kind and by the line that caused it.

    Args:
        memory: The device's memory.
        rounding: Units in the last place by which sums differ from the CPU's.
    """

    def __init__(self, memory: Memory | None = None, rounding: int = 0) -> None:
        self.memory = memory or Memory()
        self.rounding = rounding
        self.launches = 0
        self.operators: collections.Counter[str] = collections.Counter()
        self.syncs: collections.Counter[tuple[str, str]] = collections.Counter()
        # Operators without a deterministic kernel on CUDA.
        self.nondeterministic: collections.Counter[tuple[str, str]] = collections.Counter()
        self.bytes_to_host = 0
        self.bytes_to_device = 0

    def wait(self, kind: str) -> None:
        """Note that the host waits here."""
        line = _line()
        self.syncs[kind, line] += 1

    def by_kind(self) -> dict[str, int]:
        """How often the host waited, by kind."""
        counts: collections.Counter[str] = collections.Counter()
        for (kind, _), count in self.syncs.items():
            counts[kind] += count
        return dict(counts)

    @property
    def transfers(self) -> int:
        """Copies between host and device."""
        counts = self.by_kind()
        total = 0
        for kind in ("to host", "to device", "across", "between devices"):
            total += counts.get(kind, 0)
        return total

    @property
    def waits(self) -> int:
        """Points where the host waits, copies to the device not counted."""
        # Copies to and between devices are queued; the host goes on at once.
        kinds = self.by_kind()
        kinds.pop("to device", None)
        kinds.pop("between devices", None)
        return sum(kinds.values())


_counts: list[Counts] = []


def _line() -> str:
    """The innermost line that belongs neither to torch, its modes, nor this package."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        own = name.startswith(_OWN)
        library = "/torch/" in name or "<" in name or "/contextlib" in name
        library = library or frame.f_code.co_name == "__torch_function__"
        if not own and not library:
            folders = name.split("/")
            location = "/".join(folders[-3:])
            return f"{location}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown"


class Emulated(torch.Tensor):
    """A tensor of the emulated device; `held` is the tensor of the host with its numbers."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch says

    @staticmethod
    def __new__(cls, held: torch.Tensor, index: int = 0) -> Emulated:
        """A tensor of a device around one of the host."""
        made: Emulated = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(NAME, index),
            requires_grad=False,
        )
        made.held = held
        # A tensor may outlive the context it was made in.
        if _counts:
            _counts[-1].memory.hold(made)
        return made

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]  # torch leaves the type out
        return f"Emulated({self.held!r})"

    def tolist(self) -> Any:
        """The numbers, which the host waits for."""
        _counts[-1].wait("tolist")
        return self.held.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            with torch.no_grad():
                copied = self.detach().clone()
            copied.requires_grad_(self.requires_grad)
            # This mark distinguishes a parameter of a wrapper class.
            if getattr(self, "_is_param", False):
                copied._is_param = True
            memo[id(self)] = copied
        return memo[id(self)]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch calls it like this
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute an operator with a tensor of the device among its arguments."""
        call = _Call(func, args, kwargs or {})
        return call.answer()


class _Call:
    """One operator called with tensors, at least one of them of the device, or made on it."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.name = _name(func)
        # Tensors among the arguments, those of the device and those of the host.
        self.ours: list[Emulated] = []
        self.hosts: list[torch.Tensor] = []
        self._held_args = _each(self._held, args)
        self._held_kwargs = _each(self._held, kwargs)
        device = kwargs.get("device")
        self.device = None if device is None else torch.device(device)

    def _held(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note on which side a tensor is; what the host computes with instead."""
        if isinstance(tensor, Emulated):
            self.ours.append(tensor)
            tensor = tensor.held
        else:
            self.hosts.append(tensor)
        # Zeros that autograd keeps symbolic have no storage that operators could read.
        if tensor._is_zerotensor():
            return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
        return tensor

    @property
    def asks_for_device(self) -> bool:
        """Is the result to be made on the device by name?"""
        return self.device is not None and self.device.type == NAME

    @property
    def index(self) -> int:
        """Which of the devices computes."""
        if self.asks_for_device:
            assert self.device is not None
            return _current() if self.device.index is None else self.device.index
        return self.ours[0].device.index if self.ours else 0

    @property
    def asks_for_host(self) -> bool:
        """Is the result to be made in the host's memory by name?"""
        return self.device is not None and self.device.type == "cpu"

    def answer(self) -> Any:
        """Check, count, compute on the host, and give the result its device."""
        self._refuse_mixing()
        self._refuse_generator()
        if self.ours:
            self._keep_cudas_rules()
        self._count_waiting()
        value = self._computed()
        # Python values have no device; results of the host keep theirs.
        if self.name in _ANSWERS:
            return value
        if not self._belongs_to_device():
            mutates = self.func._schema.is_mutable and self.ours
            return self._aliased(value) if mutates else value
        if not _is_free(self.func):
            _counts[-1].launches += 1
            _counts[-1].operators[self.name] += 1
        moved_here = functools.partial(_on_device, index=self.index)
        try:
            results = _each(moved_here, value)
        except torch.OutOfMemoryError as error:
            raise _counts[-1].memory.error_of(self.name, error) from None
        return self._aliased(results)

    def _keep_cudas_rules(self) -> None:
        """Note operators without a deterministic kernel; refuse what cuSOLVER cannot solve."""
        if is_unordered(self.name, self.args, dict(self.kwargs)):
            _counts[-1].nondeterministic[self.name, _line()] += 1
        if self.name == "linalg_lstsq":
            refuse_lstsq(self._held_args, self._held_kwargs)

    def _aliased(self, result: Any) -> Any:
        return return_and_correct_aliasing(self.func, self.args, self.kwargs, result)

    def _belongs_to_device(self) -> bool:
        if self.asks_for_host:
            return False
        if self.func is _aten.copy_.default and not isinstance(self.args[0], Emulated):
            return False
        return bool(self.ours) or self.asks_for_device

    def _refuse_mixing(self) -> None:
        device_indices = {tensor.device.index for tensor in self.ours}
        if len(device_indices) > 1 and self.func not in _COPYING:
            raise RuntimeError(
                "expected all tensors to be on the same device, but found "
                f"{NAME}:0 and {NAME}:1 in {self.func}"
            )
        if self.func in _INDEXING:
            self._check_indexing()
            return
        if not self.ours or self.func in _ACROSS:
            return
        for tensor in self.hosts:
            if tensor.dim() > 0 or self.name in _STRICT:
                shape = tuple(tensor.shape)
                raise RuntimeError(
                    "expected all tensors to be on the same device, but found "
                    f"{NAME}:0 and cpu (shape {shape}) in {self.func}"
                )

    def _check_indexing(self) -> None:
        """Indices of the host may index a tensor of the device; not the other way round."""
        own = self.args[0]
        indices = [index for index in self.args[1] if index is not None]
        ours = [index for index in indices if isinstance(index, Emulated)]
        if not isinstance(own, Emulated):
            if ours:
                raise RuntimeError(f"a tensor of the cpu is indexed by a tensor on {NAME}:0")
            return
        # Indices of the host are copied first; a mask must be counted before it can index.
        counts = _counts[-1]
        if len(ours) < len(indices):
            counts.wait("index of the host")
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            counts.wait("boolean index")
        values: Any = self.args[2] if len(self.args) > 2 else None
        of_host = isinstance(values, torch.Tensor) and not isinstance(values, Emulated)
        # A single number is sent along with the kernel, as on a real device.
        if of_host and values.dim():
            raise RuntimeError(f"values of the cpu are put into a tensor on {NAME}:0")

    def _refuse_generator(self) -> None:
        generator = self.kwargs.get("generator")
        if generator is None:
            return
        on_device = self.asks_for_device or (self.device is None and bool(self.ours))
        kind = generator.device.type
        if on_device and kind != NAME:
            raise RuntimeError(
                f"expected a generator of {NAME}, but found one of {kind} in {self.func}"
            )

    def _count_waiting(self) -> None:
        """Note transfers, and operators that the host must wait for."""
        counts = _counts[-1]
        copies = self.func is _aten._to_copy.default
        if self.name == "_local_scalar_dense" and self.ours:
            counts.wait("item")
        elif copies and self.ours and self.asks_for_host:
            counts.wait("to host")
            counts.bytes_to_host += self.ours[0].held.nbytes
        elif copies and self.ours and self.asks_for_device:
            if self.ours[0].device.index != self.index:
                counts.wait("between devices")
        elif copies and self.hosts and self.asks_for_device:
            counts.wait("to device")
            counts.bytes_to_device += self.hosts[0].nbytes
        elif self.func is _aten.copy_.default and self.ours and self.hosts:
            counts.wait("across")
        elif self.ours and self.name in _WAITING:
            counts.wait(self.name)

    def _computed(self) -> Any:
        """The result in the host's memory."""
        args = as_tf32(self.name, self._held_args) if self.ours else self._held_args
        kwargs = self._held_kwargs
        if self.asks_for_device:
            kwargs["device"] = torch.device("cpu")
        # Autograd's symbolic zeros have no storage; these are made.
        if self.name == "_efficientzerotensor":
            return torch.zeros(args[0], dtype=kwargs.get("dtype"), device="cpu")
        function = FUSED.get(self.name, self.func)
        with self._generator() as generator:
            if generator is not None:
                kwargs["generator"] = generator
            result = function(*args, **kwargs)
        return rounded(self.name, result, _counts[-1].rounding) if self.ours else result

    @contextlib.contextmanager
    def _generator(self) -> Iterator[torch.Generator | None]:
        """What to draw from instead of a generator of the device; None where nothing changes."""
        if NAME != "cuda" or not _draws(self.func) or not self._belongs_to_device():
            yield None
            return
        with emulated_cuda.drawing(self.index, self.kwargs.get("generator")) as generator:
            yield generator


def _current() -> int:
    """The device that is meant by a name without a number."""
    return emulated_cuda.current_device() if NAME == "cuda" else 0


@functools.cache
def _draws(func: Any) -> bool:
    """Does an operator draw random numbers?"""
    return torch.Tag.nondeterministic_seeded in func.tags


def _each(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """What a function makes of every tensor in lists, tuples and dicts: all that operators take."""
    # Much of a test's time is spent here: torch's own trees know more kinds, and take longer.
    if isinstance(value, torch.Tensor):
        return function(value)
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_each(function, each) for each in value])
    if kind is dict:
        return {key: _each(function, each) for key, each in value.items()}
    return value


def _on_device(tensor: torch.Tensor, *, index: int) -> torch.Tensor:
    if isinstance(tensor, Emulated):
        return tensor
    return Emulated(tensor, index)


@functools.cache
def _name(func: Any) -> str:
    """What an operator is called, whatever it takes."""
    full: str = func._schema.name
    _, name = full.split("::")
    return name


@functools.cache
def _is_free(func: Any) -> bool:
    """Is this operator a view, or memory without a kernel?"""
    schema = func._schema
    if _name(func) in _FREE:
        return True
    # A view gives back memory of an argument that it does not write to.
    arguments = [each.alias_info for each in schema.arguments]
    returns = [each.alias_info for each in schema.returns]
    shared = [alias for alias in arguments if alias is not None]
    views = any(not alias.is_write for alias in shared)
    aliased = any(alias is not None for alias in returns)
    return views and aliased


class _Mode(TorchDispatchMode):
    """Catches factories that name the device, and copies to it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # What the host does for itself is no business of the device.
        if Emulated not in types and "device" not in kwargs:
            return func(*args, **kwargs)
        call = _Call(func, args, kwargs)
        return call.answer()


@functools.cache
def _register() -> None:
    """Tell torch of the device, once a process; `cuda` it knows."""
    if NAME == "cuda":
        return
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME)
    module = torch.get_device_module(NAME)
    module.device_count = lambda: DEVICES
    # Its random numbers are the host's, which torch seeds by itself.
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = module.manual_seed = lambda seed: None
    module.get_rng_state = lambda device=None: torch.empty(0, device="cpu")
    module.set_rng_state = lambda state, device=None: None


# At once: autograd does not know a device that comes after its first backward pass.
_register()


@contextlib.contextmanager
def _backward_in_one_thread() -> Iterator[None]:
    """Backward passes in the thread that asks: autograd has another for the first device only.

    They run in an empty context, because context variables do not reach autograd's threads.
    """
    # For every pass, because leaving torch's inference mode turns threads on again.
    run = torch.autograd._engine_run_backward  # type: ignore[attr-defined]  # private

    def serialised(*args: Any, **kwargs: Any) -> Any:
        memory = _counts[-1].memory
        with memory.backward_pass(), torch.autograd.set_multithreading_enabled(False):
            empty = contextvars.Context()
            return empty.run(run, *args, **kwargs)

    torch.autograd._engine_run_backward = serialised  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.autograd._engine_run_backward = run  # type: ignore[attr-defined]


@contextlib.contextmanager
def _in_workers(options: dict[str, Any]) -> Iterator[None]:
    """Worker processes that are started inside have the device."""
    before = processes.serve
    processes.serve = functools.partial(_serve, options)
    try:
        yield
    finally:
        processes.serve = before


def _serve(options: dict[str, Any], *arguments: Any) -> None:
    """A worker process with the device."""
    serve = processes.serve
    with emulated_device(**options):
        serve(*arguments)


@contextlib.contextmanager
def emulated_device(
    *, kind: str = NAME, limit: int | None = None, hidden: bool = False, rounding: int = 0
) -> Iterator[Counts]:
    """Two devices for what runs inside.

    Args:
        kind: What they are called: "emulated", or "cuda" in a process that was started with
            `emulated_cuda.environment()`.
        limit: Bytes that each device has; beyond them operators raise `torch.OutOfMemoryError`.
        hidden: Whether convolutions and products beyond the limit raise the errors of cuDNN and
            cuBLAS instead, as those that find no room for their workspace do.
        rounding: Units in the last place by which products, sums and norms differ from the CPU's.

    Yields:
        What is counted there.

    Raises:
        penchant.Error: Where this process has devices of the other kind.
    """
    if kind != NAME:
        start = "start a process with penchant_testing.emulated_cuda.environment()"
        hint = start if kind == "cuda" else "start a process without them"
        raise Error(f"the emulated devices of this process are {NAME}, found kind {kind!r}: {hint}")
    options = {"limit": limit, "hidden": hidden, "rounding": rounding}
    put: Callable[[bool], None] = torch.__future__.set_overwrite_module_params_on_conversion
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    counts = Counts(Memory(limit, hidden=hidden), rounding)
    _counts.append(counts)
    # Parameters of a wrapper class cannot be moved in place, and literals stay on the host.
    put(True)
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with (
            _Mode(),  # type: ignore[no-untyped-call]  # torch's own
            _backward_in_one_thread(),
            RecurrentLayersOfCudnn(NAME),
            _in_workers(options),
            emulated_cuda.answers(counts.memory) if NAME == "cuda" else contextlib.nullcontext(),
        ):
            yield counts
    finally:
        torch._C._set_only_lift_cpu_tensors(False)
        put(before)
        _counts.pop()
