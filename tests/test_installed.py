"""What is installed, beside what the standard library finds."""

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import penchant
import pytest
from penchant.plugins import discovery, installed


def known(group):
    found = set()
    for point in importlib.metadata.entry_points(group=group):
        found.add((point.name, point.value, point.dist.name.lower().replace("_", "-")))
    return found


@pytest.mark.parametrize("group", ["penchant", "console_scripts", "pytest11", "nobody's"])
def test_entry_points_are_those_of_the_standard_library(group):
    found = set()
    for point in installed.entry_points(group):
        assert isinstance(point, installed.EntryPoint)
        found.add((point.name, point.value, point.dist.name.replace("_", "-")))
    assert found == {(name, value, dist.replace(".", "-")) for name, value, dist in known(group)}


def test_what_an_entry_point_names_is_loaded():
    own = installed.Distribution(Path("/nowhere/some-1.0.dist-info"))
    assert own.name == "some"
    point = installed.EntryPoint("a", "penchant.plugins.discovery:Plugins.find", own)
    assert point.load() is discovery.Plugins.find
    assert installed.EntryPoint("a", "penchant [extra]", own).load() is penchant
    with pytest.raises(penchant.Error, match="must be package.module:name, found 'no way'"):
        installed.EntryPoint("a", "no way", own).load()


def test_the_first_on_the_path_counts(tmp_path, monkeypatch):
    for place, value in (("one", "first"), ("two", "second")):
        info = tmp_path / place / "Some_Thing-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text(
            f"[other]\nx = no\n[ mine ]\n# x = no\nx = {value}\n"
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two"), *sys.path])
    (point,) = installed.entry_points("mine")
    assert (point.name, point.value, point.dist.name) == ("x", "first", "some-thing")
    assert installed.distribution("some.thing").folder.parent == tmp_path / "one"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        installed.distribution("none-of-this-name")


def test_what_is_not_in_a_folder_is_left_to_the_standard_library(tmp_path, monkeypatch):
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Name: zipped\nVersion: 1.0\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", "[mine]\nx = somewhere\n")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [str(archive), *sys.path])
        (point,) = installed.entry_points("mine")
        assert (point.value, point.dist.version) == ("somewhere", "1.0")
        assert installed.distribution("zipped").version == "1.0"

    class Finder:
        @staticmethod
        def find_spec(*arguments):
            return None

        @staticmethod
        def find_distributions(context):
            return []

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    points = installed.entry_points("penchant")
    assert points and not any(isinstance(point, installed.EntryPoint) for point in points)
