"""What a number says against its null.

Every difference has a two-sided p-value, and `penchant_numerics.significance` decides about all
p-values of one table at once.
"""

from __future__ import annotations

import math

import attrs
from penchant.results.quantities import Quantity, rounded, short_error
from penchant_numerics import significance

FEW = 2.0  # degrees of freedom below which a difference of many standard errors means nothing


@attrs.frozen
class Pooled:
    """A quantity over seeds.

    Attributes:
        quantity: Mean, its error and its null.
        values: The value of each seed.
        overdispersed: The seeds differ by more than their errors allow.
        null_df: Degrees of freedom of the null's spread; None where it is as good as known.
    """

    quantity: Quantity
    values: tuple[float, ...] = ()
    overdispersed: bool = False
    null_df: float | None = attrs.field()

    @null_df.default
    def _draws_less_one(self) -> float | None:
        return _null_df(self.quantity)


@attrs.frozen
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
    p: float | None = attrs.field()

    @p.default
    def _by_t_test(self) -> float | None:
        return significance.p_value(self.value, self.error, self.df)

    @property
    def exact(self) -> bool:
        """Is there nothing random about it?"""
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
        """Does it look large although two repetitions cannot decide anything?"""
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


def against_null(found: Pooled) -> Difference | None:
    """How far a number is from its value without an effect; None where there is no null.

    The p-value that a quantity carries decides. Elsewhere a difference is compared with the larger
    of the null's spread and the value's own error, with the degrees of freedom of that one.
    """
    quantity = found.quantity
    if quantity.null is None or quantity.missing:
        return None
    value = quantity.value - quantity.null
    # The null itself was measured, too.
    uncertain = (quantity.null_stderr or 0.0, found.null_df)
    terms: list[significance.ErrorTerm] = []
    own = 0.0 if quantity.exact else quantity.stderr
    if own is not None:
        terms.append(significance.combined_error([(own, quantity.df), uncertain]))
    if quantity.null_spread is not None:
        terms.append((math.hypot(quantity.null_spread, uncertain[0]), found.null_df))
    error, df = max(terms, key=lambda term: term[0], default=(None, None))
    if quantity.p is not None:
        return Difference(value, error, df, quantity.p)
    return Difference(value, error, df)


def null_p_value(quantity: Quantity) -> float | None:
    """The two-sided p-value of a number against its null; None where there is none to be had."""
    away = against_null(Pooled(quantity))
    return None if away is None else away.p


def _null_df(quantity: Quantity) -> float | None:
    """Degrees of freedom of the null's spread: its draws less one; None where it is known."""
    if not quantity.null_spread or not quantity.null_stderr:
        return None
    draws = (quantity.null_spread / quantity.null_stderr) ** 2
    return max(draws - 1, 1.0)
