"""Kill a run again and again, and compare what is left with an uninterrupted one.

    python tests/soak.py --kills 100 --seconds 1200

A grid of 36 jobs runs in two worker processes, and is killed at random moments: the main process by
SIGKILL, SIGTERM and SIGINT, workers by SIGKILL. When it is done the folder is begun anew, until all
kills are used. At the end of each folder every number, array and checkpoint must equal those of one
serial run, no figure may be missing, and no temporary file or shard may be left.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """
title = "A grid to be killed"
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8]
figures = true

[[architectures]]
name = "perceptron"
[[architectures]]
name = "perceptron"
label = "wide"
width = 64

[[datasets]]
name = "two-blobs"

[[probes]]
name = "output-spread"
networks = 192
[[probes]]
name = "output-spread"
label = "more"
networks = 320
"""
SIGNALS = ("main SIGKILL", "main SIGTERM", "main SIGINT", "worker SIGKILL")
VARYING = ("cost", "warnings")  # of a result: how long it took, and that it was computed again


def start(folder, experiment, *, executor):
    """Start a run as a user would, in a process group of its own."""
    call = [sys.executable, "-m", "penchant", "run", str(experiment), "--out", str(folder)]
    call += ["--executor", executor, "--workers", "2"]
    return subprocess.Popen(
        call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def workers_of(process):
    """Process ids of the children of a process."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(text) for text in path.read_text().split()]
    except OSError:
        return []


def kill(process, how):
    """Send one signal; False where there was nobody to send it to."""
    who, _, name = how.partition(" ")
    number = getattr(signal, name)
    try:
        if who == "main":
            process.send_signal(number)
            return process.poll() is None
        # The first child is the tracker of resources; workers come after it.
        workers = workers_of(process)
        if not workers:
            return False
        os.kill(random.choice(workers), number)
        return True
    except ProcessLookupError:
        return False


def contents(folder):
    """What must not depend on kills: results without their cost, arrays, figures."""
    found = {}
    for path in sorted(folder.glob("jobs/*/*")):
        name = str(path.relative_to(folder))
        if path.name == "result.json":
            record = json.loads(path.read_text())
            kept = {key: value for key, value in record.items() if key not in VARYING}
            found[name] = json.dumps(kept, sort_keys=True)
        elif path.name == "figures":
            found[name] = tuple(sorted(each.name for each in path.iterdir()))
        else:
            found[name] = path.read_bytes() if path.is_file() else "a folder"
    return found


def stale(folder):
    """Temporary files and shards that nobody needs any more."""
    hidden = [path for path in folder.rglob(".*") if path.name not in (".lock",)]
    return [*hidden, *folder.rglob("*.damaged"), *folder.glob("jobs/*/shards")]


def soak(kills, seconds, seed):
    """Kill until all kills are used or the time is over; print what happened."""
    random.seed(seed)
    base = Path(tempfile.mkdtemp(prefix="penchant-soak-"))
    experiment = base / "grid.toml"
    experiment.write_text(EXPERIMENT)
    reference = start(base / "reference", experiment, executor="serial")
    assert reference.wait() == 0, reference.stderr.read()
    expected = contents(base / "reference")
    sent = collections.Counter()
    problems = []
    folders = 0
    deadline = time.monotonic() + seconds
    while sum(sent.values()) < kills and time.monotonic() < deadline:
        folders += 1
        folder = base / f"killed-{folders}"
        code = None
        while code != 0:
            process = start(folder, experiment, executor="processes")
            code = disturbed(process, kills, sent)
            if code not in (0, 1, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):
                problems.append(f"exit code {code}: {process.stderr.read()[-500:]}")
                break
        problems += compared(folder, expected)
        print(f"folder {folders}: {sum(sent.values())} kills so far, {len(problems)} problems")
        shutil.rmtree(folder)
    shutil.rmtree(base)
    print(f"{sum(sent.values())} kills: {dict(sent)}")
    print(f"{folders} folders of 36 jobs, {len(problems)} problems")
    print("\n".join(problems))
    return not problems


def disturbed(process, kills, sent):
    """Send signals to a run until it ends or there are no kills left; its exit code."""
    while process.poll() is None:
        # Long enough that workers reach work, most of the time.
        time.sleep(random.uniform(1.0, 9.0))
        if process.poll() is not None or sum(sent.values()) >= kills:
            break
        how = random.choice(SIGNALS)
        if kill(process, how):
            sent[how] += 1
        if how.startswith("main"):
            break
    return process.wait()


def compared(folder, expected):
    """What differs from the uninterrupted run."""
    found = contents(folder)
    problems = [f"lost: {name}" for name in expected.keys() - found.keys()]
    problems += [f"left over: {name}" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        if expected[name] != found[name]:
            problems.append(f"differs: {name}")
    problems += [f"stale: {path.relative_to(folder)}" for path in stale(folder)]
    return problems


def main():
    """Read how many kills, and kill."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.exit(0 if soak(options.kills, options.seconds, options.seed) else 1)


if __name__ == "__main__":
    main()
