"""An example command for everything that has a name, from declarations alone.

A probe declares what its quick preset is meant for as its `example`. An estimator, a role, a
training and an executor are shown with a probe that takes them, an architecture and a dataset with
`penchant doctor`, which says which probes can measure them.
"""

from __future__ import annotations

from typing import Any

from penchant.components.component import Probe
from penchant.components.roles import Role, role_of
from penchant.components.taking import AXES
from penchant.plugins.discovery import Plugins
from penchant.plugins.registry import Registration

_LETTERS = {"architecture": "-a", "dataset": "-d"}


def example(registration: Registration, plugins: Plugins) -> str:
    """A command that uses a component."""
    cls = registration.component
    address = plugins.address(registration)
    if issubclass(cls, Probe):
        return _measurement(address, cls)
    if cls.example:
        return cls.example
    if cls.kind in _LETTERS:
        return f"penchant doctor {_LETTERS[cls.kind]} {address}"
    if cls.kind == "executor":
        return _simplest(_probes(plugins), f"--executor {address}")
    # What is left are estimators.
    role = role_of(cls)
    return _estimated(role.name if role else "", address, plugins)


def example_of_role(role: Role[Any], estimators: list[Registration], plugins: Plugins) -> str:
    """A command that chooses an estimator of a role.

    Args:
        role: The role.
        estimators: Its estimators.
        plugins: The installed plugins.

    Returns:
        The command.
    """
    return _estimated(role.name, plugins.address(estimators[0]), plugins)


def example_of_training(plugins: Plugins) -> str:
    """A command that says how long to train."""
    trained = {name: cls for name, cls in _probes(plugins).items() if cls.trains()}
    return _simplest(trained, "--set training.epochs=2")


def _probes(plugins: Plugins) -> dict[str, type[Probe]]:
    addresses = [plugins.address(each) for each in plugins.registrations("probe")]
    return dict(zip(addresses, plugins.probes))


def _measurement(address: str, cls: type[Probe]) -> str:
    """The example that a probe declares, or the probe with what it needs left open."""
    if cls.example:
        return cls.example.replace(cls.name, address, 1)
    needed = [f" {_LETTERS[axis]} {axis.upper()}" for axis in AXES if axis in cls.needs]
    return f"penchant probe {address}" + "".join(needed)


def _estimated(role: str, estimator: str, plugins: Plugins) -> str:
    """A probe of this role with this estimator; one that takes a single estimator, if there is."""
    able = {name: cls for name, cls in _probes(plugins).items() if role in cls.roles}
    single = {name: cls for name, cls in able.items() if isinstance(cls.roles[role], str)}
    if single or not able:
        return _simplest(single, f"-e {role}={estimator}")
    # A probe that takes several compares them: its first is what others are compared with.
    defaults = next(iter(able.values())).roles[role]
    chosen = [f"-e {role}={name}" for name in dict.fromkeys([defaults[0], estimator, *defaults])]
    return _simplest(able, " ".join(chosen[:2]))


def _simplest(probes: dict[str, type[Probe]], ending: str) -> str:
    """The probe that needs the fewest things, by name where several do, and an ending."""
    if not probes:
        return f"penchant run EXPERIMENT.toml {ending}"
    axes = {address: len({*cls.needs} & {*AXES}) for address, cls in probes.items()}
    address = min(probes, key=lambda address: (axes[address], address))
    return f"{_measurement(address, probes[address])} {ending}"
