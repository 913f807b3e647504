"""Numbers as text, with the digits that their errors leave."""

import math

# Outside of these sizes numbers are written with an exponent.
_SMALLEST = 1e-4
_LARGEST = 1e6
_SMALLEST_P = 1e-6  # below, digits of a p-value are those of its model


def rounded(value: float | None, error: float | None = None) -> str:
    """A number with the digits its error leaves: down to the error's second digit.

    >>> rounded(137.38123, 1.26), rounded(12347, 120), rounded(0.25, None)
    ('137.4', '12350', '0.25')
    >>> rounded(1.23456e-7, 3.4e-9)
    '1.235e-7'
    """
    if value is None or math.isnan(value):
        return "missing"
    if not error or not math.isfinite(error):
        return _short_exponent(f"{value:.6g}")
    # Digits behind the point, down to the error's second.
    digits = 1 - math.floor(math.log10(error))
    if _SMALLEST <= max(abs(value), error) < _LARGEST:
        return f"{round(value, digits):.{max(digits, 0)}f}"
    if value == 0:
        return "0"
    # Very large and very small numbers: the same digits, counted from the first.
    behind = min(max(math.floor(math.log10(abs(value))) + digits, 1), 12)
    return _short_exponent(f"{value:.{behind}e}")


def short_error(error: float, value: float | None = None) -> str:
    """An error with two digits; with an exponent where the value beside it has one.

    >>> short_error(1.2649), short_error(0.00071), short_error(123.0), short_error(3e5, 1e7)
    ('1.3', '0.00071', '120', '3.0e5')
    """
    if error == 0 or not math.isfinite(error):
        return f"{error:g}"
    # Digits behind the point; what has too many or too few is written with an exponent.
    digits = 1 - math.floor(math.log10(abs(error)))
    if _SMALLEST <= max(abs(error), abs(value or 0.0)) < _LARGEST:
        return f"{round(error, digits):.{max(digits, 0)}f}"
    return _short_exponent(f"{error:.1e}")


def p_text(p: float | None) -> str:
    """A p-value as it is printed.

    >>> p_text(1.6e-43), p_text(0.0123), p_text(1.24e-5)
    ('p < 1e-6', 'p = 0.012', 'p = 1.2e-5')
    """
    if p is None:
        return "p unknown"
    if p < _SMALLEST_P:
        return f"p < {_short_exponent(f'{_SMALLEST_P:.0e}')}"
    return f"p = {_short_exponent(f'{p:.2g}')}"


def counted(count: int, word: str) -> str:
    """A number and its noun.

    >>> counted(1, "job"), counted(3, "job")
    ('1 job', '3 jobs')
    """
    ending = "" if count == 1 else "s"
    return f"{count} {word}{ending}"


def _short_exponent(text: str) -> str:
    """Without zeros and a plus sign in the exponent: 1.2e-7."""
    number, mark, exponent = text.partition("e")
    return f"{number}e{int(exponent)}" if mark else text
