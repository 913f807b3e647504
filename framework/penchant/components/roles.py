"""Roles: how every estimator of a role is called.

A role is a function without a body. This module names roles, never plugins; the type that an
estimator of a role returns is in `penchant_numerics.roles.estimates`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penchant.components.component import Component
from penchant.components.targets import check_parameters, resolve
from penchant.errors import Error

if TYPE_CHECKING:
    from penchant_numerics.data import Samples
    from penchant_numerics.roles import Directions, EstimatorContext, Information, LayerCurvature
    from torch import Tensor, nn

T = TypeVar("T")  # what an estimator of a role returns
# What estimators of shared roles return, in `penchant_numerics.roles.estimates`.
_ANSWERS = {"directions": "Directions", "mutual-information": "Information"}


class Role(Generic[T]):
    """A role, made from the function whose parameters and docstring are its contract.

    >>> @Role
    ... def step_size(options, context, *, loss): "A positive number."
    >>> step_size.name
    'step-size'
    """

    def __init__(self, function: Callable[..., T]) -> None:
        self.name = function.__name__.replace("_", "-")
        self.parameters = tuple(inspect.signature(function).parameters)
        self.__doc__ = function.__doc__

    def load(self, estimator: type[Component] | Component) -> Callable[..., T]:
        """The estimator's function, once its parameters have been compared with the role's."""
        what = f"estimator {estimator.name!r} (role {self.name})"
        function = resolve(estimator.target, what)
        check_parameters(function, self.parameters, what)
        return function

    def check(self, answer: object, estimator: str) -> None:
        """Refuse an answer of this estimator that has another type than a shared role promises."""
        if self is curvature:
            wrong = [each for each in _known_layers(answer) if not hasattr(type(each), "matvec")]
            expected = "a dict from layer names to penchant_numerics.roles.estimates.LayerCurvature"
        elif self is SHARED.get(self.name):
            from penchant_numerics.roles import estimates

            name = _ANSWERS[self.name]
            wrong = [] if isinstance(answer, getattr(estimates, name)) else [answer]
            expected = f"a penchant_numerics.roles.estimates.{name}"
        else:
            return
        if wrong:
            found = type(wrong[0]).__name__
            raise Error(f"estimator {estimator!r} must return {expected}, found {found}")


def _known_layers(answer: object) -> list[object]:
    """Layers of an answer that exist already: other mappings than a dict may compute theirs."""
    if isinstance(answer, dict):
        return list(answer.values())
    return [] if isinstance(answer, Mapping) else [answer]


@Role
def directions(options: Component, context: EstimatorContext, *, networks: int) -> Directions:
    """The directions of its input that an architecture prefers, from `networks` networks.

    Returns a `penchant_numerics.roles.Directions`: a symmetric second moment over the input or
    its leading pairs, with the number of networks, the standard error of the trace, and squared
    norms where there is one vector per network.
    """


@Role
def curvature(
    options: Component, context: EstimatorContext, network: nn.Module, data: Samples
) -> Mapping[str, LayerCurvature]:
    """Curvature of the loss of `network` on the samples `data` (inputs, labels), layer by layer.

    Returns `{layer name: penchant_numerics.roles.LayerCurvature}`: an operator with matvec,
    trace, Frobenius distance and eigenvalues.
    """


@Role
def mutual_information(
    options: Component, context: EstimatorContext, x: Tensor, z: Tensor
) -> Information:
    """Mutual information, in nats, between paired samples `x` and `z` (rows are pairs).

    Returns a `penchant_numerics.roles.Information`: a value on held-out samples, its standard
    error, the training value, the null from shuffled pairs, warnings.
    """


_ROLES: tuple[Role[Any], ...] = (directions, curvature, mutual_information)
SHARED: Mapping[str, Role[Any]] = {role.name: role for role in _ROLES}


def role_of(estimator: type[Component] | Component) -> Role[Any] | None:
    """The role of an estimator: a shared one by name, or the plugin's own `Role`."""
    role = getattr(estimator, "role", None)
    return role if isinstance(role, Role) else SHARED.get(role or "")
