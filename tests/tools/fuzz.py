"""Feed the readers of files and of the command line with damaged input.

    python tests/tools/fuzz.py [KIND ...] [--cases N] [--seconds S] [--seed S]
    python tests/tools/fuzz.py KIND --seed S --case N          # one of them again

Whatever is in a file or typed, what comes out is a result or a `penchant.Error`; anything else fails:
another exception, a traceback, a call that takes too long, memory without bound. Every case is made
of the kind, the seed and its number alone. One that fails is printed with these and saved in
`build/fuzz`. Where atheris is installed, checkpoints are mutated by it as well, guided by what the
reader reaches.
"""

import argparse
import collections
import contextlib
import copy
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
import zipfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "build" / "fuzz"
SECONDS_A_CASE = 30  # of CPU; of the clock, where other work is done beside it, twenty times that
MEMORY = 4 << 30  # bytes that cases may add to this process
ODD = (
    (True, False, 0, -1, 3, 1.5, -0.0, 10**18, 10**400, 1e308, float("inf"), float("nan"))
    + ("", " ", "x", "x" * 5000, "../../x", "a/b", "\x1b[31m", "\0", "\ud800", "é", "1", "run:x#y")
    + ("import", "mlp:widths=[3", "os:system", "done", "failed", "float32", "quick", "<script>")
    + ([], [[]], [["x"]], [1, "x"], [None], {}, {"a": {}}, {"name": "mlp"}, [{}], [0] * 1000)
)
TOKENS = b"[[ ]] = \" ' \n # { } , . null NaN 1e999 -1 \\u0000 \xff\xfe \x80 true \x00".split(b" ")


class HangError(BaseException):
    """A case takes too long."""


# ---- mutations


def bytes_changed(random, content):
    """Bytes with a few of them changed, cut, doubled, or replaced by what means something."""
    content = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randrange(len(content) + 1)
        end = min(len(content), start + random.choice((1, 1, 4, 50)))
        piece = random.choice(
            (
                b"",
                bytes(content[start:end]) * 2,
                random.randbytes(end - start),
                random.choice(TOKENS),
                bytes(byte ^ 1 << random.randrange(8) for byte in content[start:end]),
            )
        )
        content[start:end] = piece
        if random.random() < 0.05:
            del content[random.randrange(len(content) + 1) :]
    return bytes(content)


