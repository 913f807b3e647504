"""An example command for everything that has a name, from declarations alone.

A probe's docstring says what its quick preset is meant for ("Quick: `-a lenet`."): that is its
example. An estimator, a role, a training and an executor are shown with a probe that takes them, an
architecture and a dataset with `penchant doctor`, which says which probes can measure them.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterable

from penchant.components.component import AXES, Probe
from penchant.components.roles import Role, role_of
from penchant.plugins.discovery import Offer, Plugins

_QUICK = re.compile(r"Quick: `([^`]*)`")
_LETTERS = {"architecture": "-a", "dataset": "-d"}


def example(offer: Offer, plugins: Plugins) -> str:
    """A command that uses a component."""
    cls = offer.component
    address = plugins.address(offer)
    if cls.example:
        return cls.example
    if issubclass(cls, Probe):
        return _measurement(address, cls)
    if cls.kind in _LETTERS:
        return f"penchant doctor {_LETTERS[cls.kind]} {address}"
    if cls.kind == "executor":
        return _simplest(_probes(plugins), f"--executor {address}")
    role = role_of(cls)
    return _estimated(role.name if role else "", address, plugins)


def example_of_role(role: Role, estimators: list[Offer], plugins: Plugins) -> str:
    """A command that chooses an estimator of a role.

    Args:
        role: The role.
        estimators: Those there are.
        plugins: What is installed.

    Returns:
        The command.
    """
    return _estimated(role.name, plugins.address(estimators[0]), plugins)


def example_of_training(plugins: Plugins) -> str:
    """A command that says how long to train."""
    trained = {name: cls for name, cls in _probes(plugins).items() if cls.trains()}
    return _simplest(trained, "--set training.epochs=2")


def quick_arguments(cls: type[Probe]) -> list[str] | None:
    """What a probe's docstring says that its quick preset is meant for; None where it is silent."""
    words = (inspect.getdoc(cls) or "").split()
    found = _QUICK.search(" ".join(words))
    return None if found is None else shlex.split(found[1])


def _probes(plugins: Plugins) -> dict[str, type[Probe]]:
    found: dict[str, type[Probe]] = {}
    for offer in plugins.offers("probe"):
        if issubclass(offer.component, Probe):
            found[plugins.address(offer)] = offer.component
    return found


def _measurement(address: str, cls: type[Probe]) -> str:
    """The probe with what its docstring names, or with what it needs left open."""
    arguments = quick_arguments(cls)
    if arguments is None:
        needed = [axis for axis in AXES if axis in cls.needs]
        arguments = [part for axis in needed for part in (_LETTERS[axis], axis.upper())]
    return shlex.join(["penchant", "probe", address, *arguments])


def _estimated(role: str, estimator: str, plugins: Plugins) -> str:
    """A probe of this role with this estimator; one that takes a single estimator, if there is."""
    able = {name: cls for name, cls in _probes(plugins).items() if role in cls.roles}
    single = {name: cls for name, cls in able.items() if isinstance(cls.roles[role], str)}
    if single or not able:
        return _simplest(single, f"-e {role}={estimator}")
    # A probe that takes several compares them: its first is what others are compared with.
    defaults, *_ = [cls.roles[role] for cls in able.values()]
    different = dict.fromkeys([defaults[0], estimator, *defaults])
    chosen = [f"-e {role}={name}" for name in different]
    return _simplest(able, " ".join(chosen[:2]))


def _simplest(probes: dict[str, type[Probe]], ending: str) -> str:
    """The probe that needs the fewest things, and an ending of the command."""
    if not probes:
        return f"penchant run EXPERIMENT.toml {ending}"

    def needs(address: str) -> tuple[int, str]:
        return _axes(probes[address].needs), address

    address = min(probes, key=needs)
    return f"{_measurement(address, probes[address])} {ending}"


def _axes(needs: Iterable[str]) -> int:
    return sum(axis in AXES for axis in needs)
