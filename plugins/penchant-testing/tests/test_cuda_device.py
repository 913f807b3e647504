"""What runs on a GPU beyond single probes: workers, recurrent layers, short memory, TF32, resuming.

Marked `cuda`; `make test-cuda` runs them, on the emulated device where that takes a GPU's place.
They run under the policy of a job: outside of it cuDNN convolves in TF32, and may choose kernels
whose bits differ from run to run.
"""

import contextlib
import warnings

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant.execution.job import gpus
from penchant.execution.job.devices import default_workers, resolve_device
from penchant.experiments.settings import Settings
from penchant_numerics.curvature import Hessian
from penchant_numerics.data import Samples, stream
from penchant_numerics.device import compilation, compiling, memory, safe
from penchant_numerics.device.compilation import NotCompiledWarning
from penchant_numerics.device.isolation import isolated
from penchant_numerics.jacobians import Outputs
from penchant_numerics.jacobians.sample_gradients import sample_gradients
from penchant_numerics.training import Trainer
from penchant_testing import checks
from penchant_testing.builders import experiment
from penchant_testing.on_cuda import has_tested_device, is_emulated, on_tested_device
from penchant_tools.doctor import _machine
from torch import nn

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not has_tested_device(), reason="no CUDA device"),
]
NAD = {"architecture": "mlp:widths=[8]", "shape": [4], "networks": 16}
SPECTRUM = {
    "architecture": "mlp:widths=[8]",
    "dataset": "gaussian-mixture:inputs=12,classes=4,train=40,test=20",
    "per_class": 6,
    "lanczos_steps": 2,
    "starts": 1,
    "trace_samples": 2,
    "deflate": False,
    "split": "train",
}
COUNT, SHAPE, CLASSES = 40, (3, 6, 6), 5


@pytest.fixture()
def device():
    with on_tested_device() as name, isolated(torch.device(name), print):
        yield name


def nad(folder, device, **changes):
    raw = experiment("nad", NAD)
    raw.update(executor="serial", device=device, figures=False)
    raw.update(changes)
    return checks.only_result(penchant.run(raw, out=folder))


def numbers(*shape, seed=0):
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cpu")


def samples(device):
    labels = torch.arange(COUNT, device="cpu") % CLASSES
    return Samples(numbers(COUNT, *SHAPE).to(device), labels.to(device))


def network(device, *, dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Dropout(dropout), nn.Flatten()]
        made = nn.Sequential(*layers, nn.Linear(128, CLASSES))
    return made.to(device)


def test_two_workers_give_the_bytes_of_one_process(tmp_path, device):
    serial = nad(tmp_path / "serial", device)
    spread = nad(tmp_path / "spread", device, executor="processes", workers=2, per_device=2)
    assert spread.record["policy"]["device"].startswith(device)
    checks.assert_same(serial, spread, "two workers on the device")


def test_a_device_that_does_not_exist_is_refused_and_auto_takes_one(device):
    """Under an emulated device of another name there is no CUDA."""
    if device != "cuda":
        pytest.skip("this device is not called cuda")
    count = torch.cuda.device_count()
    with pytest.raises(penchant.Error, match=f"'cuda:{count}' is not available: there are {count}"):
        resolve_device(f"cuda:{count}")
    assert resolve_device("auto").type == "cuda"
    assert [resolve_device("cuda", worker).index for worker in range(2 * count)] == [
        *range(count),
        *range(count),
    ]
    assert default_workers(Settings(device="cuda", per_device=3)) == 3 * count
    assert default_workers(Settings(device="cuda:0", per_device=3)) == 3
    facts = gpus.known()
    assert facts.available and facts.name and facts.capability > (0, 0)


def test_the_doctor_lists_every_device(device, capsys):
    if device != "cuda":
        pytest.skip("this device is not called cuda")
    found = {each.what: each.text for each in _machine("auto")}
    for number in range(torch.cuda.device_count()):
        assert torch.cuda.get_device_name(number) in found[f"cuda:{number}"]
    assert found["device"].startswith("cuda")


def test_memory_that_is_given_depends_on_the_card(device):
    if device != "cuda":
        pytest.skip("this device is not called cuda")
    total = torch.cuda.get_device_properties(0).total_memory
    assert memory.capacity(device) == total
    assert total / 4 < memory.available(device) <= total or memory.available(device) == 2**33
    with memory.budget(None, per_device=4):
        assert memory.available(device) <= total / 4


def test_products_over_two_devices_have_the_bytes_of_one(tmp_path, device):
    pytest.importorskip("penchant_class_structure")
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("there is one CUDA device")
    found = []
    for devices in (1, 2):
        raw = experiment("hessian-spectrum", {**SPECTRUM, "devices": devices})
        raw.update(executor="serial", device=device, figures=False)
        found.append(checks.only_result(penchant.run(raw, out=tmp_path / str(devices))))
    one, two = found
    for name, array in one.arrays.items():
        assert (array == two.arrays[name]).all(), name


class Last(nn.Module):
    """Classes from the last output of an LSTM."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 4, batch_first=True)
        self.classes = nn.Linear(4, CLASSES)

    def forward(self, x):
        outputs, _ = self.layer(x)
        return self.classes(outputs[:, -1])


def test_an_lstm_has_the_hessian_of_the_cpu(device):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        lstm = safe(Last())
    inputs, labels = numbers(8, 5, 3), torch.arange(8, device="cpu") % CLASSES

    def product(place):
        operator = Hessian(lstm.to(place), (inputs.to(place), labels.to(place)))
        vector = numbers(operator.size, seed=1).to(place)
        return (operator @ vector).cpu()

    expected = product("cpu")
    torch.testing.assert_close(product(device), expected, rtol=1e-3, atol=1e-5)


@contextlib.contextmanager
def capped(device, extra):
    """A device with so many bytes more than are in use."""
    if device != "cuda":
        with testing.emulated_device(limit=extra):
            yield
        return
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    allowed = torch.cuda.memory_reserved() + extra
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def wide_network():
    """Keeps 16 MiB for each activation of 64 images of 64 x 64 pixels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 16, 3, padding=1), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return safe(nn.Sequential(*layers, nn.Linear(16, CLASSES)))


