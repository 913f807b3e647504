"""The site for language models: llms.txt lists its pages, llms-full.txt holds their text.

The form is that of llmstxt.org: a title, a sentence, and a list of links by section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
_TITLE = re.compile(r"(?m)^# (.+)$")
_GENERATED = re.compile(r"(?s)\A(?:---\n.*?\n---\n|<!--.*?-->|\s)+")


def on_post_build(config: Any, **_: Any) -> None:
    """Write both files beside the site."""
    site = Path(config["site_dir"])
    (site / "llms.txt").write_text(index(config["nav"], config))
    pages = [path for _, path in _pages(config["nav"])]
    texts = [_GENERATED.sub("", (DOCS / path).read_text()) for path in pages]
    (site / "llms-full.txt").write_text("\n\n".join(texts))


def index(nav: list[Any], config: Any) -> str:
    """Every page of the navigation with its title, by section."""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for entry in nav:
        for section, children in entry.items():
            lines += ["", f"## {section}", ""]
            lines += [f"- [{title}]({path})" for title, path in _pages(children)]
    return "\n".join(lines) + "\n"


def _pages(nav: Any, title: str = "") -> Iterator[tuple[str, str]]:
    """Title and path of every page below a part of the navigation."""
    if isinstance(nav, str):
        if nav.endswith(".md"):
            found = _TITLE.search((DOCS / nav).read_text())
            yield title or (found[1] if found else nav), nav
        return
    for entry in nav:
        if isinstance(entry, dict):
            for name, below in entry.items():
                yield from _pages(below, name)
        else:
            yield from _pages(entry)
