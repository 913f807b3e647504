"""The files of a card: card.html, card.png, card.json and model-index.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from penchant.experiments.experiment import read_toml
from penchant.results.files import SCHEMA, atomic, write_json
from penchant_report.answers import entries_of
from penchant_report.sources import to_json, to_records

if TYPE_CHECKING:
    from penchant_card.card import Card
    from penchant_card.rows import Number


def write_files(card: Card) -> None:
    """Write all files of a card into its run folder."""
    from penchant_card.model_index import model_index
    from penchant_card.page import write_page
    from penchant_card.picture import write_picture

    write_json(card.folder / "card.json", record(card))
    text = model_index(card)
    with atomic(card.folder / "model-index.yaml") as file:
        file.write(text.encode())
    write_page(card, text)
    write_picture(card)


def record(card: Card) -> dict[str, Any]:
    """What card.json holds: the network, the rows, and the jobs that `compare --fail` compares."""
    shown: dict[str, tuple[str, ...]] = {}
    for row in card.rows:
        for number in row.numbers:
            shown[number.probe] = (*shown.get(number.probe, ()), number.name)
    return {
        "schema": SCHEMA,
        "network": attrs.asdict(card.network),
        "minutes": round(card.minutes, 2),
        "rows": [
            {
                "family": row.family,
                "sentence": row.sentence,
                "numbers": [_number(number) for number in row.numbers],
            }
            for row in card.rows
        ],
        "left_out": [attrs.asdict(each) for each in card.left_out],
        "notes": list(card.notes),
        "experiment": _experiment(card),
        "jobs": to_records(entries_of(card.run), shown),
    }


def _experiment(card: Card) -> dict[str, Any]:
    """The experiment without its network and data, which a test gives again."""
    raw = read_toml(card.folder / "experiment.toml")
    return {name: value for name, value in raw.items() if name not in ("architectures", "datasets")}


def _number(number: Number) -> dict[str, Any]:
    fresh = number.fresh
    return {
        "probe": number.probe,
        "name": number.name,
        "meaning": number.meaning,
        **to_json(number.quantity),
        "fresh": {"values": list(fresh.values), "p": fresh.p} if fresh else None,
        "atlas": {"above": number.rank[0], "of": number.rank[1]} if number.rank else None,
        "differs_from_null": number.notable,
        "differs_from_fresh": number.unusual,
    }
