"""Which probes a card has: those that take this network and these data, with what they declare."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from penchant.components.component import Probe
from penchant.components.taking import how_taken
from penchant.errors import Error
from penchant.execution.job.context import Context
from penchant.execution.job.devices import job_device, resolve_device
from penchant.execution.job.loading import loaded
from penchant.experiments.document import Document
from penchant.experiments.experiment import Experiment, bound_components, build
from penchant.experiments.jobs import BoundComponent, Job
from penchant.experiments.typed_text import label_of
from penchant.plugins.discovery import Plugins

if TYPE_CHECKING:
    from penchant_numerics.data import Data
    from torch import nn

SEEDS = 5  # of networks that are drawn; of one network as many drawn ones stand beside it
LAST_LAYER = "{last-layer}"
WHERE = "card"


@attrs.frozen
class LeftOut:
    """A probe that is not on the card, and why; `minutes` that it would take, where known."""

    probe: str
    reason: str
    minutes: float | None = None


@attrs.frozen(eq=False)
class Plan:
    """The experiment of a card.

    Attributes:
        experiment: Every probe that takes the network.
        jobs: Its jobs.
        left_out: Probes that do not take it.
        cards: The declaration of each probe, by its label.
        trained: Is it one given network?
        network: The network; the first one where they are drawn.
        data: Its samples.
    """

    experiment: Experiment
    jobs: list[Job]
    left_out: list[LeftOut]
    cards: dict[str, type[Probe]]
    trained: bool
    network: nn.Module
    data: Data | None


def plan(
    network: Mapping[str, Any],
    data: Mapping[str, Any] | None,
    plugins: Plugins,
    *,
    settings: Mapping[str, Any],
    seeds: Sequence[int],
) -> Plan:
    """The experiment of a card: probes in their order, with the options that they declare.

    Args:
        network: The table of the network.
        data: The table of the data.
        plugins: Where probes are found.
        settings: Those of the experiment: shape, outputs, device, workers, title.
        seeds: Of the card; of one given network the first only.

    Returns:
        The plan.

    Raises:
        Error: No probe takes them; the message says why.
    """
    tables = {"architectures": [dict(network)], "datasets": [dict(data)] if data else []}
    raw = {**settings, **tables, "seeds": list(seeds)}
    bound = _bound(raw, plugins)
    architecture, samples = bound[0], _samples(bound[1], seeds[0])
    kind = architecture.network_kind
    if kind == "trajectory":
        raise Error("a card is of one network, found checkpoints of a training: give one of them")
    trained = kind == "trained"
    if trained:
        raw["seeds"] = [seeds[0]]
    if samples is not None:
        # What needs one output is given fresh networks of the data's shape with one.
        raw |= {"shape": list(samples.shape)}
    model, one_output = _model(raw, plugins)
    entries, left_out, cards = [], [], {}
    for cls in _with_cards(plugins):
        reason = _not_taken(cls, kind, has_data=data is not None)
        if reason:
            left_out.append(LeftOut(cls.name, reason))
            continue
        entry = _entry(cls, raw, without_data=one_output, network=model, data=samples)
        if not trained and cls.trains():
            entry["training"] = {"steps": 0}
        try:
            build({**raw, **_used(raw, entry), "probes": [entry]}, plugins, WHERE)
        except Error as error:
            left_out.append(LeftOut(cls.name, str(error)))
            continue
        entries.append(entry)
        cards[cls.name] = cls
    if not entries:
        raise no_probe(left_out, data is not None)
    used = {label for entry in entries for label in entry.get("datasets", ())}
    if not used:
        raw["datasets"] = []
    experiment = build({**raw, "probes": entries}, plugins, WHERE)
    device, gpu = job_device(experiment.settings.device)
    jobs = experiment.jobs(device, gpu)
    order = list(cards)
    # The first seed of every probe, then the others: a card that is stopped has most of its rows.
    jobs.sort(key=lambda job: (job.seed != seeds[0], order.index(job.probe.label)))
    return Plan(experiment, jobs, left_out, cards, trained, model, samples)


def no_probe(left_out: Sequence[LeftOut], has_data: bool) -> Error:
    """The error where no probe takes a network: every reason once, and what would work."""
    reasons: dict[str, list[str]] = {}
    for each in left_out:
        reasons.setdefault(each.reason, []).append(each.probe)
    lines = [f"  {', '.join(probes)}: {reason}" for reason, probes in reasons.items()]
    hint = "" if has_data else "; give data with -d, as most probes need some"
    return Error("\n".join([f"no probe on a card takes this network{hint}", *lines]))


def _with_cards(plugins: Plugins) -> list[type[Probe]]:
    return sorted((cls for cls in plugins.probes if cls.card), key=lambda cls: cls.card.order)  # type: ignore[union-attr]


def _not_taken(cls: type[Probe], kind: str, *, has_data: bool) -> str:
    """Why a probe does not take networks of this kind, or needs what there is not."""
    if cls.has_axis("architecture") and how_taken(cls, kind) == "no":
        return f"it takes no {kind} networks"
    if "dataset" in cls.needs and not has_data:
        return "it needs data"
    return ""


def _bound(raw: Mapping[str, Any], plugins: Plugins) -> tuple[BoundComponent[Any], Any]:
    """The network and the data with their options, as an experiment checks them."""
    document = Document(raw, plugins, WHERE)
    (architecture,) = bound_components(document, "architecture").values()
    return architecture, next(iter(bound_components(document, "dataset").values()), None)


def _samples(dataset: BoundComponent[Any] | None, seed: int) -> Data | None:
    if dataset is None:
        return None
    import torch

    cpu = torch.device("cpu")
    return loaded(dataset, seed=seed, device=cpu, dtype=torch.float32)


def _model(raw: Mapping[str, Any], plugins: Plugins) -> tuple[nn.Module, bool]:
    """The network; where networks are drawn, the first, and whether they also come with one output.

    Those of probes that need no data are then drawn with one output, as most measurements of
    networks at initialisation are.
    """
    probe = _any_probe(raw, plugins)
    (job, *_) = probe.jobs("cpu")
    with tempfile.TemporaryDirectory() as folder:
        context = Context(job, Path(folder), device=resolve_device("cpu"))
        if context.network_kind != "fresh":
            return next(iter(context.trained()))[1], False
        return context.network(0), _has_one_output(context)


def _has_one_output(context: Context) -> bool:
    """Does the architecture make networks with one output? Your own may have a fixed number."""
    import torch

    try:
        network = context.network(0, outputs=1)
        with torch.no_grad():
            answer = network(torch.zeros(1, *context.measured.shape, device=context.device))
        return tuple(answer.shape) == (1, 1)
    except Exception:  # whatever is wrong is said where a probe is given the network
        return False


def _any_probe(raw: Mapping[str, Any], plugins: Plugins) -> Experiment:
    """An experiment of any probe with this network, through which the kernel builds it."""
    failures: list[Error] = []
    for cls in _with_cards(plugins):
        if "architecture" not in cls.needs or (raw["datasets"] and not cls.has_axis("dataset")):
            continue
        entry = {"name": cls.name, "architectures": [label_of(raw["architectures"][0])]}
        if raw["datasets"]:
            entry["datasets"] = [label_of(raw["datasets"][0])]
        try:
            return build({**raw, "probes": [entry]}, plugins, WHERE)
        except Error as error:
            failures.append(error)
    if failures:
        raise failures[0]
    raise Error("no installed probe takes part in cards; pip install penchant-nad")


def _entry(
    cls: type[Probe],
    raw: Mapping[str, Any],
    *,
    without_data: bool,
    network: nn.Module,
    data: Data | None,
) -> dict[str, Any]:
    """The table of a probe: its options for cards, fitted to the data."""
    assert cls.card is not None
    options = dict(cls.card.options)
    layer = last_layer(network)
    for name, value in options.items():
        if isinstance(value, str) and LAST_LAYER in value:
            options[name] = value.replace(LAST_LAYER, layer)
    entry: dict[str, Any] = {"name": cls.name, **options}
    if data is not None:
        _fit(entry, data)
    if cls.has_axis("architecture"):
        entry["architectures"] = [label_of(raw["architectures"][0])]
    if raw["datasets"] and cls.has_axis("dataset"):
        leaves = without_data and "dataset" in cls.accepts
        entry["datasets"] = [] if leaves else [label_of(raw["datasets"][0])]
    return entry


def _fit(entry: dict[str, Any], data: Data) -> None:
    """No more samples than there are."""
    count = len(data.train.inputs)
    if isinstance(entry.get("samples"), int):
        entry["samples"] = min(entry["samples"], count)
    if isinstance(entry.get("per_class"), int) and data.classes and data.positions is None:
        smallest = min(Counter(data.train.labels.tolist()).values())
        entry["per_class"] = min(entry["per_class"], smallest)


def _used(raw: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The data only where the entry has them: an experiment refuses what no probe uses."""
    return {} if entry.get("datasets") else {"datasets": []}


def last_layer(network: nn.Module) -> str:
    """The name of the last layer with weights that is a matrix or more."""
    names = [
        name
        for name, module in network.named_modules()
        if name and any(each.ndim > 1 for each in module.parameters(recurse=False))
    ]
    return names[-1] if names else ""
