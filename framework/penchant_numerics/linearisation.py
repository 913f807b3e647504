"""A network's outputs as a linear function of its parameters, around where they are: J v and J^T u on one batch.

Dual numbers give J v beside the outputs in one forward pass, and when the tangent requires gradients, autograd's record of the
tangent is J^T. Where forward-mode differentiation lacks an operation, J v is the gradient in u of <J^T u, v> (double backward).
Networks are called by their parameters and stay untouched; attention runs in its plain form, which can be differentiated twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
import torch.autograd.forward_ad as forward_ad
from penchant_numerics.parameters import Layout, select
from penchant_numerics.safety import plain_attention
from penchant_numerics.tape import NotRecordableError, Tape
from torch import Tensor, nn
from torch.func import functional_call, vmap


_VECTORISED = (
    2**14
)  # parameters up to which a block is one vectorised product: beyond, caches prefer one vector after another
_AGREEMENT = 1e-3  # a tape that is played must agree with what it recorded


class NoForwardDerivativeError(NotImplementedError):
    """Forward-mode differentiation lacks the operation in `operation`."""

    def __init__(self, operation: str) -> None:
        super().__init__(f"no forward-mode derivative of {operation}")
        self.operation = operation


class Outputs:
    """Outputs (samples, classes) of a network as a function of the parameters that `patterns` name, the others fixed."""

    def __init__(self, network: nn.Module, patterns: str | Sequence[str] | None = None) -> None:
        self.network = network
        self.parameters = select(network, patterns)
        self.layout = Layout(self.parameters)
        self.values = list(self.parameters.values())

    def __call__(self, values: Sequence[Tensor], inputs: Tensor) -> Tensor:
        with plain_attention():
            outputs = functional_call(self.network, dict(zip(self.layout.names, values)), (inputs,))
        if not isinstance(outputs, Tensor) or outputs.dim() != 2:
            raise ValueError(
                f"expected outputs (samples, classes), found {getattr(outputs, 'shape', type(outputs).__name__)}"
            )
        return outputs

    def leaves(self) -> list[Tensor]:
        """The parameters as tensors to differentiate by; they share memory with the network's and leave it no gradient."""
        return [value.detach().requires_grad_() for value in self.values]


def dual_pass(
    outputs: Outputs, inputs: Tensor, tangents: Sequence[Tensor], *, record: bool = False
) -> tuple[Tensor, Tensor, Tape | None]:
    """Outputs (n, C), J v (n, C) for the tangents v, and the tape of J; one forward pass. J v has v's autograd graph."""
    try:
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(value, tangent)
                for value, tangent in zip(outputs.values, tangents)
            ]
            if not record:
                made = forward_ad.unpack_dual(outputs(duals, inputs))
                return made.primal.detach(), _defined(made.tangent, made.primal, tangents), None
            tape = Tape([forward_ad.unpack_dual(dual).tangent for dual in duals])
            with tape:
                made = forward_ad.unpack_dual(outputs(duals, inputs))
            if made.tangent is None:
                raise NotRecordableError("the outputs do not depend on these parameters")
            tape.finish(made.tangent)
            return made.primal.detach(), made.tangent, tape
    except (NotImplementedError, RuntimeError) as error:
        operation = _lacking(error)
        if operation is None:
            raise
        raise NoForwardDerivativeError(operation) from error


def _defined(tangent: Tensor | None, primal: Tensor, tangents: Sequence[Tensor]) -> Tensor:
    """A tangent that no parameter reaches is zero, still connected to the parameters."""
    return tangent if tangent is not None else primal.detach() * 0 + 0 * tangents[0].sum()


def _lacking(error: Exception) -> str | None:
    """The operation that an error of forward-mode differentiation complains about."""
    found = re.search(r"forward AD with (\S+) that does not support it", str(error))
    if found:
        return found.group(1)
    return (
        "a custom autograd.Function"
        if "implement the jvp function for custom autograd.Function" in str(error)
        else None
    )


