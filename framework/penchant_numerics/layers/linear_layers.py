"""Linear layers of a network, their inputs and the gradients of their outputs.

The gradient of an output in the weights of a linear layer is sum_t d_t h_t^T over the positions t
at which the layer was used: h_t is its input there and d_t, its error, the derivative of the output
by what the layer gives there. A layer of a perceptron has one position, a convolution is linear on
patches and has one a pixel, and a module that is used twice has twice the positions.

A layer may look like this and not be: its weight may be tied to another's, or used by code that
does not call the layer. So the gradient that its inputs and errors give is compared with autograd's
before it is taken for one (`is_gradient`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from penchant_numerics.device import agreement
from torch import Tensor, nn
from torch.nn import functional

# takes the name of a layer, its input and its output, and gives the output
See = Callable[[str, Tensor, Tensor], Tensor]

_AGREEMENT = 1e-3  # relative difference up to which two gradients are the same
_ROUNDINGS = 100  # of the terms of a sum, which came through many layers
_EMPTY = 1e-30  # and an absolute one, for gradients that are zero
# classes whose weights are (inputs, outputs): by name, because their packages need not be there
_TRANSPOSED = {("transformers.pytorch_utils", "Conv1D")}
_UNFOLDED = {"dilation": 1, "padding": 0, "stride": 1}  # and what they are on an axis of one


def is_linear(module: nn.Module) -> bool:
    """Whether the weights of a module multiply its inputs, or patches of them.

    >>> is_linear(nn.Conv2d(2, 4, 3)), is_linear(nn.Conv2d(2, 4, 3, groups=2))
    (True, False)
    """
    if not isinstance(module, nn.Conv1d | nn.Conv2d):
        return type(module) is nn.Linear or is_transposed(module)
    # patches of other padding are not unfolded; groups see some channels only
    with_zeros = module.padding_mode == "zeros"
    by_numbers = not isinstance(module.padding, str)
    return module.groups == 1 and with_zeros and by_numbers


def is_transposed(module: nn.Module) -> bool:
    """Whether a linear layer holds its weights as (inputs, outputs): GPT-2's `Conv1D`.

    >>> is_transposed(nn.Linear(2, 3))
    False
    """
    kind = type(module)
    return (kind.__module__, kind.__name__) in _TRANSPOSED


def weight_matrix(module: nn.Module) -> Tensor:
    """The weights of a linear layer as (outputs, inputs), those of a convolution as patches.

    >>> weight_matrix(nn.Conv2d(2, 4, 3)).shape
    torch.Size([4, 18])
    """
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight.T if is_transposed(module) else weight.flatten(1)


def takes_batch(module: nn.Module, inputs: Tensor) -> bool:
    """Whether inputs have an axis of samples; torch's convolutions also take a single image.

    >>> image = torch.ones(3, 8, 8, device="cpu")
    >>> takes_batch(nn.Conv2d(3, 4, 3), image), takes_batch(nn.Conv2d(3, 4, 3), image[None])
    (False, True)
    """
    if isinstance(module, nn.Conv2d):
        return inputs.ndim == 4
    if isinstance(module, nn.Conv1d):
        return inputs.ndim == 3
    return inputs.ndim > 1


def input_positions(module: nn.Module, inputs: Tensor) -> Tensor:
    """What a layer sees at each position: inputs, or patches, (n, positions, width).

    Args:
        module: A linear layer.
        inputs: Its inputs (n, ...).

    >>> import torch
    >>> input_positions(nn.Conv1d(2, 1, 3), torch.ones(5, 2, 8, device="cpu")).shape
    torch.Size([5, 6, 6])
    """
    if not isinstance(module, nn.Conv1d | nn.Conv2d):
        width = inputs.shape[-1]
        return inputs.reshape(len(inputs), -1, width)

    # a convolution multiplies patches
    size = module.kernel_size
    options = {name: getattr(module, name) for name in _UNFOLDED}
    if isinstance(module, nn.Conv1d):
        # a signal is an image of height one
        inputs = inputs[:, :, None]
        size = (1, *size)
        options = {name: (_UNFOLDED[name], *value) for name, value in options.items()}
    patches = functional.unfold(inputs, size, **options)
    return patches.transpose(1, 2)


def error_positions(module: nn.Module, errors: Tensor) -> Tensor:
    """Errors of a layer position by position, (n, k, positions, outputs), of (n, k, *output).

    >>> errors = torch.ones(5, 2, 4, 6, 6, device="cpu")  # of four channels, for two outputs
    >>> error_positions(nn.Conv2d(3, 4, 3), errors).shape
    torch.Size([5, 2, 36, 4])
    """
    if not isinstance(module, nn.Conv1d | nn.Conv2d):
        count, several = errors.shape[:2]
        units = errors.shape[-1]
        return errors.reshape(count, several, -1, units)
    by_channel = errors.flatten(3)
    return by_channel.transpose(2, 3)


@contextmanager
def watched(layers: Mapping[str, nn.Module], see: See) -> Iterator[None]:
    """Every use of the layers passes through `see(name, input, output)`, which gives the output.

    Args:
        layers: Modules by name.
        see: Called after each use of a layer with a positional argument; what it returns goes on
            through the network.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> layers = dict(network.named_children())
    >>> with watched(layers, lambda name, given, made: print(name, given.shape[1]) or made):
    ...     outputs = network(torch.ones(5, 2, device="cpu"))
    0 2
    1 3
    """

    def hook(name: str) -> Callable[..., Tensor]:
        def seen(module: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> Tensor:
            if not given:
                return made
            return see(name, given[0], made)

        return seen

    # hooks are there for that time only
    handles = []
    for name, module in layers.items():
        handles.append(module.register_forward_hook(hook(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def is_gradient(computed: Tensor, exact: Tensor, *, terms: Tensor | None = None) -> bool:
    """Whether a gradient made of a layer's inputs and errors is that of autograd, to rounding.

    Args:
        computed: The gradient of inputs and errors.
        exact: That of autograd.
        terms: The sum of the absolute values of the terms that it is the sum of, where these may
            cancel: the bias of a transformer's keys has no gradient but rounding.

    Returns:
        Whether they agree.

    >>> exact = torch.tensor([1.0, 2.0], device="cpu")
    >>> is_gradient(exact * (1 + 1e-6), exact), is_gradient(exact + 1, exact)
    (True, False)
    """
    away = (computed - exact).norm()
    allowed = agreement(_AGREEMENT) * exact.norm() + _EMPTY
    if terms is not None:
        allowed = allowed + _ROUNDINGS * torch.finfo(terms.dtype).eps * terms.norm()
    return bool(away <= allowed)


def shared_parameters(network: nn.Module) -> set[str]:
    """Names of parameters that have another name as well.

    >>> tied = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    >>> tied[1].weight = tied[0].weight
    >>> sorted(shared_parameters(tied))
    ['0.weight', '1.weight']
    """
    # all names of each tensor
    names: dict[int, list[str]] = {}
    for name, value in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(value), []).append(name)

    # where there are several
    shared: set[str] = set()
    for each in names.values():
        if len(each) > 1:
            shared.update(each)
    return shared
