"""What several tests need: an installed plugin made on the fly, and the command line."""

import gc
import os
import sys
import textwrap
from pathlib import Path

import pytest
from forked_command import Forked
from penchant.plugins import discovery

ROOT = Path(__file__).resolve().parent
collect_ignore = [
    "tests/benchmarks"
]  # scripts of `make bench`: to look for tests, they are imported


def pytest_ignore_collect(collection_path):
    """Of sources, only those with an example: to look for one, a module is imported."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
        return None
    top, *below = collection_path.relative_to(ROOT).parts
    is_source = top == "framework" or (top == "plugins" and "src" in below)
    return True if is_source and ">>>" not in collection_path.read_text() else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thousands of tests live until the end: nobody looks for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # Graphs of autograd are many small objects: by default they take a tenth of the time.
        gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture
def gpu():
    """The device of tests marked `cuda`: a GPU, or what replaces it (`make test-cuda`)."""
    from penchant_testing.on_cuda import has_tested_device, on_tested_device

    if not has_tested_device():
        pytest.skip("no CUDA device")
    with on_tested_device() as device:
        yield device


@pytest.fixture
def without_report(monkeypatch):
    """Runs in this process write no report.html, which takes longer than a small measurement."""
    monkeypatch.setattr("penchant_report.report.write_report", lambda run: None)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a plugin: a module and a real dist-info folder on the path. Returns the folder.

    The module is the one of this name in tests/fixtures/plugins, or `source`.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))

    def make(noun, source=None, *, prefix="", requires="penchant>=0.1", version="1.0", point=None):
        module = f"penchant_{noun.replace('-', '_')}"
        if source is None:
            source = (ROOT / "tests/fixtures/plugins" / f"{module}.py").read_text()
        source = prefix + textwrap.dedent(source)
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        lines = [
            "Metadata-Version: 2.1",
            f"Name: penchant-{noun}",
            f"Version: {version}",
            *([f"Requires-Dist: {requires}"] if requires else []),
        ]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(f"[penchant]\n{noun} = {point or module}\n")
        discovery.load.cache_clear()
        return site

    yield make
    discovery.load.cache_clear()
    for name in [
        name
        for name in sys.modules
        if name.startswith("penchant_")
        and "site" in str(getattr(sys.modules[name], "__file__", ""))
    ]:
        if str(site) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def started(tmp_path, tmp_path_factory):
    """Start `penchant ...`, or a script, as a user would, in an empty folder; gives what runs."""
    found = []

    def start(*arguments, **options):
        found.append(Forked(arguments, tmp_path, tmp_path_factory.mktemp("said"), **options))
        return found[-1]

    yield start
    for each in found:
        each.process.kill()
        each.process.join()


@pytest.fixture
def command(started):
    """Run `penchant ...`, or a script, as a user would, in an empty folder, until it ends."""

    def run(*arguments, timeout=300, **options):
        return started(*arguments, **options).finished(timeout)

    return run
