"""Importing timm where torchvision's operators do not load, where they do, and where something else is wrong."""

import importlib
import subprocess
import sys
import warnings

import penchant
import pytest
import torch
from penchant_timm import importing


def first_import():
    """How often a first import warns of torchvision's operators, and whether these load."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert importing.import_timm().create_model
        importing.import_timm()
    warned = sum("torchvision's compiled operators" in str(each.message) for each in caught)
    try:
        import torchvision.extension
    except ImportError:
        return warned, 1
    return warned, int(torchvision.extension._has_ops())


# While tests are collected, because those of models import timm, too.
FRESH = "timm" not in sys.modules
FIRST = first_import()


def test_first_import_warns_once_and_only_where_operators_are_missing():
    warned, operators_load = FIRST
    if not FRESH:  # whoever runs the tests has imported timm: another interpreter tells
        command = [sys.executable, __file__]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        warned, operators_load = map(int, done.stdout.split())
    assert warned == 1 - operators_load


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
    with pytest.warns(RuntimeWarning, match="declared without code"):
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


if __name__ == "__main__":
    sys.stdout.write(f"{FIRST[0]} {FIRST[1]}")
