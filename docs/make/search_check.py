"""Does a search of the built site lead to the right page? `python docs/make/search_check.py`.

The index is the one the site's own search reads. A section is found if it has all words; those with
the words in their title come first, and pages may be boosted, as in the site.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent.parent / "build/site"
IN_TITLE = 1000  # what a word in a title counts, as in the site's search
EXPECTED = {
    "null": "conventions.html",
    "standard error": "conventions.html",
    "CUDA": "how-to/cuda.html",
    "own dataset": "how-to/own-dataset.html",
    "shards": "how-to/shards.html",
    "verdict": "gallery/index.html",
}


def ranked(query: str, sections: list[dict]) -> list[str]:
    """Addresses of the sections that have all words of the query, best first."""
    scores = []
    for section in sections:
        score = score_of(query, section)
        if score:
            scores.append((score, section["location"]))
    scores.sort(key=lambda pair: -pair[0])
    return [location for _, location in scores]


def score_of(query: str, section: dict) -> float:
    """0 where a word is missing; words in a short text weigh more than in a long one."""
    title = section["title"].lower()
    text = re.sub(r"<[^>]+>", " ", section["text"]).lower()
    length = 1 + len(text.split())
    total = 0.0
    for word in query.lower().split():
        # Plurals count as the word itself.
        stem = word.rstrip("s")
        found = IN_TITLE * title.count(stem) + 100 * text.count(stem) / length
        if not found:
            return 0.0
        total += found
    return total * section.get("boost", 1.0)


def main() -> None:
    """Every expected page is the first answer."""
    sections = json.loads((SITE / "search/search_index.json").read_text())["docs"]
    for query, page in EXPECTED.items():
        found = ranked(query, sections)
        first = found[0].split("#")[0] if found else "nothing"
        sys.stdout.write(f"{query!r}: {first}\n")
        if first != page:
            raise SystemExit(f"a search for {query!r} leads to {found[:3]}, expected {page}")


if __name__ == "__main__":
    main()
