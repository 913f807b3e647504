"""Systems and versions of torch that nothing can run on: penchant.execution.platform."""

import importlib
import importlib.metadata
import sys

import penchant
import pytest
from penchant import execution
from penchant.execution.platform import check_torch


@pytest.fixture(autouse=True)
def _another_torch():
    """What is installed is read once a process."""
    check_torch.cache_clear()
    yield
    check_torch.cache_clear()


def test_windows_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(penchant.Error, match="found Windows.*WSL"):
        importlib.reload(execution)


@pytest.mark.parametrize("found", ["2.7.1", "2.7.1+cpu", "1.13.0"])
def test_an_older_torch_is_refused_before_a_run_begins(monkeypatch, tmp_path, found):
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: found if name == "torch" else version(name)
    )
    with pytest.raises(penchant.Error, match=rf"torch >=2.8, found {found.replace('+', '.')}"):
        penchant.run({"probes": [{"name": "capacity"}]}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("found", ["2.8.0", "2.8.0+cpu", "2.13.0a0+git1", "3.0"])
def test_a_newer_torch_is_taken(monkeypatch, found):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)
    check_torch()
