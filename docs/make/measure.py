"""Run the gallery's commands, each into a folder of its own; those that are there are left alone.

`python docs/make/measure.py docs/gallery/runs.toml runs/gallery`: a run that takes more than
two minutes of CPU time is stopped, and its entries say that they need a GPU.
"""

from __future__ import annotations

import json
import resource
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

LIMIT = 120  # seconds of CPU time


def main(file: Path, folder: Path) -> None:
    """Run what is missing, in the order of the file."""
    commands = tomllib.loads(file.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    for name, run in commands.items():
        record = folder / f"{name}.json"
        if record.is_file() and stands(json.loads(record.read_text()), run["command"]):
            continue
        entry_record = measure(run["command"], folder / name)
        record.write_text(json.dumps(entry_record, indent=1) + "\n")
        status = "done" if entry_record["exit"] == 0 else f"failed: {entry_record['message']}"
        print(f"{name}: {status}, {entry_record['seconds']:.0f} s of CPU time", flush=True)


def stands(entry_record: dict[str, str | float], command: str) -> bool:
    """What another command measured, or what failed before its time, is measured again."""
    return entry_record.get("command") == command and entry_record["exit"] in (0, -signal.SIGXCPU)


def measure(command: str, out: Path) -> dict[str, str | float]:
    """One command with its time of one core, its exit and the last line it said."""
    words = shlex.split(command)
    options = ["--out", str(out), "--executor", "serial", "--fresh"]
    before = _used()
    done = subprocess.run(
        [sys.executable, "-m", *words, *options],
        capture_output=True,
        text=True,
        preexec_fn=_limit,
        check=False,
    )
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return {
        "command": command,
        "exit": done.returncode,
        "seconds": round(_used() - before, 1),
        "message": said[-1].replace(str(out.resolve()), out.name) if said else "",
        "date": time.strftime("%Y-%m-%d"),
    }


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
