"""What a user asked for is what is measured, or it is refused with a sentence."""

import re

import penchant
import penchant_testing as testing
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A network as users write it, without shape and outputs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x)


class Sized(nn.Module):
    """A class that asks for what it needs."""

    def __init__(self, shape, outputs, hidden):
        super().__init__()


MEASURED = """
import attrs
import penchant

@attrs.frozen
class Measured(penchant.Probe):
    \"\"\"The norm of one network.\"\"\"
    name = "measured"
    needs = ("architecture", "dataset")
    takes = ("fresh", "trained")
    target = "penchant_measured:run"
    quantities = {"norm": "of its parameters"}
    presets = {"quick": {"training": {"steps": 5, "learning_rate": 0.5}}}

def run(options, context):
    for step, network in context.trained():
        norm = sum(p.detach().square().sum() for p in network.parameters())
    return penchant.Result({"norm": penchant.Quantity(norm, exact=True)})

@penchant.hookimpl
def penchant_probes():
    return [Measured]
"""


def norm(network):
    return float(sum(p.detach().square().sum() for p in network.parameters()))


def measured(**arguments):
    arguments.setdefault("dataset", {"name": "import", "factory": testing.SAMPLES})
    return penchant.measure("measured", executor="serial", **arguments)


def test_a_module_class_is_an_architecture():
    found = penchant.measure(
        "output-spread",
        architecture=Net,
        dataset={"name": "import", "factory": testing.SAMPLES},
        networks=8,
        executor="serial",
    )
    assert found.quantities["spread"].value > 0


def test_a_class_that_needs_more_says_what():
    with pytest.raises(penchant.Error, match="needs hidden, but only shape, outputs are passed"):
        penchant.measure(
            "output-spread", architecture=Sized, dataset="two-blobs", executor="serial"
        )


def test_weights_are_refused_where_fresh_networks_are_drawn(tmp_path):
    torch.save(Net().state_dict(), tmp_path / "net.pt")
    with pytest.raises(penchant.Error, match="draws fresh networks: the weights .* would not be"):
        penchant.measure(
            "output-spread",
            architecture="perceptron",
            dataset="two-blobs",
            weights=str(tmp_path / "net.pt"),
        )


def test_weights_that_are_not_there_are_refused_before_anything_runs(install):
    install("measured", MEASURED)
    with pytest.raises(penchant.Error, match="there is no file 'nowhere.pt'"):
        measured(architecture=Net, weights="nowhere.pt")


def test_a_module_is_measured_as_it_is(install):
    install("measured", MEASURED)
    network = Net()
    found = measured(architecture=network)
    assert found.quantities["norm"].value == pytest.approx(norm(network), rel=1e-6)
    assert found.conventions["network"] == "the user's own, as it is: not trained"


def test_a_module_is_trained_further_where_that_is_asked_for(install):
    install("measured", MEASURED)
    network = Net()
    found = measured(architecture=network, training={"steps": 3, "learning_rate": 0.5})
    assert found.quantities["norm"].value != pytest.approx(norm(network), rel=1e-6)
    assert found.conventions["network"] == "the user's own, trained further"


def test_weights_are_measured_as_they_are(install, tmp_path):
    install("measured", MEASURED)
    network = Net()
    wrapped = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"state_dict": wrapped}, tmp_path / "net.pt")
    found = measured(architecture=Net, weights=tmp_path / "net.pt")
    assert found.quantities["norm"].value == pytest.approx(norm(network), rel=1e-6)


def test_a_training_for_a_probe_that_does_not_train_is_refused():
    with pytest.raises(penchant.Error, match="nad does not train, found training .epochs."):
        penchant.measure("nad", architecture="logistic", training={"epochs": 3})
    raw = {
        "architectures": [{"name": "logistic"}],
        "training": {"epcohs": 3},
        "probes": [{"name": "nad"}],
    }
    with pytest.raises(penchant.Error, match="training has no option 'epcohs'"):
        penchant.run(raw)


def test_shape_and_outputs_are_in_every_result():
    found = penchant.measure(
        "output-spread", architecture="perceptron", dataset="two-blobs", executor="serial"
    )
    assert found.shape == (2,)
    assert found.outputs == 2


def test_what_no_probe_takes_is_refused():
    raw = {
        "architectures": [{"name": "logistic"}],
        "datasets": [{"name": "two-blobs"}, {"name": "two-circles"}],
        "probes": [{"name": "nad"}],
    }
    message = "no probe uses the dataset 'two-blobs'; of several datasets nad uses those that"
    with pytest.raises(penchant.Error, match=message):
        penchant.run(raw)


def test_a_test_split_is_chosen_from_every_class_with_the_seed():
    labels = torch.arange(100) // 20  # sorted by class
    inputs = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    data = testing.dataset({"name": "import", "factory": (inputs, labels)})
    assert data.test.labels.bincount().tolist() == [4] * 5
    assert data.train.labels.bincount().tolist() == [16] * 5
    assert data.conventions["test split"] == "one in 5 samples of every class, chosen with the seed"
    other = testing.dataset({"name": "import", "factory": (inputs, labels)}, seed=1)
    assert not torch.equal(other.test.inputs, data.test.inputs)


def test_bytes_become_numbers_between_zero_and_one():
    images = torch.full((10, 1, 2, 2), 255, dtype=torch.uint8)
    data = testing.dataset({"name": "import", "factory": (images, torch.arange(10) % 2)})
    assert float(data.train.inputs.max()) == 1.0
    assert data.conventions["inputs"] == "bytes divided by 255"


