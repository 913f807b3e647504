"""card.html: one screen, one page of paper; every text is escaped."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penchant.results.files import atomic
from penchant_report.pages import embedded

from penchant_card.pictures import small_picture

if TYPE_CHECKING:
    from penchant_card.card import Card

HERE = Path(__file__).parent


def write_page(card: Card, model_index: str) -> Path:
    """Write card.html.

    Args:
        card: What it shows.
        model_index: The YAML block, to be copied.

    Returns:
        The file.
    """
    path = card.folder / "card.html"
    page = _rendered("card.html.jinja", card, model_index)
    with atomic(path) as file:
        file.write(page.encode(errors="backslashreplace"))
    return path


def fragment(card: Card) -> str:
    """The rows for a notebook, without a page around them."""
    return _rendered("fragment.html.jinja", card, "")


def _rendered(template: str, card: Card, model_index: str) -> str:
    from markupsafe import Markup

    style = (HERE / "card.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    rows = [(row, _picture(card, row.job)) for row in card.rows]
    page: str = (
        _templates()
        .get_template(template)
        .render(
            card=card,
            rows=rows,
            style=Markup(style),
            # Only this style is applied, and no script is run, whatever a label holds.
            style_hash=f"sha256-{digest}",
            model_index=model_index,
        )
    )
    return page


def _picture(card: Card, job: str) -> str:
    drawn = small_picture(card.run, job)
    if drawn is None:
        return ""
    ending, content = drawn
    return embedded(content, ending)


@functools.cache
def _templates() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
