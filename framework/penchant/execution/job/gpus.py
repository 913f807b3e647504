"""Which GPUs torch uses here, and why it cannot use one: a sentence for each reason."""

import functools
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import torch


def identity(device: str) -> dict[str, str]:
    """Which GPU, and with which libraries, because these change numbers; empty for a CPU.

    Args:
        device: Such as "cuda:1". A device without a number is any of those here, so that all kinds
            of them are named.
    """
    if not device.startswith("cuda"):
        return {}
    numbers = range(torch.cuda.device_count())
    devices = [device] if ":" in device else [f"cuda:{number}" for number in numbers]
    kinds = {torch.cuda.get_device_name(each) for each in devices}
    return {
        "gpu": " or ".join(sorted(kinds)),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
    }


def drivers(device: str) -> dict[str, str]:
    """How many GPUs and which driver, which change no numbers; empty for a CPU."""
    if not device.startswith("cuda"):
        return {}
    driver, _ = _driver()
    return {"gpus": str(torch.cuda.device_count()), "driver": driver or "unknown"}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of CUDA on a machine.

    Attributes:
        torch: The version of torch.
        build: The version of CUDA that torch was built for; None for a build without it.
        visible: The variable CUDA_VISIBLE_DEVICES; None where it is not set.
        driver: The version of the NVIDIA driver; empty where there is none.
        supported: The newest version of CUDA that the driver supports.
        available: Whether torch finds a device.
        name: The first device.
        capability: Its compute capability.
        architectures: What torch has kernels for, such as `sm_80`.
    """

    torch: str
    build: str | None
    visible: str | None = None
    driver: str = ""
    supported: str = ""
    available: bool = False
    name: str = ""
    capability: tuple[int, int] = (0, 0)
    architectures: Sequence[str] = ()


def known() -> Facts:
    """The facts of this machine."""
    driver, supported = _driver()
    available = torch.cuda.is_available()
    return Facts(
        torch=torch.__version__,
        build=torch.version.cuda,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        driver=driver,
        supported=supported,
        available=available,
        name=torch.cuda.get_device_name(0) if available else "",
        capability=torch.cuda.get_device_capability(0) if available else (0, 0),
        architectures=torch.cuda.get_arch_list(),
    )


def obstacle(facts: Facts) -> str | None:
    """Why no GPU can be used, and what helps; None where one can.

    >>> obstacle(Facts(torch="2.13.0+cpu", build=None))
    'torch 2.13.0+cpu is built without CUDA: choose a build for CUDA at pytorch.org'
    """
    if facts.build is None:
        return f"torch {facts.torch} is built without CUDA: choose a build for CUDA at pytorch.org"
    if facts.available:
        return _obstacle_of_capability(facts)
    if facts.visible is not None and facts.visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES is {facts.visible!r}, which hides every GPU: unset it"
    if not facts.driver:
        return "nvidia-smi finds no NVIDIA driver: there is no GPU here, or its driver is missing"
    if _number(facts.supported) < _number(facts.build):
        return (
            f"the driver {facts.driver} supports CUDA {facts.supported or 'of no known version'}, "
            f"torch {facts.torch} needs {facts.build}: update the driver, or choose a build for an "
            "older CUDA at pytorch.org"
        )
    return (
        f"torch {facts.torch} for CUDA {facts.build} finds no device, although there is the driver "
        f"{facts.driver}: see whether nvidia-smi lists a GPU and whether this process may use it"
    )


def _obstacle_of_capability(facts: Facts) -> str | None:
    if not facts.architectures or _runs(facts.capability, facts.architectures):
        return None
    major, minor = facts.capability
    kernels = ", ".join(facts.architectures)
    return (
        f"{facts.name} has the compute capability {major}.{minor}, and torch {facts.torch} has "
        f"kernels for {kernels} only: choose a build for an older CUDA (12.6) at pytorch.org"
    )


def _runs(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Is there a kernel for a capability?

    A binary (`sm_86`) runs on devices of its major number and at least its minor one, code that the
    driver compiles (`compute_90`) on all newer ones.
    """
    for each in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", each)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        same = built[0] == capability[0] or match[1] == "compute"
        if same and built <= capability:
            return True
    return False


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


@functools.cache
def _driver() -> tuple[str, str]:
    """Versions of the driver and of the CUDA it supports, as nvidia-smi says; empty if unknown."""
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "", ""
    driver = re.search(r"Driver Version: *([\d.]+)", done.stdout)
    cuda = re.search(r"CUDA[^:|]*Version: *([\d.]+)", done.stdout)
    return driver[1] if driver else "", cuda[1] if cuda else ""
