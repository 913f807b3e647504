"""`penchant_ray.executors.shards`: which shard of a map is done next, without a cluster."""

import collections
import types
from pathlib import Path

import numpy as np
import pytest
from penchant_ray.executors import shards
from penchant_ray.executors.shards import Spread

WHOLE = types.SimpleNamespace(
    job="job",
    sent=lambda: None,
    run=lambda shard: {"value": np.full(4, float(shard))},
    path=lambda shard: Path(f"{shard}.npz"),
)
COMMAND = types.SimpleNamespace(store=lambda job, names, answers: None)


@pytest.mark.timeout(20)
def test_shards_that_came_back_do_not_stand_before_the_one_that_is_waited_for(monkeypatch):
    """With no room for more answers only shard 0 may be done, and nothing else ends the wait."""
    monkeypatch.setattr(shards, "BYTES_HELD", 8)
    spread = Spread(WHOLE, range(6), COMMAND, None)
    spread._keep(5, WHOLE.run(5))
    spread._todo = collections.deque([2, 3, 0, 1, 4])
    assert [spread.answer(shard)["value"][0] for shard in range(6)] == [0, 1, 2, 3, 4, 5]


def test_no_more_answers_are_held_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(shards, "BYTES_HELD", 3 * 32)
    spread = Spread(WHOLE, range(100), COMMAND, None)
    held = []
    for shard in range(100):
        spread.answer(shard)
        held.append(spread._held)
    assert max(held) <= 3 * 32
