"""Networks filled from checkpoints of others: nested states, prefixes of wrappers, mismatches."""

from collections.abc import Mapping
from typing import Any

from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

# Names under which trainers save the state of a network; the first that a file has is taken.
STATES = ("state_dict", "model_state_dict", "model", "state_dict_ema")
SHOWN = 8  # names that a message lists


def fill(network: nn.Module, content: dict[str, Any], *, strict: bool = True) -> str:
    """Fill a network from what a checkpoint holds.

    Args:
        network: The network.
        content: A state dict, or a dict that holds one under a usual name.
        strict: Refuse weights that the network does not have; else they are left out, and a head
            for another number of outputs stays as the network has it.

    Returns:
        What was not used: a prefix of names, other states, weights; empty if none.

    Raises:
        Refusal: Names or shapes do not match; nothing has been loaded.

    >>> from torch import nn
    >>> network = nn.Linear(2, 1)
    >>> state = {f"module.{name}": value for name, value in nn.Linear(2, 1).state_dict().items()}
    >>> fill(network, {"model": state, "optimizer": {}})
    "names in the file without 'module.'"
    """
    own = network.state_dict()
    state, others = _state_in(content)
    state, prefix = _without_prefix(state, own)
    state = _with_tied(state, own)
    # Compared before anything is loaded: torch fills what fits before it complains.
    missing = sorted(own.keys() - state.keys())
    unexpected = sorted(state.keys() - own.keys())
    if missing or (unexpected and strict):
        hint = "" if missing else "; strict = false leaves the unexpected ones out"
        raise Refusal(f"missing {_listed(missing)}, unexpected {_listed(unexpected)}{hint}")
    other_head = _check_shapes(state, own, strict=strict)
    network.load_state_dict(
        {name: own[name] if name in other_head else state[name] for name in own}
    )
    notes = [f"names in the file without {prefix!r}"] if prefix else []
    notes += [f"the file's {name!r} is not used" for name in others]
    if unexpected:
        notes.append(f"left out: {_listed(unexpected)}")
    if other_head:
        notes.append(f"for other outputs, so that the network's own stay: {_listed(other_head)}")
    return "; ".join(notes)


def _with_tied(state: dict[str, Any], own: Mapping[str, Tensor]) -> dict[str, Any]:
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
    """Names in a message; of many only the first."""
    if not names:
        return "nothing"
    more = len(names) - SHOWN
    return f"{names[:SHOWN]} and {more} more" if more > 0 else str(names)


def _check_shapes(state: Mapping[str, Any], own: Mapping[str, Any], *, strict: bool) -> list[str]:
    """Refuse weights of other shapes; names of the last layer, if that alone may stay as it is."""
    wrong = {}
    for name, tensor in own.items():
        value = state[name]
        if not isinstance(value, Tensor):
            wrong[name] = f"{name} is a {type(value).__name__}, expected a tensor"
        elif value.shape != tensor.shape:
            wrong[name] = f"{name} {tuple(value.shape)}, expected {tuple(tensor.shape)}"
    # A head for other classes is the most frequent mismatch.
    last = list(own)[-1].rpartition(".")[0] if own else ""
    outputs = [len(state[name]) for name in wrong if getattr(state[name], "ndim", 0)]
    is_head = bool(outputs) and {name.rpartition(".")[0] for name in wrong} == {last}
    if not wrong or (is_head and len(wrong) < len(own) and not strict):
        return list(wrong)
    hint = ""
    if is_head:
        hint = f"; the head {last!r} is for {outputs[0]} outputs: strict = false takes the rest"
    raise Refusal(f"{'; '.join(wrong.values())}{hint}")


def _state_in(content: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The state dict in a checkpoint, and names of others beside it, such as averaged weights."""
    others: list[str] = []
    while True:
        names = [name for name in STATES if isinstance(content.get(name), dict)]
        if not names:
            return content, others
        first, *rest = names
        content = content[first]
        others += rest


def has_averages(content: dict[str, Any]) -> bool:
    """Are the weights that `fill` takes from a checkpoint averages over a training?

    timm names them so; the averaged models of `torch.optim.swa_utils` count what they average.

    >>> from torch import nn, optim
    >>> averaged = optim.swa_utils.AveragedModel(nn.Linear(2, 1))
    >>> has_averages(averaged.state_dict()), has_averages(nn.Linear(2, 1).state_dict())
    (True, False)
    """
    state, _ = _state_in(content)
    return "n_averaged" in state or state is content.get("state_dict_ema")


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
