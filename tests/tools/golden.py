"""Do numbers and the public surface stay as they are? Compares with tests/fixtures/golden.json.

Numbers: quantities and checksums of arrays of every probe's quick preset, with the arguments its
help names (seed 0, one thread, serial). Surface: `penchant.__all__` with signatures, the help of
every command, hook signatures, and the keys of the files in a run folder.

`python tests/tools/golden.py` compares everything, `--write` stores it, names limit it to some
probes. What changed on purpose is listed, with its reason, in tests/fixtures/golden-changes.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import inspect
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STORED = Path(__file__).parents[1] / "fixtures" / "golden.json"
SECONDS = 1200


def measured(name: str) -> dict[str, Any]:
    """Quantities and array checksums of a probe's quick preset."""
    import penchant
    from penchant.plugins import discovery

    command = _arguments(discovery.load().find("probe", name).component)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--seed", "0", "--threads", "1", "--executor", "serial", "--quiet"]
        penchant_command = str(Path(sys.executable).with_name("penchant"))
        done = subprocess.run(
            [penchant_command, "probe", name, *command, *options, "--out", folder],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1:]}
        (result,) = penchant.read(folder).results()
        quantities = {}
        for key, quantity in sorted(result.quantities.items()):
            known = {**quantity.numbers, "count": quantity.count}
            quantities[key] = {part: each for part, each in known.items() if each is not None}
        arrays = {}
        for key, array in sorted(result.arrays.items()):
            digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
            arrays[key] = f"{array.dtype}{list(array.shape)} {digest}"
        (path,) = Path(folder).glob("jobs/*/result.json")
        keys = sorted(json.loads(path.read_text()))
        return {"quantities": quantities, "arrays": arrays, "keys": keys}


def _arguments(probe: Any) -> list[str]:
    """What the probe's example is measured on, for its quick preset."""
    return shlex.split(probe.example)[3:]


def surface() -> dict[str, Any]:
    """Public names with their signatures, help of all commands, those of plugins too, and hooks."""
    import click
    import penchant
    from click.testing import CliRunner
    from penchant import cli
    from penchant.components import hookspecs

    names = {name: _signature(getattr(penchant, name)) for name in penchant.__all__}
    helps = {}
    for command in ["", *cli.main.list_commands(click.Context(cli.main))]:
        words = [command, "--help"] if command else ["--help"]
        shown = CliRunner().invoke(cli.main, words, terminal_width=100)
        helps[command or "penchant"] = shown.output.splitlines()
    hooks = {}
    for name, function in vars(hookspecs).items():
        if name.startswith("penchant_"):
            hooks[name] = list(inspect.signature(function).parameters)
    return {"names": names, "help": helps, "hooks": hooks}


def _signature(thing: Any) -> str:
    if not callable(thing):
        return type(thing).__name__
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return "callable"
    return ", ".join(each.name for each in parameters)


def _probes() -> list[str]:
    from penchant.plugins import discovery

    own = (each for each in discovery.load().registrations("probe"))
    return sorted(each.component.name for each in own if each.distribution.startswith("penchant"))


def _in_a_process(name: str) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--one", name],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout)


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Every leaf that differs, with its value before and after."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted(before.keys() | after.keys()):
            inner = f"{path}/{key}" if path else key
            if key not in before or key not in after:
                found.append(f"{inner}: {'new' if key not in before else 'gone'}")
            else:
                found += differences(before[key], after[key], inner)
        return found
    both_missing = before != before and after != after  # a missing number is NaN
    if before == after or both_missing:
        return []
    return [f"{path}: {before!r} -> {after!r}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probes", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.probes[0])))
        return
    names = given.probes or _probes()
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    with concurrent.futures.ThreadPoolExecutor(given.workers) as pool:
        probes = dict(zip(names, pool.map(_in_a_process, names)))
    now = {**stored, "probes": {**stored.get("probes", {}), **probes}}
    if not given.probes:
        now = {"probes": probes, "surface": surface()}
    if given.write:
        STORED.write_text(json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    changed = differences(stored, now)
    for line in changed:
        print(line)
    print(f"{len(names)} probes compared, {len(changed)} differences")
    sys.exit(0 if given.write or not changed else 1)


if __name__ == "__main__":
    main()
