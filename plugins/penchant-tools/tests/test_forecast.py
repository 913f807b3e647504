"""What a run would cost: rehearsals count what they leave out, and write nothing."""

import time

import numpy as np
import penchant
import pytest
import torch
from click.testing import CliRunner
from penchant.cli import main
from penchant.execution import attempts
from penchant.execution.shards import Scope, Shard
from penchant.plugins import discovery
from penchant_numerics import rehearsal
from penchant_numerics.data import Samples
from penchant_numerics.rehearsal import Clock, Pace, rehearsed
from penchant_numerics.trainer import Trainer
from penchant_tools import forecast as forecasts
from penchant_tools.forecast import Cell, Forecast, forecast, spoken
from penchant_tools.planning import plan
from penchant_tools.rehearsing import RehearsingPool, spread

EXPERIMENT = {
    "title": "Spread",
    "executor": "serial",
    "seeds": [0, 1],
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 70}],
}


class Hand:
    """A clock that goes on only when it is turned."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


# What numerics know of rehearsals.


def test_a_pace_leaves_out_turns_at_the_rate_of_those_it_has_seen():
    hand = Hand()
    clock = Clock(hand)
    with rehearsed(clock):
        pace = Pace()
    pace.begin()
    hand.time += 10.0  # the first turn pays for what is made once
    pace.turned()
    made = 1
    while not pace.is_known:
        hand.time += 0.1
        pace.turned()
        made += 1
    assert made == 4
    pace.leave_out(100)
    assert clock.now() == pytest.approx(10.0 + 0.3 + 100 * 0.1)
    assert (clock.loops, clock.turns) == (1, 104)


def test_without_a_rehearsal_every_turn_is_made():
    pace = Pace()
    pace.begin()
    for _ in range(10):
        time.sleep(0.03)
        pace.turned()
    assert not pace.is_known and not pace.rehearses
    with pytest.raises(RuntimeError):
        pace.leave_out(1)


def _trainer(steps):
    network = torch.nn.Linear(4, 2)
    inputs = torch.linspace(-1, 1, 128).reshape(32, 4)
    samples = Samples(inputs, torch.arange(32) % 2)
    return Trainer(network, samples, penchant.Training(steps=steps, batch=8), seed=0)


def test_a_rehearsed_training_ends_at_its_last_step_and_tells_a_loss_for_each(monkeypatch):
    monkeypatch.setattr(rehearsal, "TIMED", 0.0)
    clock = Clock()
    losses = {}
    with rehearsed(clock):
        trainer = _trainer(5000)
        trainer.run(until=2000)
        trainer.run(losses=losses.__setitem__)
    assert trainer.step == 5000 and trainer.finished
    assert clock.loops == 1 and clock.turns == 5000
    assert sorted(losses) == list(range(2001, 5001))
    assert np.isfinite(list(losses.values())).all()


def test_a_rehearsal_changes_no_training_outside_it(monkeypatch):
    monkeypatch.setattr(rehearsal, "TIMED", 0.0)
    before = _trainer(20)
    state = {name: tensor.clone() for name, tensor in before.network.state_dict().items()}
    before.run()
    with rehearsed(Clock()):
        _trainer(20).run()
    after = _trainer(20)
    after.network.load_state_dict(state)
    after.run()
    for name, tensor in before.network.state_dict().items():
        assert torch.equal(tensor, after.network.state_dict()[name])


# Shards.


def _shards(items):
    return [Shard(number, len, item, Scope()) for number, item in enumerate(items)]


def test_positions_are_spread_and_complete():
    for count in (1, 2, 3, 7, 64):
        found = list(spread(count))
        assert sorted(found) == list(range(count)) and found[0] == 0
    assert list(spread(9))[:3] == [0, 8, 4]


def test_shards_stand_for_those_that_are_like_them():
    """Two sizes that cost 1 and 3 seconds, 50 shards each: some are done, all are counted."""
    hand = Hand()
    clock = Clock(hand)
    pool = RehearsingPool(clock)
    done = []

    def function(setup, shard, worker):
        done.append(shard.number)
        hand.time += {"small": 1.0, "large": 3.0}[shard.item["size"]]
        return {"size": shard.item["size"]}

    items = [{"size": size, "number": n} for size in ("small", "large") for n in range(50)]
    began = clock.now()
    answers = list(pool.map(function, None, _shards(items)))
    assert [answer["size"] for answer in answers] == ["small"] * 50 + ["large"] * 50
    assert done == [0, 99]  # long enough that what the first makes once does not matter
    assert clock.now() - began == pytest.approx(50 * 1 + 50 * 3)
    assert pool.seconds == pytest.approx(200) and pool.items == 100 and pool.stood_in == 98


def test_what_the_first_shard_makes_once_is_counted_once():
    hand = Hand()
    clock = Clock(hand)
    made = []

    def function(setup, shard, worker):
        hand.time += 0.1 if made else 0.9
        made.append(shard.number)
        return {}

    began = clock.now()
    list(RehearsingPool(clock).map(function, None, _shards(list(range(200)))))
    assert clock.now() - began == pytest.approx(0.9 + 199 * 0.1)


# Experiments.


@pytest.fixture(scope="module")
def plugins():
    return discovery.load()


def test_a_forecast_counts_cells_and_writes_nothing(plugins, tmp_path):
    planned = plan(EXPERIMENT, plugins, "test")
    found = forecast(planned.experiment, tmp_path / "run", planned.jobs)
    assert not (tmp_path / "run").exists()
    (cell,) = found.cells
    assert (cell.name, cell.jobs, cell.networks) == ("output-spread perceptron two-blobs", 2, 70)
    assert not cell.refused and not cell.unknown
    assert found.jobs == 2 and found.done == 0 and found.workers == 1
    assert found.memory > 50e6
    assert 0 < cell.seconds < 60
    assert found.seconds == pytest.approx(found.starting + 2 * cell.seconds)


def test_what_is_done_costs_nothing(plugins, tmp_path):
    raw = {**EXPERIMENT, "seeds": [0], "figures": False}
    penchant.run(raw, out=tmp_path / "run", progress=False)
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "run").rglob("*"))
    more = plan({**raw, "seeds": [0, 1]}, plugins, "test")
    found = forecast(more.experiment, tmp_path / "run", more.jobs)
    assert (found.jobs, found.done, found.cells[0].jobs) == (2, 1, 1)
    after = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "run").rglob("*"))
    assert before == after


def test_refused_cells_say_why_and_the_others_go_on(plugins, tmp_path):
    """An unknown network, one that does not fit, and one that does."""
    raw = {
        **EXPERIMENT,
        "seeds": [0],
        "architectures": [{"name": "perceptron"}, {"name": "lenet"}, {"name": "perceptro"}],
    }
    planned = plan(raw, plugins, "test")
    (unknown,) = planned.refused
    assert unknown.name == "output-spread perceptro two-blobs"
    assert "unknown architecture 'perceptro'; did you mean 'perceptron'" in unknown.refused
    found = forecast(planned.experiment, tmp_path, planned.jobs, planned.refused)
    reasons = {cell.name.split()[1]: cell.refused for cell in found.cells}
    assert "lenet needs" in reasons["lenet"]
    assert reasons["perceptron"] == ""
    assert [cell.name for cell in found.planned] == ["output-spread perceptron two-blobs"]


def test_a_rehearsal_that_is_given_up_tells_what_the_probe_said_of_its_cost(
    plugins, tmp_path, monkeypatch
):
    said = "at most 100 products take hours"
    record = {"status": "failed", "error": "GivenUpError: "}
    given_up = penchant.Result(warnings=(said,), record=record)
    monkeypatch.setattr(forecasts, "run_job", lambda *args, **options: given_up)
    planned = plan(EXPERIMENT, plugins, "test")
    (cell,) = forecast(planned.experiment, tmp_path, planned.jobs).cells
    assert cell.unknown == f"the rehearsal was given up after 5 s; {said}"


SLOW = """
import time
import attrs
import penchant

