"""The properties that every component must have, each as a function that asserts it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import Estimator, Probe
from penchant.components.names import name_and_axes, placeholders
from penchant.components.options import hints
from penchant.components.roles import role_of
from penchant.components.taking import AXES
from penchant.components.targets import check_parameters, resolve
from penchant.components.training import Training
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant.plugins.declaration_checks import check_declaration
from penchant.plugins.registry import Registration
from penchant.results.result import Result
from penchant.results.runs import Run
from penchant.results.tables_on_disk import arrays_of
from penchant_report.figure_faults import faults
from penchant_report.figures import figure_style, figures_of, headline_of, resized

from penchant_testing.builders import architecture, context, dataset, experiment, run_unreported
from penchant_testing.same_estimates import difference
from penchant_testing.strictness import no_trace, strict_devices

CLOSE = 1e-3  # relative difference of numbers from another device, whose chunks are others


def check_component(registration: Registration) -> None:
    """The declaration is complete, its targets load and take what they are called with."""
    cls = registration.component
    # The class of its kind, from which what every such component must have is read.
    base = next(parent for parent in cls.__mro__ if parent.__dict__.get("kind") == cls.kind)
    check_declaration(cls, base)
    for field in attrs.fields(cls):
        what = f"{cls.name}.{field.name}"
        assert field.metadata["help"], f"{what} has no help text"
        types: dict[str, Any] = hints(cls)  # type: ignore[arg-type]
        assert field.name in types, f"{what} has no type"
    # Estimators are called as their role says, all others as their kind does.
    if issubclass(cls, Estimator):
        role = role_of(cls)
        assert role is not None
        role.load(cls)
        return
    function = resolve(cls.target, cls.name)
    check_parameters(function, cls.target_parameters, f"{cls.kind} {cls.name!r}")
    if issubclass(cls, Probe):
        _check_probe_declaration(cls)


def _check_probe_declaration(cls: type[Probe]) -> None:
    assert "quick" in cls.presets, f"{cls.name} has no preset 'quick'"
    assert cls.quantities, f"{cls.name} declares no quantities"
    assert cls.figures or cls.tables, f"{cls.name} has no figures, and no tables to draw"
    if cls.figures:
        resolve(cls.figures, f"figures of {cls.name}")
    options = {field.name for field in attrs.fields(cls)}
    known = options | cls.roles.keys()
    declarations = {"quantity": cls.quantities, "array": cls.arrays, "table": cls.tables}
    for kind, declared in declarations.items():
        for name, meaning in declared.items():
            assert meaning, f"{cls.name} does not say what the {kind} {name!r} means"
            what = f"{cls.name} declares {name!r}"
            # Names in braces are filled from options and roles.
            for inside in placeholders(name):
                assert inside in known, f"{what}, but has neither option nor role {inside!r}"


def check_presets(registration: Registration) -> None:
    """Every preset is a valid choice of options, estimators and training."""
    cls: Any = registration.component
    for name, preset in cls.presets.items():
        where = f"preset {name!r} of {cls.name}"
        odd = set("._ ").intersection(name)
        assert not odd, f"{where}: hyphens only"
        # What is neither estimators nor training are options.
        options = dict(preset)
        estimators = options.pop("estimators", {})
        training = options.pop("training", {})
        Training.bind(training, f"{where}, training")
        if training:
            assert cls.trains(), f"{where} has a training, but {cls.name} has none"
        # What the user must give no preset can; then only names were compared.
        required = {f.name for f in attrs.fields(cls) if f.default is attrs.NOTHING}
        if required <= options.keys():
            cls.bind(options, where)
        if estimators:
            _check_preset_estimators(cls, name)
    if cls.card is not None:
        options = dict(cls.card.options)
        options.pop("estimators", None)
        cls.bind(options, f"the card of {cls.name}")


def _check_preset_estimators(cls: type[Probe], preset: str) -> None:
    """The estimators of a preset exist, where their plugins are installed."""
    plugins = discovery.load()
    chosen = cls.presets[preset]["estimators"]
    for value in chosen.values():
        # One, or several; each by its name, or as a table.
        entries = value if isinstance(value, (list, tuple)) else [value]
        for entry in entries:
            name = entry if isinstance(entry, str) else entry.get("name", "")
            if name and not plugins.has("estimator", name):
                return
    raw = experiment(cls.name, {"preset": preset})
    build(raw, plugins, f"preset {preset!r}")


def check_architecture(
    name: str, *, shape: tuple[int, ...], outputs: int = 2, **options: Any
) -> None:
    """A network fits its shape, depends only on its index, and building it changes no global state.

    Args:
        name: Its name.
        shape: Shape of one input.
        outputs: Number of outputs.
        **options: Its options.
    """
    import torch

    with no_trace():
        bound = architecture({"name": name, **options}, shape=shape, outputs=outputs)
        bound.check()
        one = bound(0).state_dict()
        again = bound(0).state_dict()
        other = bound(1).state_dict()
    for key, tensor in one.items():
        assert torch.equal(tensor, again[key]), f"{name}: network 0 was sampled differently again"
    differs = any(not torch.equal(tensor, other[key]) for key, tensor in one.items())
    assert differs, f"{name}: networks 0 and 1 are the same"


def check_dataset(name: str, *, random: bool = True, **options: Any) -> Any:
    """Loads the same samples for the same seed and others for another; leaves no trace.

    Args:
        name: Its name.
        random: Whether its samples depend on the seed. If not, another seed gives the same samples.
        **options: Its options.

    Returns:
        The samples of seed 0.
    """
    import torch

    table = {"name": name, **options}
    package = discovery.load().find("dataset", name).package
    # Another one in between: a cache in memory must not answer for the second.
    with no_trace(), strict_devices(package):
        first = dataset(table, seed=0)
        other = dataset(table, seed=1)
        second = dataset(table, seed=0)
    for split in ("train", "test"):
        one = getattr(first, split)
        two = getattr(second, split)
        same_inputs = torch.equal(one.inputs, two.inputs)
        assert same_inputs, f"{name}: other {split} inputs for the same seed"
        same_labels = torch.equal(one.labels, two.labels)
        assert same_labels, f"{name}: other {split} labels for the same seed"
    # Another seed draws others, unless it is not random.
    one, two = first.train, other.train
    alike = one.inputs.shape == two.inputs.shape
    equal = alike and torch.equal(one.inputs, two.inputs)
    equal = equal and torch.equal(one.labels, two.labels)
    comparison = "the same" if equal else "other"
    assert equal != random, f"{name}: another seed gave {comparison} samples"
    return first


def check_estimator(name: str, folder: Path | None = None, **arguments: Any) -> Any:
    """An estimator answers what its role says, the same twice, and leaves no trace.

    Args:
        name: Its name.
        folder: Where its shards go.
        **arguments: `architecture`, `dataset`, `shape` and so on; `options` of the estimator, and
            `call`: what it is called with.

    Returns:
        Its answer.
    """
    cls: Any = discovery.load().find("estimator", name).component
    role = role_of(cls)
    assert role is not None
    carrier = _carrier(role.name, name, arguments)
    call = arguments.pop("call", {})
    options = arguments.pop("options", {})
    estimators = {role.name: {"name": name, **options}}
    answers = []
    with no_trace():
        for attempt in ("first", "second"):
            # A folder of its own each time: shards of the first must not answer for the second.
            own = folder / attempt if folder is not None else None
            scope = context(carrier, own, estimators=estimators, **arguments)
            estimate = scope.estimator(role)
            answers.append(estimate(**call))
    first, again = answers
    differing = difference(first, again)
    assert not differing, f"{name} gave another answer the second time: {differing}"
    return first


def _carrier(role: str, name: str, arguments: Mapping[str, Any]) -> Any:
    """A probe that does nothing but carry one estimator."""
    axes = [axis for axis in AXES if axis in arguments]
    members = {
        "__doc__": "Carries an estimator.",
        "name": "carrier",
        "needs": tuple(axes) or ("architecture",),
        "roles": {role: name},
        "quantities": {"nothing": "nothing"},
        "target": "penchant_testing.checks:carried",
    }
    made = type("Carrier", (Probe,), members)
    return attrs.frozen(made)


def carried(options: Any, context: Any) -> Result:
    """The target of a probe that is never run."""
    return Result()


def small_run(name: str, folder: Path, arguments: Mapping[str, Any]) -> Result:
    """One small run of a probe in this process, strict about devices and traces.

    Args:
        name: The probe's name.
        folder: The run folder.
        arguments: What it is given, and its options.

    Returns:
        Its result.
    """
    registration = discovery.load().find("probe", name)
    package = registration.package
    raw = experiment(name, arguments)
    raw["executor"] = "serial"
    with no_trace(), strict_devices(package):
        return only_result(run_unreported(raw, folder))


def only_result(run: Run) -> Result:
    """The result of a run of one job, which must be done."""
    (job,) = run.jobs
    name = job["id"]
    result = run.result(name)
    details = result.record.get("traceback") or ""
    assert result.status == "done", f"{name} failed: {result.error}\n{details}"
    return result


def check_declared(cls: type[Probe], results: Sequence[Result], conditional: Sequence[str]) -> None:
    """Nothing comes out that is not declared, and all that is declared comes out.

    Args:
        cls: The probe.
        results: Small runs of it.
        conditional: Declared names that these runs need not show.
    """
    produced: dict[str, set[str]] = {"quantity": set(), "array": set()}
    declared: dict[str, set[str]] = {"quantity": set(), "array": set()}
    for result in results:
        record = result.record
        own = {each for name, table in result.tables.items() for each in arrays_of(name, table)}
        both = (
            ("quantity", result.quantities, record["meanings"]),
            ("array", [name for name in result.arrays if name not in own], record["about"]),
        )
        produced["array"] |= set(result.tables)
        for kind, actual, names in both:
            declared[kind] |= set(names)
            produced[kind] |= set(actual)
            for each in actual:
                # The error of an array needs no declaration of its own.
                base = each.removesuffix("-stderr")
                listed = each in names or base in names
                assert listed, f"{cls.name} gives the {kind} {each!r}, which it does not declare"
    excused = set(conditional)
    for kind, known in declared.items():
        lacking = known - produced[kind] - excused
        assert not lacking, f"{cls.name} declares the {kind} {sorted(lacking)}, never produced"


def check_tables(cls: type[Probe], results: Sequence[Result]) -> None:
    """Every declared table is stored as one: its axes, their coordinates, its error, its null.

    A table of means over two or more repetitions has standard errors.
    """
    declared = dict(map(name_and_axes, cls.tables))
    for result in results:
        for name in result.arrays:
            what = f"{cls.name}: the table {name!r}"
            # Names in braces stand for several.
            patterns = {re.sub(r"\{[^}]*\}", "*", each): axes for each, axes in declared.items()}
            axes = [axes for pattern, axes in patterns.items() if fnmatchcase(name, pattern)]
            table = result.tables.get(name)
            if table is None:
                assert name not in declared, (
                    f"{what} is declared as a table, and stored as an array"
                )
                continue
            assert tuple(table.axes) in axes, f"{what} has {list(table.axes)}, declared {axes}"
            repeated = table.count is not None and table.count > 1
            assert table.error is not None or not repeated, f"{what} has no standard errors"
            assert table.over or table.error is None, f"{what} does not say what its error is over"


def check_errors(result: Result) -> None:
    """Every quantity has a standard error or is exact, and says over what."""
    name = result.record["probe"]["name"]
    for quantity_name, quantity in result.quantities.items():
        if quantity.missing:
            continue
        what = f"{name}: {quantity_name}"
        has_error = quantity.stderr is not None
        if quantity.exact:
            assert not has_error, f"{what} is exact and has an error"
        else:
            assert has_error, f"{what} has no standard error and does not say that it is exact"
            assert quantity.over, f"{what} does not say what its error is over"
        assert result.meanings.get(quantity_name), f"{what} has no meaning"
    # The error of an array has its shape.
    for array_name, array in result.arrays.items():
        if not array_name.endswith("-stderr"):
            continue
        base = result.arrays.get(array_name.removesuffix("-stderr"))
        if base is not None:
            shapes = f"{array.shape} and {base.shape}"
            assert array.shape == base.shape, f"{name}: {array_name} has shapes {shapes}"


def check_nulls(cls: type[Probe], results: Sequence[Result], reasons: Mapping[str, str]) -> None:
    """Every quantity has a null in one of the runs, or there is a reason why it has none.

    Args:
        cls: The probe.
        results: Small runs of it.
        reasons: Quantity, or a pattern such as `trace-*`, to the reason why no null exists.
    """
    significant: set[str] = set()
    compared: set[str] = set()
    for result in results:
        for name, quantity in result.quantities.items():
            significant.add(name)
            if quantity.null is not None:
                compared.add(name)
    explained: set[str] = set()
    for pattern, reason in reasons.items():
        assert reason, f"{cls.name} does not say why {pattern!r} has no null"
        meant = {name for name in significant if fnmatchcase(name, pattern)}
        # A reason for what is not there would hide a misspelt name.
        assert meant, (
            f"{cls.name} gives no quantity {pattern!r}, expected one of {sorted(significant)}"
        )
        both = sorted(meant & compared)
        assert not both, f"{cls.name} has a null of {both} and a reason why there is none"
        explained |= meant
    lacking = sorted(significant - compared - explained)
    assert not lacking, f"{cls.name} gives {lacking} without a null and without a reason"


# What a caption or a headline may say only where the numbers show it.
CLAIM = re.compile(
    r"\b(hurts?|does more harm|(come|comes|are learnt|is learnt) first|stands? apart|stands? out"
    r"|(is|are|makes?) (\w+ )*(easier|harder|better|worse)|grows?|falls|rises|survives?"
    r"|more than|less than)\b"
)
DENIAL = re.compile(r"\b(no|not|neither|nothing)\b", re.IGNORECASE)


def check_figures(cls: type[Probe], results: Sequence[Result]) -> None:
    """Every figure has a title, axis labels and a caption; none claims what is not there."""
    for result in results:
        figures = figures_of(cls.figures, result)
        assert figures, f"{cls.name} drew no figure"
        for name, figure in figures.items():
            what = f"the figure {name!r} of {cls.name}"
            _check_figure(figure, what)
        _check_claims(cls, result)


def check_figure_widths(
    cls: type[Probe], results: Sequence[Result], widths: Sequence[str] = ("column", "text")
) -> None:
    """Every figure can be read at one and at two columns of a page.

    No text leaves the figure or covers another, and no axes have a side under 0.6 inch.
    """
    for result in results:
        for width in widths:
            for name, figure in figures_of(cls.figures, result).items():
                with figure_style():
                    problems = faults(resized(figure, width))
                listed = "; ".join(map(str, problems[:5]))
                assert not problems, (
                    f"the figure {name!r} of {cls.name} at width {width!r}: {listed}"
                )


def _check_claims(cls: type[Probe], result: Result) -> None:
    """Refuse a sentence that claims an effect where every quantity equals its null."""
    quantities = {}
    for name, quantity in result.quantities.items():
        equal = quantity.null is not None and not quantity.missing
        quantities[name] = attrs.evolve(quantity, value=quantity.null, p=1.0) if equal else quantity
    without = attrs.evolve(result, quantities=quantities)
    texts = {"the headline": headline_of(without)}
    for name, figure in figures_of(cls.figures, without).items():
        texts[f"the caption of {name!r}"] = str(figure.get_label())
    for what, text in texts.items():
        for sentence in re.split(r"(?<=[.:;]) ", text):
            claims = CLAIM.search(sentence)
            assert not claims or DENIAL.search(sentence), (
                f"{what} of {cls.name} says {sentence!r} although every quantity equals its null"
            )


def _check_figure(figure: Any, what: str) -> None:
    panels = figure.axes
    assert figure.get_label(), f"{what} has no caption"
    titles = [axes.get_title() for axes in panels]
    titled = figure.get_suptitle() or any(titles)
    assert titled, f"{what} has no title"
    # Pictures of networks or inputs have no axes that could be labelled.
    labelled = [axes for axes in panels if _is_labelled(axes)]
    pictures = all(axes.images or not axes.axison for axes in panels)
    assert labelled or pictures, f"{what} has no axis labels"


def _is_labelled(axes: Any) -> bool:
    figure = axes.figure
    own = axes.get_xlabel() or axes.get_ylabel()
    shared = figure.get_supxlabel() or figure.get_supylabel()
    return bool(own or shared)


def check_probe(name: str, folder: Path, *, processes: bool = False, **arguments: Any) -> Result:
    """Run a small probe twice, and on request in processes.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        processes: Also compare with two worker processes.
        **arguments: `architecture`, `dataset`, `estimators`, `training`, `shape`, `outputs`, `seed`
            and the probe's options; axes that it needs and that are not given are tiny ones.

    Returns:
        Its result.
    """
    first = small_run(name, folder / "serial", arguments)
    undrawn = {**arguments, "figures": False}
    again = small_run(name, folder / "again", undrawn)
    assert_same(first, again, "a second run")
    if processes:
        raw = experiment(name, arguments)
        raw.update(executor="processes", workers=2, figures=False)
        other = only_result(run_unreported(raw, folder / "processes"))
        assert_same(first, other, "two processes")
    return first


def assert_same(first: Result, second: Result, what: str) -> None:
    """Byte-identical arrays and equal quantities.

    Args:
        first: A result.
        second: Another, which must be the same.
        what: Where the other comes from, for the message.
    """
    import numpy as np

    # Arrays, byte by byte.
    assert first.arrays.keys() == second.arrays.keys(), f"{what} gave other arrays"
    for name, array in first.arrays.items():
        again = second.arrays[name]
        # Text has no missing numbers, and numpy cannot test for them.
        nan = array.dtype.kind in "fc"
        equal = np.array_equal(array, again, equal_nan=nan)
        assert equal, f"{what} gave another {name!r}"
    # Quantities, each of their numbers.
    assert first.quantities.keys() == second.quantities.keys(), f"{what} gave other quantities"
    for name, quantity in first.quantities.items():
        others = second.quantities[name].numbers
        for field, number in quantity.numbers.items():
            value = others.get(field, math.nan)
            both_missing = math.isnan(number) and math.isnan(value)
            same = number == value or both_missing
            assert same, f"{what} gave {field} {value} of {name!r}, before {number}"
