"""Estimators as a probe calls them: with their options and a context of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penchant.components.component import Estimator
from penchant.components.roles import Role
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
        for text in getattr(answer, "warnings", ()):
            context.warn(f"{self._prefix}{text}")
        for name, text in dict(getattr(answer, "conventions", {})).items():
            context.conventions[f"{self._prefix}{name}"] = text
        return answer
