"""Lightning imports torchvision, whose operators do not load beside every build of torch."""

import contextlib

import torch

OPERATORS = ("nms", "qnms")

try:
    import torchvision  # noqa: F401
except ModuleNotFoundError:
    pass  # Lightning does without it
except RuntimeError:
    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPERATORS:
        with contextlib.suppress(RuntimeError):
            declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
