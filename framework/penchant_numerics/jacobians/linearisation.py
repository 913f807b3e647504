"""A network's outputs as a linear function of its parameters, around where they are.

J v and J^T u on one batch. Dual numbers give J v beside the outputs in one forward pass, and when
the tangent requires gradients, autograd's record of the tangent is J^T. Where forward-mode
differentiation lacks an operation, J v is the gradient in u of <J^T u, v> (double backward).
Networks are called by their parameters and stay untouched; kernels run in their plain form, which
can be differentiated twice.
"""

import re
from collections.abc import Callable, Sequence

import torch
import torch.autograd.forward_ad as forward_ad
from penchant_numerics.device import agreement, memory, plain_kernels
from penchant_numerics.jacobians.compact_records import SavedTensors
from penchant_numerics.jacobians.parameters import Layout, select
from penchant_numerics.jacobians.tape import NotRecordableError, Tape
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.func import functional_call, vmap

# on a CPU, parameters up to which a block is one vectorised product: beyond, caches prefer one
# vector after another
_VECTORISED = 2**14
_BLOCK_SHARE = 0.25  # elsewhere, what the activations of a block may take of the budget
ALL_TOGETHER = 2**31  # more vectors than a block has
_AGREEMENT = 1e-3  # a tape that is played must agree with what it recorded


class NoForwardDerivativeError(NotImplementedError):
    """Forward-mode differentiation lacks the operation in `operation`."""

    def __init__(self, operation: str) -> None:
        super().__init__(f"no forward-mode derivative of {operation}")
        self.operation = operation


class Outputs:
    """Outputs of a network as a function of some of its parameters.

    They are (samples, classes), or (samples, positions, classes) of sequences.

    Args:
        network: The network; its other parameters are fixed.
        patterns: Which parameters; None is all.

    >>> outputs = Outputs(nn.Linear(2, 3), "bias")
    >>> outputs.layout.size, outputs.sample_shape(torch.zeros(1, 2, device="cpu"))
    (3, torch.Size([3]))
    """

    def __init__(self, network: nn.Module, patterns: str | Sequence[str] | None = None) -> None:
        self.network = network
        self.parameters = select(network, patterns)
        self.layout = Layout(self.parameters)
        self.values = list(self.parameters.values())

    def __call__(self, values: Sequence[Tensor], inputs: Tensor) -> Tensor:
        """Outputs on a batch, with these values of the parameters."""
        named = dict(zip(self.layout.names, values))
        with plain_kernels():
            outputs: Tensor = functional_call(self.network, named, (inputs,))
        right = isinstance(outputs, Tensor) and outputs.dim() in (2, 3)
        if not right:
            kind = type(outputs).__name__
            shape = getattr(outputs, "shape", kind)
            raise Refusal(
                "expected outputs (samples, classes), or (samples, positions, classes), "
                f"found {shape}"
            )
        return outputs

    def sample_shape(self, inputs: Tensor) -> torch.Size:
        """The shape of one sample's outputs, from a pass of the first."""
        with torch.no_grad():
            outputs = self(self.values, inputs[:1])
        return outputs.shape[1:]

    def leaves(self) -> list[Tensor]:
        """The parameters as tensors to differentiate by.

        They share memory with the network's and leave it no gradient.
        """
        return [value.detach().requires_grad_() for value in self.values]


class FlatOutputs(Outputs):
    """The same with outputs (samples, positions x classes), for what goes output by output.

    >>> outputs = FlatOutputs(nn.Linear(2, 3), None)
    >>> outputs(outputs.values, torch.zeros(4, 5, 2, device="cpu")).shape  # five positions
    torch.Size([4, 15])
    """

    def __call__(self, values: Sequence[Tensor], inputs: Tensor) -> Tensor:
        """Outputs of a batch, those of a sample in one row."""
        return super().__call__(values, inputs).flatten(1)


# ---- one pass of dual numbers


def dual_pass(
    outputs: Outputs, inputs: Tensor, tangents: Sequence[Tensor], *, record: bool = False
) -> tuple[Tensor, Tensor, Tape | None]:
    """Outputs and J v in one forward pass.

    Args:
        outputs: The network.
        inputs: A batch of n.
        tangents: v, by parameter.
        record: Whether what makes J v of v is recorded.

    Returns:
        The outputs (n, C) without their graph, J v (n, C) with the graph of v, and the tape.

    Raises:
        NoForwardDerivativeError: Where the network has an operation without one.

    >>> linear = Outputs(nn.Linear(1, 1, bias=False), None)
    >>> inputs, v = torch.tensor([[3.0]], device="cpu"), [torch.tensor([[2.0]], device="cpu")]
    >>> _, product, _ = dual_pass(linear, inputs, v)
    >>> product
    tensor([[6.]])
    """
    make = _recorded_pass if record else _plain_pass
    try:
        with forward_ad.dual_level():
            pairs = zip(outputs.values, tangents)
            duals = [forward_ad.make_dual(value, tangent) for value, tangent in pairs]
            return make(outputs, inputs, duals, tangents)
    except (NotImplementedError, RuntimeError) as error:
        operation = _lacking(error)
        if operation is None:
            raise
        raise NoForwardDerivativeError(operation) from error


