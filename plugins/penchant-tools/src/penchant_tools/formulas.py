r"""Formulas of docstrings, which the site typesets, as a terminal can show them.

>>> plain_formulas(r"the mean $\mathbb{E}_\theta[g g^\top]$ over networks")
'the mean E_θ[g gᵀ] over networks'
"""

from __future__ import annotations

import re
import unicodedata

_FORMULA = re.compile(r"\$([^$]+)\$")
_GROUP = r"\{([^{}]*)\}"
_SYMBOLS = {
    "top": "ᵀ",
    "ell": "ℓ",
    "nabla": "∇",
    "partial": "∂",
    "sum": "Σ",
    "cdot": "·",
    "odot": "⊙",
    "otimes": "⊗",
    "times": "×",
    "pm": "±",
    "le": "≤",
    "ge": "≥",
    "ne": "≠",
    "sim": "~",
    "approx": "≈",
    "to": "→",
    "leftarrow": "←",
    "langle": "⟨",
    "rangle": "⟩",
    "dots": "...",
    "infty": "∞",
}
_RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")


def plain_formulas(text: str) -> str:
    """A text whose formulas are written in the characters of a terminal."""
    return _FORMULA.sub(lambda match: _plain(match[1]), text)


def _plain(formula: str) -> str:
    # Letters of other alphabets and names of functions are themselves.
    formula = re.sub(r"\\(mathbb|mathrm|mathcal|operatorname|text)\s*" + _GROUP, r"\2", formula)
    formula = re.sub(r"\\overline\s*" + _GROUP, r"conj(\1)", formula)
    formula = re.sub(r"\\t?frac\s*" + _GROUP + _GROUP, _fraction, formula)
    formula = re.sub(r"\\sqrt\s*" + _GROUP, _root, formula)
    formula = re.sub(r"\\[,;! ]", " ", formula)
    formula = re.sub(r"\\([A-Za-z]+)", _symbol, formula)
    # Powers that have characters of their own; indices stay behind their line.
    formula = re.sub(r"\^(?:\{([-+\d]+)\}|(\d))", _power, formula)
    formula = re.sub(r"\^ ?ᵀ", "ᵀ", formula)
    formula = re.sub(r"([_^])" + _GROUP, _script, formula)
    formula = re.sub(r"([(\[⟨]) | (?=[)\]⟩])", r"\1", formula)
    return re.sub("  +", " ", formula)


def _fraction(match: re.Match[str]) -> str:
    over, under = (part if len(part) == 1 else f"({part})" for part in match.groups())
    return f"{over}/{under}"


def _root(match: re.Match[str]) -> str:
    inside = match[1]
    return f"√{inside}" if re.fullmatch(r"\w|\\\w+(_\w)?", inside) else f"√({inside})"


def _symbol(match: re.Match[str]) -> str:
    name = match[1]
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return _SYMBOLS.get(name) or unicodedata.lookup(f"GREEK {case} LETTER {_greek(name)}")
    except KeyError:
        return name  # a function, such as log


def _greek(name: str) -> str:
    # Unicode spells one of them in its own way.
    return "LAMDA" if name.lower() == "lambda" else name.upper()


def _power(match: re.Match[str]) -> str:
    return (match[1] or match[2]).translate(_RAISED)


def _script(match: re.Match[str]) -> str:
    inside = match[2]
    return f"{match[1]}{inside}" if inside.isalnum() else f"{match[1]}({inside})"
