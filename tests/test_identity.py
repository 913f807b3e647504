"""What makes two jobs the same: code, closures, structure, content; never a name alone."""

import functools
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

        parts = {"dataset": "two-blobs", "networks": 4, "executor": "serial"}
        for _ in range(2):
            found = penchant.measure(
                "output-spread", architecture=make, out=tmp_path / "run", **parts
            )
            said = [text for text in found.warnings if "cannot be identified" in text]
            assert said and "computed every time" in said[0]
    assert any("computed again" in text for text in found.warnings)


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
    return penchant.measure(
        "output-spread", networks=8, executor="serial", dataset="two-blobs", out=out, **parts
    )


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
        "directions": str(tmp_path / "directions.npy"),
        "out": tmp_path / "run",
    }
    first = penchant.measure("directional-accuracy", **options)
    again = penchant.measure("directional-accuracy", **options)
    np.save(tmp_path / "directions.npy", np.eye(16)[4:8])
    third = penchant.measure("directional-accuracy", **options)
    assert not any("computed again" in text for text in (*first.warnings, *again.warnings))
    assert any("computed again" in text for text in third.warnings)


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
    assert any("computed again" in text for text in second.warnings)
    assert second.quantities["spread"].value > 2 * first.quantities["spread"].value


def test_the_key_names_every_version_that_matters():
    from penchant.plugins import discovery

    offer = discovery.load().find("probe", "output-spread")
    found = versions([offer])
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
