"""Quantities: a number with its standard error, and its value where there is no effect."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import attrs
from attrs.converters import optional
from penchant.errors import Error
from penchant.results.differences import Difference, against_null, null_df, z_text
from penchant.results.files import host_array
from penchant_numerics.statistics import p_text, rounded, short_error

# The fields of a quantity that are numbers, but for the count.
NUMBERS = ("value", "stderr", "null", "null_spread", "null_stderr", "df", "p")


def _number(value: Any) -> float:
    """A Python number from a number, a numpy scalar or a tensor."""
    if isinstance(value, numbers.Real):
        return float(value)
    if hasattr(value, "item"):
        return float(value.item())
    if value is None:
        raise Error("a quantity needs a value, found None; name what is missing in `missing`")
    raise Error(f"a quantity must be a number, found {type(value).__name__}")


def skewed_p(values: Any, null: float | None, *, multiplicative: bool = False) -> float | None:
    """The p-value of repetitions where it is not that of Student's t."""
    from penchant_numerics.statistics import mean_and_stderr, significance

    # Numbers that are missing have none.
    if null is None or any(map(math.isnan, values)):
        return None
    p = significance.mean_p_value(values, null, multiplicative=multiplicative)
    mean, stderr = mean_and_stderr(values)
    plain = significance.p_value(mean - null, stderr, len(values) - 1)
    return None if p is None or p == plain else p


