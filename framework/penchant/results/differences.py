"""A difference with its error: from a null, or between two numbers.

Every difference has a two-sided p-value, and `penchant_numerics.statistics.significance` decides
about all p-values of one table at once.
"""

import dataclasses
import math
from typing import Protocol

from penchant_numerics.statistics import rounded, short_error, significance

FEW = 2.0  # degrees of freedom below which a difference of many standard errors means nothing


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference with its error.

    Attributes:
        value: The difference.
        error: Its standard error: 0 where both numbers are exact, None where it is unknown.
        df: Degrees of freedom of the error; None where it is as good as known.
        p: Two-sided p-value: from Student's t, unless the null's own distribution gave one.
    """

    value: float
    error: float | None
    df: float | None = None
    p: float | None = None

    def __post_init__(self) -> None:
        if self.p is None:
            p = significance.p_value(self.value, self.error, self.df)
            object.__setattr__(self, "p", p)

    @property
    def exact(self) -> bool:
        """Whether it is exact."""
        return self.error == 0 and self.df is None

    @property
    def z(self) -> float | None:
        """The normal deviate with its p-value, and its sign; None where it has none."""
        if self.p is None or self.exact:
            return None
        if self.p < significance.SMALLEST and self.error:
            return significance.t_score(self.value, self.error, self.df)
        return significance.z_score(self.p, self.value)

    @property
    def undecided(self) -> bool:
        """Does it look large although two repetitions, or equal ones, cannot decide anything?"""
        if self.error == 0 and self.df is not None and self.p is None:
            return True
        if not self.error or self.df is None or self.df >= FEW or self.p is None:
            return False
        normal = significance.p_value(self.value, self.error)
        return normal is not None and normal <= significance.LEVEL < self.p

    def __str__(self) -> str:
        text = "+" if self.value > 0 else ""
        text += rounded(self.value, self.error)
        if self.error:
            text += f" ± {short_error(self.error, self.value)}"
        # A minus sign, not a hyphen.
        return text.replace("-", "−", 1) if text.startswith("-") else text


def z_text(difference: Difference | None) -> str:
    """The z-score of a difference as it is printed; empty where it has none.

    >>> z_text(Difference(-0.13, 1.0)), z_text(Difference(300.0, 1.0)), z_text(Difference(1.0, 0.0))
    ('z = −0.1', 'z > 99', '')
    """
    z = None if difference is None else difference.z
    if z is None:
        return ""
    # Beyond a hundred the number says more about the sample than about the effect.
    if abs(z) >= 99.5:
        return "z < −99" if z < 0 else "z > 99"
    digits = 0 if abs(z) >= 9.95 else 1
    number = f"{z:.{digits}f}".replace("-", "−")
    return "z = 0" if number in ("0.0", "−0.0") else f"z = {number}"


class Measured(Protocol):
    """A number with its error and its null, such as a `penchant.Quantity`."""

    @property
    def value(self) -> float:
        """The number; not a number where it is missing."""

    @property
    def stderr(self) -> float | None:
        """Its standard error."""

    @property
    def df(self) -> float | None:
        """Degrees of freedom of the error."""

    @property
    def exact(self) -> bool:
        """Whether it is exact."""

    @property
    def null(self) -> float | None:
        """The value where there is no effect."""

    @property
    def null_spread(self) -> float | None:
        """Standard deviation of the statistic under the null."""

    @property
    def null_stderr(self) -> float | None:
        """Standard error of the null's mean."""

    @property
    def p(self) -> float | None:
        """Two-sided p-value, where the null is a distribution."""


def against_null(number: Measured, null_df: float | None) -> Difference | None:
    """How far a number is from its value without an effect; None where there is no null.

    The p-value that a number carries decides. Elsewhere a difference is compared with the larger
    of the null's spread and the value's own error, with the degrees of freedom of that one; a
    spread of a few draws as `significance.few_draws_p_value` does.

    Args:
        number: The number with its null.
        null_df: Degrees of freedom of the null's spread; None where it is as good as known.

    Returns:
        The difference.
    """
    if number.null is None or math.isnan(number.value):
        return None
    value = number.value - number.null
    # The null itself was measured, too.
    uncertain = (number.null_stderr or 0.0, null_df)
    terms: list[significance.ErrorTerm] = []
    own = 0.0 if number.exact else number.stderr
    if own is not None:
        terms.append(significance.combined_error([(own, number.df), uncertain]))
    if number.null_spread is not None:
        terms.append((math.hypot(number.null_spread, uncertain[0]), null_df))
    error, df = max(terms, key=lambda term: term[0], default=(None, None))
    p = number.p
    by_spread = number.null_spread is not None and (error, df) == terms[-1]
    if p is None and by_spread and error is not None and null_df is not None:
        p = significance.few_draws_p_value(value, error, null_df)
    return Difference(value, error, df, p)


def null_df(number: Measured) -> float | None:
    """Degrees of freedom of the null's spread: its draws less one; None where it is known."""
    if not number.null_spread or not number.null_stderr:
        return None
    draws = (number.null_spread / number.null_stderr) ** 2
    return max(draws - 1, 1.0)