def test_the_error_of_a_users_network_keeps_its_traceback(install):
    def make(shape, outputs):
        raise ValueError("a bug in my own network")

    with pytest.raises(penchant.Error, match="a bug in my own network") as caught:
        penchant.measure("output-spread", architecture=make, dataset="two-blobs", executor="serial")
    assert any("in make" in note for note in caught.value.__notes__)


def test_text_with_options_names_a_component_in_python_too():
    found = penchant.measure(
        "output-spread",
        architecture="perceptron:width=3",
        dataset="two-blobs:distance=2.0",
        networks=4,
        executor="serial",
    )
    assert found.record["architecture"]["options"] == {"width": 3}
    with pytest.raises(penchant.Error, match="expected a dict with a name and options"):
        penchant.measure("output-spread", architecture={"width": 3}, dataset="two-blobs")


def test_nothing_learnt_is_said(install):
    install("measured", MEASURED)
    found = measured(architecture=Net, training={"steps": 1, "learning_rate": 1e-9})
    assert any(text.startswith("nothing was learnt: training accuracy") for text in found.warnings)


def test_a_report_of_objects_does_not_promise_that_its_file_runs(tmp_path):
    def make(shape, outputs):
        return nn.Linear(*shape, outputs)

    arguments = {"dataset": "two-blobs", "networks": 4, "executor": "serial", "figures": False}
    penchant.measure("output-spread", architecture=make, out=tmp_path / "own", **arguments)
    penchant.measure(
        "output-spread", architecture="perceptron", out=tmp_path / "named", **arguments
    )
    own, named = ((tmp_path / each / "report.html").read_text() for each in ("own", "named"))
    assert (
        "Run the script again that made this" in own and "penchant run experiment.toml" not in own
    )
    assert "penchant run experiment.toml --out ../named-again" in named


def test_what_is_not_obeyed_is_said(install):
    """Frozen parameters count, and so does the last batch of a loader that drops it."""
    install("measured", MEASURED)
    loader = DataLoader(
        TensorDataset(*testing.tiny_samples(torch.Generator())[0]), 7, drop_last=True
    )
    network = Net()
    whole = penchant.measure("measured", architecture=network, dataset=loader)
    assert whole.conventions["import: drop_last"].startswith("not obeyed: all samples")
    assert "frozen parameters" not in whole.conventions
    next(iter(network.parameters())).requires_grad_(False)
    frozen = penchant.measure("measured", architecture=network, dataset=loader)
    assert frozen.conventions["frozen parameters"] == "count as if they were not frozen"
    assert frozen.quantities["norm"].value == whole.quantities["norm"].value


def test_a_checkpoint_that_is_not_finite_is_refused_by_its_file(install, tmp_path):
    install("measured", MEASURED)
    files = []
    for step in (1, 2):
        state = Net().state_dict()
        if step == 2:
            next(iter(state.values())).view(-1)[0] = float("nan")
        files.append(str(tmp_path / f"net-{step}.pt"))
        torch.save(state, files[-1])
    given = {"architecture": Net, "dataset": {"name": "import", "factory": testing.SAMPLES}}
    for weights in (files[1], files):
        with pytest.raises(penchant.Error, match="net-2.pt: '.*' has 1 of .* not finite"):
            penchant.measure("measured", weights=weights, **given)


class Scaling(nn.Module):
    """Writes into what it is given."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x.mul_(2))


@pytest.mark.parametrize("how", ["module", "class", "trajectory", "experiment"])
def test_every_door_asks_what_a_network_must_be(how, install, tmp_path):
    install("measured", MEASURED)
    samples = {"name": "import", "factory": testing.SAMPLES}
    file = tmp_path / "net-1.pt"
    torch.save(Scaling().state_dict(), file)
    message = "it changes its input in place; let forward begin with x = x.clone"
    if how == "experiment":
        network = {"name": "import", "label": "mine", "factory": Scaling, "weights": str(file)}
        raw = {"architectures": [network], "datasets": [samples], "probes": [{"name": "measured"}]}
        run = penchant.run({**raw, "executor": "serial"}, out=tmp_path / "out", progress=False)
        (failed,) = run.results()
        assert failed.error.startswith(f"architecture 'mine': {message}")
        return
    given = {"architecture": Scaling() if how == "module" else Scaling}
    if how != "module":
        given["weights"] = [file] if how == "trajectory" else file
    with pytest.raises(penchant.Error, match=re.escape(message)):
        penchant.measure("measured", dataset=samples, **given)


def test_the_accuracy_of_her_network_is_recorded(install, tmp_path, capsys):
    install("measured", MEASURED)
    inputs = torch.randn(130, 4, generator=torch.Generator().manual_seed(1))
    labels = Net().linear(inputs).argmax(1)
    wrong = (labels + 1) % 3
    network = Net()
    right = float((network(inputs).argmax(1) == wrong).float().mean())
    given = {"architecture": network, "dataset": ((inputs, wrong), (inputs, wrong))}
    found = penchant.measure("measured", **given)
    assert found.record["accuracy"]["value"] == pytest.approx(right)
    assert found.record["accuracy"]["samples"] == 130
    run = {"architectures": [{"name": "import", "factory": Net}], "probes": [{"name": "measured"}]}
    run["datasets"] = [{"name": "import", "factory": lambda: ((inputs, labels), (inputs, labels))}]
    # Networks that are trained here have their own warning.
    fresh = penchant.run({**run, "executor": "serial"}, out=tmp_path / "out", progress=False)
    assert "accuracy" not in fresh.results()[0].record
