"""Why a GPU cannot be used: one sentence for each reason, with what helps."""

import subprocess

import penchant
import pytest
from penchant.execution.job import gpus
from penchant.execution.job.devices import resolve_device
from penchant.execution.job.gpus import Facts, obstacle

NEW = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
BUILT = {"torch": "2.13.0+cu130", "build": "13.0"}
FOUND = {**BUILT, "available": True, "architectures": NEW, "driver": "580.65", "supported": "13.0"}

REASONS = [
    ({"torch": "2.13.0+cpu", "build": None}, "built without CUDA: choose a build"),
    ({**BUILT, "visible": "", "driver": "580.65"}, "CUDA_VISIBLE_DEVICES is '', which hides"),
    (BUILT, "nvidia-smi finds no NVIDIA driver"),
    (
        {**BUILT, "driver": "525.60", "supported": "12.0"},
        "the driver 525.60 supports CUDA 12.0, torch 2.13.0+cu130 needs 13.0: update",
    ),
    ({**BUILT, "driver": "580.65", "supported": "13.0"}, "finds no device, although"),
    (
        {**FOUND, "name": "Tesla V100", "capability": (7, 0)},
        "Tesla V100 has the compute capability 7.0, and torch 2.13.0+cu130 has kernels for sm_75",
    ),
]


@pytest.mark.parametrize(("facts", "sentence"), REASONS)
def test_every_reason_has_its_sentence(facts, sentence):
    assert sentence in obstacle(Facts(**facts))


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (9, 0), (12, 0), (13, 1)])
def test_a_gpu_with_kernels_has_no_obstacle(capability):
    """An RTX 4090 (8.9) runs what was built for 8.6, and what comes later is compiled."""
    assert obstacle(Facts(**FOUND, capability=capability)) is None
    # binaries alone do not run on the next generation
    binaries = {**FOUND, "architectures": NEW[:-1]}
    expected = capability == (13, 1)
    assert (obstacle(Facts(**binaries, capability=capability)) is not None) == expected


SMI = """
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
"""


def test_versions_are_those_of_nvidia_smi(monkeypatch):
    done = subprocess.CompletedProcess([], 0, stdout=SMI)
    monkeypatch.setattr(gpus.subprocess, "run", lambda *_, **__: done)
    assert gpus._driver.__wrapped__() == ("535.104.05", "12.2")


def test_a_device_that_cannot_be_had_is_refused_with_the_reason(monkeypatch):
    facts = Facts(**BUILT, driver="525.60", supported="12.0")
    monkeypatch.setattr(gpus, "known", lambda: facts)
    with pytest.raises(penchant.Error, match=r"'cuda' is not available: the driver 525.60 .* or "):
        resolve_device("cuda")
