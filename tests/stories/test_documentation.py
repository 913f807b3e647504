"""What is written runs, and is complete."""

import re
import sys

import penchant
import pytest
from penchant.components import hookspecs
from penchant.experiments.experiment import build, read_toml
from penchant.plugins import discovery
from penchant_testing.builders import run_unreported


def test_the_public_surface_is_documented(root):
    text = (root / "CONTRIBUTING.md").read_text()
    listed = re.search(r"`penchant.__all__`: ([\w,\s]+)\.", text).group(1)
    assert sorted(listed.replace("\n", " ").replace(" ", "").split(",")) == sorted(penchant.__all__)
    for name in penchant.__all__:
        assert getattr(penchant, name).__doc__, name
    with pytest.raises(AttributeError):
        _ = penchant.metric


def test_every_hook_has_a_contract_and_an_example():
    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("penchant_")]
    assert len(hooks) == 12
    for hook in hooks:
        assert re.search(r"Example: `.+`\.", hook.__doc__), hook.__name__


def test_python_blocks_of_the_readme_run(root, tmp_path, command):
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"block_{number}.py"
        path.write_text(block)
        done = command(path, script=True)
        assert done.returncode == 0, done.stderr


def test_commands_of_the_readme_are_valid(root):
    """Every `penchant probe` line names things that are installed and options they have."""
    from click.testing import CliRunner
    from penchant import cli

    lines = re.findall(r"^penchant probe (.*?)(?:\s+#.*)?$", (root / "README.md").read_text(), re.M)
    assert lines
    for line in lines:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                cli,
                "_execute",
                lambda request, *rest, **options: build(request.raw, discovery.load()).jobs("cpu"),
            )
            done = CliRunner().invoke(cli.main, ["probe", *line.split()])
        assert done.exit_code == 0, (line, done.output, done.exception)


def test_every_plugin_of_the_repository_is_listed(root):
    page = (root / "docs/reference/distributions.md").read_text()
    requirements = (root / "requirements.txt").read_text()
    for folder in sorted((root / "plugins").iterdir()):
        if (folder / "pyproject.toml").is_file():
            assert f"`{folder.name}`" in page, folder.name
            assert f"-e plugins/{folder.name}\n" in requirements, folder.name


def test_plugins_declare_what_they_import(root):
    """Top-level imports of a plugin's sources are the kernel, itself, the standard library, or a declared dependency."""
    names = {"scikit-learn": "sklearn", "pillow": "PIL", "mlflow-skinny": "mlflow"}
    for folder in sorted((root / "plugins").glob("penchant-*")):
        project = read_toml(folder / "pyproject.toml")["project"]
        optional = sum(project.get("optional-dependencies", {}).values(), [])
        asked = [*project["dependencies"], *optional]
        declared = {re.split(r"[<>=!~; ]", each)[0] for each in asked}
        allowed = {names.get(each, each).replace("-", "_") for each in declared} | {
            "penchant_numerics",
            "IPython",  # looked up only inside a notebook
            folder.name.replace("-", "_"),
        }
        for path in folder.glob("src/**/*.py"):
            found = set(re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.M)) - set(
                sys.stdlib_module_names
            )
            assert found <= allowed, (
                f"{path.relative_to(root)} imports {found - allowed}, which {folder.name} does not declare"
            )


@pytest.mark.parametrize("name", ["custom_probe.py", "own_network.py"])
def test_scripts_of_the_examples_run(root, command, name):
    path = root / "examples" / name
    assert len(path.read_text().splitlines()) < 50
    done = command(path, script=True)
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout


def test_every_experiment_of_the_examples_is_valid(root):
    plugins = discovery.load()
    files = sorted((root / "examples").rglob("*.toml"))
    assert files
    for path in files:
        assert build(read_toml(path), plugins, str(path.relative_to(root))).jobs("cpu"), path


def test_the_quickstart_runs_small(root, tmp_path):
    raw = read_toml(root / "examples" / "quickstart.toml")
    raw |= {"shape": [1, 16, 16], "executor": "serial"}
    for probe in raw["probes"]:
        probe["networks"] = 21
    raw["probes"][1].update(indices=[0, 5, 20], train=60, test=60, training={"epochs": 1})
    run = run_unreported({**raw, "figures": False}, tmp_path / "run")
    assert run.done, [result.error for result in run.results()]
    assert len(run.results(probe="nad")) == 3
    # Both probes measure this network: its figures are all that there are.
    penchant.run(raw, out=tmp_path / "run", only=["lenet"])
    names = {path.name for path in (tmp_path / "run").glob("jobs/*/figures/*.svg")}
    assert names == {"eigenvalues.svg", "directions.svg", "accuracy.svg", "accuracy-eigenvalue.svg"}
