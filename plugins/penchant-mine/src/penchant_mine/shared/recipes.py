"""Recipes: those options of a component that numerics need, as a dataclass."""

from dataclasses import fields
from typing import Any, TypeVar

Recipe = TypeVar("Recipe")


def recipe_from(kind: type[Recipe], options: Any, **replaced: Any) -> Recipe:
    """A recipe whose fields are options of the same names, but for those that are replaced."""
    # Options that a recipe does not have stay behind.
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        values[field.name] = getattr(options, field.name, None)
    return kind(**(values | replaced))
