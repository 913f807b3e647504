"""Emulated devices that are called `cuda`: in a process of their own, and what they answer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_testing import emulated_cuda, on_cuda

HERE = Path(__file__).parent
without = pytest.mark.skipif(
    emulated_cuda.obstacle() is not None, reason=str(emulated_cuda.obstacle())
)
inside = pytest.mark.skipif(not emulated_cuda.is_loaded(), reason="no emulated device called cuda")


def test_a_process_that_was_not_started_for_it_says_how():
    kind = "emulated" if emulated_cuda.is_loaded() else "cuda"
    with (
        pytest.raises(penchant.Error, match=f"found kind '{kind}': start a process with"),
        testing.emulated_device(kind=kind),
    ):
        pass


def test_without_a_compiler_there_is_a_reason(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(emulated_cuda.sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(penchant.Error, match="there is no C.. compiler"):
        emulated_cuda.library()


@without
def test_a_compiler_that_fails_is_quoted(tmp_path, monkeypatch):
    compiler = tmp_path / "failing"
    compiler.write_text("#!/bin/sh\necho 'guard.cpp:1: error: no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(penchant.Error, match="failing fails: .*no such header"):
        emulated_cuda.library()
    assert not list((tmp_path / "cache" / "penchant").iterdir())


@pytest.mark.slow
@without
@pytest.mark.skipif(emulated_cuda.is_loaded(), reason="this process is such a one")
def test_what_runs_on_a_gpu_runs_on_devices_called_cuda(root):
    """A small part; all tests marked `cuda` are `make test-cuda DEVICE=emulated-cuda`."""
    chosen = [
        "-k",
        "not tf32 and not compiled",
        HERE / "test_cuda_device.py",
        HERE / Path(__file__),
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "cuda"]
    variables = {**emulated_cuda.environment(), on_cuda.DEVICE: "emulated-cuda"}
    done = subprocess.run(
        [*command, *map(str, chosen)], cwd=root, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout.splitlines()[-1]


@pytest.fixture
def counts():
    with testing.emulated_device(kind="cuda") as counts:
        yield counts


@pytest.mark.cuda
@inside
def test_two_devices_do_not_mix_and_one_is_current(counts):
    first, second = (torch.ones(2, device=f"cuda:{number}") for number in range(2))
    assert first.is_cuda and torch.cuda.device_count() == 2
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        first + second
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        first + torch.ones(2, device="cpu")
    with torch.cuda.device(1):
        assert str(torch.zeros(1, device="cuda").device) == "cuda:1"
    assert str(torch.zeros(1, device="cuda").device) == "cuda:0"


@pytest.mark.cuda
@inside
def test_a_device_draws_from_a_generator_of_its_own(counts):
    """Global seeds reach it; its draws leave the host's numbers as they are."""
    torch.manual_seed(5)
    expected = torch.rand(3, device="cpu")
    torch.manual_seed(5)
    there = torch.rand(3, device="cuda")
    again = torch.rand(3, device="cuda")
    assert torch.equal(torch.rand(3, device="cpu"), expected)
    assert not torch.equal(there, again)
    with torch.random.fork_rng(devices=[0]):
        torch.cuda.manual_seed(5)
        assert torch.equal(torch.rand(3, device="cuda"), there)
    own = torch.Generator(device="cuda").manual_seed(1)
    one, other = (torch.randn(3, generator=own, device="cuda") for _ in range(2))
    assert own.device.type == "cuda" and not torch.equal(one, other)
    assert torch.equal(torch.randn(3, generator=own.manual_seed(1), device="cuda"), one)
    with pytest.raises(RuntimeError, match="expected a generator of cuda"):
        torch.randn(3, generator=torch.Generator(device="cpu"), device="cuda")
    with pytest.raises(RuntimeError):
        torch.randn(3, generator=own, device="cpu")


@pytest.mark.cuda
@inside
def test_its_memory_is_counted_and_has_an_end(counts):
    held = torch.zeros(1000, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == held.nbytes and torch.cuda.memory_allocated(0) == 0
    free, total = torch.cuda.mem_get_info(1)
    assert total - free == held.nbytes
    del held
    assert torch.cuda.max_memory_allocated(1) == 4000
    torch.cuda.reset_peak_memory_stats(1)
    assert torch.cuda.max_memory_allocated(1) == 0
    torch.cuda.set_per_process_memory_fraction(5000 / total)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        torch.zeros(2000, device="cuda")


@pytest.mark.cuda
@inside
def test_nothing_stays_when_the_devices_are_gone():
    before = dict(vars(torch.cuda))
    with testing.emulated_device():
        assert torch.cuda.is_available()
    assert dict(vars(torch.cuda)) == before and not torch.cuda.is_available()
    assert "LD_PRELOAD" in os.environ
