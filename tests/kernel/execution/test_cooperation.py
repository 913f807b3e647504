"""Several commands on one folder: they share the work, and refuse what they cannot share."""

import json
import os
import signal
import time

import penchant
import pytest


@pytest.fixture
def shared(tmp_path, install):
    """Write the experiment; gives its file, its log and the arguments of the command."""
    install("shared")
    log = tmp_path / "log"
    file = tmp_path / "slow.toml"

    def make(*, seeds=(0,), executor="serial", others=False, **options):
        lines = [f"seeds = {list(seeds)}", f'executor = "{executor}"', "figures = false"]
        lines += ["workers = 2", "[[probes]]", 'name = "slow"', f'log = "{log}"']
        if others:
            lines.append(f'others = "{tmp_path / "run" / "queue" / "progress"}"')
        lines += [f"{name} = {value}" for name, value in options.items()]
        file.write_text("\n".join(lines))
        return ["run", file, "--out", tmp_path / "run"]

    make.log = log
    return make


def numbers(folder):
    """The bytes of all arrays, by seed."""
    found = {}
    for result in penchant.read(folder).results():
        assert result.status == "done", result.error
        found[result.record["seed"]] = result.arrays["numbers"].tobytes()
    return found


def alone(tmp_path, seeds, shards, log):
    """What a run that no other command disturbs gives."""
    probe = {"name": "slow", "shards": shards, "seconds": 0.0, "log": str(log)}
    raw = {"probes": [probe], "seeds": list(seeds), "executor": "serial", "figures": False}
    penchant.run(raw, out=tmp_path / "alone")
    return list(numbers(tmp_path / "alone").values())


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.02)


def test_commands_on_one_folder_share_jobs(tmp_path, shared, started):
    call = shared(seeds=range(6), shards=1, seconds=0.4, others=True)
    first = started(*call)
    wait_for(shared.log, first)
    second = started(*call).finished(300)
    assert first.finished(300).returncode == second.returncode == 0
    assert "1 other command in this folder: process" in second.stderr
    lines = [line.split() for line in shared.log.read_text().splitlines()]
    # Each job once, by two processes.
    assert sorted(line[0] for line in lines) == list("012345")
    assert len({line[3] for line in lines}) == 2
    assert [job["status"] for job in penchant.read(tmp_path / "run").jobs] == ["done"] * 6
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [job["status"] for job in record["jobs"]] == ["done"] * 6
    assert not (tmp_path / "run" / "queue").exists()
    expected = alone(tmp_path, range(6), 1, tmp_path / "other")
    assert list(numbers(tmp_path / "run").values()) == expected


def test_a_second_command_helps_with_the_shards_of_a_single_job(tmp_path, shared, started):
    call = shared(shards=12, seconds=0.4, others=True)
    first = started(*call)
    wait_for(shared.log, first)
    assert started(*call).finished(300).returncode == 0
    assert first.finished(300).returncode == 0
    lines = [line.split() for line in shared.log.read_text().splitlines()]
    assert sorted(int(line[1]) for line in lines) == list(range(12))
    assert len({line[3] for line in lines}) == 2
    assert list(numbers(tmp_path / "run").values()) == alone(tmp_path, [0], 12, tmp_path / "other")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_a_killed_command_had_is_done_by_the_other(tmp_path, shared, started, how):
    call = shared(seeds=range(4), shards=3, seconds=0.2)
    first = started(*call)
    wait_for(shared.log, first)
    second = started(*call)
    commands = tmp_path / "run" / "queue" / "commands"
    while len(list(commands.glob("*.json"))) < 2:
        time.sleep(0.02)
    first.send_signal(how)
    assert second.finished(300).returncode == 0
    first.wait()
    assert not (tmp_path / "run" / "queue").exists()
    expected = alone(tmp_path, range(4), 3, tmp_path / "other")
    assert list(numbers(tmp_path / "run").values()) == expected


def test_fresh_and_other_code_and_another_experiment_are_refused(
    tmp_path, shared, started, install
):
    call = shared(seeds=[0, 1], shards=40, seconds=0.2)
    first = started(*call)
    wait_for(shared.log, first)
    who = f"process {first.pid} on {os.uname().nodename}"
    fresh = started(*call, "--fresh").finished(300)
    assert fresh.returncode == 2
    assert f"cannot be moved aside: {who} at work there" in fresh.stderr
    # More seeds extend a folder, but not one in which others work.
    more = started(*shared(seeds=[0, 1, 2], shards=40, seconds=0.2)).finished(300)
    assert more.returncode == 2
    assert f"{who} works in {tmp_path / 'run'} with another experiment" in more.stderr
    # Another version of the plugin.
    site = tmp_path / "site"
    info = site / "penchant_shared-1.0.dist-info" / "METADATA"
    info.write_text(info.read_text().replace("Version: 1.0", "Version: 2.0"))
    other = started(*shared(seeds=[0, 1], shards=40, seconds=0.2)).finished(300)
    assert other.returncode == 2
    assert f"{who} works in {tmp_path / 'run'} with other code, data or versions" in other.stderr
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.wait()
    # A command that was killed is in no one's way.
    again = penchant.run(
        {"probes": [{"name": "slow", "shards": 1, "log": str(shared.log)}], "executor": "serial"},
        out=tmp_path / "run",
        fresh=True,
    )
    assert again.done
    assert len(list(tmp_path.glob("run.*"))) == 1


def test_attempts_of_a_killed_command_do_not_count(tmp_path, shared, started):
    call = shared(seeds=[0, 1], shards=3, seconds=0.5, executor="processes")
    for _ in range(4):
        process = started(*call)
        locks = tmp_path / "run" / "queue" / "locks"
        while not (locks.is_dir() and any(path.stat().st_size for path in locks.iterdir())):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    shared(seeds=[0, 1], shards=3, seconds=0.5, executor="processes")
    assert started(*call).finished(300).returncode == 0
