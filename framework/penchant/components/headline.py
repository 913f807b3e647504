"""The headline of a probe: one sentence about its result, chosen by a quantity."""

import attrs
from penchant.errors import Error


@attrs.frozen
class Headline:
    """Three sentences about a quantity, of which its p-value against the null chooses one.

    Attributes:
        quantity: The name of the quantity.
        above: The sentence if it is significantly above its null.
        below: The sentence if it is significantly below.
        neither: The sentence if the difference is not significant.
    """

    quantity: str
    above: str = attrs.field(kw_only=True)
    below: str = attrs.field(kw_only=True)
    neither: str = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, text in attrs.asdict(self).items():
            if not isinstance(text, str) or not text:
                raise Error(f"{name} of a headline must be text, found {text!r}")
