"""Locks of files: who holds them, and what is said while they are waited for."""

import os
import signal
import subprocess
import sys
import time

import penchant
import pytest
from penchant.execution.job import checkpoints
from penchant.execution.queue import folders
from penchant.execution.queue.locks import Holder, lock, locked

HOLDS = """
import sys, time
from pathlib import Path
from penchant.execution.queue.locks import locked
with locked(Path(sys.argv[1]), lambda seconds, holder: None):
    print("has it", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def paused(tmp_path):
    """The path of a file whose lock a paused process holds, and the process."""
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDS, path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"has it\n"
        process.send_signal(signal.SIGSTOP)
        while not Holder(process.pid, 0, os.uname().nodename).is_stopped:
            time.sleep(0.01)
        yield path, process
        process.kill()


def waiting(path, **options):
    """What is said once about waiting for a training in this folder."""
    kept = checkpoints.Checkpoints(path.parent, None, None, seed=0, tell=None, **options)
    return kept._patience()


def test_the_holder_of_a_training_is_named_once_with_a_cure(paused, capsys):
    path, process = paused
    say = waiting(path)

    def waits(seconds, holder):
        say(seconds, holder)  # too early
        say(seconds + checkpoints.SECONDS_TO_SAY, holder)
        say(seconds + checkpoints.SECONDS_TO_SAY, holder)
        process.kill()

    # However the holder dies, it lets go.
    with locked(path, waits):
        assert path.read_text().split()[0] == str(os.getpid())
    assert path.read_bytes() == b""
    said = capsys.readouterr().err
    who = f"process {process.pid} on {os.uname().nodename}, which is stopped"
    cure = f"`kill -CONT {process.pid}` lets it go on, `kill -KILL {process.pid}` ends it"
    name = f"{path.parent.parent.name}/{path.parent.name}"
    assert said == f"penchant: waits for {name}, which {who}: {cure} trains\n"


def test_a_worker_of_the_same_command_that_trains_is_no_news(tmp_path, capsys):
    own = Holder.own()
    say = waiting(tmp_path / "lock")
    say(1e3, own)
    say(1e3, None)
    assert capsys.readouterr().err == ""
    say(1e3, Holder(17, own.parent, "elsewhere"))
    assert "process 17 on elsewhere" in capsys.readouterr().err


def test_a_command_that_waits_too_long_for_a_folder_names_the_holder(paused, monkeypatch):
    path, process = paused
    monkeypatch.setattr(folders, "SECONDS_TO_JOIN", 0.05)
    path.rename(path.with_name(".lock"))
    with (
        pytest.raises(penchant.Error, match=f"0.05 seconds by process {process.pid} on"),
        folders._locked(path.parent),
    ):
        raise AssertionError("the lock is held by another process")


def test_a_lock_is_let_go_even_where_a_child_has_the_file_open(tmp_path):
    path = tmp_path / "lock"
    with locked(path, lambda *_: None):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    descriptor = os.open(path, os.O_RDWR)
    try:
        assert lock(descriptor)
    finally:
        os.close(descriptor)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_file_that_holds_something_else_names_nobody(tmp_path):
    for text in ("", "half a", "a b c"):
        (tmp_path / "lock").write_text(text)
        descriptor = os.open(tmp_path / "lock", os.O_RDWR)
        assert Holder.read(descriptor) is None
        os.close(descriptor)
