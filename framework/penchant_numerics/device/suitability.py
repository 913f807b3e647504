"""Can a network be measured at all? What every probe assumes of it, asked where it comes in.

A network is a differentiable function of its parameters and of one sample: it gives the same
answer every time, to a sample whatever stands beside it, and leaves its input as it was. Its
parameters are plain tensors of finite real numbers. Each refusal says how to make it so.
"""

import itertools

import torch
from penchant_numerics.device.determinism import NotDeterministicError, check_deterministic, close
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

# Wrappers that compute what the module inside them does, and where they have it.
_WRAPPERS = ((nn.DataParallel, "module"), (nn.parallel.DistributedDataParallel, "module"))
_COMPILED = "_orig_mod"  # where what `torch.compile` gives has the module
_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torchao.quantization")
# What recomputes a weight before every pass and leaves it on the module as a plain attribute.
_RECOMPUTED = {
    "WeightNorm": "torch.nn.utils.parametrizations.weight_norm is the same and can be measured, "
    "or torch.nn.utils.remove_weight_norm(layer) makes the weight a parameter",
    "SpectralNorm": "torch.nn.utils.parametrizations.spectral_norm is the same and can be "
    "measured, or torch.nn.utils.remove_spectral_norm(layer) makes the weight a parameter",
    "BasePruningMethod": "torch.nn.utils.prune.remove(layer, name) makes it permanent",
}
_RANDOM = (
    "let forward be without random numbers and without memory in evaluation mode, such as "
    "dropout(x, p, training=self.training)"
)
_MIXING = "let forward compute every sample by itself; statistics of a batch belong in buffers"
_NO_STATISTICS = (
    "it has no running statistics; make and train it with track_running_stats=True, or set "
    "batch_norm = 'batch' in the probes that have it"
)


class UnsuitableNetworkError(Refusal):
    """A network that no probe can measure as it is."""


def unwrapped(network: nn.Module) -> nn.Module:
    """The module inside wrappers that compute the same, such as `nn.DataParallel`.

    >>> unwrapped(nn.DataParallel(nn.Linear(2, 1)))
    Linear(in_features=2, out_features=1, bias=True)
    """
    for kind, attribute in _WRAPPERS:
        if isinstance(network, kind):
            return unwrapped(getattr(network, attribute))
    inside = dict(network.named_children()).get(_COMPILED)
    return network if inside is None else unwrapped(inside)


def use_dense_gradients(network: nn.Module) -> None:
    """Let embeddings give gradients as other layers do; changes the modules, not the numbers.

    >>> embedding = nn.Embedding(3, 2, sparse=True)
    >>> use_dense_gradients(embedding)
    >>> embedding.sparse
    False
    """
    for module in network.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            module.sparse = False


def check_kind(network: nn.Module) -> None:
    """Refuse modules and parameters of kinds that cannot be differentiated or copied.

    Nothing is computed.

    >>> check_kind(nn.Linear(2, 1, dtype=torch.complex64))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.device.suitability.UnsuitableNetworkError: parameter 'weight' is ...
    """
    for name, module in network.named_modules():
        problem = _problem_of_module(module)
        if problem:
            where = f"module {name!r}" if name else "it"
            raise UnsuitableNetworkError(f"{where} {problem}")
    for name, tensor in itertools.chain(network.named_parameters(), network.named_buffers()):
        problem = _problem_of_tensor(tensor)
        if problem:
            what = "parameter" if isinstance(tensor, nn.Parameter) else "buffer"
            raise UnsuitableNetworkError(f"{what} {name!r} {problem}")


def _problem_of_module(module: nn.Module) -> str:
    """Why no network with this module can be measured; empty where one can."""
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "is a ScriptModule of torch.jit; give the module that it was made from"
    if kind.__name__ == "FullyShardedDataParallel":
        hint = "load its full state_dict into the module that was wrapped, and give that"
        return f"is sharded ({kind.__name__}); {hint}"
    if kind.__module__.startswith(_QUANTISED):
        hint = "give the network from before the quantisation, or the dequantised one"
        return f"({kind.__name__}) is quantised and has no derivatives; {hint}"
    for hook in module._forward_pre_hooks.values():
        for base in type(hook).__mro__:
            # Parametrisations of torch.nn.utils.parametrizations are no hooks.
            if base.__name__ in _RECOMPUTED and base.__module__.startswith("torch.nn.utils"):
                name = type(hook).__name__
                weight = getattr(hook, "name", None) or getattr(hook, "_tensor_name", "weight")
                hint = _RECOMPUTED[base.__name__]
                return f"recomputes its {weight} in a hook ({name}), which no copy can; {hint}"
    return ""


