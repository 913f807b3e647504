"""Components: the declarations a plugin hands over.

A component is a frozen attrs class whose fields, made with `option()`, are its options. It costs
nothing to import: its code is named by a target string, loaded when it is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import attrs
from penchant.components.taking import AXES
from penchant.errors import Error, suggestion

RESERVED = frozenset(
    "name label preset estimators training weights strict architecture architectures dataset "
    "datasets seed seeds device dtype shape outputs threads executor workers out".split()
)


@attrs.frozen
class Component:
    """What all components have: a name, a target and options.

    `example` is a command that `penchant explain` shows; without one it finds one itself.
    """

    kind: ClassVar[str] = ""
    example: ClassVar[str] = ""
    name: ClassVar[str] = ""
    target: ClassVar[Any] = ""
    parameters: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Give a component its methods, so that attrs need not write and compile them for each.

        Every command imports every declaration, and compiling is most of what that costs.
        """
        for name in ("__repr__", "__eq__", "__hash__"):
            if name not in cls.__dict__:
                setattr(cls, name, getattr(Component, name))

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        # A class and one derived from it are never equal, as attrs has it.
        return type(other) is type(self) and self.options() == other.options()

    def __hash__(self) -> int:
        return hash((type(self), *self.options().values()))

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def bind(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """The component with these options.

        Every mistake names the option, what was found and what is allowed, and the place `where`.
        """
        # All names are checked before any value: a misspelt option is not told as a missing one.
        fields = {field.name: field for field in attrs.fields(cls)}
        for key in values:
            if key not in fields:
                near = suggestion(key, fields)
                raise Error(f"{cls.name} has no option {key!r}{near}{_place(where, key)}")
        # Without a default the user must choose.
        for key, field in fields.items():
            if field.default is attrs.NOTHING and key not in values:
                about = field.metadata["help"]
                raise Error(f"{cls.name} needs the option {key!r}: {about}{_place(where, key)}")
        try:
            return cls(**values)
        except Error as error:
            # Without an option it is a rule between options, from __attrs_post_init__.
            raise Error(f"{error}{_place(where, error.option)}") from None

    def options(self) -> dict[str, Any]:
        """The options as they are, by name."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}


def _place(where: str, option: str) -> str:
    if not where:
        return ""
    return f" ({where}.{option})" if option else f" ({where})"


class Architecture(Component):
    """A distribution of networks. Target: `build(options, shape, outputs) -> torch.nn.Module`."""

    kind = "architecture"
    parameters = ("options", "shape", "outputs")


class Dataset(Component):
    """Train and test samples. Target: `load(options, generator) -> Data(train, test, classes)`."""

    kind = "dataset"
    parameters = ("options", "generator")

    def files(self) -> tuple[str, ...]:
        """Paths of the files it reads with these options; their content is part of a job's key."""
        return ()


class Estimator(Component):
    """A numerical method for one role. Target: called as the role's function says.

    `uses` names datasets and architectures that its code asks the context for; "{network}" is the
    one that its option `network` names.
    """

    kind = "estimator"
    role: ClassVar[Any] = ""
    uses: ClassVar[tuple[str, ...]] = ()


class Probe(Component):
    """A measurement. Target: `run(options, context) -> Result`; figures: `draw(result)`.

    Attributes:
        question: What a researcher asks when she uses it, in one sentence; the report opens with
            it. Without it, the first sentence of the docstring stands there.
        needs: What it cannot do without, in the words of `penchant.components.taking.NEEDS`: axes
            ("architecture", "dataset"), "training", and what the axes must have: "classes",
            "images", "scalar-output", "second-derivatives" (whether a network has them is found
            out by `penchant doctor`), "continuous-inputs" (it differentiates in the input, which
            tokens do not allow).
        accepts: Axes it takes only when an experiment selects them; "sequences" where its dataset
            may have a label for every position.
        roles: Role to its default estimator: a name, or a tuple of names where it takes several.
        uses: Datasets and architectures that its code asks the context for by name; "{network}"
            is the one that its option `network` names.
        takes: Which networks it measures: "fresh" (drawn, and trained where the job has a
            training), "trained" (a module or `weights` of the user's can stand for the trained
            network), "trajectory" (it follows checkpoints of one training of the user's itself).
            A trajectory given to a probe that takes "trained" only is measured state by state.
        quantities: Name to one line; braces name an option or role the name is filled from.
        arrays: The same for arrays; the standard error of array `x` is array `x-stderr`.
        figures: Target of the function that draws its figures from a stored result.
        presets: Name to options, estimators and training.
    """

    kind = "probe"
    parameters = ("options", "context")
    question: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[Mapping[str, Any]] = {}
    uses: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ("fresh",)
    quantities: ClassVar[Mapping[str, str]] = {}
    arrays: ClassVar[Mapping[str, str]] = {}
    figures: ClassVar[Any] = ""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def has_axis(cls, axis: str) -> bool:
        """Can a job of this probe have this axis?"""
        return axis in cls.needs or axis in cls.accepts

    @classmethod
    def trains(cls) -> bool:
        """Does a job of this probe have a training?"""
        # With networks and data a probe may ask for trained ones.
        return all(cls.has_axis(axis) for axis in AXES) or cls.has_axis("training")


class Executor(Component):
    """A way to start workers. Target: `start(options, work, workers, threads) -> Workers`.

    A worker is a call of `work(number)` in a process that sees the run folder; it takes what is
    free from the folder, and returns when every job has a result. All that an executor does is to
    start such calls somewhere. Its target returns an object with these members::

        class Workers(Protocol):
            size: int                                 # how many workers there may be at a time
            def start(self, number: int) -> None: ...           # call work(number) somewhere
            def ended(self) -> dict[int, str | Exception]: ...  # since the last call
            def stop(self) -> None: ...                         # end all workers

    `start` returns at once. `ended` maps the number of a worker to "" where `work` returned, to
    what `work` raised, or to text that says how the worker died, such as "signal SIGKILL". The
    kernel starts another worker in the place of one that died, with a number of its own. `work` can
    be pickled. `workers` is how many were asked for, and `threads` how many each may use.
    `examples/executor_threads.py` is a complete one, and `penchant_testing.check_executor` runs any
    through everything that the kernel asks of it.

    Attributes:
        remote: Workers are on other machines: the executor finds out how many there may be where
            `workers` is None, and no job runs in the process of the command.
        attempts: A job or shard that was begun so many times without a result has failed.
    """

    kind = "executor"
    parameters = ("options", "work", "workers", "threads")
    remote: ClassVar[bool] = False
    attempts: ClassVar[int] = 3

    def ask(self, question: Callable[[], Any]) -> Any:
        """The answer that a function gives where workers run."""
        return question()
