"""The doctor: a healthy machine, a broken plugin, a network without second derivatives."""

import json
import re
import sys
import time
import types
import weakref

import penchant
import penchant_testing as testing
import pytest
import torch
from click.testing import CliRunner
from penchant import cli
from penchant.plugins import discovery
from penchant_tools import doctor as doctors
from penchant_tools import orders
from penchant_tools.refusals import LongEnoughError, _processor_limit
from torch import nn


def doctor(*arguments):
    done = CliRunner().invoke(cli.main, ["doctor", *arguments])
    return done.exit_code, lines_of(done.output)


def lines_of(output):
    lines = {}
    for line in output.splitlines():
        what, _, found = line[2:].partition("  ")
        lines[what.strip()] = (line[:1], found.strip())
    return lines


class Once(torch.autograd.Function):
    """A square whose derivative cannot be differentiated again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class OnlyOnce(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.norm = nn.BatchNorm1d(shape[0])
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(shape[0], outputs)

    def forward(self, x):
        return Once.apply(self.linear(self.drop(self.norm(x))))


class Healthy(OnlyOnce):
    def forward(self, x):
        return self.linear(torch.relu(self.norm(x))).square()


class Fixed(nn.Module):
    """A head of three outputs, whatever is asked for."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return torch.tanh(self.linear(x.flatten(1)))


