"""Failures, caused for real: what is told, the exit code, and that finished work stays."""

import errno
import json
import os
import signal
import subprocess

import penchant
import pytest
from click.testing import CliRunner
from penchant import cli
from penchant.execution.queue import locks

pytestmark = pytest.mark.usefixtures("with_report")  # it is told there, too


@pytest.fixture
def unlucky(tmp_path, install):
    """Run a file with these fates, one job each; gives the exit code and what was told."""
    install("unlucky")

    def run(*fates, folder=None, head="", size=10, arguments=()):
        file = tmp_path / "fates.toml"
        probes = []
        for fate in fates:
            probes.append(f'[[probes]]\nname = "unlucky"\nlabel = "{fate}"\n')
            probes.append(f'fate = "{fate}"\nsize = {size}\n')
        file.write_text(head + "".join(probes))
        out = str(folder or tmp_path / "run")
        done = CliRunner().invoke(cli.main, ["run", str(file), "--out", out, *arguments])
        return done.exit_code, done.output

    return run


def record(folder):
    return json.loads((folder / "run.json").read_text())


def entries(folder):
    found = {}
    for job in record(folder)["jobs"]:
        found[job["labels"]["probe"]] = (job["status"], job.get("error", ""))
    return found


SERIAL = 'executor = "serial"\nfigures = false\n'
PROCESSES = 'executor = "processes"\nworkers = 2\nfigures = false\n'


def test_jobs_that_raise_give_nan_or_take_too_long_fail_and_the_others_go_on(unlucky, tmp_path):
    fates = ("raises", "nan", "endless", "memory", "exits", "fine")
    code, told = unlucky(*fates, head=SERIAL + "time_limit = 1.0\n")
    assert code == 1
    found = entries(tmp_path / "run")
    status, error = found["raises"]
    assert status == "failed" and error.startswith("ValueError: not today (at penchant_unlucky.py:")
    assert found["nan"][0] == "failed" and "found" in found["nan"][1]
    limit = "the job took longer than its time_limit of 1 seconds"
    assert found["endless"] == ("failed", limit)
    assert found["memory"][0] == "failed" and "memory" in found["memory"][1]
    assert found["exits"][0] == "failed" and found["exits"][1].startswith("SystemExit: 3")
    assert found["fine"] == ("done", "")
    assert "not today" in told and limit in told
    report = (tmp_path / "run" / "report.html").read_text()
    assert "not today" in report and "time_limit" in report


def test_a_worker_that_dies_takes_only_its_own_job_along(unlucky, tmp_path):
    code, told = unlucky("killed", "segfault", "fine", "nothing", head=PROCESSES)
    assert code == 1
    found = entries(tmp_path / "run")
    for fate, how in (("killed", "SIGKILL"), ("segfault", "SIGSEGV")):
        reason = f"the job crashed its worker 3 times (last: signal {how})"
        assert found[fate][0] == "failed" and found[fate][1].startswith(reason)
        assert reason in told
    assert found["fine"][0] == found["nothing"][0] == "done"


