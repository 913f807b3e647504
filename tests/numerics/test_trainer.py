"""Training: deterministic, resumable to the bit, as the recipe says."""

import traceback

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.curvature import loss_function
from penchant_numerics.data import Samples
from penchant_numerics.training import Trainer, decay, evaluate, outputs
from penchant_numerics.training.trainer import seed_device
from torch import nn


def samples(count=50):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 4, generator=generator)
    return Samples(inputs, (inputs[:, 0] > 0).long())


def network(dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(dropout), nn.Tanh(), nn.Linear(8, 2))


def parameters(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "adam"}, {"momentum": 0.9, "batch": 7}, {"batch": 0, "steps": 30}]
)
def test_a_training_that_was_stopped_makes_the_same_steps(options):
    recipe = penchant.Training(**{"steps": 23, "batch": 16, "schedule": "linear", **options})
    whole = network(dropout=0.3)
    Trainer(whole, samples(), recipe, seed=5).run()
    first = network(dropout=0.3)
    trainer = Trainer(first, samples(), recipe, seed=5)
    trainer.run(until=10)
    state = trainer.state()
    second = network(dropout=0.3)
    resumed = Trainer(second, samples(), recipe, seed=5)
    resumed.load(state)
    resumed.run()
    assert torch.equal(parameters(whole), parameters(second))
    assert resumed.step == recipe.total_steps(50)


def test_plain_sgd_is_what_a_hand_written_loop_does():
    recipe = penchant.Training(steps=5, batch=0, learning_rate=0.3, clip=0.05)
    trained, by_hand = network(), network()
    Trainer(trained, samples(), recipe, seed=0).run()
    for _ in range(5):
        loss = nn.functional.cross_entropy(by_hand(samples().inputs), samples().labels)
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        norm = torch.sqrt(sum(g.square().sum() for g in gradients))
        with torch.no_grad():
            for parameter, gradient in zip(by_hand.parameters(), gradients):
                parameter -= 0.3 * gradient * min(1.0, 0.05 / (norm + 1e-6))
    torch.testing.assert_close(parameters(trained), parameters(by_hand))


def test_schedules():
    assert [decay("linear", step, 4) for step in range(4)] == [1, 0.75, 0.5, 0.25]
    assert [decay("thirds", step, 6) for step in range(6)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )
    assert decay("constant", 3, 6) == 1


def test_training_stops_at_the_loss_it_was_asked_for():
    recipe = penchant.Training(epochs=500, batch=10, learning_rate=0.5, until_loss=0.1)
    module = network()
    trainer = Trainer(module, samples(), recipe, seed=0)
    trainer.run()
    assert trainer.finished
    assert trainer.step < recipe.total_steps(50)
    assert trainer.step % 5 == 0
    assert evaluate(module, samples())[0] < 0.12


def test_divergence_is_an_error_that_names_step_and_rate():
    recipe = penchant.Training(steps=50, learning_rate=1e20, loss="squared-error")
    with pytest.raises(
        FloatingPointError,
        match=r"training diverged: loss .* at step \d+; try a smaller learning rate than 1e\+20",
    ):
        Trainer(network(), samples(), recipe, seed=0).run()


def test_training_leaves_the_global_random_state_alone():
    before = torch.random.get_rng_state()
    Trainer(network(dropout=0.5), samples(), penchant.Training(steps=3), seed=0).run()
    assert torch.equal(before, torch.random.get_rng_state())


def test_one_output_is_the_difference_of_two_logits():
    logits = torch.randn(9, 2)
    labels = torch.arange(9) % 2
    one = loss_function("cross-entropy")((logits[:, 1] - logits[:, 0])[:, None], labels)
    torch.testing.assert_close(one, nn.functional.cross_entropy(logits, labels))


def test_squared_error_takes_classes_and_numbers():
    loss = loss_function("squared-error")
    assert float(loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))) == 1.0
    assert float(loss(torch.tensor([[0.5]]), torch.tensor([0]))) == pytest.approx(0.5 * 1.5**2)
    assert float(loss(torch.tensor([[0.5]]), torch.tensor([2.5]))) == 2.0


