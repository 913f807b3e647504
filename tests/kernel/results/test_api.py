"""Penchant from Python: networks and data of the user's, checkpoints, trained networks, reading a run."""

import attrs
import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_example.declarations import spread as spread_role
from torch import nn


def make(shape, outputs):
    return nn.Linear(*shape, outputs)


def make_wrong(shape, outputs):
    return nn.Linear(99, outputs)


def make_nan(shape, outputs):
    network = nn.Linear(*shape, outputs)
    nn.init.constant_(network.bias, float("nan"))
    return network


def make_many(shape, outputs):
    return nn.Linear(*shape, outputs + 1)


def pair():
    inputs = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    return inputs, (inputs[:, 0] > 0).long()


def spread(**parts):
    return penchant.measure("output-spread", networks=8, executor="serial", **parts)


@pytest.mark.parametrize(
    "data",
    [
        pair,
        pair(),
        (pair(), pair()),
        torch.utils.data.TensorDataset(*pair()),
        "penchant_testing:tiny_samples",
        tuple(np.asarray(x) for x in pair()),
    ],
    ids=["factory", "tensors", "train and test", "torch dataset", "path", "arrays"],
)
def test_any_pair_of_tensors_or_torch_dataset_is_a_dataset(data):
    dataset = {"name": "import", "factory": data} if isinstance(data, str) else data
    assert spread(architecture=make, dataset=dataset).quantities["spread"].value > 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x)


def test_one_module_is_refused_where_fresh_networks_are_drawn():
    with pytest.raises(penchant.Error, match="draws fresh networks, found one module .Linear."):
        spread(architecture=nn.Linear(4, 2), dataset=pair())


def test_a_class_or_callable_is_an_architecture():
    assert spread(architecture=Net, dataset=pair()).quantities["spread"].value > 0
    assert spread(architecture=make, dataset=pair()).quantities["spread"].value > 0
    assert (
        spread(architecture=lambda shape, outputs: nn.Linear(*shape, outputs), dataset=pair())
        .quantities["spread"]
        .value
        > 0
    )


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (make_wrong, "architecture 'import' does not take inputs of shape 4"),
        (make_nan, "'bias' has 2 of 2 values that are not finite"),
        (make_many, "gives 1 x 3 for one input of shape 4, expected 1 x 2"),
        (lambda: 3, "must return a torch.nn.Module, found int"),
        (lambda: nn.Flatten(), "has no parameters, expected at least one"),
        ("no.such.module:thing", "cannot be loaded"),
    ],
)
def test_a_network_that_does_not_fit_is_a_clear_error(factory, message):
    architecture = {"name": "import", "factory": factory}
    with pytest.raises(penchant.Error, match=message):
        spread(architecture=architecture, dataset=pair())


def make_spread(shape, outputs):
    from torch.distributed.tensor import distribute_module, init_device_mesh

    return distribute_module(nn.Linear(*shape, outputs), init_device_mesh("cpu", (1,)))


@pytest.mark.slow
def test_a_network_that_is_spread_over_processes_is_refused():
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        told = (
            r"is spread over several processes \(the parameter weight is a DTensor\); give it whole"
        )
        with pytest.raises(penchant.Error, match=told):
            spread(architecture={"name": "import", "factory": make_spread}, dataset=pair())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "expected .inputs, labels. or a torch dataset, found int"),
        ((torch.zeros(3, 4), torch.zeros(2, dtype=torch.long)), "inputs and|labels"),
        ((torch.full((9, 4), float("inf")), torch.zeros(9, dtype=torch.long)), "not finite"),
    ],
)
def test_data_that_does_not_fit_is_a_clear_error(data, message):
    with pytest.raises(penchant.Error, match=message):
        spread(architecture=make, dataset={"name": "import", "factory": data})


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_where_there_is_none_is_told_before_anything_runs():
    with pytest.raises(
        penchant.Error, match="device 'cuda' is not available: .*CUDA.*; or use device = 'cpu'"
    ):
        spread(architecture=make, dataset=pair(), device="cuda")
    with pytest.raises(
        penchant.Error, match="device must be auto, cpu, cuda or cuda:N, found 'gpu'"
    ):
        spread(architecture=make, dataset=pair(), device="gpu")


