"""Precision, memory and determinism: the same in every worker, recorded, and part of the key."""

import contextlib
import subprocess
import sys
import threading
import warnings

import attrs
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant.components.builtin import Serial
from penchant.execution import runner
from penchant.execution.job import devices, environment, gpus
from penchant.execution.workers.worker import Assignment, Worker
from penchant.experiments.experiment import build
from penchant.experiments.settings import Settings
from penchant.plugins import discovery
from penchant_numerics.device import isolation, memory, precision
from torch import nn

STRICT = {"precision": "tf32", "memory": 0.5}


def flagged(folder, **settings):
    probe = {"name": "flagged", "strained": settings.pop("strained", False)}
    run = penchant.run({"probes": [probe], "executor": "serial", **settings}, out=folder)
    return run.results()[0]


def test_flags_are_the_same_in_serial_in_processes_and_on_a_device(tmp_path, install):
    install("flagged")
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
    install("flagged")
    found = flagged(tmp_path / "run")
    assert "'products': 'ieee', 'convolutions': 'ieee'" in found.conventions["flags"]
    assert f"'precision': 'float32', 'memory': {2**30}" in found.conventions["flags"]
    assert "precision" not in found.record and "memory" not in found.record


def test_other_precision_or_memory_is_another_job(tmp_path, install):
    install("flagged")
    places = {flagged(tmp_path / "default").record["id"]}
    for name, value in (("precision", "tf32"), ("precision", "bfloat16-training"), ("memory", 2)):
        places.add(flagged(tmp_path / str(value), **{name: value}).record["id"])
    assert len(places) == 4


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_what_is_said_of_memory_and_determinism_reaches_the_result(tmp_path, install, executor):
    install("flagged")
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
    monkeypatch.setattr(gpus, "_driver", lambda: ("1.2", "13.0"))


def test_on_gpus_workers_are_gpus_never_cores(eight_gpus):
    assert devices.default_workers(Settings(device="auto")) == 8
    assert devices.default_workers(Settings(device="cuda", per_device=3)) == 24
    assert devices.default_workers(Settings(device="cuda:5")) == 1
    assert devices.default_workers(Settings(device="cpu")) == 64
    assert str(devices.resolve_device("cuda", worker=11)) == "cuda:3"


def test_a_gpu_enters_the_key_by_its_name_and_its_libraries(eight_gpus, install):
    install("flagged")
    kind, gpu = devices.job_device("cuda:0")
    assert kind == "cuda" and set(gpu) == {"gpu", "cuda", "cudnn"} and gpu["gpu"] == "A100"
    assert gpus.drivers("cuda:0") == {"gpus": "8", "driver": "1.2"}
    built = build({"probes": [{"name": "flagged"}]}, discovery.load())
    (here,) = built.jobs("cuda", gpu)
    (there,) = built.jobs("cuda", {**gpu, "gpu": "RTX 4090"})
    assert here.id == there.id and here.key != there.key


def test_a_new_driver_or_fewer_visible_gpus_recompute_nothing(eight_gpus, monkeypatch):
    before = devices.job_device("auto")
    monkeypatch.setattr(gpus, "_driver", lambda: ("1.3", "13.0"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices.job_device("auto") == before


def test_where_kinds_of_gpus_are_mixed_the_key_names_those_that_may_compute(
    eight_gpus, monkeypatch
):
    names = {"cuda:0": "A100", "cuda:1": "T4"}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: names.get(device, "A100"))
    assert devices.job_device("cuda")[1]["gpu"] == "A100 or T4"
    assert devices.job_device("cuda:1")[1]["gpu"] == "T4"


@attrs.frozen
class Elsewhere(Serial):
    """An executor whose workers have a GPU that the command has not."""

    name = "elsewhere"

    def ask(self, question):
        return "cuda", {"gpu": "A100", "cuda": "13.0", "cudnn": "9"}


def test_the_device_is_that_of_the_workers_and_other_workers_refuse(tmp_path, install, monkeypatch):
    """The command has no GPU, its workers have; one that has none may not compute in their name."""
    install("flagged")
    raw = {"probes": [{"name": "flagged"}], "device": "auto"}
    built = attrs.evolve(build(raw, discovery.load()), executor=Elsewhere())
    seen = []

    def stop(experiment, jobs):
        seen.extend(jobs)
        raise InterruptedError("no worker is started")

    monkeypatch.setattr(runner, "_executor", stop)
    with pytest.raises(InterruptedError):
        runner.run_experiment(built, discovery.load(), tmp_path)
    (job,) = seen
    assert job.record["device"] == "cuda"
    assignment = Assignment(tmp_path, "test", seen, [job.id], {}, devices=1, threads=1, attempts=1)
    with pytest.raises(penchant.Error, match="a worker has the device cpu, expected cuda"):
        Worker(assignment, 0)


def test_the_driver_is_asked_for_once(monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(command[0])
        return subprocess.CompletedProcess(command, 0, stdout="Driver Version: 550.1 ")

    monkeypatch.setattr(subprocess, "run", run)
    gpus._driver.cache_clear()
    try:
        drivers = [gpus.drivers("cuda")["driver"] for _ in range(3)]
    finally:
        gpus._driver.cache_clear()
    assert drivers == ["550.1"] * 3
    assert asked == ["nvidia-smi"]


def test_a_job_on_a_gpu_has_its_own_peak_and_gives_the_device_back(eight_gpus, monkeypatch):
    """Everything but CUDA itself: which device is current, and whose memory is counted."""
    current = [1]
    peaks = {"cuda:2": 7}

    @contextlib.contextmanager
    def device(number):
        before, current[0] = current[0], number
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: current.__setitem__(0, number))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: peaks[device])
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda device: peaks.__setitem__(device, 0)
    )
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: contextlib.nullcontext())
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    released = []
    monkeypatch.setattr(torch.accelerator, "empty_host_cache", lambda: released.append(current[0]))
    with environment.isolated(Settings(), torch.device("cuda", 2), print):
        assert current == [2] and environment.peak_memory(torch.device("cuda", 2)) == 0
        assert not released
    # Page-locked memory of the host is given back as well.
    assert current == [1] and len(released) == 1
    # A job on the CPU does not report the bytes of a GPU that the session used before.
    assert environment.peak_memory() > 2**20


