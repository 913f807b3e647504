"""What distributions say of themselves, from `metadata.toml`: version, authors, addresses.

`python docs/make/metadata.py` writes it into every pyproject.toml, CITATION.cff and
docs/registry.md, which is README as package registries show it: without links into a repository
that they do not have. The template of plugins belongs to its reader once it is copied, so only its
versions follow.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "penchant-example"
README = "docs/registry.md"  # of the kernel; every plugin has its own
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def files(metadata: dict[str, Any] | None = None) -> dict[str, str]:
    """The text of every file that has metadata, by its path in the repository."""
    metadata = metadata or tomllib.loads((ROOT / "metadata.toml").read_text())
    found = {}
    for folder in ["", "framework/penchant_numerics", *_plugins()]:
        path = ROOT / folder / "pyproject.toml"
        found[str(path.relative_to(ROOT))] = _pyproject(path.read_text(), metadata)
    found["CITATION.cff"] = _citation(metadata)
    found[README] = _registry((ROOT / "README.md").read_text(), metadata["repository"])
    return found


def _plugins() -> list[str]:
    return sorted(f"plugins/{path.name}" for path in ROOT.glob("plugins/penchant-*"))


def _pyproject(text: str, metadata: dict[str, Any]) -> str:
    """A pyproject with the shared fields replaced and everything else as it is."""
    version = metadata["version"]
    major, minor, _ = version.split(".")
    series = f">={major}.{minor},<{major}.{int(minor) + 1}"
    text = _field(text, "version", f'"{version}"')
    text = _field(text, "requires-python", f'"{metadata["requires-python"]}"')
    text = re.sub(r'"(penchant[a-z-]*)>=[\d.]+,<[\d.]+"', rf'"\1{series}"', text)
    if f'name = "{TEMPLATE}"' in text:
        return text
    text = _field(text, "license", f'"{metadata["license"]}"')
    names = ", ".join(f'{{ name = "{name}" }}' for name in metadata["authors"])
    text = _field(text, "authors", f"[{names}]")
    text = _field(text, "keywords", _listed(metadata["keywords"]))
    text = _field(text, "classifiers", _lines(metadata["classifiers"]))
    return _addresses(text, metadata)


def _field(text: str, name: str, value: str) -> str:
    """A field of `[project]` replaced, or written before its dependencies."""
    pattern = rf"(?m)^{name} = (\[$(?:\n  .*)*\n\]|.*)$"
    if re.search(pattern, text):
        return re.sub(pattern, lambda _: f"{name} = {value}", text, count=1)
    return text.replace("\ndependencies = ", f"\n{name} = {value}\ndependencies = ", 1)


def _listed(values: list[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def _lines(values: list[str]) -> str:
    return "[\n" + "".join(f'  "{value}",\n' for value in values) + "]"


def _addresses(text: str, metadata: dict[str, Any]) -> str:
    """The table of addresses, or none where there is no repository yet."""
    text = re.sub(r"\[project\.urls\]\n(?:.+\n)*\n", "", text)
    repository, documentation = metadata["repository"], metadata["documentation"]
    if not repository:
        return text
    rows = {
        "Source": repository,
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    if documentation:
        rows["Documentation"] = documentation
    table = "[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in rows.items())
    first = re.search(r"(?m)^\[(project\..*|tool\..*)\]$", text)
    assert first is not None
    # comments above a table belong to it
    before = text[: first.start()]
    comments = re.search(r"(?:^#.*\n)*\Z", before, re.MULTILINE)
    assert comments is not None
    head = before[: comments.start()]
    return f"{head}{table}\n{text[comments.start() :]}"


def _citation(metadata: dict[str, Any]) -> str:
    lines = [
        "cff-version: 1.2.0",
        "message: If you use this software, cite it, and the paper whose measurement you use.",
        "title: Penchant",
        "abstract: What neural networks prefer, with an error and a null for every number.",
        "type: software",
        f"version: {metadata['version']}",
        f"date-released: {metadata['released']}",
        f"license: {metadata['license']}",
        "authors:",
        *(f"  - name: {name}" for name in metadata["authors"]),
        "keywords:",
        *(f"  - {word}" for word in metadata["keywords"]),
    ]
    if metadata["repository"]:
        lines.append(f"repository-code: {metadata['repository']}")
    return "\n".join(lines) + "\n"


def _registry(readme: str, repository: str) -> str:
    """README with links into the repository, or with their words alone where it has no address."""

    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if repository:
            kind = "raw" if picture else "blob"
            return f"{picture}[{words}]({repository}/{kind}/main/{target})"
        return words

    if not repository:
        # A picture is nothing without its address, nor are the words below it.
        readme = re.sub(r"(?m)^!\[.*\n\n(\*(?!\*)[^*]+\*\n\n)?", "", readme)
    return LINK.sub(link, readme)


def main() -> None:
    """Write all of them."""
    for name, text in files().items():
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
