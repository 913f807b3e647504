"""Replaced words do not come back in public names, in the command line's output and in the docs."""

import ast
import re
from pathlib import Path

import attrs
import click
import pytest
from click.testing import CliRunner
from penchant import cli
from penchant.plugins import discovery
from penchant_tools.explain import explain, explanation

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = discovery.load()
OWN = [each for each in PLUGINS.registrations() if each.distribution.startswith("penchant")]

# A word of a name, between hyphens or underscores -> what to use instead.
NAMES = {
    "look": "evaluate",
    "looks": "evaluations, eval_steps, eval_every or comparisons",
    "told": "the noun itself, such as message or record",
    "said": "the noun itself, such as message or description",
    "heard": "the noun itself, such as errors or events",
    "asked": "requested",
    "wanted": "requested or expected",
    "place": "location, folder, position, device or sort_key",
    "places": "locations, folders, positions or devices",
    "drawer": "sampler",
    "drawers": "samplers",
    "part": "split, group, chunk, component, term or entry",
    "parts": "splits, groups, chunks, components, terms or entries",
    "keep": "store, save or cache",
    "kept": "stored, saved or cached",
    "drawn": "sampled, initialised, or figures",
    "cure": "hint",
    "kit": "conformance tests",
    "aside": "disabled (plugin) or quarantined (file)",
    "seat": "worker slot",
    "desk": "endpoint",
    "shelf": "shard store",
    "patient": "diagnosis",
    "fates": "layer notes",
    "spoken": "format duration",
    "eyebrow": "subtitle",
    "nobody": "a plain sentence",
    "whoever": "a plain sentence",
}
# Options and modules -> what to use instead.
WHOLE_NAMES = {
    "a_shard": "shard_size",
    "at_steps": "eval_steps",
    "look_every": "eval_every",
    "keep_kernel": "store_kernel",
    "keep_matrix": "store_matrix",
    "answers": "estimates",
    "nothing": "none or None",
    "apart": "difference",
    "alone": "standalone",
    "side_by_side": "stacked",
    "many_trainings": "batched_training",
    "lean_records": "compact_records",
    "live_bytes": "peak_memory",
    "over_devices": "multi_device",
    "labelled": "dataframes",
}
# Words that no local name may be in numerics and in plugins that measure -> what to use instead.
LOCALS = {
    "part": NAMES["part"],
    "parts": NAMES["parts"],
    "keep": NAMES["keep"],
    "kept": NAMES["kept"],
    "drawn": NAMES["drawn"],
    "found": "the noun itself, such as directions, rows or paths",
    "wanted": "requested or expected",
    "asked": "requested",
    "told": "the noun itself, such as message",
    "heard": "the noun itself, such as events",
    "nothing": "none or None",
    "apart": "difference",
    "place": "location, folder, position, device or sort_key",
}
# Names of mathematics that have such a word.
KNOWN = {"positive_part", "transform_parts"}
# A pattern of a text -> what to write instead.
UNITS = "architecture|batch|class|column|component|device|direction|draw|epoch|file|frequency"
UNITS += "|gpu|job|layer|machine|network|parameter|pass|probe|quantity|row|run|sample|seed|shard"
UNITS += "|step|training|worker"
TEXTS = {
    r"\b(whoever|nobody|somebody|everybody)\b": "a subject: the user, a plugin, a run",
    r"\bof before\b": "earlier, previous",
    r"\b(is|are|was|were|be|been|being) (told|heard)\b": "is reported, is passed, is called with",
    r"\bset aside\b": "disabled (plugin) or quarantined (file)",
    r"[+\u2212-]\d[\d.]* errors\b": "z = ..., or standard errors",
    r"\bthe (conformance )?kit\b": "the conformance tests",
    r"\bso manieth\b": "every n-th",
    r"\bdealt (at random|to)\b": "randomly permuted among samples",
    r"\b(looked at|looks at the network|last look|first look)\b": "evaluated, evaluation",
    r"\bthe commonest\b": "the most frequent",
    # not "samples a network memorises", where the network is a subject
    rf"\b(({UNITS})s|passes|classes|numbers|pairs|values) a ({UNITS})\b(?! \w+s\b)": "per, not a",
    rf"\bone ({UNITS}) a ({UNITS})\b": "per, not a",
    r"; nothing: ": "; None: ",
    r"\b(number|text|list|false) or nothing\b": "or none",
    r"\b(networks?|weights) (is|are|was|were|that are) drawn\b": "initialised, fresh",
    r"\bas (it|they) (is|are|was|were) drawn\b|\bas drawn\b": "at initialisation",
    r"\blabels (that are )?drawn\b": "sampled",
    r"\b(training|test) parts?\b": "split",
    r"\bjackknife over parts\b": "jackknife over groups",
    r"\btakes? (a )?part in\b": "a plain verb",
    r"\bmay be apart\b": "may differ",
    r"\bknows? nothing (of|about)\b": "is independent of, does not import",
    r"\bgoes on where it was\b": "resumes where it stopped",
    r"\bowes\b": "must",
}


def found_words(text):
    """Replaced words in a text, each with what to write instead."""
    for pattern, instead in TEXTS.items():
        for match in re.finditer(pattern, text, re.I):
            line = text[: match.start()].count("\n") + 1
            yield f"line {line}: {match[0]!r}, write: {instead}"


def found_whole(name):
    """The name of an option or a module that was replaced, with what to use instead."""
    if name in WHOLE_NAMES:
        yield f"{name!r}, use: {WHOLE_NAMES[name]}"


