"""Seeds derived from keys, the same on every machine."""

import hashlib
import json
from typing import Any


def derive(*keys: Any) -> int:
    """A seed from keys: 63 bits of a hash, so that seeds of different keys are independent.

    >>> derive(0, "network", 1) == derive(0, "network", 1)
    True
    """
    # Text, not Python's own hash: that one differs from process to process.
    # 63 bits fit a signed whole number, which is what generators take.
    return int.from_bytes(hashlib.sha256(json.dumps(keys).encode()).digest()[:8], "big") >> 1
