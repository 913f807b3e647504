"""Weights of the user's: files as trainers write them, and the checkpoints of one training."""

import argparse
import json
import pickle

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_import.state_files import load_weights, read_tensors
from penchant_import.weight_files import find_weights
from safetensors.torch import save_file
from test_import_requests import MEASURED, Net, norm

pytestmark = pytest.mark.usefixtures("without_report")

STEPS = (0, 5, 20, 100)


@pytest.fixture
def checkpoints(tmp_path):
    """Four states of a training, in files named by their steps."""
    folder = tmp_path / "run"
    return folder, training(folder, torch.save, "net-{}.pt")


def training(folder, save, name):
    """Save the states of a training, each scaled by another number; returns their norms."""
    folder.mkdir()
    network = Net()
    norms = []
    for step in STEPS:
        for parameter in network.parameters():
            parameter.data *= 1.5
        save(network.state_dict(), folder / name.format(step))
        norms.append(norm(network))
    return norms


def along(**arguments):
    arguments.setdefault("dataset", {"name": "import", "factory": testing.SAMPLES})
    return penchant.measure("measured", architecture=Net, executor="serial", **arguments)


def test_a_pattern_a_folder_and_a_list_are_one_trajectory(checkpoints):
    folder, _ = checkpoints
    files = [str(folder / f"net-{step}.pt") for step in reversed(STEPS)]
    for given in (str(folder / "*.pt"), str(folder), files):
        found = find_weights(given, "here")
        assert found.steps == STEPS
        assert list(found.files) == files[::-1]
    assert find_weights(files[0], "here").steps is None


def test_a_probe_of_one_network_measures_every_state(install, checkpoints):
    install("measured", MEASURED)
    folder, norms = checkpoints
    found = along(weights=folder)
    np.testing.assert_array_equal(found.arrays["steps"], STEPS)
    np.testing.assert_allclose(found.arrays["norm-by-step"], norms, rtol=1e-6)
    assert found.quantities["norm"].value == pytest.approx(norms[-1], rel=1e-6)
    assert found.conventions["trajectory"].startswith("4 states, steps 0 to 100;")


def test_tables_have_a_row_for_every_step(install, checkpoints, tmp_path):
    install("measured", MEASURED)
    folder, norms = checkpoints
    along(weights=str(folder / "*.pt"), out=tmp_path / "out", label="mine")
    run = penchant.read(tmp_path / "out")
    frame = run.to_pandas()
    assert list(frame["step"]) == list(STEPS)
    assert set(frame["architecture"]) == {"mine"}
    data = run.to_xarray()
    curve = data["norm"].sel(architecture="mine", seed=0).squeeze()
    np.testing.assert_allclose(curve.sel(step=20), norms[2], rtol=1e-6)
    one = run.results()[0].to_xarray()
    np.testing.assert_allclose(one["norm-by-step"].sel(step=5), norms[1], rtol=1e-6)
    assert one["step"].dtype.kind == "i"


def test_another_state_is_another_job_with_the_same_name(install, checkpoints, tmp_path):
    """The id is that of the pattern; a further checkpoint computes it again."""
    install("measured", MEASURED)
    folder, _ = checkpoints
    first = along(weights=folder, out=tmp_path / "out")
    torch.save(Net().state_dict(), folder / "net-200.pt")
    again = along(weights=folder, out=tmp_path / "out")
    assert first.record["id"] == again.record["id"]
    assert list(again.arrays["steps"]) == [*STEPS, 200]


FOLLOWED = MEASURED.replace("measured", "followed").replace(
    'takes = ("fresh", "trained")', 'takes = ("fresh", "trajectory")'
).replace(
    "    for step, network in context.trained():\n"
    "        norm = sum(p.detach().square().sum() for p in network.parameters())\n"
    '    return penchant.Result({"norm": penchant.Quantity(norm, exact=True)})',
    "    steps = [step for step, _ in context.trained()]\n"
    "    some = [step for step, _ in context.trained([20, 5])]\n"
    '    exact = penchant.Quantity(1.0, exact=True)\n'
    '    return penchant.Result({"norm": exact}, {"steps": steps, "some": some})',
)  # fmt: skip


def test_a_probe_that_follows_a_trajectory_is_given_all_states_or_those_it_asks_for(
    install, checkpoints
):
    install("followed", FOLLOWED)
    folder, _ = checkpoints
    arguments = {"architecture": Net, "dataset": {"name": "import", "factory": testing.SAMPLES}}
    found = penchant.measure("followed", **arguments, weights=folder, executor="serial")
    assert list(found.arrays["steps"]) == list(STEPS)
    assert list(found.arrays["some"]) == [5, 20]
    with pytest.raises(penchant.Error, match="probes that take a trained network: "):
        penchant.measure("followed", **arguments, weights=folder / "net-5.pt", executor="serial")


