"""CONTRIBUTING's walk from `penchant run` to report.html is the one that the code takes."""

import inspect
import re
import sys

from click.testing import CliRunner
from penchant.cli import main
from penchant.plugins import discovery

MOST = 15
EXPERIMENT = """
executor = "serial"
[[architectures]]
name = "perceptron"
[[datasets]]
name = "two-blobs"
[[probes]]
name = "output-spread"
networks = 4
"""


def hops(root):
    """(file, function) of every step that the table names."""
    text = (root / "CONTRIBUTING.md").read_text()
    table = text.partition("## From `penchant run`")[2].partition("\n## ")[0]
    found = []
    for row in re.findall(r"^\| \d+ \| (.+?) \|", table, re.M):
        first, *others = re.findall(r"`(.+?)`", row)
        file, _, function = first.replace("<name>", "output_spread").partition(": ")
        for name in (function, *others):
            path = file if file.endswith(".py") else f"{file}/__init__.py"
            found.append((f"/{path}", name.partition("(")[0]))
    return found


def calls(arguments):
    """Every call of the command, in order: file and function; a generator once."""
    found = []
    begun = set()

    def profile(frame, event, argument):
        code = frame.f_code
        # A generator is called again whenever it goes on.
        if event != "call" or "penchant" not in code.co_filename or code in begun:
            return
        if code.co_flags & inspect.CO_GENERATOR:
            begun.add(code)
        found.append((code.co_filename, code.co_qualname))

    sys.setprofile(profile)
    try:
        done = CliRunner().invoke(main, arguments)
    finally:
        sys.setprofile(None)
    assert done.exit_code == 0, done.output
    return found


def test_each_step_is_taken_once_and_in_this_order(root, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    discovery.load.cache_clear()
    (tmp_path / "one.toml").write_text(EXPERIMENT)
    taken = calls(["run", str(tmp_path / "one.toml"), "--out", str(tmp_path / "run")])
    assert (tmp_path / "run" / "report.html").is_file()
    steps = hops(root)
    assert 10 < len(steps) <= MOST + 1  # one row names two functions
    positions = []
    for file, function in steps:
        where = [
            number
            for number, (path, name) in enumerate(taken)
            if path.endswith(file) and name == function
        ]
        assert len(where) == 1, (file, function, len(where))
        positions += where
    assert positions == sorted(positions)