def test_workers_take_devices_in_turn(monkeypatch):
    from penchant.execution.job.devices import resolve_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(resolve_device("auto", worker)) for worker in range(3)] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
    ]
    assert [str(resolve_device("cuda:1", worker)) for worker in range(2)] == ["cuda:1", "cuda:1"]
    assert str(resolve_device("cpu", 1)) == "cpu"
    with pytest.raises(penchant.Error, match="there are 2 CUDA devices"):
        resolve_device("cuda:2", 0)


def trained(folder, **changes):
    raw = {
        "architectures": [{"name": "import", "factory": testing.TINY, **changes.pop("own", {})}],
        "datasets": [{"name": "import", "factory": "penchant_testing:tiny_samples"}],
        "probes": [{"name": "trained", **changes.pop("probe", {})}],
        "executor": "serial",
        **changes,
    }
    return penchant.run(raw, out=folder)


def test_training_is_shared_resumed_and_observed_at_any_step(tmp_path, install):
    install("trained")
    training = {"steps": 40, "batch": 30, "learning_rate": 0.2, "momentum": 0.9}
    few = trained(tmp_path / "few", training=training, probe={"steps": [0, 7, 40]}).results()[0]
    raw = [{"name": "trained", "label": "late"}, {"name": "trained", "steps": [0, 7, 25, 40]}]
    both = trained(tmp_path / "both", training=training, probes=raw)
    assert len(list((tmp_path / "both" / "networks").iterdir())) == 1
    late, many = both.results(probe="late")[0], both.results(probe="trained")[0]
    assert many.arrays["steps"].tolist() == [0, 7, 25, 40]
    assert many.arrays["norms"][[0, 1, 3]].tolist() == few.arrays["norms"].tolist()
    assert late.arrays["norms"][0] == few.arrays["norms"][2]


def test_networks_are_dropped_when_asked(tmp_path, install):
    install("trained")
    trained(tmp_path / "run", training={"steps": 2}, store_networks=False)
    assert not (tmp_path / "run" / "networks").exists()


def test_steps_beyond_the_training_are_refused(tmp_path, install):
    install("trained")
    failed = trained(tmp_path / "run", training={"steps": 5}, probe={"steps": [9]}).results()[0]
    assert failed.error == "the training has 5 steps, found steps 9 to 9"


def test_a_sweep_keeps_the_rate_with_the_smallest_test_error(tmp_path, install):
    install("trained")
    swept = trained(
        tmp_path / "swept", training={"epochs": 5, "batch": 10, "learning_rates": [1e-6, 0.3]}
    ).results()[0]
    best = trained(
        tmp_path / "best", training={"epochs": 5, "batch": 10, "learning_rate": 0.3}
    ).results()[0]
    assert swept.arrays["norms"].tolist() == best.arrays["norms"].tolist()
    assert swept.conventions["learning rate"].startswith("0.3, smallest test error")


def test_weights_replace_training_and_a_mismatch_lists_names(tmp_path, install):
    install("trained")
    network = testing.tiny_network((4,), 3)
    torch.save(network.state_dict(), tmp_path / "good.pt")
    good = trained(tmp_path / "good", own={"weights": str(tmp_path / "good.pt")}).results()[0]
    assert good.arrays["norms"][0] == pytest.approx(
        float(sum(p.detach().square().sum() for p in network.parameters()))
    )
    state = network.state_dict()
    state["other.weight"] = state.pop("1.weight")
    torch.save(state, tmp_path / "bad.pt")
    bad = trained(tmp_path / "bad", own={"weights": str(tmp_path / "bad.pt")}).results()[0]
    assert "missing ['1.weight'], unexpected ['other.weight']" in bad.error
    (tmp_path / "junk.pt").write_text("junk")
    junk = trained(tmp_path / "junk", own={"weights": str(tmp_path / "junk.pt")}).results()[0]
    assert "cannot be read as a checkpoint" in junk.error


