"""The atlas: its pages are those of what was measured, and what it says of networks is true."""

import importlib
import json
import re
import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
ATLAS = ROOT / "docs/atlas"
LARGEST = 8_000_000  # bytes of all pictures


@pytest.fixture
def atlas(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    return importlib.import_module("atlas")


@pytest.fixture
def measured():
    return json.loads((ATLAS / "measured.json").read_text())


def test_pages_are_those_of_what_was_measured(atlas, measured):
    expected = atlas.pages(measured)
    found = {path.name: path.read_text() for path in ATLAS.glob("*.md")}
    assert found == expected, "the atlas is stale: run `make pages`"


def test_every_architecture_of_the_experiment_is_measured_or_refused(atlas, measured):
    experiment = tomllib.loads((ROOT / "examples/atlas.toml").read_text())
    labels = [each.get("label", each["name"]) for each in experiment["architectures"]]
    assert list(measured["architectures"]) == labels
    whole = atlas.with_cards(measured)
    assert len(whole) >= 30
    index = (ATLAS / "index.md").read_text()
    for label in labels:
        if label in whole:
            assert f'<a href="{label}.html">' in index
        refused = index.split("## Not measured")[1]
        for probe in atlas.PROBES:
            if "error" in measured["architectures"][label][probe]:
                assert f"| {label} | {probe} | " in refused


def test_numbers_of_the_table_have_errors(atlas, measured):
    for label, entry in atlas.with_cards(measured).items():
        for _, probe, name in atlas.COLUMNS:
            if "error" in entry[probe] or (probe == "tangent-kernel" and atlas.is_rounding(entry)):
                continue
            assert entry[probe]["quantities"][name]["stderr"] > 0, (label, probe, name)


def test_pictures_are_there_and_of_modest_size(atlas, measured):
    pictures = {path.stem for path in (ATLAS / "pictures").glob("*.png")}
    assert pictures == set(atlas.with_cards(measured))
    sizes = [path.stat().st_size for path in ATLAS.rglob("*.png")]
    assert sum(sizes) < LARGEST


def test_the_best_known_have_a_hundred_networks_and_say_so(atlas, measured):
    experiment = tomllib.loads((ROOT / "examples/atlas.toml").read_text())
    for probe, more in atlas.MORE_NETWORKS.items():
        (entry,) = [each for each in experiment["probes"] if each.get("label") == more]
        assert (entry["name"], entry["networks"]) == (probe, 100)
        assert len(entry["architectures"]) == 12
    index = atlas.pages(measured)["index.md"].splitlines()
    for label in atlas.with_cards(measured):
        count = "100" if label in experiment["probes"][-1]["architectures"] else "24, 16"
        row = next(line for line in index if f">{label}<" in line)
        assert f">{count}</td>" in row, label


def test_findings_follow_from_the_numbers(atlas, measured):
    """Numbers that are moved move the sentences; those that are not stay."""
    whole = atlas.with_cards(measured)
    before = atlas.findings(whole)
    assert len(before) == 3
    atlas.quantities_of(whole, "average-geometry", "low-frequencies")["mlp"]["value"] = 0.9
    after = atlas.findings(whole)
    assert "mlp (0.9" in after[0]
    assert "mlp (0.9" not in before[0]
    assert after[1:] == before[1:]


# Told where torchvision is of another build than torch.
@pytest.mark.filterwarnings("ignore:torchvision's compiled operators")
def test_a_regnet_is_blind_because_its_branches_are_silent():
    network = testing.architecture("timm:model=regnetx_002", shape=(1, 32, 32))(0).eval()
    assert seen(network) == 4
    silent = []
    for name, parameter in network.named_parameters():
        if name.endswith("bn.weight") and not parameter.any():
            silent.append(parameter)
    assert silent
    for parameter in silent:
        torch.nn.init.ones_(parameter)
    assert seen(network) == 1024


def seen(network):
    """Pixels that the output depends on, at one input."""
    image = torch.randn(1, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    image.requires_grad_()
    (gradient,) = torch.autograd.grad(network(image).sum(), image)
    return int((gradient.abs() > 1e-6 * gradient.abs().max()).sum())


def test_cards_repeat_the_command_of_their_architecture(atlas, measured):
    for label in atlas.with_cards(measured):
        card = (ATLAS / f"{label}.md").read_text()
        assert re.search(r"^\$ penchant probe nad -a \S+ --shape 1,32,32", card, re.M)
