"""Is a picture that came with a run folder only a picture?

A browser runs the scripts of a drawing (SVG) that is opened by itself, and viewers those of a PDF.
What a drawing may consist of is listed here: the elements that matplotlib writes.
"""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat

from penchant.errors import Error

SVG = "http://www.w3.org/2000/svg"
# Of its metadata: who drew it with what.
ABOUT = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://creativecommons.org/ns#",
    "http://purl.org/dc/elements/1.1/",
)
DRAWN = set(
    "svg g defs path use clipPath style rect image text tspan title desc metadata circle ellipse "
    "line polyline polygon pattern marker symbol mask linearGradient radialGradient stop filter "
    "feColorMatrix feComposite feGaussianBlur feOffset feMerge feMergeNode feFlood feBlend".split()
)
PNG = b"\x89PNG\r\n\x1a\n"
# A name of PDF that runs, opens or fetches something, hides what it is, or holds other objects.
_DOES_MORE = re.compile(
    rb"/(JavaScript|JS|OpenAction|AA|Launch|URI|GoToR|GoToE|SubmitForm|ImportData|Rendition|"
    rb"RichMedia|EmbeddedFile|AcroForm|XFA|ObjStm|Annots\s*\[\s*[^\]\s]|Encrypt)|/[^\s/<>\[\]()]*#"
)
_STREAM = re.compile(rb"\bstream\r?\n.*?\bendstream\b", re.DOTALL)  # drawing, compressed
_ELSEWHERE = re.compile(r"url\(\s*['\"]?(?!#)|@import|expression\(", re.IGNORECASE)
_BETWEEN = " "  # a namespace and a name


def is_picture(content: bytes, ending: str) -> bool:
    """Is it a picture, without anything that runs or is fetched from elsewhere?

    >>> is_picture(b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>', "svg")
    False
    """
    if ending == "png":
        return content.startswith(PNG)
    if ending == "pdf":
        return content.startswith(b"%PDF-") and not _DOES_MORE.search(_STREAM.sub(b"", content))
    parser = expat.ParserCreate("utf-8", _BETWEEN)
    parser.StartElementHandler = _check_element
    parser.ProcessingInstructionHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.CharacterDataHandler = _check_text
    # One piece of text for each element, so that no word is cut.
    parser.buffer_text = True
    parser.buffer_size = max(len(content), 1)
    try:
        parser.Parse(content, True)
    except (Error, expat.ExpatError):
        return False
    return True


def _check_element(name: str, attributes: dict[str, str]) -> None:
    namespace, _, short = name.rpartition(_BETWEEN)
    if namespace not in ABOUT and (namespace != SVG or short not in DRAWN):
        _refuse()
    for key, value in attributes.items():
        _, _, short = key.rpartition(_BETWEEN)
        is_link = short.lower() == "href"
        inside = value.startswith(("#", "data:image/png;base64,"))
        if short.lower().startswith("on") or (is_link and not inside):
            _refuse()
        _check_text(value)


def _check_text(text: str) -> None:
    if _ELSEWHERE.search(text):
        _refuse()


def _refuse(*_: Any) -> None:
    raise Error("more than a drawing")
