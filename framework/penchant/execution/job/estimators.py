"""Estimators as a probe calls them: with their options and a context of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penchant.components.component import Estimator
from penchant.components.roles import Role, role_of
from penchant.errors import Error, suggestion
from penchant.experiments.jobs import BoundComponent

if TYPE_CHECKING:
    from penchant.execution.job.context import Context


T = TypeVar("T")  # what estimators of the role return


class BoundEstimator(Generic[T]):
    """An estimator with its options and context: call it with what its role adds.

    What it answers carries warnings and conventions; they reach the result by themselves, with the
    estimator's label before them where the probe takes several.
    """

    def __init__(
        self, choice: BoundComponent[Estimator], context: Context, role: Role[T], *, several: bool
    ) -> None:
        self.name = choice.component.name
        self.label = choice.label
        self.options = context.options
        self._role = role
        self._function = role.load(choice.component)
        self._context = context
        self._prefix = f"{self.label}: " if several else ""

    def __call__(self, *arguments: Any, **keywords: Any) -> T:
        """What the estimator answers."""
        context = self._context
        answer = self._function(self.options, context, *arguments, **keywords)
        self._role.check(answer, self.name)
        warnings = getattr(answer, "warnings", ())
        conventions = dict(getattr(answer, "conventions", {}))
        context.runtime.notes.add(warnings, conventions, self._prefix)
        return answer


def bound_estimators(context: Context, role: str) -> tuple[BoundEstimator[Any], ...]:
    """The estimators that the experiment chose for the role of this name."""
    probe = context.runtime.job.probe
    if role not in probe.estimators:
        near = suggestion(role, probe.estimators)
        raise Error(f"the probe {probe.component.name!r} has no role {role!r}{near}")
    chosen = probe.estimators[role]
    bound = []
    for number, estimator in enumerate(chosen):
        # Its own scope: `context.options` are the estimator's while its code runs.
        own = context.of(context.runtime.in_scope(owner=(role, number)))
        known = role_of(estimator.component)
        assert known is not None  # an estimator without a role is refused
        bound.append(BoundEstimator(estimator, own, known, several=len(chosen) > 1))
    return tuple(bound)
