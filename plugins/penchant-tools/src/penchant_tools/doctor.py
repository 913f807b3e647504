"""Can this machine, and this network, do what probes need? Checks, tries and reports."""

from __future__ import annotations

import copy
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import Dataset
from penchant.errors import Error
from penchant.execution.job.devices import job_device, resolve_device
from penchant.execution.job.loading import loaded
from penchant.execution.job.networks import FROM_EMBEDDING, BoundArchitecture
from penchant.experiments.arrays import with_arrays
from penchant.experiments.experiment import build
from penchant.experiments.jobs import BoundComponent
from penchant.experiments.settings import Settings
from penchant.plugins.discovery import Plugins, kernel_version

from penchant_tools.orders import wrong_operations
from penchant_tools.refusals import tried

LONGEST_TRY = 0.5  # seconds that a probe is tried for
# Layers by the name of their class, and what becomes of them where second derivatives are taken.
LAYER_NOTES = {
    "Dropout": "drops nothing: networks are measured in evaluation mode",
    "BatchNorm": "uses running statistics; some probes have `batch_norm` = batch or calibrated",
    "InstanceNorm": "stays as it is: each sample is normalised by itself",
    "MultiheadAttention": "runs as plain softmax(q k) v, without fused kernels",
    "Transformer": "runs with plain attention, without fused kernels",
    "Hardsigmoid": "is replaced by the same function of relu6, which has second derivatives",
    "LSTM": "stays as it is; vmap and forward mode fail where torch has no rule for it",
    "GRU": "stays as it is; vmap and forward mode fail where torch has no rule for it",
    "RNN": "stays as it is; vmap and forward mode fail where torch has no rule for it",
    "Lazy": "is given its shape by a first pass, which must come from the factory",
}


@attrs.frozen
class CheckResult:
    """One line of the doctor: what was checked, its result, and whether it is right."""

    what: str
    text: str
    well: bool = True


@attrs.frozen
class Section:
    """Results under one heading."""

    title: str
    results: tuple[CheckResult, ...]

    @property
    def well(self) -> bool:
        """Is everything well?"""
        return all(result.well for result in self.results)


