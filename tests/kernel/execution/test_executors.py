"""Executors of the kernel, and one of a user's own; those of plugins are in their own tests."""

import functools
import socket
import sys
from pathlib import Path

import attrs
import penchant
import penchant_testing as testing
import pytest
from penchant import __main__
from penchant.execution.runner import run_experiment
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant_testing.executors import WorkerCheck

SMALL = {"architectures": [{"name": "perceptron"}], "datasets": [{"name": "two-blobs"}]}


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_an_executor_does_what_all_executors_do(name, tmp_path):
    testing.check_executor(name, tmp_path)


def test_the_example_of_an_executor_does_what_all_executors_do(tmp_path, root, monkeypatch):
    monkeypatch.syspath_prepend(root / "examples")
    from executor_threads import Threads

    testing.check_executor(Threads, tmp_path, deaths=False)


class Elsewhere:
    """Workers on a machine that has no run folder, or that never call their function."""

    size = 2

    def __init__(self, work, nowhere):
        self._work = work
        self._nowhere = nowhere
        self._ended = {}
        self.started = 0

    def start(self, number):
        self.started += 1
        assert self.started < 50, "the loop has no end"
        self._ended[number] = ""
        if self._nowhere is not None:
            call = functools.partial(
                self._work.func, attrs.evolve(*self._work.args, folder=self._nowhere)
            )
            try:
                call(number)
            except penchant.Error as error:
                self._ended[number] = error

    def ended(self):
        ended, self._ended = self._ended, {}
        return ended

    def stop(self):
        pass


@attrs.frozen
class Far(penchant.Executor):
    """Starts workers on a machine that does not see the folder."""

    name = "far"
    target = "test_executors:start_far"
    remote = True


@attrs.frozen
class Idle(penchant.Executor):
    """Starts workers that return at once."""

    name = "idle"
    target = "test_executors:start_idle"
    remote = True


def start_far(options, work, workers, threads):
    return Elsewhere(work, Path("/no/such/folder"))


def start_idle(options, work, workers, threads):
    return Elsewhere(work, None)


def run_with(executor, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "test_executors", sys.modules[__name__])
    plugins = discovery.load().with_component(executor, penchant.Executor)
    raw = {"probes": [{"name": "worker-check"}], "executor": executor.name, "figures": False}
    plugins = plugins.with_component(WorkerCheck, penchant.Probe)
    return run_experiment(build(raw, plugins, "test"), plugins, tmp_path / "run")


def test_a_machine_that_does_not_see_the_folder_ends_the_run_in_a_sentence(tmp_path, monkeypatch):
    expected = rf"this machine \({socket.gethostname()}\) does not see /no/such/folder"
    with pytest.raises(penchant.Error, match=expected):
        run_with(Far, tmp_path, monkeypatch)


def test_workers_that_return_while_jobs_are_left_end_the_run(tmp_path, monkeypatch):
    with pytest.raises(penchant.Error, match="it returned, but jobs are left"):
        run_with(Idle, tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", [str, Path])
def test_an_object_store_is_refused_as_a_run_folder(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = {**SMALL, "probes": [{"name": "output-spread"}]}
    expected = r"a run folder is a local folder; `penchant push RUN s3://bucket/run` copies it"
    with pytest.raises(penchant.Error, match=expected):
        penchant.run(raw, out=kind("s3://bucket/run"))
    assert not list(tmp_path.iterdir())


def test_the_example_of_an_engine_does_what_all_executors_do(tmp_path, root, monkeypatch):
    monkeypatch.syspath_prepend(root / "examples")
    from engine_futures import Futures

    testing.check_executor(Futures, tmp_path, deaths=False)


def test_the_server_of_workers_ignores_ctrl_c_from_its_first_moment(tmp_path, command):
    script = tmp_path / "starts.py"
    script.write_text(
        "import multiprocessing.forkserver as forkserver\n"
        "from pathlib import Path\n"
        "from penchant.execution.workers import processes\n"
        "processes.start_server()\n"
        "status = Path(f'/proc/{forkserver._forkserver._forkserver_pid}/status').read_text()\n"
        "(line,) = [line for line in status.splitlines() if line.startswith('SigIgn')]\n"
        "print(int(line.split()[1], 16) >> 1 & 1)\n"
        "import signal\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = command(script, script=True, server=True)
    assert done.stdout.split() == ["1", "True"], done.stderr


def test_ctrl_c_while_the_command_is_loaded_is_a_line(monkeypatch, capsys):
    class Interrupts:
        def find_spec(self, name, *arguments):
            if name == "penchant.cli":
                raise KeyboardInterrupt

    monkeypatch.setattr(sys, "meta_path", [Interrupts(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "penchant.cli", raising=False)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\npenchant: interrupted\n"
