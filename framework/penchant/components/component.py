"""Components: the declarations a plugin hands over.

A component is a frozen attrs class whose fields, made with `option()`, are its options. It costs
nothing to import: its code is named by a target string, loaded when it is needed.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import attrs
from penchant.components.card import Card
from penchant.components.headline import Headline
from penchant.components.taking import AXES
from penchant.errors import Error, did_you_mean, suggestion

T = TypeVar("T")  # the answer to a question
RESERVED = frozenset(
    "name label preset estimators training weights strict architecture architectures dataset "
    "datasets seed seeds device dtype shape outputs threads executor workers out quick".split()
)
# What else an experiment or `penchant.measure` takes for itself, so that no option of a probe may
# have such a name. The layers that define them are above this one: a test compares.
RESERVED_FOR_PROBES = RESERVED | frozenset(
    "figures fresh memory output per_device precision probe store_networks time_limit title "
    "unit".split()
)


@attrs.frozen
class Component:
    """A declaration with a name, a target and options.

    `example` is the command that `penchant explain` shows.
    """

    kind: ClassVar[str] = ""
    example: ClassVar[str] = ""
    name: ClassVar[str] = ""
    target: ClassVar[Any] = ""
    target_parameters: ClassVar[tuple[str, ...]] = ()
    # Keys of its table in an experiment that are no options.
    table_keys: ClassVar[tuple[str, ...]] = ("name",)

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def bind(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """The component with these options.

        Every error names the option, its value, what is allowed, and the table `where` it is in.
        """
        # All names are checked before any value: a misspelt option is not reported as missing.
        fields = {field.name: field for field in attrs.fields(cls)}
        for key in values:
            if key not in fields:
                hint = did_you_mean(key, fields) or suggestion(key, [*fields, *cls.table_keys])
                if key in cls.table_keys:
                    hint = "; it belongs to the table of an experiment, beside the options"
                raise Error(f"{cls.name} has no option {key!r}{hint}{_location(where, key)}")
        # Without a default the user must choose.
        for key, field in fields.items():
            if field.default is attrs.NOTHING and key not in values:
                text = field.metadata["help"]
                raise Error(f"{cls.name} needs the option {key!r}: {text}{_location(where, key)}")
        try:
            return cls(**values)
        except Error as error:
            # Without an option it is a rule between options, from __attrs_post_init__.
            raise Error(f"{error}{_location(where, error.option)}") from None

    def files(self) -> tuple[str, ...]:
        """Paths of the files it reads with these options; their content is part of a job's key."""
        return ()

    def options(self) -> dict[str, Any]:
        """The options as they are, by name."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}


def _location(where: str, option: str) -> str:
    if not where:
        return ""
    return f" ({where}.{option})" if option else f" ({where})"


class Architecture(Component):
    """A distribution of networks. Target: `build(options, shape, outputs) -> torch.nn.Module`."""

    kind = "architecture"
    target_parameters = ("options", "shape", "outputs")
    table_keys = ("name", "label", "weights", "strict")


class Dataset(Component):
    """Train and test samples. Target: `load(options, generator) -> Data(train, test, classes)`."""

    kind = "dataset"
    target_parameters = ("options", "generator")
    table_keys = ("name", "label")


class Estimator(Component):
    """A numerical method for one role. Target: called as the role's function says.

    `uses` names datasets and architectures that it takes from the context; "{network}" is the one
    that its option `network` names.
    """

    kind = "estimator"
    role: ClassVar[Any] = ""  # the name of a shared role, or a `Role`
    uses: ClassVar[tuple[str, ...]] = ()


class Probe(Component):
    """A measurement. Target: `run(options, context) -> Result`; figures: `draw(result)`.

    Attributes:
        question: The researcher's question in one sentence, with which the report opens; by
            default the first sentence of the docstring.
        needs: What it requires, in the words of `penchant.components.taking.NEEDS`.
        instead: Options with arrays that stand for networks and data: where one of them is given,
            it needs none, and is refused any.
        accepts: Axes it takes only when an experiment selects them; "sequences" where its dataset
            may have a label for every position.
        roles: Role to its default estimator: a name, or a tuple of names where it takes several.
        uses: Datasets and architectures that it takes from the context by name; "{network}" is
            the one that its option `network` names.
        takes: Which networks it measures: "fresh" (drawn, and trained where the job has a
            training), "trained" (a module or `weights` of the user's can stand for the trained
            network), "trajectory" (it follows checkpoints of one training of the user's itself).
            A trajectory given to a probe that takes "trained" only is measured state by state.
        quantities: Name to one line; braces name an option or role the name is filled from.
        tables: The same for numbers along axes, which follow the name: {"loss[frequency, step]":
            "of the test samples"}.
        arrays: The same for other arrays; the standard error of array `x` is array `x-stderr`.
        headline: The sentence with which the report begins, chosen by a quantity.
        figures: Target of the function that draws its figures from a stored result; without it,
            every table of one or two axes is drawn.
        presets: Name to options, estimators and training.
        card: How `penchant card` measures it; None: it is on no card.
    """

    kind = "probe"
    target_parameters = ("options", "context")
    table_keys = tuple("name label preset estimators training architectures datasets quick".split())
    question: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    instead: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[Mapping[str, str | tuple[str, ...]]] = {}
    uses: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ("fresh",)
    quantities: ClassVar[Mapping[str, str]] = {}
    tables: ClassVar[Mapping[str, str]] = {}
    arrays: ClassVar[Mapping[str, str]] = {}
    headline: ClassVar[Headline | None] = None
    figures: ClassVar[Any] = ""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    card: ClassVar[Card | None] = None

    @classmethod
    def has_axis(cls, axis: str) -> bool:
        """Can a job of this probe have this axis?"""
        return axis in cls.needs or axis in cls.accepts

    @property
    def arrays_given(self) -> tuple[str, ...]:
        """The options whose arrays stand for networks and data."""
        return tuple(name for name in self.instead if getattr(self, name) is not None)

    @classmethod
    def trains(cls) -> bool:
        """Does a job of this probe have a training?"""
        # With networks and data a probe may use trained networks.
        return all(cls.has_axis(axis) for axis in AXES) or cls.has_axis("training")


class Executor(Component):
    """A way to run jobs. Target: `start(options, work, workers, threads) -> Workers or Engine`.

    An executor either starts workers that share the run folder, or is an engine: a scheduler of
    its own, on machines that need not see that folder.

    **Workers on the folder.** A worker is a call of `work(number)` in a process that sees the run
    folder; it takes what is free from the folder, and returns when every job has a result. All that
    an executor does is to start such calls somewhere. Its target returns an object with these
    members::

        class Workers(Protocol):
            size: int                                 # how many workers there may be at a time
            def start(self, number: int) -> None: ...           # call work(number) somewhere
            def ended(self) -> dict[int, str | Exception]: ...  # since the last call
            def stop(self) -> None: ...                         # end all workers

    `start` returns at once, or where the worker is this very process when `work` has returned.
    `ended` maps the number of a worker to "" if `work` returned, to the exception that it raised,
    or to how the worker died, such as "signal SIGKILL"; the kernel replaces a dead worker by one
    with a new number. `work` can be pickled. `workers` is the
    requested number of workers, `threads` the number of threads of each.
    `examples/executor_threads.py` is complete.

    **An engine**, with `engine = True`, is given jobs and no `work`::

        class Engine(Protocol):
            def run(self, orders: Sequence[Order], server: Server) -> Iterator[...]: ...
            def stop(self) -> None: ...                         # end everything

    `run` yields `(order.id, outcome)` for every order, in any order. Where it likes it calls
    `order.run(call, pool, folder)`, in a folder of that process, and the outcome is what this
    returns; or it is text, how the process died. `order.run` raises only `penchant.Error`, which
    ends the run. Orders can be pickled.
    `call(name, *arguments)` must return `server.answer(name, *arguments)`, from wherever it is
    called: this is how progress, trained networks, samples and shards reach the command.
    `pool.map(whole, shards)` yields the answers of shards of one map in their order, such as
    `whole.run(shard)` for each. Elsewhere, `whole.sent().open(whole.shared, call, folder)` is the
    same map, and `answers(shards)` yields answers of shards of it.
    `call("store", whole.job, names, answers)` stores answers for a run that resumes; the names are
    `whole.path(shard).name`.
    `examples/engine_futures.py` is complete. `penchant_testing.check_executor` tests both kinds.

    Attributes:
        engine: It is an engine. Only one command at a time works in its run folder.
        remote: Workers are on other machines: the executor chooses their number where `workers`
            is None, and no job runs in the process of the command.
        attempts: How often a job or shard is begun before it has failed.
    """

    kind = "executor"
    target_parameters = ("options", "work", "workers", "threads")
    engine: ClassVar[bool] = False
    remote: ClassVar[bool] = False
    attempts: ClassVar[int] = 3

    def ask(self, question: Callable[[], T]) -> T:
        """The answer that a function gives where workers run."""
        return question()
