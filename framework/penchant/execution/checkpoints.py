"""Checkpoints: a training is done once per run, kept, and gone on with after a kill.

A checkpoint's name ends in a checksum of its content, so that a damaged one is noticed, set aside
and trained again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penchant.components.training import Training
from penchant.errors import Error
from penchant.results.files import atomic, checksum, read_tensors, set_aside, sweep

if TYPE_CHECKING:
    from penchant_numerics.data import Data
    from torch import nn

SECONDS_BETWEEN_CHECKPOINTS = 30.0
_WRITTEN = "written"  # a checkpoint that is whole, and has no name yet
_DIGITS = 16  # of the checksum in a checkpoint's name


class Checkpoints:
    """One training in a folder of its own: every state that was asked for is kept."""

    def __init__(
        self,
        folder: Path,
        data: Data,
        training: Training,
        *,
        seed: int,
        tell: Callable[[int, int], None],
    ) -> None:
        self.folder = folder
        self.data = data
        self.training = training
        self.seed = seed
        self.tell = tell

    def states(
        self,
        make: Callable[[], nn.Module],
        steps: Sequence[int] | None,
    ) -> Iterator[tuple[int, nn.Module]]:
        """Yield (step, network) for these steps in order; by default the last.

        Args:
            make: Makes the network as it is before training.
            steps: Steps to look at; after an early stop later ones are left out.

        Yields:
            The step, and a network of its own.
        """
        samples = len(self.data.train.inputs)
        total = self.training.total_steps(samples)
        wanted = [total] if steps is None else sorted(set(steps))
        if wanted:
            first, last = wanted[0], wanted[-1]
            if not 0 <= first <= last <= total:
                found = f"found steps {first} to {last}"
                raise Error(f"the training has {total} steps, {found}")

        seen = -1
        for step in wanted:
            state = self._state(make, step)
            reached = int(state["step"])
            # An early stop answers all later steps.
            if reached > seen:
                # A network of its own: what a probe does to it changes no other state.
                network = make()
                network.load_state_dict(state["network"])
                seen = reached
                yield seen, network

    def _state(self, make: Callable[[], nn.Module], step: int) -> dict[str, Any]:
        import filelock

        self.folder.mkdir(parents=True, exist_ok=True)
        # Two jobs that share a training: the second waits and reads.
        with filelock.FileLock(self.folder / "lock"):
            self._sweep()
            known = self._nearest(step)
            # Exactly this step, or one after which training stopped by itself.
            if known is not None and (known["step"] == step or known["finished"]):
                return known
            return self._train(make(), known, step)

    def _sweep(self) -> None:
        """Remove what a training left that was killed while it wrote."""
        sweep(self.folder)
        unnamed = self.folder / _WRITTEN
        unnamed.unlink(missing_ok=True)

    def _nearest(self, step: int) -> dict[str, Any] | None:
        """The latest state up to this step that can be read; damaged ones are set aside."""
        kept = []
        for path in self.folder.glob("*.pt"):
            # <step or latest>-<number>-<checksum>
            parts = path.stem.split("-")
            if len(parts) != 3 or not parts[1].isdigit():
                continue
            number = int(parts[1])
            if number <= step:
                kept.append((number, path))

        for _, path in sorted(kept, reverse=True):
            state = self._read(path)
            if state is not None:
                return state
        return None

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            digest = checksum(path)[:_DIGITS]
            _, _, named = path.stem.rpartition("-")
            if digest == named:
                return read_tensors(path)
        except (OSError, Error):
            pass
        set_aside(path)
        return None

    def _train(self, network: nn.Module, state: dict[str, Any] | None, step: int) -> dict[str, Any]:
        """Train up to a step, from a state or from the beginning."""
        from penchant_numerics.trainer import Trainer

        trainer = Trainer(network, self.data.train, self.training, seed=self.seed)
        if state is not None:
            trainer.load(state)
        saved = time.monotonic()

        def observe(at: int) -> None:
            nonlocal saved
            self.tell(at, trainer.total)
            # A killed training goes on from here.
            if time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                self._write("latest", trainer.state())
                saved = time.monotonic()

        trainer.run(until=step, after_step=observe)
        return self._write("step", trainer.state())

    def _write(self, kind: str, state: dict[str, Any]) -> dict[str, Any]:
        """Keep a state, drop those kept against a kill, and give it back as a reader has it."""
        import torch

        # Its name holds its checksum, which is known only when it is written.
        temporary = self.folder / _WRITTEN
        with atomic(temporary) as file:
            torch.save(_on_host(state), file)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        step = state["step"]
        ending = digest[:_DIGITS]
        path = self.folder / f"{kind}-{step}-{ending}.pt"
        temporary.replace(path)

        # Those kept against a kill are behind this one.
        for old in self.folder.glob("latest-*.pt"):
            if old != path:
                old.unlink(missing_ok=True)
        return read_tensors(path)


def _on_host(value: Any) -> Any:
    """A state whose tensors are in the host's memory, so that any machine can read it."""
    if isinstance(value, dict):
        return {key: _on_host(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_on_host(part) for part in value]
    if hasattr(value, "detach"):
        return value.detach().cpu()
    return value
