"""Importing timm where torchvision's operators do not load, where they do, and where something else is wrong."""

import importlib
import subprocess
import sys

import penchant
import pytest
import torch
from penchant_timm import importing


def test_a_first_import_says_nothing():
    code = "from penchant_timm import importing; assert importing.import_timm().create_model"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def refusing(error, monkeypatch):
    """Make the import of timm raise this once."""
    real, refused = importlib.import_module, []

    def import_module(name, *args):
        if name == "timm" and not refused:
            refused.append(name)
            raise error
        return real(name, *args)

    monkeypatch.setattr(importing.importlib, "import_module", import_module)


def test_missing_operators_are_declared(monkeypatch):
    refusing(RuntimeError("operator torchvision::nms does not exist"), monkeypatch)
    assert importing.import_timm().__name__ == "timm"
    assert "iou_threshold" in str(torch.ops.torchvision.nms.default._schema)
    assert "iou_threshold" in str(torch.ops.torchvision.qnms.default._schema)


@pytest.mark.parametrize(
    "error", [RuntimeError("out of luck"), ModuleNotFoundError("No module named 'timm'")]
)
def test_other_failures_are_told_as_they_are(error, monkeypatch):
    refusing(error, monkeypatch)
    with pytest.raises(penchant.Error, match=f"timm cannot be imported: {error}"):
        importing.import_timm()
