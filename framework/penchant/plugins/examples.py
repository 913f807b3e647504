"""An example command for everything that has a name, from declarations alone.

A probe's docstring says what its quick preset is meant for ("Quick: `-a lenet`."): that is its
example. An estimator, a role, a training and an executor are shown with a probe that takes them, an
architecture and a dataset with `penchant doctor`, which says which probes can measure them.
"""

from __future__ import annotations

import inspect
import re
import shlex

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
        letter = _LETTERS[cls.kind]
        return f"penchant doctor {letter} {address}"
    if cls.kind == "executor":
        return _simplest(_probes(plugins), f"--executor {address}")
    # What is left are estimators.
    role = role_of(cls)
    name = role.name if role else ""
    return _estimated(name, address, plugins)


def example_of_role(role: Role, estimators: list[Offer], plugins: Plugins) -> str:
    """A command that chooses an estimator of a role.

    Args:
        role: The role.
        estimators: Those there are.
        plugins: What is installed.

    Returns:
        The command.
    """
    address = plugins.address(estimators[0])
    return _estimated(role.name, address, plugins)


def example_of_training(plugins: Plugins) -> str:
    """A command that says how long to train."""
    probes = _probes(plugins)
    trained = {name: cls for name, cls in probes.items() if cls.trains()}
    return _simplest(trained, "--set training.epochs=2")


def quick_arguments(cls: type[Probe]) -> list[str] | None:
    """What a probe's docstring says that its quick preset is meant for; None where it is silent."""
    text = inspect.getdoc(cls) or ""
    # A command may be broken over two lines.
    words = text.split()
    line = " ".join(words)
    found = _QUICK.search(line)
    if found is None:
        return None
    return shlex.split(found[1])


def _probes(plugins: Plugins) -> dict[str, type[Probe]]:
    found: dict[str, type[Probe]] = {}
    for offer in plugins.offers("probe"):
        cls = offer.component
        if issubclass(cls, Probe):
            address = plugins.address(offer)
            found[address] = cls
    return found


def _measurement(address: str, cls: type[Probe]) -> str:
    """The probe with what its docstring names, or with what it needs left open."""
    arguments = quick_arguments(cls)
    if arguments is None:
        arguments = []
        for axis in AXES:
            if axis in cls.needs:
                letter = _LETTERS[axis]
                arguments += [letter, axis.upper()]
    words = ["penchant", "probe", address, *arguments]
    return shlex.join(words)


def _estimated(role: str, estimator: str, plugins: Plugins) -> str:
    """A probe of this role with this estimator; one that takes a single estimator, if there is."""
    able = {}
    single = {}
    for name, cls in _probes(plugins).items():
        if role not in cls.roles:
            continue
        able[name] = cls
        if isinstance(cls.roles[role], str):
            single[name] = cls
    if single or not able:
        return _simplest(single, f"-e {role}={estimator}")
    # A probe that takes several compares them: its first is what others are compared with.
    comparing = next(iter(able.values()))
    defaults = comparing.roles[role]
    different = dict.fromkeys([defaults[0], estimator, *defaults])
    chosen = [f"-e {role}={name}" for name in different]
    ending = " ".join(chosen[:2])
    return _simplest(able, ending)


def _simplest(probes: dict[str, type[Probe]], ending: str) -> str:
    """The probe that needs the fewest things, and an ending of the command."""
    if not probes:
        return f"penchant run EXPERIMENT.toml {ending}"

    def needs(address: str) -> tuple[int, str]:
        cls = probes[address]
        axes = [need for need in cls.needs if need in AXES]
        return len(axes), address

    # By name where several need as few.
    address = min(probes, key=needs)
    cls = probes[address]
    command = _measurement(address, cls)
    return f"{command} {ending}"
