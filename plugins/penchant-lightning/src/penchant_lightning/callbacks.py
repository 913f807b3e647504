"""The callbacks. `Trainer(callbacks=[StoreCheckpoints("run", every=100)])`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import lightning
import penchant
import torch
from torch import nn


def _every(every: int) -> int:
    if every < 1:
        raise penchant.Error(f"every must be at least 1, found {every}")
    return every


class StoreCheckpoints(lightning.Callback):
    """Store the weights of a network along its training, as `weights = "folder/*.pt"` reads them.

    Args:
        folder: Where files named `step-000100.pt` are written: plain state dicts.
        every: Steps between two of them; the first is the network as it is before training.
        network: The attribute of the LightningModule that holds the network; empty: all of it.
    """

    def __init__(self, folder: str | Path, *, every: int, network: str = "") -> None:
        self.folder = Path(folder)
        self.every = _every(every)
        self.network = network

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Store the network before its first step."""
        self._store(trainer, pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Store the network every `every` steps."""
        if trainer.global_step % self.every == 0:
            self._store(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Store the trained network."""
        self._store(trainer, pl_module)

    def _store(self, trainer: Any, module: nn.Module) -> None:
        if not trainer.is_global_zero:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{trainer.global_step:06d}.pt"
        # Written under another name first: a file that is there is complete.
        partial = path.with_suffix(".partial")
        torch.save(module.get_submodule(self.network).state_dict(), partial)
        partial.replace(path)


class Measure(lightning.Callback):
    """Run a probe on the network while it trains, and log its quantities.

    Args:
        probe: A probe that takes a trained network.
        every: Steps between two measurements.
        network: The attribute of the LightningModule that holds the network; empty: all of it.
        **given: What `penchant.measure` takes beside the architecture: dataset, options.
    """

    def __init__(self, probe: str, *, every: int, network: str = "", **given: Any) -> None:
        self.probe = probe
        self.every = _every(every)
        self.network = network
        self.given = given

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Measure every `every` steps."""
        if trainer.global_step % self.every or not trainer.is_global_zero:
            return
        # A copy in evaluation mode: measuring leaves no trace in the training.
        network = copy.deepcopy(pl_module.get_submodule(self.network)).cpu().eval()
        with torch.enable_grad():
            result = penchant.measure(self.probe, architecture=network, **self.given)
        numbers = {}
        for name, quantity in result.quantities.items():
            if quantity.missing:
                continue
            numbers[f"{self.probe}/{name}"] = quantity.value
            if quantity.stderr is not None:
                numbers[f"{self.probe}/{name}-stderr"] = quantity.stderr
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)
