"""Formulas of the site as MathML, which browsers draw themselves: no script, no font, no server.

A formula is written as `$x^2$` or `$$x^2$$`; the extension `arithmatex` marks it, and this hook of
mkdocs translates what it marked.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def on_page_content(text: str, **_: Any) -> str:
    """Replace the formulas of a page."""
    return _FORMULA.sub(_as_mathml, text)


def _as_mathml(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]).strip(), display=display)
