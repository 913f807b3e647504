"""Many classes: some of them are looked at, and what does not fit is refused in a sentence."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_class_structure.hessian_spectrum import probe as hessian_spectrum
from penchant_class_structure.shared.measured_network import FirstOutputs, chosen, stderr_of
from penchant_numerics.curvature import loss_curvature
from penchant_numerics.data import Samples
from torch import nn

TINY = {"name": "import", "factory": testing.TINY}
DRAWN = {"steps": 0}
FEW = {"per_class": 4, "lanczos_steps": 8, "grid_points": 16, "training": DRAWN}


def samples_of(classes):
    """Three samples of each class."""
    generator = torch.Generator("cpu").manual_seed(0)
    inputs = torch.randn(3 * classes, 1, 4, 4, generator=generator, device="cpu")
    return inputs, torch.arange(3 * classes, device="cpu") % classes


def measure(probe, *, there=1000, **options):
    """On three samples of each class that is there."""
    inputs, labels = samples_of(there)
    dataset = ((inputs, labels), (inputs[:there], labels[:there]))
    arguments = {"architecture": TINY, **FEW, **options}
    return penchant.measure(probe, dataset=dataset, executor="serial", **arguments)


def test_some_classes_have_their_samples_and_their_outputs():
    samples = Samples(torch.arange(6.0, device="cpu"), torch.tensor([2, 0, 1, 1, 2, 0]))
    kept = chosen(samples, 1, 2)
    assert kept.labels.tolist() == [0, 1]
    assert kept.inputs.tolist() == [1, 2]
    network = nn.Linear(4, 5)
    x = torch.ones(3, 4, device="cpu")
    assert torch.equal(FirstOutputs(network, 2)(x), network(x)[:, :2])


def normalised(shape, outputs):
    """The same network with batch-norm every time; its statistics are not those of any batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, outputs)
        )
        network[2].running_mean += 0.5
    return network


@pytest.mark.parametrize("probe", ["hessian-spectrum", "cross-class"])
def test_some_classes_of_a_network_with_batch_norm_are_measured_in_evaluation_mode(probe):
    """The loss of each sample, and its spread: another mode would change statistics or refuse."""
    inputs, labels = samples_of(4)
    architecture = {"name": "import", "factory": normalised}
    found = measure(probe, there=4, architecture=architecture, classes=2)
    first = labels < 2
    with torch.no_grad():
        seen = normalised((16,), 4).eval()(inputs[first])[:, :2]
    losses = nn.functional.cross_entropy(seen, labels[first], reduction="none")
    loss = found.quantities["loss"]
    assert loss.value == pytest.approx(float(losses.mean()), rel=1e-5)
    assert loss.stderr == pytest.approx(stderr_of(losses, labels[first]), rel=1e-5)


def test_cross_class_of_some_of_a_thousand_classes():
    found = measure("cross-class", classes=3, permutations=1)
    assert found.arrays["eigenvalues-class"].shape == (3,)
    assert found.arrays["eigenvalues-means"].shape == (6,)
    assert found.conventions["classes"].startswith("the first 3 of 1000")
    components = ("class", "cross", "within", "diagonal")
    total = sum(found.quantities[f"trace-{component}"].value for component in components)
    assert total == pytest.approx(found.quantities["trace-total"].value)


def test_a_thousand_classes_are_refused_with_their_bytes():
    with pytest.raises(penchant.Error) as refused:
        measure("cross-class")
    text = str(refused.value)
    assert "the inner products of 1000 x 1000 cross-class means takes 2.98e+04 GiB" in text
    assert "classes = 20" in text


def test_leading_eigenvalues_are_at_most_twenty_by_default():
    options = {"there": 24, "split": "train", "per_class": 1, "exact_limit": 4096}
    options["matrices"] = ["hessian"]
    found = measure("hessian-spectrum", **options)
    assert found.arrays["top-eigenvalues"].shape == (20,)
    found = measure("hessian-spectrum", **options, classes=4)
    assert found.arrays["top-eigenvalues"].shape == (4,)


def test_more_eigenvectors_than_fit_are_refused_before_the_training(monkeypatch):
    monkeypatch.setattr(hessian_spectrum, "parameter_count", lambda context: 25_600_000)
    with pytest.raises(penchant.Error, match=r"1000 leading eigenvectors of 25,600,000 parameters"):
        measure("hessian-spectrum", leading=1000)


def test_classes_that_are_not_there_are_refused():
    with pytest.raises(penchant.Error, match="classes must be at most 1000, found 2000"):
        measure("cross-class", classes=2000)


@pytest.mark.parametrize(
    ("probe", "options"),
    [
        ("hessian-spectrum", {"deflate": False, "trace_samples": 2}),
        ("cross-class", {"products": 1, "permutations": 0}),
    ],
)
def test_numbers_do_not_depend_on_how_many_devices_share_products(monkeypatch, probe, options):
    """Three batches: the sum of two would be the same in any order."""
    monkeypatch.setattr(loss_curvature, "batch_size", lambda device: 2)
    few = {"there": 2, "per_class": 3, "lanczos_steps": 2, "starts": 1}
    options = {**few, "split": "train", "exact_limit": 0, **options}
    found = {}
    for devices in (1, 2):
        with testing.emulated_device() as counts:
            found[devices] = measure(probe, device="emulated", devices=devices, **options)
        assert ("between devices" in counts.by_kind()) == (devices == 2)
    one, two = found[1], found[2]
    assert one.arrays.keys() == two.arrays.keys()
    for name, array in one.arrays.items():
        assert (array == two.arrays[name]).all(), name
