"""Discovery: what is wrong with one plugin is said, and hurts no other."""

import importlib.metadata
import sys
from pathlib import Path

import penchant
import pytest
from click.testing import CliRunner
from penchant import cli
from penchant.plugins import discovery

PROBE = (Path(__file__).parents[2] / "fixtures/plugins/penchant_good.py").read_text()


def plugin(name):
    return next(each for each in discovery.load().plugins if each.name == name)


def test_what_an_estimator_uses_is_a_tuple():
    class Method(penchant.Estimator):
        """A method."""

        name = "method"
        target = "os.path:join"
        role = "curvature"
        uses = "mnist"

    with pytest.raises(
        penchant.Error, match=r"Method\.uses must be a tuple of names, found the text"
    ):
        discovery.check_declaration(Method, penchant.Estimator)


def test_a_plugin_is_found_with_its_version(install):
    install("good", version="2.3")
    registration = discovery.load().find("probe", "found")
    assert (registration.distribution, registration.version) == ("penchant-good", "2.3")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        (
            PROBE.replace("penchant_probes", "penchant_probs"),
            "there is no hook 'penchant_probs'; did you mean 'penchant_probes'",
        ),
        (
            PROBE.replace("penchant_probes()", "penchant_probes(samples)"),
            "Argument(s) {'samples'} are declared in the hookimpl",
        ),
        (
            PROBE.replace("@penchant.hookimpl", ""),
            "its function penchant_probes is not marked with @penchant.hookimpl",
        ),
        (
            PROBE.replace("[Found]", "Found"),
            "penchant_probes must return a list of classes, found _",
        ),
        (
            PROBE.replace("[Found]", "[print]"),
            "expected classes derived from penchant.Probe, found <built-in function print>",
        ),
        (
            PROBE.replace('"found"', '"Found It"'),
            "must be lower-case words joined by hyphens, found 'Found It'",
        ),
        (PROBE.replace("samples:", "seed:"), "Found.seed has a reserved name"),
        (
            PROBE.replace('penchant.option(1, "how many")', "1"),
            "Found.samples must be made with penchant.option()",
        ),
        (PROBE.replace('"how many"', '""'), "Found.samples has no help text"),
        (PROBE.replace("@attrs.frozen\n", ""), "must be decorated with @attrs.frozen"),
        (PROBE.replace('target = "os.path:join"', ""), "has no target"),
        (PROBE.replace("[Found]", "[Found, Found]"), "it offers the probe 'found' twice"),
        (
            PROBE.replace("    samples", '    presets = {"quick": {"sample": 2}}\n    samples'),
            "sets unknown options: sample",
        ),
        (
            PROBE.replace("    samples", '    needs = ("architecture")\n    samples'),
            "Found.needs must be a tuple of names, found the text 'architecture': write ('architecture',)",
        ),
        (
            PROBE.replace("    samples", '    accepts = ("dataset")\n    samples'),
            "Found.accepts must be a tuple of names, found the text 'dataset': write ('dataset',)",
        ),
        (
            PROBE.replace("    samples", '    uses = ("mnist")\n    samples'),
            "Found.uses must be a tuple of names, found the text 'mnist': write ('mnist',)",
        ),
        (
            PROBE.replace("    samples", "    needs = None\n    samples"),
            "Found.needs must be a tuple of names, found None",
        ),
    ],
)
def test_a_broken_plugin_is_disabled_with_its_reason(install, source, reason):
    install("good", PROBE.replace('"found"', '"fine"'))
    install("broken", source)
    assert reason in plugin("broken").reason.replace("ABCMeta", "_").replace("type", "_")
    assert plugin("good").status == "loaded"
    with pytest.raises(penchant.Error) as caught:
        discovery.load().find("probe", "found")
    assert "broken 1.0 is disabled" in str(caught.value)


def test_a_plugin_for_another_kernel_is_not_even_imported(install):
    install("future", "raise AssertionError('imported')", requires="penchant>=99")
    assert plugin("future").reason == "it needs penchant >=99, this is penchant 0.2.0"


