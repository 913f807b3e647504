"""Products of a curvature operator over several devices: one job, all the GPUs of a machine.

Batches go round robin. Every device has a copy of the network and its batches, and gives the
product of one batch after another; the first device adds them up in the order of the batches. So
sums are rounded as on a single device, and numbers do not depend on how many devices there are.
Devices compute at the same time, because launching does not wait for what was launched.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from penchant_numerics import Refusal
from penchant_numerics.curvature import GaussNewton, Hessian, counted_samples
from penchant_numerics.linear_algebra import Factor, Operator
from torch import Tensor, nn

Curvature = type[GaussNewton] | type[Hessian]


def neighbours(first: torch.device, count: int) -> list[torch.device]:
    """`count` devices of the kind of the first, which comes first; the others follow it in a ring.

    >>> neighbours(torch.device("cpu"), 1)
    [device(type='cpu')]
    """
    if count == 1:
        return [first]
    there = 1
    if first.type != "cpu":
        there = torch.get_device_module(first).device_count()
    if count > there:
        raise Refusal(f"devices must be at most {there}, the number available, found {count}")

    # a ring, which begins with the first
    start = first.index or 0
    neighbours = []
    for position in range(count):
        number = (start + position) % there
        neighbours.append(torch.device(first.type, number))
    return neighbours


def multi_device(
    kind: Curvature,
    network: nn.Module,
    data: tuple[Tensor, Tensor | None],
    *,
    devices: Sequence[torch.device],
    **options: Any,
) -> GaussNewton | Hessian | OverDevices:
    """An operator whose products are shared by devices; a plain one where there is only one.

    Args:
        kind: `GaussNewton` or `Hessian`.
        network: The network, on the first device.
        data: Inputs (n, ...) and labels there.
        devices: The devices, those of vectors and sums first.
        options: What `kind` takes.

    Returns:
        The operator; vectors live on the first device.
    """
    if len(devices) == 1:
        return kind(network, data, **options)
    return OverDevices(kind, network, data, devices=devices, **options)


class OverDevices(Operator):
    """The products of one operator, batch by batch on several devices.

    Args:
        kind: `GaussNewton` or `Hessian`.
        network: The network, on the first device.
        data: Inputs (n, ...) and labels there.
        devices: At least one device.
        batch: Samples per pass; what a single device would have by default.
        options: What `kind` takes.
    """

    def __init__(
        self,
        kind: Curvature,
        network: nn.Module,
        data: tuple[Tensor, Tensor | None],
        *,
        devices: Sequence[torch.device],
        batch: int | None = None,
        **options: Any,
    ) -> None:
        loss = options.get("loss", "cross-entropy")
        inputs, labels = counted_samples(data, loss)
        if batch is None:
            # the pass that one device would have for all samples
            batch = kind(network, (inputs, labels), **{**options, "cache": 0}).batch
        first = torch.device(devices[0])
        self.batch = batch
        self.samples = len(inputs)
        self._batches = -(-self.samples // batch)

        # a copy of the network and its own samples on every device
        self.operators = []
        for position, device in enumerate(devices[: self._batches]):
            own = self._own(position, len(devices), first)
            there = copy.deepcopy(network).to(device)
            chosen = _chosen((inputs, labels), own, device)
            # samples of other devices were tried with those of the first
            check = options.get("check", True) and position == 0
            own_options = {**options, "check": check}
            operator = kind(there, chosen, batch=batch, **own_options)
            self.operators.append(operator)

        # every product is scaled by the number of all samples, or positions
        if options.get("reduction") != "sum":
            terms = sum(each.terms for each in self.operators)
            for each in self.operators:
                each.scale = 1.0 / terms
        one = self.operators[0]
        super().__init__(one.size, device=one.device, dtype=one.dtype)
        self.conventions = one.conventions

    @property
    def route(self) -> str:
        """How J v is computed, of G."""
        return self._gauss_newton(0).route

    @property
    def reason(self) -> str:
        """Which operation made the route another one."""
        return self._gauss_newton(0).reason

    def _gauss_newton(self, position: int) -> GaussNewton:
        """The operator at a position, where it is a G."""
        operator = self.operators[position]
        if not isinstance(operator, GaussNewton):
            raise AttributeError(f"expected GaussNewton, found {type(operator).__name__}")
        return operator

    def _own(self, position: int, devices: int, where: torch.device) -> Tensor:
        """Which samples belong to the device at a position."""
        numbers = torch.arange(self.samples, device=where)
        batches = numbers // self.batch
        return batches % devices == position

    def _in_turn(self) -> Iterator[tuple[int, int, Any]]:
        """Every batch in its order: the position of its device, its number there, its samples."""
        for operator in self.operators:
            operator.pass_at_once(self.batch)
        batches = [enumerate(each._batches()) for each in self.operators]
        # round robin
        for number in range(self._batches):
            position = number % len(self.operators)
            own, samples = next(batches[position])
            yield position, own, samples

    def _rows(self, rows: Tensor) -> Tensor:
        total = torch.zeros_like(rows)
        there = [rows.to(each.device) for each in self.operators]
        for position, number, samples in self._in_turn():
            operator = self.operators[position]
            own = there[position]
            product = torch.zeros_like(own)
            operator.add_product(product, own, number, samples)
            total += product.to(self.device)
        return self.operators[0].scaled(total)

    def factor(self) -> Factor | None:
        """V of G = V V^T, where the operator has one."""
        if not isinstance(self.operators[0], GaussNewton):
            return None
        return Factor(
            size=self.size,
            samples=self.samples * self.operators[0].sample_outputs,
            apply=self._apply,
            adjoint=self._adjoint,
            device=self.device,
            dtype=self.dtype,
        )

    def _apply(self, coefficients: Tensor) -> Tensor:
        """V u for rows u (k, samples x outputs)."""
        count = len(coefficients)
        total = torch.zeros(count, self.size, device=self.device, dtype=self.dtype)
        # every batch has coefficients of its own
        shape = self._gauss_newton(0).output_shape
        by_sample = coefficients.reshape(count, self.samples, *shape)
        chunks = iter(by_sample.split(self.batch, dim=1))
        for position, number, inputs in self._in_turn():
            # what it makes of them is added up on the first device
            operator = self._gauss_newton(position)
            made = torch.zeros(count, self.size, device=operator.device, dtype=self.dtype)
            own = next(chunks).to(operator.device)
            operator.add_applied(made, own, number, inputs)
            total += made.to(self.device)
        return total

    def _adjoint(self, rows: Tensor) -> Tensor:
        """V^T v for rows v (k, size)."""
        products = []
        for position, number, inputs in self._in_turn():
            operator = self._gauss_newton(position)
            product = operator.adjoint_batch(rows.to(operator.device), number, inputs)
            products.append(product.to(self.device))
        return torch.cat(products, dim=1).flatten(1)


def _chosen(
    samples: tuple[Tensor, Tensor | None], own: Tensor, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Some samples on a device; there may be no labels."""
    inputs, labels = samples
    there = inputs[own].to(device)
    if labels is None:
        return there, None
    return there, labels[own].to(device)
