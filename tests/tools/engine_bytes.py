"""Does an executor give the bytes of `serial` for every probe's small run?

    python tests/tools/engine_bytes.py ray

The small runs are those of the conformance tests. Every file of the jobs' folders is compared; of
`result.json` all but what a job has cost. Names limit it to some probes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penchant_testing as testing
from penchant.components.targets import resolve
from penchant.execution.job.attempts import run_job
from penchant.execution.job.context import Context
from penchant.execution.job.devices import resolve_device
from penchant.execution.workers.engines import Order, Server
from penchant.plugins import discovery
from penchant.results.job_folder import JobFolder
from penchant_numerics.device import limited_threads
from penchant_testing.builders import only_job

ROOT = Path(__file__).parents[2]
BESIDE = ["tests/tools", "tests/numerics"]  # what tests share


def small_runs() -> dict[str, dict[str, Any]]:
    """The first small run of every probe that has one."""
    found: dict[str, dict[str, Any]] = {}

    def record(distribution: str, *, small: Any = None, **more: Any) -> None:
        for name, runs in (small or {}).items():
            found[name] = runs[0] if isinstance(runs, (list, tuple)) else runs

    testing.conformance = record
    for path in sorted(ROOT.glob("plugins/*/tests/test_*.py")):
        if "testing.conformance(" in path.read_text():
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            spec.loader.exec_module(module)
    probes = {each.component.name for each in discovery.load().registrations("probe")}
    return {name: run for name, run in found.items() if name in probes and run is not None}


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a job, without what it has cost."""
    found = {}
    for path in sorted(folder.glob("**/*")):
        # The runner removes shards of jobs that are done.
        if path.is_file() and path.parent.name != "shards":
            found[str(path.relative_to(folder))] = path.read_bytes()
            if path.name == "result.json":
                record = {**json.loads(path.read_text()), "cost": None}
                found[str(path.relative_to(folder))] = json.dumps(record).encode()
    return found


def compared(jobs: dict[str, Any], executor: str, folder: Path, seconds: float) -> dict[str, str]:
    """What differs for each probe, or why its job failed; empty if nothing does."""
    here, there = folder / "serial", folder / executor
    found = {}
    deadline = time.monotonic() + seconds
    for name, outcome in engine_outcomes(list(jobs.values()), executor, there):
        job = jobs[name]
        with limited_threads(job.settings.threads):
            expected = run_job(Context(job, here, device=resolve_device("cpu")))
        if outcome:
            found[name] = outcome
        elif expected.status != "done":
            found[name] = f"serial: {expected.error}"
        else:
            found[name] = difference(
                *(contents(JobFolder.of(each, job.id).path) for each in (here, there))
            )
        print(f"{name}: {found[name] or 'the same bytes'}", flush=True)
        if time.monotonic() > deadline:
            break
    return found


def engine_outcomes(jobs: list[Any], executor: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Names of probes as an engine ends their jobs, and why one failed."""
    cls = discovery.load().find("executor", executor, "engine_bytes").component
    start = resolve(cls.target, executor)
    engine = start(cls(), None, 2, 1)
    server = Server(folder, jobs, cls.attempts, lambda message: None)
    names = {job.id: job.probe.component.name for job in jobs}
    try:
        for job, outcome in engine.run([Order.of(job, "", ()) for job in jobs], server):
            server.finish(job, outcome)
            result = JobFolder.of(folder, job).read(arrays=False)
            yield names[job], "" if result.status == "done" else f"{executor}: {result.error}"
    finally:
        engine.stop()
        server.close()


def difference(expected: dict[str, bytes], found: dict[str, bytes]) -> str:
    """Names of files that are not the same."""
    names = sorted(expected.keys() | found.keys())
    return ", ".join(name for name in names if expected.get(name) != found.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("executor", help="an engine, such as ray")
    parser.add_argument("probes", nargs="*")
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_args()
    shared = [ROOT / each for each in BESIDE] + sorted(ROOT.glob("plugins/*/tests"))
    sys.path += map(str, shared)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, shared))
    runs = small_runs()
    names = given.probes or sorted(runs)
    jobs = {name: only_job(name, {**runs[name], "figures": False}) for name in names}
    folder = Path(tempfile.mkdtemp())
    try:
        found = compared(jobs, given.executor, folder, given.seconds)
    finally:
        shutil.rmtree(folder)
    problems = [f"{name}: {text}" for name, text in found.items() if text]
    problems += [f"not compared: {name}" for name in names if name not in found]
    same = len(names) - len(problems)
    print(f"{same} of {len(names)} probes give the same bytes", *problems, sep="\n")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
