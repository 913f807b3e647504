"""Make a card: plan, time, run until the minutes are used, and write the page of what is done."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error, suggestion
from penchant.execution.queue.folders import move_aside
from penchant.execution.runner import run_experiment
from penchant.experiments.experiment import Experiment, build
from penchant.experiments.identity import plain, short_hash
from penchant.experiments.jobs import Job
from penchant.experiments.typed_text import label_of
from penchant.plugins import discovery
from penchant.plugins.discovery import Plugins
from penchant.results.job_folder import JobFolder
from penchant.results.records import accuracy_text
from penchant.results.runs import Run, read
from penchant.terminal import complain, with_display
from penchant_report.report import write_report
from penchant_tools.forecast import duration

from penchant_card.budgets import (
    Clock,
    Costs,
    OutOfMinutesError,
    allowed,
    clock_for,
    costs,
    fitting,
    in_turn,
)
from penchant_card.fresh import FOLDER, write_fresh
from penchant_card.listening import MinutesLeft
from penchant_card.network_facts import NetworkFacts, checksum, parameters, source_of
from penchant_card.plans import SEEDS, WHERE, LeftOut, Plan, no_probe, plan
from penchant_card.rows import FEWEST_FRESH, Row, rows
from penchant_card.subjects import data_table, network_table

LONGEST_FOLDER = 60


@attrs.frozen(repr=False)
class Card:
    """What a network prefers, as far as it was measured.

    Attributes:
        folder: The run folder, with card.html, card.png, card.json and model-index.yaml.
        network: What the network is.
        rows: A row for each family of probes.
        left_out: Probes that are not on it, and why.
        notes: What a reader must know.
        minutes: That were used.
        run: The run.
    """

    folder: Path
    network: NetworkFacts
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    minutes: float
    run: Run

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        from penchant_card.page import fragment

        return fragment(self)

    def lines(self) -> list[str]:
        """The card as a terminal shows it."""
        lines = [f"{self.network.name}: {self.network.parameters:,} parameters"]
        for row in self.rows:
            lines.append(f"{row.family}: {row.sentence}")
            for number in row.numbers:
                fresh = f"; {number.fresh.text}" if number.fresh else ""
                mark = " ✱" if number.unusual or (number.notable and not number.fresh) else ""
                beside = "; ".join(filter(None, [number.null, number.among]))
                null = f" ({beside})" if beside else ""
                lines.append(f"  {number.name}: {number.value}{null}{fresh}{mark}")
        for each in self.left_out:
            lines.append(f"left out: {each.probe}: {each.reason}")
        return lines


def card(
    network: Any,
    data: Any = None,
    *,
    minutes: float = 5.0,
    weights: str | Path | None = None,
    out: str | Path | None = None,
    shape: Sequence[int] | None = None,
    outputs: int | None = None,
    seed: int = 0,
    seeds: int = SEEDS,
    label: str | None = None,
    device: str | None = None,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool = True,
    plugins: Plugins | None = None,
    **unknown: Any,
) -> Card:
    """What a network prefers, on one page: every probe that takes it, until the minutes are used.

    Args:
        network: A module, a function or class that makes one, or what `penchant card` takes.
        data: Samples: a pair of inputs and labels, a loader, a dataset's name, a file.
        minutes: Time to use, of the processor; of the clock on a GPU, and with several workers.
        weights: A file for the network.
        out: The run folder.
        shape: Shape of one input, where there are no data.
        outputs: Outputs, where there are no data.
        seed: The first seed.
        seeds: Seeds of networks that are drawn; as many fresh ones stand beside a given network.
        label: What the network is called.
        device: Where to compute.
        workers: How many jobs run at a time; by default one, in this process.
        fresh: Move an old run in this folder aside.
        progress: Print a line for each job.
        plugins: Where components are found; by default all that are installed.
        **unknown: Refused.

    Returns:
        The card.
    """
    _check(minutes, seeds, unknown)
    clock = clock_for(minutes, device=device, workers=workers)
    plugins = plugins or discovery.load()
    table = network_table(network, plugins, weights=weights, label=label)
    samples = data_table(data, plugins, table)
    # Its pages draw what they show; all figures of all seeds would take half of the minutes.
    settings: dict[str, Any] = {"title": f"What {table['label']} prefers", "figures": False}
    if workers is None:
        settings["executor"] = "serial"
    given: dict[str, Any] = {
        "shape": shape,
        "outputs": outputs,
        "device": device,
        "workers": workers,
    }
    if shape is not None:
        given["shape"] = list(shape)
    settings |= {name: value for name, value in given.items() if value is not None}
    numbers = list(range(seed, seed + seeds))
    planned = plan(table, samples, plugins, settings=settings, seeds=numbers)
    folder = _folder(out, table, samples, planned)
    if fresh and folder.exists():
        move_aside(folder)
    maker = _Maker(planned, plugins, clock, folder, progress)
    return maker.make(table, samples, seeds)


def _check(minutes: float, seeds: int, unknown: Mapping[str, Any]) -> None:
    for name in unknown:
        known = inspect.signature(card).parameters.keys() - {"unknown", "plugins"}
        raise Error(f"a card has no option {name!r}{suggestion(name, known)}")
    if not minutes > 0:
        raise Error(f"minutes must be more than 0, found {minutes!r}")
    if seeds < 1:
        raise Error(f"seeds must be at least 1, found {seeds!r}")


def _folder(out: Any, network: Mapping[str, Any], data: Any, planned: Plan) -> Path:
    """The run folder: the same card finds it again, another network takes another."""
    if out is not None:
        return Path(out)
    words = ["card", str(network["label"]), str(label_of(data)) if data else ""]
    name = re.sub(r"[^\w.-]+", "-", "-".join(filter(None, words)))[:LONGEST_FOLDER]
    digest = short_hash(plain(dict(planned.experiment.raw)))
    return Path("runs") / f"{name}-{digest}"


class _Maker:
    """Runs the jobs of a card and writes its files."""

    def __init__(
        self, planned: Plan, plugins: Plugins, clock: Clock, folder: Path, progress: bool
    ) -> None:
        self.plan = planned
        self.plugins = plugins
        self.clock = clock
        self.folder = folder.absolute()
        self.progress = progress
        self.notes: list[str] = []
        self.ended: dict[str, str] = {}  # probes that took too long, and when they were ended

    def make(self, network: Mapping[str, Any], data: Any, seeds: int) -> Card:
        """Time the probes, run what fits, and write the card; also where it is interrupted."""
        self._say(f"timing {len(self.plan.cards)} probes, {self.clock.text()}")
        found = costs(self.plan.experiment, self.plan.jobs, self.clock)
        if not found.seconds:
            raise no_probe(self._refused(found), data is not None)
        first = [job for job in self.plan.jobs if job.seed == self.plan.jobs[0].seed]
        stopped: BaseException | None = None
        try:
            found = self._begin_each(first, found)
            chosen = [job for job in first if self._is_done(job)]
            if not chosen and not self._has_failed(first):
                raise self._too_few_minutes(first, found)
            with self.clock.ending_after(self.clock.left):
                self._repeat(chosen, found)
                if self.plan.trained:
                    self._run_fresh(network, data, chosen, found, seeds)
        except OutOfMinutesError:
            self.notes.append("The minutes were used before everything that was begun was done.")
        except KeyboardInterrupt as error:
            if not (self.folder / "run.json").is_file():
                raise  # nothing was begun
            stopped = error
            self.notes.append("Interrupted: the same command goes on with it.")
        finished = self._card(network, data, found)
        self._say(f"{self.clock.used:.1f} of {self.clock.minutes:g} minutes used")
        if stopped is not None:
            raise stopped
        return finished

    def _begin_each(self, first: Sequence[Job], found: Costs) -> Costs:
        """Run one job of every probe, as far as the minutes go: what is left decides each time."""
        able = [job for job in first if job.probe.label not in found.refused]
        waiting = in_turn(able, found)
        for number, job in enumerate(waiting):
            if self._is_done(job):
                continue
            probe, forecast = job.probe.label, found.of([job])
            left = self.clock.left - self._kept_for_fresh(waiting[: number + 1], found)
            if left <= 0 or forecast > left:
                continue
            began = self.clock.used
            limit = allowed(forecast, left)
            try:
                with self.clock.ending_after(limit):
                    self._run(self.plan.experiment, self.folder, [job.id])
            except OutOfMinutesError:
                about = "more than" if probe in found.least else "about"
                foreseen = f"{about} {duration(forecast)} were foreseen"
                self.ended[probe] = f"it was ended after {duration(limit)}; {foreseen}"
            found = found.with_measured({probe: 60 * (self.clock.used - began)})
        return found

    def _kept_for_fresh(self, jobs: Sequence[Job], found: Costs) -> float:
        """Seconds for fresh networks beside a given one: as few as have a spread."""
        if not self.plan.trained:
            return 0.0
        *before, job = jobs
        return FEWEST_FRESH * found.of([*filter(self._is_done, before), job])

    def _repeat(self, chosen: Sequence[Job], found: Costs) -> None:
        """Run the other seeds of the probes that have a result."""
        done = {job.probe.label for job in chosen}
        others = [each for each in self.plan.jobs if each.probe.label in done]
        more = self._fitting([job for job in others if job not in chosen], found)
        if more:
            self._run(self.plan.experiment, self.folder, [job.id for job in more])

    def _is_done(self, job: Job) -> bool:
        return JobFolder.of(self.folder, job.id).state(job.key)[0]

    def _has_failed(self, jobs: Sequence[Job]) -> bool:
        return any(JobFolder.of(self.folder, job.id).status() == "failed" for job in jobs)

    def _say(self, text: str) -> None:
        if self.progress:
            complain(f"card: {text}")

    def _fitting(self, jobs: Sequence[Job], found: Costs) -> list[Job]:
        done = {job.id: self._is_done(job) for job in jobs}
        return fitting(jobs, found, self.clock.left, done)

    def _too_few_minutes(self, first: Sequence[Job], found: Costs) -> Error:
        cheapest = min(found.of([job]) for job in first if job.probe.label in found.seconds)
        needed = self.clock.used + cheapest / 60
        given = f"{self.clock.minutes:g} minutes"
        hint = f"expected at least {needed:.2g}"
        if needed <= self.clock.minutes:
            hint = "what was begun took longer than foreseen: give more"
        return Error(f"{given} are too few for any probe, {hint}")

    def _run(self, experiment: Any, folder: Path, only: Sequence[str]) -> None:
        listening = self.plugins
        if self.progress:
            listening = with_display(listening, lines=False)
        stopwatch = MinutesLeft(self.clock, lines=self.progress)
        listening = listening.with_listener("minutes", stopwatch)
        # The report is written once, at the end.
        run_experiment(experiment, listening, folder, only=only, temporary=True)

    def _run_fresh(
        self, network: Mapping[str, Any], data: Any, chosen: Sequence[Job], found: Costs, count: int
    ) -> None:
        """Measure fresh networks of the same architecture, in a run folder of their own."""
        samples = self.plan.data
        raw = self.plan.experiment.raw
        shape = (samples.shape, samples.outputs) if samples else (raw["shape"], raw["outputs"])
        folder = self.folder / FOLDER
        try:
            paths = write_fresh(self.plan.jobs[0], self.plan.network, folder, count, shape)
        except Error as error:
            self.notes.append(f"No fresh networks beside it: {error}.")
            return
        tables = [
            {**network, "label": f"fresh-{number}", "weights": str(path)}
            for number, path in enumerate(paths, 1)
        ]
        experiment = self._fresh_experiment(tables, {job.probe.label for job in chosen})
        jobs = experiment.jobs(self.plan.jobs[0].record["device"])
        order = list(self.plan.cards)
        jobs.sort(key=lambda job: order.index(job.probe.label))
        few = {table["label"] for table in tables[:FEWEST_FRESH]}
        beside = folder / "run"
        # As many of every probe as have a spread, before the others of any.
        for first in (True, False):
            same = [job for job in jobs if (job.labels["architecture"] in few) == first]
            ended = {job.id: JobFolder.of(beside, job.id).state(job.key)[0] for job in same}
            ids = [job.id for job in fitting(same, found, self.clock.left, ended)]
            if ids:
                self._run(experiment, beside, ids)
            elif first:
                self.notes.append("No minutes were left for fresh networks beside it.")

    def _fresh_experiment(self, tables: list[dict[str, Any]], probes: set[str]) -> Experiment:
        """The experiment of fresh networks: these probes, with the card's options."""
        raw = dict(self.plan.experiment.raw)
        labels = [table["label"] for table in tables]
        entries = [
            {**entry, "architectures": labels}
            for entry in raw["probes"]
            if entry["name"] in probes and "architectures" in entry
        ]
        raw |= {"architectures": tables, "probes": entries}
        raw["title"] = f"Fresh networks beside {self.plan.jobs[0].labels['architecture']}"
        return build(raw, self.plugins, WHERE)

    def _refused(self, found: Costs) -> list[LeftOut]:
        refused = [LeftOut(name, reason) for name, reason in found.refused.items()]
        return [*self.plan.left_out, *refused]

    def _card(self, network: Mapping[str, Any], data: Any, found: Costs) -> Card:
        from penchant_card.files import write_files

        run = read(self.folder)
        run.plugins = self.plugins
        write_report(run)
        beside = self.folder / FOLDER / "run"
        fresh = read(beside) if (beside / "run.json").is_file() else None
        shown, not_comparable = rows(run, fresh, self.plan.cards, trained=self.plan.trained)
        left_out = [*self._refused(found), *self._not_done(run, found)]
        reasons = list(dict.fromkeys(not_comparable.values()))
        if reasons:
            self.notes.append(f"Not compared with the atlas: {'; '.join(reasons)}.")
        if fewer := self._with_fewer_seeds(run):
            self.notes.append(f"Of fewer seeds, as the minutes went: {', '.join(fewer)}.")
        finished = Card(
            self.folder,
            self._facts(network, data, run),
            tuple(shown),
            tuple(left_out),
            tuple(self.notes),
            self.clock.used,
            run,
        )
        write_files(finished)
        return finished

    def _with_fewer_seeds(self, run: Run) -> list[str]:
        """Probes of which some seeds have a result and others have not."""
        done = Counter(job["labels"]["probe"] for job in run.jobs if job["status"] == "done")
        every = Counter(job["labels"]["probe"] for job in run.jobs)
        return [name for name in self.plan.cards if 0 < done[name] < every[name]]

    def _not_done(self, run: Run, found: Costs) -> list[LeftOut]:
        """Probes without a result: those that failed, and those that did not fit."""
        missing = []
        for name in self.plan.cards:
            jobs = [job for job in run.jobs if job["labels"]["probe"] == name]
            if name in found.refused or any(job["status"] == "done" for job in jobs):
                continue
            failed = [job for job in jobs if job["status"] == "failed"]
            if failed:
                error = run.result(failed[0]["id"], arrays=False).error
                missing.append(LeftOut(name, f"it failed: {error}"))
                continue
            seconds = found.seconds.get(name, 0.0) / found.workers
            about = "more than" if name in found.least else "about"
            reason = f"it did not fit: it would take {about} {duration(seconds)}"
            reason = self.ended.get(name, reason)
            missing.append(LeftOut(name, reason, seconds / 60))
        return missing

    def _facts(self, network: Mapping[str, Any], data: Any, run: Run) -> NetworkFacts:
        samples, model, trained = self.plan.data, self.plan.network, self.plan.trained
        raw = self.plan.experiment.raw
        settings = self.plan.experiment.settings
        shape = samples.shape if samples else settings.shape
        outputs = samples.outputs if samples else settings.outputs
        accuracy = ""
        for job in run.jobs:
            if job["status"] == "done" and not accuracy:
                record = run.result(job["id"], arrays=False).record
                if "accuracy" in record:
                    accuracy = accuracy_text(record["accuracy"])
        described = ""
        if samples is not None:
            name = label_of(data)
            kinds = f"{samples.classes} classes" if samples.classes else "labels that are numbers"
            described = f"{name}: {len(samples.train.inputs):,} training samples, {kinds}"
        return NetworkFacts(
            name=str(network["label"]),
            kind="one given network" if trained else f"networks at initialisation, {_seeds(raw)}",
            parameters=parameters(model),
            input=" x ".join(map(str, shape)),
            output=str(outputs),
            source=source_of(network),
            checksum=checksum(model) if trained else "",
            data=described,
            accuracy=accuracy,
        )


def _seeds(raw: Mapping[str, Any]) -> str:
    seeds = raw["seeds"]
    return f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