def _plain_pass(
    outputs: Outputs, inputs: Tensor, duals: Sequence[Tensor], tangents: Sequence[Tensor]
) -> tuple[Tensor, Tensor, None]:
    """One pass; nothing is recorded."""
    made = forward_ad.unpack_dual(outputs(duals, inputs))
    values = made.primal.detach()
    tangent = made.tangent
    if tangent is None:
        # no parameter reaches the outputs: zero, still connected to the parameters
        tangent = values * 0 + 0 * tangents[0].sum()
    return values, tangent, None


def _recorded_pass(
    outputs: Outputs, inputs: Tensor, duals: Sequence[Tensor], tangents: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tape]:
    """One pass with a tape running."""
    # the tape knows tangents as the duals hold them
    held = [forward_ad.unpack_dual(dual).tangent for dual in duals]
    tape = Tape(held)
    saved = SavedTensors(tape.is_live)
    with saved.hooks(), tape:
        made = forward_ad.unpack_dual(outputs(duals, inputs))
    if made.tangent is None:
        raise NotRecordableError("the outputs do not depend on these parameters")
    tape.finish(made.tangent)
    # both store it in the same small form
    saved.pack(tape.pack())
    return made.primal.detach(), made.tangent, tape


def _lacking(error: Exception) -> str | None:
    """The operation that an error of forward-mode differentiation complains about."""
    text = str(error)
    match = re.search(r"forward AD with (\S+) that does not support it", text)
    if match:
        return match.group(1)
    if "implement the jvp function for custom autograd.Function" in text:
        return "a custom autograd.Function"
    return None


# ---- a linearisation that is stored


class Linearisation:
    """J on one batch, stored: `jvp` and `vjp` compute no values of the network again.

    Args:
        values: The outputs (n, C).
        layout: Where parameters are in a row.
        forth: J v (n, C) of tangents by parameter.
        back: J^T u by parameter, of u (n, C).
        size: Bytes that are stored.
        together: Vectors that are one product.

    >>> network = nn.Linear(2, 1, bias=False)
    >>> line = linearise(Outputs(network), torch.tensor([[3.0, 4.0]], device="cpu"))
    >>> line.jvp(torch.tensor([[1.0, 0.0]], device="cpu")).tolist()
    [[[3.0]]]
    >>> line.vjp(torch.tensor([[[2.0]]], device="cpu")).tolist()
    [[6.0, 8.0]]
    """

    def __init__(
        self,
        values: Tensor,
        layout: Layout,
        forth: Callable[[Sequence[Tensor]], Tensor],
        back: Callable[[Tensor], Sequence[Tensor]],
        *,
        size: int,
        together: int,
    ) -> None:
        self.outputs = values
        self.bytes = size
        self._layout = layout
        self._forth = forth
        self._back = back
        self.together = together

    @torch.no_grad()
    def jvp(self, rows: Tensor) -> Tensor:
        """J v (k, n, C) for rows v (k, size)."""
        if self.together == 1 or len(rows) == 1:
            products = [self._forth_row(row) for row in rows]
            return torch.stack(products)
        blocks = [vmap(self._forth_row)(some) for some in rows.split(self.together)]
        return torch.cat(blocks)

    def _forth_row(self, row: Tensor) -> Tensor:
        """J v (n, C) for one row v (size,)."""
        return self._forth(self._layout.split(row))

    def vjp(self, cotangents: Tensor) -> Tensor:
        """J^T u (k, size) for u (k, n, C)."""
        total = torch.zeros(
            len(cotangents), self._layout.size, device=cotangents.device, dtype=cotangents.dtype
        )
        self.add_vjp(total, cotangents)
        return total

    def add_vjp(self, total: Tensor, cotangents: Tensor) -> None:
        """Add J^T u, for u (k, n, C), to rows (k, size)."""
        if self.together == 1 or len(cotangents) == 1:
            for row, each in zip(total, cotangents):
                self._layout.add_(row, self._back(each))
            return
        blocks = zip(total.split(self.together), cotangents.split(self.together))
        for some, block in blocks:
            pulled = vmap(self._back)(block)
            self._layout.add_(some, pulled)


