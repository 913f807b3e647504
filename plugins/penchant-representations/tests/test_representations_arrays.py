"""Arrays in place of networks: the same numbers as networks whose features they are."""

import numpy as np
import penchant
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("without_report")

FEW = {"samples": 60, "groups": 3, "shuffles": 3, "neighbours": 2}


class Layers(nn.Module):
    """Three layers whose outputs are looked at."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.three(self.two(self.one(x).tanh()).tanh())


def of_network(dtype, **options):
    """The result of a network, and what its layers give for the test samples."""
    torch.manual_seed(0)
    network, inputs = Layers().to(dtype), torch.randn(90, 6, dtype=dtype)
    labels = torch.arange(90) % 3
    result = penchant.measure(
        "representation-similarity",
        architecture=network,
        dataset=((inputs[:20], labels[:20]), (inputs, labels)),
        dtype=str(dtype).removeprefix("torch."),
        **{**FEW, **options},
    )
    with torch.no_grad():
        one = network.one(inputs)
        two = network.two(one.tanh())
        return result, {"one": one, "two": two, "three": network.three(two.tanh())}


def of_arrays(**options):
    return penchant.measure("representation-similarity", **{**FEW, **options})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_give_what_their_network_gives(dtype):
    expected, features = of_network(dtype)
    found = of_arrays(features=features, dtype=str(dtype).removeprefix("torch."))
    assert found.tables["cka-layers"].axes["layer"] == expected.tables["cka-layers"].axes["layer"]
    compared = list(found.arrays)
    assert {"cka-layers", "procrustes-null", "neighbours-layers-stderr"} <= set(compared)
    # a layer's products over a whole batch and over a minibatch differ in the last bits
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    for name in compared:
        np.testing.assert_allclose(
            found.arrays[name], expected.arrays[name], rtol=tolerance, atol=tolerance
        )
    for name, quantity in found.quantities.items():
        other = expected.quantities[name]
        assert quantity.value == pytest.approx(other.value, abs=tolerance)
        assert quantity.stderr == pytest.approx(other.stderr, rel=1e-3)
        assert quantity.null == pytest.approx(other.null, abs=tolerance)


def test_kernels_give_what_their_features_give():
    _, features = of_network(torch.float64)
    kernels = {name: each @ each.T for name, each in features.items()}
    of_features = of_arrays(features=features, dtype="float64")
    of_kernels = of_arrays(kernels=kernels)
    for name, values in of_features.arrays.items():
        if not name.startswith("neighbours"):
            np.testing.assert_allclose(of_kernels.arrays[name], values, rtol=1e-7, atol=1e-9)
    found = of_kernels.quantities["neighbours"].value
    assert found == pytest.approx(of_features.quantities["neighbours"].value)


def test_cka_is_that_of_its_formula():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 5))
    Y = X @ generator.normal(size=(5, 4)) + generator.normal(size=(40, 4))
    found = of_arrays(
        features={"x": X, "y": Y}, samples=40, groups=2, measures=["cka"], dtype="float64"
    )
    order = found.arrays["cka-layers"]
    assert order.shape == (2, 2)
    # sums over all distinct indices, minibatch by minibatch in the order that was drawn
    rows = torch.randperm(40, generator=_generator(found), device="cpu").numpy()
    hsic = np.zeros((2, 2))
    for batch in rows.reshape(2, 20):
        kernels = []
        for Z in (X, Y):
            K = Z[batch] @ Z[batch].T
            np.fill_diagonal(K, 0)
            kernels.append(K)
        for i, K in enumerate(kernels):
            for j, L in enumerate(kernels):
                n = 20
                hsic[i, j] += (
                    np.trace(K @ L)
                    + K.sum() * L.sum() / ((n - 1) * (n - 2))
                    - 2 / (n - 2) * (K @ L).sum()
                )
    assert order[0, 1] == pytest.approx(hsic[0, 1] / np.sqrt(hsic[0, 0] * hsic[1, 1]), rel=1e-9)


def _generator(result):
    """The random order of the samples: of the seed and the probe's name only."""
    from penchant.seeds import derive

    return torch.Generator("cpu").manual_seed(derive(0, "representation-similarity", "samples"))


