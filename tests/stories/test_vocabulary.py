"""One word, one type, one meaning over all plugins: options, quantities, arrays and presets."""

import collections
import re
import types
import typing

import attrs
import pytest
from penchant.components.options import hints
from penchant.plugins import discovery

# Words that the vocabulary of CONTRIBUTING.md replaces: kind of name -> words.
REPLACED = {
    "option": "draws points size dimension accuracy".split(),
    "quantity": "mean-accuracy accuracy original flipped order-correlation reached-count".split(),
    "array": "step index eigenvalue frequency accuracy".split(),
}
# Words that mean one thing: the beginning of their help text says which.
MEANINGS = {
    "networks": "network",
    "trainings": "train|independent networks",
    "repeats": "data sets|sets of samples",
    "eval_every": "step",
    "eval_steps": "step",
    "lanczos_steps": "lanczos|krylov|steps",
    "grid_points": "point|grid",
    "every": "every|stride|direction",
}
# Options that are allowed to have several types, each for a reason.
SEVERAL_TYPES = {
    "channels": "of the one convolution of linear-conv, or of each of several layers",
    "features": "how many a model has, or features that stand for a network",
    "labels": "what labels of a synthetic dataset are, or labels that stand for a dataset",
}


def registrations():
    """Every component of the plugins of this repository."""
    return [o for o in discovery.load().registrations() if o.distribution.startswith("penchant")]


def options():
    """(component, field, type) of every option."""
    for registration in registrations():
        for field in attrs.fields(registration.component):
            yield registration.component, field, hints(registration.component)[field.name]


def without_none(hint):
    """The type of an option that may also be nothing."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [each for each in typing.get_args(hint) if each is not type(None)]
        hint = kinds[0] if len(kinds) == 1 else tuple(kinds)
    return hint


def test_an_option_name_has_one_type():
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for component, field, hint in options():
        kind = "array" if field.metadata["array"] else str(without_none(hint))
        found[field.name][kind].append(component.name)
    several = {
        name: dict(kinds)
        for name, kinds in found.items()
        if len(kinds) > 1 and name not in SEVERAL_TYPES
    }
    assert not several, "\n".join(f"{name}: {kinds}" for name, kinds in several.items())


@pytest.mark.parametrize("name", MEANINGS)
def test_a_word_of_the_vocabulary_means_one_thing(name):
    for component, field, _ in options():
        if field.name == name:
            text = field.metadata["help"].lower()
            assert re.search(MEANINGS[name], text), f"{component.name}.{name}: {text}"


def test_words_that_were_replaced_are_gone():
    wrong = []
    for component, field, _ in options():
        if field.name in REPLACED["option"]:
            wrong.append(f"option {component.name}.{field.name}")
    for registration in registrations():
        for kind, declared in (("quantity", "quantities"), ("array", "arrays")):
            for name in getattr(registration.component, declared, {}):
                if name in REPLACED[kind]:
                    wrong.append(f"{kind} {registration.component.name}: {name}")
    assert not wrong, "\n".join(wrong)


def test_presets_have_hyphens_only():
    for registration in registrations():
        for name in getattr(registration.component, "presets", {}):
            what = f"{registration.component.name} -p {name}"
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name), what


def test_nothing_is_written_as_none_of_another_kind():
    """All, or automatic, is None: not 0 and not an empty list, in the help of an option."""
    wrong = []
    for component, field, _ in options():
        text = field.metadata["help"]
        if re.search(r"\b0\b[^.;]{0,12}\b(all|automatic|none)\b|\bempty[^.;]{0,12}\ball\b", text):
            wrong.append(f"{component.name}.{field.name}: {text}")
    assert not wrong, "\n".join(wrong)
