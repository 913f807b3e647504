"""What the emulated device does as CUDA and its libraries do, and where a CPU does otherwise."""

import contextvars

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.curvature import Hessian
from penchant_numerics.device import memory, safe
from penchant_testing import checks
from penchant_testing.builders import experiment
from penchant_testing.on_device import check_on_device
from torch import nn

pytestmark = pytest.mark.usefixtures("without_report")

NAD = {"architecture": "mlp:widths=[4]", "shape": [3], "networks": 12}
FINE = torch.finfo(torch.float32).eps


def numbers(*shape, seed=0):
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cpu")


def test_backward_passes_see_no_context_variables():
    variable = contextvars.ContextVar("variable", default="nothing")
    found = []

    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            found.append(variable.get())
            return gradient

    token = variable.set("of the caller")
    with testing.emulated_device():
        x = torch.ones(2, device="cpu").to("emulated").requires_grad_()
        Reads.apply(x).sum().backward()
    variable.reset(token)
    assert found == ["nothing"]


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        ("cumsum", lambda x: x.cumsum(0)),
        ("histc", lambda x: x.histc(4)),
        ("median", lambda x: x.median(0)),
        ("bincount", lambda x: (x > 0).long().flatten().bincount(x.flatten())),
        (
            "_adaptive_avg_pool2d_backward",
            lambda x: nn.AdaptiveAvgPool2d(2)(x[None].requires_grad_()).sum().backward(),
        ),
    ],
)
def test_operators_without_a_deterministic_kernel_are_counted_by_line(operator, call):
    with testing.emulated_device() as counts:
        call(numbers(1, 4, 4).to("emulated"))
    ((name, line),) = counts.nondeterministic
    assert name == operator
    assert "test_emulated_device.py" in line


def test_their_deterministic_relatives_are_not_counted():
    with testing.emulated_device() as counts:
        x = numbers(4, 4).to("emulated")
        (x > 0).cumsum(0)
        x.median()
        (x > 0).long().flatten().bincount()
        x[None].clone().requires_grad_().mean((1, 2)).sum().backward()
        x.index_add(0, torch.tensor([0, 0], device="cpu").to("emulated"), x[:2])
    assert not counts.nondeterministic


def test_least_squares_need_full_rank():
    x = numbers(6, 2)
    with testing.emulated_device():
        full = torch.linalg.lstsq(x.to("emulated"), x.to("emulated")).solution.cpu()
        torch.testing.assert_close(full, torch.eye(2, device="cpu"))
        constant = torch.cat([x, torch.zeros(6, 1, device="cpu")], 1).to("emulated")
        with pytest.raises(RuntimeError, match="needs a matrix of full rank 3, found rank 2"):
            torch.linalg.lstsq(constant, x.to("emulated"))
        with pytest.raises(RuntimeError, match="CUDA has the driver gels, found 'gelsd'"):
            torch.linalg.lstsq(x.to("emulated"), x.to("emulated"), driver="gelsd")


def test_bytes_are_counted_by_storage_and_given_back():
    with testing.emulated_device() as counts:
        x = torch.zeros(1000, device="emulated")
        views = [x[:10], x.view(10, 100)]
        assert counts.memory.peak == 4000
        y = x + 1
        del x, views
        z = y * 2
        assert counts.memory.peak == 8000
        assert z.cpu().sum() == 2000


@pytest.mark.parametrize("hidden", [False, True])
def test_beyond_the_limit_both_kinds_of_errors_are_raised(hidden):
    with testing.emulated_device(limit=2**16, hidden=hidden):
        x = torch.ones(64, 64, device="emulated")
        with pytest.raises(torch.OutOfMemoryError, match="has 65536 bytes, of which 16384"):
            x.repeat(4, 4)
        image = x.view(1, 1, 64, 64)
        cases = [
            (
                lambda: torch.nn.functional.conv2d(image, image[..., :9, :1].repeat(8, 1, 1, 1)),
                "FIND",
            ),
            (lambda: x.expand(4, 64, 64) @ x.expand(4, 64, 64), "CUBLAS_STATUS_ALLOC_FAILED"),
        ]
        for call, text in cases:
            expected = RuntimeError if hidden else torch.OutOfMemoryError
            with pytest.raises(expected, match=text if hidden else "out of memory") as caught:
                call()
            assert memory.is_shortage(caught.value)
            assert hidden != isinstance(caught.value, torch.OutOfMemoryError)


@pytest.mark.filterwarnings("default::penchant_numerics.device.memory.MemoryWarning")
@pytest.mark.parametrize("hidden", [False, True])
def test_work_is_halved_until_it_fits(hidden):
    rows = numbers(64, 256)

    def grams(size):
        products = [each @ each.T for each in rows.to("emulated").split(size)]
        return sum(float(each.diagonal().sum()) for each in products)

    with (
        testing.emulated_device(limit=rows.nbytes + 10_000, hidden=hidden),
        pytest.warns(memory.MemoryWarning, match="32 rows instead of 64"),
    ):
        found = memory.halving(grams, 64, what="rows")
    assert found == pytest.approx(float(rows.square().sum()), rel=1e-5)