def test_outputs_are_those_of_one_pass_without_a_graph():
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    inputs = torch.randn(10, 3, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    found = outputs(network, inputs, chunk=3)
    assert not found.requires_grad
    assert torch.equal(found, torch.cat([network(part) for part in inputs.split(3)]))
    torch.testing.assert_close(found, network(inputs))


def reference_weights(made, data, *, seed, steps):
    """Full-batch gradient descent that seeds as `torch.manual_seed` does, written out."""
    made.train()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    golden = 0x9E3779B97F4A7C15
    with torch.random.fork_rng(devices=[]):
        for step in range(steps):
            torch.manual_seed((seed - golden * step) % 2**63)
            optimizer.zero_grad()
            nn.functional.cross_entropy(made(data.inputs), data.labels).backward()
            optimizer.step()
    return parameters(made)


def test_what_layers_draw_is_what_the_global_seed_would_give():
    recipe = penchant.Training(steps=7, batch=0, learning_rate=0.1)
    made = network(dropout=0.4)
    Trainer(made, samples(), recipe, seed=5).run()
    expected = reference_weights(network(dropout=0.4), samples(), seed=5, steps=7)
    assert torch.equal(parameters(made), expected)


def test_a_step_does_not_format_the_stack(monkeypatch):
    def refuse(*given, **named):
        raise AssertionError("the stack was formatted")

    trainer = Trainer(network(), samples(), penchant.Training(steps=3), seed=0)
    monkeypatch.setattr(traceback, "format_stack", refuse)
    trainer.run()
    assert trainer.finished


def test_a_training_leaves_the_global_random_numbers_alone():
    before = torch.get_rng_state()
    Trainer(network(dropout=0.5), samples(), penchant.Training(steps=3), seed=0).run()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.cuda
def test_the_generator_of_the_device_is_seeded_as_by_the_global_seed(gpu):
    if gpu != "cuda":
        pytest.skip("this device has no generators")
    device = torch.device(gpu)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = torch.rand(4, device=device)
        seed_device(device, 3)
        assert torch.equal(torch.rand(4, device=device), expected)


def _followed(device, steps=100, **recipe):
    """A training that has not begun."""
    recipe = penchant.Training(steps=steps, batch=16, learning_rate=0.05, **recipe)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    network, data = network.to(device), samples().to(device, torch.float32)
    return Trainer(network, data, recipe, seed=1)


def test_a_hundred_steps_wait_for_the_device_at_most_three_times():
    """The budget of the loop: losses are read every 50 steps, and nothing else is."""
    with testing.emulated_device() as counts:
        trainer = _followed("emulated")
        counts.syncs.clear()
        trainer.run()
        waits = counts.by_kind()
        found = [parameter.detach().cpu() for parameter in trainer.network.parameters()]
    # Two readings, and the order of samples that is sent once an epoch of four steps.
    assert waits == {"tolist": 2, "to device": 25}
    here = _followed("cpu")
    here.run()
    for there, parameter in zip(found, here.network.parameters()):
        assert torch.equal(there, parameter)


@pytest.mark.parametrize("later", [1, 7, 50])
def test_when_losses_are_read_changes_nothing_but_when_they_are_told(monkeypatch, later):
    from penchant_numerics.training import trainer as module

    monkeypatch.setattr(module, "READ_EVERY", {"cpu": later})
    told, after = [], []
    trainer = _followed("cpu", steps=40, until_loss=0.9)
    trainer.run(losses=lambda step, loss: told.append((step, loss)), after_step=after.append)
    monkeypatch.setattr(module, "READ_EVERY", {"cpu": 1})
    expected = []
    again = _followed("cpu", steps=40, until_loss=0.9)
    again.run(observe=lambda step, loss: expected.append((step, loss)))
    assert told == expected
    assert after == [step for step, _ in expected]
    assert trainer.step == again.step and trainer.finished


def test_a_state_between_readings_has_every_loss_in_it(monkeypatch):
    from penchant_numerics.training import trainer as module

    states = []
    for later in (1, 50):
        monkeypatch.setattr(module, "READ_EVERY", {"cpu": later})
        trainer = _followed("cpu", steps=40)
        for step in range(1, 21):
            trainer.run(until=step, after_step=lambda step: None)
            states.append(trainer.state()["epoch_loss"])
    assert states[:20] == states[20:]


def test_divergence_is_told_with_its_own_step(monkeypatch):
    from penchant_numerics.training import trainer as module

    texts = []
    for later in (1, 50):
        monkeypatch.setattr(module, "READ_EVERY", {"cpu": later})
        trainer = _followed("cpu", steps=100)
        trainer.recipe = penchant.Training(steps=100, batch=16, learning_rate=1e20)
        with pytest.raises(FloatingPointError) as error:
            trainer.run()
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_bfloat16_training_computes_forward_passes_in_few_bits():
    from penchant_numerics.device import precision

    single, half, tf32 = (_followed("cpu", steps=20) for _ in range(3))
    single.run()
    with precision.chosen("bfloat16-training"):
        half.run()
    with precision.chosen("tf32"):
        tf32.run()
    weights = [trainer.network[0].weight.detach() for trainer in (single, half, tf32)]
    assert weights[1].dtype == torch.float32
    assert torch.equal(weights[0], weights[2])
    away = (weights[0] - weights[1]).norm() / weights[0].norm()
    assert 1e-5 < away < 0.05


def test_an_evaluation_is_read_in_one_go():
    torch.manual_seed(0)
    network = nn.Linear(4, 3)
    here = evaluate(network, samples(), chunk=5)
    with testing.emulated_device() as counts:
        there = network.to("emulated")
        data = samples().to("emulated", torch.float32)
        counts.syncs.clear()
        found = evaluate(there, data, chunk=5)
        assert sum(counts.syncs.values()) <= 2
    assert found == here