@pytest.fixture
def listens_to_ctrl_c():
    """A background shell lets its children ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listens_to_ctrl_c")
@pytest.mark.parametrize(
    ("fate", "code", "why"),
    [("terminated", 143, "terminated"), ("interrupted", 130, "interrupted")],
)
def test_a_signal_stops_the_run_in_good_order(unlucky, tmp_path, fate, code, why):
    found, told = unlucky("fine", fate, head=SERIAL)
    assert found == code
    assert f"{why}; finished work is stored; run the same command to continue" in told
    assert record(tmp_path / "run")["stopped"] == why
    assert entries(tmp_path / "run") == {"fine": ("done", ""), fate: ("pending", "")}
    assert (tmp_path / "run" / "report.html").is_file()
    assert not (tmp_path / "run" / "queue").exists()
    # What was stopped is not held against a run that ends well.
    again, _ = unlucky("fine", head=SERIAL, folder=tmp_path / "other")
    assert again == 0 and "stopped" not in record(tmp_path / "other")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of half a megabyte; skipped where nobody may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def remount(folder, options):
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


@pytest.mark.parametrize("head", [SERIAL, PROCESSES], ids=["serial", "processes"])
def test_a_full_disk_is_told_and_what_was_finished_stays(unlucky, small_disk, head):
    folder = small_disk / "run"
    code, told = unlucky("fine", "nothing", head=head, folder=folder, size=40_000)
    assert code == 2
    assert (
        "No space left on device; free some space and run again: finished jobs are not repeated"
        in told
    )
    assert "Traceback" not in told
    done = sorted(folder.glob("jobs/*/result.json"))
    before = [path.read_bytes() for path in done]
    # Two workers may both find no room.
    assert len(done) == 1 or (head == PROCESSES and not done)
    remount(small_disk, "size=8m")
    code, told = unlucky("fine", "nothing", head=head, folder=folder, size=40_000)
    assert code == 0
    assert [path.read_bytes() for path in done] == before
    assert not list(folder.rglob(".arrays*"))


def test_a_disk_that_cannot_be_written_is_told_and_read_nevertheless(unlucky, small_disk):
    folder = small_disk / "run"
    assert unlucky("fine", head=SERIAL, folder=folder)[0] == 0
    remount(small_disk, "ro")
    code, told = unlucky("fine", "nothing", head=SERIAL, folder=folder)
    assert code == 2
    assert "Read-only file system; choose another folder with --out" in told
    assert "Traceback" not in told
    assert penchant.read(folder).results()[0].quantities["found"].value == 7.0
    code, told = unlucky("fine", head=SERIAL, folder=folder, arguments=["--fresh"])
    assert code == 2 and "Read-only file system" in told and "Traceback" not in told
    reported = CliRunner().invoke(cli.main, ["report", str(folder)])
    assert reported.exit_code == 2 and "Read-only file system" in reported.output
    remount(small_disk, "rw")


def test_a_mounted_folder_is_not_moved_aside(unlucky, small_disk):
    assert unlucky("fine", head=SERIAL, folder=small_disk)[0] == 0
    code, told = unlucky("fine", head=SERIAL, folder=small_disk, arguments=["--fresh"])
    assert code == 2 and "Traceback" not in told
    assert f"cannot write {small_disk}: Device or resource busy" in told
    assert penchant.read(small_disk).done


def test_a_folder_that_is_deleted_during_the_run_is_filled_again(unlucky, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    monkeypatch.setenv("TO_BE_DELETED", str(folder))
    code, told = unlucky("fine", "deletes", "nothing", head=SERIAL)
    assert code == 0, told
    assert set(entries(folder).values()) == {("done", "")}
    values = [each.quantities["found"].value for each in penchant.read(folder).results()]
    assert values == [7.0, 7.0, 7.0]
    assert not (folder / "queue").exists()


def test_a_result_that_is_deleted_during_the_run_is_missed(unlucky, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    assert unlucky("fine", head=SERIAL)[0] == 0
    (first,) = folder.glob("jobs/*")
    monkeypatch.setenv("TO_BE_DELETED", str(first))
    code, _ = unlucky("fine", "deletes", head=SERIAL)
    assert code == 1
    found = entries(folder)
    assert found["fine"] == ("pending", "its result has been deleted")
    assert found["deletes"][0] == "done"


def test_a_single_job_that_ends_its_command_runs_in_a_worker_the_next_time(
    unlucky, tmp_path, command
):
    file, head = tmp_path / "one.toml", PROCESSES.replace("2", "1")
    file.write_text(f'{head}[[probes]]\nname = "unlucky"\nfate = "killed"\n')
    unlucky  # noqa: B018  its probe is installed
    call = ["run", file, "--out", tmp_path / "run"]
    assert command(*call).returncode == -signal.SIGKILL
    again = command(*call)
    assert again.returncode == 1, again.stderr
    reason = "the job crashed its worker 3 times (last: signal SIGKILL)"
    assert reason in again.stderr and entries(tmp_path / "run")["unlucky"][1].startswith(reason)
    assert not list(tmp_path.rglob("begun.txt"))


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_figures_that_hang_end_with_the_time_of_their_job(tmp_path, install, executor):
    install("hanging")
    raw = {"probes": [{"name": "hanging"}], "executor": executor, "time_limit": 2.0}
    run = penchant.run(raw, out=tmp_path / "run")
    (result,) = run.results()
    limit = "the job took longer than its time_limit of 2 seconds"
    told = f"figures could not be drawn: {limit}; `penchant report` draws them"
    assert result.status == "done" and result.warnings == (told,)
    assert not list(run.folder.glob("jobs/*/figures/*"))
    assert (run.folder / "report.html").is_file()


def test_a_full_disk_at_the_end_is_told_by_the_exit_code(unlucky, tmp_path, monkeypatch):
    real = os.replace

    def full(source, target):
        if str(target).endswith("quantities.csv"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    code, told = unlucky("fine", head=SERIAL)
    assert code == 2 and "quantities.csv: No space left on device; free some space" in told
    monkeypatch.setattr(os, "replace", real)
    assert unlucky("fine", head=SERIAL)[0] == 0
    assert (tmp_path / "run" / "quantities.csv").is_file()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_locks_is_told_with_the_cure(unlucky, monkeypatch, number):
    def refuses(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks.fcntl, "fcntl", refuses)
    code, told = unlucky("fine", head=SERIAL)
    assert code == 2 and "Traceback" not in told
    assert f"a file system with locks, this one has none ({os.strerror(number)})" in told
    assert "choose a folder on a local disk with --out" in told
