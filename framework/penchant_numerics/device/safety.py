"""Networks that are safe for second derivatives.

No fused attention, normalisations of elementary steps, no dropout, no in-place activation, a
batch-norm policy.
"""

import contextlib
import copy
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from penchant_numerics.device.plain_functions import PlainFunctions
from penchant_numerics.device.sample_bytes import fitting_batch
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

POLICIES = ("running", "batch", "calibrated")
_SWITCHES = ("fused_attn", "inplace")  # attributes that turn something off; the first is timm's


def safe(
    network: nn.Module, *, batch_norm: str = "running", calibration: Tensor | None = None
) -> nn.Module:
    """A copy in evaluation mode whose second derivatives exist; the network itself is not changed.

    Args:
        network: Any network.
        batch_norm: Batch normalisation uses its `running` statistics, those of the `batch` at hand,
            or running statistics `calibrated` to those of the calibration inputs.
        calibration: Inputs (samples, ...) for `calibrated`.

    Returns:
        The copy; so are copies of it, and it under `torch.func.functional_call`, vmap and jvp.

    >>> safe(nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True)))[1].inplace
    False
    """
    if batch_norm not in POLICIES:
        known = ", ".join(POLICIES)
        raise Refusal(f"batch_norm must be one of {known}, found {batch_norm!r}")
    network = copy.deepcopy(network).eval()

    # what has no second derivative, or a wrong one
    make_twice_differentiable(network)

    # nothing is dropped in training mode either
    for module in network.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
    # what batch normalisation normalises by
    if batch_norm == "batch":
        _use_batch_statistics(network)
    elif batch_norm == "calibrated":
        if calibration is None:
            raise Refusal("batch_norm = 'calibrated' needs calibration inputs")
        with plain_attention():
            calibrate(network, calibration)
    always_use_plain_kernels(network)
    return network


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Kernels whose second derivatives exist and are right in every order of differentiation.

    >>> q = torch.ones(1, 1, 2, 4, device="cpu", requires_grad=True)
    >>> with plain_kernels():
    ...     made = nn.functional.scaled_dot_product_attention(q, q, q).sum()
    ...     (first,) = torch.autograd.grad(made, q, create_graph=True)
    ...     torch.autograd.grad(first.sum(), q)[0].shape
    torch.Size([1, 1, 2, 4])
    """
    with plain_attention(), PlainFunctions():
        yield


@contextmanager
def plain_attention() -> Iterator[None]:
    """Attention as softmax(q k) v: fused kernels have neither forward-mode nor second derivatives.

    Both of torch's switches are put back afterwards: that of `scaled_dot_product_attention`, and
    that of the fast path of `nn.MultiheadAttention` and `nn.TransformerEncoder` in evaluation mode.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class PlainKernels:
    """A network every call of which runs inside `plain_kernels`."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """What the network gives."""
        with plain_kernels():
            return super().__call__(*arguments, **keywords)  # type: ignore[misc]


def always_use_plain_kernels(network: nn.Module) -> None:
    """Make every call of the network run inside `plain_kernels`; changes its class.

    A class is what copies share: a `forward` put on the instance would be copied as it is, and a
    copy would compute with the weights of the original.
    """
    kind = type(network)
    # a linear layer has nothing to write out, and other code asks for its class
    if isinstance(network, PlainKernels) or kind is nn.Linear:
        return
    # a class of the same name that does all its own does
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    bases = (PlainKernels, kind)
    network.__class__ = types.new_class(
        kind.__name__, bases, exec_body=lambda body: body.update(names)
    )


def make_twice_differentiable(network: nn.Module) -> None:
    """Switch off fused attention and in-place activations; changes the modules.

    What PyTorch differentiates wrongly, or not twice, is mended as well. Attention that a module
    calls without a switch of its own is left to `always_use_plain_kernels`.
    """
    for module in list(network.modules()):
        # what can be turned off is turned off
        for switch in _SWITCHES:
            if getattr(module, switch, False):
                setattr(module, switch, False)
        if isinstance(module, nn.MultiheadAttention):  # its fast path ignores autograd's needs
            module.register_forward_pre_hook(_with_weights, with_kwargs=True)
        if isinstance(module, _BatchNorm):
            module.register_forward_hook(_with_contiguous_gradient)
        for name, child in module.named_children():
            if isinstance(child, nn.Hardsigmoid):
                setattr(module, name, TwiceDifferentiableHardsigmoid())


class TwiceDifferentiableHardsigmoid(nn.Module):
    """`nn.Hardsigmoid` by relu6: PyTorch cannot differentiate its own backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        """0 below -3, 1 above 3, a line between."""
        return functional.relu6(x + 3) / 6