def test_a_backward_pass_beyond_the_limit_is_an_error_too():
    with testing.emulated_device(limit=12_000) as counts:
        x = torch.zeros(1000, device="emulated").requires_grad_()
        y = x.tanh().sum()
        with pytest.raises(torch.OutOfMemoryError):
            y.backward()
        assert counts.memory.peak <= 12_000


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("hidden", [False, True])
def test_a_hessian_that_finds_little_memory_keeps_nothing_and_passes_less(hidden):
    inputs, labels = numbers(32, 3, 32, 32), torch.arange(32, device="cpu") % 5
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 16, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        network = safe(nn.Sequential(*layers, nn.Linear(16, 5)))

    def product(device):
        there = network.to(device)
        operator = Hessian(there, (inputs.to(device), labels.to(device)), batch=32)
        return (operator @ numbers(operator.size, seed=1).to(device)).cpu()

    expected = product("cpu")
    with (
        testing.emulated_device(limit=3 * 2**20, hidden=hidden) as counts,
        memory.budget(2**33),
        pytest.warns(memory.MemoryWarning) as caught,
    ):
        found = product("emulated")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    texts = " ".join(str(each.message) for each in caught)
    assert "recorded gradients are not cached" in texts
    assert "samples per pass of Hessian products" in texts
    assert "pairs of samples in a check" in texts
    assert counts.memory.peak <= 3 * 2**20


LAYERS = [nn.LSTM, nn.GRU, nn.RNN]


@pytest.mark.parametrize("layer", LAYERS)
def test_recurrent_layers_in_evaluation_mode_have_no_gradient(layer):
    with testing.emulated_device():
        network = layer(3, 2).to("emulated")
        x = numbers(4, 1, 3).to("emulated")
        with torch.no_grad():
            network.eval()(x)
        network.train()(x)
        with pytest.raises(RuntimeError, match="only be called in training mode"):
            network.eval()(x)
        with torch.backends.cudnn.flags(enabled=False):
            network.eval()(x)


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer(3, 2, batch_first=True)

    def forward(self, x):
        outputs, _ = self.layer(x)
        return outputs[:, -1]


@pytest.mark.parametrize("layer", LAYERS)
def test_recurrent_networks_have_the_hessian_of_the_cpu(layer):
    torch.manual_seed(0)
    network = safe(Last(layer).double())
    inputs = numbers(5, 4, 3).double()
    labels = torch.tensor([0, 1, 1, 0, 1], device="cpu")

    def product(device):
        there = network.to(device)
        operator = Hessian(there, (inputs.to(device), labels.to(device)))
        vector = numbers(operator.size, seed=1).double().to(device)
        return (operator @ vector).cpu()

    expected = product("cpu")
    with testing.emulated_device():
        torch.testing.assert_close(product("emulated"), expected)


def test_sums_differ_in_their_last_bits_the_same_way_twice():
    x, counts = numbers(20, 20), torch.arange(5.0, device="cpu")
    with testing.emulated_device(rounding=4):
        there = x.to("emulated")
        found = [(there @ there).cpu() for _ in range(2)]
        assert float(counts.to("emulated").sum()) == 10.0
    assert torch.equal(*found)
    exact = x @ x
    away = ((found[0] - exact) / exact).abs().max() / FINE
    assert 1 < away < 6


def test_two_workers_on_the_device_give_the_bytes_of_one(tmp_path):
    pytest.importorskip("penchant_nad")
    found = []
    with testing.emulated_device(rounding=4):
        for executor in ("serial", "processes"):
            raw = experiment("nad", NAD)
            raw.update(executor=executor, workers=2, device="emulated", figures=False)
            run = penchant.run(raw, out=tmp_path / executor)
            found.append(checks.only_result(run))
    serial, spread = found
    assert spread.record["policy"]["device"].startswith("emulated")
    checks.assert_same(serial, spread, "two workers")


UNORDERED = """
import attrs
import penchant

@attrs.frozen
class Unordered(penchant.Probe):
    \"\"\"Adds up on the device.\"\"\"
    name = "unordered"
    target = "penchant_unordered:run"
    needs = ("architecture",)
    quantities = {"sum": "the sum of all outputs"}
    arrays = {}
    presets = {"quick": {}}

def run(options, context):
    import torch
    ones = torch.ones(3, device=context.device)
    total = float(ones.cumsum(0)[-1])
    return penchant.Result({"sum": penchant.Quantity(total, exact=True)})

@penchant.hookimpl
def penchant_probes():
    return [Unordered]
"""


def test_conformance_names_the_line_of_an_operator_without_an_order(tmp_path, install):
    install("unordered", UNORDERED)
    arguments = {"architecture": "mlp:widths=[4]", "shape": [3], "figures": False}
    expected = checks.small_run("unordered", tmp_path / "here", arguments)
    with pytest.raises(AssertionError, match=r"cumsum in .*penchant_unordered.*run"):
        check_on_device("unordered", tmp_path / "there", arguments, expected)


def test_blocks_of_hessian_products_are_one_product_on_a_device():
    """A block costs the launches of one vector, and gives the numbers of the CPU."""
    torch.manual_seed(0)
    network = safe(nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 4)))
    inputs, labels = numbers(6, 1, 4, 4), torch.arange(6, device="cpu") % 4
    rows = numbers(5, sum(each.numel() for each in network.parameters()), seed=1)
    expected = Hessian(network, (inputs, labels)).multiply_rows(rows)
    with testing.emulated_device() as counts:
        place = "emulated"
        operator = Hessian(network.to(place), (inputs.to(place), labels.to(place)))
        launches = []
        for some in (rows[:2], rows):
            before = counts.launches
            found = operator.multiply_rows(some.to(place)).cpu()
            launches.append(counts.launches - before)
            torch.testing.assert_close(found, expected[: len(some)], rtol=1e-4, atol=1e-6)
    assert launches[0] == launches[1]
