"""Budgets in bytes, and halving where a device has less."""

import pytest
import torch
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.device import memory
from penchant_numerics.layers import kernel_blocks, tangent_kernel

# what cuDNN, cuBLAS, cuSOLVER and the driver say where memory is short
SHORTAGES = [
    "FIND was unable to find an engine to execute this computation",
    "GET was unable to find an engine to execute this computation",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
]


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
        assert memory.halving(work, 12, what="samples per batch") == 3
    assert tried == [12, 6, 3]
    assert "6 samples per batch instead of 12" in str(said[0].message)
    assert "`memory`" in str(said[0].message)


def test_what_does_not_fit_at_all_is_an_error():
    def work(size):
        raise torch.OutOfMemoryError("no room")

    with pytest.warns(memory.MemoryWarning), pytest.raises(torch.OutOfMemoryError):
        memory.halving(work, 2, what="samples per batch")


def test_both_ways_of_sample_space_go_on_with_fewer_samples(monkeypatch):
    network = torch.nn.Linear(3, 2).double()
    inputs = torch.arange(24.0, dtype=torch.float64, device="cpu").reshape(8, 3).sin()
    expected = GaussNewton(network, (inputs, None)).dense()
    for name, place in (("add_applied", 3), ("adjoint_batch", 2)):
        before = getattr(GaussNewton, name)

        def limited(self, *args, before=before, place=place):
            if len(args[place]) > 2:
                raise torch.OutOfMemoryError("no room")
            return before(self, *args)

        monkeypatch.setattr(GaussNewton, name, limited)
    G = GaussNewton(network, (inputs, None), batch=8)
    factor = G.factor()
    units = torch.eye(factor.samples, dtype=torch.float64, device="cpu")
    with pytest.warns(memory.MemoryWarning, match="samples per pass of Gauss-Newton products"):
        V = factor.apply(units)
    torch.testing.assert_close(V.T @ V, expected)
    G = GaussNewton(network, (inputs, None), batch=8)
    rows = torch.eye(G.size, dtype=torch.float64, device="cpu")
    with pytest.warns(memory.MemoryWarning, match="samples per pass of Gauss-Newton products"):
        found = G.factor().adjoint(rows)
    torch.testing.assert_close(found, V.T)


@pytest.mark.parametrize("text", SHORTAGES)
def test_libraries_that_run_out_of_memory_halve_as_well(text):
    def work(size):
        if size > 2:
            raise RuntimeError(text)
        return size

    with pytest.warns(memory.MemoryWarning):
        assert memory.halving(work, 8, what="samples per batch") == 2


def test_other_errors_halve_nothing():
    device_failed = torch.AcceleratorError(
        "CUDA error: device-side assert triggered, out of memory"
    )
    for error in (
        RuntimeError("shapes cannot be multiplied"),
        device_failed,
        ValueError("out of memory"),
    ):
        tried = []

        def work(size, error=error, tried=tried):
            tried.append(size)
            raise error

        with pytest.raises(type(error)):
            memory.halving(work, 8, what="samples per batch")
        assert tried == [8]
        assert not memory.is_shortage(error)


@pytest.mark.parametrize(
    ("gib", "per_device", "expected"),
    [(80, 1, 8), (16, 1, 8), (12, 1, 4), (8, 1, 4), (6, 1, 2), (8, 2, 2), (80, 8, 4), (24, 2, 4)],
)
def test_the_default_of_a_gpu_leaves_room_on_small_and_shared_cards(
    monkeypatch, gib, per_device, expected
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(memory, "capacity", lambda device: gib * 2**30 - 2**28)
    with memory.budget(None, per_device=per_device):
        assert memory.available("cuda") == expected * 2**30
    with memory.budget(123, per_device=per_device):
        assert memory.available("cuda:1") == 123
    assert memory.available("cpu") == 2**30


def test_kernels_follow_the_budget():
    device = torch.device("cpu")
    assert kernel_blocks.memory_budget(device) == 2**31
    with memory.budget(2**20):
        assert kernel_blocks.memory_budget(device) == 2**20


def test_kernels_go_on_with_smaller_blocks(monkeypatch):
    network = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    ).double()
    inputs = torch.arange(24.0, dtype=torch.float64, device="cpu").reshape(8, 3).sin()
    expected = tangent_kernel(network, inputs)
    before = kernel_blocks.KernelLayers.__call__

    def limited(self, given):
        if len(given) > 2:
            raise RuntimeError(SHORTAGES[0])
        return before(self, given)

    monkeypatch.setattr(kernel_blocks.KernelLayers, "__call__", limited)
    with pytest.warns(memory.MemoryWarning) as said:
        found = tangent_kernel(network, inputs)
    assert "4 samples a block of kernels instead of 8" in str(said[0].message)
    assert "2 samples a block of kernels instead of 4" in str(said[1].message)
    torch.testing.assert_close(found, expected)
    with pytest.warns(memory.MemoryWarning):
        found = tangent_kernel(network, inputs[:5], other=inputs)
    torch.testing.assert_close(found, expected[:10])
