"""Runs `penchant ...` and scripts in processes of their own, forked from a server with torch.

What a command does and says is what it would in a fresh interpreter; only torch, which takes two
seconds to load, and what draws figures are there already. Workers of a command are forked from the
same server.
"""

import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import no_disk_waits  # noqa: F401 - here and in every command
from penchant.execution.workers import processes

STREAMS = {1: "stdout", 2: "stderr"}
DRAWING = ("jinja2", "matplotlib.backends.backend_svg", "matplotlib.figure")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# A process has one server, which the first pool of workers or the first command starts: whoever it
# is, commands find the same things loaded.
processes.LOADED = tuple(dict.fromkeys((*processes.LOADED, *DRAWING)))


class Forked:
    """A command or a script that runs.

    Args:
        arguments: What follows `penchant`; or the path of a script, and what follows it.
        folder: Where it runs.
        scratch: A folder for what it says.
        env: Its environment; that of this process by default.
        script: Is it a script?
        closed: Numbers of the streams that are closed, as `2>&-` closes one.
        server: Does it start a server for its workers, as it would in a fresh interpreter?
    """

    def __init__(
        self, arguments, folder, scratch, *, env=None, script=False, closed=(), server=False
    ):
        self.arguments = list(map(str, arguments))
        self.scratch = Path(scratch)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(processes.LOADED))
        environment = dict(os.environ if env is None else env)
        call = (self.arguments, str(folder), str(scratch), environment, script, closed, server)
        self.process = context.Process(target=_run, args=call)
        # The server reads how many threads it may have when it starts, and must have but one.
        with mock.patch.dict(os.environ, ONE_THREAD):
            self.process.start()
        self.pid = self.process.pid

    def poll(self):
        """Its exit code; None while it runs."""
        return self.process.exitcode

    def wait(self, timeout=None):
        """Its exit code when it has ended; None where it has not after that many seconds."""
        self.process.join(timeout)
        return self.process.exitcode

    @property
    def returncode(self):
        """Its exit code, as `subprocess.Popen` calls it."""
        return self.process.exitcode

    def send_signal(self, number):
        """Send it a signal."""
        os.kill(self.pid, number)

    def finished(self, timeout):
        """What `subprocess.run` returns, when it has ended; it is killed after that many seconds."""
        if self.wait(timeout) is None:
            self.process.kill()
            raise subprocess.TimeoutExpired(self.arguments, timeout)
        said = {name: (self.scratch / name).read_text() for name in STREAMS.values()}
        return subprocess.CompletedProcess(self.arguments, self.returncode, **said)


def _run(arguments, folder, scratch, environment, script, closed, server):
    """`python -m penchant ARGUMENTS`, or `python ARGUMENTS`, in the child."""
    if not server:
        # It knows the address of the server that it was forked from, which has all that is needed.
        multiprocessing.forkserver._forkserver.ensure_running = lambda: None
        multiprocessing.forkserver.ensure_running = lambda: None
    os.environ.clear()
    os.environ.update(environment)
    for number, name in STREAMS.items():
        file = os.open(Path(scratch) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
        if number in closed:
            os.close(number)
            # What Python makes of a stream that is closed when it starts.
            setattr(sys, name, None)
            setattr(sys, f"__{name}__", None)
    # A background shell lets its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    named = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in named if path and path not in sys.path]
    if script:
        sys.path.insert(0, str(Path(arguments[0]).parent))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        sys.path.insert(0, folder)
        sys.argv = ["penchant", *arguments]
        runpy.run_module("penchant", run_name="__main__", alter_sys=True)
