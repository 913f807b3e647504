"""`device.compilation`: equal to rounding, on the devices that profit, never silently left out.

Trainings are recorded by torch and run as they are; that they are also written in C++ and compiled
takes ten seconds each, and is slow.
"""

import copy
import warnings

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import compilation, compiled, compiling
from penchant_numerics.device.compilation import NotCompiledWarning
from penchant_numerics.training import Stacked, Trainer
from torch import nn

CPU = torch.device("cpu")
# What torch's compiler says of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def always_worthwhile(monkeypatch):
    monkeypatch.setattr(compilation, "WORTHWHILE", 1)


@pytest.fixture(params=["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def backend(request, monkeypatch):
    """What compiles."""
    compile_it = torch.compile

    def chosen(function, **options):
        given = options if request.param == "inductor" else {"backend": request.param}
        return compile_it(function, **given)

    monkeypatch.setattr(torch, "compile", chosen)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 3)).double()


def samples():
    generator = torch.Generator("cpu").manual_seed(0)
    inputs = torch.randn(20, 6, generator=generator, dtype=torch.float64, device="cpu")
    return Samples(inputs, torch.arange(20, device="cpu") % 3)


RECIPE = penchant.Training(steps=6, batch=8, learning_rate=0.1, momentum=0.9)


def trained():
    trainer = Trainer(network(), samples(), RECIPE, seed=0)
    trainer.run()
    return trainer


def test_nothing_is_compiled_on_a_cpu_or_for_few_steps(monkeypatch):
    function = torch.sin
    assert compiled(function, CPU, steps=10**6) is function
    monkeypatch.setattr(compilation, "WORTHWHILE", 1000)
    assert compiled(function, torch.device("cuda"), steps=999) is function
    assert compiled(function, torch.device("cuda"), steps=1000) is not function


@pytest.mark.usefixtures("backend")
def test_a_compiled_training_is_equal_up_to_rounding():
    plain = trained()
    with compiling("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fast = trained()
    assert fast._batch_loss != fast._loss_of
    for name, tensor in plain.network.state_dict().items():
        torch.testing.assert_close(fast.network.state_dict()[name], tensor, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("backend")
def test_a_compiled_stack_is_equal_up_to_rounding():
    networks = [network(), network()]
    with torch.no_grad():
        for parameter in networks[1].parameters():
            parameter *= 0.5

    def stack():
        training = Stacked(copy.deepcopy(networks), [samples(), samples()], RECIPE, seeds=[0, 1])
        training.run()
        return training.ensemble().state

    plain = stack()
    with compiling("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fast = stack()
    for name, tensor in plain.items():
        torch.testing.assert_close(fast[name], tensor, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_what_is_compiled_by_default_is_equal_up_to_rounding():
    """Not by the backends of the tests above: a single kernel, as a user's device has it."""

    def step(x):
        return (x.sin() * 2 + x).tanh()

    with compiling("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fast = compiled(step, CPU, steps=10)
        x = torch.linspace(-2, 2, 33, dtype=torch.float64, device="cpu")
        found = fast(x)
    assert fast is not step
    torch.testing.assert_close(found, step(x), rtol=1e-10, atol=1e-12)


def test_no_kernel_is_chosen_by_timing_it(monkeypatch):
    """A faster kernel of another run would have other last bits."""
    given = []
    monkeypatch.setattr(torch, "compile", lambda function, options: given.append(options))
    compiled(torch.sin, torch.device("cuda"), steps=1)
    assert given == [{"fallback_random": True, "deterministic": True}]


def test_what_cannot_be_compiled_is_computed_as_it_is_with_a_warning(monkeypatch):
    def broken(function, **options):
        def fail(*args):
            raise RuntimeError("no compiler\nfound")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    with compiling("cpu"):
        sine = compiled(torch.sin, CPU, steps=10)
    one = torch.ones(1, device="cpu")
    with pytest.warns(
        NotCompiledWarning, match="steps are not compiled: RuntimeError: no compiler$"
    ):
        assert torch.equal(sine(one), one.sin())
    assert torch.equal(sine(one), one.sin())  # and says so once


def test_what_cannot_be_compiled_for_later_shapes_is_computed_as_it_is(monkeypatch):
    """The last batch of an epoch may be smaller, and is compiled anew."""

    def for_one_shape(function, **options):
        def call(x):
            if len(x) > 1:
                raise RuntimeError("no symbolic shapes")
            return function(x)

        return call

    monkeypatch.setattr(torch, "compile", for_one_shape)
    with compiling("cpu"):
        sine = compiled(torch.sin, CPU, steps=10)
    one, two = torch.ones(1, device="cpu"), torch.ones(2, device="cpu")
    assert torch.equal(sine(one), one.sin())
    with pytest.warns(NotCompiledWarning, match="no symbolic shapes"):
        assert torch.equal(sine(two), two.sin())
    assert torch.equal(sine(two), two.sin())


def test_an_error_of_the_step_itself_is_raised():
    def step(x):
        raise ValueError("wrong shape")

    with compiling("cpu"):
        broken = compiled(step, CPU, steps=10)
    with (
        pytest.warns(NotCompiledWarning, match="not compiled"),
        pytest.raises(ValueError, match="wrong"),
    ):
        broken(torch.ones(1, device="cpu"))


def test_a_compiled_step_stays_on_its_device(monkeypatch):
    """The emulated device cannot be compiled for; what would be compiled mixes no devices there."""
    called = []

    def noted(function, **options):
        def call(*args):
            called.append({tensor.device.type for tensor in args})
            return function(*args)

        return call

    monkeypatch.setattr(torch, "compile", noted)
    with testing.emulated_device(), compiling("emulated"):
        data = samples()
        there = Samples(data.inputs.to("emulated"), data.labels.to("emulated"))
        Trainer(network().to("emulated"), there, RECIPE, seed=0).run()
    assert called == [{"emulated"}] * RECIPE.steps


def test_a_shortage_of_memory_is_not_taken_for_a_failing_compiler(monkeypatch):
    def short(function, **options):
        def fail(*args):
            raise torch.OutOfMemoryError("CUDA out of memory")

        return fail

    monkeypatch.setattr(torch, "compile", short)
    with compiling("cpu"):
        sine = compiled(torch.sin, CPU, steps=10)
    with pytest.raises(torch.OutOfMemoryError):
        sine(torch.ones(1, device="cpu"))