def _problem_of_tensor(tensor: Tensor) -> str:
    """Why no network with this parameter or buffer can be measured; empty where one can."""
    kind = type(tensor)
    if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
        return "has no shape yet; pass one batch through the lazy module first"
    if kind.__name__ == "DTensor":
        hint = "give a module whose parameters are whole, such as full_tensor() of each"
        return f"is a DTensor, a part of a parameter on one of several devices; {hint}"
    if tensor.is_quantized:
        return "is quantised; give the network from before the quantisation"
    if tensor.is_complex():
        hint = "hold real and imaginary parts as real numbers (torch.view_as_real)"
        kind_of_number = str(tensor.dtype).removeprefix("torch.")
        return f"is {kind_of_number}; probes measure real parameters: {hint}"
    if tensor.is_meta:
        return "has no values (device meta); load the weights into a module on a device"
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return f"is stored as {layout}; to_dense() makes it one that can be measured"
    return ""


def check_values(network: nn.Module) -> None:
    """Refuse parameters and buffers that are not finite, by name.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> nn.init.constant_(network.weight, float("nan")).shape
    torch.Size([1, 1])
    >>> check_values(network)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.device.suitability.UnsuitableNetworkError: 'weight' has 1 of 1 values that ...
    """
    for name, tensor in itertools.chain(network.named_parameters(), network.named_buffers()):
        if not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()):
            continue
        bad = int((~torch.isfinite(tensor)).sum())
        counted = f"{bad} of {tensor.numel()} values that are not finite"
        hint = "the training diverged before it was saved; take an earlier checkpoint"
        raise UnsuitableNetworkError(f"{name!r} has {counted}; {hint}")


def check_evaluated(network: nn.Module, *, batch_statistics: bool = False) -> None:
    """Refuse batch normalisation by the batch at hand, in a network that is in evaluation mode.

    Args:
        network: The network, after a pass, which may have put it into another mode.
        batch_statistics: Whether statistics of the batch may be all that there are.

    >>> check_evaluated(nn.BatchNorm1d(2).eval())
    >>> check_evaluated(nn.BatchNorm1d(2).train())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.device.suitability.UnsuitableNetworkError: module '' (BatchNorm1d) is in ...
    """
    for name, module in network.named_modules():
        if not isinstance(module, _BatchNorm):
            continue
        what = f"module {name!r} ({type(module).__name__})"
        if module.training:
            text = f"{what} is in training mode in every pass"
            raise UnsuitableNetworkError(f"{text}; let forward not call train()")
        if module.running_mean is None and not batch_statistics:
            raise UnsuitableNetworkError(
                f"{what} normalises by the batch at hand: {_NO_STATISTICS}"
            )


def check_function(network: nn.Module, inputs: Tensor, *, batch_statistics: bool = False) -> None:
    """Refuse a network that is not a function of one sample, or that changes its input.

    Three passes over these samples: one, the same once more, and one over half of them. Neither
    the network nor the global random state is changed.

    Args:
        network: A network in evaluation mode.
        inputs: A few samples (n, ...).
        batch_statistics: Whether batch normalisation may take the statistics of the batch.

    >>> check_function(nn.Linear(2, 1), torch.ones(4, 2, device="cpu"))
    >>> check_function(nn.Dropout(0.5), torch.ones(4, 2, device="cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.device.suitability.UnsuitableNetworkError: ...
    """
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        again, alone = _differences(network, inputs)
    if not again and not alone:
        return
    # Only now is every module compared: the message names the one that does it.
    try:
        check_deterministic(network, inputs)
    except NotDeterministicError as error:
        if error.mixes and batch_statistics and isinstance(error.culprit, _BatchNorm):
            return
        hint = _MIXING if error.mixes else _RANDOM
        raise UnsuitableNetworkError(f"{error.what}; {hint}") from error
    # No module alone does it, but all together, by what they store.
    if again:
        text = "it gives other outputs for equal inputs the second time"
        raise UnsuitableNetworkError(f"{text}; {_RANDOM}")


def _differences(network: nn.Module, inputs: Tensor) -> tuple[bool, bool]:
    """Do outputs differ the second time, and beside fewer samples?

    An input that is changed is refused at once.
    """
    # What passes change is a copy, which the second pass sees as the first left it.
    state = {name: value.clone() for name, value in network.named_buffers()}

    def passed(some: Tensor) -> Tensor:
        outputs: Tensor = functional_call(network, state, (some,))
        return outputs

    given = inputs.clone()
    version = given._version
    first = passed(given)
    if given._version != version or not torch.equal(given, inputs):
        hint = (
            "let forward begin with x = x.clone(), or write x = x - mean for x.sub_(mean), and "
            "nn.ReLU() for nn.ReLU(inplace=True)"
        )
        raise UnsuitableNetworkError(f"it changes its input in place; {hint}")
    if first.is_complex():
        raise UnsuitableNetworkError("its outputs are complex; give real ones, such as .real")
    # Random inputs may lie outside the domain of a network: then there is nothing to compare.
    if not bool(torch.isfinite(first).all()):
        return False, False
    half = passed(inputs[: (len(inputs) + 1) // 2].clone())
    second = passed(inputs.clone())
    return not torch.equal(first, second), not close(first, half)