def found_in_name(name):
    """Replaced words in a name, each with what to use instead."""
    if name in KNOWN:
        return
    for word in re.split(r"[-_.]", name.lower()):
        if word in NAMES:
            yield f"{word!r} in {name!r}, use: {NAMES[word]}"


def test_the_search_finds_words_and_leaves_others():
    text = "Nobody is told.\n-22 errors; one row a quantity; three samples a class"
    assert len(list(found_words(text))) == 5
    assert list(found_words("22 standard errors; one row per quantity; a class has samples")) == []
    assert list(found_in_name("look_every")) == ["'look' in 'look_every', use: evaluate"]
    assert list(found_whole("a_shard")) == ["'a_shard', use: shard_size"]
    assert list(found_in_name("replaced-labels")) == []


def names_of(cls):
    """Every public name of a component, with what it names."""
    yield cls.kind, cls.name
    for field in attrs.fields(cls):
        yield "option", field.name
    for kind in ("quantities", "arrays", "presets", "roles"):
        for name in getattr(cls, kind, {}):
            yield kind, name


def test_names_of_components():
    wrong = []
    for each in OWN:
        for kind, name in names_of(each.component):
            reasons = [*found_in_name(name), *(found_whole(name) if kind == "option" else ())]
            wrong += [f"{each.component.name}, {kind}: {why}" for why in reasons]
    assert not wrong, "\n".join(wrong)


def public_names(path):
    """Public functions, classes, methods and parameters of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name
            yield from (each.arg for each in (*node.args.args, *node.args.kwonlyargs))


PACKAGES = [
    "penchant_numerics",
    "penchant_architectures",
    "penchant_class_structure",
    "penchant_curvature",
    "penchant_example",
    "penchant_gih",
    "penchant_huggingface",
    "penchant_import",
    "penchant_landscape",
    "penchant_mine",
    "penchant_mixed",
    "penchant_nad",
    "penchant_representations",
    "penchant_spectral_bias",
    "penchant_synthetic",
    "penchant_tangent",
    "penchant_tensorboard",
    "penchant_testing",
    "penchant_timm",
    "penchant_vision",
    "penchant_weights",
]


def folder_of(package):
    """The folder of a package, of the framework or of a plugin."""
    folder = ROOT / "framework" / package
    if folder.is_dir():
        return folder
    return ROOT / f"plugins/{package.replace('_', '-')}/src/{package}"


@pytest.mark.parametrize("package", PACKAGES)
def test_names_of_python_interfaces(package):
    wrong = []
    for path in sorted(folder_of(package).rglob("*.py")):
        names = {path.stem, *public_names(path)}
        wrong += [f"{path.name}: {why}" for name in sorted(names) for why in found_in_name(name)]
        wrong += [f"{path.name}: {why}" for why in found_whole(path.stem)]
    assert not wrong, "\n".join(wrong)


def local_names(path):
    """Every name that the code of a file binds or reads, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno


@pytest.mark.parametrize("package", PACKAGES)
def test_local_names(package):
    wrong = []
    for path in sorted(folder_of(package).rglob("*.py")):
        for name, line in local_names(path):
            if name in LOCALS:
                wrong.append(f"{path.name}:{line}: {name!r}, use: {LOCALS[name]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", PACKAGES)
def test_comments_and_docstrings(package):
    wrong = []
    for path in sorted(folder_of(package).rglob("*.py")):
        wrong += [f"{path.name}, {why}" for why in found_words(path.read_text())]
    assert not wrong, "\n".join(wrong)


def commands(command, name):
    """A command and its subcommands, by their full name."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            yield from commands(command.get_command(context, each), f"{name} {each}")


def outputs():
    """What the command line prints about itself and about every component."""
    for name, _ in commands(cli.main, ""):
        yield f"penchant{name} --help", CliRunner().invoke(cli.main, [*name.split(), "--help"])
    yield "penchant list", CliRunner().invoke(cli.main, ["list"])


def test_help_and_lists():
    wrong = []
    for name, done in outputs():
        assert done.exit_code == 0, (name, done.output)
        wrong += [f"{name}, {why}" for why in found_words(done.output)]
    assert not wrong, "\n".join(wrong)


def test_explanations():
    wrong = []
    for each in OWN:
        text = explanation(each, PLUGINS)
        wrong += [f"explain {each.component.name}, {why}" for why in found_words(text)]
    for role in PLUGINS.roles():
        wrong += [f"explain {role.name}, {why}" for why in found_words(explain(role.name, PLUGINS))]
    assert not wrong, "\n".join(wrong)


def test_a_question_and_its_summary_say_different_things():
    same = []
    for each in OWN:
        question = getattr(each.component, "question", "")
        summary = (each.component.__doc__ or "").splitlines()[0]
        words = [set(re.findall(r"[a-z]{4,}", text.lower())) for text in (question, summary)]
        shared, smaller = words[0] & words[1], min(map(len, words))
        if question and (len(shared) > 0.7 * smaller or not question.endswith("?")):
            same.append(f"{each.component.name}: {question!r} and {summary!r}")
    assert not same, "\n".join(same)


def pages():
    """Pages that are written by hand: the site, the READMEs, and what generated pages are from."""
    for pattern in (
        "README.md",
        "docs/*.md",
        "docs/how-to/*.md",
        "docs/tutorials/*.md",
        "docs/make/*.md",
        "docs/make/limits.toml",
        "plugins/*/README.md",
        "examples/*/README.md",
    ):
        yield from sorted(ROOT.glob(pattern))


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages(path):
    assert not list(found_words(path.read_text()))
