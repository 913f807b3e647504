"""What a run would cost: what is left out is counted, and nothing is written."""

import json
import time
from types import SimpleNamespace

import penchant
import pytest
import torch
from click.testing import CliRunner
from penchant.cli import main
from penchant.execution.job import attempts
from penchant.plugins import discovery
from penchant_tools import forecast as forecasts
from penchant_tools import timing
from penchant_tools.forecast import Cell, Forecast, duration, forecast
from penchant_tools.planning import plan
from penchant_tools.power import could_see
from penchant_tools.timing import Estimate, JobTimer, estimated

EXPERIMENT = {
    "title": "Spread",
    "executor": "serial",
    "seeds": [0, 1],
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 70}],
}


FORESEE = """
import json, sys, time
from pathlib import Path
from penchant.plugins import discovery
from penchant_tools import forecast
from penchant_tools.planning import plan
from penchant_tools.timing import estimated

forecast._loading()
(job,) = plan(json.loads(sys.argv[1]), discovery.load(), "test").jobs
began = time.perf_counter()
cost = estimated(job, Path(sys.argv[2]), 3.0)
spent = time.perf_counter() - began
found = {"spent": spent, "ended": cost.ended, "steps": cost.steps, "seconds": cost.seconds}
print(json.dumps(found))
"""


class Hand:
    """A clock that goes on only when it is turned."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture(scope="module")
def plugins():
    return discovery.load()


# One job.


class Sent:
    """Keeps the last estimate."""

    def __call__(self, estimate):
        self.last = estimate


def _timer():
    hand, sent = Hand(), Sent()
    return JobTimer(hand, sent), hand, sent


def test_shards_stand_for_the_others():
    """A hundred shards, of which the first makes something once: two are done, all are counted."""
    timer, hand, sent = _timer()
    done = []

    def compute(shard):
        done.append(shard)
        hand.time += 0.1 if len(done) > 1 else 0.9
        return {"shard": shard}

    answers = list(timer.map(SimpleNamespace(compute=compute), list(range(100))))
    assert done == [0, 50]
    assert [answer["shard"] for answer in answers] == [0] * 50 + [50] * 50
    hand.time += 2.0  # after the map
    timer.send(ended=True)
    assert sent.last.seconds == pytest.approx(0.9 + 99 * 0.1 + 2)
    assert sent.last.mapped == pytest.approx(0.9 + 99 * 0.1)
    assert (sent.last.shards, sent.last.skipped, timer.skipped) == (100, 98, 98)


def test_a_long_shard_stands_for_all_by_itself():
    timer, hand, sent = _timer()
    done = []

    def compute(shard):
        done.append(shard)
        hand.time += 3.0
        return {}

    list(timer.map(SimpleNamespace(compute=compute), list(range(10))))
    timer.send()
    assert done == [0] and sent.last.seconds == pytest.approx(30)


def test_a_training_that_has_not_ended_takes_as_long_as_its_steps_say():
    """The first step is slow; twenty-one were made of a thousand, in one of eight shards."""
    timer, hand, sent = _timer()
    timer.steps = 1000

    def compute(shard):
        hand.time += 5.0
        timer.count_step()
        for _ in range(20):
            hand.time += 0.1
            timer.count_step()
        timer.send()
        raise TimeoutError

    with pytest.raises(TimeoutError):
        list(timer.map(SimpleNamespace(compute=compute), list(range(8))))
    shard = 5 + 999 * 0.1
    assert sent.last.seconds == pytest.approx(8 * shard)
    assert sent.last.mapped == pytest.approx(8 * shard)
    assert not sent.last.ended


TRAINS = """
import attrs
import penchant

@attrs.frozen
class Trains(penchant.Probe):
    \"\"\"Trains.\"\"\"
    name = "trains"
    target = "penchant_trains:run"
    needs = ("architecture", "dataset", "training")
    quantities = {"step": "the last step"}
    presets = {"quick": {}}

def run(options, context):
    for step, _ in context.trained():
        pass
    return penchant.Result({"step": penchant.Quantity(float(step), exact=True)})

@penchant.hookimpl
def penchant_probes():
    return [Trains]
