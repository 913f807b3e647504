"""`penchant.Card` on a declaration: what a card measures and shows of a probe."""

from __future__ import annotations

import attrs
import penchant
import pytest
from penchant.plugins.declaration_checks import check_declaration


def probe(card: penchant.Card) -> type[penchant.Probe]:
    @attrs.frozen
    class Size(penchant.Probe):
        """Size of the outputs."""

        name = "size"
        target = "own:run"
        needs = ("architecture",)
        quantities = {"size": "of the outputs"}
        networks: int = penchant.option(16, "fresh networks")

    Size.card = card
    return Size


def test_a_card_names_quantities_and_options_of_its_probe() -> None:
    check_declaration(probe(penchant.Card(5, ("size",), {"networks": 4})), penchant.Probe)
    with pytest.raises(penchant.Error, match="found 'sise'; did you mean 'size'"):
        check_declaration(probe(penchant.Card(5, ("sise",))), penchant.Probe)
    with pytest.raises(penchant.Error, match="unknown option: 'network'; did you mean 'networks'"):
        check_declaration(probe(penchant.Card(5, ("size",), {"network": 4})), penchant.Probe)


@pytest.mark.parametrize("names", ["size", (), ("a", "b", "c", "d")])
def test_a_card_shows_one_to_three_quantities(names: object) -> None:
    with pytest.raises(penchant.Error, match="one to three|one to 3"):
        penchant.Card(5, names)  # type: ignore[arg-type]
