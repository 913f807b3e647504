"""Parameters of a network as one flat vector: which ones, where each lies, are they the same."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

_SHOWN = 6  # names in a message
_SMALL = 2**14  # numbers of a tensor that are compared one by one
_WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a number


def select(
    network: nn.Module, patterns: str | Iterable[str] | None = None, *, trainable_only: bool = False
) -> dict[str, Tensor]:
    """Parameters by name, without their graph, in the network's order.

    A pattern is the name of a parameter, of a layer (all that is under it), or has wildcards:
    `features.*.weight`. A parameter that two modules share appears once.

    Args:
        network: The network.
        patterns: Which parameters; None is all.
        trainable_only: Leave frozen parameters out, those that require no gradient.

    Returns:
        The parameters; they share memory with the network's.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> list(select(network, "2"))
    ['2.weight', '2.bias']
    >>> list(select(network, ["0.bias", "*.weight"]))
    ['0.weight', '0.bias', '2.weight']
    """
    # one pattern or several
    named = dict(network.named_parameters())
    if isinstance(patterns, str):
        patterns = [patterns]
    elif patterns is not None:
        patterns = list(patterns)
    _check_patterns(patterns, list(named))

    selected = {}
    for name, value in named.items():
        chosen = patterns is None or _matches_any(name, patterns)
        frozen = trainable_only and not value.requires_grad
        if chosen and not frozen:
            selected[name] = value.detach()
    return selected


def trainable_names(
    network: nn.Module, patterns: str | Iterable[str] | None = None
) -> tuple[str, ...]:
    """Names of the parameters that require a gradient: what curvature of the training has.

    >>> network = nn.Linear(2, 3)
    >>> _ = network.bias.requires_grad_(False)
    >>> trainable_names(network)
    ('weight',)
    """
    return tuple(select(network, patterns, trainable_only=True))


def _check_patterns(patterns: Sequence[str] | None, names: Sequence[str]) -> None:
    """Refuse a pattern that matches no name, with similar names."""
    for pattern in patterns or ():
        matches = [name for name in names if _matches(name, pattern)]
        if matches:
            continue

        # a slip of the pen is the usual reason
        near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3)
        if near:
            hint = f"similar names: {', '.join(near)}"
        else:
            more = ", ..." if len(names) > _SHOWN else ""
            hint = f"the first names are {', '.join(names[:_SHOWN])}{more}"
        raise Refusal(f"no parameter is named {pattern!r}; {hint} (of {len(names)})")


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns names a parameter."""
    matching = [pattern for pattern in patterns if _matches(name, pattern)]
    return bool(matching)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern names a parameter, or something it is under."""
    if fnmatchcase(name, pattern):
        return True
    return fnmatchcase(name, f"{pattern}.*")


class Layout:
    """Where named tensors lie in a flat vector: one after another, each in row-major order.

    >>> layout = Layout({"a": torch.zeros(2, 2, device="cpu"), "b": torch.zeros(3, device="cpu")})
    >>> layout.size, layout.slices["b"]
    (7, slice(4, 7, None))
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        if not tensors:
            raise Refusal("no parameters: expected at least one")
        values = list(tensors.values())
        self.names = tuple(tensors)
        self.shapes = tuple(value.shape for value in values)
        self.sizes = [value.numel() for value in values]

        # each begins where the one before it ends
        self.slices = {}
        start = 0
        for name, size in zip(self.names, self.sizes):
            self.slices[name] = slice(start, start + size)
            start += size
        self.size = start

        # one device and one precision for all
        first = values[0]
        self.device = first.device
        self.dtype = first.dtype
        self._check_alike(tensors)

    def _check_alike(self, tensors: Mapping[str, Tensor]) -> None:
        """Refuse parameters of several precisions, or on several devices."""
        expected = (self.device, self.dtype)
        for name, value in tensors.items():
            kind = (value.device, value.dtype)
            if kind != expected:
                raise Refusal(
                    "parameters must have one precision and one device: "
                    f"{name} is {value.dtype} on {value.device}, "
                    f"{self.names[0]} {self.dtype} on {self.device}"
                )

    def split(self, row: Tensor) -> list[Tensor]:
        """Tensors (..., *shape) of a flat row (..., size), as views where the row allows it."""
        leading = row.shape[:-1]
        slices = row.split(self.sizes, dim=-1)
        tensors = []
        for each, shape in zip(slices, self.shapes):
            tensors.append(each.reshape((*leading, *shape)))
        return tensors

    def named(self, row: Tensor) -> dict[str, Tensor]:
        """The same by name."""
        tensors = self.split(row)
        return dict(zip(self.names, tensors))

    def join(self, tensors: Sequence[Tensor], *, leading: int = 0) -> Tensor:
        """The flat row (..., size) of tensors (..., *shape) with this many leading dimensions."""
        flat = []
        for each in tensors:
            # a scalar parameter has nothing to flatten
            if each.dim() > leading:
                flat.append(each.flatten(leading))
            else:
                flat.append(each[..., None])
        return torch.cat(flat, dim=-1)

    def write_(self, row: Tensor, tensors: Sequence[Tensor]) -> None:
        """Put tensors into a contiguous row (..., size)."""
        # slices are views of the row
        slices = self.split(row)
        for each, value in zip(slices, tensors):
            each.copy_(value)

    def add_(self, row: Tensor, tensors: Sequence[Tensor]) -> None:
        """Add tensors to a contiguous row (..., size) in place, without a second row."""
        # slices are views of the row
        slices = self.split(row)
        for each, value in zip(slices, tensors):
            each += value


class Unchanged:
    """Tells whether parameters still are what they were.

    Autograd counts changes in place, but not those made through `.data`. So values are stored too:
    those of small tensors all, of large ones the norm and the sums of rows.

    >>> weight = nn.Parameter(torch.ones(2, 2, device="cpu"))
    >>> same = Unchanged({"weight": weight.detach()})
    >>> weight.data[0, 0] = 2
    >>> same.first_changed()
    'weight'
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self._counts = {}
        self._marks = {}
        for name, value in tensors.items():
            self._counts[name] = value._version
            self._marks[name] = _mark_of(value).clone()

    def first_changed(self) -> str | None:
        """The name of a parameter that has changed, if there is one."""
        differ = []
        for name, value in self._tensors.items():
            # what autograd has counted, and what it has not
            mark = _mark_of(value)
            before = self._marks[name]
            counted = value._version != self._counts[name]
            if counted or mark.shape != before.shape:
                return name
            differ.append((mark != before).any())
        if not differ:
            return None

        # read from the device once for all parameters, because the host waits for it
        changed = torch.stack(differ)
        if not changed.any():
            return None
        first = changed.tolist().index(True)
        return list(self._tensors)[first]


def _mark_of(value: Tensor) -> Tensor:
    """Bits that another value would not have."""
    if value.numel() > _SMALL:
        # few numbers that depend on all
        flat = value[None]
        if value.dim() > 1:
            flat = value.flatten(1)
        norm = torch.linalg.vector_norm(flat)
        sums = flat.sum(1)
        value = torch.cat([sums, norm[None]])
    # as whole numbers: what is not a number is not even equal to itself
    kind = _WHOLE[value.element_size()]
    return value.view(kind)
