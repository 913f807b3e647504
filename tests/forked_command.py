"""Runs `penchant ...` in a process of its own, forked from a server that has loaded torch.

What a command does and says is what it would in a fresh interpreter; only torch, which takes two
seconds to load, is there already.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
from pathlib import Path

from penchant.execution.processes import LOADED

STREAMS = {1: "stdout", 2: "stderr"}


def run_command(arguments, folder, scratch, *, timeout, env=None):
    """The command, run in a folder.

    Args:
        arguments: What follows `penchant`.
        folder: Where it runs.
        scratch: A folder for what it says.
        timeout: Seconds after which it is killed.
        env: Its environment; that of this process by default.

    Returns:
        What `subprocess.run` returns.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    environment = dict(os.environ if env is None else env)
    call = (list(map(str, arguments)), str(folder), str(scratch), environment)
    process = context.Process(target=_penchant, args=call)
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        raise subprocess.TimeoutExpired(arguments, timeout)
    said = {name: (Path(scratch) / name).read_text() for name in STREAMS.values()}
    return subprocess.CompletedProcess(arguments, process.exitcode, **said)


def _penchant(arguments, folder, scratch, environment):
    """`python -m penchant ARGUMENTS`, in the child."""
    os.environ.clear()
    os.environ.update(environment)
    for number, name in STREAMS.items():
        file = os.open(Path(scratch) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.argv = ["penchant", *arguments]
    runpy.run_module("penchant", run_name="__main__", alter_sys=True)