@attrs.frozen
class Slow(penchant.Probe):
    \"\"\"Takes its time.\"\"\"
    name = "slow"
    target = "penchant_slow:run"
    needs = ("architecture",)
    quantities = {"seconds": "how long"}
    presets = {"quick": {}}
    seconds: float = penchant.option(60.0, "how long")

def run(options, context):
    context.warn("this takes a minute")
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        time.sleep(0.01)
    return penchant.Result({"seconds": penchant.Quantity(options.seconds, exact=True)})

@penchant.hookimpl
def penchant_probes():
    return [Slow]
"""


@pytest.mark.parametrize("slowly", ["keep_result", "_finish"])
def test_a_rehearsal_that_is_given_up_while_its_result_is_kept_is_no_crash(
    install, tmp_path, monkeypatch, slowly
):
    """The limit is reached outside of the probe, where no failure of a job is expected."""
    install("slow", SLOW.replace("quantities", 'figures = "penchant_slow:draw"; quantities'))
    real = getattr(attempts, slowly)

    def late(*args, **options):
        time.sleep(0.6)
        return real(*args, **options)

    monkeypatch.setattr(attempts, slowly, late)
    monkeypatch.setattr(forecasts, "LONGEST", 0.3)
    monkeypatch.setattr(forecasts, "AGAIN", 0.2, raising=False)
    monkeypatch.setattr(forecasts, "BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(forecasts, "_passed", lambda job: time.perf_counter)
    probe = {"name": "slow", "seconds": 0.01}
    raw = {"architectures": [{"name": "perceptron"}], "probes": [probe], "executor": "serial"}
    planned = plan(raw, discovery.load(), "test")
    (cell,) = forecast(planned.experiment, tmp_path / "run", planned.jobs).cells
    assert "given up after 0.3 s" in cell.unknown and not cell.refused


def test_a_limit_that_is_reached_while_a_module_is_imported_refuses_nothing(
    install, tmp_path, monkeypatch
):
    """Whatever an import raises is told as "cannot be loaded", this as well."""
    install("slow", SLOW.replace("penchant_slow:run", "module_that_takes_long:run"))
    place = tmp_path / "site" / "module_that_takes_long.py"
    place.write_text("import time\ntime.sleep(1)\n")
    monkeypatch.setattr(forecasts, "LONGEST", 0.2)
    monkeypatch.setattr(forecasts, "_passed", lambda job: time.perf_counter)
    raw = {"architectures": [{"name": "perceptron"}], "probes": [{"name": "slow"}]}
    planned = plan({**raw, "executor": "serial"}, discovery.load(), "test")
    (cell,) = forecast(planned.experiment, tmp_path / "run", planned.jobs).cells
    assert not cell.refused and cell.unknown == "the rehearsal was given up after 0.2 s"


def test_a_dry_run_takes_five_seconds_per_cell_and_says_what_it_does_not_know(
    install, tmp_path, monkeypatch
):
    install("slow", SLOW)
    raw = {"architectures": [{"name": "perceptron"}], "probes": [{"name": "slow"}]}
    planned = plan({**raw, "executor": "serial"}, discovery.load(), "test")
    assert forecasts.LONGEST == 5.0
    monkeypatch.setattr(forecasts, "LONGEST", 0.5)
    monkeypatch.setattr(forecasts, "_passed", lambda job: time.perf_counter)
    began = time.perf_counter()
    (cell,) = forecast(planned.experiment, tmp_path / "run", planned.jobs).cells
    assert time.perf_counter() - began < 3
    assert cell.unknown == "the rehearsal was given up after 0.5 s; this takes a minute"
    assert 0.4 < cell.seconds < 3


def test_a_dry_run_takes_no_longer_than_the_run(plugins, tmp_path, monkeypatch):
    """Ten cells of a second each on five workers: some are rehearsed, the others taken alike."""
    rehearsed_cells = []

    def fake(name, job, folder, workers):
        rehearsed_cells.append(name)
        time.sleep(0.1)
        return Cell(name, 1, seconds=0.1, span=0.1)

    monkeypatch.setattr(forecasts, "_rehearsed", fake)
    monkeypatch.setattr(forecasts, "_loading", lambda: 0.0)
    raw = {key: value for key, value in EXPERIMENT.items() if key != "executor"}
    names = [{"name": "perceptron", "label": f"p{number}"} for number in range(10)]
    raw |= {"architectures": names, "seeds": [0], "workers": 5}
    planned = plan(raw, plugins, "test")
    began = time.perf_counter()
    found = forecast(planned.experiment, tmp_path / "run", planned.jobs)
    spent = time.perf_counter() - began
    assert found.seconds == pytest.approx(10 * 0.1 / 5)
    assert 2 <= len(rehearsed_cells) <= 4 and spent < 1
    assumed = [cell for cell in found.cells if cell.assumed]
    assert len(assumed) == 10 - len(rehearsed_cells) and len(found.cells) == 10
    assert "perhaps 0.1 s, not rehearsed" in found.lines()[9]


def test_where_nothing_can_run_the_experiment_is_refused(plugins):
    with pytest.raises(penchant.Error, match="unknown probe 'output-spred'"):
        plan({**EXPERIMENT, "probes": [{"name": "output-spred"}]}, plugins, "test")


def test_a_dry_run_prints_what_it_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = (
        "probe output-spread -a perceptron -d two-blobs -o networks=8 --executor serial --dry-run"
    )
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 0, done.output
    assert "1 jobs, 0 already done" in done.output
    assert "8 networks drawn" in done.output
    assert "with one worker" in done.output and "MB a process" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_what_cannot_run_is_exit_code_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, "probe output-spread -a lenet -d two-blobs --dry-run".split())
    assert done.exit_code == 1
    assert "refused: lenet needs" in done.output


def test_workers_share_jobs_and_shards():
    """Two jobs of 10 s on two workers take 10 s; one whose shards take 8 of 10 s takes 6."""
    two = Forecast((Cell("a", 2, seconds=10, span=10),), 2, 0, 2, 1.0, 0)
    assert (two.computing, two.seconds) == (20, 2 * 1 + 10)
    one = Forecast((Cell("a", 1, seconds=10, span=6),), 1, 0, 2, 1.0, 0)
    assert one.seconds == 2 * 1 + 6


def test_times_are_spoken():
    assert [spoken(seconds) for seconds in (0.04, 59, 61, 3700)] == [
        "0.0 s",
        "59.0 s",
        "1:01 min",
        "1:01 h",
    ]
