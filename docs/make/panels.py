"""Thumbnails: the first panels of a figure, large enough to be read.

A drawing is given a smaller window, onto its first axes; of a picture the first panels are cut out,
along the empty lines between them.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = (480, 320)  # pixels of a thumbnail at most, for screens with two pixels per point
SMALL = 200  # pixels: lower panels are shown with the next row
MARGIN = 6
_AXES = re.compile(r'<g id="(axes_\d+)">.*?<path d="([^"]*)"', re.DOTALL)
_VIEW = re.compile(r'width="[\d.]+pt" height="[\d.]+pt" viewBox="0 0 ([\d.]+) ([\d.]+)"')
_OPENING = re.compile(r"<svg\b[^>]*>")
# Room for ticks and labels around axes, in points: left, above, right, below.
_LABELS = (48.0, 4.0, 8.0, 40.0)

Box = tuple[int, int]


def window(svg: str) -> str:
    """A drawing that shows the first of its axes only; empty where there are no others.

    >>> axes = '<g id="axes_{}"><g><path d="M {} 0 L {} 90 z"/>'
    >>> one = '<svg width="400pt" height="130pt" viewBox="0 0 400 130">' + axes.format(1, 50, 190)
    >>> window(one + axes.format(2, 250, 390)).partition("<g")[0]
    '<svg width="196pt" height="130pt" viewBox="2 0 196 130"><style>#axes_2{display:none}</style>'
    >>> window(one)
    ''
    """
    view = _VIEW.search(svg)
    found = [(name, _rectangle(path), len(content)) for name, path, content in _panels(svg)]
    if view is None or len({box for _, box, _ in found}) < 2:
        return ""
    # The first that shows about as much as any: an empty frame says nothing.
    most = max(size for _, _, size in found)
    box = next(box for _, box, size in found if size >= most / 3)
    left, top, right, bottom = box
    others = ",".join(f"#{name}" for name, other, _ in found if _are_apart(other, box))
    if others:
        svg = _OPENING.sub(rf"\g<0><style>{others}{{display:none}}</style>", svg, count=1)
    x, y = max(left - _LABELS[0], 0), max(top - _LABELS[1], 0)
    width = min(right + _LABELS[2], float(view[1])) - x
    height = min(bottom + _LABELS[3], float(view[2])) - y
    size = f'width="{width:.0f}pt" height="{height:.0f}pt"'
    return _VIEW.sub(f'{size} viewBox="{x:.0f} {y:.0f} {width:.0f} {height:.0f}"', svg, count=1)


def _are_apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Do two rectangles share nothing? A second axis of a panel lies within it."""
    (left, top, right, bottom), (x0, y0, x1, y1) = one, other
    return left >= x1 or right <= x0 or top >= y1 or bottom <= y0


def _panels(svg: str) -> list[tuple[str, str, str]]:
    """Name, outline and content of each axes of a drawing."""
    starts = [match.start() for match in _AXES.finditer(svg)]
    pieces = [svg[start:end] for start, end in zip(starts, [*starts[1:], len(svg)])]
    return [(*_AXES.match(piece).groups(), piece) for piece in pieces]


def _rectangle(path: str) -> tuple[float, float, float, float]:
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    xs, ys = numbers[::2], numbers[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def cut(path: Path) -> Image.Image:
    """The first panels of a picture, as a thumbnail."""
    picture = Image.open(path).convert("RGB")
    ink = np.asarray(picture.convert("L")) < 245
    rows, columns = _trimmed(ink, (0, ink.shape[0]), (0, ink.shape[1]))
    # Rows of panels; titles and legends are lower than these.
    height = rows[1] - rows[0]
    bands = _bands(ink[slice(*rows), slice(*columns)].any(1), least=max(3, ink.shape[0] // 240))
    panels = [band for band in bands if band[1] - band[0] > height / 8] or [(0, height)]
    last = next((band for band in panels if band[1] - panels[0][0] >= SMALL), panels[-1])
    # Below a row are its numbers, and below the last one the label as well.
    below = [band for band in bands if band[0] >= last[1]]
    following = [band for band in below if band in panels]
    own = below[:2]
    if following:
        # What stands nearer to the next row is its title.
        next_row = following[0][0]
        own = [band for band in below[:1] if band[0] - last[1] < next_row - band[1]]
    end = max([last[1], *(band[1] for band in own)])
    # Rows of one scale have its numbers below the last of them.
    scale = (
        [band for band in bands if band[0] >= panels[-1][1]][:2] if following and not own else []
    )
    kept = [(panels[0][0], end), *((start - MARGIN, stop) for start, stop in scale)]
    lines = np.concatenate([np.arange(rows[0] + start, rows[0] + stop) for start, stop in kept])
    picture, ink = Image.fromarray(np.asarray(picture)[lines]), ink[lines]
    rows, columns = _trimmed(ink, (0, len(ink)), columns)
    # Columns as far as the thumbnail's form allows, but at least one.
    shape = SIZE[0] / SIZE[1] * 1.1
    if columns[1] - columns[0] > shape * (rows[1] - rows[0]):
        ends = _ends(ink[slice(*rows), slice(*columns)].any(0), rows[1] - rows[0])
        fitting = [end for end in ends if end <= shape * (rows[1] - rows[0])]
        # Large panels are shown alone.
        if ends and (ends[0] > 1.1 * SMALL or not fitting):
            fitting = ends[:1]
        if fitting:
            columns = (columns[0], columns[0] + fitting[-1])
    rows, columns = _trimmed(ink, rows, columns)
    left, top = max(columns[0] - MARGIN, 0), max(rows[0] - MARGIN, 0)
    right, bottom = columns[1] + MARGIN, rows[1] + MARGIN
    thumbnail = picture.crop((left, top, min(right, picture.width), min(bottom, picture.height)))
    thumbnail.thumbnail(SIZE)
    return thumbnail


def _trimmed(ink: np.ndarray, rows: Box, columns: Box) -> tuple[Box, Box]:
    """Rows and columns without the empty margins around what is drawn."""
    part = ink[slice(*rows), slice(*columns)]
    high, wide = np.flatnonzero(part.any(1)), np.flatnonzero(part.any(0))
    return (
        (rows[0] + int(high[0]), rows[0] + int(high[-1]) + 1),
        (columns[0] + int(wide[0]), columns[0] + int(wide[-1]) + 1),
    )


def _gaps(inked: np.ndarray) -> list[Box]:
    """Runs of empty lines."""
    edges = np.flatnonzero(np.diff(np.r_[0, ~inked, 0]))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def _bands(inked: np.ndarray, *, least: int) -> list[Box]:
    """What lies between empty lines, of which at least so many follow each other."""
    gaps = [gap for gap in _gaps(inked) if gap[1] - gap[0] >= least]
    starts = [0, *(end for _, end in gaps)]
    return list(zip(starts, [*(start for start, _ in gaps), len(inked)]))


def _ends(inked: np.ndarray, height: int) -> list[int]:
    """Where panels that stand side by side end: at the widest empty columns."""
    gaps = [gap for gap in _gaps(inked) if gap[0] > 0.6 * min(height, SMALL)]
    widest = max((end - start for start, end in gaps), default=0)
    return [start for start, end in gaps if end - start >= 0.55 * widest]
