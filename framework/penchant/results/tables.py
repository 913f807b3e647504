"""Tables: numbers along named axes, with their errors and their values where there is no effect.

A `Quantity` is one number, a `Table` is many: one for every amplitude and frequency, say. What is
done to its values is done to their errors and nulls as well.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from penchant.errors import Error, suggestion
from penchant.extras import extra
from penchant.results.files import host_array
from penchant.results.quantities import Quantity, skewed_p

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

Coordinate: TypeAlias = "str | int | float"
Axes: TypeAlias = "dict[str, tuple[Coordinate, ...]]"
Part: TypeAlias = "float | Array | None"  # one number for all values, one for each, or unknown

# What may be known of the values, by the names of the fields.
PARTS = ("stderr", "sampling", "null", "null_spread", "null_stderr", "df", "p")
MOST_LISTED = 8  # coordinates in a message


def _array(values: Any) -> Array:
    """An array that cannot be written to: tables share their numbers."""
    view: Array = host_array(values).view()
    view.flags.writeable = False
    return view


def _part(value: Any) -> Part:
    if value is None:
        return None
    array = _array(value)
    return array if array.ndim else float(array)


def _axes(axes: Mapping[str, Iterable[Any]]) -> Axes:
    return {name: tuple(map(_coordinate, entries)) for name, entries in axes.items()}


def _coordinate(value: Any) -> Coordinate:
    """A coordinate as a file holds it."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, (str, int, float)):
        return plain
    raise Error(f"a coordinate must be a number or text, found {plain!r}")