class Normed(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.first, self.last = nn.Linear(shape[0], 6), nn.Linear(6, outputs)

    def forward(self, x):
        return self.last(nn.functional.layer_norm(self.first(x), (6,)))


@pytest.fixture(autouse=True, scope="module")
def _short_tries():
    """What a probe refuses, it refuses when it begins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctors, "LONGEST_TRY", 0.05)
        yield


@pytest.fixture(scope="module")
def networks():
    """A module that the command can import networks from."""
    module = types.ModuleType("doctors_networks")
    for each in (OnlyOnce, Healthy, Fixed, Normed):
        setattr(module, each.__name__, each)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "doctors_networks", module)
        yield


@pytest.fixture
def only(monkeypatch):
    """Loads these plugins beside the doctor's: it tries every probe that it finds, for seconds."""

    def load(*names):
        monkeypatch.setenv("PENCHANT_PLUGINS", ",".join(("tools", "import", *names)))
        discovery.load.cache_clear()

    yield load
    discovery.load.cache_clear()


FIXED = ("-a", "import:factory=doctors_networks:Fixed", "-d", f"import:factory={testing.SAMPLES}")


@pytest.fixture(scope="module")
def of_all_probes(networks):
    """What the doctor prints of a fixed head of three outputs and every installed probe."""
    return CliRunner().invoke(cli.main, ["doctor", *FIXED]).output


def test_a_healthy_machine_is_well():
    code, lines = doctor()
    assert code == 0
    assert lines["torch"][1].startswith(torch.__version__)
    assert "free" in lines["memory"][1]
    assert lines["example 0.2.0"] == (" ", "4 components")
    assert "fits" not in str(lines)


def test_a_broken_plugin_is_named_with_its_reason(install):
    install("broken", "raise RuntimeError('half installed')")
    code, lines = doctor()
    assert code == 1
    sign, found = lines["broken 1.0"]
    assert sign == "!" and "half installed" in found
    assert lines["example 0.2.0"][0] == " "


def test_a_network_without_second_derivatives_is_told(networks, only):
    only("class-structure", "gih")
    shape = ("--shape", "4", "--outputs", "3")
    code, lines = doctor("-a", "import:factory=doctors_networks:OnlyOnce", *shape)
    assert code == 1
    assert lines["gradients"] == (" ", "works")
    sign, found = lines["second derivatives"]
    assert sign == "!" and found.startswith("wrong, and torch does not say so: ")
    assert lines["1 x BatchNorm1d"][1].startswith("uses running statistics")
    assert lines["1 x Dropout"][1].startswith("drops nothing")
    # The probe's own words: a run would fail with them.
    assert "autograd.Function with functorch" in lines["average-geometry"][1]
    assert lines["hessian-spectrum"][1].split(maxsplit=3) == ["no", "-", "-", "it needs a dataset"]


def test_probes_that_need_what_a_network_lacks_do_not_fit(networks, only):
    only("class-structure", "curvature", "gih")
    data = ("-d", f"import:factory={testing.SAMPLES}")
    code, lines = doctor("-a", "import:factory=doctors_networks:OnlyOnce", *data)
    assert code == 1
    for name in ("curvature-proxies", "hessian-spectrum"):
        assert lines[name][1].startswith("no ")
        assert lines[name][1].endswith("second derivatives, which this network does not have")
    code, lines = doctor("-a", "import:factory=doctors_networks:Healthy", *data)
    assert code == 0
    for what in ("gradients", "second derivatives", "forward mode", "samples side by side (vmap)"):
        assert lines[what] == (" ", "works")
    for name in ("curvature-proxies", "hessian-spectrum"):
        assert lines[name][1].split() == ["yes", "-", "yes"]
    # A probe that makes its own samples would refuse these.
    assert lines["decision-plane"][1].endswith("without the dataset, which it does not take")


def test_probes_are_asked_what_a_run_asks_them(of_all_probes):
    """What a run refuses is refused here, with its words."""
    lines = lines_of(of_all_probes)
    assert lines[""][1].split("  ")[0] == "as it is" and "unit = 0" in lines[""][1]
    drawing = ("frequency-learning", "exact-spectrum", "manifold-accuracy", "decision-plane")
    for name in drawing:
        as_it_is, narrow, trained, reason = lines[name][1].split(maxsplit=3)
        assert (as_it_is, narrow) == ("no", "yes"), lines[name]
        # Of these, frequency-learning alone takes a trained network.
        assert (trained == "-") == (name != "frequency-learning"), lines[name]
        assert "gives 1 x 3 for one input of shape 4, expected 1 x 1" in reason
    assert lines["capacity"][1].endswith("it takes no architecture")
    assert lines["input-curvature"][1].endswith("input-curvature needs two classes, found 3")
    assert lines["tangent-kernel"][1].split()[:3] == ["yes", "-", "yes"]
    # These accept data without needing them: a trained network is measured on its data.
    assert lines["nad"][1].split()[:3] == ["no", "yes", "yes"]
    assert lines["average-geometry"][1].split()[2] == "yes"
    given = {"frequency-learning": {"shape": (4,)}, "input-curvature": {"dataset": FIXED[3]}}
    for name, parts in given.items():
        reason = lines[name][1].split(maxsplit=3)[3]
        with pytest.raises(penchant.Error) as told:
            penchant.measure(name, architecture=Fixed, **parts)
        assert reason in str(told.value)


def test_probes_that_fit_come_first(of_all_probes):
    _, _, probes = of_all_probes.partition("unit = 0")
    answers = [line.split()[1] for line in probes.splitlines()[1:]]
    assert answers == sorted(answers, reverse=True) and answers[0] == "yes"


def test_the_machine_is_there_only_where_it_is_ill(of_all_probes, install, only):
    titles = [line for line in of_all_probes.splitlines() if line[:1] not in (" ", "!")]
    assert titles == ["dataset", "network", "probes"]
    install("broken", "raise RuntimeError('half installed')")
    only("broken")
    _, lines = doctor(*FIXED)
    assert lines["broken 1.0"][0] == "!" and "torch" not in lines


def test_what_belongs_to_an_experiment_is_no_misspelt_option():
    _, lines = doctor("-a", "logistic:weights=last.pt")
    (told,) = [text for _, text in lines.values() if "no option" in text]
    assert "'weights'; it belongs to the table of an experiment" in told


def test_it_is_json_where_a_program_reads_it():
    done = CliRunner().invoke(cli.main, ["doctor", "--json"])
    sections = json.loads(done.output)
    assert list(sections) == ["machine", "plugins", "data files"]
    assert {"what": "example 0.2.0", "text": "4 components", "well": True} in sections["plugins"]


def test_operations_that_an_order_of_differentiation_gets_wrong_are_named(networks, only):
    only()
    # Probes take second derivatives of networks made safe, where layer norm is written out.
    _, lines = doctor("-a", "import:factory=doctors_networks:Normed", "--shape", "4")
    for order in ("forward over reverse", "reverse over forward"):
        assert lines[order] == (" ", "works")
    # The operation of torch itself: 2.13 is wrong; a torch that is not must be said to work.
    norm = nn.LayerNorm(6).double()
    wrong = orders.wrong_operations(norm, torch.randn(3, 6, dtype=torch.float64))
    found = wrong[orders.REVERSE_OVER_FORWARD].get("layer_norm", "works")
    torch.manual_seed(0)
    x, v = torch.randn(2, 3, 6, dtype=torch.float64)
    slopes = []
    for normed in (lambda x: nn.functional.layer_norm(x, (6,)), _written_out):
        point = x.clone().requires_grad_()
        _, tangent = torch.func.jvp(normed, (point,), (v,))
        slopes.append(torch.autograd.grad(orders._weighted(tangent), point)[0])
    if torch.allclose(*slopes, rtol=1e-6, atol=1e-9):
        assert found == "works"
    else:
        assert re.search(r"wrong by \d+%", found)


def _written_out(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def test_orders_agree_with_finite_differences_of_the_gradient():
    """The reference of all orders, two backward passes, against central differences."""
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Softplus()).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    found = {each.name: each for each in orders.operations(layer, x)}
    assert list(found) == ["linear", "layer_norm", "softplus"]
    for operation in found.values():
        exact = orders._double_backward(operation)
        directions = orders._directions(operation)
        step = 1e-5
        ends = []
        for sign in (1, -1):
            pairs = zip(operation.inputs, directions)
            moved = [(each + sign * step * way).requires_grad_() for each, way in pairs]
            value = orders._weighted(operation.function(*moved))
            ends.append(torch.autograd.grad(value, moved))
        for above, below, second in zip(*ends, exact):
            difference = (above - below) / (2 * step)
            torch.testing.assert_close(difference, second, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("network", ["lenet:pooling=max", "mlp:widths=[256,256]"])
def test_kinks_of_a_healthy_network_are_not_taken_for_an_illness(network, only):
    only("architectures")
    code, lines = doctor("-a", network, "--shape", "1,32,32", "--outputs", "10")
    assert code == 0
    for what in ("gradients", "second derivatives", "forward mode", "samples side by side (vmap)"):
        assert lines[what] == (" ", "works")


def test_a_network_that_does_not_fit_the_data_is_told(only):
    only("architectures", "nad", "vision")
    code, lines = doctor("-a", "lenet", "-d", "digits")
    assert code == 1
    assert lines["lenet"] == ("!", "lenet needs images of at least 16 x 16, found 1 x 8 x 8")
    assert lines["nad"][1].endswith("it needs an architecture, and this one cannot be used")


def test_a_limit_that_is_reached_in_a_destructor_is_raised_after_it():
    reached = []

    class Slow:
        def __del__(self):
            _work_until(lambda: reached)

    with pytest.raises(LongEnoughError), _processor_limit(0.05, reached):
        Slow()
        assert len(reached) == 1  # within the destructor, where nothing is raised
        _work_until(lambda: False)


def test_a_limit_that_is_reached_in_a_weak_set_is_raised_after_it():
    reached = []

    class Slow(set):
        def discard(self, entry):
            _work_until(lambda: reached)

    entry = nn.Linear(1, 1)
    watched = weakref.WeakSet([entry])
    watched.data = Slow(watched.data)
    with pytest.raises(LongEnoughError), _processor_limit(0.05, reached):
        del entry
        assert len(reached) == 1  # while the set forgets its entry, where nothing is raised
        _work_until(lambda: False)


def test_a_limit_that_is_reached_in_a_callback_of_a_reference_is_raised_after_it():
    reached = []
    entry = nn.Linear(1, 1)
    watching = weakref.ref(entry, lambda _: _work_until(lambda: reached))
    with pytest.raises(LongEnoughError), _processor_limit(0.05, reached):
        del entry
        assert len(reached) == 1 and watching() is None  # in the callback nothing is raised
        _work_until(lambda: False)


def test_a_limit_that_is_reached_while_what_has_a_destructor_is_made_is_raised_after_it():
    reached, ended = [], []

    class Half:
        def __init__(self):
            _work_until(lambda: reached)
            self.whole = True

        def __del__(self):
            ended.append(self.whole)

    with pytest.raises(LongEnoughError), _processor_limit(0.05, reached):
        Half()
        assert ended == [True]  # what was begun is whole, and nothing was raised
        _work_until(lambda: False)


def _work_until(ended):
    began = time.process_time()
    while not ended() and time.process_time() - began < 10:
        pass
