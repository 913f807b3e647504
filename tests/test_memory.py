"""Budgets in bytes, and halving where a device has less."""

import pytest
import torch
from penchant_numerics import memory
from penchant_numerics.gauss_newton import GaussNewton


def test_a_budget_holds_inside_and_ends_outside():
    before = memory.available("cpu")
    with memory.budget(1000):
        assert memory.available("cpu") == memory.available("cuda") == 1000
        assert memory.given() == memory.limit("cpu") == 1000
        assert memory.fitting(300, "cpu") == 3
        assert memory.fitting(300, "cpu", share=0.5) == 1
        with memory.budget(None):
            assert memory.available("cpu") == before
    assert memory.available("cpu") == before
    assert memory.given() is None
    assert memory.limit("cpu") == memory.capacity("cpu")


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


def test_both_ways_of_sample_space_go_on_with_fewer_samples(monkeypatch):
    network = torch.nn.Linear(3, 2).double()
    inputs = torch.arange(24.0, dtype=torch.float64, device="cpu").reshape(8, 3).sin()
    expected = GaussNewton(network, (inputs, None)).dense()
    for name, place in (("add_applied", 3), ("adjoint_part", 2)):
        before = getattr(GaussNewton, name)

        def limited(self, *args, before=before, place=place):
            if len(args[place]) > 2:
                raise torch.OutOfMemoryError("no room")
            return before(self, *args)

        monkeypatch.setattr(GaussNewton, name, limited)
    G = GaussNewton(network, (inputs, None), batch=8)
    factor = G.factor()
    units = torch.eye(factor.samples, dtype=torch.float64, device="cpu")
    with pytest.warns(memory.MemoryWarning, match="samples a pass of Gauss-Newton products"):
        V = factor.apply(units)
    torch.testing.assert_close(V.T @ V, expected)
    G = GaussNewton(network, (inputs, None), batch=8)
    rows = torch.eye(G.size, dtype=torch.float64, device="cpu")
    with pytest.warns(memory.MemoryWarning, match="samples a pass of Gauss-Newton products"):
        found = G.factor().adjoint(rows)
    torch.testing.assert_close(found, V.T)
