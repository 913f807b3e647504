"""A card: chosen by what a network takes and by the minutes, placed, written, compared."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from click.testing import CliRunner
from penchant.cli import main
from penchant_card import budgets
from penchant_card import card as maker
from penchant_card.budgets import Costs, fitting, in_turn
from penchant_card.fresh import initialised
from penchant_card.model_index import model_index
from penchant_card.network_facts import checksum, parameters
from penchant_card.plans import last_layer
from penchant_tools.timing import Estimate
from torch import nn


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(16, 24),
        nn.BatchNorm1d(24),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(24, 3),
    ).eval()


def samples(count=90):
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(count, 1, 4, 4, generator=generator)
    return inputs, torch.arange(count) % 3


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A card of one given network, with two fresh ones beside it."""
    folder = tmp_path_factory.mktemp("card") / "run"
    return penchant.card(
        network(), samples(), minutes=30, seeds=2, out=folder, workers=1, label="<b>Net</b>"
    )


@pytest.mark.slow
def test_a_card_has_a_row_for_each_family_and_fresh_networks_beside_them(made):
    families = [row.family for row in made.rows]
    assert families[:2] == ["input directions", "frequencies"]
    assert {"class structure", "curvature", "tangent kernel", "information"} <= set(families)
    numbers = [number for row in made.rows for number in row.numbers]
    assert all(row.sentence and 1 <= len(row.numbers) <= 6 for row in made.rows)
    beside = [number for number in numbers if number.fresh]
    assert len(beside) > len(numbers) / 2
    assert all(len(number.fresh.values) == 2 for number in beside)
    assert made.network.parameters == 16 * 24 + 24 + 48 + 24 * 3 + 3
    assert made.network.checksum == checksum(network())


@pytest.mark.slow
def test_its_folder_is_an_ordinary_run(made):
    run = penchant.read(made.folder)
    assert run.results(probe="tangent-kernel")[0].status == "done"
    assert (made.folder / "report.html").is_file()
    assert tomllib.loads((made.folder / "experiment.toml").read_text())["probes"]
    stored = json.loads((made.folder / "card.json").read_text())
    assert [row["family"] for row in stored["rows"]] == [row.family for row in made.rows]
    text = run.results(probe="tangent-kernel")[0].quantities["cka"].value
    (number,) = [
        each
        for row in stored["rows"]
        for each in row["numbers"]
        if each["name"] == "cka" and each["probe"] == "tangent-kernel"
    ]
    assert number["value"] == text


@pytest.mark.slow
def test_its_page_escapes_what_a_user_wrote_and_needs_no_other_file(made):
    page = (made.folder / "card.html").read_text()
    assert "&lt;b&gt;Net&lt;/b&gt;" in page and "<b>Net</b>" not in page
    assert "<script" not in page and "default-src 'none'" in page
    assert page.count("<section>") == len(made.rows)
    assert (made.folder / "card.png").read_bytes()[:4] == b"\x89PNG"
    lines = model_index(made).splitlines()
    assert lines[0] == "model-index:" and lines[1] == '- name: "<b>Net</b>"'


@pytest.mark.slow
def test_a_card_is_a_baseline(made):
    baseline = made.folder / "card.json"
    found = testing.preferences(network(), baseline, data=samples())
    assert found.compared > 5 and not found.moved
    done = CliRunner().invoke(main, ["compare", str(baseline), str(made.folder), "--fail"])
    assert done.exit_code == 0, done.output
    assert "none of" in done.output
    other = network()
    with torch.no_grad():
        other[5].weight.mul_(10)
    with pytest.raises(AssertionError, match=r"trace.* -> .*p "):
        testing.preferences(other, baseline, data=samples())


def test_a_network_that_nothing_takes_says_what_would_work():
    with pytest.raises(penchant.Error, match="network is a component such as lenet"):
        penchant.card("no-such-network")
    with pytest.raises(penchant.Error, match=r"no probe .* takes this network; give data with -d"):
        penchant.card(nn.Linear(3, 2), progress=False, shape=(5,), minutes=1)


def test_minutes_too_few_for_any_probe_say_how_many_would_do(tmp_path):
    with pytest.raises(penchant.Error, match=r"0\.001 minutes are too few .* at least \d"):
        penchant.card("perceptron", minutes=0.001, out=tmp_path / "run", progress=False, shape=(8,))


