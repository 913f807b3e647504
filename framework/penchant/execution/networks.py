"""Networks: drawn from an architecture, or read from the user's file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.components.output import told
from penchant.components.targets import check_parameters, resolve
from penchant.errors import Error
from penchant.seeds import derive

# Names under which trainers save the state of a network; the first that a file has is taken.
STATES = ("state_dict", "model_state_dict", "model", "state_dict_ema")


@attrs.frozen(eq=False)
class BoundArchitecture:
    """An architecture with its shape and outputs: a callable index -> module.

    Modules are made on the CPU, in single precision. Network i comes from (seed, "network", i)
    alone, whatever device, precision, worker or estimator asks for it; `first` shifts all numbers.
    """

    component: Any
    label: str
    shape: tuple[int, ...]
    outputs: int
    seed: int
    first: int = 0

    def __call__(self, index: int = 0) -> Any:
        """Network number `index`."""
        seed = self.seed_of(index)
        return self.build(seed)

    def seed_of(self, index: int) -> int:
        """What the random state is seeded with before network `index` is built."""
        number = self.first + index
        return derive(self.seed, "network", number)

    def with_outputs(self, outputs: int) -> BoundArchitecture:
        """The same architecture with another number of outputs."""
        return attrs.evolve(self, outputs=outputs)

    def with_seed(self, seed: int) -> BoundArchitecture:
        """The same architecture with networks of another seed."""
        return attrs.evolve(self, seed=seed)

    @functools.cached_property
    def _function(self) -> Callable[..., Any]:
        what = f"architecture {self.label!r}"
        function = resolve(self.component.target, what)
        check_parameters(function, self.component.parameters, what)
        return function

    def build(self, seed: int) -> Any:
        """Construct a network in a forked random state."""
        import torch

        # On the host, whatever device the caller has made the default. Only the host's random
        # numbers are seeded: `torch.manual_seed` would seed those of every device, for good.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            network = self._function(self.component, self.shape, self.outputs)
        return network.float().eval()

    def check(self, why: str = "") -> None:
        """One forward pass on zeros: a network that does not fit is refused before all else.

        Args:
            why: Why it must have so many outputs, for the message.
        """
        import torch

        network = self(0)
        what = f"architecture {self.label!r}"
        size = " x ".join(map(str, self.shape))
        if next(network.parameters(), None) is None:
            raise Error(f"{what} has no parameters, expected at least one")
        # Does it take such an input?
        zeros = torch.zeros(1, *self.shape, device="cpu")
        try:
            with torch.no_grad():
                outputs = network(zeros)
        except Error as error:  # told by the kernel itself
            raise Error(f"{what}: {error}") from error
        except Exception as error:  # whatever a network raises, it does not fit
            line, _, _ = str(error).partition("\n")
            text = line or type(error).__name__
            raise Error(f"{what} does not take inputs of shape {size}: {text}") from error
        # Does it give what is expected of it?
        if not isinstance(outputs, torch.Tensor):
            raise Error(f"{what} returns {told(outputs)}")
        shape = tuple(outputs.shape)
        # A sequence has outputs at every position.
        fits = len(shape) in (2, 3) and (shape[0], shape[-1]) == (1, self.outputs)
        if not fits:
            found = " x ".join(map(str, shape)) or "a single number"
            given = f"for one input of shape {size}"
            expected = f"expected 1 x {self.outputs}"
            reason = f"; {why}" if why else ""
            raise Error(f"{what} gives {found} {given}, {expected}{reason}")
        if not torch.isfinite(outputs).all():
            some = outputs.flatten()[:3]
            found = str(some.tolist())
            raise Error(f"{what} gives {found} for an input of zeros, expected finite numbers")


def read_tensors(path: Path) -> dict[str, Any]:
    """Tensors and plain containers from a file, on the host; anything else in it is refused."""
    import torch

    try:
        # A file may come from a stranger: nothing in it is run.
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file that is not a checkpoint fails in many ways
        problem, _, _ = str(error).partition("\n")
        raise Error(f"{path} cannot be read as a checkpoint: {problem}") from error
    if not isinstance(state, dict):
        kind = type(state).__name__
        raise Error(f"{path} must hold a dict of tensors, found {kind}")
    return state


def load_weights(
    network: Any,
    path: Path,
    label: str,
) -> str:
    """Fill a network from the user's file; a mismatch lists missing and unexpected names.

    Args:
        network: What is filled.
        path: The file.
        label: The architecture's label, for messages.

    Returns:
        What was left out of the file: a prefix of names, weights beside these; empty if nothing.
    """
    import torch

    own = network.state_dict()
    # What else the file holds, such as an optimiser's state, is let go at once.
    state, others = _state_in(read_tensors(path))
    state, prefix = _without_prefix(state, own)
    what = f"{path} does not fit architecture {label!r}"
    # Compared before anything is loaded: torch fills what fits before it complains.
    missing = sorted(own.keys() - state.keys())
    unexpected = sorted(state.keys() - own.keys())
    if missing or unexpected:
        lacking = missing or "nothing"
        surplus = unexpected or "nothing"
        raise Error(f"{what}: missing {lacking}, unexpected {surplus}")
    wrong = []
    for name, tensor in own.items():
        given = state[name]
        if not isinstance(given, torch.Tensor):
            kind = type(given).__name__
            wrong.append(f"{name} is a {kind}, expected a tensor")
        elif given.shape != tensor.shape:
            shape, expected = tuple(given.shape), tuple(tensor.shape)
            wrong.append(f"{name} {shape}, expected {expected}")
    if wrong:
        raise Error(f"{what}: {'; '.join(wrong)}")
    network.load_state_dict(state)
    notes = [f"names in the file without {prefix!r}"] if prefix else []
    notes += [f"the file's {name!r} is not used" for name in others]
    return "; ".join(notes)


def _state_in(found: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The state dict in a file: itself, or under a name that trainers give it.

    Args:
        found: What the file holds.

    Returns:
        The state dict, and names of others beside it, such as the averaged weights of timm.
    """
    others: list[str] = []
    while True:
        names = [name for name in STATES if isinstance(found.get(name), dict)]
        if not names:
            return found, others
        first, *rest = names
        found = found[first]
        others += rest


def _without_prefix(state: dict[str, Any], own: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The state without the word that a wrapper put before every name, and that word.

    torch's data-parallel wrapper puts "module." there, its compiler "_orig_mod.", trainers the name
    of an attribute. Only where all names fit without it.
    """
    names = [str(name) for name in state]
    first = names[0] if names else ""
    word, _, _ = first.partition(".")
    prefix = f"{word}."
    same = all(name.startswith(prefix) for name in names)
    stripped = {}
    for name, value in zip(names, state.values()):
        stripped[name.removeprefix(prefix)] = value
    if same and stripped.keys() == own.keys():
        return stripped, prefix
    return state, ""