def test_a_requirement_whose_marker_does_not_hold_is_passed_over(install):
    install("good", requires="penchant>=99; python_version < '3'")
    assert plugin("good").status == "loaded"


def test_clashing_names_are_reached_by_distribution(install):
    install("one", PROBE)
    install("two", PROBE)
    plugins = discovery.load()
    with pytest.raises(penchant.Error) as caught:
        plugins.find("probe", "found")
    assert "offered by penchant-one 1.0 and penchant-two 1.0" in str(caught.value)
    assert plugins.find("probe", "penchant-two/found").distribution == "penchant-two"


def test_plugins_can_be_limited_and_left_out(install, monkeypatch):
    install("one", PROBE)
    install("two", PROBE.replace('"found"', '"other"'))
    assert "two" not in {each.name for each in discovery.load(("two",)).plugins}
    monkeypatch.setenv("PENCHANT_PLUGINS", "two")
    discovery.load.cache_clear()
    assert {each.name for each in discovery.load().plugins} == {"penchant", "two"}
    with pytest.raises(penchant.Error, match="unknown plugin 'three'"):
        discovery.load(("three",))


def test_one_failing_listener_hurts_no_other(install):
    listener = "import penchant\nseen = []\n@penchant.hookimpl\ndef penchant_job_started(run, job):\n    {}\n"
    install("fails", listener.format("raise RuntimeError('tracker is down')"))
    install("listens", listener.format("seen.append(run)"))
    problems = list(discovery.load().notify("penchant_job_started", run="the run", job="a job"))
    assert problems == [
        "plugin fails 1.0 failed in penchant_job_started: RuntimeError: tracker is down"
    ]
    import penchant_listens

    assert penchant_listens.seen == ["the run"]


def test_the_command_explains_each(install, command):
    install("broken", "raise ValueError('no luck')")
    install("future", PROBE, requires="penchant>=99")
    install("misspelt", PROBE.replace("penchant_probes", "penchant_probs"))
    install("one", PROBE)
    install("two", PROBE)
    install("signature", PROBE.replace("penchant_probes()", "penchant_probes(samples)"))
    shown = command("plugins").stdout
    assert (
        "the probe 'found' is offered by penchant-one and penchant-two: it is reached as 'penchant-two/found' only"
        in shown
    )
    assert (
        "Argument(s) {'samples'} are declared in the hookimpl but can not be found in the hookspec"
        in shown
    )
    assert "broken 1.0 (penchant-broken): disabled\n  ValueError: no luck" in shown
    assert "it needs penchant >=99, this is penchant 0.2.0" in shown
    assert "there is no hook 'penchant_probs'; did you mean 'penchant_probes'" in shown
    assert "disabled: broken, future, misspelt, signature" in command("list").stderr
    assert importlib.metadata.version("penchant") in shown


def test_a_plugin_whose_commands_fail_takes_no_command_away(install, command):
    install("fails")
    install("steals")
    shown = command("--help")
    assert shown.returncode == 0
    for name in ("run", "probe", "doctor", "report", "compare"):
        assert f"\n  {name} " in shown.stdout
    assert "plugin fails 1.0 failed in penchant_commands: RuntimeError" in shown.stderr
    assert "there is a command 'run' already" in shown.stderr
    assert command("list", "executors").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["explain", "serial"], "penchant-tools"),
        (["run", "--quick", "{file}"], "penchant-tools"),
        (["run", "--dry-run", "{file}"], "penchant-tools"),
    ],
)
def test_what_another_package_does_names_that_package(tmp_path, monkeypatch, arguments, package):
    (tmp_path / "one.toml").write_text('[[probes]]\nname = "output-spread"\n')
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    words = [each.format(file=tmp_path / "one.toml") for each in arguments]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert line == (
        f"penchant: this needs {package}, which is not installed: pip install {package}"
    )