def linearise(
    outputs: Outputs,
    inputs: Tensor,
    *,
    route: str = "dual",
    tangents: Sequence[Tensor] | None = None,
    check: bool = False,
) -> Linearisation:
    """The linearisation on a batch.

    Args:
        outputs: The network.
        inputs: The batch.
        route: By `dual` numbers, or by `double-backward`.
        tangents: What dual numbers are recorded along, where several batches share it: it is as
            large as all parameters. `any_direction` of the outputs by default.
        check: Whether a tape is played once against its recording.

    Returns:
        J on this batch, at the parameters as they are now.

    >>> line = linearise(Outputs(nn.Linear(1, 1)), torch.tensor([[3.0]], device="cpu"))
    >>> line.jvp(torch.tensor([[1.0, 1.0]], device="cpu"))  # x dw + db
    tensor([[[4.]]])
    """
    if route != "dual":
        return _by_double_backward(outputs, inputs)
    if tangents is None:
        tangents = any_direction(outputs)
    return _by_dual_numbers(outputs, inputs, tangents, check=check)


def any_direction(outputs: Outputs) -> list[Tensor]:
    """Tangents to record along; zeros would check nothing.

    >>> [each.shape for each in any_direction(Outputs(nn.Linear(2, 3), None))]
    [torch.Size([3, 2]), torch.Size([3])]
    """
    layout = outputs.layout
    numbers = torch.arange(layout.size, device=layout.device, dtype=layout.dtype)
    tensors = layout.split(numbers.cos())
    return [each.detach().requires_grad_() for each in tensors]


def _by_dual_numbers(
    outputs: Outputs, inputs: Tensor, tangents: Sequence[Tensor], *, check: bool
) -> Linearisation:
    """J v by the tape of one dual pass, J^T u by autograd's record of it."""
    layout = outputs.layout
    with torch.enable_grad():
        values, tangent, tape = dual_pass(outputs, inputs, tangents, record=True)
    assert tape is not None  # it was requested
    if check:
        _compare(tape, [each.detach() for each in tangents], tangent.detach())

    def back(cotangent: Tensor) -> Sequence[Tensor]:
        return torch.autograd.grad(
            tangent, tangents, cotangent, retain_graph=True, materialize_grads=True
        )

    # what the network holds anyway does not count
    known = _storages([*outputs.values, inputs])
    size = 0
    for storage, count in tape.constants().items():
        if storage not in known:
            size += count

    # steps that write in place cannot be vectorised
    together = 1 if tape.writes else vectors_together(layout, size)
    return Linearisation(values, layout, tape.play, back, size=size, together=together)


def vectors_together(layout: Layout, size: int) -> int:
    """How many vectors are one product.

    Args:
        layout: The parameters.
        size: Bytes that a pass of one vector takes.
    """
    if layout.device.type == "cpu":
        return ALL_TOGETHER if layout.size <= _VECTORISED else 1
    # a device is kept busy by blocks that fit
    return memory.fitting(size, layout.device, share=_BLOCK_SHARE)


def _compare(tape: Tape, tangents: Sequence[Tensor], expected: Tensor) -> None:
    """Refuse a tape that does not give what it recorded."""
    with torch.no_grad():
        played = tape.play(tangents)
    away = (played - expected).norm()
    allowed = agreement(_AGREEMENT) * expected.norm()
    if not away <= allowed:
        raise NotRecordableError("replaying the tape does not reproduce the recorded values")


def _by_double_backward(outputs: Outputs, inputs: Tensor) -> Linearisation:
    """J^T u by a backward pass, and J v by differentiating that in u."""
    leaves = outputs.leaves()
    with torch.enable_grad():
        values = outputs(leaves, inputs)
        dummy = torch.zeros_like(values, requires_grad=True)
        pulled = torch.autograd.grad(
            values, leaves, dummy, create_graph=True, materialize_grads=True
        )

    # parameters that do not reach the outputs have no graph
    reached = [number for number, each in enumerate(pulled) if each.requires_grad]
    linear = [pulled[number] for number in reached]

    def forth(tangents: Sequence[Tensor]) -> Tensor:
        along = [tangents[number] for number in reached]
        (product,) = torch.autograd.grad(linear, dummy, along, retain_graph=True)
        return product

    def back(cotangent: Tensor) -> Sequence[Tensor]:
        return torch.autograd.grad(
            values, leaves, cotangent, retain_graph=True, materialize_grads=True
        )

    known = [*outputs.values, inputs]
    saved = saved_bytes(lambda: outputs(leaves, inputs), known=known)
    return Linearisation(
        values.detach(),
        outputs.layout,
        forth,
        back,
        size=2 * saved,  # forward stores about as much again
        together=1,
    )


def _storages(tensors: Sequence[Tensor]) -> set[int]:
    """The identities of the memory that tensors are in."""
    return {each.untyped_storage()._cdata for each in tensors}


def saved_bytes(compute: Callable[[], object], *, known: Sequence[Tensor]) -> int:
    """Bytes of what autograd saves for a computation.

    Args:
        compute: The computation; it is done once.
        known: Tensors that exist anyway and do not count.
    """
    skip = _storages(known)
    held: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()._cdata
        if storage not in skip:
            held[storage] = tensor.detach()
        return tensor.detach()

    def unpack(tensor: Tensor) -> Tensor:
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
    with torch.enable_grad(), hooks:
        compute()
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values())
