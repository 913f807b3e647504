"""Budgets in bytes, and halving where a device has less."""

import pytest
import torch
from penchant_numerics import memory


def test_a_budget_holds_inside_and_ends_outside():
    before = memory.available("cpu")
    with memory.budget(1000):
        assert memory.available("cpu") == memory.available("cuda") == 1000
        assert memory.fitting(300, "cpu") == 3
        assert memory.fitting(300, "cpu", share=0.5) == 1
        with memory.budget(None):
            assert memory.available("cpu") == before
    assert memory.available("cpu") == before


def test_something_always_fits():
    with memory.budget(10):
        assert memory.fitting(1000, "cpu") == 1


def test_running_out_halves_and_says_so():
    tried = []

    def work(size):
        tried.append(size)
        if size > 3:
            raise torch.OutOfMemoryError("no room")
        return size

    with pytest.warns(memory.MemoryWarning) as said:
        assert memory.halving(work, 12, what="samples a batch") == 3
    assert tried == [12, 6, 3]
    assert "6 samples a batch instead of 12" in str(said[0].message)
    assert "`memory`" in str(said[0].message)


def test_what_does_not_fit_at_all_is_an_error():
    def work(size):
        raise torch.OutOfMemoryError("no room")

    with pytest.warns(memory.MemoryWarning), pytest.raises(torch.OutOfMemoryError):
        memory.halving(work, 2, what="samples a batch")
