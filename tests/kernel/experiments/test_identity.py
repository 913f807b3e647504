"""What makes two jobs the same: code, closures, structure, content; never a name alone."""

import dataclasses
import functools
import importlib
import json
import subprocess
import sys

import numpy as np
import penchant
import pytest
import torch
from penchant.components.training import Training
from penchant.experiments.identity import UnidentifiableError, content_hash, plain
from penchant.experiments.jobs import training_name
from penchant.experiments.sources import versions
from torch import nn


def scaled(factor):
    def make(shape, outputs):
        network = nn.Linear(*shape, outputs)
        with torch.no_grad():
            network.weight.mul_(factor)
        return network

    return make


def block(activation):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), activation, nn.Linear(4, 2))


def test_two_lambdas_and_two_closures_differ():
    assert content_hash(lambda: 1) != content_hash(lambda: 2)
    assert content_hash(lambda: 1) == content_hash(lambda: 1)
    assert content_hash(scaled(1.0)) != content_hash(scaled(2.0))
    assert content_hash(functools.partial(scaled, 1)) != content_hash(functools.partial(scaled, 2))


WIDTH = 3


def make_with_a_global(shape, outputs):
    return nn.Linear(*shape, WIDTH)


def test_a_changed_global_of_a_function_is_noticed(monkeypatch):
    before = content_hash(make_with_a_global)
    monkeypatch.setattr(sys.modules[__name__], "WIDTH", 5)
    assert content_hash(make_with_a_global) != before


def test_modules_of_equal_state_and_other_structure_differ():
    relu, tanh = block(nn.ReLU()), block(nn.Tanh())
    assert all(torch.equal(a, b) for a, b in zip(relu.parameters(), tanh.parameters()))
    assert content_hash(relu) != content_hash(tanh)
    assert content_hash(block(nn.ReLU())) == content_hash(relu)
    assert content_hash(block(nn.LeakyReLU(0.1))) != content_hash(block(nn.LeakyReLU(0.2)))


def test_a_closure_over_an_open_file_cannot_be_identified(tmp_path):
    with open(tmp_path / "file", "w") as file:
        with pytest.raises(UnidentifiableError):
            content_hash(lambda: file.read())
        assert "unidentifiable" in plain(lambda: file.read())


def test_what_cannot_be_identified_is_computed_every_time_and_says_so(tmp_path):
    with open(tmp_path / "file", "w") as file:

        def make(shape, outputs):
            file.flush()
            return nn.Linear(*shape, outputs)

        parts = {"dataset": "two-blobs", "networks": 4, "executor": "serial", "figures": False}
        for _ in range(2):
            found = penchant.measure(
                "output-spread", architecture=make, out=tmp_path / "run", **parts
            )
            said = [text for text in found.warnings if "cannot be identified" in text]
            assert said and "computed every time" in said[0]
    assert any("recomputed" in text for text in found.warnings)


def test_a_set_of_texts_has_one_hash_in_every_session():
    code = (
        "from penchant.experiments.identity import content_hash;"
        "print(content_hash({'a', 'b', 'c', 'd'}))"
    )
    found = set()
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        found.add(done.stdout)
    assert len(found) == 1 and found != {""}


def spread(out, **parts):
    parts = {"dataset": "two-blobs", "networks": 8, "executor": "serial", "figures": False, **parts}
    return penchant.measure("output-spread", out=out, **parts)


def test_a_changed_closure_is_not_taken_for_the_old_one(tmp_path):
    one = spread(tmp_path / "one", architecture=scaled(1.0)).quantities["spread"].value
    two = spread(tmp_path / "two", architecture=scaled(100.0)).quantities["spread"].value
    assert two > 2 * one


def test_data_of_two_closures_are_loaded_each():
    def around(centre):
        def make():
            inputs = torch.zeros(40, 2) + centre
            return inputs + torch.arange(40)[:, None] / 100, torch.arange(40) % 2

        return make

    values = []
    for centre in (0.0, 50.0):
        found = penchant.measure(
            "output-spread",
            architecture="perceptron",
            dataset=around(centre),
            networks=4,
            executor="serial",
        )
        values.append(found.arrays["means"].tolist())
    assert values[0] != values[1]


def test_a_changed_array_file_is_computed_again(tmp_path):
    np.save(tmp_path / "directions.npy", np.eye(16)[:4])
    options = {
        "architecture": "logistic",
        "shape": (1, 4, 4),
        "indices": [0],
        "train": 40,
        "test": 40,
        "training": {"epochs": 1},
        "executor": "serial",
        "figures": False,
        "directions": str(tmp_path / "directions.npy"),
        "out": tmp_path / "run",
    }
    first = penchant.measure("directional-accuracy", **options)
    again = penchant.measure("directional-accuracy", **options)
    np.save(tmp_path / "directions.npy", np.eye(16)[4:8])
    third = penchant.measure("directional-accuracy", **options)
    assert not any("recomputed" in text for text in (*first.warnings, *again.warnings))
    assert any("recomputed" in text for text in third.warnings)