@attrs.frozen(eq=False, repr=False)
class Table:
    """Numbers along named axes: one for every combination of their coordinates.

    Attributes:
        values: The numbers, an array with as many axes.
        axes: Name of each axis to its coordinates, outermost first: {"amplitude": (0.5, 1.0),
            "step": (0, 10, 20)}.
        stderr: Standard errors of the values; None where they are unknown.
        sampling: Standard errors over samples alone, where one training says nothing of others.
        null: The values where there is no effect.
        null_spread: Standard deviations of the values there.
        null_stderr: Standard errors of `null`.
        df: Degrees of freedom of the errors.
        p: Two-sided p-values against the null.
        over: What the errors are over: "trainings".
        count: How many of these there were.
        unit: Unit of all these numbers.

    All but the values may be a single number for all of them, such as a null of 0.5.

    >>> losses = Table([[4.0, 1.0], [6.0, 3.0]], {"training": range(2), "step": (0, 10)})
    >>> losses.mean("training")
    Table (step 2), with standard errors over 2 trainings
    >>> print(losses.at(step=10).mean("training").quantity())
    2.0 ± 1.0
    """

    values: Array = attrs.field(converter=_array)
    axes: Axes = attrs.field(converter=_axes)
    stderr: Part = attrs.field(default=None, converter=_part, kw_only=True)
    sampling: Part = attrs.field(default=None, converter=_part, kw_only=True)
    null: Part = attrs.field(default=None, converter=_part, kw_only=True)
    null_spread: Part = attrs.field(default=None, converter=_part, kw_only=True)
    null_stderr: Part = attrs.field(default=None, converter=_part, kw_only=True)
    df: Part = attrs.field(default=None, converter=_part, kw_only=True)
    p: Part = attrs.field(default=None, converter=_part, kw_only=True)
    over: str = attrs.field(default="", kw_only=True)
    count: int | None = attrs.field(default=None, kw_only=True)
    unit: str = attrs.field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_coordinates(self.axes)
        _check_shape("values", self.values, self.axes)
        for name, part in self.parts.items():
            if not isinstance(part, float):
                _check_shape(name, part, self.axes)

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis} {len(entries)}" for axis, entries in self.axes.items())
        known = ["with standard errors"] if self.error is not None else []
        if self.over:
            known.append("over " + f"{self.count or ''} {self.over}".strip())
        text = f"Table ({axes})"
        return f"{text}, {' '.join(known)}" if known else text

    def _repr_html_(self) -> str:
        return str(extra("table as html")(self))

    @property
    def parts(self) -> dict[str, float | Array]:
        """What is known of the values: errors, nulls, degrees of freedom."""
        known = {name: getattr(self, name) for name in PARTS}
        return {name: part for name, part in known.items() if part is not None}

    @property
    def error(self) -> Part:
        """The standard errors; those over samples alone where no others are known."""
        return self.sampling if self.stderr is None else self.stderr

    def coordinates(self, axis: str) -> Array:
        """The coordinates of an axis as an array."""
        import numpy as np

        self._positions(axis)
        return np.array(self.axes[axis])

    def at(self, **coordinates: Coordinate) -> Table:
        """The numbers at these coordinates, whose axes are gone.

        >>> Table([1.0, 2.0], {"step": (0, 10)}).at(step=10).values.item()
        2.0
        """
        table = self
        for axis, coordinate in coordinates.items():
            left = {name: each for name, each in table.axes.items() if name != axis}
            table = table._with(left, table._take(axis, table._number(axis, coordinate)))
        return table

    def select(self, **coordinates: Iterable[Coordinate]) -> Table:
        """The numbers at some coordinates of an axis, in this order.

        >>> Table([1.0, 2.0, 3.0], {"step": (0, 10, 20)}).select(step=(20, 0)).values.tolist()
        [3.0, 1.0]
        """
        table = self
        for axis, each in coordinates.items():
            chosen = tuple(map(_coordinate, each))
            numbers = [table._number(axis, coordinate) for coordinate in chosen]
            table = table._with({**table.axes, axis: chosen}, table._take(axis, numbers))
        return table

    def transposed(self, *axes: str) -> Table:
        """The same numbers with their axes in this order."""
        if sorted(axes) != sorted(self.axes):
            raise Error(f"the table has the axes {_listed(self.axes)}, found {_listed(axes)}")
        order = self._positions(*axes)
        reordered = {axis: self.axes[axis] for axis in axes}
        return self._with(reordered, lambda array: array.transpose(order))

    def reduced(self, function: Callable[..., Any], axis: str) -> Table:
        """`function(values, axis=...)`, such as `numpy.min`, along an axis.

        Errors and nulls are those of single values, and are left out.
        """
        (position,) = self._positions(axis)
        left = {name: each for name, each in self.axes.items() if name != axis}
        return Table(function(self.values, axis=position), left, unit=self.unit)

    def mean(self, axis: str | Sequence[str], *, null: float | Table | None = None) -> Table:
        """The mean over independent repetitions, with its standard error.

        Over two axes, such as ("training", "sample"), repetitions are crossed: all trainings have
        the same samples. See `penchant_numerics.statistics.paired_difference`.

        Args:
            axis: The axis of repetitions, or two.
            null: The value where there is no effect; or a table of the same repetitions without
                it, with which each is compared.

        Returns:
            The means, whose table has lost the axes of repetitions.

        >>> losses = Table([4.0, 6.0], {"training": range(2)})
        >>> print(losses.mean("training", null=3.0).quantity())
        5.0 ± 1.0 (null 3)
        """
        from penchant_numerics.statistics import mean_and_stderr, paired_difference

        axes = (axis,) if isinstance(axis, str) else tuple(axis)
        positions = self._positions(*axes)
        df: Any
        if len(axes) == 1:
            mean, stderr = mean_and_stderr(self.values, axis=positions[0])
            df = len(self.axes[axes[0]]) - 1 or None
        else:
            mean, stderr, df = paired_difference(
                0 * self.values, self.values, axis=(positions[0], positions[1])
            )
        means = self._mean(axes, mean, stderr, df)
        if isinstance(null, Table):
            return means._beside(null.mean(axes), self.minus(null).mean(axes))
        p = self._skewed_p(positions[0], null) if len(axes) == 1 else None
        return attrs.evolve(means, null=null, p=p)

    def accuracy(
        self,
        *,
        over: Sequence[str] = ("training", "sample"),
        samples: int | None = None,
        shared: bool = True,
        null: float | None = None,
    ) -> Table:
        """The share of right answers, with its standard error over trainings and samples.

        Args:
            over: The axes of trainings and of samples; of trainings alone in a table of
                accuracies.
            samples: In a table of accuracies, how many samples each of them is of.
            shared: In a table of accuracies, whether all trainings have the same samples.
            null: The accuracy of guessing.

        Returns:
            The accuracies. Of a single training only `sampling` is known.

        >>> right = Table([[1, 1, 0, 1], [1, 1, 0, 0]], {"training": range(2), "sample": range(4)})
        >>> print(right.accuracy(null=0.5).quantity())
        0.62 ± 0.24 (null 0.5)
        """
        import numpy as np
        from penchant_numerics.statistics import statistics

        positions = self._positions(*over)
        if len(over) == 2:
            right = np.moveaxis(self.values, positions, (-2, -1))
            mean, stderr = statistics.crossed_accuracy(right)
        elif samples is None:
            raise Error("accuracies need `samples`, how many each is of, or an axis of samples")
        else:
            mean, stderr = statistics.accuracy(
                self.values, samples, shared=shared, axis=positions[0]
            )
        axes = tuple(over) if len(over) == 2 else (*over, "sample")
        return attrs.evolve(self._mean(axes, mean, stderr), null=null)

    def minus(self, other: Table | float) -> Table:
        """The differences from another table, pair by pair: take them before any mean.

        Axes that the other table lacks have the same number subtracted everywhere.

        >>> losses = Table([[4.0, 1.0], [6.0, 5.0]], {"training": range(2), "step": (0, 10)})
        >>> fall = losses.at(step=0).minus(losses.at(step=10))
        >>> print(fall.mean("training", null=0.0).quantity())
        2.0 ± 1.0 (null 0)
        """
        other = other if isinstance(other, Table) else Table(other, {})
        if self.error is not None or other.error is not None:
            raise Error("means have lost what pairs share: take the difference, then its mean")
        import numpy as np

        difference = np.subtract(self.values, other._along(self.axes), dtype=float)
        return Table(difference, self.axes, unit=self.unit)

    def quantity(self) -> Quantity:
        """The number, where no axis is left."""
        if self.axes:
            raise Error(f"a quantity is one number, and the table has {_listed(self.axes)} left")
        known: dict[str, Any] = {**self.parts, "stderr": self.error}
        known.pop("sampling", None)
        if any(math.isnan(known.get(name, 0.0)) for name in ("null", "p")):
            # What cannot be compared has no null.
            known = {name: each for name, each in known.items() if name in ("stderr", "df")}
        return Quantity(self.values, over=self.over, count=self.count, unit=self.unit, **known)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each value: its coordinates, `value`, and what is known of it."""
        columns = {"value": self.values.ravel()}
        for name, part in self.parts.items():
            columns[name] = self._full(part).ravel()
        numbers = zip(*(column.tolist() for column in columns.values()), strict=True)
        locations = itertools.product(*self.axes.values())
        return [
            {**dict(zip(self.axes, location)), **dict(zip(columns, row))}
            for location, row in zip(locations, numbers, strict=True)
        ]

    # How errors and nulls follow the values.

    def _number(self, axis: str, coordinate: Coordinate) -> int:
        """Where a coordinate stands on its axis."""
        self._positions(axis)
        entries = self.axes[axis]
        if coordinate not in entries:
            raise Error(f"the axis {axis!r} has {_listed(entries)}, found {coordinate!r}")
        return entries.index(coordinate)

    def _take(self, axis: str, numbers: int | list[int]) -> Callable[[Array], Any]:
        """What takes these numbers along an axis from an array."""
        (position,) = self._positions(axis)
        return operator.itemgetter((*[slice(None)] * position, numbers))

    def _with(self, axes: Axes, change: Callable[[Array], Any]) -> Table:
        """The table with other axes, and everything that had the old ones changed alike."""
        parts: dict[str, Any] = {
            name: part if isinstance(part, float) else change(part)
            for name, part in self.parts.items()
        }
        return attrs.evolve(self, values=change(self.values), axes=axes, **parts)

    def _full(self, part: Part) -> Array:
        """A number for each value; not a number where it is unknown."""
        import numpy as np

        return np.broadcast_to(np.nan if part is None else part, self.values.shape)

    def _mean(self, axes: Sequence[str], mean: Any, stderr: Any, df: Any = None) -> Table:
        """A mean over repetitions; of one training, the error is over its samples alone."""
        left = {name: entries for name, entries in self.axes.items() if name not in axes}
        count = len(self.axes[axes[0]])
        if count == 1 and len(axes) == 2:
            over = f"{axes[1]}s of one {axes[0]}"
            return Table(mean, left, sampling=stderr, df=df, over=over, count=1, unit=self.unit)
        over = " and ".join(f"{axis}s" for axis in axes)
        return Table(mean, left, stderr=stderr, df=df, over=over, count=count, unit=self.unit)

    def _skewed_p(self, position: int, null: float | None) -> Array | None:
        """P-values of means over an axis; None where Student's t gives all of them."""
        import numpy as np
        from penchant_numerics.statistics import mean_p_value

        values = np.moveaxis(self.values, position, -1)
        repetitions = values.reshape(-1, values.shape[-1]).astype(float)
        if null is None or all(skewed_p(each, null) is None for each in repetitions):
            return None
        p = [mean_p_value(each.tolist(), null) for each in repetitions]
        # Repetitions that are all equal decide nothing.
        return None if None in p else np.array(p, float).reshape(values.shape[:-1])

    def _beside(self, control: Table, difference: Table) -> Table:
        """These means beside those of a control, given the means of their differences."""
        import numpy as np
        from penchant_numerics.statistics import p_value

        triples = zip(
            *(
                difference._full(part).ravel().tolist()
                for part in (difference.values, difference.error, difference.df)
            )
        )
        p = [p_value(value, _known(error), _known(df)) for value, error, df in triples]
        spread = control.error
        return attrs.evolve(
            self,
            null=control.values,
            null_spread=spread,
            null_stderr=spread,
            p=None if None in p else np.array(p, float).reshape(self.values.shape),
        )

    def _along(self, axes: Axes) -> Array:
        """The values, with length 1 along those axes that this table lacks."""
        for name, entries in self.axes.items():
            if axes.get(name) != entries:
                expected = _listed(axes[name]) if name in axes else f"only {_listed(axes)}"
                raise Error(f"tables differ along {name!r}: {_listed(entries)}, and {expected}")
        ordered = self.transposed(*(name for name in axes if name in self.axes))
        shape = [len(axes[name]) if name in self.axes else 1 for name in axes]
        return ordered.values.reshape(shape)

    def _positions(self, *axes: str) -> tuple[int, ...]:
        """Where axes stand; one that does not exist is refused."""
        names = list(self.axes)
        for axis in axes:
            if axis not in names:
                raise Error(f"the table has no axis {axis!r}{suggestion(axis, names)}")
        return tuple(names.index(axis) for axis in axes)


def check_coordinates(axes: Mapping[str, Sequence[Any]]) -> None:
    """Refuse axes on which a coordinate occurs twice."""
    for axis, entries in axes.items():
        if len(set(entries)) < len(entries):
            raise Error(f"coordinates of the axis {axis!r} must differ, found {list(entries)}")


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _check_shape(name: str, array: Array, axes: Axes) -> None:
    lengths = tuple(len(entries) for entries in axes.values())
    if array.shape != lengths:
        listed = ", ".join(f"{axis} {length}" for axis, length in zip(axes, lengths)) or "none"
        raise Error(f"{name} of a table of axes ({listed}) must fit, found shape {array.shape}")


def _listed(entries: Iterable[Any]) -> str:
    """Coordinates or axes in a message: the first of many."""
    texts = [repr(entry) for entry in entries]
    more = f" and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else ""
    return ", ".join(texts[:MOST_LISTED]) + more or "none"