def value_changed(random, value, odd=ODD):
    """A copy of nested tables and lists in which a few entries are other ones."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            return copy.deepcopy(random.choice(odd))
        holder, key = random.choice(places)
        how = random.randrange(6)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[random.choice(("x", f"{key}s", "name", "label"))] = holder[key]
        elif how == 2:
            other, theirs = random.choice(places)
            holder[key] = copy.deepcopy(other[theirs])
        elif how == 3:
            holder[key] = [holder[key]]
        else:
            holder[key] = copy.deepcopy(random.choice(odd))
    return value


def _places(value):
    """Every (table or list, key) in a nested value."""
    if isinstance(value, dict):
        items = list(value.items())
    else:
        items = list(enumerate(value)) if isinstance(value, list) else []
    for key, inner in items:
        yield value, key
        yield from _places(inner)


# ---- kinds: each makes a case from random numbers, and tries it


class Experiments:
    """Experiment files: read, validated, and cut into jobs."""

    cases = 400

    def __init__(self, folder):
        from penchant.plugins import discovery

        self.plugins = discovery.load()
        files = sorted((ROOT / "examples").rglob("*.toml"))
        self.files = [path.read_bytes() for path in files]

    def make(self, random):
        """The content of a file."""
        import tomli_w

        content = random.choice(self.files)
        if random.random() < 0.7:
            raw = value_changed(random, tomllib.loads(content.decode()))
            try:
                content = tomli_w.dumps(raw).encode(errors="surrogatepass")
            except (TypeError, AttributeError, ValueError):
                pass  # no table, or what TOML has not: changed as text
            else:
                return {"experiment.toml": content}
        return {"experiment.toml": bytes_changed(random, content)}

    def attempt(self, folder):
        """Everything that happens before the first job."""
        from penchant.experiments.experiment import build, read_toml

        experiment = build(read_toml(folder / "experiment.toml"), self.plugins, "experiment.toml")
        if len(experiment.settings.seeds) < 10:
            experiment.jobs("cpu")


class Runs:
    """Run folders: result.json, run.json and arrays, read by every command that reads."""

    cases = 150
    commands = (["status"], ["cite"], ["report"], ["compare"])

    def __init__(self, folder):
        import penchant
        from soak import EXPERIMENT

        self.base = folder / "base"
        raw = tomllib.loads(EXPERIMENT)
        raw["probes"] = [{"name": "output-spread", "networks": 2}]
        with mock.patch.object(sys, "stderr", io.StringIO()):
            penchant.run({**raw, "executor": "serial"}, out=self.base)
        (self.job, *_) = sorted(self.base.glob("jobs/*"))

    def make(self, random):
        """The files that differ from those of a good run; the command is one of them."""
        which = random.randrange(4)
        job = self.job.relative_to(self.base)
        made = {"command": random.choices(self.commands, (10, 10, 2, 1))[0][0].encode()}
        if which == 3:
            path = job / "arrays.npz"
            arrays = self._arrays(random)
            record = json.loads((self.base / job / "result.json").read_text())
            # With the checksum of what is there: the reader gets beyond it.
            record["arrays_sha256"] = _sha256(arrays)
            made[str(job / "result.json")] = json.dumps(record).encode()
            made[str(path)] = arrays
            return made
        path = Path("run.json") if which == 0 else job / "result.json"
        content = (self.base / path).read_bytes()
        if random.random() < 0.75:
            record = value_changed(random, json.loads(content))
            if isinstance(record, dict) and random.random() < 0.8:
                record.pop("quantities_sha256", None)
            content = json.dumps(record).encode()
        else:
            content = bytes_changed(random, content)
        return {**made, str(path): content}

    def _arrays(self, random):
        """An archive of arrays with damaged heads, or a damaged archive."""
        content = (self.job / "arrays.npz").read_bytes()
        if random.random() < 0.3:
            return bytes_changed(random, content)
        archive = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(archive, "w") as new:
            for name in old.namelist():
                array = old.read(name)
                head, body = array[:128], array[128:]
                shape = random.choice((b"(1000000000000000,)", b"(-1,)", b"()", b"(1, 2)", b"x"))
                head = random.choice((bytes_changed(random, head), head.replace(b"(2,)", shape)))
                new.writestr(random.choice((name, "../x.npy", "x")), head + body)
        return archive.getvalue()

    def attempt(self, folder):
        """Read, then one command."""
        import penchant

        command = (folder / "command").read_text()
        run = folder / "run"
        shutil.copytree(self.base, run)
        for path in folder.rglob("*"):
            name = path.relative_to(folder)
            if path.is_file() and name.parts[0] not in ("run", "command"):
                shutil.copyfile(path, run / name)
        arguments = [command, str(run)]
        if command == "compare":
            arguments += [str(self.base), "--out", str(folder / "compare.html")]
        typed(arguments)
        read = penchant.read(run)
        read.table()
        read.results()


class Checkpoints:
    """Checkpoints: opcodes of their pickles, and the archives around them."""

    cases = 300

    def __init__(self, folder):
        import torch
        from torch import nn

        network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
        moments = {0: {"step": torch.tensor(3.0), "exp_avg": torch.ones(3, 2)}}
        optimizer = {"state": moments, "param_groups": [{"lr": 0.1, "params": [0]}]}
        state = {"model": network.state_dict(), "step": 3, "optimizer": optimizer}
        self.files = []
        for kept in (network.state_dict(), state, {**state, "own": collections.Counter("ab")}):
            for new in (True, False):
                file = io.BytesIO()
                torch.save(kept, file, _use_new_zipfile_serialization=new)
                self.files.append(file.getvalue())

    def make(self, random):
        """The content of a file."""
        content = random.choice(self.files)
        if not zipfile.is_zipfile(io.BytesIO(content)) or random.random() < 0.2:
            return {"network.pt": bytes_changed(random, content)}
        archive = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(archive, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name.endswith("data.pkl"):
                    data = opcodes_changed(random, data)
                new.writestr(name, data)
        return {"network.pt": archive.getvalue()}

    def attempt(self, folder):
        """Read it."""
        from penchant_import.state_files import read_tensors

        read_tensors(folder / "network.pt")


def opcodes_changed(random, data):
    """A pickle with opcodes that are others, left out, doubled, or have other arguments."""
    import pickletools

    pieces = []
    places = [place for _, _, place in pickletools.genops(data)]
    for start, end in zip(places, [*places[1:], len(data)]):
        pieces.append(data[start:end])
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randrange(len(pieces))
        opcode = random.choice(pickletools.opcodes).code.encode("latin-1")
        named = random.choice((b"cos\nsystem\n", b"cbuiltins\neval\n", b"ctorch\nload\n"))
        pieces[place] = random.choice(
            (
                b"",
                pieces[place] * 2,
                random.choice(pieces),
                opcode + pieces[place][1:],
                bytes_changed(random, pieces[place]),
                named,
                pickle.dumps(random.choice((2**70, "x" * 300, (), [1], {"a": 1})), 2)[2:-1],
            )
        )
    return b"".join(pieces)


class CommandLines:
    """What is typed, up to the moment in which jobs would begin."""

    cases = 200

    def __init__(self, folder):
        import click
        import penchant.api  # noqa: F401  what is replaced below must not be imported as it is then
        from penchant import cli
        from penchant.plugins import discovery

        names = {each.component.name for each in discovery.load().registrations()}
        options = {name for each in cli.main.commands.values() for name in _options(each)}
        values = ["0", "-1", "1e9", "nan", "x=1", "networks=3", "probes.nad.networks=[", "a.b=1"]
        values += ["directions=x", "mlp:widths=[1,2]", "mlp:widths=", ":", "=", ",", "[[", "1,2,3"]
        # A byte that is no UTF-8 reaches a program as "\udcff"; other surrogates cannot be typed.
        values += ["\x1b[2J", "\udcff", "é", "a" * 3000, "/nowhere", "../..", "s3://x/y", "import:"]
        values += ["import:factory=os:system", "run:x#y", "--", "-", ""]
        self.commands = [*cli.main.list_commands(click.Context(cli.main)), "nothing"]
        # Those that start something of their own.
        self.commands = [each for each in self.commands if each not in ("doctor", "new", "card")]
        self.words = [*sorted(names), *sorted(options), *values]

    def make(self, random):
        """The words."""
        command = random.choice((*self.commands, "probe", "run"))
        words = [command, *random.choices(self.words, k=random.randrange(6))]
        return {"words.json": json.dumps(words).encode()}

    def attempt(self, folder):
        """Type it; jobs never begin."""
        from penchant.errors import Error
        from penchant.execution import runner

        def stops(*arguments, **options):
            raise Error("here the run would begin")

        words = json.loads((folder / "words.json").read_text())
        before = Path.cwd()
        os.chdir(folder)
        try:
            with mock.patch.object(runner, "run_experiment", stops):
                typed(words)
        finally:
            os.chdir(before)


def _options(command):
    return [name for each in command.params for name in each.opts if name.startswith("-")]


def typed(words):
    """Type a command; what is no sentence raises."""
    from click.testing import CliRunner
    from penchant import cli

    done = CliRunner().invoke(cli.main, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if "Traceback (most recent call last)" in done.output:
        raise AssertionError(done.output)


def _sha256(content):
    import hashlib

    return hashlib.sha256(content).hexdigest()


KINDS = {
    "experiments": Experiments,
    "runs": Runs,
    "checkpoints": Checkpoints,
    "commands": CommandLines,
}


# ---- trying


def outcome_of(kind, made, folder):
    """How a case ended: "result", "error", or the text of what is neither."""
    import penchant

    shutil.rmtree(folder, ignore_errors=True)
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    def late(number, frame):
        raise HangError(f"took more than {SECONDS_A_CASE} seconds")

    before = [(each, signal.signal(each, late)) for each in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS_A_CASE)
    signal.setitimer(signal.ITIMER_REAL, 20 * SECONDS_A_CASE)
    try:
        with warnings.catch_warnings(), mock.patch.object(sys, "stderr", io.StringIO()):
            warnings.simplefilter("ignore")
            kind.attempt(folder)
        return "result"
    except penchant.Error:
        return "error"
    except KeyboardInterrupt:
        raise
    except BaseException:  # that is what is looked for
        return traceback.format_exc()
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)


def tried(name, cases, seed, *, seconds=float("inf"), first=0):
    """Try cases of a kind; outcomes by number, and the (number, text) of those that fail."""
    counts, failed = collections.Counter(), []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penchant-fuzz-") as text:
        kind = KINDS[name](Path(text))
        for number in range(first, first + cases):
            if time.monotonic() - began > seconds:
                break
            made = kind.make(random.Random(f"{name} {seed} {number}"))
            outcome = outcome_of(kind, made, Path(text) / "case")
            known = outcome in ("result", "error")
            counts[outcome if known else "failed"] += 1
            if not known:
                failed.append((number, outcome))
                save(f"{name}-{seed}-{number}", made, outcome)
    return counts, failed


def save(name, made, text):
    """Keep a case that fails."""
    for file, content in {**made, "traceback.txt": text.encode(errors="replace")}.items():
        path = SAVED / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def guided(seed, runs, seconds):
    """Checkpoints by atheris, in a process of its own, which it ends itself; the exit code."""
    call = [sys.executable, __file__, "--guided", str(seed), str(runs), str(int(seconds))]
    return subprocess.run(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def fuzz_guided(seed, runs, seconds):
    """What that process does."""
    import atheris
    import penchant

    with atheris.instrument_imports(include=["penchant_import", "pickle"]):
        from penchant_import import state_files
    with tempfile.TemporaryDirectory() as text:
        corpus = Path(text) / "corpus"
        corpus.mkdir()
        for number, content in enumerate(Checkpoints(Path(text)).files):
            (corpus / str(number)).write_bytes(content)

        def read(content):
            path = Path(text) / "network.pt"
            path.write_bytes(content)
            with contextlib.suppress(penchant.Error):
                state_files.read_tensors(path)

        SAVED.mkdir(parents=True, exist_ok=True)
        options = [f"-runs={runs}", f"-seed={seed + 1}", f"-max_total_time={seconds}"]
        options += [f"-artifact_prefix={SAVED}/atheris-", "-max_len=8192", str(corpus)]
        atheris.Setup([sys.argv[0], *options], read)
        atheris.Fuzz()


def main(arguments=None):
    """Try every kind; exit code 1 where a case failed."""
    if arguments is None and sys.argv[1:2] == ["--guided"]:
        return fuzz_guided(*map(int, sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; by default all")
    parser.add_argument("--cases", type=int, help="of each kind")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="this one only")
    options = parser.parse_args(arguments)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 30) + MEMORY, resource.RLIM_INFINITY))
    failures = 0
    for name in options.kinds or KINDS:
        first, cases = options.case or 0, options.cases or KINDS[name].cases
        began = time.monotonic()
        cases = 1 if options.case is not None else cases
        counts, failed = tried(name, cases, options.seed, seconds=options.seconds, first=first)
        took = time.monotonic() - began
        listed = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        print(f"{name}: {counts.total()} cases in {took:.0f} s: {listed}", flush=True)
        for number, text in failed:
            last = text.strip().splitlines()[-1]
            print(
                f"  python tests/tools/fuzz.py {name} --seed {options.seed} --case {number}   # {last}"
            )
        failures += len(failed)
        if name == "checkpoints" and _has_atheris() and options.case is None:
            code = guided(options.seed, 20 * cases, options.seconds)
            print(f"checkpoints by atheris: {'no failure' if code == 0 else f'exit code {code}'}")
            failures += code != 0
    if failures:
        print(f"{failures} failed; they are in {SAVED}")
    return 1 if failures else 0


def _has_atheris():
    import importlib.util

    return importlib.util.find_spec("atheris") is not None


if __name__ == "__main__":
    sys.exit(main())
