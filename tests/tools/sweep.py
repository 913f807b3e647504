"""Crash a run before and after every file operation, and resume what each crash has left.

    python tests/tools/sweep.py [--every 1] [--seconds 3600]

A run with a training, shards, arrays, figures and a report is run once, with every operation that
changes its folder counted: files that are opened to be written, renamed, removed, locked bytes that
are written, folders, what is sent to the disk. What lies in the folder before and after each of them
is what a crash at that moment leaves: it is copied, and a new process resumes the copy. It must end
well and leave the bytes of an uninterrupted run, and nothing else. Copies that are equal are
resumed once, and count for each of their moments.
"""

import argparse
import builtins
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import soak

# An operation, and which of its arguments is a path; None: it is a descriptor.
OPERATIONS = {
    "mkdir": 0,
    "rmdir": 0,
    "remove": 0,
    "unlink": 0,
    "rename": 1,
    "replace": 1,
    "fsync": None,
    "pwrite": None,
    "ftruncate": None,
}
RAW = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "learning"}, {"name": "output-spread", "networks": 70}],
    "executor": "serial",
}
VARYING = ("cost",)  # of a result: how long it took


class Moments:
    """Copies of a folder before and after everything that changes it."""

    def __init__(self, folder, copies, every):
        self.folder, self.copies, self.every = folder, copies, every
        self.moments = []  # (what happened, where, number of the copy)
        self.known = {}  # content to number of the copy
        self.inside = False
        self.operations = 0

    def take(self, when, name, path):
        """Copy the folder, unless an equal copy is there."""
        content = fingerprint(self.folder)
        if content not in self.known:
            self.known[content] = len(self.known)
            if self.folder.is_dir():
                shutil.copytree(self.folder, self.copies / str(self.known[content]))
        self.moments.append((f"{when} {name} {path}", self.known[content]))

    @contextlib.contextmanager
    def around(self, name, path):
        """One operation; what copying itself does is none."""
        skipped = self.inside or not path.is_relative_to(self.folder)
        if not skipped:
            self.operations += 1
            skipped = self.operations % self.every != 0
        if skipped:
            yield
            return
        self.inside = True
        self.take("before", name, path.relative_to(self.folder))
        self.inside = False
        try:
            yield
        finally:
            self.inside = True
            self.take("after", name, path.relative_to(self.folder))
            self.inside = False

    def wrapped(self, name, real, which):
        """The operation with a copy before and after it."""

        def operation(*arguments, **options):
            if which is None:
                path = Path(f"/proc/self/fd/{number_of(arguments[0])}").readlink()
            else:
                path = whole(arguments[which], options.get("dir_fd"))
            with self.around(name, path):
                return real(*arguments, **options)

        return operation

    def opening(self, real):
        """`open` of a file to be written."""

        def opened(file, mode="r", *arguments, **options):
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return real(file, mode, *arguments, **options)
            with self.around("open", whole(file)):
                return real(file, mode, *arguments, **options)

        return opened

    def opening_number(self, real):
        """`os.open` of a file to be written."""

        def opened(path, flags, *arguments, **options):
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return real(path, flags, *arguments, **options)
            with self.around("open", whole(path, options.get("dir_fd"))):
                return real(path, flags, *arguments, **options)

        return opened

    def watch(self, stack):
        """Put itself around every operation, as long as the stack is open."""
        for name, which in OPERATIONS.items():
            wrapped = self.wrapped(name, getattr(os, name), which)
            stack.enter_context(mock.patch.object(os, name, wrapped))
        stack.enter_context(mock.patch.object(os, "open", self.opening_number(os.open)))
        opened = self.opening(io.open)
        for module in (io, builtins):
            stack.enter_context(mock.patch.object(module, "open", opened))


def number_of(file):
    """The descriptor of a file."""
    return file if isinstance(file, int) else file.fileno()


def whole(path, folder=None):
    """An absolute path; `shutil.rmtree` gives names within an open folder."""
    if folder is not None:
        path = Path(f"/proc/self/fd/{folder}").readlink() / os.fsdecode(path)
    return Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100  links are not followed


