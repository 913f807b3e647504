"""Precision, memory and determinism: the same in every worker, recorded, and part of the key."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant.execution import environment
from penchant.experiments.settings import Settings
from penchant_numerics import memory, precision

FLAGGED = """
import attrs
import penchant
import torch
from penchant_numerics import memory, precision

@attrs.frozen
class Flagged(penchant.Probe):
    \"\"\"Returns the policy that its shards see.\"\"\"
    name = "flagged"
    target = "penchant_flagged:run"
    quantities = {"shards": "how many"}
    arrays = {}
    presets = {"quick": {}}
    strained: bool = penchant.option(False, "warn of memory and of determinism")

def run(options, context):
    found = [shard["flags"] for shard in context.map(flags, [0, 1, 2])]
    conventions = {"flags": found[0], "equal": str(len(set(found)) == 1)}
    return penchant.Result({"shards": penchant.Quantity(3, exact=True)}, conventions=conventions)

def flags(context, item):
    if context.options.strained:
        import warnings
        warnings.warn("out of memory: less", memory.MemoryWarning, stacklevel=1)
        warnings.warn("cumsum has no deterministic way", UserWarning, stacklevel=1)
        warnings.warn("nothing of interest", UserWarning, stacklevel=1)
    parts = {
        "products": torch.backends.cuda.matmul.fp32_precision,
        "convolutions": torch.backends.cudnn.conv.fp32_precision,
        "dtype": str(torch.get_default_dtype()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "precision": precision.current(),
        "memory": memory.available(context.device),
    }
    return {"flags": str(parts)}

@penchant.hookimpl
def penchant_probes():
    return [Flagged]
"""
STRICT = {"precision": "tf32", "memory": 0.5}


def flagged(folder, **settings):
    probe = {"name": "flagged", "strained": settings.pop("strained", False)}
    run = penchant.run({"probes": [probe], "executor": "serial", **settings}, out=folder)
    return run.results()[0]


def test_flags_are_the_same_in_serial_in_processes_and_on_a_device(tmp_path, install):
    install("flagged", FLAGGED)
    serial = flagged(tmp_path / "serial", **STRICT)
    spread = flagged(tmp_path / "processes", **STRICT, **{"executor": "processes", "workers": 2})
    with testing.emulated_device():
        emulated = flagged(tmp_path / "emulated", **STRICT, device="emulated")
    flags = serial.conventions["flags"]
    for part in ("'products': 'tf32'", "'convolutions': 'tf32'", f"'memory': {2**29}", "'tf32'"):
        assert part in flags
    for found in (serial, spread, emulated):
        assert found.conventions["flags"] == flags
        assert found.conventions["equal"] == "True"
    # The same is recorded with the result.
    for found in (serial, spread, emulated):
        policy = found.record["policy"]
        assert policy["matrix products"] == policy["convolutions"] == policy["precision"] == "tf32"
        assert policy["memory"] == f"{2**29} bytes"


def test_without_a_choice_products_are_in_single_precision(tmp_path, install):
    install("flagged", FLAGGED)
    found = flagged(tmp_path / "run")
    assert "'products': 'ieee', 'convolutions': 'ieee'" in found.conventions["flags"]
    assert f"'precision': 'float32', 'memory': {2**30}" in found.conventions["flags"]
    assert "precision" not in found.record and "memory" not in found.record


def test_other_precision_or_memory_is_another_job(tmp_path, install):
    install("flagged", FLAGGED)
    places = {flagged(tmp_path / "default").record["id"]}
    for name, value in (("precision", "tf32"), ("precision", "bfloat16-training"), ("memory", 2)):
        places.add(flagged(tmp_path / str(value), **{name: value}).record["id"])
    assert len(places) == 4


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_what_is_said_of_memory_and_determinism_reaches_the_result(tmp_path, install, executor):
    install("flagged", FLAGGED)
    found = flagged(tmp_path / "run", strained=True, executor=executor, workers=2)
    assert "out of memory: less" in found.warnings
    assert "cumsum has no deterministic way" in found.warnings
    assert not any("nothing of interest" in text for text in found.warnings)


def test_precision_and_memory_are_options_with_bounds():
    with pytest.raises(penchant.Error, match="precision must be one of float32, tf32"):
        Settings(precision="half")
    with pytest.raises(penchant.Error, match="memory must be above 0"):
        Settings(memory=0)


@pytest.fixture()
def eight_gpus(monkeypatch):
    """A machine with eight GPUs and 64 cores, as far as anybody asks."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A100")
    monkeypatch.setattr(environment.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(environment, "_driver", lambda: "1.2")


def test_on_gpus_workers_are_gpus_never_cores(eight_gpus):
    assert environment.default_workers(Settings(device="auto")) == 8
    assert environment.default_workers(Settings(device="cuda", per_device=3)) == 24
    assert environment.default_workers(Settings(device="cuda:5")) == 1
    assert environment.default_workers(Settings(device="cpu")) == 64
    assert environment.place("cuda", worker=11) == "cuda:3"


def test_a_gpu_enters_the_key_by_its_name_and_what_drives_it(eight_gpus, install):
    from penchant.experiments.experiment import build
    from penchant.plugins import discovery

    install("flagged", FLAGGED)
    gpu = environment.gpu("cuda:0")
    assert gpu["gpu"] == "A100" and gpu["gpus"] == "8" and gpu["driver"] == "1.2"
    built = build({"probes": [{"name": "flagged"}]}, discovery.load())
    (here,) = built.jobs("cuda", gpu)
    (there,) = built.jobs("cuda", {**gpu, "gpu": "RTX 4090"})
    assert here.id == there.id and here.key != there.key


def test_checks_allow_for_the_rounding_of_the_precision():
    assert precision.agreement(1e-3) == 1e-3
    with precision.chosen("bfloat16-training"):
        assert precision.agreement(1e-3) == 1e-3
    with precision.chosen("tf32"):
        assert precision.agreement(1e-3) == 2**-6
        assert precision.agreement(0.5) == 0.5
    with pytest.raises(ValueError, match="found 'half'"), precision.chosen("half"):
        pass
    assert precision.current() == "float32"


def test_a_network_of_few_bits_is_not_said_to_mix_its_samples():
    """Rows that differ by TF32's rounding: refused in single precision, allowed in TF32."""
    from penchant_numerics.determinism import NotDeterministicError, check_deterministic

    class Rounded(torch.nn.Module):
        def forward(self, x):
            return x * (1 + 2**-9 * (len(x) > 4))

    inputs = torch.ones(8, 3)
    with pytest.raises(NotDeterministicError, match="mixes the samples"):
        check_deterministic(Rounded(), inputs)
    with precision.chosen("tf32"):
        check_deterministic(Rounded(), inputs)


def test_a_budget_is_left_as_it_was_found(tmp_path, install):
    install("flagged", FLAGGED)
    with memory.budget(12345):
        flagged(tmp_path / "run", memory=1)
        assert memory.available("cpu") == 12345
