"""Pages: one file that needs nothing else, in which every text that a user wrote is escaped."""

from __future__ import annotations

import base64
import colorsys
import functools
import hashlib
import re
from pathlib import Path
from typing import Any

from penchant.results.files import atomic

HERE = Path(__file__).parent
_COLOUR = re.compile(r"(fill|stroke): #([0-9a-f]{6})\b")
_OPENING = re.compile(r"<svg [^>]*>")
# What a figure's white and black become on a dark page: its paper and its ink, as in `page.css`.
_DARK_PAPER = (0x12, 0x15, 0x1B)
_DARK_INK = (0xE6, 0xE9, 0xEF)
_DARK_COLOUR = 0.66  # lightness that lines and areas get at least


def write_page(path: Path, template: str, values: dict[str, Any]) -> Path:
    """Render a page and write it.

    Args:
        path: The file.
        template: Name of the template.
        values: What it shows.

    Returns:
        The file.
    """
    from markupsafe import Markup

    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    compiled = _templates().get_template(template)
    page = compiled.render(
        style=Markup(style),
        script=Markup(script),
        # Even a text that slipped through would not be run: only what has these hashes is.
        style_hash=_hash(style),
        script_hash=_hash(script),
        **values,
    )
    with atomic(path) as file:
        file.write(page.encode(errors="backslashreplace"))
    return path


@functools.cache
def _templates() -> Any:
    """The templates, each compiled once a process: that takes longer than most pages."""
    import jinja2

    # Labels, warnings and tracebacks may hold anything, also what a browser would run.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _hash(text: str) -> str:
    content = text.encode()
    digest = hashlib.sha256(content).digest()
    written = base64.b64encode(digest).decode()
    return f"sha256-{written}"


def embedded(content: bytes, ending: str) -> str:
    """A figure as the address of an image; drawings follow the page into the dark."""
    kind = "image/png"
    if ending == "svg":
        kind = "image/svg+xml"
        text = content.decode(errors="replace")
        content = followed_into_the_dark(text).encode()
    data = base64.b64encode(content).decode()
    return f"data:{kind};base64,{data}"


def followed_into_the_dark(svg: str) -> str:
    """The drawing with a second set of colours, for readers who prefer a dark page.

    White becomes the page's paper and black its ink; colours become light enough to be seen. Images
    inside a drawing stay as they are.
    """
    colours = {match[2] for match in _COLOUR.finditer(svg)}
    if not colours:
        return svg

    # Letters have no colour of their own: they take that of the whole drawing.
    ink = _in_the_dark("000000")
    light = "fill:#000000;"
    dark = f"fill:{ink};"
    for colour in sorted(colours):
        shown = _in_the_dark(colour)
        light += f"--c{colour}:#{colour};"
        dark += f"--c{colour}:{shown};"
    style = f"<style>svg{{{light}}}@media (prefers-color-scheme: dark){{svg{{{dark}}}}}</style>"
    # The drawing names its colours; the style says which they are.
    svg = _COLOUR.sub(r"\1: var(--c\2)", svg)
    return _OPENING.sub(lambda match: match[0] + style, svg, count=1)


def _in_the_dark(colour: str) -> str:
    """A colour as it is shown on a dark page.

    >>> _in_the_dark("ffffff"), _in_the_dark("000000"), _in_the_dark("2b5c8a")
    ('#12151b', '#e6e9ef', '#7baad6')
    """
    parts = [part / 255 for part in bytes.fromhex(colour)]
    hue, lightness, saturation = colorsys.rgb_to_hls(*parts)
    mixed = []
    if saturation < 0.1:
        # Greys are swapped: what was close to the background stays close to it.
        for ink, paper in zip(_DARK_INK, _DARK_PAPER):
            grey = ink + lightness * (paper - ink)
            mixed.append(grey)
    else:
        light = max(lightness, _DARK_COLOUR)
        colours = colorsys.hls_to_rgb(hue, light, saturation)
        for part in colours:
            mixed.append(255 * part)

    digits = [f"{round(part):02x}" for part in mixed]
    return "#" + "".join(digits)
