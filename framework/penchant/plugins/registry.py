"""Registries: the components of each kind by name, and where they come from."""

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

import attrs
from packaging.utils import canonicalize_name
from penchant.components.component import Component
from penchant.errors import Error, suggestion

KERNEL = "penchant"  # the distribution whose components keep their plain names
OWN = "own"  # the distribution of components that a user defines in Python

C = TypeVar("C", bound=Component)


@attrs.frozen
class Registration:
    """A component and the distribution it came from."""

    component: type[Component]
    distribution: str
    version: str

    @property
    def package(self) -> str:
        """The top-level package its declaration is in."""
        return self.component.__module__.partition(".")[0]


class Registry(Generic[C]):
    """The components of one kind, by name: `plugins.probes.get("nad")`.

    Several distributions may have a component of the same name.
    """

    def __init__(self, base: type[C], disabled: str = "") -> None:
        self.kind = base.kind
        self._disabled = disabled  # lines that an unknown name is followed by
        self._by_name: dict[str, list[Registration]] = {}

    def add(self, registration: Registration) -> None:
        """Add a component of this kind."""
        self._by_name.setdefault(registration.component.name, []).append(registration)

    def registrations(self) -> list[Registration]:
        """Every component with its distribution, sorted by name."""
        return [
            each
            for _, same in sorted(self._by_name.items())
            for each in sorted(same, key=lambda each: each.distribution)
        ]

    def __iter__(self) -> Iterator[type[C]]:
        """Every component, sorted by name."""
        return iter([cast("type[C]", each.component) for each in self.registrations()])

    def __contains__(self, name: str) -> bool:
        """Is there a component of this name?"""
        return name.rpartition("/")[2] in self._by_name

    def get(self, name: str, where: str = "") -> type[C]:
        """The component of this name (or `distribution/name`); see `find`."""
        return cast("type[C]", self.find(name, where).component)

    def find(self, name: str, where: str = "") -> Registration:
        """The component of this name (or `distribution/name`), and where it comes from.

        An error names the key `where`, and a hint: there is none, or there are several.
        """
        distribution, _, short = name.rpartition("/")
        same = self._by_name.get(short, [])
        if distribution:
            same = [each for each in same if each.distribution == canonicalize_name(distribution)]
        # The kernel's components keep their plain name: a plugin cannot replace `serial`.
        same = [each for each in same if each.distribution == KERNEL] or same
        if len(same) == 1:
            return same[0]
        location = f" ({where})" if where else ""
        if same:
            sources = " and ".join(f"{each.distribution} {each.version}" for each in same)
            hint = " or ".join(f"'{each.distribution}/{short}'" for each in same)
            raise Error(f"the {self.kind} {name!r} is offered by {sources}; write {hint}{location}")
        near = suggestion(name, list(map(self.address, self.registrations())))
        inside = self._collections(short)
        raise Error(f"unknown {self.kind} {name!r}{near}{inside}{location}{self._disabled}")

    def clash(self, name: str) -> str:
        """The distributions with a component of this name, where there are several."""
        same = self._by_name[name]
        return " and ".join(each.distribution for each in same if len(same) > 1)

    def address(self, registration: Registration) -> str:
        """The name that reaches this component."""
        name = registration.component.name
        if registration.distribution == KERNEL or not self.clash(name):
            return name
        return f"{registration.distribution}/{name}"

    def _collections(self, name: str) -> str:
        """Components that have many under names of their own: `zoo:model=resnet50`."""
        texts = []
        for registration in self.registrations():
            fields = attrs.fields(registration.component)
            required = [field for field in fields if field.default is attrs.NOTHING]
            # Text that is no target: the name of something inside.
            if len(required) == 1 and required[0].type in ("str", str):
                texts.append(f"'{self.address(registration)}:{required[0].name}={name}'")
        return f" Or {' or '.join(texts)}?" if texts else ""
