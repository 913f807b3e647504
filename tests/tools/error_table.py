"""Stated standard errors of every probe's quantities beside the spread over 24 seeds, as Markdown.

`python tests/tools/error_table.py` measures what is missing and prints the table; `make errors`
does the same. The runs are the small ones of the conformance tests, in which whatever an error is
over is drawn again with the seed. What was measured is stored in runs/errors, so that a killed run
resumes; `--fresh` measures the named probes again, `--print` prints what is there.

A spread of 24 seeds is uncertain by 15 %. Beside a ratio outside of its limits stands how probable
such a spread is where the ratio is at its limit: only a small one tells it from chance. `--seeds 96`
measures more.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penchant_testing.checks import small_run
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "runs" / "errors"
SEEDS = 24
LEAST, MOST = 0.7, 1.4
LEVEL = 0.01


def small_probes() -> Iterator[Any]:
    """The probes of every plugin, with the runs in which their errors are compared."""
    files = {
        path
        for path in ROOT.glob("plugins/*/tests/test_*.py")
        if "conformance(" in path.read_text()
    }
    for path in sorted(files - {ROOT / "plugins/penchant-testing/tests/test_testing.py"}):
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", ()):
                if mark.name != "parametrize" or mark.args[0] != "prop":
                    continue
                for case in mark.args[1]:
                    (prop,) = case.values
                    if prop.name.endswith("-claims"):
                        yield prop.check.__self__


def measure(
    name: str, number: int, arguments: Any, path: Path, seeds: int = SEEDS
) -> dict[str, Any]:
    """Values and errors of the seeds that are missing, stored one by one."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    for seed in map(str, range(seeds)):
        if seed in stored:
            continue
        with tempfile.TemporaryDirectory() as folder:
            options = {**arguments, "seed": int(seed), "figures": False}
            quantities = small_run(name, Path(folder), options).quantities
        stored[seed] = {
            key: [each.value, each.stderr]
            for key, each in quantities.items()
            if not each.missing and each.value is not None
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_text(json.dumps(stored))
        path.with_suffix(".new").replace(path)
        print(f"{name} {number} seed {seed}", file=sys.stderr, flush=True)
    return stored


def rows(stored: dict[str, Any]) -> Iterator[tuple[str, int, float | None, float]]:
    """Quantity, number of seeds, stated error (root mean square) and spread over seeds."""
    names = dict.fromkeys(key for run in stored.values() for key in run)
    for key in names:
        pairs = [run[key] for run in stored.values() if key in run]
        values = [float(value) for value, _ in pairs]
        errors = [float(error) for _, error in pairs if error is not None]
        if 2 * len(pairs) < len(stored) or len(pairs) < 2:
            continue
        stated = None
        if 2 * len(errors) >= len(pairs):
            stated = math.sqrt(statistics.fmean(error**2 for error in errors))
        yield key, len(pairs), stated, statistics.stdev(values)


def chance(ratio: float, count: int) -> float:
    """How probable a spread so far off is, of normal values whose error is at its limit.

    >>> f"{chance(1.6, 24):.2f} {chance(1.6, 96):.3f} {chance(0.55, 24):.2f}"
    '0.22 0.043 0.03'
    """
    limit = MOST if ratio > MOST else LEAST
    squares = (count - 1) * (limit / ratio) ** 2
    spread = stats.chi2(count - 1)
    return float(spread.cdf(squares) if ratio > MOST else spread.sf(squares))


def table(probes: list[Any], *, missing: bool, seeds: int) -> Iterator[str]:
    """Lines of the table, and what is outside."""
    yield "| probe | quantity | seeds | stated | spread | ratio | |"
    yield "|---|---|--:|--:|--:|--:|---|"
    inside = outside = certain = 0
    for probe in probes:
        name = probe.cls.name
        exceptions = probe.exceptions
        runs = exceptions.claims.get(name, probe.runs)
        runs = list(runs) if isinstance(runs, list | tuple) else [runs]
        seen: set[str] = set()
        for number, arguments in enumerate(runs):
            path = STORED / f"{name}-{number}.json"
            if missing:
                try:
                    stored = measure(name, number, arguments, path, seeds)
                except Exception as error:
                    print(f"{name} {number}: {error}", file=sys.stderr, flush=True)
            stored = json.loads(path.read_text()) if path.exists() else {}
            for key, count, stated, spread in rows(stored):
                if key in seen or (stated is None and number + 1 < len(runs)):
                    continue
                seen.add(key)
                reason = exceptions.unclaimed.get(name, {}).get(key, "")
                if stated is None:
                    if spread:
                        note = reason or "no error is stated"
                        yield f"| {name} | {key} | {count} | | {spread:.3g} | | {note} |"
                    continue
                ratio = 1.0 if stated == spread == 0 else stated / spread if spread else math.inf
                good = LEAST <= ratio <= MOST
                inside += good
                outside += not good
                note = reason
                if not good:
                    p = chance(ratio, count)
                    certain += p < LEVEL
                    note = f"**outside** (p {p:.2g}) {reason}"
                line = f"| {name} | {key} | {count} | {stated:.3g} | {spread:.3g} | {ratio:.2f} |"
                yield f"{line} {note} |"
    yield ""
    yield f"{inside + outside} quantities with an error: {inside} within {LEAST} to {MOST}, {outside} outside,"
    yield f"{certain} of them beyond chance (p below {LEVEL})."


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probes", nargs="*", help="only these")
    parser.add_argument("--fresh", action="store_true", help="measure them again")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--print", action="store_true", help="measure nothing")
    chosen = parser.parse_args()
    probes = [
        each for each in small_probes() if each.cls.name in chosen.probes or not chosen.probes
    ]
    if chosen.fresh:
        for probe in probes:
            for path in STORED.glob(f"{probe.cls.name}-[0-9]*.json"):
                path.unlink()
    for line in table(probes, missing=not chosen.print, seeds=chosen.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
