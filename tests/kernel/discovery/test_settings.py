"""Options as people type them."""

import penchant
import pytest
from penchant.experiments.typed_text import apply, parse_component, parse_options


def test_a_component_is_a_name_and_toml_literals():
    assert parse_component("mlp:widths=[100,100],activation=gelu") == {
        "name": "mlp",
        "widths": [100, 100],
        "activation": "gelu",
    }
    assert parse_component("import:factory=own.net:make") == {
        "name": "import",
        "factory": "own.net:make",
    }
    assert parse_options('a=1,b=2.5,c=true,d="x,y",e=[1,[2,3]],f=plain text') == {
        "a": 1,
        "b": 2.5,
        "c": True,
        "d": "x,y",
        "e": [1, [2, 3]],
        "f": "plain text",
    }


def test_set_changes_by_label_name_or_path():
    raw = {
        "probes": [{"name": "nad", "samples": 1}, {"name": "nad", "label": "other", "samples": 1}]
    }
    assert [each["samples"] for each in apply(raw, "probes.nad.samples=50")["probes"]] == [50, 50]
    assert [each["samples"] for each in apply(raw, "probes.other.samples=50")["probes"]] == [1, 50]
    assert apply(raw, "training.epochs=2")["training"] == {"epochs": 2}
    assert raw["probes"][0]["samples"] == 1


@pytest.mark.parametrize("text", ["novalue", "probes.nda.samples=1", "seeds.x.y=1"])
def test_set_refuses_what_is_not_there(text):
    with pytest.raises(penchant.Error):
        apply({"probes": [{"name": "nad"}], "seeds": [0]}, text)


def test_set_reaches_a_component_that_is_addressed_by_its_distribution():
    raw = {"probes": [{"name": "penchant-nad/nad", "networks": 3}]}
    for path in ("probes.nad.networks", "probes.penchant-nad/nad.networks"):
        assert apply(raw, f"{path}=5")["probes"][0]["networks"] == 5
    labelled = {"probes": [{"name": "penchant-nad/nad", "label": "mine"}]}
    assert apply(labelled, "probes.mine.networks=5")["probes"][0]["networks"] == 5