@attrs.frozen
class Quantity:
    """A number: its standard error (over what, how many), and its value where there is no effect.

    Attributes:
        value: The number.
        stderr: The standard error of `value`; None where it is unknown.
        over: What the error is taken over: "networks", "test samples".
        count: How many of these there were.
        df: Degrees of freedom of `stderr`: `count` - 1 where it is the spread over repetitions,
            None where it is as good as known.
        null: The value where there is no effect.
        null_spread: Standard deviation of the statistic under the null: what `value - null` is
            compared with.
        null_stderr: Standard error of the null's mean.
        p: Two-sided p-value, where it is not that of Student's t: the null is a distribution that
            was drawn or is known exactly, or repetitions are skewed.
        unit: Unit of all these numbers.
        exact: There is nothing random about the value, so it has no error.
    """

    value: float = attrs.field(converter=_number)
    stderr: float | None = attrs.field(default=None, converter=optional(_number))
    over: str = ""
    count: int | None = attrs.field(default=None, converter=optional(int))
    df: float | None = attrs.field(default=None, converter=optional(_number))
    null: float | None = attrs.field(default=None, converter=optional(_number))
    null_spread: float | None = attrs.field(default=None, converter=optional(_number))
    null_stderr: float | None = attrs.field(default=None, converter=optional(_number))
    p: float | None = attrs.field(default=None, converter=optional(_number))
    unit: str = ""
    exact: bool = False

    @classmethod
    def of(
        cls,
        values: Any,
        *,
        over: str,
        null: float | Mapping[str, Any] | None = None,
        null_draws: Any = None,
        unit: str = "",
        multiplicative: bool = False,
    ) -> Quantity:
        """The mean of independent values, with its standard error where there are two or more.

        Args:
            values: Numbers, an array or a tensor; all of them are averaged.
            over: What they are: "networks", "trainings".
            null: The value without an effect, or what `statistics.null_of` returned.
            null_draws: The same statistic in independent draws without the effect. They give the
                null with its spread and a p-value. The mean's own error counts, too.
            unit: Their unit.
            multiplicative: An effect is a factor, so that positive values are skewed: losses,
                ratios. The value is the geometric mean.

        Returns:
            The quantity; what is unknown is None.

        >>> print(Quantity.of([1.0, 3.0], over="networks", null=0.0))
        2.0 ± 1.0 (null 0)
        """
        from penchant_numerics.statistics import statistics

        array = host_array(values).astype(float).ravel()
        count = len(array)
        df = count - 1 if count > 1 else None
        of = statistics.geometric_mean_and_stderr if multiplicative else statistics.mean_and_stderr
        mean, stderr = of(array)
        if null_draws is not None:
            draws = host_array(null_draws).astype(float).ravel()
            null = statistics.null_of(draws, value=float(mean), stderr=stderr, df=df)
        # A null that was measured brings its spread and error along.
        null_fields: dict[str, Any]
        if isinstance(null, Mapping):
            null_fields = dict(null)
        else:
            p = skewed_p(array, null, multiplicative=multiplicative)
            null_fields = {"null": null, "p": p}
        return cls(mean, stderr=stderr, over=over, count=count, df=df, unit=unit, **null_fields)

    @property
    def missing(self) -> bool:
        """Is there no number?"""
        return math.isnan(self.value)

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers it has, by name."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        return {name: number for name, number in numbers.items() if number is not None}

    def mistake(self) -> str:
        """What no number of this kind can be; empty where there is nothing wrong."""
        for name in ("stderr", "null_spread", "null_stderr", "df", "count"):
            number = getattr(self, name)
            if number is not None and number < 0:
                return f"{name} {number}, expected 0 or more"
        if self.p is not None and (self.p < 0 or (self.p > 1 and not math.isclose(self.p, 1))):
            return f"p {self.p}, expected a number from 0 to 1"
        return ""

    @property
    def against_null(self) -> Difference | None:
        """The difference from the null, with its error and p-value; None without a null."""
        return against_null(self, null_df(self))

    @property
    def null_p_value(self) -> float | None:
        """The two-sided p-value against the null: `p`, else Student's t; None without a null."""
        difference = self.against_null
        return None if difference is None else difference.p

    @property
    def is_significant(self) -> bool:
        """Does the value differ from its null at the 1 % level, as a single comparison?"""
        from penchant_numerics.statistics import is_significant

        return is_significant(self.null_p_value)

    def sentence(self, *, above: str, below: str, neither: str) -> str:
        """The sentence that this number allows, with the number and its p-value.

        Args:
            above: The sentence if it is significantly above its null.
            below: The sentence if it is significantly below.
            neither: The sentence if the difference is not significant, or unknown.

        Returns:
            One sentence.

        >>> rank = Quantity(0.9, stderr=0.1, null=0.0)
        >>> rank.sentence(above="Low ones come first", below="High ones do", neither="No order")
        'Low ones come first: 0.90 ± 0.10 (null 0), p < 1e-6.'
        """
        p = self.null_p_value
        if p is None:
            return f"{neither}: {self}."
        sentence = neither
        if self.is_significant:
            sentence = above if self.value > (self.null or 0.0) else below
        return f"{sentence}: {attrs.evolve(self, p=None)}, {p_text(p)}."

    @property
    def with_significance(self) -> str:
        """The number, and whether it differs significantly from its null."""
        word = "significant" if self.is_significant else "not significant"
        return f"{self} ({word} at 1 %)"

    def __format__(self, spec: str) -> str:
        # Digits are those of the value: f"{quantity:.1f}" has no standard error, f"{quantity}" has.
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        if self.missing:
            return "missing"
        text = rounded(self.value, self.stderr)
        if self.stderr is not None:
            text += f" ± {short_error(self.stderr, self.value)}"
        if self.null is not None:
            p = "" if self.p is None else f", {p_text(self.p)}"
            text += f" (null {self.null_text}{p})"
        if self.unit:
            text += f" {self.unit}"
        return text.rstrip()

    @property
    def null_text(self) -> str:
        """The null with its spread, as it is printed; empty where there is none."""
        if self.null is None:
            return ""
        # Its error limits the digits.
        error = self.null_spread or self.null_stderr
        if self.null_spread is not None:
            return f"{rounded(self.null, error)} ± {short_error(self.null_spread, self.null)}"
        if error is not None:
            return rounded(self.null, error)
        # An exact null needs no more digits than the value.
        return min(rounded(self.null), rounded(self.null, self.stderr), key=len)


def distance(quantity: Quantity, difference: Difference | None) -> str:
    """The z-score of a quantity's difference from its null; empty where it has none.

    >>> quantity = Quantity(74.5, stderr=2.3, null=125.3, null_spread=0.4)
    >>> distance(quantity, quantity.against_null)
    'z = −22'
    >>> quantity = Quantity.of([19.0, 21.0], over="trainings", null=0.0)
    >>> distance(quantity, quantity.against_null)
    'z = 2.1 (2 trainings decide nothing)'
    """
    text = z_text(difference)
    if difference is None or not difference.undecided:
        return text
    named = quantity.count and quantity.over
    few = f"{quantity.count} {quantity.over}" if named else "so few repetitions"
    why = "decide nothing" if difference.error else "without a spread decide nothing"
    return f"{text} ({few} {why})".lstrip()