def test_a_trajectory_is_not_trained_further(install, checkpoints):
    install("measured", MEASURED)
    with pytest.raises(penchant.Error, match="checkpoints of a training are measured as they are"):
        along(weights=checkpoints[0], training={"steps": 3})


def test_a_refusal_names_the_probes_that_take_it(checkpoints):
    data = {"name": "import", "factory": testing.SAMPLES}
    arguments = {"architecture": Net, "dataset": data, "executor": "serial"}
    with pytest.raises(penchant.Error, match="probes that take a trajectory: .*hessian-spectrum"):
        penchant.measure("output-spread", **arguments, weights=checkpoints[0])


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["epoch=1-step=50.ckpt", "epoch=2-step=100.ckpt"], (50, 100)),
        (["ep1.pt", "ep10.pt", "ep2.pt"], (1, 2, 10)),
        (["v2_step3.pth", "v2_step12.pth"], (3, 12)),
        (["model_0007.pt", "model_0011.pt"], (7, 11)),
        (["ckpt-500.pt", "ckpt-1k.pt", "ckpt-2k.pt", "ckpt-5k.pt"], (500, 1000, 2000, 5000)),
        (["seed_0-step_20K.pt", "seed_0-step_1.5M.pt"], (20_000, 1_500_000)),
        (["step1e1.pt", "step2e3.pt"], (10, 2000)),
        (["net_1.5k.pt", "net_200.pt"], (200, 1500)),
        (["epoch=02-val_loss=0.35.ckpt", "epoch=11-val_loss=0.05.ckpt"], (2, 11)),
        (["100epochs.pt", "20epochs.pt"], (20, 100)),
    ],
)
def test_steps_are_numbers_in_the_names(tmp_path, names, steps):
    for name in names:
        torch.save({}, tmp_path / name)
    assert find_weights(str(tmp_path), "here").steps == steps


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["epoch0.5.pt", "epoch1.5.pt"], "step '0.5' in the name 'epoch0.5' is no whole number"),
        (["step-10m.pt", "step-20m.pt"], "'10m' in the name 'step-10m' is not clearly a step"),
        (["step_10_000.pt", "step_900.pt"], "'10_000' in the name 'step_10_000' is not clearly"),
        (["net-1.2.3.pt", "net-1.2.4.pt"], "'1.2.3' in the name 'net-1.2.3' is not clearly a step"),
        (["step1-step5.pt", "step2-step6.pt"], "the step in the name 'step1-step5' may be 1 or 5"),
        (["phase-1.pt", "tuned-3.pt"], "'phase-1' and 'tuned-3' differ by more than a number"),
        (["step-1.pt", "step-2-ema.pt"], "averaged weights, .*step-1.pt' has not"),
    ],
)
def test_names_that_may_mean_several_orders_are_refused(tmp_path, names, message):
    for name in names:
        torch.save({}, tmp_path / name)
    with pytest.raises(penchant.Error, match=message):
        find_weights(str(tmp_path), "here")


def test_the_step_in_a_file_counts_more_than_the_one_in_its_name(tmp_path):
    for name, step in (("step-1", 300), ("step-2", 100)):
        torch.save({"global_step": step}, tmp_path / f"{name}.pt")
    assert find_weights(str(tmp_path), "here").steps == (100, 300)
    # an epoch that never changes orders nothing
    for name in ("step-1", "step-2"):
        torch.save({"epoch": 3}, tmp_path / f"{name}.pt")
    assert find_weights(str(tmp_path), "here").steps == (1, 2)


def test_raw_and_averaged_weights_are_no_trajectory(tmp_path):
    """Averages as timm and torch store them, under names that do not say so."""
    network = torch.nn.Linear(2, 1)
    averaged = torch.optim.swa_utils.AveragedModel(network)
    for content in ({"state_dict_ema": network.state_dict()}, {"model": averaged.state_dict()}):
        torch.save({"model": network.state_dict()}, tmp_path / "step-1.pt")
        torch.save(content, tmp_path / "step-2.pt")
        with pytest.raises(penchant.Error, match=r"step-2.pt' has averaged weights, .*step-1.pt'"):
            find_weights(str(tmp_path), "here")
        torch.save(content, tmp_path / "step-1.pt")
        assert find_weights(str(tmp_path), "here").steps == (1, 2)


