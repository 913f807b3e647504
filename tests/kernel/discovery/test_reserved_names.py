"""Names that options may not have, because an experiment or `penchant.measure` takes them."""

from __future__ import annotations

import inspect

import attrs
import penchant
import pytest
from penchant.components.component import RESERVED, RESERVED_FOR_PROBES
from penchant.experiments.settings import Settings


def test_all_settings_and_all_arguments_of_measure_are_reserved() -> None:
    settings = {field.name for field in attrs.fields(Settings)}
    arguments = set(inspect.signature(penchant.measure).parameters) - {"options"}
    assert settings | arguments | RESERVED == RESERVED_FOR_PROBES


def test_a_probe_with_an_option_that_would_never_be_set_is_refused() -> None:
    @penchant.probe(needs="architecture", quantities={"size": "of nothing"})
    def size(context: penchant.Context, memory: float = 1.0) -> penchant.Quantity:
        return penchant.Quantity(memory, exact=True)

    with pytest.raises(penchant.Error, match=r"size\.memory has a reserved name"):
        penchant.measure(size, architecture="mlp", shape=(4,), outputs=1, memory=7.0)