def fingerprint(folder):
    """A hash of all names and contents."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = b"folder" if path.is_dir() else path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def contents(folder):
    """What must be the same: results without their cost, arrays, networks, figures, numbers."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name in ("run.json", "report.html"):
            continue
        found[name] = path.read_bytes()
        if path.name == "result.json":
            record = json.loads(found[name])
            for key in VARYING:
                del record[key]
            found[name] = json.dumps(record)
    return found


def run(folder, moments=None):
    """Run it, in this process; the exit code."""
    import penchant

    with contextlib.ExitStack() as stack:
        if moments is not None:
            moments.watch(stack)
        return 0 if penchant.run(RAW, out=folder).done else 1


def in_a_child(function, *arguments):
    """What a function returns in a forked process; the text of its error."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def call():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            sender.send(function(*arguments))
        except BaseException as error:
            sender.send(f"{type(error).__name__}: {error}")

    process = multiprocessing.get_context("fork").Process(target=call)
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        found = "it died"
    process.join()
    return found


def recorded(folder, copies, every):
    """Run it once and copy its folder at every moment; the moments and how many operations."""
    moments = Moments(folder, copies, every)
    code = run(folder, moments)
    return code, moments.moments, moments.operations


def resumed(copy, expected):
    """What is wrong after a copy was resumed; empty if nothing is."""
    code = in_a_child(run, copy)
    if code != 0:
        return f"ended with {code}"
    found = contents(copy)
    differing = [name for name in expected if found.get(name) != expected[name]]
    if differing or found.keys() != expected.keys():
        return f"differs: {differing or sorted(found.keys() ^ expected.keys())}"
    report = (copy / "report.html").read_text()
    record = json.loads((copy / "run.json").read_text())
    if not report.rstrip().endswith("</html>") or {e["status"] for e in record["jobs"]} != {"done"}:
        return "its report or record is not whole"
    return ""


def sweep(base, every, seconds):
    """Crash and resume; prints what happened and returns what was wrong."""
    load()
    folder, copies = base / "run", base / "copies"
    copies.mkdir()
    ended = in_a_child(recorded, folder, copies, every)
    if isinstance(ended, str) or ended[0] != 0:
        return [f"the uninterrupted run failed: {ended}"]
    _, moments, operations = ended
    expected = contents(folder)
    began, outcomes = time.monotonic(), {}
    for number in dict.fromkeys(number for _, number in moments):
        if time.monotonic() - began > seconds:
            break
        copy = copies / str(number)
        outcomes[number] = resumed(copy, expected)
        shutil.rmtree(copy, ignore_errors=True)
    tried = [(what, outcomes[number]) for what, number in moments if number in outcomes]
    problems = [f"{what}: {problem}" for what, problem in tried if problem]
    print(
        f"{operations} file operations, {len(moments)} crashes before and after them "
        f"({len(outcomes)} different folders): {len(tried) - len(problems)} resumed and identical, "
        f"{len(problems)} not, {len(moments) - len(tried)} not tried, "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )
    if len(tried) < len(moments):
        problems.append(f"{len(moments) - len(tried)} crashes were not tried: give more --seconds")
    return problems


def load():
    """Load what every run needs, before processes are forked."""
    site = tempfile.mkdtemp(prefix="penchant-sweep-")
    write_plugin(Path(site))
    sys.path.insert(0, site)
    import matplotlib.backends.backend_svg  # noqa: F401
    import penchant.execution.runner  # noqa: F401
    import penchant_report.report  # noqa: F401
    import torch._dynamo  # noqa: F401
    from penchant.plugins import discovery

    discovery.load.cache_clear()
    discovery.load()


def write_plugin(site):
    """The plugin of the soak: a training, shards, arrays, a figure."""
    (site / "penchant_soaked.py").write_text(soak.PLUGIN)
    info = site / "penchant_soaked-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penchant-soaked\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penchant]\nsoaked = penchant_soaked\n")


def main(arguments=None):
    """Sweep in a temporary folder; exit code 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="only every so many operations")
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="penchant-sweep-") as base:
        problems = sweep(Path(base), options.every, options.seconds)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
