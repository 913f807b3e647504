"""Does a probe fit what it is given, and does its result fit what it declares?"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penchant.components.component import Probe
from penchant.components.names import filled
from penchant.components.output import ONE_OF_MANY
from penchant.components.taking import takes_sequences, takes_tokens
from penchant.errors import Error, did_you_mean
from penchant.execution.job.context import Context
from penchant.execution.job.networks import FROM_EMBEDDING, SAMPLES
from penchant.experiments.jobs import BoundProbe, Job
from penchant.results.result import Result
from penchant.results.steps import BY_STEP
from penchant.results.tables_on_disk import arrays_of

STDERR = "-stderr"  # the standard error of array `x` is array `x-stderr`


def check_fit(job: Job, context: Context) -> None:
    """Refuse a network or data that the probe cannot be given."""
    cls = type(job.probe.component)
    what = f"probe {cls.name!r}"
    if context.has("dataset"):
        _check_data(cls, context, what)
    if job.architecture is not None:
        _check_architecture(job, context)
    # Arrays that stand for networks and data are checked by the probe itself.
    if not job.probe.component.arrays_given:
        _check_needs(cls, context, what)


def _check_data(cls: type[Probe], context: Context, what: str) -> None:
    """Refuse tokens and sequences for probes that cannot take them."""
    data = context.data
    if data.has_tokens and not takes_tokens(cls):
        hint = f"tokens cannot be moved a little; {FROM_EMBEDDING}"
        raise Error(f"{what} needs continuous-inputs, found whole numbers: {hint}")
    if data.positions is not None and not takes_sequences(cls):
        found = f"found {data.positions} labels per sample, one for each position of a sequence"
        hint = "give one label per sample, such as that of the last position"
        raise Error(f"{what} needs one label per sample, {found}; {hint}")


def _check_architecture(job: Job, context: Context) -> None:
    """A few forward passes, on valid tokens where the data have any."""
    batch_statistics = _takes_batch_statistics(job)
    if not context.has("dataset"):
        context.architecture.check(
            f"set outputs to the number it returns, or {ONE_OF_MANY}",
            shape_hint="; set shape to the shape of one input, or give a dataset",
            batch_statistics=batch_statistics,
        )
        return
    data = context.data
    samples = data.train.inputs[:SAMPLES].cpu()
    why = f"its outputs come from the data: {data.labels_described}"
    example = data.train.inputs[:1] if data.has_tokens else None
    # How several inputs are given, such as tokens and their mask.
    given = data.conventions.get("inputs", "")
    hint = f"; inputs are {given}" if "input_names" in given else ""
    context.architecture.check(
        why + hint,
        example=example,
        positions=data.positions,
        shape_hint=hint,
        samples=samples if data.has_tokens else samples.float(),
        batch_statistics=batch_statistics,
    )


def _takes_batch_statistics(job: Job) -> bool:
    """Does the probe, or an estimator of it, let batches be normalised by themselves?"""
    estimators = [bound.component for some in job.probe.estimators.values() for bound in some]
    components = [job.probe.component, *estimators]
    return any(getattr(each, "batch_norm", "") == "batch" for each in components)


def _check_needs(cls: type[Probe], context: Context, what: str) -> None:
    """Refuse data and networks that lack what a probe says it needs of them."""
    needs = cls.needs
    if "classes" in needs and not context.data.classes:
        raise Error(f"{what} needs labels that are classes, found labels that are numbers")
    if "images" in needs and len(context.measured.shape) != 3:
        shape = " x ".join(map(str, context.measured.shape))
        raise Error(f"{what} needs images (channels x height x width), found {shape}")
    # Of several logits of a trained network, that of each sample's class is measured.
    by_class = context.network_kind != "fresh" and context.has("dataset")
    if "scalar-output" in needs and not by_class and context.architecture.outputs > 2:
        found = f"found {context.architecture.outputs} outputs"
        # A dataset says how many outputs there are.
        without = "measure it without data (datasets = [])"
        cure = without if context.has("dataset") else "set outputs = 1"
        hint = f"{cure}, or {ONE_OF_MANY}"
        raise Error(f"{what} needs one output or two logits, {found}; {hint}")


@contextlib.contextmanager
def naming_unselected(probe: BoundProbe) -> Iterator[None]:
    """Errors of a probe say which architectures or datasets its entry could have named."""
    try:
        yield
    except Error as error:
        hints = []
        for kind, labels in probe.unselected.items():
            if labels:
                named = f"{kind}s = {json.dumps(labels[:1], ensure_ascii=False)}"
                hints.append(f"; of several {kind}s it uses those that its entry names: {named}")
        if not hints:
            raise
        raise Error("".join([str(error), *hints])) from error.__cause__


def mistakes(probe: BoundProbe, result: Result) -> Iterator[str]:
    """Sentences about names that are not declared, and about missing standard errors."""
    cls, options = type(probe.component), probe.component.options()
    roles = probe.estimator_labels
    yield from _undeclared("quantity", filled(cls.quantities, options, roles), result.quantities)
    declared = probe.tables
    yield from _undeclared("table", declared, result.tables)
    for name, table in result.tables.items():
        if tuple(table.axes) != declared.get(name, tuple(table.axes)):
            yield f"table {name!r} has the axes {list(table.axes)}, declared {list(declared[name])}"
    own = {each for name, table in result.tables.items() for each in arrays_of(name, table)}
    others = [name for name in result.arrays if name not in own]
    names = [name for name in others if BY_STEP not in name and name != "steps"]
    yield from _undeclared("array", filled(cls.arrays, options, roles), names)
    for name, quantity in result.quantities.items():
        if quantity.stderr is None and not quantity.exact and not quantity.missing:
            yield f"quantity {name!r} has neither a standard error nor exact=True"


def _undeclared(what: str, declared: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names if declared else ():
        if name not in declared and name.removesuffix(STDERR) not in declared:
            yield f"{what} {name!r} is not declared{did_you_mean(name, declared)}"