def test_an_edited_helper_of_a_factory_is_computed_again(tmp_path, monkeypatch):
    (tmp_path / "helper_of_a_factory.py").write_text("SCALE = 1.0\n")
    (tmp_path / "factory_with_a_helper.py").write_text(
        "import helper_of_a_factory\nfrom torch import nn\n\n"
        "def make(shape, outputs):\n"
        "    network = nn.Linear(*shape, outputs)\n"
        "    network.weight.data *= helper_of_a_factory.SCALE\n"
        "    return network\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    parts = {"architecture": {"name": "import", "factory": "factory_with_a_helper:make"}}
    first = spread(tmp_path / "run", **parts)
    (tmp_path / "helper_of_a_factory.py").write_text("SCALE = 100.0\n")
    for name in ("helper_of_a_factory", "factory_with_a_helper"):
        del sys.modules[name]
    second = spread(tmp_path / "run", **parts)
    assert any("recomputed" in text for text in second.warnings)
    assert second.quantities["spread"].value > 2 * first.quantities["spread"].value


@dataclasses.dataclass(slots=True)
class Scale:
    factor: float = 1.0


class SlottedNetwork(nn.Module):
    def __init__(self, shape, outputs, factor=1.0):
        super().__init__()
        self.scale = Scale(factor)
        self.linear = nn.Linear(*shape, outputs)

    def forward(self, inputs):
        return self.scale.factor * self.linear(inputs)


def test_a_network_with_slots_is_measured_and_identified_by_their_values(tmp_path):
    assert spread(tmp_path / "run", architecture=SlottedNetwork).quantities["spread"].value > 0
    networks = []
    for factor in (1.0, 1.0, 2.0):
        torch.manual_seed(0)
        networks.append(SlottedNetwork((4,), 2, factor))
    first, same, other = map(content_hash, networks)
    assert first == same != other


@pytest.mark.parametrize("folder", ["lib/python3/dist-packages", "home/.local/site-packages"])
def test_a_package_of_another_environment_is_a_library(tmp_path, monkeypatch, folder):
    from penchant.experiments.sources import is_own

    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "library_of_elsewhere.py").write_text("SCALE = 1.0\n")
    (tmp_path / "module_of_her_own.py").write_text("SCALE = 1.0\n")
    for path in (place, tmp_path):
        monkeypatch.syspath_prepend(str(path))
    for name, expected in (("library_of_elsewhere", False), ("module_of_her_own", True)):
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)
        assert is_own(name) == expected


def test_a_library_whose_files_are_links_to_a_cache_is_a_library(tmp_path, monkeypatch):
    from penchant.experiments.sources import is_own

    cache, place = tmp_path / "cache", tmp_path / "site-packages"
    for folder in (cache, place):
        folder.mkdir()
    (cache / "linked_library.py").write_text("SCALE = 1.0\n")
    (place / "linked_library.py").symlink_to(cache / "linked_library.py")
    monkeypatch.syspath_prepend(str(place))
    import linked_library  # noqa: F401

    assert not is_own("linked_library")


def test_the_key_names_every_version_that_matters():
    from penchant.plugins import discovery

    registration = discovery.load().find("probe", "output-spread")
    found = versions([registration])
    assert {"python", "penchant", "torch", "numpy", "scipy", "penchant-example"} <= found.keys()
    assert {"matplotlib", "attrs"} <= found.keys()  # what the plugin requires


def test_names_of_trainings_are_long():
    names = {training_name(f"key {seed}", Training()) for seed in range(1000)}
    assert len(names) == 1000
    assert {len(name) for name in names} == {32}


def test_a_second_module_of_an_editable_plugin_is_part_of_its_version(tmp_path, monkeypatch):
    from penchant.experiments import sources

    source = tmp_path / "src"
    (source / "penchant_two").mkdir(parents=True)
    (source / "penchant_two" / "__init__.py").write_text("")
    (source / "second_of_two.py").write_text("SCALE = 1\n")
    info = source / "penchant_two-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penchant-two\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": True}}))
    monkeypatch.syspath_prepend(str(source))
    before = sources._editable_hash("penchant-two", ("penchant_two",))
    (source / "second_of_two.py").write_text("SCALE = 2\n")
    sources._editable_hash.cache_clear()
    assert before.startswith("+")
    assert sources._editable_hash("penchant-two", ("penchant_two",)) != before
    sources._editable_hash.cache_clear()


DATA = """
import os
from pathlib import Path
import attrs
import penchant
import torch

@attrs.frozen
class Mine(penchant.Dataset):
    \"\"\"Samples around a centre that a file names.\"\"\"
    name = "mine"
    target = "penchant_NOUN:load"
    download: bool = penchant.option(False, "make the file first")

    def files(self):
        path = Path(os.environ["PENCHANT_DATA"], "centre.txt")
        return (str(path),) if path.exists() else ()

def load(options, generator):
    path = Path(os.environ["PENCHANT_DATA"], "centre.txt")
    if options.download and not path.exists():
        path.write_text("5.0")
    inputs = torch.zeros(20, 2) + CENTRE + (float(path.read_text()) if path.exists() else 0.0)
    samples = (inputs, torch.arange(20) % 2)
    return samples, samples, 2

@penchant.hookimpl
def penchant_datasets():
    return [Mine]
"""


