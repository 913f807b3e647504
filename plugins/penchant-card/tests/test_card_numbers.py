"""The numbers of a card: against fresh networks, in the atlas, and in its files."""

from __future__ import annotations

import json
import math
import sys
import time

import attrs
import numpy as np
import pytest
import torch
from penchant.plugins import discovery
from penchant.results.quantities import Quantity
from penchant_card import atlas, budgets
from penchant_card.budgets import Clock, OutOfMinutesError, allowed, clock_for
from penchant_card.listening import MinutesLeft
from penchant_card.plans import plan
from penchant_card.rows import Number, Row, _decided, _fresh
from penchant_card.subjects import data_table, network_table
from penchant_report.pooling import pooled
from penchant_tools.timing import Estimate
from scipy import stats
from torch import nn


def test_a_network_against_fresh_ones_is_a_t_test_of_one_more():
    values = [1.0, 2.0, 4.0, 3.0, 2.5]
    found = _fresh(Quantity(9.0, exact=True), values)
    spread = np.std(values, ddof=1) * math.sqrt(1 + 1 / len(values))
    expected = 2 * stats.t.sf((9.0 - np.mean(values)) / spread, len(values) - 1)
    assert found.p == pytest.approx(expected)
    # An error of its own makes it less sure.
    assert _fresh(Quantity(9.0, stderr=2.0), values).p > found.p
    assert found.text == "fresh 2.5 ± 1.1"
    assert _fresh(Quantity(9.0), [1.0]) is None


def test_one_more_fresh_network_is_unusual_in_one_of_a_hundred():
    random = np.random.default_rng(0)
    p = [
        _fresh(Quantity(random.normal(), exact=True), list(random.normal(size=5))).p
        for _ in range(4000)
    ]
    share = np.mean(np.asarray(p) <= 0.01)
    assert abs(share - 0.01) < 3 * math.sqrt(0.01 * 0.99 / 4000)


def test_numbers_are_decided_over_the_whole_card():
    def row(p):
        number = Number("nad", "trace", "", pooled([Quantity(1.0, stderr=1.0, null=0.0, p=p)]))
        return Row("a", "b", "c", (number,))

    several = _decided([row(0.004), row(0.004), row(0.004)])
    assert not any(each.numbers[0].notable for each in several)
    assert _decided([row(0.004)])[0].numbers[0].notable


def test_the_atlas_is_that_of_the_documentation(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "docs/make"))
    monkeypatch.delitem(sys.modules, "atlas_numbers", raising=False)
    import atlas_numbers

    assert json.loads(atlas_numbers.text()) == atlas.atlas(), "run docs/make/atlas_numbers.py"
    measured = json.loads((root / "docs/atlas/measured.json").read_text())["architectures"]
    traces = [
        each["nad"]["quantities"]["trace"]["value"]
        for each in measured.values()
        if "quantities" in each["nad"]
    ]
    assert atlas.rank("nad", "trace", 0.001) == (sum(each < 0.001 for each in traces), len(traces))
    assert atlas.rank("nad", "no such number", 1.0) is None


def test_a_run_stops_when_the_minutes_are_used():
    listener = MinutesLeft(Clock(0.0), lines=False)
    # Nothing is done yet: the first job goes on.
    listener.penchant_progress("job", "networks", 1, 2)

    @attrs.define
    class Stored:
        selected: list

    with pytest.raises(OutOfMinutesError):
        listener.penchant_job_finished(Stored([{"status": "pending"}]), None, None)
    with pytest.raises(OutOfMinutesError):
        listener.penchant_progress("job", "networks", 1, 2)
    MinutesLeft(Clock(0.0), lines=False).penchant_job_finished(
        Stored([{"status": "done"}]), None, None
    )


def test_minutes_are_of_the_processor():
    """A clock that is not used does not run; one that is used ends what uses it."""
    clock = Clock(1.0)
    time.sleep(0.3)
    assert clock.used < 0.2 / 60
    began = time.process_time()
    with pytest.raises(OutOfMinutesError), clock.ending_after(0.2):
        while time.process_time() - began < 20:
            pass
    assert 0.1 < time.process_time() - began < 10
    assert clock.used * 60 == pytest.approx(time.process_time() - began, abs=0.3)
    assert clock.left < 60 - 0.1


def test_a_clock_of_several_workers_is_that_on_the_wall():
    assert clock_for(1.0, device="cpu", workers=None).of_processor
    assert clock_for(1.0, device="cpu", workers=1).of_processor
    wall = clock_for(1.0, device="cpu", workers=2)
    time.sleep(0.2)
    assert not wall.of_processor and wall.used * 60 >= 0.2
    with pytest.raises(OutOfMinutesError), wall.ending_after(0.1):
        time.sleep(20)


