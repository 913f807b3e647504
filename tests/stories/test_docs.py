"""The site: its code runs, its commands are valid, its generated pages are those of the code."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import penchant
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from penchant import cli
from penchant.experiments.experiment import build
from penchant.plugins import discovery

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WRITTEN = [page for page in PAGES if "do not edit" not in page.read_text()]
OWN = """
import torch

def make(shape, outputs):
    size = torch.Size(shape).numel()
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(size, outputs))

def samples():
    return torch.randn(20, 1, 4, 4), torch.arange(20) % 2
"""


CONTINUED = ("paper", "coming-from", "library")  # pages whose blocks go on from one another


def blocks(page, language):
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)
    if page.stem in CONTINUED:
        found = ["\n".join(found)] if found else []
    return [pytest.param(block, id=f"{page.stem}-{number}") for number, block in enumerate(found)]


def of_all_pages(language):
    return [block for page in WRITTEN for block in blocks(page, language)]


def imported(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module of the reader's own, and the reader in it."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own", None)


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("block", of_all_pages("python"))
def test_python_blocks_run(block, own, request):
    name = "docs_" + re.sub(r"\W", "_", request.node.callspec.id)
    path = own / f"{name}.py"
    path.write_text(block)
    imported(path, name)


def commands():
    lines = []
    for page in WRITTEN:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.S | re.M):
            for line in block.splitlines():
                if line.startswith("$ penchant "):
                    lines.append(pytest.param(line.removeprefix("$ penchant "), id=line[2:60]))
    return lines


@pytest.mark.parametrize("line", commands())
def test_commands_are_valid(line, own, monkeypatch):
    """They name things that are installed, and options that these have; nothing is computed."""
    import shlex

    def only_build(request, *rest, **options):
        return build(request.raw, discovery.load()).jobs("cpu")

    monkeypatch.setattr(cli, "_execute", only_build)
    done = CliRunner().invoke(cli.main, shlex.split(line))
    assert done.exit_code == 0, (done.output, done.exception)


@pytest.mark.parametrize("block", of_all_pages("toml"))
def test_experiments_are_valid(block, own):
    assert build(tomllib.loads(block), discovery.load()).jobs("cpu")


def test_a_tracker_is_told_what_was_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how-to/trackers.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    path = tmp_path / "tracking.py"
    path.write_text(block)
    plugins = discovery.load().with_listener("tracking", imported(path, "tracking"))
    experiment = {
        "title": "tracked",
        "shape": [1, 4, 4],
        "architectures": [{"name": "mlp", "widths": [4]}],
        "probes": [{"name": "nad", "networks": 8}],
        "figures": False,
    }
    run = penchant.run(experiment, out=tmp_path / "run", plugins=plugins, progress=False)
    trace = run.results()[0].quantities["trace"]
    (line,) = (tmp_path / "results.log").read_text().splitlines()
    assert line.startswith(f"tracked {run.jobs[0]['id']} ") and repr(trace.value) in line


def test_generated_pages_are_those_of_the_declarations(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "make"))
    generator = imported(DOCS / "make/catalogue.py", "docs_catalogue")
    expected = generator.pages()
    for name, text in expected.items():
        path = DOCS / name
        found = path.read_text() if path.is_file() else ""
        assert found == text, f"{name} is stale: run `make pages`"
    kept = {str(path.relative_to(DOCS)) for path in (DOCS / "catalogue").glob("*.md")}
    assert kept == {name for name in expected if name.startswith("catalogue/")}


def test_thumbnails_of_the_catalogue_exist_and_can_be_read():
    text = (DOCS / "catalogue/index.md").read_text()
    found = set(re.findall(r'class="thumbnail" src="([^"]+)"', text))
    assert len(found) > 40
    for name in found:
        assert (DOCS / "catalogue" / name).resolve().is_file(), f"{name}: run `make pages`"
    kept = {f"thumbnails/{path.name}" for path in (DOCS / "catalogue/thumbnails").iterdir()}
    assert kept <= found


def test_a_thumbnail_shows_the_first_of_several_panels(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "make"))
    panels = imported(DOCS / "make/panels.py", "panels")
    figure = Figure(figsize=(12, 4), layout="constrained")
    for number, axes in enumerate(figure.subplots(1, 3)):
        axes.plot([0, 1], color=["red", "green", "blue"][number])
    figure.suptitle("three panels")
    figure.savefig(tmp_path / "panels.png")
    cut = panels.cut(tmp_path / "panels.png")
    pixels = np.asarray(cut).reshape(-1, 3).astype(int)
    red = (pixels[:, 0] - pixels[:, 1:].max(axis=1)).max()
    others = (pixels[:, 1:].max(axis=1) - pixels[:, 0]).max()
    assert red > 100 > others and cut.width < 2 * cut.height


def test_every_experiment_of_the_examples_is_in_a_readme():
    generator = imported(DOCS / "make/examples.py", "examples_pages")
    examples = DOCS.parent / "examples"
    for name, text in generator.pages().items():
        assert (examples / name).read_text() == text, f"{name} is stale: run `make pages`"
    for path in examples.glob("*/*.toml"):
        assert f"({path.name})" in (path.parent / "README.md").read_text(), path


def test_tests_that_show_an_error_of_a_paper_exist():
    text = (DOCS / "errors-in-the-papers.md").read_text()
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", text)
    assert len(named) > 30
    files = {}
    for folder in ("tests", "plugins"):
        for path in (DOCS.parent / folder).rglob("test_*.py"):
            files[path.name] = path
    for file, function in named:
        assert f"def {function}(" in files[file].read_text(), f"{file} has no {function}"


def test_pages_are_about_penchant_only():
    for page in PAGES:
        found = re.search(r"/tmp/|/home/|/root/", page.read_text())
        assert not found, (page.name, found)