def test_algorithms_chosen_by_timing_are_off_in_a_job_and_on_again_after_it(tmp_path, install):
    install("flagged")
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        policy = flagged(tmp_path / "run").record["policy"]
        assert policy["cudnn benchmark"] == "false"
        assert torch.backends.cudnn.benchmark
    finally:
        torch.backends.cudnn.benchmark = before


class Workaround(nn.Module):
    """Torch's documented way to differentiate a recurrent layer twice on CUDA."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.layer = nn.LSTM(*shape, 3, batch_first=True)
        self.head = nn.Linear(3, outputs)

    def forward(self, inputs):
        with torch.backends.cudnn.flags(enabled=False):
            hidden, _ = self.layer(inputs[:, None])
        return self.head(hidden[:, -1])


def test_a_network_may_switch_cudnn_off(tmp_path):
    found = penchant.measure(
        "output-spread", architecture=Workaround, dataset="two-blobs", networks=4, executor="serial"
    )
    assert found.quantities["spread"].value > 0
    policy = found.record["policy"]
    assert policy["convolutions"] == policy["recurrent layers"] == "ieee"


SESSIONS = """
import os
import sys
import torch
from penchant.execution.job.environment import policy
from penchant.experiments.settings import Settings

CPU = torch.device("cpu")
torch.set_num_threads(1)
backends = torch.backends

def read(get):
    try:
        return get()
    except RuntimeError:
        return "raises"

def state():
    owners = (backends, backends.cudnn, backends.cuda.matmul, backends.cudnn.conv,
              backends.cudnn.rnn, backends.mkldnn.matmul)
    found = [owner.fp32_precision for owner in owners]
    found.append(read(torch.get_float32_matmul_precision))
    found.append(read(lambda: backends.cuda.matmul.allow_tf32))
    found.append(read(lambda: backends.cudnn.allow_tf32))
    return found

# Settings of torch last as long as its process: every session has one.
for session in sys.argv[1:]:
    if os.fork():
        _, status = os.wait()
        assert status == 0, session
        continue
    exec(session)
    mine = state()
    for precision in ("float32", "tf32"):
        with policy(Settings(precision=precision), CPU, print):
            with backends.cudnn.flags(enabled=False):
                pass
            print(precision, state()[2:], flush=True)
        assert state() == mine, (session, mine, state())
    os._exit(0)
"""
WANTED = [
    "float32 ['ieee', 'ieee', 'ieee', 'ieee', 'highest', False, False]",
    "tf32 ['tf32', 'tf32', 'tf32', 'ieee', 'high', True, True]",
]


def test_precision_is_the_policys_in_any_session_and_the_sessions_afterwards():
    sessions = [
        "",
        "torch.set_float32_matmul_precision('medium')",
        "backends.fp32_precision = 'tf32'",
        "backends.cudnn.fp32_precision = 'ieee'",
        "backends.cudnn.conv.fp32_precision = 'ieee'",
        "backends.cuda.matmul.fp32_precision = 'tf32'",
        "backends.cudnn.allow_tf32 = False",
    ]
    command = [sys.executable, "-c", SESSIONS, *sessions]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == WANTED * len(sessions)


def test_warnings_of_other_threads_are_not_the_jobs(recwarn):
    told = []

    def elsewhere():
        warnings.warn("a thread of hers is not deterministic", UserWarning, stacklevel=1)

    with isolation._noted_warnings(told.append):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        warnings.warn("cumsum is not deterministic", UserWarning, stacklevel=1)
    assert told == ["cumsum is not deterministic"]
    assert [str(each.message) for each in recwarn] == ["a thread of hers is not deterministic"]


@pytest.mark.filterwarnings("error")
def test_what_torch_says_of_its_own_insides_is_not_shown():
    """Each of these would raise."""
    texts = (
        "There is a performance drop because we have not yet implemented the batching rule for "
        "aten::mkldnn_rnn_layer.",
        "torch.searchsorted(): input value tensor is non-contiguous, this will lower the "
        "performance due to extra data copy when converting non-contiguous tensor to contiguous",
    )
    for text in texts:
        with environment.policy(Settings(), torch.device("cpu"), print):
            warnings.warn(text, UserWarning, stacklevel=1)
    with (
        pytest.raises(UserWarning, match="something else"),
        environment.policy(Settings(), torch.device("cpu"), print),
    ):
        warnings.warn("something else", UserWarning, stacklevel=1)


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
    from penchant_numerics.device import check_deterministic
    from penchant_numerics.device.determinism import NotDeterministicError

    class Rounded(torch.nn.Module):
        def forward(self, x):
            return x * (1 + 2**-9 * (len(x) > 4))

    inputs = torch.ones(8, 3)
    with pytest.raises(NotDeterministicError, match="mixes the samples"):
        check_deterministic(Rounded(), inputs)
    with precision.chosen("tf32"):
        check_deterministic(Rounded(), inputs)


def test_a_budget_is_left_as_it_was_found(tmp_path, install):
    install("flagged")
    with memory.budget(12345):
        flagged(tmp_path / "run", memory=1)
        assert memory.available("cpu") == 12345