def test_a_probe_may_take_thrice_its_forecast_or_a_third_of_what_is_left():
    assert allowed(10.0, 210.0) == 70.0  # a share of what is left
    assert allowed(30.0, 210.0) == 90.0
    assert allowed(90.0, 100.0) == 100.0  # never more than is left


def test_what_is_typed_names_a_component_a_model_or_ones_own(tmp_path):
    plugins = discovery.load()
    table = network_table("mlp:widths=[8]", plugins)
    assert table == {"name": "mlp", "widths": [8], "label": "mlp"}
    own = network_table("my.module:Net", plugins, weights="net.pt")
    assert own == {
        "name": "import",
        "factory": "my.module:Net",
        "weights": "net.pt",
        "label": "Net",
    }
    (tmp_path / "data.npz").write_bytes(b"")
    data = data_table(tmp_path / "data.npz", plugins, own)
    assert data["name"] == "file" and data["label"] == "data"
    assert data_table("digits:resize=32", plugins, own) == {"name": "digits", "resize": 32}
    assert data_table(None, plugins, own) is None


def test_a_folder_of_a_model_is_its_weights_and_its_tokenizer(tmp_path):
    plugins = discovery.load()
    if not plugins.has("architecture", "huggingface"):
        pytest.skip("penchant-huggingface is not installed")
    (tmp_path / "config.json").write_text('{"n_positions": 32}')
    (tmp_path / "tokenizer.json").write_text("{}")
    fresh = network_table(f"huggingface:{tmp_path}", plugins)
    assert "weights" not in fresh and fresh["pretrained"] is False
    (tmp_path / "model.safetensors").write_bytes(b"")
    table = network_table(f"huggingface:{tmp_path}", plugins)
    assert table["weights"] == str(tmp_path) and table["label"] == tmp_path.name
    texts = tmp_path / "texts.txt"
    texts.write_text("a")
    data = data_table(texts, plugins, table)
    assert data["tokenizer"] == str(tmp_path) and data["length"] == 32
    assert "vocabulary" not in data and "task" not in data
    config = {"architectures": ["BertForMaskedLM"], "vocab_size": 300}
    (tmp_path / "config.json").write_text(json.dumps(config))
    masked = data_table(texts, plugins, table)
    assert (masked["task"], masked["vocabulary"]) == ("masked-token", 300)


def fixed(shape):
    """A network of the user's own with three outputs, whatever is wanted."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 3))


def any_number(shape, outputs):
    """A network with as many outputs as are wanted."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))


@pytest.mark.parametrize(("factory", "data"), [(fixed, ["d"]), (any_number, [])])
def test_probes_that_need_no_data_draw_networks_with_one_output_where_they_can(factory, data):
    samples = {
        "name": "import",
        "label": "d",
        "factory": (torch.randn(30, 4), torch.arange(30) % 3),
    }
    network = {"name": "import", "label": "own", "factory": factory}
    planned = plan(network, samples, discovery.load(), settings={}, seeds=[3, 4])
    entries = {entry["name"]: entry for entry in planned.experiment.raw["probes"]}
    assert entries["nad"]["datasets"] == data
    assert entries["tangent-kernel"]["datasets"] == ["d"]
    assert entries["tangent-kernel"]["training"] == {"steps": 0}
    assert entries["tangent-kernel"]["samples"] == len(planned.data.train.inputs) == 24
    # Every probe with the first seed comes before the second seed of any.
    seeds = [job.seed for job in planned.jobs]
    assert seeds == sorted(seeds) and set(seeds) == {3, 4}


def test_after_a_training_in_this_process_costs_are_lower_bounds(monkeypatch):
    """Torch refuses gradients in a fork of a process that has taken some."""
    data = {"name": "import", "label": "d", "factory": (torch.randn(30, 4), torch.arange(30) % 3)}
    network = {"name": "import", "label": "own", "factory": any_number}
    planned = plan(network, data, discovery.load(), settings={}, seeds=[0])
    refused = "RuntimeError: see https://github.com/pytorch/pytorch/wiki/Autograd-and-Fork"
    answers = {
        "nad": Estimate(ended=True, error=refused),
        "average-geometry": Estimate(3.0, ended=True),
    }
    other = Estimate(ended=True, error="found none")
    monkeypatch.setattr(
        budgets, "estimated", lambda job, *rest: answers.get(job.probe.label, other)
    )
    found = budgets.costs(planned.experiment, planned.jobs, Clock(1.0))
    assert found.least == {"nad"} and found.seconds["nad"] == 0
    assert found.seconds.keys() == {"nad", "average-geometry"}
    assert found.refused["tangent-kernel"] == "found none"
