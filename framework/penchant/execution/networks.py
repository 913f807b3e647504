"""Networks: drawn from an architecture, or read from the user's file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from penchant.components.component import Architecture
from penchant.components.output import told
from penchant.components.targets import check_parameters, resolve
from penchant.errors import Error
from penchant.experiments.weights import read_tensors
from penchant.seeds import derive

if TYPE_CHECKING:
    from torch import Tensor, nn

# Names under which trainers save the state of a network; the first that a file has is taken.
STATES = ("state_dict", "model_state_dict", "model", "state_dict_ema")
SHOWN = 8  # names that a message lists
FROM_EMBEDDING = "measure from the embedding on: inputs_from = 'name of the embedding layer'"


@attrs.frozen(eq=False)
class BoundArchitecture:
    """An architecture with its shape and outputs: a callable index -> module.

    `built_for` is the shape that networks are built for, where they begin at a layer and `shape` is
    that of the layer's outputs.

    Modules are made on the CPU, in single precision. Network i comes from (seed, "network", i)
    alone, whatever device, precision, worker or estimator asks for it; `first` shifts all numbers.
    """

    component: Architecture
    label: str
    shape: tuple[int, ...]
    outputs: int
    seed: int
    first: int = 0
    built_for: tuple[int, ...] | None = None

    def __call__(self, index: int = 0) -> nn.Module:
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
    def _function(self) -> Callable[..., nn.Module]:
        what = f"architecture {self.label!r}"
        function = resolve(self.component.target, what)
        check_parameters(function, self.component.parameters, what)
        return function

    def build(self, seed: int) -> nn.Module:
        """Construct a network in a forked random state."""
        import torch

        # On the host, whatever device the caller has made the default. Only the host's random
        # numbers are seeded: `torch.manual_seed` would seed those of every device, for good.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            shape = self.shape if self.built_for is None else self.built_for
            network = self._function(self.component, shape, self.outputs)
        return network.float().eval()

    def check(
        self, why: str = "", *, example: Tensor | None = None, positions: int | None = None
    ) -> None:
        """One forward pass: a network that does not fit is refused before all else.

        Args:
            why: Why it must have so many outputs, for the message.
            example: One input (1, *shape) of whole numbers, such as tokens; None: zeros.
            positions: Positions of a sequence, each of which has outputs; None: one per sample.
        """
        import torch

        network = self(0)
        what = f"architecture {self.label!r}"
        size = " x ".join(map(str, self.shape))
        if next(network.parameters(), None) is None:
            raise Error(f"{what} has no parameters, expected at least one")
        # Does it take such an input?
        given = torch.zeros(1, *self.shape, device="cpu") if example is None else example.cpu()
        try:
            with torch.no_grad():
                outputs = network(given)
        except Error as error:  # told by the kernel itself
            raise Error(f"{what}: {error}") from error
        except Exception as error:  # whatever a network raises, it does not fit
            line, _, _ = str(error).partition("\n")
            text = line or type(error).__name__
            hint = _other_type(network, given)
            raise Error(f"{what} does not take inputs of shape {size}: {text}{hint}") from error
        # Does it give what is expected of it?
        if not isinstance(outputs, torch.Tensor):
            raise Error(f"{what} returns {told(outputs)}")
        expected = (1, self.outputs) if positions is None else (1, positions, self.outputs)
        if outputs.shape != expected:
            found = " x ".join(map(str, outputs.shape)) or "a single number"
            sizes = " x ".join(map(str, expected))
            reason = f"; {why}" if why else ""
            given_to = f"for one input of shape {size}"
            raise Error(f"{what} gives {found} {given_to}, expected {sizes}{reason}")
        if not torch.isfinite(outputs).all():
            some = outputs.flatten()[:3].tolist()
            of = "an input of zeros" if example is None else "the first sample"
            raise Error(f"{what} gives {some} for {of}, expected finite numbers")


def _other_type(network: nn.Module, given: Tensor) -> str:
    """A hint where the network takes the same input as whole numbers, or as floating-point ones."""
    import torch

    floating = given.is_floating_point()
    other = given.long() if floating else given.float()
    try:
        with torch.no_grad():
            network(other)
    except Exception:  # then the type was not what is wrong
        return ""
    if floating:
        return f"; it takes whole numbers, such as tokens: {FROM_EMBEDDING}"
    return "; it takes floating-point numbers: give inputs.float()"


def load_weights(network: nn.Module, path: Path, label: str, *, strict: bool = True) -> str:
    """Fill a network from the user's file; a mismatch lists missing and unexpected names.

    Args:
        network: What is filled.
        path: The file.
        label: The architecture's label, for messages.
        strict: Are weights that the network has not refused? Else they are left out, and named.

    Returns:
        What was left out of the file: a prefix of names, weights beside these; empty if nothing.
    """
    own = network.state_dict()
    # What else the file holds, such as an optimiser's state, is let go at once.
    state, others = _state_in(read_tensors(path))
    state, prefix = _without_prefix(state, own)
    state = _with_tied(state, own)
    what = f"{path} does not fit architecture {label!r}"
    # Compared before anything is loaded: torch fills what fits before it complains.
    missing = sorted(own.keys() - state.keys())
    unexpected = sorted(state.keys() - own.keys())
    if missing or (unexpected and strict):
        hint = ""
        if not missing:
            hint = "; strict = false leaves the unexpected ones out"
        names = f"missing {_listed(missing)}, unexpected {_listed(unexpected)}"
        raise Error(f"{what}: {names}{hint}")
    _check_shapes(state, own, what)
    network.load_state_dict({name: state[name] for name in own})
    notes = [f"names in the file without {prefix!r}"] if prefix else []
    notes += [f"the file's {name!r} is not used" for name in others]
    if unexpected:
        notes.append(f"left out: {_listed(unexpected)}")
    return "; ".join(notes)


def _with_tied(state: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The state with names whose tensor the network shares with one that the file has.

    Files of Hugging Face hold such a tensor once, under one of its names.
    """
    stored = {own[name].data_ptr(): name for name in state if name in own}
    tied = {
        name: state[stored[tensor.data_ptr()]]
        for name, tensor in own.items()
        if name not in state and tensor.numel() and tensor.data_ptr() in stored
    }
    return {**state, **tied}