def examine(
    plugins: Plugins,
    *,
    architecture: Mapping[str, Any] | None = None,
    dataset: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Iterator[Section]:
    """Check the machine and the plugins, and a network and samples where they are named.

    Args:
        plugins: What was found.
        architecture: A table with a name and options.
        dataset: The same for data.
        settings: Device, and shape and outputs where there is no dataset.

    Yields:
        What was found, part by part.
    """
    settings = settings or Settings()
    machine, of_plugins = _machine(settings.device), _plugins(plugins)
    if architecture is None and dataset is None:
        yield Section("machine", tuple(machine))
        yield Section("plugins", tuple(of_plugins))
        yield Section("data files", tuple(_files(plugins)))
        return
    diagnosis = _Diagnosis(plugins, settings)
    if dataset is not None:
        yield Section("dataset", tuple(diagnosis.check_data(dataset)))
    if architecture is not None:
        yield Section("network", tuple(diagnosis.check_network(architecture)))
    yield Section("probes", tuple(diagnosis.check_probes()))
    # Of the machine only what is wrong with it: the question was another one.
    for title, results in (("machine", machine), ("plugins", of_plugins)):
        wrong = tuple(result for result in results if not result.well)
        if wrong:
            yield Section(title, wrong)


def _machine(device: str) -> Iterator[CheckResult]:
    import torch

    python = platform.python_version()
    yield CheckResult("penchant", f"{kernel_version()}, Python {python}")
    yield CheckResult("platform", platform.platform())
    cores = os.cpu_count()
    yield CheckResult("cores", f"{cores}, of which this process may use {_usable_cores()}")
    yield CheckResult("memory", _memory())
    # What torch computes with.
    libraries = "MKL" if torch.backends.mkl.is_available() else "no MKL"
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    yield CheckResult("torch", f"{torch.__version__}, built with {build}, {libraries}")
    count = torch.cuda.device_count()
    if not count:
        yield CheckResult("CUDA devices", "none: everything runs on the CPU")
    for number in range(count):
        free, total = torch.cuda.mem_get_info(number)
        name = torch.cuda.get_device_name(number)
        sizes = f"{_bytes(free)} of {_bytes(total)} free"
        yield CheckResult(f"cuda:{number}", f"{name}, {sizes}")
    try:
        yield CheckResult("device", str(resolve_device(device)))
    except Error as error:
        yield CheckResult("device", str(error), well=False)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    """Memory of the machine, and what a container or `ulimit` leaves of it."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        free = page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "unknown"
    text = f"{_bytes(free)} of {_bytes(total)} free"
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file():
        value = limit.read_text().strip()
        if value.isdigit():
            text += f"; this container may use {_bytes(int(value))}"
    return text


def _bytes(count: int) -> str:
    size = count / 2**30
    return f"{size:.1f} GiB"


def _plugins(plugins: Plugins) -> Iterator[CheckResult]:
    for plugin in plugins.plugins:
        name = f"{plugin.name} {plugin.version}"
        if plugin.reason:
            yield CheckResult(name, f"disabled: {plugin.reason}", well=False)
            continue

        clashes = []
        for component in plugin.components:
            both = plugins.clash(component)
            if both:
                clashes.append(f"{component.kind} {component.name!r} is offered by {both}")
        count = len(plugin.components)
        listed = "; ".join(clashes)
        yield CheckResult(name, listed or f"{count} component{'s' * (count != 1)}")


def _files(plugins: Plugins) -> Iterator[CheckResult]:
    """Datasets that read files, and which of them are there."""
    folder = os.environ.get("PENCHANT_DATA")
    yield CheckResult("PENCHANT_DATA", folder or "not set")
    for registration in plugins.registrations("dataset"):
        cls: Any = registration.component
        # Most datasets are made, or come with a library.
        if cls.files is Dataset.files:
            continue
        try:
            dataset = cls.bind({})
            paths = [Path(text) for text in dataset.files()]
        except Error as error:
            yield CheckResult(cls.name, f"not checked: {error}")
            continue
        there = [path for path in paths if path.exists()]
        actual = "no files found"
        if there:
            actual = f"{len(there)} files, such as {there[0]}"
        yield CheckResult(cls.name, actual)


class _Diagnosis:
    """What was given, and what is known about it."""

    def __init__(self, plugins: Plugins, settings: Settings) -> None:
        self.plugins = plugins
        self.device = settings.device
        self.shape = settings.shape
        self.outputs = settings.outputs
        self.requested = settings.outputs  # where there is no dataset
        self.dataset: Mapping[str, Any] | None = None
        self.architecture: Mapping[str, Any] | None = None
        self.network: Any = None
        self.refused: set[str] = set()  # axes whose component cannot be used here
        self.failing: dict[str, str] = {}  # derivatives that do not work, and why
        self.samples: Any = None  # some inputs that are numbers; None: there are no data
        self.tokens: Any = None  # some inputs that are whole numbers; None: inputs are not
        self.positions: int | None = None  # of a sequence with a label each

    @property
    def has_dataset(self) -> bool:
        """Are there samples that can be used?"""
        return self.dataset is not None

    @property
    def has_network(self) -> bool:
        """Is there a network that can be used?"""
        return self.network is not None

    def check_data(self, table: Mapping[str, Any]) -> Iterator[CheckResult]:
        """Load samples and say what they are."""
        import torch
        from penchant_numerics.device import SAMPLES

        options = dict(table)
        name = options.pop("name")
        registration = self.plugins.find("dataset", name, "doctor")
        try:
            component = registration.component.bind(options, name)
            choice = BoundComponent(component, registration, name)
            cpu = torch.device("cpu")
            data = loaded(choice, seed=0, device=cpu, dtype=torch.float32)
        except Error as error:
            self.refused.add("dataset")
            yield CheckResult(name, str(error), well=False)
            return
        # The network must have the outputs that these samples need.
        self.dataset = table
        self.shape = tuple(data.shape)
        self.outputs = data.outputs
        self.positions = data.positions
        if data.has_tokens:
            self.tokens = data.train.inputs[:SAMPLES]
        else:
            self.samples = data.train.inputs[:SAMPLES].float()
        labels = f"{data.classes} classes" if data.classes else "labels that are numbers"
        size = " x ".join(map(str, self.shape))
        train, test = len(data.train.inputs), len(data.test.inputs)
        yield CheckResult(name, f"{train} + {test} samples of {size}, {labels}")
        for warning in data.warnings:
            yield CheckResult(name, warning)

    def check_network(self, table: Mapping[str, Any]) -> Iterator[CheckResult]:
        """Draw a network, and try what probes do to it."""
        from penchant_numerics.device import (
            KINK,
            SECOND,
            TRIALS,
            problem_of,
            random_points,
            safe,
            without_torchs_own_warnings,
        )

        options = dict(table)
        name = options.pop("name")
        registration = self.plugins.find("architecture", name, "doctor")
        try:
            component = with_arrays(registration.component.bind(options, name))
            shape = tuple(self.shape)
            bound = BoundArchitecture(component, name, shape, self.outputs, seed=0)
            example = None if self.tokens is None else self.tokens[:1]
            samples = self.samples if self.tokens is None else self.tokens
            bound.check(example=example, positions=self.positions, samples=samples)
            network = bound(0)
        except Error as error:
            self.refused.add("architecture")
            yield CheckResult(name, str(error), well=False)
            return
        self.architecture, self.network = table, network
        count = sum(parameter.numel() for parameter in network.parameters())
        size = " x ".join(map(str, self.shape))
        yield CheckResult(name, f"{count} parameters, {size} -> {self.outputs}")
        yield from _layers(network)
        # As probes prepare it before they differentiate twice.
        prepared = safe(network)
        trials = TRIALS
        points = random_points(self.shape) if self.tokens is None else [self.tokens]
        if self.tokens is not None:
            yield CheckResult(
                "derivatives in the input", f"none: it takes tokens; {FROM_EMBEDDING}"
            )
            trials = {SECOND: TRIALS[SECOND]}
        with without_torchs_own_warnings():
            for what, trial in trials.items():
                problem = problem_of(trial, prepared, points)
                well = problem in ("", KINK)
                if not well:
                    self.failing[what] = problem
                yield CheckResult(what, problem or "works", well=well)
            if self.tokens is None:
                yield from _orders(prepared, points[0])

    def check_probes(self) -> Iterator[CheckResult]:
        """Which probes can measure it, in three forms, and why not the others."""
        one = "unit = 0" if self._is_imported() else "outputs = 1"
        yield CheckResult("", _row("as it is", one, "trained"))
        results = []
        with tempfile.TemporaryDirectory() as folder:
            for registration in self.plugins.registrations("probe"):
                name = self.plugins.address(registration)
                text = self._fits(name, registration.component, Path(folder))
                results.append(CheckResult(name, text))
        # Those that fit first, as it is before one that has to be changed.
        yield from sorted(results, key=_fitting)

    def _fits(self, name: str, cls: Any, folder: Path) -> str:
        """Does a probe take what is here: as it is, with one output, as one trained network?"""
        lacking = self._lacking(cls)
        if lacking:
            return _row("no", reason=lacking)
        reason = self._refusal_of_both(name, cls, folder, self.architecture)
        narrow = trained = "-"
        reason_shown = reason
        # One output where a probe samples networks without data.
        if (
            reason
            and self._narrowed
            and "dataset" not in cls.needs
            and cls.has_axis("architecture")
        ):
            refused = self._refusal(name, cls, folder, self._narrowed, outputs=1)
            narrow = "no" if refused else "yes"
        if "trained" in cls.takes and self.network is not None:
            module = {"name": "import", "factory": self.network}
            refused = self._refusal_of_both(name, cls, folder, module)
            trained = "no" if refused else "yes"
            reason_shown = reason or refused
        if not reason_shown and self.has_dataset and not cls.has_axis("dataset"):
            reason_shown = "without the dataset, which it does not take"
        return _row("no" if reason else "yes", narrow, trained, reason_shown)

    def _refusal_of_both(
        self, name: str, cls: Any, folder: Path, architecture: Mapping[str, Any] | None
    ) -> str:
        """Why a run would refuse a probe without data, and with them where it accepts some."""
        reason = self._refusal(name, cls, folder, architecture)
        if reason and self.has_dataset and "dataset" in cls.accepts:
            return self._refusal(name, cls, folder, architecture, data=True) and reason
        return reason

    def _is_imported(self) -> bool:
        return self.architecture is not None and self.architecture["name"] == "import"

    @property
    def _narrowed(self) -> dict[str, Any] | None:
        """The network with one output; None where it has no other form."""
        if self.architecture is None or self.outputs == 1:
            return None
        if not self._is_imported():
            return dict(self.architecture)
        return {**self.architecture, "unit": 0}

    def _refusal(
        self,
        name: str,
        cls: Any,
        folder: Path,
        architecture: Mapping[str, Any] | None,
        *,
        outputs: int | None = None,
        data: bool = False,
    ) -> str:
        """Why a run would refuse a probe; empty where it would not.

        Args:
            name: The probe's name.
            cls: Its class.
            folder: Where it may write.
            architecture: The table of a network.
            outputs: Outputs of the network without data; None: those of the settings.
            data: Give it the dataset, although it does not need one.

        Returns:
            What the run would say.
        """
        entry: dict[str, Any] = {"name": name}
        raw: dict[str, Any] = {"probes": [entry], "executor": "serial", "figures": False}
        raw |= {"shape": list(self.shape), "outputs": outputs or self.requested}
        raw["device"] = self.device
        if architecture is not None:
            if not cls.has_axis("architecture"):
                return "it takes no architecture"
            raw["architectures"] = [architecture]
            entry["architectures"] = [_label(architecture)]
        if self.dataset is not None and (data or "dataset" in cls.needs):
            raw["datasets"] = [self.dataset]
            entry["datasets"] = [_label(self.dataset)]
        try:
            kind, gpu = job_device(self.device)
            job = build(raw, self.plugins, "doctor").jobs(kind, gpu)[0]
            return _first_sentence(tried(job, folder, LONGEST_TRY))
        except Error as error:
            return _first_sentence(str(error))

    def _lacking(self, cls: Any) -> str:
        """What a probe needs that is not here; empty where everything is."""
        given = {"architecture": self.has_network, "dataset": self.has_dataset}
        needs = cls.needs
        for axis, there in given.items():
            if there or axis not in needs:
                continue
            article = "an" if axis == "architecture" else "a"
            what = f"it needs {article} {axis}"
            if axis in self.refused:
                return f"{what}, and this one cannot be used"
            return what
        from penchant_numerics.device import SECOND

        # Curvature is the role whose estimators differentiate twice.
        twice = "second-derivatives" in needs or "curvature" in cls.roles
        if SECOND in self.failing and twice:
            return "it needs second derivatives, which this network does not have"
        return self._missing(cls)

    def _missing(self, cls: Any) -> str:
        """Datasets and architectures that it needs by name and that no plugin provides."""
        kinds = ("architecture", "dataset")
        for name in cls.uses:
            known = any(self.plugins.has(kind, name) for kind in kinds)
            # A name in braces is that of an option, which anybody may set.
            if not name.startswith("{") and not known:
                return f"it uses {name!r}, which no plugin here offers"
        return ""


def _row(as_it_is: str, narrow: str = "-", trained: str = "-", reason: str = "") -> str:
    """A line of the table of probes."""
    return f"{as_it_is:8}  {narrow:11}  {trained:7}  {reason}".rstrip()


def _fitting(result: CheckResult) -> tuple[bool, ...]:
    """Where a probe stands in the list: "yes" before "no", in each of the three forms."""
    return tuple(cell != "yes" for cell in result.text.split()[:3])


def _label(table: Mapping[str, Any]) -> str:
    # Without a label a component goes by its name, not by its distribution's.
    _, _, name = str(table["name"]).rpartition("/")
    return name


def _first_sentence(text: str) -> str:
    line, _, _ = text.strip().partition("\n")
    return line


def _orders(network: Any, inputs: Any) -> Iterator[CheckResult]:
    """Operations that some order of differentiation gets wrong, without torch saying so."""
    from penchant_numerics.device import shortened

    copied = copy.deepcopy(network).double()
    try:
        wrong = wrong_operations(copied, inputs)
    except Exception as error:  # whatever a network raises where its calls are recorded
        kind = type(error).__name__
        what = shortened(str(error))
        yield CheckResult("orders of differentiation", f"not tried: {kind}: {what}")
        return
    for order, problems in wrong.items():
        problems_found = [f"{name} {problem}" for name, problem in problems.items()]
        listed = "; ".join(problems_found)
        text = f"{listed}; two backward passes are right" if problems_found else "works"
        yield CheckResult(order, text)


def _layers(network: Any) -> Iterator[CheckResult]:
    """Layers that are not what they seem when a network is measured, and what becomes of them."""
    counts: dict[str, int] = {}
    in_place = 0
    for module in network.modules():
        kind = type(module).__name__
        in_place += bool(getattr(module, "inplace", False))
        if any(sign in kind for sign in LAYER_NOTES):
            before = counts.get(kind, 0)
            counts[kind] = before + 1

    # A line for each kind, not for each layer.
    for kind, count in sorted(counts.items()):
        notes = [text for sign, text in LAYER_NOTES.items() if sign in kind]
        yield CheckResult(f"{count} x {kind}", notes[0])
    if in_place:
        yield CheckResult(f"{in_place} in-place activations", "are done out of place")
