"""Sums over classes of what every layer is given, by forward passes only.

`layer_moments` adds up features and errors, which takes a backward pass per class. Measures of
collapse need the features only: for every layer sums over each class and the second moment, stored
by group of samples, so that a jackknife leaves a group out by a subtraction. A feature is the mean
over the positions of what a layer is given: channels of a convolution, units of a linear layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from penchant_numerics.device import accumulation_dtype, memory
from penchant_numerics.layers import takes_batch, watched
from penchant_numerics.training import predictions
from torch import Tensor, nn

_PASS = 256  # samples
_TRIED = 2  # samples that show which layers are used, and in what order
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass
class CollapseLayers:
    """Layers that can be measured, in the order of their use, and all others."""

    modules: dict[str, nn.Module] = field(default_factory=dict)
    classifier: str | None = None  # the linear layer whose output is the network's
    narrow: list[str] = field(default_factory=list)  # fewer features than a simplex needs
    wide: list[str] = field(default_factory=list)  # more features than are stored
    mixed: list[str] = field(default_factory=list)  # whose rows are not samples


@dataclass
class ClassScatter:
    """Sums over the samples of one layer, by group and class, in double precision."""

    counts: Tensor  # (G, C)
    sums: Tensor  # (G, C, d)
    moments: Tensor  # (G, d, d), of h h^T
    permuted: Tensor  # (P, C, d), sums of all samples with permuted labels

    def without(self, group: int | None) -> tuple[Tensor, Tensor]:
        """Class means (C, d) and within-class covariance (d, d) with a group left out, or of all.

        The covariance is over samples around the means of their classes, divided by their number.
        """
        counts, sums, moment = self.counts.sum(0), self.sums.sum(0), self.moments.sum(0)
        if group is not None:
            counts = counts - self.counts[group]
            sums = sums - self.sums[group]
            moment = moment - self.moments[group]
        return _scatter(counts, sums, moment)

    def with_permutation(self, number: int) -> tuple[Tensor, Tensor]:
        """The same of all samples with permuted labels, which leave the counts as they are."""
        return _scatter(self.counts.sum(0), self.permuted[number], self.moments.sum(0))


def _scatter(counts: Tensor, sums: Tensor, moment: Tensor) -> tuple[Tensor, Tensor]:
    means = sums / counts[:, None]
    between = (means * counts[:, None]).T @ means
    return means, (moment - between) / counts.sum()


@torch.no_grad()
def collapse_layers(
    network: nn.Module, inputs: Tensor, *, classes: int, largest: int
) -> CollapseLayers:
    """Linear layers and convolutions that are used, in the order of their first use.

    Args:
        network: A classifier in evaluation mode.
        inputs: Inputs (n, ...), of which two are tried.
        classes: How many classes: a simplex needs one dimension less.
        largest: Features of a layer at most.
    """
    layers = CollapseLayers()
    tried = inputs[:_TRIED]
    widths: dict[str, int | None] = {}
    given_back: dict[str, Tensor] = {}
    candidates = {n: m for n, m in network.named_modules() if isinstance(m, _LAYERS)}

    def see(name: str, given: Tensor, made: Tensor) -> Tensor:
        module = candidates[name]
        by_sample = takes_batch(module, given) and len(given) == len(tried)
        widths.setdefault(name, _pooled(module, given).shape[1] if by_sample else None)
        given_back[name] = made.clone()
        return made

    with watched(candidates, see):
        outputs = network(tried)
    for name, width in widths.items():
        if width is None:
            layers.mixed.append(name)
        elif width < classes - 1:
            layers.narrow.append(name)
        elif width > largest:
            layers.wide.append(name)
        else:
            layers.modules[name] = candidates[name]
            made = given_back[name]
            last = made.shape == outputs.shape and torch.equal(made, outputs)
            if isinstance(candidates[name], nn.Linear) and last:
                layers.classifier = name
    return layers


def _pooled(module: nn.Module, given: Tensor) -> Tensor:
    """Features (n, d): the mean over positions of what a layer is given."""
    if isinstance(module, nn.Linear):
        return given.reshape(len(given), -1, given.shape[-1]).mean(1)
    return given.flatten(2).mean(2)


@torch.no_grad()
def _features(
    network: nn.Module, layers: Mapping[str, nn.Module], inputs: Tensor, size: int
) -> Iterator[tuple[slice, dict[str, Tensor], Tensor]]:
    """One forward pass over all samples: where, features by layer, outputs; batch after batch."""
    wide = accumulation_dtype(inputs.device)
    for start in range(0, len(inputs), size):
        here = slice(start, start + size)
        uses: dict[str, list[Tensor]] = {name: [] for name in layers}

        def see(
            name: str, given: Tensor, made: Tensor, uses: dict[str, list[Tensor]] = uses
        ) -> Tensor:
            uses[name].append(_pooled(layers[name], given).to(wide))
            return made

        with watched(layers, see):
            outputs = network(inputs[here])
        # a layer that is used several times has as many positions more
        yield here, {name: torch.stack(each).mean(0) for name, each in uses.items()}, outputs


def class_scatter(
    network: nn.Module,
    layers: Mapping[str, nn.Module],
    inputs: Tensor,
    labellings: Sequence[Tensor],
    *,
    groups: Tensor,
    classes: int,
) -> tuple[dict[str, ClassScatter], Tensor]:
    """Sums of every layer by one forward pass over the samples.

    Args:
        network: A classifier in evaluation mode.
        layers: Its layers by name.
        inputs: Inputs (n, ...).
        labellings: Labels (n,): the true ones first, then permutations of them.
        groups: The jackknife's group of every sample (n,), from 0.
        classes: How many classes.

    Returns:
        The sums by layer, on the host, and the classes (n,) that the network gives.
    """
    count = int(groups.max()) + 1

    def run(size: int) -> tuple[dict[str, ClassScatter], Tensor]:
        scatters: dict[str, ClassScatter] = {}
        answers = []
        for here, features, outputs in _features(network, layers, inputs, size):
            labels = [each[here] for each in labellings]
            answers.append(predictions(outputs))
            for name, h in features.items():
                if name not in scatters:
                    scatters[name] = _empty(h, count, classes, len(labellings) - 1)
                _add(scatters[name], h, labels, groups[here])
        return scatters, torch.cat(answers)

    scatters, answers = memory.halving(run, _PASS, what="samples per forward pass")
    return {name: _on_host(each) for name, each in scatters.items()}, answers


def scatter_of_features(
    features: Tensor, labellings: Sequence[Tensor], *, groups: Tensor, classes: int
) -> ClassScatter:
    """The same sums of features that are there, in batches as `class_scatter` takes them.

    Args:
        features: Features (n, d), or (n, channels, ...), whose positions are averaged.
        labellings: Labels (n,): the true ones first, then permutations of them.
        groups: The jackknife's group of every sample (n,), from 0.
        classes: How many classes.
    """
    count = int(groups.max()) + 1
    wide = accumulation_dtype(features.device)
    rows = features.flatten(2).mean(2) if features.ndim > 2 else features
    scatter = _empty(rows[:0].to(wide), count, classes, len(labellings) - 1)
    for start in range(0, len(rows), _PASS):
        here = slice(start, start + _PASS)
        _add(scatter, rows[here].to(wide), [each[here] for each in labellings], groups[here])
    return _on_host(scatter)


def _empty(h: Tensor, groups: int, classes: int, permutations: int) -> ClassScatter:
    d = h.shape[1]
    return ClassScatter(
        counts=h.new_zeros(groups, classes),
        sums=h.new_zeros(groups, classes, d),
        moments=h.new_zeros(groups, d, d),
        permuted=h.new_zeros(permutations, classes, d),
    )


def _add(scatter: ClassScatter, h: Tensor, labels: Sequence[Tensor], groups: Tensor) -> None:
    """Add features (n, d) of some samples."""
    classes = scatter.counts.shape[1]
    cells = groups * classes + labels[0]
    ones = torch.ones_like(h[:, 0])
    scatter.counts.view(-1).index_add_(0, cells, ones)
    scatter.sums.view(-1, h.shape[1]).index_add_(0, cells, h)
    for group in groups.unique().tolist():
        rows = h[groups == group]
        scatter.moments[group] += rows.T @ rows
    for sums, permuted in zip(scatter.permuted, labels[1:]):
        sums.index_add_(0, permuted, h)


def _on_host(scatter: ClassScatter) -> ClassScatter:
    tensors = (scatter.counts, scatter.sums, scatter.moments, scatter.permuted)
    return ClassScatter(*[each.cpu().double() for each in tensors])


def disagreement(
    network: nn.Module, layers: Mapping[str, nn.Module], inputs: Tensor, means: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Share of samples whose nearest class mean is not the class that the network gives.

    It takes one forward pass over the samples.

    Args:
        network: A classifier in evaluation mode.
        layers: Its layers by name.
        inputs: Inputs (n, ...).
        means: Class means (k, C, d) of every layer, for k labellings.

    Returns:
        The shares (k,) by layer.
    """

    def run(size: int) -> dict[str, Tensor]:
        wrong: dict[str, Tensor] = {}
        for _, features, outputs in _features(network, layers, inputs, size):
            given = predictions(outputs)
            for name, h in features.items():
                centres = means[name].to(h)
                # |h - m|^2 less |h|^2, which all classes share
                distances = centres.square().sum(2)[:, None] - 2 * h @ centres.transpose(1, 2)
                other = (distances.argmin(2) != given).sum(1)
                wrong[name] = wrong.get(name, 0) + other
        return {name: count.cpu().double() / len(inputs) for name, count in wrong.items()}

    return memory.halving(run, _PASS, what="samples per forward pass")