def test_a_run_is_read_as_a_table(tmp_path):
    raw = {
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 8}],
        "figures": False,
    }
    penchant.run({**raw, "seeds": [3, 4], "executor": "serial"}, out=tmp_path / "run")
    run = penchant.read(tmp_path / "run")
    assert [row["seed"] for row in run.table()] == [3, 4]
    assert run.results(probe="output-spread", seed=4)[0].options == {"networks": 8}
    assert run.results(seed=5) == []
    with pytest.raises(
        penchant.Error,
        match="results are chosen by probe, architecture, dataset and seed, found 'sed'",
    ):
        run.results(sed=4)
    with pytest.raises(penchant.Error, match="is not a run folder"):
        penchant.read(tmp_path)


def test_a_stored_array_is_handed_to_another_probe(tmp_path):
    penchant.measure(
        "nad",
        architecture="logistic",
        shape=(1, 4, 4),
        networks=20,
        executor="serial",
        figures=False,
        out=tmp_path / "nads",
    )
    options = {
        "shape": (1, 4, 4),
        "indices": [0, 3],
        "train": 40,
        "test": 40,
        "training": {"epochs": 1},
        "executor": "serial",
    }
    found = penchant.measure(
        "directional-accuracy",
        architecture="logistic",
        directions=f"run:{tmp_path / 'nads'}#directions",
        **options,
    )
    assert found.arrays["indices"].tolist() == [0, 3]
    with pytest.raises(
        penchant.Error, match="0 jobs of .* have an array 'direction', expected one"
    ):
        penchant.measure(
            "directional-accuracy",
            architecture="logistic",
            directions=f"run:{tmp_path / 'nads'}#direction",
            **options,
        )
    with pytest.raises(
        penchant.Error, match="must be an array, a file ending in .npy or run:FOLDER#array"
    ):
        penchant.measure(
            "directional-accuracy", architecture="logistic", directions="nads.txt", **options
        )


def test_non_finite_numbers_are_errors_unless_named_missing():
    bad = penchant.Result({"x": penchant.Quantity(float("nan"))}, {"a": np.array([1.0, np.inf])})
    with pytest.raises(penchant.Error, match="quantity 'x' has value nan"):
        bad.check()
    with pytest.raises(penchant.Error, match="array 'a' has 1 of 2 values that are not finite"):
        penchant.Result({}, {"a": np.array([1.0, np.inf])}).check()
    penchant.Result(
        {"x": penchant.Quantity(float("nan"))}, {"a": np.array([np.inf])}, missing=["x", "a"]
    ).check()


def test_a_quantity_reads_as_it_should():
    assert (
        str(penchant.Quantity(0.25, stderr=0.0123, null=0.0, unit="nats"))
        == "0.250 ± 0.012 (null 0) nats"
    )
    assert str(penchant.Quantity(float("nan"), stderr=1.0)) == "missing"


def test_a_network_without_data_is_told_what_to_give():
    message = "does not take inputs of shape .*; set shape to the shape of one input, or give a"
    with pytest.raises(penchant.Error, match=message):
        penchant.measure("nad", architecture=nn.Linear(7, 1))


@attrs.frozen
class Range(penchant.Estimator):
    """Half of the range: a spread that is easily checked."""

    name = "half-range"
    role = spread_role

    factor: float = penchant.option(0.5, "factor of the range")

    @staticmethod
    def target(options, context, values):
        return float(options.factor * np.ptp(values)), 0.1


def test_an_estimator_of_ones_own_is_a_class_in_place_of_a_name():
    data = (pair(), pair())
    result = spread(architecture=make, dataset=data, estimators={"spread": Range}, seed=3)
    means = result.arrays["means"]
    assert result.quantities["spread"].value == pytest.approx(np.ptp(means) / 2, rel=1e-6)
    assert "half-range" in str(result.record["estimators"])


def test_an_estimator_of_another_role_is_refused_as_by_its_name():
    with pytest.raises(penchant.Error, match="has the role spread, expected directions"):
        penchant.measure("nad", architecture=make, shape=(4,), estimators={"directions": Range})