class Linearisation:
    """J on one batch, kept: `jvp` and `vjp` compute no values of the network again.

    >>> network = nn.Linear(2, 1, bias=False)
    >>> line = linearise(Outputs(network), torch.tensor([[3.0, 4.0]], device="cpu"))
    >>> line.jvp(torch.tensor([[1.0, 0.0]], device="cpu")).tolist()       # rows of parameters -> (k, samples, outputs)
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
        vectorised: bool,
    ) -> None:
        self.outputs, self.bytes = values, size  # (n, C)
        self._layout, self._forth, self._back, self._vectorised = layout, forth, back, vectorised

    @torch.no_grad()
    def jvp(self, rows: Tensor) -> Tensor:
        """J v (k, n, C) for rows v (k, size)."""
        if self._vectorised and len(rows) > 1:
            return vmap(lambda row: self._forth(self._layout.split(row)))(rows)
        return torch.stack([self._forth(self._layout.split(row)) for row in rows])

    def vjp(self, cotangents: Tensor) -> Tensor:
        """J^T u (k, size) for u (k, n, C)."""
        total = torch.zeros(
            len(cotangents), self._layout.size, device=cotangents.device, dtype=cotangents.dtype
        )
        self.add_vjp(total, cotangents)
        return total

    def add_vjp(self, total: Tensor, cotangents: Tensor) -> None:
        """Add J^T u to rows (k, size)."""
        if self._vectorised and len(cotangents) > 1:
            self._layout.add_(total, vmap(self._back)(cotangents))
            return
        for row, each in zip(total, cotangents):
            self._layout.add_(row, self._back(each))


def linearise(
    outputs: Outputs, inputs: Tensor, *, route: str = "dual", check: bool = False
) -> Linearisation:
    """The linearisation on a batch by `dual` numbers or `double-backward`; `check` plays a tape once against its recording."""
    return (
        _by_dual_numbers(outputs, inputs, check=check)
        if route == "dual"
        else _by_double_backward(outputs, inputs)
    )


def _by_dual_numbers(outputs: Outputs, inputs: Tensor, *, check: bool) -> Linearisation:
    layout = outputs.layout
    row = torch.arange(
        layout.size, device=layout.device, dtype=layout.dtype
    ).cos()  # any direction; zeros would check nothing
    tangents = [each.detach().requires_grad_() for each in layout.split(row)]
    with torch.enable_grad():
        values, tangent, tape = dual_pass(outputs, inputs, tangents, record=True)
    if check:
        _compare(tape, [each.detach() for each in tangents], tangent.detach())

    def back(cotangent: Tensor) -> Sequence[Tensor]:
        return torch.autograd.grad(
            tangent, tangents, cotangent, retain_graph=True, materialize_grads=True
        )

    known = {each.untyped_storage()._cdata for each in [*outputs.values, inputs]}
    size = sum(count for storage, count in tape.constants().items() if storage not in known)
    vectorised = layout.size <= _VECTORISED and not tape.writes
    return Linearisation(values, layout, tape.play, back, size=size, vectorised=vectorised)


def _compare(tape: Tape, tangents: Sequence[Tensor], expected: Tensor) -> None:
    with torch.no_grad():
        played = tape.play(tangents)
    if not (played - expected).norm() <= _AGREEMENT * expected.norm():
        raise NotRecordableError("a tape played again does not give what it recorded")


def _by_double_backward(outputs: Outputs, inputs: Tensor) -> Linearisation:
    leaves = outputs.leaves()
    with torch.enable_grad():
        values = outputs(leaves, inputs)
        dummy = torch.zeros_like(values, requires_grad=True)
        pulled = torch.autograd.grad(
            values, leaves, dummy, create_graph=True, materialize_grads=True
        )
    reached = [number for number, each in enumerate(pulled) if each.requires_grad]

    def forth(tangents: Sequence[Tensor]) -> Tensor:
        along = [tangents[number] for number in reached]
        return torch.autograd.grad(
            [pulled[number] for number in reached], dummy, along, retain_graph=True
        )[0]

    def back(cotangent: Tensor) -> Sequence[Tensor]:
        return torch.autograd.grad(
            values, leaves, cotangent, retain_graph=True, materialize_grads=True
        )

    size = 2 * saved_bytes(
        lambda: outputs(leaves, inputs), known=[*outputs.values, inputs]
    )  # forth keeps about as much again
    return Linearisation(values.detach(), outputs.layout, forth, back, size=size, vectorised=False)


def saved_bytes(compute: Callable[[], object], *, known: Sequence[Tensor]) -> int:
    """Bytes of what autograd keeps for a computation, but for tensors that exist anyway; computes once."""
    skip = {each.untyped_storage()._cdata for each in known}
    held: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage()._cdata not in skip:
            held[tensor.untyped_storage()._cdata] = tensor.detach()
        return tensor.detach()

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compute()
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values())
