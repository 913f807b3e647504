"""`penchant.Headline`: on the declaration, in `result.json`, and as the sentence of a report."""

from __future__ import annotations

import attrs
import penchant
import pytest
from penchant.plugins import discovery
from penchant.plugins.declaration_checks import check_declaration
from penchant.results.result import from_json, to_json
from penchant_report.figures import headline_of

SENTENCES = {"above": "Low ones hurt more", "below": "High ones hurt more", "neither": "No order"}


def low_minus_high(value: float) -> dict[str, penchant.Quantity]:
    return {"low-minus-high": penchant.Quantity(value, stderr=0.1, null=0.0)}


@attrs.frozen
class Noise(penchant.Probe):
    """Noise."""

    name = "noise"
    target = staticmethod(lambda options, context: penchant.Result(low_minus_high(1.0)))
    needs = ("architecture",)
    quantities = {"low-minus-high": "of the loss"}
    headline = penchant.Headline("low-minus-high", **SENTENCES)


@attrs.frozen
class Misspelt(Noise):
    """Noise."""

    headline = penchant.Headline("low-minus-hihg", **SENTENCES)


def test_a_headline_is_stored_and_chosen_by_its_quantity() -> None:
    result = penchant.measure(Noise, architecture="mlp", shape=(4,), outputs=1)
    again = from_json(to_json(result), {})
    assert again.record["headline"]["above"] == "Low ones hurt more"
    plugins = discovery.load().with_component(Noise, penchant.Probe)
    # The sentences are those of the probe, whatever a file says.
    again.record["headline"]["above"] = "Buy this"
    assert headline_of(again, plugins).startswith("Low ones hurt more: 1.00 ± 0.10 (null 0)")
    for value, sentence in ((-1.0, "High ones hurt more"), (0.1, "No order")):
        other = attrs.evolve(again, quantities=low_minus_high(value))
        assert headline_of(other, plugins).startswith(sentence)
    assert headline_of(attrs.evolve(again, quantities={}), plugins) == ""


def test_results_of_older_versions_have_the_headline_of_the_installed_probe() -> None:
    record = {"probe": {"name": "target-noise"}, "figures": ""}
    old = penchant.Result(low_minus_high(1.0), record=record)  # type: ignore[arg-type]
    assert headline_of(old).startswith("Low-frequency noise in the targets hurts more")


def test_a_headline_about_what_is_not_measured_is_refused() -> None:
    with pytest.raises(penchant.Error, match="did you mean 'low-minus-high'"):
        check_declaration(Misspelt, penchant.Probe)
    with pytest.raises(penchant.Error, match="above of a headline must be text"):
        penchant.Headline("x", above="", below="b", neither="n")
