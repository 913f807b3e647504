"""Run the gallery's commands, each into a folder of its own; finished ones are left alone.

`python docs/make/measure.py docs/gallery/runs.toml runs/gallery [NAME ...]`: all runs, or those
that are named. A run is stopped after its `time_limit` in seconds of CPU time (thirty minutes
where it names none). One that was interrupted goes on where it was.
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
from typing import Any

from freshness import fingerprint

TIME_LIMIT = 1800  # seconds of CPU time
OUT_OF_TIME = -signal.SIGXCPU


def main(file: Path, folder: Path, names: list[str]) -> None:
    """Run what is missing, in the order of the names or of the file."""
    runs = tomllib.loads(file.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or runs:
        command, limit = runs[name]["command"], runs[name].get("time_limit", TIME_LIMIT)
        path = folder / f"{name}.json"
        record = json.loads(path.read_text()) if path.is_file() else {}
        if is_finished(record, command):
            continue
        resumed = record.get("command") == command
        path.write_text(json.dumps({"command": command}) + "\n")
        record = measure(command, folder / name, limit, resumed=resumed)
        path.write_text(json.dumps(record, indent=1) + "\n")
        status = "done" if record["exit"] == 0 else f"failed: {record['message']}"
        print(f"{name}: {status}, {record['seconds']:.0f} s of CPU time", flush=True)


def is_finished(record: dict[str, Any], command: str) -> bool:
    """Another command, an interruption or an error do not finish a run; its time limit does."""
    return record.get("command") == command and record.get("exit") in (0, OUT_OF_TIME)


def measure(command: str, out: Path, limit: int, *, resumed: bool = False) -> dict[str, Any]:
    """Run one command; return its CPU time, exit code, last message, date and code's version.

    `penchant` commands are jobs; `python docs/make/...` writes `table.json` into the folder.

    Args:
        command: What a reader would type.
        out: Folder of the run.
        limit: Seconds of CPU time.
        resumed: Go on with the jobs that are in the folder.
    """
    program, *words = shlex.split(command)
    if program == "python":
        arguments = [*words, str(out)]
    else:
        options = ["--out", str(out), "--executor", "serial", *([] if resumed else ["--fresh"])]
        arguments = ["-m", program, *words, *options]
    before = _cpu_seconds()
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
        check=False,
    )
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return {
        "command": command,
        "exit": done.returncode,
        "seconds": round(_cpu_seconds() - before, 1),
        "message": lines[-1].replace(str(out.resolve()), out.name) if lines else "",
        "date": time.strftime("%Y-%m-%d"),
        "version": code_version(),
        "code": {probe: fingerprint(probe) for probe in _probes(out)},
    }


def _probes(out: Path) -> list[str]:
    """Names of the probes of a run, from its jobs."""
    results = [json.loads(path.read_text()) for path in out.glob("jobs/*/result.json")]
    return sorted({result["probe"]["name"] for result in results})


def code_version() -> str:
    """The commit of the sources, with `-dirty` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    folder = Path(__file__).resolve().parent
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
