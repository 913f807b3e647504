"""Networks: drawn from an architecture, trained once per run, or read from the user's file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.components import check_parameters, resolve
from penchant.errors import Error
from penchant.identity import derive
from penchant.results import atomic

SECONDS_BETWEEN_CHECKPOINTS = 30.0


@attrs.frozen(eq=False)
class BoundArchitecture:
    """An architecture with its shape and outputs: a callable index -> module, on the CPU, in single precision.

    Network i comes from (seed, "network", i) alone, whatever device, precision, worker or estimator asks for it.
    """

    component: Any
    label: str
    shape: tuple[int, ...]
    outputs: int
    seed: int

    def __call__(self, index: int = 0) -> Any:
        return self.build(self.seed_of(index))

    def seed_of(self, index: int) -> int:
        """What the random state is seeded with before network `index` is built."""
        return derive(self.seed, "network", index)

    def with_outputs(self, outputs: int) -> BoundArchitecture:
        """The same architecture with another number of outputs."""
        return attrs.evolve(self, outputs=outputs)

    def build(self, seed: int) -> Any:
        """Construct a network in a forked random state; what does not fit the shape is a clear error."""
        import torch

        what = f"architecture {self.label!r}"
        function = resolve(self.component.target, what)
        check_parameters(function, self.component.parameters, what)
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            network = function(self.component, self.shape, self.outputs)
        return network.float().eval()

    def check(self) -> None:
        """One forward pass on zeros: a network that does not fit, or is not finite, is refused before anything starts."""
        import torch

        network = self(0)
        try:
            with torch.no_grad():
                outputs = network(torch.zeros(1, *self.shape, device="cpu"))
        except Exception as error:  # whatever a network raises, it does not fit
            text = str(error).partition("\n")[0] or type(error).__name__
            raise Error(
                f"architecture {self.label!r} does not take inputs of shape {self._shape}: {text}"
            ) from error
        if tuple(getattr(outputs, "shape", ())) != (1, self.outputs):
            found = " x ".join(map(str, getattr(outputs, "shape", ()))) or type(outputs).__name__
            raise Error(
                f"architecture {self.label!r} gives {found} for one input of shape {self._shape}, expected 1 x {self.outputs}"
            )
        if not torch.isfinite(outputs).all():
            raise Error(
                f"architecture {self.label!r} gives {outputs.flatten()[:3].tolist()} for an input of zeros, expected finite numbers"
            )

    @property
    def _shape(self) -> str:
        return " x ".join(map(str, self.shape))


class Checkpoints:
    """One training in a folder of its own: every state that was asked for is kept, and any of them can be gone on from."""

    def __init__(
        self, folder: Path, data: Any, training: Any, seed: int, tell: Callable[[int, int], None]
    ) -> None:
        self.folder, self.data, self.training, self.seed, self.tell = (
            folder,
            data,
            training,
            seed,
            tell,
        )

    def states(
        self, make: Callable[[], Any], steps: Sequence[int] | None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (step, network) for these steps in order; by default the last."""
        total = self.training.total_steps(len(self.data.train.inputs))
        wanted = [total] if steps is None else sorted(set(steps))
        if wanted and not 0 <= wanted[0] <= wanted[-1] <= total:
            raise Error(f"the training has {total} steps, found steps {wanted[0]} to {wanted[-1]}")
        seen = -1
        for step in wanted:
            state = self._state(make, step)
            if state["step"] > seen:  # an early stop answers all later steps
                network = make()
                network.load_state_dict(state["network"])
                seen = int(state["step"])
                yield seen, network

    def _state(self, make: Callable[[], Any], step: int) -> dict[str, Any]:
        import filelock

        self.folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(
            self.folder / "lock"
        ):  # two jobs that share a training: the second waits and reads
            kept = self._kept()
            if step in kept:
                return self._read(kept[step])
            earlier = [self._read(path) for at, path in sorted(kept.items()) if at < step][-1:]
            if earlier and earlier[0]["finished"]:
                return earlier[0]
            return self._train(make(), earlier[0] if earlier else None, step)

    def _kept(self) -> dict[int, Path]:
        return {int(path.stem.partition("-")[2]): path for path in self.folder.glob("step-*.pt")}

    def _train(self, network: Any, state: dict[str, Any] | None, step: int) -> dict[str, Any]:
        from penchant_numerics.trainer import Trainer

        trainer = Trainer(network, self.data.train, self.training, seed=self.seed)
        latest = self.folder / "latest.pt"
        for known in (state, self._read(latest) if latest.is_file() else None):
            if known is not None and trainer.step <= known["step"] <= step:
                trainer.load(known)
        saved = time.monotonic()

        def observe(at: int, loss: float) -> None:
            nonlocal saved
            self.tell(at, trainer.total)
            if (
                time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS
            ):  # a killed training goes on from here
                self._write(latest, trainer.state())
                saved = time.monotonic()

        trainer.run(until=step, observe=observe)
        self._write(self.folder / f"step-{trainer.step}.pt", trainer.state())
        latest.unlink(missing_ok=True)
        return self._read(self.folder / f"step-{trainer.step}.pt")

    def _write(self, path: Path, state: dict[str, Any]) -> None:
        import torch

        with atomic(path) as file:
            torch.save(state, file)

    def _read(self, path: Path) -> dict[str, Any]:
        return read_tensors(path, self.data.train.inputs.device)


def read_tensors(path: Path, device: Any) -> dict[str, Any]:
    """Tensors and plain containers from a file; anything else in it is refused."""
    import torch

    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # a file that is not a checkpoint fails in many ways
        raise Error(
            f"{path} cannot be read as a checkpoint: {str(error).partition(chr(10))[0]}"
        ) from error
    if not isinstance(state, dict):
        raise Error(f"{path} must hold a dict of tensors, found {type(state).__name__}")
    return state


def load_weights(network: Any, path: Path, label: str) -> None:
    """Fill a network from the user's file; a mismatch lists missing and unexpected names."""
    state = read_tensors(path, next(network.parameters()).device)
    own = network.state_dict()
    missing, unexpected = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or unexpected:
        raise Error(
            f"{path} does not fit architecture {label!r}: missing {missing or 'nothing'}, unexpected {unexpected or 'nothing'}"
        )
    wrong = [
        f"{name} {tuple(state[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if own[name].shape != state[name].shape
    ]
    if wrong:
        raise Error(f"{path} does not fit architecture {label!r}: {'; '.join(wrong)}")
    network.load_state_dict(state)
