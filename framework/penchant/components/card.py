"""How a probe takes part in a card: the page that says what one network prefers."""

from collections.abc import Mapping
from typing import Any

import attrs
from penchant.errors import Error

MOST_QUANTITIES = 3


@attrs.frozen
class Card:
    """How `penchant card` measures a probe, and what of it a card shows.

    Probes of one family share a row; the first of them gives its sentence and its picture.

    Attributes:
        order: The order in which a card measures and shows probes.
        quantities: Names of one to three quantities that a card shows. Those that a network does
            not have are left out.
        options: Options of the probe on a card, and its `estimators`. Text may hold "{last-layer}",
            the name of the last layer of the network with weights.
        family: The title of its row; by default the probe's name.
    """

    order: int
    quantities: tuple[str, ...]
    options: Mapping[str, Any] = attrs.field(factory=dict)
    family: str = attrs.field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        names = self.quantities
        if not isinstance(names, tuple) or not 1 <= len(names) <= MOST_QUANTITIES:
            expected = f"a tuple of one to {MOST_QUANTITIES} names"
            raise Error(f"quantities of a card must be {expected}, found {names!r}")
