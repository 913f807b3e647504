"""Navigation of the catalogue, family by family, and the version in the footer of every page.

The pages of the catalogue are generated, and so is their order: that of its index.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent
_HEADING = re.compile(r"^#{2,3} (.+)$")
_PAGE = re.compile(
    r"\[`([^`]+)`\]\(((?:probe|estimator|architecture|dataset|executor)-[^)]+\.md)\)"
)


def on_config(config: Any, **_: Any) -> Any:
    """Add the pages of the catalogue to its tab, and the version to the footer."""
    for entry in config["nav"]:
        if "Catalogue" in entry:
            entry["Catalogue"] = [{"Catalogue": "catalogue/index.md"}, *catalogue()]
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    config["copyright"] = f"Penchant {project['version']}, {project['license']} licence"
    return config


def catalogue() -> list[dict[str, list[dict[str, str]]]]:
    """Groups of pages as the index of the catalogue has them."""
    groups: dict[str, dict[str, str]] = {}
    title = ""
    for line in (DOCS / "catalogue/index.md").read_text().splitlines():
        if heading := _HEADING.match(line):
            # The first words of a family name it.
            title = heading[1].partition(":")[0]
        elif page := _PAGE.search(line):
            groups.setdefault(title, {})[page[1]] = f"catalogue/{page[2]}"
    return [
        {title: [{name: path} for name, path in pages.items()]} for title, pages in groups.items()
    ]
