"""The experiments in `examples/class_structure`: every preset has one, and all of them run small."""

import runpy
import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
from penchant_testing.builders import run_unreported

FOLDER = Path(__file__).parents[3] / "examples" / "class_structure"
FILES = sorted(FOLDER.glob("*.toml"))
SMALL = {
    "hessian-spectrum": {
        "leading": 2,
        "lanczos_steps": 2,
        "starts": 1,
        "iterations": 1,
        "trace_samples": 2,
    },
    "cross-class": {"lanczos_steps": 2, "starts": 1, "products": 1, "permutations": 0},
    # without the first layer, whose matrix is that of all pixels
    "layer-structure": {"permutations": 1, "eigenvalues": 12, "largest": 64},
    "neural-collapse": {"permutations": 2, "groups": 2, "eval_every": 1},
    "logistic-theory": {"train": 40, "test": 20, "separations": [1.0]},
    "curvature-proxies": {
        "lanczos_steps": 4,
        "starts": 1,
        "grid_points": 16,
        "leading": 3,
        "permutations": 1,
    },
}

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")


def read(path):
    return tomllib.loads(path.read_text())


def component(distribution, name):
    registrations = testing.registrations(distribution)
    (found,) = [
        registration.component
        for registration in registrations
        if registration.component.name == name
    ]
    return found


def presets(probe):
    return set(component("penchant-class-structure", probe).presets)


def test_every_preset_has_an_example():
    used = {}
    for path in FILES:
        for entry in read(path)["probes"]:
            used.setdefault(entry["name"], set()).add(entry.get("preset"))
    for probe in (*SMALL.keys() - {"curvature-proxies"},):
        assert presets(probe) - {"quick"} <= used[probe]


def reduced(raw):
    """The same experiment with small networks, few samples and two steps of training."""
    for number, entry in enumerate(raw["probes"]):
        entry.update(SMALL[entry["name"]])
        entry["training"] = {"steps": 2, "learning_rates": [0.01]}
        if entry["name"] in ("hessian-spectrum", "cross-class", "curvature-proxies"):
            entry["per_class"] = 2
        if entry["name"] == "cross-class":
            # as with all samples: by products, unless the experiment asks for all eigenvalues
            entry.setdefault("exact_limit", 0)
            if entry.get("preset") == "fig-6":
                # many panels: few of fewer classes, and of one dataset, show that they are made
                panels = {"fractions": [0.0], "sizes": [1]} if number == 0 else {}
                entry.update({"fractions": [], "sizes": [], "classes": 3, **panels})
    layers = raw["probes"][0]["name"] == "layer-structure"
    for architecture in raw.get("architectures", []):
        name = architecture["name"]
        normalization = architecture.get("normalization", "none")
        # the largest networks are replaced: a small one shows as well what the probes do
        architecture.clear()
        widths = [6, 6] if layers else [6]
        if raw["probes"][0]["name"] == "neural-collapse":
            widths = [12]  # a simplex of ten classes needs nine
        architecture.update(name="mlp", label=name, widths=widths, normalization=normalization)
    for dataset in raw.get("datasets", []):
        dataset.update(per_class=4, test_per_class=4)
    return {**raw, "executor": "serial", "figures": False}


def with_data_that_are_here(raw):
    """One dataset a probe, of those whose files are here; probes without one are left out."""
    if not raw.get("datasets"):
        return raw
    names = [entry["name"] for entry in raw["datasets"]]
    here = [name for name in names if component("penchant-vision", name)().files()]
    probes, used = [], set()
    for entry in raw["probes"]:
        # a probe is the same on each of its datasets: one shows it
        kept = [name for name in entry.get("datasets", names) if name in here][:1]
        if kept:
            probes.append({**entry, "datasets": kept})
            used.update(kept)
    datasets = [entry for entry in raw["datasets"] if entry["name"] in used]
    return {**raw, "datasets": datasets, "probes": probes}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_runs_small(path, tmp_path):
    raw = with_data_that_are_here(read(path))
    if not raw["probes"]:
        pytest.skip("PENCHANT_DATA names no folder with one of its datasets")
    if path.stem == "mnist_small":
        raw["architectures"] = raw["architectures"][:1]
    run = run_unreported(reduced(raw), tmp_path)
    found = [(result.status, result.error) for result in run.results()]
    assert found == [("done", None)] * len(raw["probes"])


def test_spectra_of_known_matrices_are_those_of_their_eigenvalues():
    """Figure 15: the mass of every third of the range, and of the three outliers."""
    script = runpy.run_path(str(FOLDER / "fig_15.py"))
    found = script["spectra"](size=300, steps=60, starts=4)
    for values, density in found:
        for share in (0.1, 0.5, 0.9):
            place = float(values.quantile(share))
            assert density.mass(high=place) == pytest.approx(share, abs=0.05)
    (values, density), _ = found
    assert density.mass(low=float(values[-4]) + 0.2) == pytest.approx(3 / 300, abs=0.004)
    panels = script["draw"](found).axes
    assert [panel.get_xlabel() for panel in panels] == ["eigenvalue", "log(eigenvalue + 1e-05)"]