# What is interrupted may have a file open: it is a temporary one, and closed with the object.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_probe_that_overruns_is_ended_and_named(tmp_path, monkeypatch):
    """Forecasts of nothing, and little time for each: what does not end in it is named."""
    own = {"data": samples(), "seeds": 1, "progress": False}
    monkeypatch.setattr(
        budgets, "estimated", lambda job, *rest: Estimate(0.0, ended=job.probe.label != "nad")
    )
    limits = iter((20.0, 0.01, 0.01))  # the second and the third probe are ended at once
    monkeypatch.setattr(
        maker, "allowed", lambda *rest: next(limits, None) or budgets.allowed(*rest)
    )
    found = penchant.card(network(), minutes=5, out=tmp_path / "run", **own)
    reasons = {each.probe: each.reason for each in found.left_out}
    ended = [name for name, reason in reasons.items() if reason.startswith("it was ended after")]
    assert len(ended) == 2, reasons
    assert {number.probe for row in found.rows for number in row.numbers}.isdisjoint(ended)
    # What was ended is no failure: the same command with more minutes goes on with it.
    statuses = {job["labels"]["probe"]: job["status"] for job in found.run.jobs}
    assert all(statuses[name] == "pending" for name in ended)


def test_what_is_wrong_is_named_before_anything_runs(tmp_path):
    with pytest.raises(penchant.Error, match="minutes must be more than 0, found -1"):
        penchant.card("perceptron", minutes=-1)
    with pytest.raises(penchant.Error, match="no option 'minuts'; did you mean 'minutes'"):
        penchant.card("perceptron", minuts=1)
    with pytest.raises(penchant.Error, match="data are a dataset's name, a file .npz"):
        penchant.card("perceptron", "no-such-data")
    weights = tmp_path / "net.pt"
    torch.save({"weight": torch.zeros(2)}, weights)
    with pytest.raises(penchant.Error, match="missing|lacks|unexpected"):
        penchant.card("perceptron", weights=weights, shape=(8,))


def test_data_without_labels_are_refused(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((9, 4), "float32"))
    with pytest.raises(penchant.Error, match="has no labels, found x"):
        penchant.card("perceptron", path)


class Fake:
    """A job of a probe, as far as the choice needs it."""

    def __init__(self, label):
        self.id = label
        self.probe = self
        self.label = label


def test_jobs_are_chosen_in_their_order_as_far_as_the_seconds_go():
    jobs = [Fake(label) for label in ("long", "short", "refused", "done")]
    costs = Costs({"long": 10.0, "short": 3.0, "done": 99.0}, {"refused": "why"}, workers=1)
    assert [job.id for job in fitting(jobs, costs, 12.0, {"done": True})] == ["long", "done"]
    assert [job.id for job in fitting(jobs, costs, 5.0, {})] == ["short"]
    two = Costs(costs.seconds, {}, workers=2)
    assert [job.id for job in fitting(jobs[:2], two, 6.5, {})] == ["long", "short"]


def test_probes_of_known_cost_come_first():
    jobs = [Fake(label) for label in ("unknown", "long", "short")]
    costs = Costs({"unknown": 1.0, "long": 9.0, "short": 2.0}, {}, 1, frozenset({"unknown"}))
    assert [job.id for job in in_turn(jobs, costs)] == ["long", "short", "unknown"]
    # What a job has really taken is known.
    assert in_turn(jobs, costs.with_measured({"unknown": 3.0})) == jobs


def test_a_module_is_initialised_again_layer_by_layer():
    given = network()
    fresh = initialised(given, 7)
    assert not torch.equal(fresh[1].weight, given[1].weight)
    assert torch.equal(fresh[1].weight, initialised(given, 7)[1].weight)
    assert fresh[1].weight.abs().max() <= 1 / 4

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))

    with pytest.raises(penchant.Error, match=r"layer '0' \(Scaled\) has parameters and no reset"):
        initialised(nn.Sequential(Scaled()), 0)


def test_facts_of_a_network():
    given = network()
    assert parameters(given) == sum(each.numel() for each in given.parameters())
    assert last_layer(given) == "5"
    same = network()
    assert checksum(given) == checksum(same)
    with torch.no_grad():
        same[5].bias[0] += 1e-3
    assert checksum(given) != checksum(same)