def test_steps_are_numbers_in_the_files_where_names_have_none(tmp_path):
    for name, step in (("last", 30), ("first", 10)):
        torch.save({"epoch": step // 10, "global_step": step}, tmp_path / f"{name}.ckpt")
    assert find_weights(str(tmp_path / "*.ckpt"), "here").steps == (10, 30)
    torch.save({}, tmp_path / "none.ckpt")
    with pytest.raises(penchant.Error, match=r"no step is in the name of .*none.ckpt', nor in it"):
        find_weights(str(tmp_path), "here")


def test_mistakes_name_what_was_found(tmp_path):
    for name in ("step-1k.pt", "step-1000.pt"):
        torch.save({}, tmp_path / name)
    both = r"two checkpoints have the step 1000: .*step-1000.pt.*step-1k.pt"
    with pytest.raises(penchant.Error, match=both):
        find_weights(str(tmp_path), "here")
    with pytest.raises(penchant.Error, match="no file is like"):
        find_weights(str(tmp_path / "*.ckpt"), "here")
    (tmp_path / "empty").mkdir()
    with pytest.raises(penchant.Error, match="has no checkpoints"):
        find_weights(str(tmp_path / "empty"), "here")
    with pytest.raises(penchant.Error, match="weights must be a file, .* found int"):
        find_weights(3, "here")


# ---- one file


def test_lightning_files_with_a_namespace_are_read(install, tmp_path):
    install("measured", MEASURED)
    network = Net()
    state = {f"net.{name}": tensor for name, tensor in network.state_dict().items()}
    saved = {"state_dict": state, "hyper_parameters": argparse.Namespace(width=3), "epoch": 4}
    torch.save(saved, tmp_path / "net.ckpt")
    found = along(weights=tmp_path / "net.ckpt")
    assert found.quantities["norm"].value == pytest.approx(norm(network), rel=1e-6)


class Attack:
    """What a file of a stranger may hold: a call."""

    def __reduce__(self):
        return eval, ("__import__('pathlib').Path('executed').touch()",)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {"w": torch.ones(2)}, "evil": Attack()}, "net.ckpt")
    found = read_tensors(tmp_path / "net.ckpt")
    assert not (tmp_path / "executed").exists()
    torch.testing.assert_close(found["state_dict"]["w"], torch.ones(2))
    # The same file does it where it is unpickled.
    torch.load("net.ckpt", weights_only=False)
    assert (tmp_path / "executed").exists()


def test_what_is_no_checkpoint_is_refused_without_the_advice_of_torch(tmp_path):
    (tmp_path / "junk.pt").write_bytes(pickle.dumps(Attack()))
    with pytest.raises(penchant.Error) as caught:
        read_tensors(tmp_path / "junk.pt")
    text = str(caught.value)
    assert "cannot be read as a checkpoint" in text
    assert "weights_only" not in text
    assert "\x1b" not in text


def test_programs_are_refused(tmp_path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(tmp_path / "net.pt"))
    with pytest.raises(penchant.Error, match="cannot be read as a checkpoint"):
        read_tensors(tmp_path / "net.pt")


def test_safetensors_and_their_parts_are_read(install, tmp_path):
    install("measured", MEASURED)
    network = Net()
    state = network.state_dict()
    save_file(state, tmp_path / "net.safetensors")
    folder = tmp_path / "hub"
    folder.mkdir()
    for number, (name, tensor) in enumerate(state.items()):
        save_file({name: tensor}, folder / f"model-{number}.safetensors")
    names = {name: f"model-{number}.safetensors" for number, name in enumerate(state)}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    for given in (tmp_path / "net.safetensors", index, folder):
        assert along(weights=given).quantities["norm"].value == pytest.approx(norm(network))
    index.write_text(json.dumps({"weight_map": {"x": "../net.safetensors"}}))
    with pytest.raises(penchant.Error, match="expected a file of the same folder"):
        read_tensors(index)


def test_weights_that_the_network_has_not_are_named_and_left_out_where_asked_for(install, tmp_path):
    install("measured", MEASURED)
    network = Net()
    state = {f"net.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save({"state_dict": {**state, "criterion.weight": torch.ones(3)}}, tmp_path / "net.ckpt")
    with pytest.raises(penchant.Error, match=r"unexpected \['criterion.weight'\]; strict = false"):
        along(weights=tmp_path / "net.ckpt")
    found = along(weights=tmp_path / "net.ckpt", strict=False)
    assert found.quantities["norm"].value == pytest.approx(norm(network), rel=1e-6)
    assert "left out: ['criterion.weight']" in found.conventions["weights"]


def sharded(state, path):
    """A folder as transformers' Trainer writes it: an index, and a file for each tensor."""
    folder = path.with_suffix("")
    folder.mkdir()
    names = {}
    for number, (name, tensor) in enumerate(state.items()):
        names[name] = f"model-{number}.safetensors"
        save_file({name: tensor}, folder / names[name])
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))


