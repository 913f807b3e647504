"""Conformance kit for plugin authors: what every component must do, as functions that a plugin's tests call.

The whole test of a plugin's conformance::

    import pytest
    from penchant import testing

    @pytest.mark.parametrize("offer", testing.offers("penchant-example"), ids=testing.label)
    def test_component_conforms(offer):
        testing.check_component(offer)

    def test_probe_conforms(tmp_path):
        testing.check_probe("output-spread", tmp_path, dataset="two-blobs", networks=40)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from penchant.api import run
from penchant.components.component import Dataset, Estimator, Probe
from penchant.components.roles import role_of
from penchant.components.targets import check_parameters, resolve
from penchant.execution.networks import BoundArchitecture
from penchant.plugins import discovery
from penchant.plugins.discovery import Offer, check_declaration
from penchant.results.result import Result
from penchant.results.runs import Run
from penchant.seeds import derive

TINY = "penchant.testing:tiny_network"


def tiny_network(shape: tuple[int, ...], outputs: int) -> Any:
    """A network for any input shape, small enough for every test."""
    import math

    from torch import nn

    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(shape), 8), nn.Tanh(), nn.Linear(8, outputs)
    )


def tiny_samples(generator: Any) -> Any:
    """Ninety train and thirty test points of three classes in four dimensions."""
    import torch

    labels = torch.arange(120, device="cpu") % 3
    inputs = torch.randn(120, 4, generator=generator, device="cpu")
    inputs[torch.arange(120, device="cpu"), labels] += 3.0
    return (inputs[:90], labels[:90]), (inputs[90:], labels[90:])


def offers(distribution: str) -> list[Offer]:
    """The components of an installed distribution; one that was set aside is an error with its reason."""
    for plugin in discovery.load().plugins:
        if plugin.distribution == distribution and plugin.reason:
            raise AssertionError(f"{distribution} was set aside: {plugin.reason}")
    found = [offer for offer in discovery.load().offers() if offer.distribution == distribution]
    assert found, f"{distribution} offers nothing; is it installed?"
    return found


def label(offer: Offer) -> str:
    """A name for a test of this component."""
    return f"{offer.component.kind}-{offer.component.name}"


def check_component(offer: Offer) -> None:
    """The declaration is complete, its target loads, and takes what its kind (or role) is called with."""
    cls = offer.component
    base = next(parent for parent in cls.__mro__ if parent.__dict__.get("kind") == cls.kind)
    check_declaration(cls, base)
    for field in attrs.fields(cls):
        assert field.metadata["help"], f"{cls.name}.{field.name} has no help text"
    if issubclass(cls, Estimator):
        role = role_of(cls)
        assert role is not None
        role.load(cls)
        return
    check_parameters(resolve(cls.target, cls.name), cls.parameters, f"{cls.kind} {cls.name!r}")
    if issubclass(cls, Probe):
        assert cls.presets and "quick" in cls.presets, f"{cls.name} has no preset 'quick'"
        assert cls.quantities, f"{cls.name} declares no quantities"


def check_architecture(
    name: str, *, shape: tuple[int, ...], outputs: int = 2, **options: Any
) -> None:
    """Fits its shape, is drawn the same for the same index and differently for another, and leaves no trace."""
    import torch

    component = discovery.load().find("architecture", name).component.bind(options, name)
    with no_trace():
        bound = BoundArchitecture(component, name, shape, outputs, seed=0)
        bound.check()
        one, again, other = (bound(index).state_dict() for index in (0, 0, 1))
    assert all(torch.equal(one[key], again[key]) for key in one), (
        f"{name}: network 0 was drawn differently a second time"
    )
    assert any(not torch.equal(one[key], other[key]) for key in one), (
        f"{name}: networks 0 and 1 are the same"
    )


def check_dataset(name: str, **options: Any) -> Any:
    """Loads the same samples for the same seed and others for another (or the same, if nothing is drawn); leaves no trace."""
    import torch
    from penchant_numerics.data import as_data

    component: Dataset = discovery.load().find("dataset", name).component.bind(options, name)
    load = resolve(component.target, name)
    with no_trace(), strict_devices():
        first, second = (
            as_data(load(component, torch.Generator(device="cpu").manual_seed(derive(0, name))))
            for _ in range(2)
        )
    assert torch.equal(first.train.inputs, second.train.inputs) and torch.equal(
        first.test.labels, second.test.labels
    )
    return first


def check_probe(name: str, folder: Path, *, processes: bool = True, **parts: Any) -> Result:
    """Runs a probe small: deterministic, the same under every executor, device-clean, traceless, stored, drawn as declared.

    `architecture`, `dataset`, `estimators`, `training`, `shape`, `outputs`, `seed` and the probe's options are keywords; without
    an architecture or dataset, where the probe needs one, a tiny one is used.
    """
    raw = _experiment(name, parts)
    with no_trace(), strict_devices():
        first = _only(run({**raw, "executor": "serial"}, out=folder / "serial"))
    second = _only(run({**raw, "executor": "serial"}, out=folder / "again"))
    assert_same(first, second, "a second run")
    if processes:
        assert_same(
            first,
            _only(run({**raw, "executor": "processes", "workers": 2}, out=folder / "processes")),
            "two processes",
        )
    cls: Any = discovery.load().find("probe", name).component
    _check_declared(cls, first)
    if hasattr(sys.modules[resolve(cls.target, name).__module__], "plot"):
        assert list((folder / "serial").glob("jobs/*/figures/*.png")), (
            f"{name} has a plot function but no figure was drawn"
        )
    return first


def _experiment(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        str(key): parts.pop(key) for key in ("shape", "outputs", "dtype", "threads") if key in parts
    }
    raw: dict[str, Any] = {"seeds": [parts.pop("seed", 0)], **settings}
    cls: Any = discovery.load().find("probe", name).component
    tiny = {"architecture": TINY, "dataset": "penchant.testing:tiny_samples"}
    entry: dict[str, Any] = {"name": name}
    for kind in ("architecture", "dataset"):
        given = parts.pop(
            kind, {"name": "import", "factory": tiny[kind]} if kind in cls.needs else None
        )
        if given is not None:
            raw[f"{kind}s"] = [{"name": given} if isinstance(given, str) else dict(given)]
            entry[f"{kind}s"] = [raw[f"{kind}s"][0].get("label", raw[f"{kind}s"][0]["name"])]
    raw["probes"] = [{**entry, **parts}]
    return raw


def _only(found: Run) -> Result:
    (job,) = found.jobs
    result = found.result(job["id"])
    assert result.status == "done", (
        f"{job['id']} failed: {result.error}\n{result.record.get('traceback') or ''}"
    )
    drawing = [text for text in result.warnings if text.startswith("figures could not be drawn")]
    assert not drawing, drawing[0]
    return result


def _check_declared(cls: Any, result: Result) -> None:
    assert result.quantities, f"{cls.name} gave no quantities"
    for kind, declared, found in (
        ("quantity", cls.quantities, result.quantities),
        ("array", cls.arrays, result.arrays),
    ):
        for each in found:
            known = (
                each in declared
                or each.removesuffix("-stderr") in declared
                or any("<" in name for name in declared)
            )
            assert known, f"{cls.name} gives the {kind} {each!r}, which it does not declare"


def assert_same(first: Result, second: Result, what: str) -> None:
    """Byte-identical arrays and equal quantities."""
    import numpy as np

    assert first.arrays.keys() == second.arrays.keys(), f"{what} gave other arrays"
    for name, array in first.arrays.items():
        assert np.array_equal(array, second.arrays[name], equal_nan=array.dtype.kind == "f"), (
            f"{what} gave another {name!r}"
        )
    assert str(first.quantities) == str(second.quantities), f"{what} gave other quantities"


@contextlib.contextmanager
def no_trace() -> Iterator[None]:
    """What runs inside changes neither the global random state, nor the default precision, nor the thread count."""
    import torch

    def state() -> tuple[Any, ...]:
        return (
            torch.random.get_rng_state().tolist(),
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
        )

    before = state()
    yield
    for name, old, new in zip(
        ("random state", "default dtype", "threads", "gradient mode"), before, state()
    ):
        assert old == new, f"the global {name} was changed"


_FACTORIES = [
    "arange",
    "empty",
    "eye",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "randint",
    "randperm",
    "tensor",
    "zeros",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "as_tensor",
]


@contextlib.contextmanager
def strict_devices() -> Iterator[None]:
    """Refuse tensor factories that leave the device to chance, as they would break on a GPU; works without one."""
    import torch
    from torch.overrides import TorchFunctionMode

    factories = {getattr(torch, name) for name in _FACTORIES}

    class Strict(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            from_tensor = func is torch.as_tensor and args and isinstance(args[0], torch.Tensor)
            if func in factories and kwargs.get("device") is None and not from_tensor:
                caller = sys._getframe(1)
                if _is_ours(caller.f_code.co_filename):
                    raise AssertionError(
                        f"torch.{func.__name__} without device= at {caller.f_code.co_filename}:{caller.f_lineno}"
                    )
            return func(*args, **kwargs)

    with Strict():
        yield


def _is_ours(filename: str) -> bool:
    """Libraries answer for themselves; the rule is for code of this project and of plugins."""
    return "penchant" in filename and f"{Path('site-packages', 'torch')}" not in filename
