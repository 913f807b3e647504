"""How many claims of papers come out is one number, that of the gallery's entries."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNT = re.compile(r"\b(\d+) of (\d+) claims\b")


def test_every_page_has_the_count_of_the_gallery():
    entries = tomllib.loads((ROOT / "docs/gallery/entries.toml").read_text())["entries"]
    reproduced = sum(entry["verdict"] == "reproduced" for entry in entries)
    expected = {(str(reproduced), str(len(entries)))}
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("paper/*.md")]
    found = {page.name: set(COUNT.findall(page.read_text())) for page in pages}
    named = {name: counts for name, counts in found.items() if counts}
    assert "README.md" in named
    assert all(counts == expected for counts in named.values()), (expected, named)


def test_the_gallery_counts_its_entries_once():
    index = (ROOT / "docs/gallery/index.md").read_text()
    entries = tomllib.loads((ROOT / "docs/gallery/entries.toml").read_text())["entries"]
    total, reproduced = re.search(r"\*\*(\d+) entries: (\d+) reproduced", index).groups()
    assert int(total) == len(entries)
    assert int(reproduced) == sum(entry["verdict"] == "reproduced" for entry in entries)
