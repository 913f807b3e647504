"""One probe of each plugin gives the same bytes, whoever runs it and however it is killed."""

import penchant
import penchant_testing as testing
import pytest
from penchant.plugins import discovery

DRAWN = {"steps": 0}
PROBES = [
    {"name": "output-spread", "networks": 40},
    {"name": "nad", "networks": 70},
    {"name": "average-geometry", "networks": 70},
    {
        "name": "mutual-information",
        "datasets": ["pairs"],
        "estimators": {"mutual-information": "ksg"},
    },
    {
        "name": "kernel-spectrum",
        "chosen_classes": [0, 2],
        "trainings": 2,
        "eval_every": 2,
        "samples": 24,
        "kernel_width": 2.0,
        "bins": 4,
        "training": {
            "optimizer": "adam",
            "learning_rate": 0.01,
            "batch": 0,
            "steps": 4,
            "loss": "squared-error",
        },
    },
    {
        "name": "hessian-spectrum",
        "lanczos_steps": 8,
        "grid_points": 16,
        "per_class": 4,
        "training": DRAWN,
    },
    {
        "name": "curvature-proxies",
        "per_class": 3,
        "grid_points": 16,
        "lanczos_steps": 8,
        "permutations": 2,
        "training": DRAWN,
    },
    {"name": "tangent-kernel", "samples": 20, "training": {"steps": 4}},
    {
        "name": "representation-similarity",
        "samples": 24,
        "groups": 3,
        "shuffles": 2,
        "neighbours": 2,
        "training": {"steps": 4},
    },
    {
        "name": "weight-spectra",
        "architectures": ["tiny"],
        "smallest": 3,
        "shuffles": 2,
        "training": {"steps": 4},
    },
    {
        "name": "loss-plane",
        "samples": 20,
        "grid_points": 5,
        "plane_points": 0,
        "random_directions": 2,
        "training": {"steps": 4},
    },
]
EXPERIMENT = {
    "architectures": [{"name": "import", "label": "tiny", "factory": testing.TINY}],
    "datasets": [
        {"name": "import", "label": "three-classes", "factory": testing.SAMPLES},
        {"name": "correlated-gaussians", "label": "pairs", "rho": 0.8, "train": 80},
    ],
    "shape": [1, 6, 6],
    "workers": 2,
    "figures": False,
}
TAKES_CLASSES = {
    "output-spread",
    "kernel-spectrum",
    "hessian-spectrum",
    "curvature-proxies",
    "tangent-kernel",
    "representation-similarity",
}


def experiment(executor):
    probes = []
    for probe in PROBES:
        if probe["name"] in TAKES_CLASSES:
            probe = {**probe, "datasets": ["three-classes"]}
        probes.append(probe)
    return {**EXPERIMENT, "probes": probes, "executor": executor}


def contents(run):
    """The bytes of every array and number, by probe."""
    found = {}
    for result in run.results():
        name = result.record["labels"]["probe"]
        assert result.status == "done", f"{name}: {result.error}"
        numbers = {key: (each.value, each.stderr) for key, each in result.quantities.items()}
        arrays = {key: each.tobytes() for key, each in result.arrays.items()}
        found[name] = (numbers, arrays)
    return found


def test_every_plugin_with_probes_takes_part():
    registrations = {
        registration.component.name: registration.distribution
        for registration in discovery.load().registrations("probe")
    }
    taking_part = {registrations[probe["name"]] for probe in PROBES}
    assert taking_part == set(registrations.values())


@pytest.mark.slow
def test_serial_processes_and_ray_give_the_same_bytes(tmp_path):
    expected = contents(penchant.run(experiment("serial"), out=tmp_path / "serial"))
    assert len(expected) == len(PROBES)
    for executor in ("processes", "ray"):
        found = contents(penchant.run(experiment(executor), out=tmp_path / executor))
        for name in expected:
            assert found[name] == expected[name], f"{name} differs with {executor}"
