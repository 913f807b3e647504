"""Trainings: done once per run, saved as checkpoints, and resumed after a kill.

A checkpoint's name ends in a checksum of its content, so that a damaged one is noticed, quarantined
and trained again.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from penchant.components.training import Training
from penchant.errors import Error
from penchant.execution.queue.locks import Holder, locked
from penchant.results.files import atomic, checksum, read_tensors, set_aside, sweep
from penchant.terminal import complain

if TYPE_CHECKING:
    from penchant.execution.workers.engines import Link
    from penchant_numerics.data import Data, Samples
    from torch import nn

# a training -> its network, samples to judge by
Finished: TypeAlias = "Callable[[Training], tuple[nn.Module, Samples]]"

SECONDS_BETWEEN_CHECKPOINTS = 30.0
SECONDS_TO_SAY = 5.0  # for which another command's training is waited for without a word
_WRITTEN = "written"  # a checkpoint that is whole and has no name yet
# Names: <step, or latest>-<number>-<checksum>.pt
_DIGITS = 16  # of the checksum in a checkpoint's name


@attrs.frozen(eq=False)
class Checkpoints:
    """One training in a folder of its own: every requested state is saved."""

    folder: Path
    data: Data
    training: Training
    seed: int = attrs.field(kw_only=True)
    tell: Callable[[int, int], None] = attrs.field(kw_only=True)  # step, total
    link: Link | None = attrs.field(default=None, kw_only=True)  # where the command is elsewhere

    def states(
        self, make: Callable[[], nn.Module], steps: Sequence[int] | None
    ) -> Iterator[tuple[int, nn.Module]]:
        """Yield (step, network) for these steps in order, by default the last.

        After an early stop later steps are left out. `make` makes the network before training.
        """
        total = self.training.total_steps(len(self.data.train.inputs))
        requested = [total] if steps is None else sorted(set(steps))
        if requested and not 0 <= requested[0] <= requested[-1] <= total:
            found = f"found steps {requested[0]} to {requested[-1]}"
            raise Error(f"the training has {total} steps, {found}")
        latest = -1
        for step in requested:
            state = self._state(make, step)
            reached = int(state["step"])
            # An early stop answers all later steps.
            if reached > latest:
                # A network of its own: what a probe does to it changes no other state.
                network = make()
                network.load_state_dict(state["network"])
                latest = reached
                yield reached, network

    def _state(self, make: Callable[[], nn.Module], step: int) -> dict[str, Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        shared = self.link.training(self.folder) if self.link else contextlib.nullcontext()
        # Two jobs that share a training: the second waits and reads.
        with shared, locked(self.folder / "lock", self._patience()):
            # What a training left that was killed while it wrote.
            sweep(self.folder)
            (self.folder / _WRITTEN).unlink(missing_ok=True)
            known = self._nearest(step)
            # Exactly this step, or one after which training stopped by itself.
            if known is not None and (known["step"] == step or known["finished"]):
                return known
            return self._train(make(), known, step)

    def _patience(self) -> Callable[[float, Holder | None], None]:
        """Says once whom it waits for; that a worker of the same command trains is no news."""
        said = False

        def waits(seconds: float, holder: Holder | None) -> None:
            nonlocal said
            if said or seconds < SECONDS_TO_SAY or holder is None or holder.is_sibling:
                return
            said = True
            network = f"{self.folder.parent.name}/{self.folder.name}"
            complain(f"penchant: waits for {network}, which {holder} trains")

        return waits

    def _nearest(self, step: int) -> dict[str, Any] | None:
        """The latest state up to this step that can be read; damaged ones are quarantined."""
        saved = []
        for path in self.folder.glob("*-*-*.pt"):
            number = path.stem.split("-")[1]
            if number.isdigit() and int(number) <= step:
                saved.append((int(number), path))
        states = (self._read(path) for _, path in sorted(saved, reverse=True))
        return next(filter(None, states), None)

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            if path.stem.endswith(f"-{checksum(path)[:_DIGITS]}"):
                return read_tensors(path)
        except (OSError, Error):
            pass
        set_aside(path)
        return None

    def _train(self, network: nn.Module, state: dict[str, Any] | None, step: int) -> dict[str, Any]:
        """Train up to a step, from a state or from the beginning."""
        from penchant_numerics.training import Trainer

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
        """Save a state, drop those saved against a kill, and return it as it is read."""
        import torch

        # Its name holds its checksum, which is known only when it is written.
        temporary = self.folder / _WRITTEN
        with atomic(temporary) as file:
            torch.save(_on_host(state), file)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        path = self.folder / f"{kind}-{state['step']}-{digest[:_DIGITS]}.pt"
        temporary.replace(path)
        drop_latest(path)
        if self.link is not None:
            self.link.saved(path)
        return read_tensors(path)


def drop_latest(path: Path) -> None:
    """Drop the states saved against a kill that are behind this one."""
    for old in path.parent.glob("latest-*.pt"):
        if old != path:
            old.unlink(missing_ok=True)


def _on_host(value: Any) -> Any:
    """A state whose tensors are in the host's memory, so that any machine can read it."""
    if isinstance(value, dict):
        return {key: _on_host(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_on_host(entry) for entry in value]
    if hasattr(value, "detach"):
        return value.detach().cpu()
    return value


def best_rate(training: Training, finished: Finished) -> tuple[Training, str]:
    """The training with the learning rate of the smallest test error, the first of equals.

    A rate at which training diverges has lost, nothing more. Also returns a sentence about it.
    """
    from penchant.execution.job.chance import error_on

    errors: list[tuple[float, Training]] = []
    for rate in training.learning_rates:
        single = attrs.evolve(training, learning_rate=rate, learning_rates=())
        try:
            network, samples = finished(single)
        except FloatingPointError:
            continue
        errors.append((error_on(network, samples, single.loss), single))
    count = len(training.learning_rates)
    if not errors:
        raise Error(f"training diverged at every one of {count} learning rates")
    # By the error alone: recipes of equal error cannot be ordered.
    error, best = min(errors, key=lambda pair: pair[0])
    diverged = count - len(errors)
    lost = f", {diverged} of which diverged" if diverged else ""
    return best, f"{best.learning_rate:g}, smallest test error ({error:.4g}) of {count} rates{lost}"
