"""What numerics refuse, in a sentence."""


class Refusal(ValueError):  # noqa: N818 - it is no error of the program
    """Arguments that a function does not take: the message has what was found and expected.

    A result, a command and a page show the message as it is, `says_enough`, where another
    `ValueError` needs its type and its line.

    >>> raise Refusal("expected at least 2 samples, found 1")
    Traceback (most recent call last):
    penchant_numerics.refusal.Refusal: expected at least 2 samples, found 1
    """

    says_enough = True
