"""Files that a public repository and a site have: llms.txt, workflows, forms, the paper."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


class _Nav(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name functions."""


_Nav.add_multi_constructor("tag:", lambda loader, suffix, node: None)


def test_llms_txt_lists_every_page_of_the_navigation(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    import language_models

    config = {**yaml.load((ROOT / "mkdocs.yml").read_text(), _Nav), "site_dir": str(tmp_path)}
    language_models.on_post_build(config)
    text = (tmp_path / "llms.txt").read_text()
    paths = re.findall(r"\]\((.+?\.md)\)", text)
    assert text.startswith("# Penchant\n\n> ") and len(paths) == len(set(paths)) > 30
    assert all((ROOT / "docs" / path).is_file() for path in paths)
    full = (tmp_path / "llms-full.txt").read_text()
    assert "# Experiment files" in full and "<!-- Written by" not in full[:200]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_workflows_and_forms_are_valid_yaml_and_call_targets_that_exist(path):
    assert yaml.safe_load(path.read_text())
    targets = re.findall(r"(?m)run: make ([\w-]+)", path.read_text())
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"(?m)^{target}:", makefile) for target in targets)


def test_the_workflow_tests_every_python_that_is_declared():
    metadata = tomllib.loads((ROOT / "metadata.toml").read_text())
    declared = re.findall(r"Python :: (\d\.\d+)", "\n".join(metadata["classifiers"]))
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    assert matrix["strategy"]["matrix"]["python"] == declared


def test_the_papers_references_exist():
    """Every citation of paper.md is in paper.bib, and every entry of it is cited."""
    text, bib = ((ROOT / "paper" / name).read_text() for name in ("paper.md", "paper.bib"))
    entries = set(re.findall(r"(?m)^@\w+\{([\w-]+),", bib))
    assert entries and entries == set(re.findall(r"@([\w-]+)", text.partition("---\n")[2]))
