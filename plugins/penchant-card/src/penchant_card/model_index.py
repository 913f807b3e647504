"""The block of YAML that model cards of Hugging Face take: `model-index`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penchant_card.card import Card


def model_index(card: Card) -> str:
    """The numbers of a card as the block `model-index`.

    Reference: https://huggingface.co/docs/hub/model-cards, "Evaluation results".
    """
    network = card.network
    data = network.data.partition(":")[0] or "none"
    lines = [
        "model-index:",
        f"- name: {_text(network.name)}",
        "  results:",
        "  - task:",
        "      type: preferences",
        "      name: What the network prefers, by Penchant",
        "    dataset:",
        f"      type: {_text(data)}",
        f"      name: {_text(network.data or 'no data')}",
        "    metrics:",
    ]
    for row in card.rows:
        for number in row.numbers:
            lines += [
                f"    - type: {_text(f'{number.probe}/{number.name}')}",
                f"      name: {_text(number.meaning or number.name)}",
                f"      value: {number.quantity.value!r}",
            ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Text as YAML has it: JSON is YAML."""
    return json.dumps(text)