def test_files_give_what_arrays_give(tmp_path):
    generator = np.random.default_rng(0)
    features = {"a.conv": generator.normal(size=(60, 5)), "b": generator.normal(size=(60, 4))}
    expected = of_arrays(features=features)
    np.savez(tmp_path / "both.npz", **features)
    np.save(tmp_path / "b.npy", features["b"])
    ways = [
        str(tmp_path / "both.npz"),
        {"a.conv": features["a.conv"].tolist(), "b": str(tmp_path / "b.npy")},
        {name: torch.as_tensor(each) for name, each in features.items()},
    ]
    for given in ways:
        found = of_arrays(features=given)
        assert found.labels == expected.labels
        for name, values in expected.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], values)
    toml = tmp_path / "experiment.toml"
    toml.write_text(
        '[[probes]]\nname = "representation-similarity"\nsamples = 60\ngroups = 3\nshuffles = 3\n'
        f'neighbours = 2\nfeatures = "{tmp_path / "both.npz"}"\n'
    )
    (found,) = penchant.run(toml, out=tmp_path / "run", progress=False).results()
    np.testing.assert_array_equal(found.arrays["cka-layers"], expected.arrays["cka-layers"])


def test_arrays_that_change_are_measured_again(tmp_path):
    generator = np.random.default_rng(0)
    a, b, c = (generator.normal(size=(60, 3)) for _ in range(3))
    features = [{"a": a, "b": b, "c": c}, {"b": b, "a": a, "c": c}]
    values = []
    for given in features:
        np.savez(tmp_path / "both.npz", **given)
        result = of_arrays(features=str(tmp_path / "both.npz"), out=tmp_path / "run", figures=False)
        values.append(result.tables["cka-layers"].axes["layer"])
    # the order decides which arrays correspond
    assert values == [("a", "b", "c"), ("b", "a", "c")]


def test_errors_are_calibrated_and_independent_arrays_differ_from_no_null():
    found, null = [], []
    for seed in range(16):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(200, 4))
        Y = X + generator.normal(size=(200, 4))
        options = {"samples": 200, "groups": 10, "shuffles": 20, "measures": ["cka"], "seed": seed}
        found.append(of_arrays(features={"x": X, "y": Y}, **options).quantities["cka"])
        Z = generator.normal(size=(200, 4))
        null.append(of_arrays(features={"x": X, "z": Z}, **options).quantities["cka"])
    ratio = np.mean([each.stderr for each in found]) / np.std(
        [each.value for each in found], ddof=1
    )
    assert 0.5 < ratio < 2
    scores = [(each.value - each.null) / each.null_spread for each in null]
    assert abs(np.mean(scores)) < 0.8 and 0.6 < np.std(scores) < 1.6
    assert sum(each.is_significant for each in null) <= 2


def test_rows_that_do_not_match_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 3))

    def refused(message, **options):
        with pytest.raises(penchant.Error, match=message):
            of_arrays(**options)

    refused("found 60 rows in 'a' and 59 in 'b'", features={"a": X, "b": X[1:]})
    ids = np.arange(60)
    assert of_arrays(features={"a": X, "b": X}, sample_ids={"a": ids, "b": ids})
    other = {"a": ids, "b": ids[::-1]}
    refused(
        "found 60 ids of 'a' and 60 of 'b', of which 60 differ: in row 0 0 and 59",
        features={"a": X, "b": X},
        sample_ids=other,
    )
    refused("of the shape", features={"a": X, "b": X}, sample_ids={"a": ids, "b": ids[1:]})
    refused(
        "given of 'a', 'b', found those of 'a'", features={"a": X, "b": X}, sample_ids={"a": ids}
    )
    refused("must be different", features={"a": X, "b": X}, sample_ids={"a": ids, "b": 0 * ids})
    refused("at least two arrays", features={"a": X})
    refused("at least two arrays", features=X)
    refused("features.b must be finite", features={"a": X, "b": X * np.nan})
    refused("features.b must be an array, found none", features={"a": X, "b": None})
    refused("features must have an array, found none", features={})
    refused("features or kernels, found both", features={"a": X}, kernels={"a": X})
    refused("compared with each other", features={"a": X, "b": X}, second="seed")
    refused(r"must be \(samples, samples\), found \(60, 3\)", kernels={"a": X, "b": X})
    square = np.random.default_rng(1).normal(size=(60, 60))
    refused("must be symmetric", kernels={"a": square, "b": square})
    refused("takes features or an architecture", features={"a": X, "b": X}, architecture="mlp")
    refused("needs an architecture")


class _Opener:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_an_archive_of_arrays_is_only_read(tmp_path):
    trace, sent = tmp_path / "trace", tmp_path / "sent.npz"
    np.savez(sent, a=np.array([_Opener(trace)], dtype=object), allow_pickle=True)
    with pytest.raises(penchant.Error, match="sent.npz cannot be read"):
        of_arrays(features=str(sent))
    assert not trace.exists()
