"""A small call of an estimator of every role that is known: what it is given where nothing is."""

from __future__ import annotations

from typing import Any

from penchant_testing.tiny import TINY, tiny_network, tiny_samples

NETWORKS = 8
PAIRS = 60


def small_call(role: str) -> dict[str, Any] | None:
    """Arguments of `check_estimator` for an estimator of a role; None for an unknown role."""
    made = {
        "directions": _directions,
        "curvature": _curvature,
        "mutual-information": _mutual_information,
    }.get(role)
    return None if made is None else made()


def _directions() -> dict[str, Any]:
    return {**_architecture((1, 4, 4), 1), "call": {"networks": NETWORKS}}


def _curvature() -> dict[str, Any]:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = tiny_network((4,), 3)
    data, _ = tiny_samples(torch.Generator("cpu").manual_seed(0))
    return {**_architecture((4,), 3), "call": {"network": network, "data": data}}


def _mutual_information() -> dict[str, Any]:
    import torch

    generator = torch.Generator("cpu").manual_seed(0)
    x = torch.randn(PAIRS, 2, generator=generator, device="cpu")
    z = x + torch.randn(PAIRS, 2, generator=generator, device="cpu")
    return {**_architecture((2,), 1), "call": {"x": x, "z": z}}


def _architecture(shape: tuple[int, ...], outputs: int) -> dict[str, Any]:
    architecture = {"name": "import", "factory": TINY}
    return {"architecture": architecture, "shape": shape, "outputs": outputs}
