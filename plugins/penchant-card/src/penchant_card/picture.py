"""card.png: the card as a picture, for a README or a talk."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penchant.results.files import atomic
from penchant_report.figures import figure_style

from penchant_card.pictures import small_picture

if TYPE_CHECKING:
    from penchant_card.card import Card
    from penchant_card.rows import Number, Row

WIDTH = 10.0  # inches
HEAD = 1.0
ROW = 1.5
DPI = 110
LINE = 66  # characters of a sentence
SOFT = "#545e70"


def write_picture(card: Card) -> Path:
    """Write card.png.

    Args:
        card: What it shows.

    Returns:
        The file.
    """
    path = card.folder / "card.png"
    with figure_style():
        figure = _drawn(card)
        with atomic(path) as file:
            figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return path


def _drawn(card: Card) -> Any:
    from matplotlib.figure import Figure

    height = HEAD + ROW * len(card.rows) + 0.1
    figure = Figure(figsize=(WIDTH, height))
    # Everything has a place of its own: nothing is moved to make room.
    figure.set_layout_engine("none")
    network = card.network
    top = 1 - 0.25 / height
    figure.text(0.02, top, _shown(network.name), size=15, weight="bold", va="top")
    facts = [
        f"{network.parameters:,} parameters",
        f"input {network.input}",
        f"output {network.output}",
        network.kind,
    ]
    lines = [", ".join(facts), network.data, network.accuracy]
    text = "\n".join(_shown(line) for line in lines if line)
    figure.text(0.02, 1 - 0.52 / height, text, size=8.5, color=SOFT, va="top")
    for number, row in enumerate(card.rows):
        _draw_row(figure, card, row, 1 - (HEAD + ROW * number) / height, ROW / height)
    return figure


def _draw_row(figure: Any, card: Card, row: Row, top: float, height: float) -> None:
    import matplotlib.image
    from matplotlib.lines import Line2D

    figure.add_artist(Line2D([0.02, 0.98], [top, top], color="#d8dde6", linewidth=0.8))
    below = top - 0.06 * height
    figure.text(0.02, below, row.family.capitalize(), size=10, weight="bold", va="top")
    sentence = "\n".join(textwrap.wrap(_shown(row.sentence), LINE)[:5])
    figure.text(0.02, below - 0.15 * height, sentence, size=8.5, va="top", linespacing=1.35)
    drawn = small_picture(card.run, row.job, ending="png")
    if drawn is not None:
        axes = figure.add_axes((0.45, top - 0.95 * height, 0.2, 0.9 * height))
        axes.imshow(matplotlib.image.imread(io.BytesIO(drawn[1])))
        axes.axis("off")
    for place, number in enumerate(row.numbers):
        _draw_number(figure, number, below - 0.3 * height * place)


def _draw_number(figure: Any, number: Number, top: float) -> None:
    mark = " ✱" if number.unusual or (number.notable and not number.fresh) else ""
    figure.text(0.67, top, _shown(f"{number.name}  {number.value}{mark}"), size=8.5, va="top")
    fresh = number.fresh.text if number.fresh else ""
    beside = "; ".join(filter(None, [number.null, fresh, number.among]))
    shown = "\n".join(textwrap.wrap(_shown(beside), 52)[:2])
    offset = 0.16 / figure.get_figheight()
    figure.text(0.67, top - offset, shown, size=7, color=SOFT, va="top", linespacing=1.2)


def _shown(text: str) -> str:
    """Text as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$").replace("✱", "*")