def _with_contiguous_gradient(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    """A forward hook: the output as a view whose gradient arrives laid out in memory as usual.

    PyTorch's batch-norm on the CPU gives wrong gradients, first ones included, for a single image
    whose gradient arrives transposed, as it does where feature maps become tokens (torch 2.13).
    """
    if output.device.type != "cpu":
        return output
    # the gradient of a row is a row
    row = output.reshape(-1)
    return row.reshape(output.shape)


def _with_weights(
    module: nn.Module, arguments: tuple[object, ...], keywords: dict[str, object]
) -> tuple[object, dict[str, object]]:
    """A forward hook: the path that computes weights is plain softmax(q k) v."""
    changed = {**keywords, "need_weights": True}
    return arguments, changed


def _use_batch_statistics(network: nn.Module) -> None:
    """Forget running statistics: without them torch takes those of the batch at hand."""
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False


@torch.no_grad()
def calibrate(network: nn.Module, inputs: Tensor) -> None:
    """Set running statistics to those of these inputs, layer after layer as a pass meets them.

    Inputs that do not fit into one pass are passed in batches, once for every layer: what a layer
    normalises depends on the statistics of those before it.

    Args:
        network: A network in evaluation mode; its statistics are changed.
        inputs: Samples (n, ...).

    >>> norm = nn.BatchNorm1d(1).eval()
    >>> calibrate(norm, torch.tensor([[1.0], [3.0]], device="cpu"))
    >>> float(norm.running_mean), float(norm.running_var)
    (2.0, 2.0)
    """
    norms = _tracking(network)
    if not norms:
        return
    uses = _uses(network, norms, inputs[:1])
    size = fitting_batch(network, inputs, largest=len(inputs))
    # a layer that is used twice has no statistics before its second use
    if size == len(inputs) or max(uses.values()) > 1:
        _calibrate_at_once(network, norms, inputs)
        return
    counts = [_calibrate_in_batches(network, module, inputs, size) for module in uses]
    # layers normalise by the variance of a batch and track the unbiased one
    for module, count in zip(uses, counts):
        _statistics(module)[1].mul_(count / (count - 1))


def _tracking(network: nn.Module) -> list[_BatchNorm]:
    """Layers that have running statistics."""
    modules = []
    for module in network.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            modules.append(module)
    return modules


def _statistics(norm: _BatchNorm) -> tuple[Tensor, Tensor, Tensor]:
    """The running mean, the running variance and how many batches they are of."""
    mean, variance, batches = norm.running_mean, norm.running_var, norm.num_batches_tracked
    assert mean is not None and variance is not None and batches is not None  # it is tracking
    return mean, variance, batches


def _uses(network: nn.Module, norms: Sequence[_BatchNorm], sample: Tensor) -> Counter[_BatchNorm]:
    """How often a pass uses each layer, in the order in which it meets them."""
    uses: Counter[_BatchNorm] = Counter()

    def note(module: _BatchNorm, given: tuple[Tensor, ...]) -> None:
        uses[module] += 1

    with _hooked(norms, note):
        network(sample)
    return uses


def _calibrate_at_once(network: nn.Module, norms: Sequence[_BatchNorm], inputs: Tensor) -> None:
    """One pass of all inputs, which only the statistics see."""
    before = [module.momentum for module in norms]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # a cumulative average
        module.train()
    network(inputs[:])

    # everything but the statistics is put back
    for module, momentum in zip(norms, before):
        module.momentum = momentum
        module.eval()


class _ReachedError(Exception):
    """Ends a pass at the layer that it was made for."""


def _calibrate_in_batches(network: nn.Module, norm: _BatchNorm, inputs: Tensor, size: int) -> int:
    """Set the statistics of one layer, where those of the layers before it are set.

    The variance of all is the mean of the batches' variances plus the variance of their means.

    Returns:
        How many values a channel has.
    """
    moments: list[tuple[int, Tensor, Tensor]] = []

    def see(module: _BatchNorm, given: tuple[Tensor, ...]) -> None:
        by_channel = given[0].transpose(0, 1).flatten(1).double()
        variance = by_channel.var(1, correction=0)
        moments.append((by_channel.shape[1], by_channel.mean(1), variance))
        raise _ReachedError

    with _hooked([norm], see):
        for batch in inputs.split(size):
            with contextlib.suppress(_ReachedError):
                network(batch)

    counts, means, variances = zip(*moments)
    count: int = sum(counts)
    shares = torch.tensor(counts, device=means[0].device, dtype=torch.float64) / count
    mean = shares @ torch.stack(means)
    within = shares @ torch.stack(variances)
    between = shares @ (torch.stack(means) - mean).square()
    running_mean, running_variance, batches = _statistics(norm)
    running_mean.copy_(mean)
    running_variance.copy_(within + between)
    batches.fill_(1)
    return count


@contextmanager
def _hooked(
    norms: Sequence[_BatchNorm], see: Callable[[_BatchNorm, tuple[Tensor, ...]], None]
) -> Iterator[None]:
    """Let `see` have what layers are given, for this time."""
    handles = [module.register_forward_pre_hook(see) for module in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
