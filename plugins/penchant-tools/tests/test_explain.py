"""Everything that has a name is explained, with an example command that runs."""

import functools
import re
import shlex
import sys

import penchant
import pytest
from click.testing import CliRunner
from penchant import cli
from penchant.experiments.experiment import build
from penchant.experiments.typed_text import parse_component
from penchant.plugins import discovery
from penchant_tools import completion, doctor
from penchant_tools.explain import explain, explanation
from penchant_tools.formulas import plain_formulas

PLUGINS = discovery.load()
OFFERS = PLUGINS.registrations()
OWN = [registration for registration in OFFERS if registration.distribution.startswith("penchant")]
ROLES = [role.name for role in PLUGINS.roles()]
ABSENT = re.compile(r"(\S+): files not found")


def _name(registration):
    return f"{registration.component.kind}-{PLUGINS.address(registration)}"


def _example(text):
    return re.search(r"^Example:\n  (penchant .*)$", text, re.M).group(1)


def _built(request, without, *, sets=(), **settings):
    """Instead of running an experiment: validate all of it, down to its jobs."""
    given = {key: settings[key] for key in ("executor", "workers") if settings.get(key)}
    request = request.changed(sets).with_settings(given)
    assert build(request.raw, PLUGINS, request.where).jobs("cpu")


def _check(command, monkeypatch):
    """The command names things that are installed, options they have, and what they need."""
    program, *arguments = shlex.split(command)
    assert program == "penchant"
    if arguments[0] == "doctor":
        kind = {"-a": "architecture", "-d": "dataset"}[arguments[1]]
        table = parse_component(arguments[2])
        PLUGINS.find(kind, table.pop("name")).component.bind(table)
        return
    monkeypatch.setattr(cli, "_execute", _built)
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 0, (command, done.output, done.exception)


@pytest.mark.parametrize("registration", OWN, ids=_name)
def test_every_component_is_explained_with_an_example(registration, monkeypatch, tmp_path):
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path))  # nothing is read for a job's key
    text = explanation(registration, PLUGINS)
    cls = registration.component
    assert text.startswith(f"{cls.name} ({cls.kind}, ")
    for field in cls.__attrs_attrs__:
        assert f"\n  {field.name}: {field.metadata['help']} (" in text
    if cls.kind == "probe":
        for name in (*cls.quantities, *cls.arrays, *cls.presets):
            assert f"\n  {name}: " in text
        assert "\nCost:\n" in text
    # A sweep of a hundred rates is summed up.
    assert max(map(len, text.splitlines())) < 1500
    command = _example(text)
    assert cls.name in command
    _check(command, monkeypatch)


@pytest.mark.parametrize("name", [*ROLES, "training", "import"])
def test_roles_and_training_are_explained_with_an_example(name, monkeypatch, tmp_path):
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path))
    text = explain(name, PLUGINS)
    _check(_example(text), monkeypatch)


def test_what_a_probe_asks_stands_first_and_what_it_cites_is_there():
    lines = explain("nad", PLUGINS).splitlines()
    assert lines[2].endswith("?")
    assert any(line.startswith("Reference: ") for line in lines)


def test_a_plugin_is_explained_by_its_components():
    text = explain("spectral-bias", discovery.load())
    assert text.startswith("The plugin spectral-bias has\n  probe class-paths: Are inputs of one")
    assert explain("penchant-spectral-bias", discovery.load()).count("\n") == text.count("\n")


def test_an_unknown_name_suggests_roles_and_components():
    with pytest.raises(penchant.Error, match="did you mean 'directions'"):
        explain("direction", PLUGINS)
    with pytest.raises(penchant.Error, match="'training'"):
        explain("trainig", PLUGINS)


FAST = ("penchant doctor -a import:factory=penchant_testing.tiny:tiny_network",)


@pytest.mark.parametrize("command", FAST)
def test_some_examples_run(command, monkeypatch):
    monkeypatch.setattr(doctor, "LONGEST_TRY", 0.05)  # every probe is tried
    assert command in explain("import", PLUGINS)
    done = CliRunner().invoke(cli.main, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output


@functools.cache  # estimators that are compared with each other have one example
def _ran(command):
    """The exit code of a command that is run here, so that imports are paid once, and its words."""
    arguments = shlex.split(command)[1:]
    # Workers would import everything again; an executor's own example is run as it stands.
    if arguments[0] == "probe" and "--executor" not in arguments:
        arguments += ["--executor", "serial"]
    done = CliRunner().invoke(cli.main, arguments)
    return done.exit_code, done.output, done.exception


def _absent(command, output):
    """What was said of files that a dataset of the command lacks; None if nothing was."""
    found = ABSENT.search(output)
    return found[0] if found and re.search(rf"-d {found[1]}\b", command) else None


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # as for somebody who types it
@pytest.mark.parametrize("registration", OWN, ids=_name)
def test_every_example_runs(registration, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # commands add the folder they are typed in
    command = _example(explanation(registration, PLUGINS))
    code, output, exception = _ran(command)
    absent = _absent(command, output)
    if code != 0 and absent:
        pytest.skip(absent)
    assert code == 0, (command, output[-2000:], exception)


def test_only_files_of_a_dataset_in_the_command_excuse_an_example():
    said = "! loading  kmnist: files not found; set PENCHANT_DATA or root"
    assert _absent("penchant doctor -d kmnist", said) == "kmnist: files not found"
    assert _absent("penchant doctor -d mnist", said) is None
    assert _absent("penchant doctor -d kmnist", "kmnist: found 3 files, expected 4") is None


# What a shell completes.


def test_names_options_presets_and_estimators_are_completed():
    assert completion.names(PLUGINS, "architecture", "len") == ["lenet"]
    assert "nad" in completion.names(PLUGINS, None, "na")
    assert completion.names(PLUGINS, "architecture", "lenet:activation=gelu,pool") == [
        "lenet:activation=gelu,pooling="
    ]
    assert completion.names(PLUGINS, "architecture", "none:x") == []
    nad = PLUGINS.find("probe", "nad").component
    assert "networks=" in completion.option_names(nad, "net")
    assert "quick" in completion.presets(nad, "")
    assert completion.estimators(PLUGINS, nad, "dir") == ["directions="]
    assert "directions=gradient-covariance" in completion.estimators(PLUGINS, nad, "directions=g")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("probe nad -a len", "lenet"),
        ("probe nad -o networ", "networks="),
        ("probe nad -p quic", "quick"),
        ("probe nad -e direc", "directions="),
        ("explain directional-a", "directional-accuracy"),
        ("list exec", "executors"),
        ("run x.toml --executor ser", "serial"),
    ],
)
def test_a_shell_is_offered_what_fits(words, expected):
    arguments = ["penchant", *words.split()]
    place = str(len(arguments) - 1)
    done = CliRunner().invoke(
        cli.main,
        env={
            "_PENCHANT_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(arguments),
            "COMP_CWORD": place,
        },
        prog_name="penchant",
    )
    assert f"plain,{expected}" in done.output.splitlines()


def test_formulas_are_written_in_characters_of_a_terminal():
    plugins = discovery.load()
    for registration in plugins.registrations():
        text = explain(plugins.address(registration), plugins)
        assert not re.search(r"\$|\\[A-Za-z]", text), registration.component.name
    assert (
        plain_formulas(r"$\frac{1}{2} \lambda_j \sqrt{\operatorname{tr} K}$") == "1/2 λ_j √(tr K)"
    )
    assert plain_formulas(r"$\operatorname{Re}(f_k \overline{t_k}) / |t_k|^2$") == (
        "Re(f_k conj(t_k)) / |t_k|²"
    )