@pytest.mark.filterwarnings("default")
def test_work_is_halved_where_memory_is_short(device):
    inputs = numbers(64, 3, 64, 64)
    labels = torch.arange(64, device="cpu") % CLASSES
    wide = wide_network()

    def product(place):
        there = wide.to(place)
        operator = Hessian(there, (inputs.to(place), labels.to(place)), batch=64)
        vector = numbers(operator.size, seed=1).to(place)
        return (operator @ vector).cpu()

    expected = product("cpu")
    with (
        capped(device, 60 * 2**20),
        memory.budget(2**33),
        pytest.warns(memory.MemoryWarning, match="out of memory: "),
    ):
        found = product(device)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("default")
def test_gradients_are_not_cached_where_they_do_not_fit(device):
    """Recorded gradients of eight batches are 16 MiB each; a product needs one at a time."""
    inputs, labels = numbers(64, 3, 64, 64), torch.arange(64, device="cpu") % CLASSES
    wide = wide_network()

    def product(place, cache):
        there = wide.to(place)
        samples = (inputs.to(place), labels.to(place))
        operator = Hessian(there, samples, batch=8, cache=cache)
        vector = numbers(operator.size, seed=1).to(place)
        return (operator @ vector).cpu()

    expected = product("cpu", 0)
    with (
        capped(device, 40 * 2**20),
        memory.budget(2**33),
        pytest.warns(memory.MemoryWarning, match="recorded gradients are not cached"),
    ):
        found = product(device, 2**33)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_a_shortage_is_not_taken_for_a_rule_that_is_missing(device):
    """Doing samples one by one would hide that memory is short: the error arrives as it is."""
    outputs = Outputs(wide_network().to(device))
    inputs = numbers(64, 3, 64, 64).to(device)
    with capped(device, 20 * 2**20), pytest.raises(RuntimeError) as caught:
        sample_gradients(outputs, inputs)
    assert memory.is_shortage(caught.value)


def test_tf32_differs_and_is_recorded(tmp_path, device):
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this GPU is older than TF32")
    exact = nad(tmp_path / "exact", device)
    short = nad(tmp_path / "short", device, precision="tf32")
    assert exact.record["policy"]["matrix products"] == "ieee"
    assert short.record["policy"]["matrix products"] == "tf32"
    one, other = exact.quantities["trace"].value, short.quantities["trace"].value
    assert other == pytest.approx(one, rel=1e-2)
    # Libraries use TF32 for large products only, so that small networks need not differ.
    matrix = numbers(512, 512).to(device)
    products = []
    for precision in ("float32", "tf32"):
        with isolated(torch.device(device), print, precision=precision):
            products.append((matrix @ matrix).cpu())
    away = float((products[0] - products[1]).norm() / products[0].norm())
    assert 1e-5 < away < 1e-2


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_that_was_stopped_goes_on_with_the_same_bytes(tmp_path, device, optimizer):
    """Dropout draws on the device; the state goes through a file of the host."""
    recipe = penchant.Training(steps=12, batch=16, learning_rate=0.01, optimizer=optimizer)

    def trainer():
        return Trainer(network(device, dropout=0.5), samples(device), recipe, seed=3)

    whole, stopped, resumed = trainer(), trainer(), trainer()
    whole.run()
    stopped.run(until=5)
    host = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, stopped.state())
    torch.save(host, tmp_path / "state.pt")
    resumed.load(torch.load(tmp_path / "state.pt", weights_only=True))
    resumed.run()
    for one, other in zip(whole.network.parameters(), resumed.network.parameters()):
        assert torch.equal(one.detach().cpu(), other.detach().cpu())


def test_streamed_inputs_give_the_bytes_of_those_on_the_device(device):
    whole = samples(device)
    arrays = (np.asarray(whole.inputs.cpu()), np.asarray(whole.labels.cpu()))
    streamed = stream(arrays)
    streamed = streamed._replace(
        inputs=streamed.inputs.to(device), labels=streamed.labels.to(device)
    )
    recipe = penchant.Training(steps=6, batch=16, learning_rate=0.1)
    products, weights = [], []
    for given in (whole, streamed):
        operator = Hessian(network(device).eval(), given, batch=16)
        vector = numbers(operator.size, seed=1).to(device)
        products.append((operator @ vector).cpu())
        trained = network(device)
        Trainer(trained, given, recipe, seed=3).run()
        weights.append(trained[0].weight.detach().cpu())
    assert torch.equal(*products)
    assert torch.equal(*weights)


def test_compiled_steps_train_as_plain_ones_and_give_the_same_bytes_twice(device, monkeypatch):
    if is_emulated():
        pytest.skip("torch compiles nothing for the emulated device")
    monkeypatch.setattr(compilation, "WORTHWHILE", 1)
    recipe = penchant.Training(steps=6, batch=16, learning_rate=0.01)

    def trained(*device_types):
        with compiling(*device_types):
            trainer = Trainer(network(device), samples(device), recipe, seed=3)
        trainer.run()
        return [each.detach().cpu() for each in trainer.network.parameters()]

    plain = trained()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        try:
            fast, again = (trained(torch.device(device).type) for _ in range(2))
        except NotCompiledWarning as warning:
            pytest.skip(f"torch cannot compile here: {warning}")
    for one, other, third in zip(plain, fast, again):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
        assert torch.equal(other, third)