"""


def test_a_shard_that_has_not_ended_takes_as_long_as_its_progress_says():
    timer, hand, sent = _timer()

    def compute(shard):
        hand.time += 3.0
        timer.progress(2, 10)
        timer.send()
        raise TimeoutError

    with pytest.raises(TimeoutError):
        list(timer.map(SimpleNamespace(compute=compute), list(range(8))))
    assert sent.last.seconds == pytest.approx(8 * 15)


def test_a_training_of_hours_is_foreseen_in_seconds(install, tmp_path, command):
    """Steps are counted in torch's optimisers: the trainer knows nothing of dry runs.

    In a process of its own, as the command is: a process that has computed gradients cannot fork.
    """
    install("trains", TRAINS)
    raw = {key: value for key, value in EXPERIMENT.items() if key != "seeds"}
    raw |= {"probes": [{"name": "trains"}], "training": {"steps": 10_000_000}}
    script = tmp_path / "foresee.py"
    script.write_text(FORESEE)
    done = command(script, json.dumps(raw), tmp_path, script=True)
    assert done.returncode == 0, done.stderr
    cost = json.loads(done.stdout)
    assert cost["spent"] < 4
    assert not cost["ended"] and cost["steps"] == 10_000_000
    assert cost["seconds"] > 100


def test_a_network_that_is_trained_already_is_not_trained_again(plugins, tmp_path):
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2))
    for factory, steps in ((module, 0), (lambda: module, 7)):
        raw = {
            "executor": "serial",
            "architectures": [{"name": "import", "factory": factory}],
            "datasets": [{"name": "two-blobs"}],
            "probes": [{"name": "tangent-kernel", "training": {"steps": 7}}],
        }
        (job,) = plan(raw, plugins, "test").jobs
        assert timing._steps(job, tmp_path) == steps


def test_a_call_that_never_returns_is_ended(install, tmp_path):
    """Signals reach Python only between two of its instructions; a process can be killed."""
    stuck = "    sum(range(10**11))\n"
    install("trains", TRAINS.replace("    for step, _", stuck + "    for step, _"))
    raw = {key: value for key, value in EXPERIMENT.items() if key != "seeds"}
    (job,) = plan(raw | {"probes": [{"name": "trains"}]}, discovery.load(), "test").jobs
    began = time.perf_counter()
    cost = estimated(job, tmp_path, 1.0)
    assert time.perf_counter() - began < 2
    assert not cost.ended and cost.seconds >= 1


# Experiments.


def test_a_forecast_counts_cells_and_writes_nothing(plugins, tmp_path):
    planned = plan(EXPERIMENT, plugins, "test")
    found = forecast(planned.experiment, tmp_path / "run", planned.jobs)
    assert not (tmp_path / "run").exists()
    (cell,) = found.cells
    assert (cell.name, cell.jobs, cell.networks) == ("output-spread perceptron two-blobs", 2, 70)
    assert not cell.refused and not cell.unknown
    assert found.jobs == 2 and found.done == 0 and found.workers == 1
    assert cell.memory > 50e6
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


def test_a_job_that_is_stopped_tells_what_the_probe_warned_of(plugins, tmp_path, monkeypatch):
    warned = "at most 100 products take hours"
    cost = Estimate(seconds=5.0, warnings=(warned,))
    monkeypatch.setattr(forecasts, "estimated", lambda *args: cost)
    planned = plan(EXPERIMENT, plugins, "test")
    (cell,) = forecast(planned.experiment, tmp_path, planned.jobs).cells
    assert cell.unknown == f"stopped after 5 s; {warned}"


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


@pytest.mark.parametrize("slowly", ["store_result", "load_only"])
def test_a_job_that_is_stopped_while_its_result_is_stored_is_no_crash(
    install, tmp_path, monkeypatch, slowly
):
    """The limit is reached outside of the probe, where no failure of a job is expected."""
    install("slow", SLOW)
    real = getattr(attempts, slowly)

    def late(*args, **options):
        time.sleep(2)
        return real(*args, **options)

    monkeypatch.setattr(attempts, slowly, late)
    monkeypatch.setattr(forecasts, "LONGEST", 1.0)
    cell = _slow_cell({"seconds": 0.01}, tmp_path)
    assert cell.unknown.startswith("stopped after 1 s") and not cell.refused


def _slow_cell(options, tmp_path):
    raw = {"architectures": [{"name": "perceptron"}], "probes": [{"name": "slow", **options}]}
    planned = plan({**raw, "executor": "serial"}, discovery.load(), "test")
    (cell,) = forecast(planned.experiment, tmp_path / "run", planned.jobs).cells
    return cell


def test_a_limit_that_is_reached_while_a_module_is_imported_refuses_nothing(
    install, tmp_path, monkeypatch
):
    """Whatever an import raises is told as "cannot be loaded", this as well."""
    install("slow", SLOW.replace("penchant_slow:run", "module_that_takes_long:run"))
    place = tmp_path / "site" / "module_that_takes_long.py"
    place.write_text("import time\ntime.sleep(2)\n")
    monkeypatch.setattr(forecasts, "LONGEST", 1.0)
    cell = _slow_cell({}, tmp_path)
    assert not cell.refused and cell.unknown == "stopped after 1 s"


def test_a_dry_run_takes_five_seconds_per_cell_and_says_what_it_does_not_know(
    install, tmp_path, monkeypatch
):
    install("slow", SLOW)
    assert forecasts.LONGEST == 5.0
    monkeypatch.setattr(forecasts, "LONGEST", 1.5)
    began = time.perf_counter()
    cell = _slow_cell({}, tmp_path)
    assert time.perf_counter() - began < 4
    assert cell.unknown == "stopped after 1.5 s; this takes a minute"
    assert 1 < cell.seconds < 3


def test_a_dry_run_takes_no_longer_than_the_run(plugins, tmp_path, monkeypatch):
    """Ten cells of a second each on five workers: some are timed, the others taken alike."""
    timed_cells = []

    def fake(name, jobs, folder, workers):
        timed_cells.append(name)
        time.sleep(0.1)
        return Cell(name, 1, seconds=0.1, span=0.1)

    monkeypatch.setattr(forecasts, "_timed", fake)
    monkeypatch.setattr(forecasts, "_loading", lambda: 0.0)
    raw = {key: value for key, value in EXPERIMENT.items() if key != "executor"}
    names = [{"name": "perceptron", "label": f"p{number}"} for number in range(10)]
    raw |= {"architectures": names, "seeds": [0], "workers": 5}
    planned = plan(raw, plugins, "test")
    began = time.perf_counter()
    found = forecast(planned.experiment, tmp_path / "run", planned.jobs)
    spent = time.perf_counter() - began
    assert found.seconds == pytest.approx(10 * 0.1 / 5)
    assert 2 <= len(timed_cells) <= 4 and spent < 1
    assumed = [cell for cell in found.cells if cell.assumed]
    assert len(assumed) == 10 - len(timed_cells) and len(found.cells) == 10
    assert "perhaps 0.1 s, not timed" in found.lines()[9]


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
    assert "1 job, 0 already done" in done.output
    assert "8 networks" in done.output
    assert "with one worker" in done.output and "MB per process" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_what_so_few_repetitions_could_see(plugins):
    """Two trainings have t = 64 at 1 %, three seeds 10: more with every quantity compared."""

    class Few:
        def options(self):
            return {"trainings": 2}

        quantities = {"slope": "its slope"}

    def job(seed):
        probe = SimpleNamespace(component=Few())
        return SimpleNamespace(labels={"probe": "few"}, probe=probe, seed=seed)

    (line,) = could_see([job(0)])
    assert line == (
        "  few: With 2 trainings only effects beyond 64 standard errors can be significant."
    )
    (line,) = could_see([job(seed) for seed in range(3)])
    assert "With 3 seeds only effects beyond 9.9 standard errors" in line
    assert could_see([job(seed) for seed in range(12)]) == []
    # networks are repetitions, too, but there are many of them
    planned = plan(EXPERIMENT, plugins, "test")
    assert could_see(planned.jobs) == []


def test_a_dry_run_of_what_cannot_run_is_exit_code_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, "probe output-spread -a lenet -d two-blobs --dry-run".split())
    assert done.exit_code == 1
    assert "refused: lenet needs" in done.output


def test_workers_share_jobs_and_shards():
    """Two jobs of 10 s on two workers take 10 s; one whose shards take 8 of 10 s takes 6."""
    two = Forecast((Cell("a", 2, seconds=10, span=10),), 2, 0, 2, 1.0)
    assert (two.computing, two.seconds) == (20, 2 * 1 + 10)
    one = Forecast((Cell("a", 1, seconds=10, span=6),), 1, 0, 2, 1.0)
    assert one.seconds == 2 * 1 + 6


def test_times_are_written_as_people_do():
    assert [duration(seconds) for seconds in (0.04, 59, 61, 3700)] == [
        "0.0 s",
        "59.0 s",
        "1:01 min",
        "1:01 h",
    ]


def test_memory_that_is_not_known_is_not_said():
    cell = Cell("a", 1, seconds=5.0, span=5.0, unknown="stopped after 5 s")
    known = Cell("b", 1, seconds=5.0, span=5.0, memory=2**21)
    assert "MB" not in Forecast((cell,), 1, 0, 1, 1.0).lines()[-1]
    assert "2 MB per process" in Forecast((cell, known), 2, 0, 1, 1.0).lines()[-1]