def saved_as(wrap):
    return lambda state, path: torch.save(wrap(state), path)


def under(prefix, state):
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


KINDS = {
    "model": saved_as(lambda state: {"model": state, "epoch": 3}),
    "module": saved_as(lambda state: under("module.", state)),
    "lightning": saved_as(
        lambda state: {
            "state_dict": under("net.", state),
            "hyper_parameters": argparse.Namespace(width=3),
            "pytorch-lightning_version": "2.5",
        }
    ),
    "pickled object": saved_as(lambda state: {"model_state_dict": state, "extra": Attack()}),
    "safetensors": lambda state, path: save_file(state, path.with_suffix(".safetensors")),
    "shards": sharded,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_each_kind_of_checkpoint_is_a_trajectory(install, tmp_path, monkeypatch, kind):
    install("measured", MEASURED)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    norms = training(folder, KINDS[kind], "checkpoint-{}.ckpt")
    found = along(weights=folder)
    np.testing.assert_array_equal(found.arrays["steps"], STEPS)
    np.testing.assert_allclose(found.arrays["norm-by-step"], norms, rtol=1e-6)
    assert not (tmp_path / "executed").exists()


def test_a_trajectory_with_one_more_buffer_is_read_where_that_is_asked_for(install, tmp_path):
    install("measured", MEASURED)
    network = Net()
    for step in STEPS:
        state = {**under("net.", network.state_dict()), "criterion.weight": torch.ones(3)}
        torch.save({"state_dict": state}, tmp_path / f"epoch={step}.ckpt")
    with pytest.raises(penchant.Error, match=r"unexpected \['criterion.weight'\]; strict = false"):
        along(weights=tmp_path)
    found = along(weights=tmp_path, strict=False)
    np.testing.assert_array_equal(found.arrays["steps"], STEPS)
    assert "left out: ['criterion.weight']" in found.conventions["weights"]


def test_a_head_for_other_classes_stays_the_networks_own_where_that_is_asked_for(tmp_path):
    def network(outputs):
        return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, outputs))

    given, taken = network(1000), network(3)
    before = taken[1].weight.clone()
    torch.save(given.state_dict(), tmp_path / "net.pt")
    with pytest.raises(penchant.Error, match="1000 outputs: strict = false takes the rest"):
        load_weights(taken, tmp_path / "net.pt", "own")
    note = load_weights(taken, tmp_path / "net.pt", "own", strict=False)
    assert "own stay: ['1.weight', '1.bias']" in note
    assert torch.equal(taken[0].weight, given[0].weight) and torch.equal(taken[1].weight, before)
    # Nothing else may differ: an inner layer of another width is no head.
    torch.save(
        torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)).state_dict(),
        tmp_path / "w.pt",
    )
    with pytest.raises(penchant.Error, match=r"0.weight \(5, 4\), expected \(6, 4\)"):
        load_weights(taken, tmp_path / "w.pt", "own", strict=False)


def test_a_head_that_does_not_fit_is_named(install, tmp_path):
    install("measured", MEASURED)
    torch.save(torch.nn.Linear(4, 1000).state_dict(), tmp_path / "net.pt")
    state = torch.load(tmp_path / "net.pt")
    torch.save({f"linear.{name}": tensor for name, tensor in state.items()}, tmp_path / "net.pt")
    with pytest.raises(penchant.Error, match="the head 'linear' is for 1000 outputs"):
        along(weights=tmp_path / "net.pt")


def test_a_tensor_that_the_network_uses_twice_may_be_in_the_file_once(tmp_path):
    def tied():
        network = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False))
        network[1].weight = network[0].weight
        return network

    given, taken = tied(), tied()
    torch.save({"0.weight": given[0].weight}, tmp_path / "once.pt")
    assert load_weights(taken, tmp_path / "once.pt", "tied") == ""
    assert torch.equal(taken[1].weight, given[0].weight)
    torch.save({}, tmp_path / "none.pt")
    with pytest.raises(penchant.Error, match="missing"):
        load_weights(taken, tmp_path / "none.pt", "tied")
