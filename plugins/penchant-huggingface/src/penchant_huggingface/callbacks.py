"""Callbacks of transformers' Trainer: `callbacks=[StoreCheckpoints("run", every=100)]`.

The Trainer's own checkpoints (`checkpoint-100/`) are a trajectory, too; these are smaller, begin
with the network before its first step, and need no `save_steps`.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import penchant
import torch
from torch import nn

from penchant_huggingface.importing import import_transformers

import_transformers()  # also where torchvision does not load
from transformers import TrainerCallback  # noqa: E402


def _every(every: int) -> int:
    if every < 1:
        raise penchant.Error(f"every must be at least 1, found {every}")
    return every


def _unwrapped(model: nn.Module) -> nn.Module:
    """The network inside wrappers that split batches over devices, or compile it."""
    for name in ("_orig_mod", "module"):
        inside = getattr(model, name, None)
        if isinstance(inside, nn.Module):
            return _unwrapped(inside)
    return model


class StoreCheckpoints(TrainerCallback):
    """Store the weights of a model along its training, as `weights = "folder/*.pt"` reads them.

    Args:
        folder: Where files named `step-000100.pt` are written: plain state dicts.
        every: Steps between two of them; the first is the model as it is before training.
    """

    def __init__(self, folder: str | Path, *, every: int) -> None:
        self.folder = Path(folder)
        self.every = _every(every)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Store the model before its first step."""
        self._store(state, given["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Store the model every `every` steps."""
        if state.global_step % self.every == 0:
            self._store(state, given["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Store the trained model."""
        self._store(state, given["model"])

    def _store(self, state: Any, model: nn.Module) -> None:
        if not state.is_world_process_zero:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{state.global_step:06d}.pt"
        # Written under another name first: a file that is there is complete.
        partial = path.with_suffix(".partial")
        torch.save(_unwrapped(model).state_dict(), partial)
        partial.replace(path)


class Measure(TrainerCallback):
    """Run a probe on the model while it trains; its quantities join the Trainer's `log_history`.

    Args:
        probe: A probe that takes a trained network.
        every: Steps between two measurements.
        output: The entry of what the model returns that is its output.
        **given: What `penchant.measure` takes beside the architecture: dataset, options.
    """

    def __init__(self, probe: str, *, every: int, output: str = "logits", **given: Any) -> None:
        self.probe = probe
        self.every = _every(every)
        self.given = {"output": output, **given}

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure every `every` steps."""
        if state.global_step % self.every or not state.is_world_process_zero:
            return
        # A copy in evaluation mode: measuring does not affect the training.
        network = copy.deepcopy(_unwrapped(given["model"])).cpu().eval()
        with torch.enable_grad():
            result = penchant.measure(self.probe, architecture=network, **self.given)
        numbers: dict[str, float] = {"step": state.global_step}
        for name, quantity in result.quantities.items():
            if quantity.missing:
                continue
            numbers[f"{self.probe}/{name}"] = quantity.value
            if quantity.stderr is not None:
                numbers[f"{self.probe}/{name}-stderr"] = quantity.stderr
        state.log_history.append(numbers)