def _listed(names: list[str]) -> str:
    """Names in a message: of many only the first."""
    if not names:
        return "nothing"
    more = len(names) - SHOWN
    return f"{names[:SHOWN]} and {more} more" if more > 0 else str(names)


def _check_shapes(state: Mapping[str, Any], own: Mapping[str, Any], what: str) -> None:
    """Refuse weights of other shapes; where these are the last layer's alone, say so."""
    import torch

    wrong = {}
    for name, tensor in own.items():
        given = state[name]
        if not isinstance(given, torch.Tensor):
            kind = type(given).__name__
            wrong[name] = f"{name} is a {kind}, expected a tensor"
        elif given.shape != tensor.shape:
            shape, expected = tuple(given.shape), tuple(tensor.shape)
            wrong[name] = f"{name} {shape}, expected {expected}"
    if not wrong:
        return
    # A head for other classes is the commonest of all mismatches.
    last = list(own)[-1].rpartition(".")[0]
    hint = ""
    if {name.rpartition(".")[0] for name in wrong} == {last}:
        outputs = [state[name].shape[0] for name in wrong if hasattr(state[name], "shape")]
        hint = f"; the head {last!r} is for {outputs[0]} outputs" if outputs else ""
    raise Error(f"{what}: {'; '.join(wrong.values())}{hint}")


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
    """The state without the words that wrappers put before every name, and these words.

    torch's data-parallel wrapper puts "module." there, its compiler "_orig_mod.", trainers the name
    of an attribute. Names that do not have them, such as a buffer of the trainer's, stay as they
    are. Only where all names of the network are found so.
    """
    named = {str(name): value for name, value in state.items()}
    first = next(iter(own), "")
    for name in named:
        prefix = name.removesuffix(first)
        if prefix == name or not prefix.endswith("."):
            continue
        stripped = {each.removeprefix(prefix): value for each, value in named.items()}
        if own.keys() <= stripped.keys():
            return stripped, prefix
    return named, ""