@pytest.fixture
def centre(install, tmp_path, monkeypatch):
    """The file that a dataset of two plugins reads."""
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path))
    for noun, value in (("one", "0.0"), ("two", "100.0")):
        install(noun, DATA.replace("NOUN", noun).replace("CENTRE", value))
    return tmp_path / "centre.txt"


def means_of(dataset, **settings):
    options = {"networks": 4, "executor": "serial", "figures": False, **settings}
    found = penchant.measure("output-spread", architecture="perceptron", dataset=dataset, **options)
    again = [text for text in found.warnings if "recomputed" in text]
    return found.arrays["means"].tolist(), again


def test_datasets_of_one_name_in_two_plugins_are_not_mistaken(centre):
    first, _ = means_of("penchant-one/mine")
    second, _ = means_of("penchant-two/mine")
    assert first != second


def test_a_changed_data_file_is_computed_again_and_a_moved_one_is_not(
    centre, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    centre.write_text("1.0")
    first, _ = means_of("penchant-one/mine", out=run)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere" / "centre.txt").write_text("1.0")
    assert means_of("penchant-one/mine", out=run) == (first, [])
    (tmp_path / "elsewhere" / "centre.txt").write_text("2.0")
    changed, told = means_of("penchant-one/mine", out=run)
    assert changed != first and told


def test_what_is_downloaded_by_the_first_run_is_not_computed_again_by_the_second(centre, tmp_path):
    table = {"name": "penchant-one/mine", "download": True}
    first, _ = means_of(table, out=tmp_path / "run")
    assert centre.is_file()
    assert means_of(table, out=tmp_path / "run") == (first, [])


def key_of(raw, plugins=None):
    from penchant.experiments.experiment import build
    from penchant.plugins import discovery

    (job,) = build(raw, plugins or discovery.load(), "test").jobs("cpu")
    return job.key


def test_a_changed_array_of_a_run_changes_the_key(tmp_path):
    run = penchant.run(
        {
            "architectures": [{"name": "perceptron"}],
            "datasets": [{"name": "two-blobs"}],
            "probes": [{"name": "output-spread", "networks": 4}],
            "executor": "serial",
            "figures": False,
        },
        out=tmp_path / "run",
    )
    probe = {"name": "directional-accuracy", "directions": f"run:{run.folder}#means"}
    raw = {"architectures": [{"name": "logistic"}], "probes": [probe]}
    before = key_of(raw)
    assert key_of(raw) == before
    (place,) = (run.folder / "jobs").iterdir()
    np.savez(place / "arrays.npz", means=np.arange(4.0))
    assert key_of(raw) != before


def test_a_changed_file_of_a_probe_changes_the_key(tmp_path):
    import attrs
    from penchant.plugins import discovery

    path = tmp_path / "weights.bin"

    @attrs.frozen
    class Reading(penchant.Probe):
        """Reads a file, as datasets do."""

        name = "reading"
        target = "os.path:join"

        def files(self):
            return (str(path),)

    plugins = discovery.load().with_component(Reading, penchant.Probe)
    keys = []
    for content in (b"1", b"2", b"1"):
        path.write_bytes(content)
        keys.append(key_of({"probes": [{"name": "reading"}]}, plugins))
    assert keys[0] == keys[2] != keys[1]


def test_a_target_that_a_users_class_names_by_text_is_part_of_the_key(tmp_path, monkeypatch):
    import attrs
    from penchant.plugins import discovery

    @attrs.frozen
    class Own(penchant.Probe):
        """Declared in a script; what it runs stands in a module beside it."""

        name = "own"
        target = "target_beside_a_script:run"
        quantities = {"found": "a number"}
        presets = {"quick": {}}

    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = discovery.load().with_component(Own, penchant.Probe)
    keys = set()
    for number in (1, 2):
        source = f"def run(options, context):\n    return {number}\n"
        (tmp_path / "target_beside_a_script.py").write_text(source)
        sys.modules.pop("target_beside_a_script", None)
        keys.add(key_of({"probes": [{"name": "own"}]}, plugins))
    assert len(keys) == 2


def test_a_users_tensors_are_hashed_once_for_all_jobs(monkeypatch):
    from penchant.experiments import jobs
    from penchant.experiments.experiment import build
    from penchant.plugins import discovery

    hashed = []
    real = jobs.content_hash
    monkeypatch.setattr(jobs, "content_hash", lambda value: hashed.append(value) or real(value))
    raw = {
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "import", "factory": (torch.zeros(8, 2), torch.arange(8) % 2)}],
        "probes": [{"name": "output-spread"}],
        "seeds": list(range(20)),
    }
    assert len(build(raw, discovery.load(), "test").jobs("cpu")) == 20
    assert len(hashed) == 1
