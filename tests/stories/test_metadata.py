"""What distributions say of themselves comes from metadata.toml: docs/make/metadata.py."""

import re
import sys
import tomllib
from pathlib import Path

import penchant
import pytest

ROOT = Path(__file__).resolve().parents[2]
METADATA = tomllib.loads((ROOT / "metadata.toml").read_text())
PLACE = "https://code.example/penchant"


@pytest.fixture
def generator(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    monkeypatch.delitem(sys.modules, "metadata", raising=False)
    import metadata

    return metadata


def projects(files):
    return {
        path: tomllib.loads(text)["project"]
        for path, text in files.items()
        if path.endswith("pyproject.toml")
    }


def test_every_file_is_as_it_is_written_from_one_place(generator):
    stale = [name for name, text in generator.files().items() if (ROOT / name).read_text() != text]
    assert not stale, "run python docs/make/metadata.py"


def test_all_distributions_have_one_version(generator):
    found = projects(generator.files())
    assert len(found) == len(list(ROOT.glob("plugins/penchant-*"))) + 2
    versions = {project["version"] for path, project in found.items() if "example" not in path}
    assert versions == {METADATA["version"]} == {penchant.__version__}
    newest = re.search(r"(?m)^## \[(\d[\d.]*)\]", (ROOT / "CHANGELOG.md").read_text())
    assert newest is not None and newest[1] <= METADATA["version"]


def test_no_address_is_written_while_there_is_none(generator):
    """`repository` of metadata.toml is the placeholder; where it is set, everything has it."""
    without = projects(generator.files({**METADATA, "repository": "", "documentation": ""}))
    assert not any("urls" in project for project in without.values())
    files = generator.files({**METADATA, "repository": PLACE, "documentation": f"{PLACE}/docs"})
    for path, project in projects(files).items():
        expected = {} if generator.TEMPLATE in path else {"Source": PLACE}
        assert project.get("urls", {}).items() >= expected.items()
        assert project["name"].startswith("penchant")
    assert f"repository-code: {PLACE}" in files["CITATION.cff"]


def test_a_new_version_reaches_every_file(generator):
    found = projects(generator.files({**METADATA, "version": "0.3.1"}))
    for project in found.values():
        own = [each for each in project["dependencies"] if each.startswith("penchant")]
        assert all(each.endswith(">=0.3,<0.4") for each in own)


@pytest.mark.parametrize("repository", ["", PLACE])
def test_readme_of_a_registry_has_no_link_into_the_repository(generator, repository):
    text = generator.files({**METADATA, "repository": repository})[generator.README]
    assert not generator.LINK.search(text)
    readme = (ROOT / "README.md").read_text()
    assert bool(repository) == (f"{PLACE}/blob/main/docs/glossary.md" in text)
    assert len(text.splitlines()) > len(readme.splitlines()) - 10
