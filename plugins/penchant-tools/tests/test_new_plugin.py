"""`penchant new plugin`: what it writes is the example, and it installs, lists and passes."""

import ast
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from penchant.cli import main
from penchant_tools.template import packed


def make(tmp_path, name="sharp-minima"):
    done = CliRunner().invoke(main, ["new", "plugin", name, "--in", str(tmp_path)])
    assert done.exit_code == 0, done.output
    return tmp_path / "penchant-sharp-minima"


def test_the_template_is_the_example(root):
    stored = root / "plugins/penchant-tools/src/penchant_tools/template.txt"
    example = root / "plugins" / "penchant-example"
    assert stored.read_text() == packed(example), "run `make template`"


def test_a_new_plugin_has_its_own_names_everywhere(tmp_path):
    folder = make(tmp_path)
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert (folder / "src/penchant_sharp_minima/sharp_minima/probe.py").is_file()
    for path in files:
        text = path.read_text()
        # A declaration has an attribute of this name.
        words = text.replace("    example = ", "")
        for old in (
            "example",
            "output-spread",
            "output_spread",
            "two-blobs",
            "Penchant developers",
        ):
            assert old not in words, f"{path.name}: {old}"
        if path.suffix == ".py":
            ast.parse(text)


@pytest.mark.parametrize(("name", "message"), [("Sharp", "small letters"), ("a_b", "found 'a_b'")])
def test_a_name_that_no_distribution_can_have_is_refused(tmp_path, name, message):
    done = CliRunner().invoke(main, ["new", "plugin", name, "--in", str(tmp_path)])
    assert done.exit_code == 2 and message in done.output


def test_a_folder_that_exists_is_left_alone(tmp_path):
    make(tmp_path)
    done = CliRunner().invoke(main, ["new", "plugin", "sharp-minima", "--in", str(tmp_path)])
    assert done.exit_code == 2 and "exists already" in done.output


def test_the_lines_to_type_next_name_this_python(tmp_path):
    done = CliRunner().invoke(main, ["new", "plugin", "sharp-minima", "--in", str(tmp_path)])
    folder = tmp_path / "penchant-sharp-minima"
    install, tests, probe = (line.strip() for line in done.output.splitlines()[-3:])
    assert install == f"{sys.executable} -m pip install -e {folder}"
    assert tests == f"{sys.executable} -m pytest {folder}"
    assert probe == "penchant probe sharp-minima -a sharp-minima-perceptron -d sharp-minima-blobs"


@pytest.mark.slow
def test_a_new_plugin_installs_offline_lists_itself_and_passes_the_kit(tmp_path):
    folder = make(tmp_path)
    site = tmp_path / "site"
    install = "-m pip install --quiet --no-index --no-deps --no-build-isolation --target".split()
    subprocess.run([sys.executable, *install, str(site), str(folder)], check=True)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}

    def run(*command):
        return subprocess.run(
            [sys.executable, "-m", *command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    rows = json.loads(run("penchant", "list", "--json").stdout)
    mine = [row["name"] for row in rows if row["plugin"] == "penchant-sharp-minima"]
    assert len(mine) == 4 and "sharp-minima" in mine
    tested = run("pytest", "-q", "-p", "no:cacheprovider", str(folder / "tests"))
    assert tested.returncode == 0, tested.stdout
